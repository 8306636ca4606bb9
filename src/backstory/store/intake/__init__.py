"""Records on their way into the tables, and the facts that follow from them; of logs, runs and the API."""
