"""The face for agents: history as tools of the Model Context Protocol, over stdin and stdout."""
