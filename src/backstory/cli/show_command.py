"""``backstory show``: a session, turn by turn; behind what is stored stands what a run streams at this moment."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from backstory import model
from backstory.cli import output, record_view
from backstory.cli.event_view import event_lines
from backstory.cli.marks import METER_LEAST, meter_words, origin_mark
from backstory.cli.options import json_option, one_session, session_option, sessions_starting, store_option
from backstory.cli.points import find
from backstory.cli.turn_view import turn_line, unknown_line
from backstory.conversation.compact import compact_event
from backstory.conversation.pairing import results_below_calls, told_once
from backstory.derive.essence import essence
from backstory.derive.naming import NO_PROMPT
from backstory.errors import TurnNotFound
from backstory.workspace import entries, sessions
from backstory.workspace import transcript as turns
from backstory.workspace.entries import Entry
from backstory.workspace.meter import LiveMeter
from backstory.workspace.resume_command import is_resumable
from backstory.workspace.summaries import shown_summaries
from backstory.workspace.targets import RECORD, SEQ_MAX, resolve_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.model import Event
    from backstory.runs.live import LiveRun
    from backstory.store import Store
    from backstory.workspace.entries import Form
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.meter import Meter
    from backstory.workspace.reader import Reader
    from backstory.workspace.summaries import ShownSummary
    from backstory.workspace.transcript import ListedTurn, Transcript

WINDOW = 500
"""At most so many events before a record, and after it, are looked at for what is shown around it."""
PART_MAX = 1 << 30
NEIGHBOURS = 2
"""So many records before and after the one that is asked for."""
PREVIEW_EVENTS = 40
"""A preview has so many events of the first turn, and of the last."""
RECORDS_BEFORE = 100
"""So many records back a record's call and its neighbours are looked for."""


@click.command("show")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@click.argument("record", metavar="[@N]", required=False)
@click.option("--full", is_flag=True, help="Show everything, not the compact form.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Then show what comes, as it comes, until Ctrl-C.")
@click.option("--turn", "-t", type=int, metavar="N", help="Show only this turn.")
@click.option("--find", "searched", metavar="WORDS", help="With @N: highlight these words and show the text around.")
@click.option("--preview", "previews", is_flag=True, hidden=True, help="An excerpt for a small window.")
@session_option
@click.option("--thinking", is_flag=True, help="Also show the model's thinking.")
@click.option("--md", is_flag=True, help="Print Markdown for a pull request: answers, folded tools, references.")
@click.option("--outline", is_flag=True, help="Print prompts, decisions and commits, one a line.")
@click.option("--redact", is_flag=True, help="With --md or --outline: mask secrets and people's names in paths.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, session: str | None, record: str | None, full: bool, turn: int | None, searched: str | None,
    wanted: str | None, thinking: bool, follows: bool, previews: bool, md: bool, outline: bool, redact: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Show a session turn by turn. SESSION is S3, a name, or the start of a uid; default: the one running here, else
    the one last active.

    With @N, show that record (--full: all of it) with two records before and after. A running session is shown up to
    now; in JSON its turn has "live": "running" or "waiting", and its events have "live": true and no number yet.
    A turn marked "rewound" is on no current branch since a rewind; one marked "removed" was removed by `branch rm`.
    A turn that another session's run already shows is only named; in JSON "shown_in" is that session.

    With --follow, new entries are shown as the agent writes them, also of one that was started without backstory, and
    its log is imported as it grows. With --json each line is then one JSON object: the session with its turns first,
    then {"event": …}, {"turn": …} when a turn begins or its end is known, and {"remark": …}.
    """
    if session is not None and record is None and RECORD.fullmatch(session):
        session, record = None, session
    if md or outline or redact:
        from backstory.cli import sharing

        part = record is not None or turn is not None or searched is not None
        sharing.refuse_combinations(md=md, outline=outline, redact=redact, as_json=as_json, part=part)
    if follows and (record is not None or turn is not None):
        raise click.UsageError("--follow shows what comes, so it goes with neither @N nor --turn.")
    named = one_session(session, wanted)
    if not previews:
        app.bring_up_to_date()
    found = find(app, named, running_first=True)
    if md:
        sharing.print_markdown(app, found, full=full, thinking=thinking, redact=redact)
    elif outline:
        sharing.print_outline(app, found, redact=redact, as_json=as_json)
    elif record is not None:
        _show_record(app.reader, found, record, searched, full=full, as_json=as_json)
    elif previews:
        output.pages(_preview_lines(app.reader, found))
    elif follows:
        from backstory.cli.following import follow

        follow(app, found, _before, full=full, thinking=thinking or full, as_json=as_json)
    else:
        _show(app.reader, found, turn, full=full, thinking=thinking, as_json=as_json)


def _show(
    reader: Reader, found: LocatedSession, turn: int | None, *, full: bool, thinking: bool, as_json: bool
) -> None:
    transcript = reader.transcript(found, output.talk)
    shown = [each for each in transcript.turns if turn in (None, each.number)]
    if turn is not None and not shown:
        raise TurnNotFound(found.label, len(transcript.turns))
    numbers = {each.number for each in shown if each.live is None and each.shown_in is None}
    form: Form = "full" if full else "compact" if as_json else "words"
    events = reader.events(found, form=form, turns=numbers | {None} if turn is None else numbers)
    live = {each.number: transcript.live[each.number] for each in shown if each.live is not None}
    if as_json:
        more = (
            entries.live_event_as_json(event, number, full=full)
            for number, run in live.items()
            for event in run.events()
        )
        head = _head_as_json(transcript, shown)
        output.json_lines(head, "events", chain(map(entries.event_as_json, events), more))
        return
    lines = _lines(transcript, events, turn=turn, full=full, thinking=thinking or full)
    by_number = {each.number: each for each in shown}
    meter = transcript.session.meter
    coming = (
        _live_lines(by_number[number], run, meter, full=full, thinking=thinking or full) for number, run in live.items()
    )
    output.pages(chain(lines, chain.from_iterable(coming)))


def _before(
    transcript: Transcript, events: Iterator[Entry], *, full: bool, thinking: bool, as_json: bool
) -> Iterator[str]:
    """The stored part of a session that is followed."""
    if not as_json:
        yield from _lines(transcript, events, full=full, thinking=thinking)
        return
    stored = [each for each in transcript.turns if each.live is None]
    yield output.encoded(_head_as_json(transcript, stored))
    yield from (output.encoded({"event": entries.event_as_json(each)}) for each in events)


def _head_as_json(transcript: Transcript, shown: Sequence[ListedTurn]) -> dict[str, Any]:
    found = transcript.located
    children = [
        {"uid": child.uid, "relation": child.relation, "turns": child.turns}
        for child in found.store.children(found.session)
    ]
    session = sessions.as_json(transcript.session) | {"children": children}
    summaries = [each for each in transcript.summaries if _is_in(each, shown)]
    return {"session": session, "turns": [turns.as_json(each) for each in shown], "compactions": summaries}


def _is_in(summary: ShownSummary, shown: Sequence[ListedTurn]) -> bool:
    """Whether a summary stands in one of these turns."""
    return any(each.turn.first_seq <= summary.after_seq <= each.turn.last_seq for each in shown)


def _preview_lines(reader: Reader, found: LocatedSession) -> Iterator[str]:
    """How a session began, and its last turn: so much as fits a small window."""
    stored = found.store.turns(found.session)
    if not stored:
        return
    for turn in dict.fromkeys((stored[0].first_seq, stored[-1].first_seq)):
        yield ""
        for each in reader.events(found, (turn, -1), limit=PREVIEW_EVENTS):
            if isinstance(each.event, model.UserMessage | model.AssistantText | model.ToolCall | model.Error):
                yield from record_view.neighbour_lines(event_lines(each.outline.seq, each.event, full=False))


def _show_record(
    reader: Reader, found: LocatedSession, words: str, searched: str | None, *, full: bool, as_json: bool
) -> None:
    """One record, read again from its bytes, among those that stand before and after it."""
    named = RECORD.fullmatch(words)
    seq = min(int(named.group(1)), SEQ_MAX) if named else resolve_target(found, words).point.seq
    record = reader.record(found, seq)
    if as_json:
        events = [entries.event_as_json(each) for each in record]
        compactions = _summaries_at(found, seq)
        output.json({"uid": found.session.uid, "seq": seq, "events": events, "compactions": compactions})
        return
    if not any(record_view.text_of(each.event).strip() for each in record):
        output.talk(f"@{seq} has nothing to show: {', '.join(each.outline.kind for each in record)}")
    output.pages(_record_lines(reader, found, record, searched or "", full=full))


def _summaries_at(found: LocatedSession, seq: int) -> list[ShownSummary]:
    """The summaries that end with a record: a search that found one leads there."""
    if not found.store.has_compactions(found.session):
        return []
    turns = found.store.turns(found.session)
    return [each for each in shown_summaries(found, turns) if each.after_seq == seq]


def _record_lines(
    reader: Reader, found: LocatedSession, record: Sequence[Entry], words: str, *, full: bool
) -> Iterator[str]:
    session, at = found.session, record[0].outline
    earlier = (max(at.seq - RECORDS_BEFORE, 0) - 1, PART_MAX)
    before = [each for each in reader.events(found, earlier, limit=WINDOW) if each.outline.seq < at.seq]
    after = list(reader.events(found, (at.seq, PART_MAX), limit=WINDOW))
    calls = {each.event.tool_use_id: each.event for each in before if isinstance(each.event, model.ToolCall)}
    results = (each.event.tool_use_id for each in record if isinstance(each.event, model.ToolResult))
    call = next((calls[each] for each in results if each in calls), None)
    head = record_view.Head(title=session.shown_title, uid=session.uid, seq=at.seq, turn=at.turn, at=at.at)
    yield from record_view.head_lines(head, [each.event for each in record], call)
    yield from _neighbours(reader, found, before, last=True)
    for each in record:
        yield output.style(f"@{at.seq}", bold=True)
        yield from record_view.body_lines(each.event, words, full=full)
    for summary in _summaries_at(found, at.seq):
        yield from _summary_lines(summary, full=full)
    yield from _neighbours(reader, found, after, last=False)


def _neighbours(reader: Reader, found: LocatedSession, near: list[Entry], *, last: bool) -> Iterator[str]:
    """The nearest records that have something to show."""
    shown: dict[int, list[str]] = {}
    for each in reversed(near) if last else near:
        seq = each.outline.seq
        lines = list(record_view.neighbour_lines(event_lines(seq, _with_words(reader, found, each), full=False)))
        if lines:
            shown.setdefault(seq, [])[: 0 if last else len(shown[seq])] = lines
        if len(shown) > NEIGHBOURS:
            break
    nearest = list(shown)[:NEIGHBOURS]
    for seq in reversed(nearest) if last else nearest:
        yield from shown[seq]


def _with_words(reader: Reader, found: LocatedSession, entry: Entry) -> Event:
    """An event so that its line says what it is about: of a call the compact form may not."""
    is_bare = isinstance(entry.event, model.ToolCall) and not essence(entry.event)
    return reader.full(found, entry.outline) if is_bare else entry.event


def _head(transcript: Transcript) -> Iterator[str]:
    """What a session is called, and what is known of it as a whole."""
    session, found = transcript.session, transcript.located
    called = f"{session.number or ''} {session.heading or NO_PROMPT}".strip()
    yield output.style(output.one_line(called, output.width()), bold=True)
    where = session.project or session.cwd or found.session.worktree
    money = output.money(session.cost) if session.cost.low_usd is not None else ""
    turns = output.counted(session.turns, "turn")
    took = output.duration(session.duration_ms)
    facts = [session.uid, ", ".join(session.agents), where, session.branch, turns, took, money]
    words, colour = meter_words(session.meter)
    context = f" · context {output.style(words, fg=colour)}" if words else ""
    yield output.style(output.one_liner(" · ".join(each for each in facts if each)), dim=True) + context
    if mark := origin_mark(session.elsewhere, is_conflict=session.is_conflict):
        yield output.style(output.one_liner(f"{mark}{session.elsewhere}"), fg="yellow")
    if session.elsewhere is None and is_resumable(session.agents, session.native_id, session.number):
        # The agent's own command is in --json: naming it here would import the agent.
        own = f"{', '.join(session.agents)} {session.native_id}"
        yield output.style(output.one_liner(f"resume: backstory resume {session.label}  ({own})"), dim=True)
    if session.parent_uid:
        yield output.style(f"{session.relation} of {session.parent_uid}", dim=True)
    yield from _child_lines(found.store, found.session.id)


def _lines(
    transcript: Transcript, events: Iterator[Entry], *, turn: int | None = None, full: bool, thinking: bool
) -> Iterator[str]:
    """All turns, or this one."""
    yield from _head(transcript)
    if turn is None:
        yield from _shown_elsewhere(transcript)
    by_number = {each.number: each for each in transcript.turns}
    current: int | None = 0
    unknown = 0
    shown = results_below_calls(events, _event_of, lambda each: each.outline.turn)
    if not full:
        shown = told_once(shown, _event_of, lambda each, event: Entry(outline=each.outline, event=event))
    waiting = [each for each in transcript.summaries if turn is None or _is_in(each, [by_number[turn]])]
    for entry, answered in shown:
        number = entry.outline.turn
        while waiting and waiting[0].after_seq < entry.outline.seq:
            yield from _summary_lines(waiting.pop(0), full=full)
        if number != current and number is not None:
            yield from ("", turn_line(by_number[number]))
        current = number
        if isinstance(entry.event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(entry.event, model.Thinking):
            yield from event_lines(entry.outline.seq, entry.event, full=full, answered=answered)
    for summary in waiting:
        yield from _summary_lines(summary, full=full)
    yield from unknown_line(unknown)


def _summary_lines(summary: ShownSummary, *, full: bool) -> Iterator[str]:
    from backstory.cli.summary_view import summary_lines  # most sessions have none

    yield from summary_lines(summary, full=full)


def _event_of(entry: Entry) -> Event:
    return entry.event


def _shown_elsewhere(transcript: Transcript) -> Iterator[str]:
    """The turns that are runs of another session, which shows what happened in them."""
    store = transcript.located.store
    for each in transcript.turns:
        if each.shown_in is not None:
            owner = store.session(each.shown_in)
            at = next(turn.first_seq for turn in store.turns(owner) if turn.uid == each.turn.uid)
            where = f"backstory show {owner.shown_number or owner.uid} @{at}"
            yield output.style(f"── turn {each.number}  follows a run: {where}", dim=True)


def _live_lines(listed: ListedTurn, run: LiveRun, meter: Meter | None, *, full: bool, thinking: bool) -> Iterator[str]:
    """A turn of a live run. ``meter``: how full the context was before it."""
    yield from ("", turn_line(listed))
    unknown, live = 0, None if meter is None else LiveMeter(meter, "")
    for event, answered in results_below_calls(
        run.events() if live is None else live.counting(run.events()), lambda each: each, lambda _: listed.number
    ):
        if isinstance(event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(event, model.Thinking):
            # Of a call the compact form may leave nothing to show.
            shown = event if full or isinstance(event, model.ToolCall) else compact_event(event)
            yield from event_lines(None, shown, full=full, answered=answered)
    yield from unknown_line(unknown)
    if run.is_running:
        process = f"process {run.pid}" if run.pid is not None else "something that it started"
        words, colour = meter_words(None if live is None else live.meter, METER_LEAST)
        full_now = f" · context {output.style(words, fg=colour)}" if words else ""
        yield output.style(f"       … still running ({process})", fg="yellow") + full_now
    else:
        yield output.style("       … finished; the next run will store it", fg="yellow")


def _child_lines(store: Store, session_id: int) -> Iterator[str]:
    for child in store.children(session_id):
        line = f"  └ {child.relation} {child.uid[:12]} ({output.counted(child.turns, 'turn')}) {child.shown_title}"
        yield output.style(output.one_line(line.rstrip(), output.width()), dim=True)
