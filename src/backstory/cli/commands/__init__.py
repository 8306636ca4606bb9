"""A module a command: its options, and the one call that does its work."""
