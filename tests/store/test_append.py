"""Whatever is stored is made before the transaction, and made again when the store moved on meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backstory.derive import deriver
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Complete, ToolCall, UserMessage
from backstory.runs.stream import append_run
from backstory.store import open_store
from backstory.store.file import connection
from backstory.store.intake import append
from backstory.store.tables import runs
from tests.support.machines import Machine
from tests.support.spooled import NOW, TURN, spooled, told, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import apsw

    from backstory.store import RecordBatch, Session, Store, Written

APPENDS = 40
PROGRAM = """
import json, sys
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
with open_store(path) as store:
    for n in range(count):
        text = f"{name} {n}"
        last = store.append_events(1, [UserMessage(content=text), AssistantText(text=text)])
        print(json.dumps([last, text]), flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "s.bks", now=lambda: NOW)


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session()


def test_two_processes_append_to_one_session_and_neither_is_refused(
    tmp_path: Path, store: Store, session: Session
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "s.bks")]
    writers = [
        subprocess.Popen([*command, name, str(APPENDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    said: list[tuple[int, str]] = []
    for each in writers:
        out, _ = each.communicate(timeout=240)
        assert each.returncode == 0
        said += [(last, text) for last, text in map(json.loads, out.splitlines())]
    events = store.events(session)
    assert [each.seq for each in events] == list(range(1, 4 * APPENDS + 1))
    found = [(each.seq, each.event.text) for each in events if isinstance(each.event, AssistantText)]
    assert sorted(said) == found
    for name in ("one", "two"):
        assert [text for _, text in found if text.startswith(name)] == [f"{name} {n}" for n in range(APPENDS)]
    turns = store.turns(session)
    assert [turn.parent_uid for turn in turns[1:]] == [turn.uid for turn in turns[:-1]]
    assert store.verify().problems == []


def outrun(monkeypatch: pytest.MonkeyPatch, store: Store, act: Callable[[], object], *, times: int = 1) -> list[int]:
    """Have somebody else ``act`` before what was made is written, so many times; gives a list of how often."""
    whole, seen = store.append, list[int]()

    def late(batches: list[RecordBatch], **how: Any) -> list[Written]:
        if len(seen) < times:
            seen.append(1)
            act()
        return whole(batches, **how)

    monkeypatch.setattr(store, "append", late)
    return seen


@pytest.mark.parametrize("times", [1, append.APPEND_TRIES - 2, 1_000])
def test_events_are_stored_however_often_another_writer_is_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, session: Session, times: int
) -> None:
    other = open_store(tmp_path / "s.bks", now=lambda: NOW)
    seen = outrun(monkeypatch, store, lambda: other.append_events(1, [UserMessage(content="theirs")]), times=times)
    assert store.append_events(session, [UserMessage(content="ours"), Complete(success=True)]) == len(seen) + 2
    assert len(seen) == min(times, append.APPEND_TRIES - 1)
    turns = store.turns(session)
    assert [turn.prompt for turn in turns] == ["theirs"] * len(seen) + ["ours"]
    assert (turns[-1].parent_uid, turns[-1].outcome) == (turns[-2].uid, "completed")
    assert store.verify().problems == []


def test_a_prompt_follows_what_was_checked_out_while_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, session: Session
) -> None:
    for prompt in ("first", "second"):
        store.append_events(session, [UserMessage(content=prompt), AssistantText(text="said")])
    other = open_store(tmp_path / "s.bks")
    outrun(monkeypatch, store, lambda: other.checkout(session.id, other.place(session.id, 2).point))
    store.append_events(session, [UserMessage(content="third")])
    first, _, third = store.turns(session)
    assert (third.parent_uid, third.parent_seq) == (first.uid, 2)


def test_an_end_that_is_marked_is_that_of_the_turn_that_is_the_last_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, session: Session
) -> None:
    store.append_events(session, [UserMessage(content="first")])
    other = open_store(tmp_path / "s.bks", now=lambda: NOW)
    outrun(monkeypatch, store, lambda: other.append_events(1, [UserMessage(content="second")]))
    store.mark_completed(session, 5, 0.5)
    assert [turn.outcome for turn in store.turns(session)] == [None, "completed"]
    (log,) = store.logs(session)
    end = b"".join(store.stream_log(log.id)).splitlines()[-1]
    assert json.loads(end)["turn"] == store.turns(session)[-1].uid


def test_two_ends_that_are_marked_at_once_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, session: Session
) -> None:
    store.append_events(session, [UserMessage(content="first")])
    other = open_store(tmp_path / "s.bks", now=lambda: NOW)
    outrun(monkeypatch, store, lambda: other.mark_completed(session.id, 7, 0.25))
    store.mark_completed(session, 5, 0.5)
    (log,) = store.logs(session)
    ends = [json.loads(line)["complete"] for line in b"".join(store.stream_log(log.id)).splitlines()[1:]]
    assert [end["duration_ms"] for end in ends] == [7, 5]
    assert store.turns(session)[0].duration_ms == 5


def test_a_run_is_numbered_again_when_others_said_something_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, session: Session
) -> None:
    other = open_store(tmp_path / "s.bks", now=lambda: NOW)
    outrun(monkeypatch, store, lambda: other.append_events(1, [UserMessage(content="theirs")]))
    run = told(spooled(tmp_path, session, megabytes=1))
    append_run(run, store)
    theirs, ours = store.turns(session)
    assert (theirs.prompt, theirs.first_seq, ours.first_seq, ours.outcome) == ("theirs", 1, 2, "completed")
    assert (run.turn.uid, run.turn.first_seq, ours.parent_uid) == (ours.uid, 2, theirs.uid)
    numbers = [each.seq for each in store.events(session)]
    assert (numbers[:3], numbers) == ([1, 2, 3], sorted(set(numbers)))
    assert store.verify().problems == []


def test_a_batch_of_a_run_is_taken_only_where_its_output_ends(tmp_path: Path, store: Store, session: Session) -> None:
    first, *rest = told(spooled(tmp_path, session, megabytes=5)).batches(store.ask(runs.start_in, session.uid, TURN))
    assert {each.refused for each in store.append(first)} == {None}
    assert {each.refused for each in store.append(rest[1])} == {append.STALE}
    assert {each.refused for each in store.append(rest[0])} == {None}
    assert {each.refused for each in store.append(rest[0])} == {append.STALE}


def test_batches_that_do_not_go_on_from_one_another_are_not_stored_in_part(
    tmp_path: Path, store: Store, session: Session
) -> None:
    ((prompt, output, *rest),) = told(spooled(tmp_path, session, megabytes=0)).batches(
        store.ask(runs.start_in, session.uid, TURN)
    )
    output.expected_next_seq += 1
    with pytest.raises(ValueError, match="do not go on"):
        store.append([prompt, output, *rest])
    assert (store.turns(session), store.events(session)) == ([], [])


def test_a_last_line_without_its_end_is_read_again_with_the_others(
    tmp_path: Path, store: Store, session: Session
) -> None:
    spool = spooled(tmp_path, session, megabytes=0)
    said = {"id": "last", "content": [{"type": "text", "text": "See acme/tool#77."}]}
    spool.stdout.write_bytes(spool.stdout.read_bytes() + json.dumps({"type": "assistant", "message": said}).encode())
    assert write(store, told(spool)) == 1
    asked = "select ref_value from session_refs"
    before = store.events(session), store.execute_read_only(asked).rows
    assert before[1] == [("acme/tool#77",)]
    reindex(store, now=NOW)
    assert (store.events(session), store.execute_read_only(asked).rows) == before
    reindex(store, now=NOW, events_too=True)
    assert store.execute_read_only(asked).rows == before[1]
    assert [each.event for each in store.events(session)] == [each.event for each in before[0]]


# outside the transaction --------------------------------------------------------------------------------------


@pytest.fixture
def derived_inside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Kinds of events that something was derived of while a store was locked."""
    found, locked = list[str](), list[int]()
    writing, take = connection.writing, deriver.Deriver.take

    @contextmanager
    def watched(db: apsw.Connection, path: Path, **more: Any) -> Iterator[apsw.Connection]:
        with writing(db, path, **more) as inside:
            locked.append(1)
            try:
                yield inside
            finally:
                locked.pop()

    def taken(self: deriver.Deriver, event: Any, *more: Any) -> None:
        found.extend([event.kind] * len(locked))
        seen.append(event.kind)
        take(self, event, *more)

    seen = list[str]()
    monkeypatch.setattr(connection, "writing", watched)
    monkeypatch.setattr(deriver.Deriver, "take", taken)
    yield found
    assert seen


def test_what_is_appended_is_derived_from_before_the_store_is_locked(
    store: Store, session: Session, derived_inside: list[str]
) -> None:
    store.append_events(session, [UserMessage(content="see #12"), ToolCall(tool_use_id="t", tool_name="Read")])
    assert derived_inside == []


def test_a_run_is_derived_from_before_the_store_is_locked(
    tmp_path: Path, store: Store, session: Session, derived_inside: list[str]
) -> None:
    spool = spooled(tmp_path, session, megabytes=3)
    assert write(store, told(spool), at_most=1) == 1
    store.cleanup_orphans()
    append_run(told(spool), store)
    assert derived_inside == []


def test_a_log_is_derived_from_before_the_store_is_locked_also_when_it_is_read_again(
    tmp_path: Path, derived_inside: list[str]
) -> None:
    machine = Machine(tmp_path)
    machine.put("claude/tools")
    machine.read()
    reindex(machine.store, now=NOW, events_too=True)
    machine.close()
    assert derived_inside == []
