"""Questions to our file: functions of a connection, asked by their names with ``store.ask``."""
