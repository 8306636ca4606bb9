"""Writes docs/commands.md: every command, and every option with its meaning, as the program has them.

``python -m tests.set_option_reference``; ``tests/test_option_meanings.py`` compares.
"""

from __future__ import annotations

from tests.support.option_meanings import DOCUMENT, reference

if __name__ == "__main__":
    DOCUMENT.write_text(reference(), "utf-8")
