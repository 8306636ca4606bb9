"""``backstory show``: a session, turn by turn: what is stored, and behind it what a run streams at this moment."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory import agents, model
from backstory.agents import bounded
from backstory.cli import output, record_view
from backstory.cli.app import now_ms
from backstory.cli.event_view import event_lines
from backstory.cli.marks import OUTCOMES, origin_mark
from backstory.cli.options import json_option, one_session, session_option, sessions_starting, store_option
from backstory.cli.points import find
from backstory.conversation.compact import compact_event
from backstory.conversation.pairing import results_below_calls, told_once
from backstory.derive.index_text import char_len
from backstory.derive.naming import NO_PROMPT
from backstory.derive.pricing import UNKNOWN, Cost
from backstory.errors import BackstoryError, RecordNotFound, TurnNotFound
from backstory.export.full_form import FullForms
from backstory.runs.runner import exit_unseen as exit_unknown
from backstory.runs.spool import SPOOLS, waiting
from backstory.runs.stream import READ_BYTES, Followed, SpooledRun
from backstory.store.costs import of_turn, price_table
from backstory.workspace import sessions
from backstory.workspace.located import LocatedSession
from backstory.workspace.running import with_runs
from backstory.workspace.targets import RECORD, SEQ_MAX, resolve_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from backstory.cli.app import App, Found
    from backstory.model import Event, Turn
    from backstory.runs.spool import Run, Spool
    from backstory.runs.stream import Shown
    from backstory.store import Store, StoredEvent

WINDOW = 500
"""So many events are read at once; nothing of the store is held while they are printed."""
NEIGHBOURS = 2
"""So many records before and after the one that is asked for."""
RECORDS_BEFORE = 100
"""So far back a record's call and its neighbours are looked for."""


@click.command("show")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@click.argument("record", metavar="[@N]", required=False)
@click.option("--full", is_flag=True, help="Everything, read again from the bytes, instead of the compact form.")
@click.option("--turn", "-t", type=int, metavar="N", help="Only this turn.")
@click.option("--find", "searched", metavar="WORDS", help="With @N: mark these words, and show where they stand.")
@session_option
@click.option("--thinking", is_flag=True, help="Also what the model thought.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, session: str | None, record: str | None, full: bool, turn: int | None, searched: str | None,
    wanted: str | None, thinking: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show a session: its turns, and what happened in them. SESSION is S3, a name, or the start of a uid.

    With @N that record: what it is, what it says (all of it with --full), and two records before and after. After a
    search on a terminal its words are marked there. Without SESSION the one that runs here, else the one last active.
    A turn marked "rewound" was left behind by a rewind or another branch, one marked "removed" by `branch rm`.
    A running session is shown up to now. In JSON the turn of a run that is not stored yet has "live": "running" or
    "waiting", and its events have "live": true and no number yet.
    A turn that is a run of another session, continued by the agent's own resume, is named only; in JSON its "shown_in"
    is that session.
    """
    if session is not None and record is None and RECORD.fullmatch(session):
        session, record = None, session
    found = find(app, one_session(session, wanted), running_first=True)
    if record is not None:
        _show_record(found, record, searched, full=full, as_json=as_json)
        return
    runs = live_runs(app.home / SPOOLS, found.session.uid)
    stored = found.store.turns(found.session)
    over = {each.uid for each in stored if each.outcome is not None}
    runs = [run for run in runs if run.turn.uid not in over]
    # A turn of a live run that is here already is being stored at this moment; it is shown from its spool.
    told = {run.turn.uid for run in runs}
    turns = dict(enumerate((each for each in stored if each.uid not in told), 1))
    live = {number: run for number, run in enumerate(runs, len(turns) + 1) if turn in (None, number)}
    if turn is not None and turn not in turns and turn not in live:
        raise TurnNotFound(found.label, len(turns) + len(runs))
    new = [each.run for each in runs if each.turn.uid not in {one.uid for one in stored}]
    found = LocatedSession(found.store, with_runs(found.session, new), found.is_conflict)
    forms = FullForms(found.store)
    form = forms.of if full else _compact if as_json else forms.with_words
    runs_in = found.store.runs_in(found.session)
    events = _events(found, {n: each for n, each in turns.items() if each.uid not in runs_in}, form, turn=turn)
    in_tree = _in_tree(found)
    costs = found.store.turn_costs(found.session)
    costs |= {run.turn.uid: of_turn(run.turn, price_table(found.store.prices_file)) for run in runs}
    if as_json:
        shown = {number: each for number, each in turns.items() if turn in (None, number)}
        in_tree = {uid: each | {"shown_in": runs_in.get(uid)} for uid, each in in_tree.items()}
        session_json = sessions.as_json(app.reader.session(found.store, found.session))
        head = _head_as_json(session_json | {"children": _children(found)}, shown, in_tree, live, costs)
        more = (live_event_as_json(event, number, full=full) for number, run in live.items() for event in run.events())
        output.json_lines(head, "events", chain((event_as_json(*each) for each in events), more))
        return
    gone = {uid: name for name in ("rewound", "removed") for uid, each in in_tree.items() if each[name]}
    elsewhere = _shown_elsewhere(found, turns, runs_in) if turn is None else ()
    lines = _lines(found, turns, gone, costs, events, elsewhere, full=full, thinking=thinking or full)
    coming = (
        _live_lines(number, run, costs[run.turn.uid], full=full, thinking=thinking or full)
        for number, run in live.items()
    )
    output.pages(chain(lines, chain.from_iterable(coming)))


def _head_as_json(
    session: dict[str, Any], turns: dict[int, Turn], in_tree: dict[str, Any], live: dict[int, LiveRun],
    costs: dict[str, Cost],
) -> dict[str, Any]:  # fmt: skip
    stored = [
        turn_as_json(number, each, costs.get(each.uid, UNKNOWN)) | in_tree.get(each.uid, {})
        for number, each in turns.items()
    ]
    return {
        "session": session,
        "turns": stored + [live_turn_as_json(number, run, costs[run.turn.uid]) for number, run in live.items()],
    }


def _show_record(found: Found, named: str, searched: str | None, *, full: bool, as_json: bool) -> None:
    """One record, read again from its bytes, among those that stand before and after it."""
    told = RECORD.fullmatch(named)
    seq = min(int(told.group(1)), SEQ_MAX) if told else resolve_target(found, named).point.seq
    window = found.store.events(found.session, after=(seq - 1, 1 << 30), limit=WINDOW)
    stored = [each for each in window if each.seq == seq]
    if not stored:
        raise RecordNotFound(seq)
    forms, numbers = FullForms(found.store), found.store.turn_numbers(found.session)
    events = [(each, forms.of(each), numbers.get(each.turn_id or 0)) for each in stored]
    if as_json:
        output.json({"uid": found.session.uid, "seq": seq, "events": [event_as_json(*each) for each in events]})
        return
    if not any(record_view.text_of(event).strip() for _, event, _ in events):
        output.talk(f"@{seq} has nothing to show: {', '.join(each.kind for each in stored)}")
    output.pages(_record_lines(found, events, window, searched or "", full=full))


def _record_lines(
    found: Found, events: list[tuple[StoredEvent, Event, int | None]], after: list[StoredEvent], words: str, *,
    full: bool,
) -> Iterator[str]:  # fmt: skip
    session, seq = found.session, events[0][0].seq
    form = FullForms(found.store).with_words
    before = found.store.events(session, after=(max(seq - RECORDS_BEFORE, 0) - 1, 1 << 30), limit=WINDOW)
    calls = {each.event.tool_use_id: each.event for each in before if isinstance(each.event, model.ToolCall)}
    results = (event.tool_use_id for _, event, _ in events if isinstance(event, model.ToolResult))
    call = next((calls[each] for each in results if each in calls), None)
    head = record_view.Head(title=session.shown_title, uid=session.uid, seq=seq, turn=events[0][2], at=events[0][0].at)
    yield from record_view.head_lines(head, [event for _, event, _ in events], call)
    yield from _neighbours([each for each in before if each.seq < seq], form, last=True)
    for stored, event, _ in events:
        yield output.style(f"@{stored.seq}", bold=True)
        yield from record_view.body_lines(event, words, full=full)
    yield from _neighbours([each for each in after if each.seq > seq], form, last=False)


def _neighbours(stored: list[StoredEvent], form: Callable[[StoredEvent], Event], *, last: bool) -> Iterator[str]:
    """The nearest records that have something to show."""
    shown: dict[int, list[str]] = {}
    for each in reversed(stored) if last else stored:
        lines = list(record_view.neighbour_lines(event_lines(each.seq, form(each), full=False)))
        if lines:
            shown.setdefault(each.seq, [])[: 0 if last else len(shown[each.seq])] = lines
        if len(shown) > NEIGHBOURS:
            break
    nearest = list(shown)[:NEIGHBOURS]
    for seq in reversed(nearest) if last else nearest:
        yield from shown[seq]


def _in_tree(found: Found) -> dict[str, dict[str, Any]]:
    """Of each turn by its uid whether it was left behind, and when it was removed."""
    turns, rewound = found.store.tree(found.session, removed=True), found.store.rewound(found.session)
    return {turn.uid: {"rewound": turn.uid in rewound, "removed": output.iso(turn.removed)} for turn in turns}


class LiveRun:
    """A run that the store does not have yet, as far as it had come when this was made.

    Raises UnknownAgent, AgentCannotRun.
    """

    def __init__(self, spool: Spool, run: Run) -> None:
        self.run = run
        self.is_running, self.pid = spool.is_alive, spool.pid
        # Opened here, so that they can still be read when the run is stored and its spool removed meanwhile.
        reader = bounded.stream_reader(agents.load(run.agent))
        self._outputs = [
            (Followed(path, reader, is_error=is_error), _size(path) // READ_BYTES + 1)
            for path, is_error in ((spool.stdout, False), (spool.stderr, True))
        ]
        self._order = spool.order()
        told = SpooledRun(spool, run, exit_unknown(spool), _last_written(spool))
        if not self.is_running:
            told.read()
        self._error = told.end_error
        self.turn = told.turn
        """What is known of its turn; how it ended only if it is over."""

    def events(self) -> Iterator[Event]:
        """What it has said, once: at the end also the text of an answer that was not finished."""
        yield model.UserMessage(content=self.run.prompt)
        unfinished = list[str]()
        for shown in self._shown():
            yield from shown.events
            if any(isinstance(event, model.AssistantText) for event in shown.events):
                unfinished.clear()
            unfinished.append(shown.delta)
        if text := "".join(unfinished):
            yield model.AssistantText(text=text)
        if self._error is not None:
            yield model.Error(message=self._error)

    def _shown(self) -> Iterator[Shown]:
        for ends in self._order:
            for (followed, _), end in zip(self._outputs, ends, strict=True):
                yield from followed.before(end)
        for followed, reads in self._outputs:
            # So many as the output was long: an agent may write faster than a terminal reads.
            for _ in range(reads):
                yield from followed.new()
            if not self.is_running:
                # A spool that is gone was stored meanwhile, and all but a torn last line was read above.
                with suppress(FileNotFoundError):
                    yield from followed.rest()
            followed.close()


def live_runs(spools: Path, session_uid: str) -> list[LiveRun]:
    """The runs of a session that its store does not have, the oldest first."""
    found = []
    for spool in waiting(spools):
        run = spool.run
        if run is not None and run.session_uid == session_uid:
            try:
                found.append(LiveRun(spool, run))
            except BackstoryError as refused:
                output.talk(f"A run in {spool.folder} is not shown: {refused}")
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _last_written(spool: Spool) -> int:
    """When an agent that is over said its last word, in ms."""
    try:
        return spool.stdout.stat().st_mtime_ns // 1_000_000
    except OSError:
        return now_ms()


def turn_as_json(number: int, turn: Turn, cost: Cost) -> dict[str, Any]:
    """A turn as printed."""
    return {
        "number": number,
        "uid": turn.uid,
        "seq": turn.first_seq,
        "last_seq": turn.last_seq,
        "parent": turn.parent_uid,
        "parent_seq": turn.parent_seq,
        "agent": turn.agent,
        "model": turn.model,
        "prompt": turn.prompt,
        "started": output.iso(turn.started),
        "ended": output.iso(turn.ended),
        "outcome": turn.outcome,
        "stop_reason": turn.stop_reason,
        "duration_ms": turn.duration_ms,
        "api_latency_ms": turn.api_latency_ms,
        "tokens": turn.tokens,
        "tokens_source": turn.tokens_source,
        "cost_usd": cost.usd,
        "cost_source": turn.cost_source,
        "cost_kind": cost.kind,
        "low_usd": cost.low_usd,
        "high_usd": cost.high_usd,
    }


def event_as_json(stored: StoredEvent, event: Event, turn: int | None) -> dict[str, Any]:
    """An event as printed: where it stands, then its own fields."""
    head = {"seq": stored.seq, "part": stored.part, "turn": turn, "kind": stored.kind, "at": output.iso(stored.at)}
    fields = msgspec.to_builtins(event)
    return head | {"char_len": stored.char_len} | {name: fields[name] for name in fields if name not in head}


def live_turn_as_json(number: int, run: LiveRun, cost: Cost) -> dict[str, Any]:
    """The turn of a run that is not stored yet, as printed: it has no place among the records."""
    state = "running" if run.is_running else "waiting"
    return turn_as_json(number, run.turn, cost) | {
        "seq": None,
        "last_seq": None,
        "live": state,
        "pid": run.pid,
    }


def live_event_as_json(event: Event, turn: int, *, full: bool) -> dict[str, Any]:
    """An event of such a run as printed: without a number, which the store will give it."""
    head = {"seq": None, "part": None, "turn": turn, "kind": event.kind, "at": None, "live": True}
    fields = msgspec.to_builtins(event if full else compact_event(event))
    return head | {"char_len": char_len(event)} | {name: fields[name] for name in fields if name not in head}


def _compact(stored: StoredEvent) -> Event:
    return stored.event


def _events(
    found: Found, turns: dict[int, Turn], form: Callable[[StoredEvent], Event], *, turn: int | None
) -> Iterator[tuple[StoredEvent, Event, int | None]]:
    store, session = found.store, found.session
    numbers = store.turn_numbers(session)
    after = (0, -1)
    while window := store.events(session, after=after, limit=WINDOW):
        for stored in window:
            number = numbers.get(stored.turn_id or 0)
            # What was stored after the turns were read is left for the next time.
            is_known = number is None or number in turns
            if is_known and turn in (None, number):
                yield stored, form(stored), number
        after = (window[-1].seq, window[-1].part)


def _children(found: Found) -> list[dict[str, Any]]:
    return [
        {"uid": child.uid, "relation": child.relation, "turns": child.turns}
        for child in found.store.children(found.session)
    ]


def _head(found: Found) -> Iterator[str]:
    """What a session is called, and what is known of it as a whole."""
    session = found.session
    called = f"{session.shown_number or ''} {session.shown_title or NO_PROMPT}".strip()
    yield output.style(output.one_line(called, output.width()), bold=True)
    where = session.project or session.cwd or session.worktree
    cost = found.store.session_costs([session])[session.id]
    money = output.money(cost) if cost.low_usd is not None else ""
    facts = [session.uid, ", ".join(session.agents), where, session.branch, _count(session.turns), money]
    yield output.style(output.one_liner(" · ".join(each for each in facts if each)), dim=True)
    if mark := origin_mark(session.elsewhere, is_conflict=found.is_conflict):
        yield output.style(output.one_liner(f"{mark}{session.elsewhere}"), fg="yellow")
    if session.parent_uid:
        yield output.style(f"{session.relation} of {session.parent_uid}", dim=True)
    yield from _child_lines(found.store, session.id)


def _lines(
    found: Found,
    turns: dict[int, Turn],
    gone: dict[str, str],
    costs: dict[str, Cost],
    events: Iterator[tuple[StoredEvent, Event, int | None]],
    elsewhere: Iterable[str],
    *,
    full: bool,
    thinking: bool,
) -> Iterator[str]:
    yield from _head(found)
    yield from elsewhere
    current: int | None = 0
    unknown = 0
    shown = results_below_calls(events, lambda each: each[1], lambda each: each[2])
    if not full:
        shown = told_once(shown, lambda each: each[1], lambda each, event: (each[0], event, each[2]))
    for (stored, event, number), answered in shown:
        if number != current and number is not None:
            cost, mark = costs.get(turns[number].uid, UNKNOWN), gone.get(turns[number].uid)
            marked = output.style(f"  {mark}", fg="red" if mark == "removed" else "yellow") if mark else ""
            yield from ("", _turn_line(number, turns[number], cost) + marked)
        current = number
        if isinstance(event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(event, model.Thinking):
            yield from event_lines(stored.seq, event, full=full, answered=answered)
    yield from _unknown_line(unknown)


def _shown_elsewhere(found: Found, turns: dict[int, Turn], runs_in: dict[str, str]) -> Iterator[str]:
    """The turns that are runs of another session, which shows what happened in them: what is shown here follows."""
    for number, turn in turns.items():
        if turn.uid in runs_in:
            owner = found.store.session(runs_in[turn.uid])
            at = next(each.first_seq for each in found.store.turns(owner) if each.uid == turn.uid)
            where = f"backstory show {owner.shown_number or owner.uid} @{at}"
            yield output.style(f"── turn {number}  follows a run: {where}", dim=True)


def _live_lines(number: int, run: LiveRun, cost: Cost, *, full: bool, thinking: bool) -> Iterator[str]:
    yield from ("", _turn_line(number, run.turn, cost))
    unknown = 0
    for event, answered in results_below_calls(run.events(), lambda each: each, lambda _: number):
        if isinstance(event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(event, model.Thinking):
            # Of a call the compact form may leave nothing to show.
            shown = event if full or isinstance(event, model.ToolCall) else compact_event(event)
            yield from event_lines(None, shown, full=full, answered=answered)
    yield from _unknown_line(unknown)
    if run.is_running:
        process = f"process {run.pid}" if run.pid is not None else "something that it started"
        yield output.style(f"       … still running ({process})", fg="yellow")
    else:
        yield output.style("       … over; it waits to be stored by the next run", fg="yellow")


def _unknown_line(count: int) -> Iterator[str]:
    if count:
        told = "1 record that is" if count == 1 else f"{count} records that are"
        yield output.style(f"         (+{told} not understood: --full)", dim=True)


def _child_lines(store: Store, session_id: int) -> Iterator[str]:
    for child in store.children(session_id):
        told = f"  └ {child.relation} {child.uid[:12]} ({_count(child.turns)}) {child.shown_title}"
        yield output.style(output.one_line(told.rstrip(), output.width()), dim=True)


def _count(turns: int) -> str:
    return f"{turns} turn" if turns == 1 else f"{turns} turns"


def _turn_line(number: int, turn: Turn, turn_cost: Cost) -> str:
    tokens = turn.tokens
    used = [] if tokens.output is None else [f"{_input_tokens(tokens)} in, {_output_tokens(turn)} out"]
    cost = [] if turn_cost.low_usd is None else [output.money(turn_cost)]
    mark, colour = OUTCOMES.get(turn.outcome or "", ("", "white"))
    facts = [turn.agent, turn.model, output.local(turn.started), output.duration(turn.duration_ms), *used, *cost]
    how = "" if turn.outcome in (None, model.Outcome.COMPLETED) else f" {turn.outcome}"
    title = f"── turn {number} " + output.style(mark + how, fg=colour)
    return output.style(title, bold=True) + output.style(
        "  " + output.one_liner(" · ".join(each for each in facts if each)), dim=True
    )


def _input_tokens(tokens: model.Tokens) -> str:
    known = [each for each in (tokens.input, tokens.cache_read, tokens.cache_write) if each is not None]
    return f"{sum(known):,}" if known else "–"


def _output_tokens(turn: Turn) -> str:
    return f"{'≥ ' if turn.tokens_source == model.PARTIAL else ''}{turn.tokens.output or 0:,}"
