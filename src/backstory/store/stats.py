"""Sums over the turns of sessions, each turn once, as a list counts them. Functions take the connection, never commit.

Filters choose sessions, as for a list; ``since`` and ``until`` choose turns, by when they began. A turn that several
sessions hold counts in the earliest; what subagents used counts with the session that is listed for them.
"""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from backstory import bounds
from backstory.derive.naming import project_name
from backstory.derive.pricing import cost_of
from backstory.derive.tally import GroupKey
from backstory.model import PARTIAL, Relation, Tokens
from backstory.store import kinds
from backstory.store.costs import NOTHING, PAID_COLUMNS, Costs, is_free
from backstory.store.rows import fetch
from backstory.store.session_filter import listed_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import tzinfo

    import apsw

    from backstory.derive.tally import Group, Tally
    from backstory.store.session_filter import ListFilter

By = Literal["day", "project", "model", "agent", "branch"]
"""What turns can be grouped by."""
SLOT_MS = 900_000
"""Clocks are changed at full quarters of an hour, so that all of one is on the same day."""
ROWS_AT_ONCE = 20_000
"""Progress is reported every so many turns."""
PARTS_OF_ALL = 4
"""If more than one of so many sessions is asked for, all turns are read, in their order."""


class Asked(Struct, frozen=True, kw_only=True):
    """What is counted. ``zone``: where days begin; None: the system's.

    ``but_sessions`` and ``but_turns``: uids of what counts in another store. ``is_estimated``: also what a lower bound
    may come to; ``report`` receives how many turns were read, of how many.
    """

    wanted: ListFilter
    by: By | None = None
    zone: tzinfo | None = None
    but_sessions: frozenset[str] = frozenset()
    but_turns: frozenset[str] = frozenset()
    is_estimated: bool = True
    report: Callable[[int, int], None] = lambda done, total: None

    @property
    def is_ranged(self) -> bool:
        """Whether only what was in some time counts."""
        return self.wanted.since is not None or self.wanted.until is not None

    def includes(self, at: int) -> bool:
        """Whether a moment is in that time."""
        since, until = self.wanted.since, self.wanted.until
        return (since is None or at >= since) and (until is None or at < until)


class Root(NamedTuple):
    """A session that is listed."""

    id: int
    uid: str
    last_active: int | None
    cost_usd: float | None
    duration_ms: int | None
    project: str | None
    repository: str | None
    root: str | None
    cwd: str | None
    branch: str | None


class Members(NamedTuple):
    """The sessions whose turns count: those that are listed, and to which of them each session's turns belong."""

    roots: Mapping[int, Root]
    root_of: Mapping[int, int]


def add_turns(db: apsw.Connection, costs: Costs, asked: Asked, tally: Tally, number: int) -> None:
    """Add the turns of a store. ``number`` tells its sessions apart from those of other stores."""
    members = members_of(db, costs, asked)
    _Adding(db, costs, asked, tally, members, number).add()


def uids(db: apsw.Connection, costs: Costs, asked: Asked) -> frozenset[str]:
    """The uids of the turns that ``add_turns`` looks at."""
    ids = kinds.json_list(members_of(db, costs, asked).root_of)
    rows = db.execute("select uid from turns where session_id in (select value from json_each(?))", (ids,))
    return frozenset(str(uid) for (uid,) in rows)


def members_of(db: apsw.Connection, costs: Costs, asked: Asked) -> Members:
    """The sessions that are listed, as far as something may have happened in them in the time, with their subagents."""
    parents = _subagents(db, asked.wanted.since)
    shown = costs.shown_as(set(parents.values()))
    tops = {child: _top(child, parents, shown) for child in parents}
    roots = _roots(db, asked, set(tops.values()))
    root_of = {each: each for each in roots} | {child: top for child, top in tops.items() if top in roots}
    return Members(roots, root_of)


def _subagents(db: apsw.Connection, since: int | None) -> dict[int, int]:
    """The parents of subagents that were active since then, and of those above them."""
    recent = "" if since is None else "and (last_active >= ? or last_active is null)"
    sql = f"select id, parent_id from sessions where relation = '{Relation.SUBAGENT}' and parent_id is not null"
    found = dict(fetch(db, tuple[int, int], f"{sql} {recent}", () if since is None else (since,)))
    above = set(found.values()) - set(found) if since is not None else set()
    while above:
        ids = kinds.json_list(sorted(above))
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


def _roots(db: apsw.Connection, asked: Asked, tops: Collection[int]) -> dict[int, Root]:
    # Which of their turns count is known from the turns.
    conditions, values = listed_conditions(replace(asked.wanted, since=None, until=None))
    if asked.wanted.since is not None:
        recent = "s.last_active >= ? or s.last_active is null or s.id in (select value from json_each(?))"
        conditions.append(f"({recent})")
        values += [asked.wanted.since, kinds.json_list(sorted(tops))]
    needed = ", ".join(f"s.{name}" if asked.by in ("project", "branch") else "null" for name in Root._fields[5:])
    rows = db.execute(
        f"select s.id, s.uid, s.last_active, s.cost_usd, s.duration_ms, {needed} from sessions s "
        f"where {' and '.join(conditions)}",
        values,
    )
    found = (Root(*row) for row in rows)
    return {each.id: each for each in found if each.uid not in asked.but_sessions}


class _Adding:
    """Adds the turns of one store."""

    def __init__(
        self, db: apsw.Connection, costs: Costs, asked: Asked, tally: Tally, members: Members, number: int
    ) -> None:
        self._db, self._costs, self._asked, self._tally = db, costs, asked, tally
        self._roots, self._root_of, self._number = *members, number << 48
        self._keys = Keys(asked.by, asked.zone)
        self._are_all = len(self._root_of) * PARTS_OF_ALL > int(db.execute("select count(*) from sessions").get)

    def add(self) -> None:
        ids = kinds.json_list(self._root_of)
        runs = runs_among(self._db, self._costs)
        paid_elsewhere, counted_elsewhere = self._copies(runs)
        subagents = [each for each, root in self._root_of.items() if each != root]
        included = self._costs.included(subagents) if subagents else set()
        chars = self._chars(ids)
        has_turns, is_ranged = set[int](), self._asked.is_ranged
        for row in self._rows(ids):
            session_id, turn_id, duration = row[:3]
            root = self._root_of.get(session_id)
            if root is None:
                continue
            has_turns.add(root)
            is_own = session_id == root and turn_id not in counted_elsewhere
            if is_ranged and not self._is_in_time(row[5], is_own):
                continue
            group = self._group(root, row)
            group.sessions.add(self._number | root)
            if turn_id not in paid_elsewhere:
                self._add_usage(group, row, chars.get(turn_id, 0), session_id in included)
            if is_own:
                group.add_turn(duration)
        self._add_without_turns(self._roots.keys() - has_turns)

    def _is_in_time(self, started: int | None, is_own: bool) -> bool:
        if started is None:
            self._tally.undated += is_own
            return False
        return self._asked.includes(started)

    def _group(self, root: int, row: tuple[Any, ...]) -> Group:
        return self._tally.group(self._keys.of_turn(self._roots[root], row[3], row[4], row[5]))

    def _add_usage(self, group: Group, row: tuple[Any, ...], chars: int, is_included: bool) -> None:
        cost = self._costs.of_row(row[3:], chars, is_included=is_included)
        if not is_free(row[4], cost):
            group.add_cost(cost)
            group.add_tokens(Tokens(input=row[6], output=row[7], cache_read=row[8], cache_write=row[9]))

    def _rows(self, ids: str) -> Iterator[tuple[Any, ...]]:
        columns = f"session_id, id, duration_ms, {PAID_COLUMNS}"
        if self._are_all:
            rows = self._db.execute(f"select {columns} from turns")
            count = int(self._db.execute("select count(*) from turns").get)
        else:
            of_these = "from turns where session_id in (select value from json_each(?))"
            rows = self._db.execute(f"select {columns} {of_these}", (ids,))
            count = int(self._db.execute(f"select count(*) {of_these}", (ids,)).get)
        for done in range(0, count, ROWS_AT_ONCE):
            self._asked.report(done, count)
            yield from islice(rows, ROWS_AT_ONCE)

    def _chars(self, ids: str) -> Mapping[int, int]:
        """How much the model wrote in turns whose output was not counted to its end."""
        if not self._asked.is_estimated:
            return {}
        partial = self._db.execute(
            "select distinct session_id from turns where tokens_source = ? and (?2 is null or session_id in "
            "(select value from json_each(?2)))",
            (PARTIAL, None if self._are_all else ids),
        )
        wanted = [session_id for (session_id,) in partial if session_id in self._root_of]
        return self._costs.chars(wanted) if wanted else {}

    def _copies(self, runs: Collection[int]) -> tuple[set[int], set[int]]:
        """The turns whose cost counts elsewhere, and those that are counted elsewhere themselves."""
        rows = copies_among(self._db, None if self._are_all else self._root_of)
        hidden = self._costs.shown_as({each.other_session for each in rows})
        known = [each for each in rows if each.other_session not in hidden]
        here = elsewhere_among(self._db, self._asked.but_turns)
        paid = {each.turn for each in known if each.is_known} | here
        counted = {each.turn for each in known if each.is_listed and each.other_turn not in runs}
        return paid, counted | here | set(runs)

    def _add_without_turns(self, roots: Iterable[int]) -> None:
        """Sessions that hold no turn: they may be marked with what they took."""
        for each in roots:
            root = self._roots[each]
            if self._asked.is_ranged and (root.last_active is None or not self._asked.includes(root.last_active)):
                continue
            group = self._tally.group(self._keys.of_turn(root, None, None, root.last_active))
            group.sessions.add(self._number | root.id)
            if root.cost_usd is not None:
                group.add_cost(cost_of(NOTHING, None, reported=root.cost_usd))
            if root.duration_ms is not None:
                group.add_duration(root.duration_ms)


class Copy(NamedTuple):
    """A turn of which an earlier session has a copy, too."""

    turn: int
    other_turn: int
    other_session: int
    is_known: int
    """Whether the copy says what was used."""
    is_listed: int
    """Whether it is in a session of its own, not in a subagent's."""


def copies_among(db: apsw.Connection, session_ids: Iterable[int] | None) -> list[Copy]:
    """The turns of these sessions (None: of all) that an earlier session has, too; one row for each such session."""
    if session_ids is None:
        return fetch(db, Copy, _COPIES.format(mine="t.uid in (select uid from turns group by uid having count(*) > 1)"))
    mine = "t.session_id in (select value from json_each(?))"
    return fetch(db, Copy, _COPIES.format(mine=mine), (kinds.json_list(session_ids),))


def runs_among(db: apsw.Connection, costs: Costs) -> set[int]:
    """The turns of agents' own logs that are runs: they are shown where the run is."""
    return {turn_id for (turn_id,) in fetch(db, tuple[int], _RUNS)} if costs.has_owners else set()


def elsewhere_among(db: apsw.Connection, uids: Collection[str]) -> set[int]:
    """The turns with these uids."""
    sql = "select id from turns where uid in (select value from json_each(?))"
    return {turn_id for (turn_id,) in fetch(db, tuple[int], sql, (kinds.json_list(uids),))} if uids else set()


class Keys:
    """Which group a turn is in."""

    def __init__(self, by: By | None, zone: tzinfo | None) -> None:
        self._by, self._zone = by, zone
        self._keys: dict[object, GroupKey] = {}
        self._names: dict[str, str] = {}

    def of_turn(self, session: Root, agent: str | None, model: str | None, at: int | None) -> GroupKey:
        """The group of a turn, by the facts that its groups are made of."""
        match self._by:
            case None:
                return NO_GROUP
            case "day":
                return self._of_day(at)
            case "model" | "agent":
                value = model if self._by == "model" else agent
                return self._kept(value, lambda: GroupKey(value=value))
            case _:
                return self._of_place(session)

    def _of_day(self, at: int | None) -> GroupKey:
        slot = None if bounds.time_ms(at) is None or at is None else at // SLOT_MS
        return self._kept(slot, lambda: GroupKey(value=None if slot is None else self._day(slot)))

    def _day(self, slot: int) -> str:
        return datetime.fromtimestamp(slot * SLOT_MS / 1000, self._zone).strftime("%Y-%m-%d")

    def _of_place(self, session: Root) -> GroupKey:
        if (known := self._keys.get(session.id)) is not None:
            return known
        name = project_name(session.project, session.repository, session.root, session.cwd)
        if session.project is not None:
            name = self._names.setdefault(session.project, name)
        value = name if self._by == "project" else session.branch
        key = self._keys[session.id] = GroupKey(value=value or None, project=session.project, project_name=name or None)
        return key

    def _kept(self, known_as: object, made: Callable[[], GroupKey]) -> GroupKey:
        found = self._keys.get(known_as)
        if found is None:
            found = self._keys[known_as] = made()
        return found


NO_GROUP = GroupKey()
_COPIES = f"""
select t.id, o.id, o.session_id, o.tokens_source is not null or o.cost_usd is not null,
  os.relation is not '{Relation.SUBAGENT}' or os.parent_id is null
from turns t join turns o on o.uid = t.uid and o.id <> t.id
join sessions s on s.id = t.session_id join sessions os on os.id = o.session_id
where {{mine}} and os.uid < s.uid
"""
_RUNS = """
select distinct t.id from sessions o cross join turns r on r.session_id = o.id
  cross join sessions s on s.native_id = r.native_id and s.owner is null
  cross join turns t on t.session_id = s.id and t.uid = r.uid
where o.owner is not null
"""
"""As claims.IS_RUN, in this order because few sessions are ours."""
