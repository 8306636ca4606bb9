"""The screen: sessions, what happened in them, and keys for everything. Needs the extra ``tui``."""

COLUMNS_LEAST, LINES_LEAST = 60, 15
"""The smallest terminal that the screen is drawn on."""
