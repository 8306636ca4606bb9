"""Measurements: ``python -m bench LOGS`` prints one table, each module alone its part of it."""
