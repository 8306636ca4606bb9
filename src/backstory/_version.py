"""The version, as a constant: reading package metadata at start-up would cost 50 ms."""

__version__ = "0.1.0"
