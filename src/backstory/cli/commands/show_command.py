"""``backstory show``: a session, turn by turn; behind what is stored stands what a run streams at this moment."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from backstory import model
from backstory.cli import output
from backstory.cli.options import find, json_option, one_session, session_option, sessions_starting, store_option
from backstory.cli.views.event_view import (
    elsewhere_lines,
    end_line,
    event_lines,
    head_lines,
    turn_line,
    unknown_line,
)
from backstory.conversation.compact import compact_event
from backstory.conversation.pairing import results_below_calls, with_answers, with_interruptions
from backstory.errors import RecordNotFound, TurnNotFound
from backstory.ids import session_keys
from backstory.lazy import lazy_module
from backstory.workspace.history import entries, sessions
from backstory.workspace.history import transcript as transcripts
from backstory.workspace.history.entries import ShownResult, paired
from backstory.workspace.history.targets import RECORD, SEQ_MAX, resolve_target
from backstory.workspace.runs.running import METER_LEAST, meter_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.cli.views import record_view
    from backstory.model import Event
    from backstory.runs.live import LiveRun
    from backstory.workspace.history.entries import Form, SessionEntry
    from backstory.workspace.history.transcript import ListedTurn, ShownSummary, Transcript
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.runs import running
else:
    record_view = lazy_module("backstory.cli.views.record_view")
    running = lazy_module("backstory.workspace.runs.running")


@click.command("show")
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=sessions_starting)
@click.argument("record", metavar="[@N]", required=False)
@click.option("--full", is_flag=True, help="Show everything, not the compact form.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Then show what comes, as it comes, until Ctrl-C.")
@click.option("--turn", "-t", type=int, metavar="N", help="Show only this turn.")
@click.option("--find", "searched", metavar="WORDS", help="With @N: highlight these words and show the text around.")
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
    wanted: str | None, thinking: bool, follows: bool, md: bool, outline: bool, redact: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Show a session turn by turn. SESSION is S3, a name, or the start of a uid; default: the one running here, else
    the one last active.

    With @N, show that record (--full: all of it) with two records before and after. A running session is shown up to
    now; in JSON its turn has "live": "running" or "waiting", and its events have "live": true and no number yet.
    A turn marked "rewound" is on no current branch since a rewind; one marked "removed" was removed by `tree rm`.
    A turn that another session already shows is only named; in JSON "shown_in" is that session.

    With --follow, new entries are shown as the agent writes them, also of one that was started without backstory, and
    its log is imported as it grows. With --json each line is then one JSON object: the session with its turns first,
    then {"event": …}, {"turn": …} when a turn begins or its end is known, and {"remark": …}.
    """
    if session is not None and record is None and RECORD.fullmatch(session):
        session, record = None, session
    if md or outline or redact:
        from backstory.cli.views import sharing

        part = record is not None or turn is not None or searched is not None
        sharing.refuse_combinations(md=md, outline=outline, redact=redact, as_json=as_json, part=part)
    if follows and (record is not None or turn is not None):
        raise click.UsageError("--follow shows what comes, so it goes with neither @N nor --turn.")
    named = one_session(session, wanted)
    app.bring_up_to_date()
    found = find(app, named, running_first=True, has_heading=not as_json)
    if md:
        sharing.print_markdown(app, found, full=full, thinking=thinking, redact=redact)
    elif outline:
        sharing.print_outline(app, found, redact=redact, as_json=as_json)
    elif record is not None:
        _show_record(app, found, record, searched, full=full, as_json=as_json)
    elif follows:
        from backstory.cli.views.following import follow

        follow(app, found, partial(_before, app), full=full, thinking=thinking or full, as_json=as_json)
    else:
        _show(app, found, turn, full=full, thinking=thinking, as_json=as_json)


def _show(app: App, found: LocatedSession, turn: int | None, *, full: bool, thinking: bool, as_json: bool) -> None:
    reader = app.reader
    transcript = reader.transcript(found, output.talk)
    shown = [each for each in transcript.turns if turn in (None, each.number)]
    if turn is not None and not shown:
        raise TurnNotFound(found.label, len(transcript.turns))
    numbers = {each.number for each in shown if each.live is None and each.shown_in is None}
    form: Form = "full" if full else "compact" if as_json else "words"
    aside = frozenset() if as_json else transcript.aside
    events = chain(
        reader.events(found, form=form, turns=(numbers | {None} if turn is None else numbers) - aside),
        reader.events(found, form=form, turns=numbers & aside) if aside else (),
    )
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
    lines = _lines(app, transcript, events, only=turn, full=full, thinking=thinking or full)
    by_number = {each.number: each for each in shown}
    coming = (
        _live_lines(app, found, by_number[number], run, full=full, thinking=thinking or full)
        for number, run in live.items()
    )
    output.pages(chain(lines, chain.from_iterable(coming)))


def _before(
    app: App, transcript: Transcript, events: Iterator[SessionEntry], *, full: bool, thinking: bool, as_json: bool
) -> Iterator[str]:
    """The stored part of a session that is followed."""
    if not as_json:
        yield from _lines(app, transcript, events, full=full, thinking=thinking)
        return
    stored = [each for each in transcript.turns if each.live is None]
    yield output.encoded(_head_as_json(transcript, stored))
    yield from (output.encoded({"events": [entries.event_as_json(each)]}) for each in events)


def _head_as_json(transcript: Transcript, shown: Sequence[ListedTurn]) -> dict[str, Any]:
    children = [
        session_keys(child.uid) | {"relation": child.relation, "turn_count": child.turns}
        for child in transcript.children
    ]
    session = sessions.as_json(transcript.session) | {"children": children}
    summaries = [each for each in transcript.summaries if _is_in(each, shown)]
    return {"session": session, "turns": [transcripts.as_json(each) for each in shown], "compactions": summaries}


def _is_in(summary: ShownSummary, shown: Sequence[ListedTurn]) -> bool:
    """Return True if a summary stands in one of these turns."""
    return any(each.turn.first_seq <= summary.after_seq <= each.turn.last_seq for each in shown)


def _show_record(
    app: App, found: LocatedSession, words: str, searched: str | None, *, full: bool, as_json: bool
) -> None:
    """One record, read again from its bytes, among those that stand before and after it."""
    reader = app.reader
    named = RECORD.fullmatch(words)
    seq = min(int(named.group(1)), SEQ_MAX) if named else resolve_target(found, words).point.seq
    try:
        record = reader.record(found, seq)
    except RecordNotFound:
        _show_kept(found, seq, reader.kept_record(found, seq), searched or "", full=full, as_json=as_json)
        return
    if as_json:
        events = [entries.event_as_json(each) for each in record]
        compactions = record_view.summaries_at(found, seq)
        output.json(found.keys | {"seq": seq, "events": events, "compactions": compactions})
        return
    if not any(record_view.text_of(each.event).strip() for each in record):
        output.talk(f"@{seq} has nothing to show: {', '.join(each.outline.kind for each in record)}")
    now = app.workspace.now()
    output.pages(record_view.record_lines(reader, found, record, searched or "", now=now, full=full))


def _show_kept(found: LocatedSession, seq: int, data: bytes, searched: str, *, full: bool, as_json: bool) -> None:
    """A record that nothing is shown of elsewhere, as its agent wrote it."""
    if as_json:
        text = data.decode("utf-8", "replace")
        output.json(found.keys | {"seq": seq, "events": [], "compactions": [], "record_text": text})
        return
    output.talk(f"@{seq} says nothing that a session shows. This is the record as its agent wrote it:")
    output.pages(record_view.kept_lines(data, searched, full=full))


def _lines(
    app: App,
    transcript: Transcript,
    events: Iterator[SessionEntry],
    *,
    only: int | None = None,
    full: bool,
    thinking: bool,
) -> Iterator[str]:
    """All turns, or ``only`` this one."""
    now = app.workspace.now()
    yield from head_lines(transcript, str(app.user_home), now)
    if only is None:
        yield from elsewhere_lines(transcript)
    by_number = {each.number: each for each in transcript.turns}
    turn: ListedTurn | None = None
    unknown, folder = 0, transcript.session.said_folder
    waiting = [each for each in transcript.summaries if only is None or _is_in(each, [by_number[only]])]
    for entry, answered, answer in paired(events, full=full):
        number = entry.outline.turn
        while waiting and waiting[0].after_seq < entry.outline.seq:
            yield from _summary_lines(waiting.pop(0), full=full)
        if number is not None and (turn is None or number != turn.number):
            yield from _between(turn, by_number[number], now)
            turn = by_number[number]
        if isinstance(entry.event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(entry.event, model.Thinking):
            yield from event_lines(
                entry.outline.seq, entry.event, full=full, answered=answered, answer=answer, folder=folder
            )
    for summary in waiting:
        yield from _summary_lines(summary, full=full)
    yield from unknown_line(unknown)
    if turn is not None:
        yield from end_line(turn)


def _between(before: ListedTurn | None, turn: ListedTurn, now: int) -> Iterator[str]:
    """The end of a turn and the beginning of the next."""
    if before is not None:
        yield from end_line(before)
    yield from ("", turn_line(turn, now, beside=before))


def _summary_lines(summary: ShownSummary, *, full: bool) -> Iterator[str]:
    from backstory.cli.views.summary_view import summary_lines  # most sessions have none

    yield from summary_lines(summary, full=full)


def _untimed(result: Event | None) -> ShownResult | None:
    """A live run's result, which has no number yet."""
    compacted = None if result is None else compact_event(result)
    return ShownResult(None, compacted) if isinstance(compacted, model.ToolResult) else None


def _live_lines(
    app: App, found: LocatedSession, listed: ListedTurn, run: LiveRun, *, full: bool, thinking: bool
) -> Iterator[str]:
    """A turn of a live run."""
    yield from ("", turn_line(listed, app.workspace.now()))
    live = running.live_meter(app.workspace, found.store, found.session, run.run.agent, run.run.model, "")
    unknown, folder = 0, found.session.said_folder or run.run.cwd
    events: Iterator[Event] = run.events() if live is None else live.counting(run.events())
    if not full:
        events = with_interruptions(events, lambda each: each, lambda _, event: event)
    shown = results_below_calls(events, lambda each: each, lambda _: listed.number)
    pairs = ((event, answered, None) for event, answered in shown) if full else with_answers(shown, lambda each: each)
    for event, answered, result in pairs:
        if isinstance(event, model.Unknown) and not full:
            unknown += 1
        elif thinking or not isinstance(event, model.Thinking):
            # Of a call the compact form may leave nothing to show.
            drawn = event if full or isinstance(event, model.ToolCall) else compact_event(event)
            answer = _untimed(result)
            yield from event_lines(None, drawn, full=full, answered=answered, answer=answer, folder=folder)
    yield from unknown_line(unknown)
    if run.is_running:
        process = f"process {run.pid}" if run.pid is not None else "something that it started"
        words, colour = meter_words(None if live is None else live.meter, METER_LEAST)
        full_now = f" · context {output.style(words, fg=colour)}" if words else ""
        yield output.style(f"       … still running ({process})", bold=True) + full_now
    else:
        yield output.style("       … finished; the next run will store it", bold=True)
