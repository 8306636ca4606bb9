"""Runs know their times: those that records say themselves, else when their lines came while a runner watched."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents.contract import Exit
from backstory.exchange import replication
from backstory.ids import parse_time_ms
from backstory.ingest.reindex import reindex
from backstory.runs.spool import Run, Spool
from backstory.runs.stream import WATCH_GAP_MS, ArrivalNotes, SpooledRun, append_run, notes_of, read_notes
from backstory.store import Session, Store, open_store
from backstory.store.intake.batches import Arrivals
from backstory.store.tables import sidecars
from tests.support.clock import NOW, Clock
from tests.support.own_log import give_facts
from tests.support.running import GOOD, start_and_leave, until_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.support.bench import Bench

MINUTE_MS = 60_000
DAY_MS = 86_400_000
BEGUN = {"type": "thread.started", "thread_id": "n"}
COMMAND = {"id": "i1", "type": "command_execution", "command": "cat heron.md", "status": "in_progress"}
CALL = {"type": "item.started", "item": COMMAND}
RESULT = {
    "type": "item.completed",
    "item": {**COMMAND, "aggregated_output": "reeds", "exit_code": 0, "status": "completed"},
}
ANSWER = {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "In the reeds, see ABC-12."}}
DONE = {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 2}}
ERROR = b"2026-09-21T10:00:00Z ERROR codex_core: error=the tool is not there"
Came = tuple[int | None, Any]
"""When a line was first seen, and what it says; None: it came when nobody watched any more."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "s.bks", now=lambda: NOW) as store:
        yield store


def line_of(said: Any) -> bytes:
    return (said if isinstance(said, bytes) else json.dumps(said).encode()) + b"\n"


def write_watched(output: Path, lines: Iterable[Came]) -> None:
    """An output, with the notes of a runner that saw each line when it came."""
    clock = Clock()
    with closing(ArrivalNotes(output, clock, NOW)) as notes, output.open("ab") as file:
        for at, said in lines:
            file.write(line_of(said))
            if at is not None:
                # It looks again and again, also while nothing comes.
                clock.ms = at
                notes.looked(0)
                notes.looked(len(line_of(said)))


def spooled(
    store: Store, session: Session, *lines: Came, stderr: tuple[Came, ...] = (), turn: int = 1, agent: str = "codex"
) -> SpooledRun:
    """A run that is over, one of several of a session."""
    run = Run(
        turn_uid=f"01JXYZ000000000000000000{turn:02}", session_uid=session.uid, store=str(store.path), agent=agent,
        prompt="Where?", cwd="/w", started=NOW,
    )  # fmt: skip
    spool = Spool.begin(store.path.with_name("spool"), run, "Where?")
    write_watched(spool.stdout, lines)
    write_watched(spool.stderr, stderr)
    return SpooledRun(spool, run, Exit(code=0), NOW + DAY_MS)


def times(store: Store, session: Session) -> list[tuple[str, int | None]]:
    return [(each.kind, each.at) for each in store.events(session)]


def arrivals_of(output: Path) -> Arrivals:
    content, _ = read_notes(output)
    return Arrivals(content)


def spool_of(store: Store, turn: int = 1) -> Spool:
    return Spool(store.path.with_name("spool") / f"01JXYZ000000000000000000{turn:02}")


def test_what_a_run_says_happened_when_its_lines_came(store: Store) -> None:
    session = store.create_session()
    lines = [(NOW + 10, BEGUN), (NOW + 400, CALL), (NOW + 900, RESULT), (NOW + 2_000, ANSWER), (NOW + 2_500, DONE)]
    append_run(spooled(store, session, *lines), store)
    assert times(store, session) == [
        ("UserMessage", NOW), ("Init", NOW + 10), ("ToolCall", NOW + 400), ("ToolResult", NOW + 900),
        ("AssistantText", NOW + 2_000), ("Complete", NOW + 2_500),
    ]  # fmt: skip


def test_what_is_derived_of_a_run_has_the_times_too(store: Store) -> None:
    session = store.create_session()
    lines = [(NOW + 10, BEGUN), (NOW + 400, CALL), (NOW + 900, RESULT), (NOW + 2_000, ANSWER), (NOW + 2_500, DONE)]
    append_run(spooled(store, session, *lines), store)
    assert answer(store, "select file_path, first_seen_at from main.session_files") == [("/w/heron.md", NOW + 400)]
    assert answer(store, "select ref_value, created_at from main.session_refs") == [("ABC-12", NOW + 2_000)]
    assert answer(store, "select duration_ms from tool_calls") == [(500,)]


def answer(store: Store, query: str) -> list[tuple[Any, ...]]:
    return list(store.execute_read_only(query).rows)


def test_a_time_that_a_record_says_itself_comes_before_that_of_its_line(store: Store) -> None:
    session, told = store.create_session(), "2026-09-21T13:46:40.250Z"
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "In the reeds."}]}}
    lines = [(NOW + 800, {**said, "timestamp": told}), (NOW + 900, {**said, "timestamp": "no time"})]
    append_run(spooled(store, session, *lines, agent="claude"), store)
    assert times(store, session)[1:3] == [("AssistantText", parse_time_ms(told)), ("AssistantText", NOW + 900)]


@pytest.mark.parametrize(
    ("result_at", "call_at"), [(NOW + 300, NOW + 300), (NOW - DAY_MS, NOW + 900)], ids=["before", "clock set back"]
)
def test_a_line_that_was_seen_late_came_before_what_its_agent_logged_next(
    store: Store, result_at: int, call_at: int
) -> None:
    session = store.create_session()
    lines = [(NOW + 10, BEGUN), (NOW + 900, CALL), (NOW + 900, RESULT), (NOW + 1_000, ANSWER)]
    append_run(spooled(store, session, *lines), store)
    place = sum(len(line_of(said)) for said in (BEGUN, CALL))
    give_facts(store, session, b'{"times":{"%d":%d}}' % (place, result_at))
    assert reindex(store, now=NOW, events_too=True).failed == []
    assert [at for _, at in times(store, session)][1:5] == [NOW + 10, call_at, result_at, NOW + 1_000]


def test_an_error_on_stderr_has_its_time(store: Store) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, BEGUN), stderr=((NOW + 700, ERROR),)), store)
    assert ("Error", NOW + 700) in times(store, session)


def test_a_line_that_is_not_understood_has_its_time(store: Store) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, b'{"torn'), (NOW + 20, {"type": "a-new-kind"})), store)
    assert times(store, session)[1:3] == [("Unknown", NOW + 10), ("Unknown", NOW + 20)]


def test_what_nobody_watched_has_no_time(store: Store) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, BEGUN), (None, CALL), (None, RESULT)), store)
    assert times(store, session)[1:4] == [("Init", NOW + 10), ("ToolCall", None), ("ToolResult", None)]


def test_what_came_in_a_long_time_without_a_look_has_no_time_and_what_comes_next_has(
    store: Store, tmp_path: Path
) -> None:
    clock, output = Clock(), tmp_path / "stdout"
    with closing(ArrivalNotes(output, clock, NOW)) as notes:
        clock.ms += WATCH_GAP_MS
        notes.looked(10)
        clock.ms += WATCH_GAP_MS + 1
        notes.looked(20)
        clock.ms += 25
        notes.looked(30)
    arrivals = arrivals_of(output)
    assert [arrivals.at(n, 1) for n in (0, 9, 10, 29, 30, 59)] == [
        NOW + WATCH_GAP_MS, NOW + WATCH_GAP_MS, None, None, clock.ms, clock.ms
    ]  # fmt: skip


def test_a_run_whose_clock_is_set_back_is_stored_whole_and_no_call_took_less_than_nothing(store: Store) -> None:
    session = store.create_session()
    lines = [(NOW + 10, BEGUN), (NOW + 400, CALL), (NOW - DAY_MS, RESULT), (NOW - DAY_MS + 50, ANSWER)]
    append_run(spooled(store, session, *lines), store)
    assert [at for _, at in times(store, session)[1:5]] == [at for at, _ in lines]
    assert answer(store, "select duration_ms from tool_calls") == [(None,)]
    assert answer(store, "select duration_ms from content_blocks where tool_name = 'shell'") == [(None,), (None,)]
    assert answer(store, "select details ->> 'duration_ms' from events where event_type = 'tool_call_end'") == [(None,)]
    assert store.verify().problems == []


@pytest.mark.parametrize("is_all", [True, False], ids=["all", "derived"])
def test_two_runs_of_a_session_keep_their_times_when_they_are_derived_again(store: Store, is_all: bool) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, BEGUN), (NOW + 20, ANSWER), turn=1), store)
    append_run(spooled(store, session, (NOW + 3_010, BEGUN), (None, CALL), turn=2), store)
    before, refs = times(store, session), answer(store, "select ref_value, created_at from main.session_refs")
    done = reindex(store, now=NOW, events_too=is_all)
    assert (done.sessions, done.failed) == (1, [])
    assert times(store, session) == before
    assert answer(store, "select ref_value, created_at from main.session_refs") == refs == [("ABC-12", NOW + 20)]


def test_a_copy_in_another_store_derives_the_same_times_from_itself_alone(store: Store, tmp_path: Path) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, BEGUN), (NOW + 20, ANSWER)), store)
    with open_store(tmp_path / "home.db", shared=True, now=lambda: NOW) as home:
        replication.copy_session(home, store, session.uid)
        (copied,) = home.sessions()
        reindex(home, now=NOW, events_too=True)
        assert times(home, copied) == times(store, session)


def test_notes_that_are_damaged_cost_times_and_not_the_run(store: Store) -> None:
    session = store.create_session()
    run = spooled(store, session, (NOW + 10, BEGUN), (NOW + 20, ANSWER), (NOW + 30, DONE))
    notes = notes_of(spool_of(store).stdout)
    notes.write_bytes(notes.read_bytes()[:-3] + b"\0" * 40)
    append_run(run, store)
    assert times(store, session)[1:] == [("Init", NOW + 10), ("AssistantText", None), ("Complete", None)]
    assert store.turns(session)[0].outcome == "completed"


def test_notes_that_cannot_be_written_do_not_stop_the_watching(tmp_path: Path) -> None:
    output = tmp_path / "stdout"
    notes_of(output).mkdir()
    with closing(ArrivalNotes(output, Clock(), NOW)) as notes:
        notes.looked(10)
        notes.looked(10)
    assert read_notes(output) == (b"", 0)


def test_behind_a_note_that_is_cut_short_none_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, clock, write = tmp_path / "stdout", Clock(), os.write
    with closing(ArrivalNotes(output, clock, NOW)) as notes:
        notes.looked(10)
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:-1]))
        clock.ms += MINUTE_MS // 60
        notes.looked(300)
        monkeypatch.setattr(os, "write", write)
        notes.looked(10)
    arrivals = arrivals_of(output)
    assert [arrivals.at(n, 1) for n in (9, 10, 309, 310)] == [NOW, None, None, None]


def test_an_output_that_nobody_saw_anything_of_has_no_notes(store: Store) -> None:
    session = store.create_session()
    append_run(spooled(store, session, (NOW + 10, BEGUN)), store)
    assert not notes_of(spool_of(store).stderr).exists()
    kept = {log.kind: [each.name for each in store.ask(sidecars.of_log, log.id)] for log in store.logs(session)}
    assert kept == {"stream": ["01JXYZ00000000000000000001.stream.times"], "stderr": []}


@pytest.mark.slow
def test_after_its_runner_was_killed_what_an_agent_says_has_no_time(bench: Bench) -> None:
    start_and_leave(bench, "go", {"say": "second word"}, GOOD)
    until_over(bench)
    bench.backstory("ingest")
    with bench.store as store:
        (session,) = store.sessions()
        told = times(store, session)
    assert [kind for kind, at in told if at is None] == ["AssistantText", "Complete"]
    assert [kind for kind, at in told if at is not None] == ["UserMessage", "AssistantText"]


@pytest.mark.slow
def test_all_that_a_run_says_has_its_time(bench: Bench) -> None:
    bench.run(
        "go", {"say": "first word"}, {"tool": "ls"}, {"stderr": "a warning"}, {"long": 300_000}, {"many": 3_000}, GOOD
    )
    with bench.store as store:
        (session,) = store.sessions()
        told = times(store, session)
        (turn,) = store.turns(session)
    assert len(told) > 3_000
    assert [kind for kind, at in told if at is None] == []
    assert turn.started is not None
    assert turn.ended is not None
    assert all(turn.started <= (at or 0) <= turn.ended for _, at in told)
