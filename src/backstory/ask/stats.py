"""Sums over the turns of sessions, each turn once, as a list counts them. Functions take the connection, never commit.

Filters choose sessions, as for a list; ``since`` and ``until`` choose turns, by when they began. A turn that several
sessions hold counts in the earliest; what subagents used counts with the session that is listed for them.
"""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from backstory import bounds
from backstory.ask.costs import NOTHING, PAID_COLUMNS, Costs, is_free
from backstory.derive.naming import ProjectNames, is_path
from backstory.derive.pricing import cost_of
from backstory.derive.tally import SUMMED, Group, GroupKey, Tally
from backstory.model import PARTIAL, Relation
from backstory.store import schema
from backstory.store.intake import written
from backstory.store.schema import fetch
from backstory.store.tables.session_filter import listed_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    import apsw

    from backstory.derive.pricing import PriceTable
    from backstory.derive.tally import GrowingSum, GrowingSums
    from backstory.store.tables.session_filter import ListFilter

By = Literal[
    "day", "hour", "weekday", "project", "repository", "model", "agent", "branch", "session",
    "day model", "day agent", "day repository", "weekday hour",
]  # fmt: skip
"""The properties by which turns can be grouped; a subagent's are its listed session's. Of two, the first is of a moment
and is what the key of a group has as ``within``."""
PERSON = cast("By", "person")
"""One more that only sessions of several people have, and no SQL here."""
TIMES = ("day", "hour", "weekday")
"""Those that are of a moment."""
HOURS = tuple(f"{hour:02}" for hour in range(24))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SLOT_MS = 900_000
"""Clocks are changed at full quarters of an hour, so that all of one is on the same day."""
ROWS_AT_ONCE = 20_000
"""Progress is reported every so many turns."""
PARTS_READ, PARTS_COMPARED = 4, 20
"""If more than one of so many sessions is asked for, all turns are read, or compared, in their order."""


class StatsQuestion(Struct, frozen=True, kw_only=True):
    """The turns that are counted, and their groupings; None: all as one. ``zone``: for days; None: the system's.

    ``but_sessions`` and ``but_turns``: uids of what counts in another store. ``is_estimated``: also what a lower bound
    may come to; ``report`` receives how many turns were read, of how many.
    """

    wanted: ListFilter
    among: frozenset[int] | None = None
    """Only these sessions; None: all."""
    groupings: tuple[By | None, ...] = (None,)
    only: tuple[By, GroupKey] | None = None
    """Only the turns of this group of a grouping, without summaries, which are in none; None: all."""
    zone: tzinfo | None = None
    but_sessions: frozenset[str] = frozenset()
    but_turns: frozenset[str] = frozenset()
    is_estimated: bool = True
    report: Callable[[int, int], None] = lambda done, total: None
    names: ProjectNames = ProjectNames()
    person_of: Callable[[str], str | None] = lambda uid: None
    """The person whose a session is, by its uid; here they are nobody's."""

    @property
    def is_ranged(self) -> bool:
        """True if only what was in some time counts."""
        return self.wanted.since is not None or self.wanted.until is not None

    def includes(self, at: int) -> bool:
        """Return True if a moment is in that time."""
        return self.wanted.is_in_time(at)


class Root(NamedTuple):
    """A session that is listed."""

    id: int
    uid: str
    project: str | None
    repository: str | None
    root: str | None
    cwd: str | None
    branch: str | None
    created: str | None
    """Only where folders were moved."""

    @classmethod
    def of(cls, row: RootRow) -> Root:
        """Return the session of a row."""
        return cls(*row[:2], *row[2])


RootRow = tuple[Any, ...]
"""A Root that is not made yet, as there are very many, of which little is asked: what is behind ``uid`` is one value,
which the sessions of a place share.
"""


class CountedSessions(NamedTuple):
    """The sessions whose turns count: those that are listed, and to which of them each session's turns belong."""

    roots: Mapping[int, RootRow]
    root_of: Mapping[int, int]


def add_turns(
    db: apsw.Connection, prices: PriceTable, asked: StatsQuestion, tallies: Sequence[GrowingSums], number: int
) -> None:
    """Add the turns of a store to the tally of each grouping. ``number`` tells its sessions from other stores'."""
    costs = Costs(db, prices, estimates=False)
    members = members_of(db, costs, asked)
    _Adding(db, costs, asked, tallies, members, number).add()


def uids(db: apsw.Connection, prices: PriceTable, asked: StatsQuestion) -> frozenset[str]:
    """The uids of the turns that ``add_turns`` looks at."""
    costs = Costs(db, prices, estimates=False)
    ids = schema.json_list(members_of(db, costs, asked).root_of)
    rows = db.execute("select uid from turns where session_id in (select value from json_each(?))", (ids,))
    return frozenset(str(uid) for (uid,) in rows)


def members_of(db: apsw.Connection, costs: Costs, asked: StatsQuestion) -> CountedSessions:
    """The sessions that are listed, as far as something may have happened in them in the time, with their subagents."""
    parents = _subagents(db, asked.wanted.since)
    shown = costs.shown_as(set(parents.values()))
    tops = {child: _top(child, parents, shown) for child in parents}
    roots = _roots(db, asked, set(tops.values()))
    root_of = {each: each for each in roots} | {child: top for child, top in tops.items() if top in roots}
    if asked.among is not None:
        root_of = {each: root for each, root in root_of.items() if each in asked.among}
    return CountedSessions(roots, root_of)


def _subagents(db: apsw.Connection, since: int | None) -> dict[int, int]:
    """The parents of subagents that were active since then, and of those above them."""
    recent = "" if since is None else f"and (last_active >= ? or {_UNDATED})"
    sql = f"select id, parent_id from sessions where relation = '{Relation.SUBAGENT}' and parent_id is not null"
    found = dict(fetch(db, tuple[int, int], f"{sql} {recent}", () if since is None else (since,)))
    above = set(found.values()) - set(found) if since is not None else set()
    while above:
        ids = schema.json_list(sorted(above))
        new = dict(fetch(db, tuple[int, int], f"{sql} and id in (select value from json_each(?))", (ids,)))
        found |= new
        above = set(new.values()) - set(found)
    return found


def _top(child: int, parents: Mapping[int, int], shown: Mapping[int, int]) -> int:
    """The session that a subagent's work is shown with: its parent, or the one above that."""
    at, met = child, {child}
    while at in parents:
        at = shown.get(parents[at], parents[at])
        if at in met:
            break
        met.add(at)
    return at


def _roots(db: apsw.Connection, asked: StatsQuestion, tops: Collection[int]) -> dict[int, RootRow]:
    # Which of their turns count is known from the turns.
    conditions, values = listed_conditions(replace(asked.wanted, since=None, until=None), of_all=True)
    if asked.wanted.since is not None:
        recent = f"s.last_active >= ? or {_UNDATED} or s.id in (select value from json_each(?)) or {_SUMMARISED}"
        conditions.append(f"({recent})")
        values += [asked.wanted.since, schema.json_list(sorted(tops)), asked.wanted.since]
    groupings = asked.groupings if asked.only is None else (*asked.groupings, asked.only[0])
    has_places = not {"project", "repository", "branch", "day repository"}.isdisjoint(groupings)
    wanted = () if not has_places else Root._fields[2:] if asked.wanted.moves else Root._fields[2:-1]
    needed = ", ".join(f"s.{name}" if name in wanted else "null" for name in Root._fields[2:])
    rows = db.execute(f"select s.id, s.uid, {needed} from sessions s where {' and '.join(conditions)}", values)
    # Very many sessions are at few places.
    places: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    return {row[0]: (*row[:2], places.setdefault(row[2:], row[2:])) for row in rows if row[1] not in asked.but_sessions}


class _Adding:
    """Adds the turns of one store."""

    def __init__(
        self,
        db: apsw.Connection,
        costs: Costs,
        asked: StatsQuestion,
        tallies: Sequence[GrowingSums],
        members: CountedSessions,
        number: int,
    ) -> None:
        self._db, self._costs, self._asked, self._tallies = db, costs, asked, tallies
        self._roots, self._root_of, self._number = *members, number << 48
        self._groupings = [
            _Groups(by, asked, tally, members.roots) for by, tally in zip(asked.groupings, tallies, strict=True)
        ]
        # A sum less for each turn that several groupings would add to theirs.
        together = [each for each in self._groupings if each.is_of_moments]
        self._together = together if len(together) > 1 else []
        self._alone = [each for each in self._groupings if each not in self._together]
        self._parts: dict[tuple[int | None, str | None, str | None], Group] = {}
        # Turns of a group are found by the group that they would be added to.
        only, found = asked.only, Tally()
        self._only = None if only is None else _Groups(only[0], asked, found, members.roots)
        self._only_group = None if only is None else found.group(only[1])
        self._of_how_many = int(db.execute("select count(*) from sessions").get)

    def add(self) -> None:
        self._runs = runs_among(self._db, self._costs)
        self._paid, self._counted = self._copies()
        subagents = [each for each, root in self._root_of.items() if each != root]
        self._included = self._costs.included(subagents) if subagents else set()
        seen, partial = set[int](), list[tuple[Any, ...]]()
        is_ranged, is_estimated = self._asked.is_ranged, self._asked.is_estimated
        for row in self._rows():
            root = self._root_of.get(row[0])
            if root is None:
                continue
            seen.add(root)
            is_own = row[0] == root and row[1] not in self._counted
            if is_ranged and not self._is_in_time(row[5], is_own):
                continue
            if self._only is not None and not self._is_of_group(root, *row[3:6]):
                continue
            groups = self._groups_of(root, row)
            # One number for all groups, which is an object less for each of them.
            number = self._number | root if self._number else root
            for group in groups:
                group.add_session(number)
                if is_own:
                    group.add_turn(row[2])
            if row[1] in self._paid:
                continue
            if is_estimated and row[12] == PARTIAL:
                partial.append(row)
            else:
                self._add_usage(groups, row, 0)
        self._add_partial(partial)
        self._add_parts()
        self._add_summaries()
        self._add_without_turns(self._without_turns(self._roots.keys() - seen))

    def _is_of_group(self, root: int, agent: str | None, model: str | None, at: int | None) -> bool:
        return self._only is None or self._only.of_turn(root, agent, model, at) is self._only_group

    def _groups_of(self, root: int, row: tuple[Any, ...]) -> list[GrowingSum]:
        agent, model, at = row[3:6]
        groups = [each.of_turn(root, agent, model, at) for each in self._alone]
        if self._together:
            key = (None if at is None else at // SLOT_MS, agent, model)
            found = self._parts.get(key)
            if found is None:
                found = self._parts[key] = Group()
            groups.append(found)
        return groups

    def _add_parts(self) -> None:
        """Add the turns of each quarter of an hour, agent and model to the groups that follow from these."""
        for (slot, agent, model), part in self._parts.items():
            for grouping in self._together:
                group = grouping.of_turn(0, agent, model, None if slot is None else slot * SLOT_MS)
                assert isinstance(group, Group)
                group.add(part, SUMMED)

    def _add_usage(self, groups: list[GrowingSum], row: tuple[Any, ...], chars: int) -> None:
        cost = self._costs.of_row(row, chars, row[0] in self._included)
        if not is_free(row[4], cost, row[6:10], row[12]):
            for group in groups:
                group.add_cost(cost)
                group.add_tokens(row[6], row[7], row[8], row[9], row[12])

    def _add_partial(self, rows: list[tuple[Any, ...]]) -> None:
        """Add turns whose output was not counted to its end, with how much the model wrote in them."""
        chars = self._costs.chars({row[0] for row in rows}) if rows else {}
        for row in rows:
            self._add_usage(self._groups_of(self._root_of[row[0]], row), row, chars.get(row[1], 0))

    def _is_in_time(self, started: int | None, is_own: bool) -> bool:
        if started is None:
            for tally in self._tallies:
                tally.undated += is_own
            return False
        return self._asked.includes(started)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """The turns that may be in the time, and those without one."""
        columns = f"session_id, id, duration_ms, {PAID_COLUMNS}"
        wanted = self._asked.wanted
        bounds_of = (("started >= ?", wanted.since), ("started < ?", wanted.until))
        in_time = [(sentence, value) for sentence, value in bounds_of if value is not None]
        conditions, values = ["1"], [value for _, value in in_time]
        if in_time:
            conditions.append(f"(started is null or {' and '.join(sentence for sentence, _ in in_time)})")
        if not self._are(PARTS_READ):
            conditions[0] = "session_id in (select value from json_each(?))"
            sql, ids = f"select {columns} from turns where {' and '.join(conditions)}", schema.json_list(self._root_of)
            yield from self._db.execute(sql, (ids, *values))
            return
        count, rows = (
            int(self._db.execute("select count(*) from turns").get),
            self._db.execute(f"select {columns} from turns where {' and '.join(conditions)}", values),
        )
        for done in range(0, count, ROWS_AT_ONCE):
            self._asked.report(done, count)
            yield from islice(rows, ROWS_AT_ONCE)

    def _without_turns(self, roots: Collection[int]) -> Collection[int]:
        """Those of these listed sessions that have no turn at all, neither themselves nor in a subagent."""
        if not roots or not self._asked.is_ranged:
            return roots
        members = [each for each, root in self._root_of.items() if root in roots]
        sql = "select value from json_each(?) where exists (select 1 from turns where session_id = value)"
        return set(roots) - {
            self._root_of[each] for (each,) in fetch(self._db, tuple[int], sql, (schema.json_list(members),))
        }

    def _are(self, parts: int) -> bool:
        """Return True if they are so many that it takes longer to look each of them up."""
        return len(self._root_of) * parts > self._of_how_many

    def _copies(self) -> tuple[set[int], set[int]]:
        """The turns whose cost counts elsewhere, and those that are counted elsewhere themselves."""
        rows = copies_among(self._db, None if self._are(PARTS_COMPARED) else self._root_of)
        hidden = self._costs.shown_as({each.other_session for each in rows})
        known = [each for each in rows if each.other_session not in hidden]
        here = elsewhere_among(self._db, self._asked.but_turns)
        paid = {each.turn for each in known if each.is_known} | here
        counted = {each.turn for each in known if each.is_listed and each.other_turn not in self._runs}
        return paid, counted | here | self._runs

    def _add_summaries(self) -> None:
        """Add what summaries took that an agent was asked for; also those that were taken back."""
        if self._only is not None:
            return
        for session_id, key, *row in self._db.execute(_SUMMARIES, (schema.json_list(self._root_of),)):
            for tally in self._tallies:
                if key in tally.counted or not self._is_summary_in_time(row[2]):
                    continue
                tally.counted.add(key)
                tally.summaries.add_session(self._number | self._root_of[session_id])
                tally.summaries.add_turn(None)
                tally.summaries.add_cost(self._costs.of_summary(*row))
                tally.summaries.add_tokens(*row[3:7])

    def _is_summary_in_time(self, at: int | None) -> bool:
        return not self._asked.is_ranged or (at is not None and self._asked.includes(at))

    def _add_without_turns(self, roots: Iterable[int]) -> None:
        """Sessions that hold no turn: they may be marked with what they took."""
        ids = schema.json_list(sorted(roots))
        for each, last_active, cost_usd, duration_ms in self._db.execute(_MARKED, (ids,)):
            at = last_active or None
            if self._asked.is_ranged and (at is None or not self._asked.includes(at)):
                continue
            if not self._is_of_group(each, None, None, at):
                continue
            for groups in self._groupings:
                group = groups.of_turn(each, None, None, at)
                group.add_session(self._number | each)
                group.add_marked(cost_of(NOTHING, None, reported=cost_usd), duration_ms)


class CopiedTurn(NamedTuple):
    """A turn of which an earlier session has a copy, too."""

    turn: int
    other_turn: int
    other_session: int
    is_known: int
    """True if the copy says what was used."""
    is_listed: int
    """True if it is in a session of its own, not in a subagent's."""


def copies_among(db: apsw.Connection, session_ids: Iterable[int] | None) -> list[CopiedTurn]:
    """The turns of these sessions (None: of all) that an earlier session has, too; one row for each such session."""
    if session_ids is None:
        return fetch(
            db, CopiedTurn, _COPIES.format(mine="t.uid in (select uid from turns group by uid having count(*) > 1)")
        )
    mine = "t.session_id in (select value from json_each(?))"
    return fetch(db, CopiedTurn, _COPIES.format(mine=mine), (schema.json_list(session_ids),))


def runs_among(db: apsw.Connection, costs: Costs) -> set[int]:
    """The turns of agents' own logs that are runs: they are shown where the run is."""
    return {turn_id for (turn_id,) in fetch(db, tuple[int], _RUNS)} if costs.has_owners else set()


def elsewhere_among(db: apsw.Connection, uids: Collection[str]) -> set[int]:
    """The turns with these uids."""
    sql = "select id from turns where uid in (select value from json_each(?))"
    return {turn_id for (turn_id,) in fetch(db, tuple[int], sql, (schema.json_list(uids),))} if uids else set()


class _Groups:
    """The groups of turns in one grouping."""

    def __init__(self, by: By | None, asked: StatsQuestion, tally: GrowingSums, roots: Mapping[int, RootRow]) -> None:
        within, _, second = (by or "").rpartition(" ")
        self._by, self._within, self._zone, self._tally, self._roots = second, within, asked.zone, tally, roots
        self._asked, self._moves = asked, asked.wanted.moves
        self._known: dict[object, GrowingSum] = {}
        self._places: dict[tuple[str | None, ...], GroupKey] = {}
        self._names: dict[str, str] = {}

    @property
    def is_of_moments(self) -> bool:
        """True if a turn's group follows from its moment, its agent and its model, and all of its figures count."""
        return isinstance(self._tally, Tally) and self._by in ("", *TIMES, "model", "agent")

    def of_turn(self, root: int, agent: str | None, model: str | None, at: int | None) -> GrowingSum:
        """The group of a turn. Those with the same value of one of these facts are in the same group."""
        by = self._by
        fact: int | str | None = root if by else None
        if by in TIMES:
            fact = None if at is None else at // SLOT_MS
        elif by in ("model", "agent"):
            fact = model if by == "model" else agent
        slot = None if not self._within or at is None else at // SLOT_MS
        known = fact if slot is None else (slot, fact)
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = self._tally.group(self._key(fact, slot))
        return found

    def _key(self, fact: Any, slot: int | None) -> GroupKey:
        key = self._second(fact)
        return key if slot is None else replace(key, within=self._time(slot * SLOT_MS, self._within))

    def _second(self, fact: Any) -> GroupKey:
        match self._by:
            case "day" | "hour" | "weekday":
                return GroupKey(value=None if fact is None else self._time(fact * SLOT_MS, self._by))
            case "project" | "repository" | "branch":
                return self._place(Root.of(self._roots[fact]))
            case "session":
                return GroupKey(value=Root.of(self._roots[fact]).uid)
            case "person":
                return GroupKey(value=self._asked.person_of(Root.of(self._roots[fact]).uid))
        return GroupKey(value=fact)

    def _time(self, ms: int, by: str) -> str | None:
        if bounds.time_ms(ms) is None:
            return None
        at = datetime.fromtimestamp(ms / 1000, self._zone)
        if by == "hour":
            return HOURS[at.hour]
        return at.date().isoformat() if by == "day" else WEEKDAYS[at.weekday()]

    def _place(self, session: Root) -> GroupKey:
        facts = session[2:]
        if facts not in self._places:
            self._places[facts] = self._new_place(session)
        return self._places[facts]

    def _new_place(self, session: Root) -> GroupKey:
        project, root, cwd = (
            each if each is None or self._moves is None else self._moves.here(each, session.created)
            for each in (session.project, session.root, session.cwd)
        )
        key, name = self._asked.names.of(project, session.repository, root, cwd)
        name = self._names.setdefault(key, name)
        if self._by == "repository" and key and not is_path(key):
            return GroupKey(value=name)
        value = session.branch if self._by == "branch" else name
        return GroupKey(value=value or None, project=key or None, project_name=name or None)


_UNDATED = "last_active is null or last_active <= 0"
"""The condition of a session in which nothing has a time."""
_MADE = "cast(unixepoch(created, 'subsec') * 1000 as integer)"
_SUMMARISED = f"s.id in (select session_id from compactions where {_MADE} >= ?)"
"""The condition of a session of which a summary was made since then: that may be after its last record."""
_SUMMARIES = f"""
select session_id, json_array(created, agent, length(summary)), agent, model, {_MADE},
  input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd
from main.compactions where agent is not null and session_id in (select value from json_each(?)) order by id
"""
"""Without those that name no agent: another program put them there, and nobody was asked."""
_MARKED = """
select id, last_active, cost_usd, duration_ms from sessions where id in (select value from json_each(?)) order by id
"""
"""The marks of these sessions."""
_COPIES = f"""
select t.id, o.id, o.session_id,
  o.tokens_source is not null or o.cost_usd is not null or {written.is_written("o")} < {written.is_written("t")},
  os.relation is not '{Relation.SUBAGENT}' or os.parent_id is null
from turns t join turns o on o.uid = t.uid and o.id <> t.id
join sessions s on s.id = t.session_id join sessions os on os.id = o.session_id
where {{mine}} and {written.precedes("o", "os", "t", "s")}
"""
_RUNS = """
select distinct t.id from sessions o cross join turns r on r.session_id = o.id
  cross join sessions s on s.native_id = r.native_id and s.owner is null
  cross join turns t on t.session_id = s.id and t.uid = r.uid
where o.owner is not null
"""
"""As claims.IS_RUN, in this order because few sessions are ours."""
