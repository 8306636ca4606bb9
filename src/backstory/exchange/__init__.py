"""Copies between our files: sessions copied, merged, exported and imported."""
