"""The screen, by a pilot that types."""
