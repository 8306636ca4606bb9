"""The screen: sessions, what happened in them, and keys for everything. Needs the extra ``tui``."""
