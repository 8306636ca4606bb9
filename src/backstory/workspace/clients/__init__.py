"""The clients of agents: their settings, their logs, and sessions handed over to them."""
