"""Markdown as lines of a width: what answers are written in, without the signs that it is made of.

CommonMark with tables. Images, HTML and links stay as they are written: a terminal shows their text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.rules_core import StateCore

TAB_COLUMNS = 4
PARAGRAPH_CHARS_MAX = 20_000
"""The most characters of a paragraph in which signs are looked for: nobody writes more."""
COLUMNS_LEAST = 12
"""The fewest columns that text has, however deep it is in lists."""
INLINE: dict[str, dict[str, Any]] = {"strong": {"bold": True}, "em": {"italic": True}, "s": {"dim": True}}
CODE: dict[str, Any] = {"fg": "cyan"}
LEAVES = {"fence", "code_block", "html_block", "hr"}
CONTAINERS = {"paragraph", "heading", "table", "bullet_list", "ordered_list", "blockquote"}
BLOCKS = LEAVES | {f"{each}_open" for each in CONTAINERS} | {"list_item_open"}
"""The tokens before which an empty line may belong."""
ENDS = LEAVES | {f"{each}_close" for each in CONTAINERS}
"""The tokens behind which it does."""
QUOTE, CODE_MARGIN, BULLET = "│ ", "  ", "• "


class StyledRun(NamedTuple):
    """A text in one style, as ``output.style`` takes it."""

    text: str
    how: dict[str, Any]


def markdown_lines(text: str, columns: int) -> Iterator[str]:
    """Yield a text's lines, each at most so many columns wide but for code, with the marks of ``output.style``."""
    # What a line is cut by must not arise only when it is made harmless.
    yield from _Drawing(columns).lines(_parser().parse(output.clean(text.expandtabs(TAB_COLUMNS))))


@cache
def _parser() -> MarkdownIt:
    # Nesting is bounded: a hostile text would cost a deep stack.
    parser = MarkdownIt("commonmark", {"maxNesting": 20}).enable(["table", "strikethrough"])
    parser.core.ruler.at("inline", _read_paragraphs)
    return parser


def _read_paragraphs(state: StateCore) -> None:
    """Read the signs in each paragraph but a very long one: a megabyte of what could be signs took seconds."""
    for token in state.tokens:
        if token.type == "inline" and len(token.content) > PARAGRAPH_CHARS_MAX:
            token.children = [Token("text", "", 0, content=" ".join(token.content.split("\n")))]
        elif token.type == "inline":
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)


class _Drawing:
    """Draws blocks below each other, each behind what its lists and quotes put before it."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._before: list[str] = []
        """The beginnings of each line, from outside in."""
        self._first: str | None = None
        """The beginning of the next line instead of the last of these: the sign of an item."""
        self._numbers: list[int | None] = []
        """The number of the next item of each list around; None for one without numbers."""
        self._is_apart = False
        """True if an empty line belongs before the next block."""
        self._cells: list[list[str]] | None = None
        """The rows of the table that is read."""

    def lines(self, tokens: Sequence[Token]) -> Iterator[str]:
        """Yield the lines of blocks."""
        how: dict[str, Any] = {}
        for number, token in enumerate(tokens):
            if token.type in BLOCKS and not token.hidden:
                is_tight = token.type == "list_item_open" and tokens[number + 1].hidden
                if self._is_apart and not is_tight:
                    yield "".join(self._before).rstrip()
                self._is_apart = False
            match token.type:
                case "heading_open":
                    how = {"bold": True}
                case "heading_close":
                    how = {}
                case "inline" if self._cells is not None:
                    self._cells[-1].append("".join(run.text for run in _runs(token, {})))
                case "inline":
                    yield from self._wrapped(_runs(token, how))
                case "fence" | "code_block":
                    yield from self._code(token.content)
                case "html_block":
                    yield from self._wrapped([StyledRun(token.content.strip(), {"dim": True})])
                case "hr":
                    yield self._head() + output.style("─" * self._room(), dim=True)
                case "table_open":
                    self._cells = []
                case "tr_open" if self._cells is not None:
                    self._cells.append([])
                case "table_close" if self._cells is not None:
                    yield from self._table(self._cells)
                    self._cells = None
                case _:
                    self._nest(token)
            if token.type in ENDS and not token.hidden:
                self._is_apart = True

    def _nest(self, token: Token) -> None:
        """Go into a list, an item or a quote, or out of one."""
        match token.type:
            case "bullet_list_open":
                self._numbers.append(None)
            case "ordered_list_open":
                self._numbers.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                self._numbers.pop()
            case "list_item_open":
                number = self._numbers[-1]
                self._first = BULLET if number is None else f"{number}. "
                if number is not None:
                    self._numbers[-1] = number + 1
                self._before.append(" " * len(self._first))
            case "blockquote_open":
                self._before.append(QUOTE)
            case "list_item_close" | "blockquote_close":
                self._before.pop()
                self._first = None

    def _head(self) -> str:
        """Return what stands before the next line."""
        first, self._first = self._first, None
        if first is None:
            return "".join(self._before)
        return "".join(self._before[:-1]) + first

    def _room(self) -> int:
        return max(self._columns - sum(map(len, self._before)), COLUMNS_LEAST)

    def _code(self, text: str) -> Iterator[str]:
        for line in text.removesuffix("\n").split("\n"):
            yield f"{self._head()}{CODE_MARGIN}{output.style(line, **CODE) if line else ''}"

    def _wrapped(self, runs: Sequence[StyledRun]) -> Iterator[str]:
        for line in _paragraph(runs, self._room()):
            yield self._head() + line

    def _table(self, cells: list[list[str]]) -> Iterator[str]:
        """A table in columns; in less room than it needs each column gives, the widest first."""
        wide = max(map(len, cells))
        rows = [[*row, *[""] * (wide - len(row))] for row in cells]
        widths = [max(output.columns(row[n]) for row in rows) for n in range(wide)]
        room = self._room() - 2 * (wide - 1)
        while sum(widths) > max(room, wide) and max(widths) > 1:
            widths[widths.index(max(widths))] -= 1
        for number, row in enumerate(rows):
            shown = (output.padded(output.one_line(cell, widths[n]), widths[n]) for n, cell in enumerate(row))
            line = "  ".join(shown).rstrip()
            yield self._head() + (output.style(line, bold=True) if number == 0 else line)


def _runs(token: Token, how: dict[str, Any]) -> list[StyledRun]:
    """The text of a paragraph in its styles."""
    found, styles = list[StyledRun](), [how]
    for child in token.children or ():
        name = child.type.removesuffix("_open").removesuffix("_close")
        if name in INLINE:
            styles = [*styles, {**styles[-1], **INLINE[name]}] if child.nesting > 0 else styles[:-1]
        elif child.type == "code_inline":
            found.append(StyledRun(child.content, {**styles[-1], **CODE}))
        elif child.type == "softbreak":
            found.append(StyledRun(" ", styles[-1]))
        elif child.type == "hardbreak":
            found.append(StyledRun("\n", styles[-1]))
        elif child.type == "link_close":
            found.append(StyledRun(_target(token.children or (), child), {**styles[-1], "dim": True}))
        elif child.content or child.type == "image":
            found.append(StyledRun(child.content or "image", styles[-1]))
    return found


def _target(children: Sequence[Token], close: Token) -> str:
    """Return the address of a link behind its text, unless the text is the address."""
    at = next(n for n, each in enumerate(children) if each is close)
    begin = next((n for n in range(at, -1, -1) if children[n].type == "link_open"), at)
    text, address = "".join(each.content for each in children[begin:at]), str(children[begin].attrGet("href") or "")
    return "" if address in ("", text) or address.startswith("mailto:") else f" ({address})"


def _paragraph(runs: Sequence[StyledRun], columns: int) -> Iterator[str]:
    """Break runs of text into lines of at most so many columns; a word that is longer is cut."""
    line, used = list[str](), 0
    gap = ""
    for text, how in runs:
        for word in _words(text):
            if word == "\n":
                yield "".join(line)
                line, used, gap = [], 0, ""
            elif word.isspace():
                gap = " " if line else ""
            else:
                for part in _parts(word, columns):
                    wide = output.columns(part)
                    if line and used + len(gap) + wide > columns:
                        yield "".join(line)
                        line, used, gap = [], 0, ""
                    line.append(gap + (output.style(part, **how) if how else part))
                    used, gap = used + len(gap) + wide, ""
    if line:
        yield "".join(line)


def _words(text: str) -> Iterator[str]:
    """The words of a text and what is between them."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] != "\n":
            is_blank = text[at].isspace()
            while end < len(text) and text[end] != "\n" and text[end].isspace() == is_blank:
                end += 1
        yield text[at:end]
        at = end


def _parts(word: str, columns: int) -> Iterator[str]:
    """A word in parts that fit a line."""
    while output.columns(word) > columns:
        end, used = 0, 0
        while used + output.columns(word[end]) <= columns:
            used += output.columns(word[end])
            end += 1
        yield word[: max(end, 1)]
        word = word[max(end, 1) :]
    if word:
        yield word
