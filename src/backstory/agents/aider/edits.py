"""The changes of files that an answer proposes, in Aider's formats: blocks to search and replace, and whole files."""

from __future__ import annotations

from typing import Any

from backstory.lazy import lazy_regex

Edits = dict[str, dict[str, Any]]
"""By the path of a file, in the form of a call's input: ``edits`` or ``content``."""
CHARS_MAX = 200_000
"""The longest answer whose changes are looked for: they wait in the reader's state until they are made."""
_FENCE = lazy_regex(r" {0,3}(`{3,}|~{3,})(.*)")
_SEARCH, _REPLACE, _END = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


def edits_in(answer: str) -> Edits:
    """Return what an answer proposes.

    >>> edits_in("a.py\\n```python\\n<<<<<<< SEARCH\\nx = 1\\n=======\\nx = 2\\n>>>>>>> REPLACE\\n```")
    {'a.py': {'edits': [{'old_string': 'x = 1\\n', 'new_string': 'x = 2\\n'}]}}
    """
    found: Edits = {}
    if len(answer) > CHARS_MAX or ("```" not in answer and "~~~" not in answer):
        return found
    before, path, fence, body = "", "", "", list[str]()
    for line in answer.splitlines(keepends=True):
        marks = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if not fence:
            if marks is not None:
                fence, path, body = marks[1], before.strip().strip("*#`: "), []
            before = line if line.strip() else before
        elif marks is not None and marks[1].startswith(fence) and not marks[2].strip():
            if path:
                _take(found, path, body)
            fence = before = ""
        else:
            body.append(line)
    return found


def _take(found: Edits, path: str, body: list[str]) -> None:
    """Add the changes of a block: of pairs to search and replace, or all that is in the file then."""
    if (pairs := _pairs(body)) is None:
        found[path] = {"content": "".join(body)}
    elif pairs:
        found.setdefault(path, {}).setdefault("edits", []).extend(pairs)


def _pairs(body: list[str]) -> list[dict[str, str]] | None:
    """The pairs of a block; None where it holds no mark of one."""
    pairs, old, new = list[dict[str, str]](), list[str](), list[str]()
    side: list[str] | None = None
    is_marked = False
    for line in body:
        words = line.strip()
        if words.startswith(_SEARCH):
            is_marked, old, new = True, [], []
            side = old
        elif words == _REPLACE and side is old and is_marked:
            side = new
        elif words == _END and side is new:
            pairs.append({"old_string": "".join(old), "new_string": "".join(new)})
            side = None
        elif side is not None:
            side.append(line)
    return pairs if is_marked else None
