"""Text that a terminal shows and does not obey: control characters from logs and stores become visible.

Escaped are: control characters except tab and newline, characters that change the writing direction, invisible
format characters, line and paragraph separators, and surrogates. Characters of normal text stay: joiners (emoji,
Persian), variation selectors, prefixes of Arabic numbers, and flags that are spelled in tags.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable

_ACTS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_ACTING = lazy_regex(f"[{_ACTS}]")
_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
"""The flag of a region; all other tags are hidden text."""
_FLAG_OR_ACTING = lazy_regex(f"{_FLAG}|[{_ACTS}]")


def clean(text: str) -> str:
    """Return text with every acting character as an escape: ``\\x1b``, ``\\u202e``, ``\\U000e0041``."""
    return _replaced(text, _escape)


def clean_json(text: str) -> str:
    """Return JSON with the same value, in which acting characters are JSON escapes."""
    return _replaced(text, _escape_in_json)


def _replaced(text: str, escape: Callable[[re.Match[str]], str]) -> str:
    # Nearly all text is printable, which is faster to check than to search.
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable() or not _ACTING.search(text):
        return text
    return _FLAG_OR_ACTING.sub(escape, text)


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    if len(letter) > 1:
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    letter = found.group()
    if len(letter) > 1:
        return letter
    code = ord(letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
