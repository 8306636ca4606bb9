"""Questions about recorded sessions, each answered as values for every face."""
