"""Text of others as Markdown that cannot break out of its place: no HTML, no open fence, no mention of a person.

An answer stays Markdown, with its lists, tables and code. What would act on the page it is put on does not: HTML,
images that are loaded from elsewhere, links that run programs, ``@names`` who would be notified, ``#12`` and
``fixes #12``, which would link or close an issue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = "&ZeroWidthSpace;"
"""Between a sign and the word that it would act on; nobody sees it."""
HEADINGS_BELOW = 3
"""Number of levels by which headings of an answer are lowered, to be below those of the page."""
_CONTROLS = lazy_regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_FENCE = lazy_regex(r"([ \t]*)(?:(`{3,})(?=[^`]*\Z)|(~{3,}))(.*)")
_INFO = lazy_regex(r"[A-Za-z0-9_+#.-]{1,20}")
_ACTING = frozenset({"suggestion", "math", "mermaid", "geojson", "topojson", "stl"})
"""Words behind a fence that do more than colour what is in it."""
_RULER = lazy_regex(r"[\s>|:*+\d.)-]*-[\s|:-]*")
"""The line below the head of a table, whose cells end code, too."""
_TICKS = lazy_regex(r"`+")
_HEADING = lazy_regex(r"([ \t]{0,3})(#{1,6})(?=[ \t]|$)")
_UNDERLINE = lazy_regex(r"[ \t]{0,3}(?:=+|-+)[ \t]*")
_DEFINES = lazy_regex(r"((?:[\s>*+-]|\d+[.)])*)\[(?=[^\]]*\]:)")
_SCHEME = lazy_regex(r"(?i)\b(javascript|vbscript|data|file)(\s*):")
_ENTITY = lazy_regex(r"&(?=#?\w+;?)")
_MENTION = lazy_regex(r"(?<![\w`])@(?=\w)")
_ISSUE = lazy_regex(r"(?:#|\bGH-)(?=\d)", re.IGNORECASE)
_MATH = lazy_regex(r"(?<!\\)\$")
_SIGNS = lazy_regex(r"([\\`*_\[\]~|$])")
_LIST = lazy_regex(r"^(\s*)([-+>=]|#+(?=\s|$)|\d+[.)])")
_REPOSITORY, _HOST, _VALUE = lazy_regex(r"[\w-]+/[\w.-]+"), lazy_regex(r"[\w.-]+"), lazy_regex(r"[0-9A-Za-z]+")


def plain(text: str) -> str:
    """A text in a line of Markdown, shown letter by letter.

    >>> plain("<b> *a*")
    '&lt;b&gt; \\\\*a\\\\*'
    """
    shown = " ".join(_clean(text).split())
    shown = _SIGNS.sub(r"\\\1", shown.replace("&", "&amp;")).replace("<", "&lt;").replace(">", "&gt;")
    return _LIST.sub(r"\1\\\2", _calm(shown), count=1) if not shown[:1].isdigit() else _numbered(_calm(shown))


def _numbered(line: str) -> str:
    """A line that begins with a number, which is no list."""
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", line, count=1)


def quoted(text: str) -> Iterator[str]:
    """A text as typed, as a quotation with its lines."""
    lines = _clean(text).strip("\n").split("\n")
    for n, line in enumerate(lines, 1):
        blanks = len(line) - len(line.lstrip())
        shown = "&nbsp;" * min(len(line[:blanks].expandtabs(4)), 40) + plain(line)
        more = n < len(lines) and line.strip() and lines[n].strip()
        yield f"> {shown}\\" if more else f"> {shown}".rstrip()


def code(text: str) -> str:
    """A text as code within a line."""
    shown = " ".join(_clean(text).split())
    ticks = "`" * (max(map(len, _TICKS.findall(shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def fenced(text: str, info: str = "") -> Iterator[str]:
    """A text as a block of code, whatever is in it."""
    lines = _clean(text).strip("\n").split("\n")
    ticks = "`" * max(max(map(len, _TICKS.findall("\n".join(lines))), default=0) + 1, 3)
    yield f"{ticks}{info if _INFO.fullmatch(info) and info.lower() not in _ACTING else ''}"
    yield from lines
    yield ticks


def summary(text: str) -> str:
    """A text between the tags of HTML."""
    shown = " ".join(_clean(text).split())
    return _calm(shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "&#96;"))


def prose(text: str) -> Iterator[str]:
    """An answer: its Markdown, made harmless. A block of code that it leaves open is closed."""
    fence: tuple[str, str, str] | None = None
    block: list[str] = []
    paragraph: list[str] = []
    for line in _clean(text).strip("\n").split("\n"):
        if fence is not None:
            if _closes(line, fence[1]):
                yield from ("", *fenced("\n".join(block), fence[2]), "")
                fence, block = None, []
            else:
                block.append(_dedented(line, len(fence[0])))
        elif (found := _FENCE.fullmatch(line)) is not None:
            yield from _paragraph(paragraph)
            words = found.group(4).split()
            fence, paragraph = (found.group(1), found.group(2) or found.group(3), words[0] if words else ""), []
        elif line.strip():
            paragraph.append(line)
        else:
            yield from (*_paragraph(paragraph), "")
            paragraph = []
    yield from _paragraph(paragraph)
    if fence is not None:
        yield from ("", *fenced("\n".join(block), fence[2]))


def ref(kind: str, value: str, host: str | None, repository: str | None) -> str:
    """A pull request, issue or commit, as a link where its place is known."""
    short = value.rpartition("@" if kind == "commit" else "#")[2]
    if host != "github.com" or not repository or not _REPOSITORY.fullmatch(repository) or not _VALUE.fullmatch(short):
        return code(value)
    place = {"pr": "pull", "issue": "issues", "commit": "commit"}.get(kind)
    text = code(f"{repository}{'@' if kind == 'commit' else '#'}{short[:12] if kind == 'commit' else short}")
    return f"[{text}](https://{host}/{repository}/{place}/{short})" if place else text


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("\ufffd", text)


def _calm(line: str) -> str:
    """Without what would act beyond the page."""
    line = _MENTION.sub(f"@{QUIET}", line)
    return _ISSUE.sub(lambda found: found.group() + QUIET, line)


def _closes(line: str, opened: str) -> bool:
    shown = line.strip()
    return len(shown) >= len(opened) and shown == opened[0] * len(shown)


def _dedented(line: str, blanks: int) -> str:
    return line[min(blanks, len(line) - len(line.lstrip(" \t"))) :]


def _paragraph(lines: list[str]) -> Iterator[str]:
    """Lines without a blank one. What is code in them is left alone where it ends in its own line."""
    is_table = any(map(_RULER.fullmatch, lines))
    is_sure = all(map(_is_matched, lines)) and not (is_table and "|" in "".join(lines))
    for n, line in enumerate(lines):
        pieces = _pieces(line) if is_sure else [(line, False)]
        shown = "".join(piece if is_code else _escaped(piece) for piece, is_code in pieces)
        shown = _HEADING.sub(
            lambda found: found.group(1) + "#" * min(len(found.group(2)) + HEADINGS_BELOW, 6), shown, 1
        )
        if n and _UNDERLINE.fullmatch(line):
            shown = f"\\{line.strip()}"
        yield _DEFINES.sub(r"\1\\[", shown, count=1) if _DEFINES.match(shown) else shown


def _is_matched(line: str) -> bool:
    if "`" not in line:
        return True
    if "\\`" in line:
        return False
    return not any("`" in piece for piece, is_code in _pieces(line) if not is_code)


def _pieces(line: str) -> list[tuple[str, bool]]:
    """A line's code and what stands between, in order."""
    pieces: list[tuple[str, bool]] = []
    runs = list(_TICKS.finditer(line))
    at = n = 0
    while n < len(runs):
        length = len(runs[n].group())
        end = next((m for m in range(n + 1, len(runs)) if len(runs[m].group()) == length), None)
        if end is None:
            n += 1
            continue
        pieces += (line[at : runs[n].start()], False), (line[runs[n].start() : runs[end].end()], True)
        at, n = runs[end].end(), end + 1
    return [*pieces, (line[at:], False)]


def _escaped(text: str) -> str:
    """Escape text outside of code: its Markdown stays, its HTML does not."""
    text = _ENTITY.sub("&amp;", text).replace("<", "&lt;")
    text = _SCHEME.sub(rf"\1{QUIET}\2:", text).replace("![", "!\\[")
    return _calm(_MATH.sub(r"\\$", text))
