"""The team server: history that several people share, in PostgreSQL."""
