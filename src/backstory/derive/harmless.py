"""Text that a terminal shows and does not obey: control characters from logs and stores become visible.

Escaped are: control characters except tab and newline, characters that change the writing direction, invisible
format characters, line and paragraph separators, and surrogates. Characters of normal text stay: joiners (emoji,
Persian), variation selectors, prefixes of Arabic numbers, and flags that are spelled in tags.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable

_ACTS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_ACTING = lazy_regex(f"[{_ACTS}]")
_FLAG_BEGINS = "\U0001f3f4"
_FLAG = lazy_regex(f"({_FLAG_BEGINS}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{3,6}}\U000e007f)")
"""The flag of a region; all other tags are hidden text."""


def clean(text: str) -> str:
    """Return text with every acting character as an escape: ``\\x1b``, ``\\u202e``, ``\\U000e0041``."""
    return _replaced(text, _escape)


def clean_json(text: str) -> str:
    """Return JSON with the same value, in which acting characters are JSON escapes."""
    return _replaced(text, _escape_in_json)


def _replaced(text: str, escape: Callable[[int], str]) -> str:
    # Nearly all text is printable, which is faster to check than to search.
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable() or not _ACTING.search(text):
        return text
    if _FLAG_BEGINS in text:
        parts = _FLAG.split(text)
        # What stands at odd places is a flag.
        return "".join(part if n % 2 else part.translate(_escapes(escape)) for n, part in enumerate(parts))
    return text.translate(_escapes(escape))


@cache
def _escapes(escape: Callable[[int], str]) -> dict[int, str]:
    """The escape of every acting character. A table takes a tenth of the time of a call for each."""
    codes = (range(ord(first), ord(last or first) + 1) for first, last in re.findall("(.)(?:-(.))?", _ACTS, re.DOTALL))
    return {code: escape(code) for code in chain.from_iterable(codes)}


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
