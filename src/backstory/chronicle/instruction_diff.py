"""Lines added to a file of instructions, and the change as a unified diff that ``git apply`` takes. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADING = "## Learned from sessions"
_NEXT_HEADING = lazy_regex(r"#{1,2}\s")
_FENCE = lazy_regex(r" {0,3}(?:```|~~~)")
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def with_lines(text: str, lines: Sequence[str]) -> str:
    r"""A text with list items below our heading, which is put at its end if it is not there. Line ends are kept.

    >>> with_lines("# A\r\n", ["one"])
    '# A\r\n\r\n## Learned from sessions\r\n\r\n- one\r\n'
    >>> with_lines("## Learned from sessions\n\n- one\n\n## B\n", ["two"])
    '## Learned from sessions\n\n- one\n- two\n\n## B\n'
    """
    if not lines:
        return text
    end = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    items = [f"- {each}{end}" for each in lines]
    stand = text.split("\n")
    kept = [f"{each}\n" for each in stand[:-1]] + ([stand[-1]] if stand[-1] else [])
    at = _end_of_section(kept)
    if at is None:
        at = len(kept)
        if kept and not kept[-1].endswith("\n"):
            kept[-1] += end
        between = [end] if kept and kept[-1].strip() else []
        items = [*between, f"{HEADING}{end}", end, *items]
    else:
        if not kept[at - 1].endswith("\n"):
            kept[at - 1] += end
        items = [end, *items] if kept[at - 1].strip() == HEADING else items
    return "".join((*kept[:at], *items, *kept[at:]))


def _end_of_section(lines: Sequence[str]) -> int | None:
    """Behind which line our section ends, without the blank lines before what follows; None if there is none."""
    begin, is_code = None, False
    stop = len(lines)
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            is_code = not is_code
        if is_code:
            continue
        if begin is None:
            begin = number if line.strip() == HEADING else None
        elif _NEXT_HEADING.match(line):
            stop = number
            break
    if begin is None:
        return None
    while not lines[stop - 1].strip():
        stop -= 1
    return stop


def unified_diff(name: str, before: str | None, after: str) -> str:
    """The change of a file as git writes it; ``before`` is None for a file that is not there yet; '' for no change."""
    if before == after or (before is None and not after):
        return ""
    old, new = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    head = [f"diff --git {old} {new}\n"]
    if before is None:
        head += ["new file mode 100644\n", "--- /dev/null\n"]
    else:
        head.append(f"--- {old}{_behind(old)}\n")
    head.append(f"+++ {new}{_behind(new)}\n")
    return "".join((*head, *_hunks(before or "", after)))


def _hunks(before: str, after: str) -> Iterator[str]:
    lines = list(difflib.unified_diff(_lines(before), _lines(after), n=3, lineterm="\n"))
    for each in lines[2:]:
        yield each if each.endswith("\n") else each + _NO_NEWLINE


def _lines(text: str) -> list[str]:
    """Lines as git knows them: only a newline ends one."""
    kept = [f"{each}\n" for each in text.split("\n")]
    kept[-1] = kept[-1][:-1]
    return kept if kept[-1] else kept[:-1]


def _behind(name: str) -> str:
    """Return the end that git writes behind a name with blanks, so that nothing is taken for a time."""
    return "\t" if " " in name and not name.startswith('"') else ""


def _quoted(name: str) -> str:
    """A path as git quotes it."""
    if all(" " <= letter <= "~" and letter not in '"\\' for letter in name):
        return name
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03o}"
        for byte in name.encode("utf-8", "surrogateescape")
    )
    return f'"{shown}"'
