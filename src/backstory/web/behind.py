"""The sessions behind a number of a report, each with its share, and the queries that return the number itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from backstory.ask.stats import By
from backstory.bounds import UNKNOWN
from backstory.chronicle import cost, explain
from backstory.chronicle.report import text_of
from backstory.chronicle.window import window_words
from backstory.derive.naming import NO_PROMPT
from backstory.derive.tally import GroupKey
from backstory.errors import UnknownValue
from backstory.web.listing import address
from backstory.web.markup import plain
from backstory.web.reporting import BEHIND, BY, FROM, NAMED, OF, TO, TOOL, VALUE, WITHIN
from backstory.workspace import questions
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.history.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from backstory.derive.tally import Figures
    from backstory.workspace.reader import Reader

ROWS = 100
AFTER = "after"
GROUPINGS: tuple[str, ...] = get_args(By)
HEADS = tuple(each.capitalize() for each in cost.HEADS[1:])
HEADS_OF_CALLS = ("Calls", "Failed")


class BehindRow(NamedTuple):
    """A session with its share of the number."""

    uid: str
    heading: str
    cells: tuple[str, ...]


class BehindPage(NamedTuple):
    """The page. ``sums``: all of it; ``more``: the address of the next rows, '' without any; ``sql``: by its name."""

    title: str
    sums: list[tuple[str, str]]
    heads: tuple[str, ...]
    rows: list[BehindRow]
    more: str
    sql: Mapping[str, str]


def read(reader: Reader, typed: Mapping[str, str], home: Path, today: datetime) -> BehindPage:
    """Find the sessions behind a number. Raises BadTime, UnknownValue."""
    fields = {each.name for each in questions.fields()} - {"since", "until"}
    chosen = questions.read({name: text for name, text in typed.items() if name in fields}, home=home, now=today)
    wanted = SessionFilter(**chosen, since=_ms(typed, FROM), until=_ms(typed, TO), everywhere=True)
    return _of_tool(reader, wanted, typed) if TOOL in typed else _of_group(reader, wanted, typed)


def _of_group(reader: Reader, wanted: SessionFilter, typed: Mapping[str, str]) -> BehindPage:
    by = typed.get(BY) or None
    if by is not None and by not in GROUPINGS:
        raise UnknownValue(BY, by, GROUPINGS)
    grouping = cast("By | None", by)
    key = GroupKey(
        value=typed.get(VALUE), project=typed.get(OF), project_name=typed.get(NAMED), within=typed.get(WITHIN)
    )
    only = None if grouping is None else (grouping, key)
    found = reader.stats(StatsQuery(wanted=wanted, by="session", only=only))
    figures = {each.key.value: each.figures for each in found.groups if each.key.value is not None}
    uids, more = _part(list(figures), typed)
    rows = [BehindRow(uid, heading, _cells(figures[uid])) for uid, heading in _headings(reader, uids)]
    what = "All" if by is None else _words(by, key)
    return BehindPage(
        title=f"{what[:1].upper()}{what[1:]} {window_words(wanted)}",
        sums=[("Sessions", f"{found.total.sessions:,}"), *zip(HEADS, _cells(found.total), strict=True)],
        heads=HEADS, rows=rows, more=more, sql=explain.group_queries(reader, wanted, grouping, key),
    )  # fmt: skip


def _of_tool(reader: Reader, wanted: SessionFilter, typed: Mapping[str, str]) -> BehindPage:
    tool = typed[TOOL]
    found = reader.tool_sessions(StatsQuery(wanted=wanted), tool)
    figures = {each.tool: (f"{each.calls:,}", f"{each.failed:,}") for each in found.tools}
    uids, more = _part(list(figures), typed)
    sums = (sum(each.calls for each in found.tools), sum(each.failed for each in found.tools))
    return BehindPage(
        title=f"Calls of {tool} {window_words(wanted)}",
        sums=[("Sessions", f"{found.sessions:,}"), *zip(HEADS_OF_CALLS, (f"{each:,}" for each in sums), strict=True)],
        heads=HEADS_OF_CALLS, rows=[BehindRow(uid, heading, figures[uid]) for uid, heading in _headings(reader, uids)],
        more=more, sql=explain.tool_queries(reader, wanted, tool),
    )  # fmt: skip


def _part(uids: Sequence[str], typed: Mapping[str, str]) -> tuple[Sequence[str], str]:
    """The sessions of a part of the page, and the address of the next one."""
    after = typed.get(AFTER, "")
    start = int(after) if after.isascii() and after.isdigit() and len(after) < len("1000000000") else 0
    end = start + ROWS
    return uids[start:end], address(BEHIND, {**typed, AFTER: str(end)}) if end < len(uids) else ""


def _headings(reader: Reader, uids: Sequence[str]) -> list[tuple[str, str]]:
    return [(each.uid, plain(each.heading) or NO_PROMPT) for each in reader.sessions_of(uids)]


def _words(by: str, key: GroupKey) -> str:
    within, _, second = by.rpartition(" ")
    name = f"{second} {cost.group_name(cast('By', second), key.value)}"
    return f"{within} {key.within or UNKNOWN}, {name}" if within else name


def _cells(figures: Figures) -> tuple[str, ...]:
    """The figures of some turns, without the number of their sessions."""
    return tuple(map(text_of, cost.cells(figures)[1:]))


def _ms(typed: Mapping[str, str], name: str) -> int | None:
    text = typed.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len("253402300799999")):
        raise UnknownValue(name, text, ("milliseconds since 1970",))
    return int(text)
