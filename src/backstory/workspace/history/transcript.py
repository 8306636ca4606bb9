"""A session as it is read from its beginning: its turns and summaries, and what its live runs add to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import agents
from backstory.ask import costs as stored_costs
from backstory.ask.costs import of_turn, price_table
from backstory.bounds import iso
from backstory.derive.pricing import UNKNOWN, cost_as_json
from backstory.errors import AgentUnusable, UnknownAgent
from backstory.runs.spool import RUNNING, WAITING, list_spools
from backstory.store.intake import claims
from backstory.store.tables import branches, compactions, events
from backstory.store.tables import turns as stored_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from backstory.derive.pricing import Cost
    from backstory.model import Turn
    from backstory.runs.live import LiveRun
    from backstory.store import Session
    from backstory.workspace.history.entries import OutlineColumns
    from backstory.workspace.history.listing import Listing
    from backstory.workspace.history.sessions import ListedSession
    from backstory.workspace.located import LocatedSession
else:
    from backstory.model import Turn
    from backstory.workspace.located import LocatedSession


class ListedTurn(Struct, frozen=True, kw_only=True):
    """One turn of a session. ``number`` counts from 1."""

    number: int
    turn: Turn
    cost: Cost
    is_rewound: bool = False
    """True if a rewind or another branch left it behind."""
    removed: int | None = None
    """The time at which a person removed its branch, in ms since 1970."""
    shown_in: str | None = None
    """The uid of the session that shows what happened in it, where it is a run of that one, or a copy."""
    live: str | None = None
    """RUNNING or WAITING; None once it is stored."""
    pid: int | None = None
    """The process of its agent, while that runs."""


class Transcript(Struct, frozen=True, kw_only=True):
    """A session's turns at one moment. ``live``: its runs that are not stored yet, by their turns' numbers."""

    located: LocatedSession
    session: ListedSession
    """As it is listed, with the live runs counted as turns."""
    turns: tuple[ListedTurn, ...]
    live: dict[int, LiveRun]
    summaries: tuple[ShownSummary, ...] = ()
    """Those that stand for its beginning in contexts, in the order of what they cover."""
    children: tuple[Session, ...] = ()
    """The sessions that come from it, in whichever store they are."""

    @property
    def aside(self) -> frozenset[int]:
        """The numbers of the turns that stand behind the others: off the current branch of a history that is a tree."""
        rewound = frozenset(each.number for each in self.turns if each.is_rewound)
        is_tree = bool(rewound) and all(map(_keeps_trees, {each.turn.agent for each in self.turns}))
        return rewound if is_tree else frozenset()


def _keeps_trees(agent: str) -> bool:
    try:
        return agents.load(agent).keeps_trees
    except (UnknownAgent, AgentUnusable):
        return False


def transcript_of(
    listing: Listing, spools: Path, now: int, located: LocatedSession, report: Callable[[str], None]
) -> Transcript:
    """The turns of a session with those of its live runs; ``report`` receives why a run is not shown."""
    store, session = located.store, located.session
    runs = _live_runs(session.uid, spools, now, report)
    stored = store.turns(session)
    over = {each.uid for each in stored if each.outcome is not None}
    # A turn of a live run that is here already is being stored at this moment; it is shown from its spool.
    live = {run.turn.uid: run for run in runs if run.turn.uid not in over}
    for run in runs:
        if run.turn.uid in over:
            run.close()
    turns = _stored_turns(located, [each for each in stored if each.uid not in live])
    numbered = dict(enumerate(live.values(), len(turns) + 1))
    turns += [
        live_turn(number, run, of_turn(run.turn, price_table(store.prices_file))) for number, run in numbered.items()
    ]
    new = [run.run for uid, run in live.items() if uid not in {each.uid for each in stored}]
    running = [run.run for run in live.values() if run.is_running]
    (listed,) = listing.values(
        [store], [(store, session)], {session.uid: running} if running else {}, {session.uid: new}, everywhere=False
    )
    return Transcript(
        located=located,
        session=listed,
        turns=tuple(turns),
        live=numbered,
        summaries=shown_summaries(located, stored),
        children=_children(listing, located),
    )


def part_of(
    spools: Path, located: LocatedSession, most: int, goal: int | None
) -> tuple[OutlineColumns, tuple[ListedTurn, ...]] | None:
    """Entries around a record of a session, or the last, and their turns; None where that needs a look at all of it."""
    from backstory.workspace.history.entries import columns_of

    store, session = located.store, located.session
    if (
        any(run is not None and run.session_uid == session.uid for run in (each.run for each in list_spools(spools)))
        or not store.ask(stored_turns.is_line, session.id)
        or store.ask(stored_turns.has_summary, session.id)
        or store.ask(claims.shown_elsewhere, session.id)
    ):
        return None
    up_to = None if goal is None else store.ask(events.seq_behind, session.id, goal, most // 2)
    order, turns = columns_of(located, most, up_to), store.ask(stored_turns.ending, session.id, most, up_to)
    shown = {number: turn for number, turn in turns.items() if number in order.turns}
    uids = [turn.uid for turn in shown.values()]
    costs = store.ask(stored_costs.of_turns, price_table(store.prices_file), session.id, uids)
    listed = (ListedTurn(number=n, turn=turn, cost=costs.get(turn.uid, UNKNOWN)) for n, turn in shown.items())
    return order, tuple(listed)


def _children(listing: Listing, located: LocatedSession) -> tuple[Session, ...]:
    """The sessions that come from one, each once: of a project's session the home store has those read from logs."""
    uid, found = located.session.uid, {child.uid: child for child in located.store.children(located.session)}
    for store in listing.stores(everywhere=False):
        if store.path != located.store.path and store.has(uid):
            found = {child.uid: child for child in store.children(store.session(uid))} | found
    return tuple(found[child] for child in sorted(found))


def _live_runs(session_uid: str, spools: Path, now: int, report: Callable[[str], None]) -> list[LiveRun]:
    if not list_spools(spools):
        return []
    from backstory.runs.live import live_runs  # it knows all that runs agents

    return live_runs(spools, session_uid, now, report)


def _stored_turns(located: LocatedSession, stored: Sequence[Turn]) -> list[ListedTurn]:
    store, session = located.store, located.session
    removed, rewound, elsewhere, costs = (
        store.ask(stored_turns.removed, session.id),
        store.ask(branches.rewound, session.id),
        store.ask(claims.shown_elsewhere, session.id),
        store.ask(stored_costs.by_turn, stored_costs.price_table(store.prices_file), session.id),
    )
    return [
        ListedTurn(
            number=number,
            turn=turn,
            cost=costs.get(turn.uid, UNKNOWN),
            is_rewound=turn.uid in rewound,
            removed=removed.get(turn.uid),
            shown_in=elsewhere.get(turn.uid),
        )
        for number, turn in enumerate(stored, 1)
    ]


def live_turn(number: int, run: LiveRun, cost: Cost) -> ListedTurn:
    """The turn of a run that is not stored yet."""
    state = RUNNING if run.is_running else WAITING
    return ListedTurn(number=number, turn=run.turn, cost=cost, live=state, pid=run.pid)


def as_json(listed: ListedTurn) -> dict[str, Any]:
    """A turn as ``show --json`` prints it; of a live one also its state, and no place among the records."""
    turn, cost = listed.turn, listed.cost
    fields = {
        "turn": listed.number,
        "turn_uid": turn.uid,
        "seq": turn.first_seq if listed.live is None else None,
        "last_seq": turn.last_seq if listed.live is None else None,
        "parent_turn_uid": turn.parent_uid,
        "parent_seq": turn.parent_seq,
        "agent": turn.agent,
        "model": turn.model,
        "prompt": turn.prompt,
        "started": iso(turn.started),
        "ended": iso(turn.ended),
        "outcome": turn.outcome,
        "stop_reason": turn.stop_reason,
        "duration_ms": turn.duration_ms,
        "api_latency_ms": turn.api_latency_ms,
        "tokens": turn.tokens,
        "tokens_source": turn.tokens_source,
        **cost_as_json(cost),
        "cost_source": turn.cost_source,
    }
    if listed.live is not None:
        return fields | {"live": listed.live, "pid": listed.pid}
    return fields | {"rewound": listed.is_rewound, "removed": iso(listed.removed), "shown_in": listed.shown_in}


# summaries where they stand -------------------------------------------------------------------------------------------


class ShownSummary(Struct, frozen=True, kw_only=True):
    """A stored summary: it stands behind the record ``after_seq``, for all records up to there from ``first_seq`` on.

    What agents' own logs have of summaries is shown as the records that they are.
    """

    after_seq: int
    first_seq: int
    exchanges: int
    """The number of prompts up to it, each with the records that followed."""
    summary: str
    agent: str | None
    created: str | None
    in_force: bool
    """True if the next context begins with it."""


def shown_summaries(located: LocatedSession, turns: Sequence[Turn]) -> tuple[ShownSummary, ...]:
    """The summaries of a session that were not taken back, in the order of what they cover. ``turns``: all it has."""
    store, session = located.store, located.session
    if not store.ask(stored_turns.has_summary, session.id):
        return ()
    in_force = store.ask(compactions.in_force, session.id)
    stored = [each for each in store.ask(compactions.of_session, session.id) if each.id is not None]
    paths = {each.after_seq: list(_path_to(turns, each.after_seq)) for each in stored}
    return tuple(
        ShownSummary(
            after_seq=each.after_seq,
            first_seq=min((turn.first_seq for turn in paths[each.after_seq]), default=1),
            exchanges=sum(bool(turn.prompt) for turn in paths[each.after_seq]),
            summary=each.summary,
            agent=each.agent,
            created=each.created,
            in_force=in_force is not None and each.id == in_force.id,
        )
        for each in stored
    )


def _path_to(turns: Sequence[Turn], seq: int) -> Iterator[Turn]:
    """The turns that lead to a record, the last first."""
    by_uid = {turn.uid: turn for turn in turns}
    at = next((turn for turn in turns if turn.first_seq <= seq <= turn.last_seq), None)
    while at is not None:
        yield at
        at = by_uid.pop(at.parent_uid or "", None)
