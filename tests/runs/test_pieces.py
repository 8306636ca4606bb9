"""A long run is stored in pieces: exactly once, whatever dies between two of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backstory.agents import Exit
from backstory.model import AssistantText, Turn
from backstory.spool import Run, Spool
from backstory.store import Session, Store, open_store
from backstory.streaming import PIECE_BYTES, SpooledRun, append_run

NOW = 1_750_000_000_000
TURN = "01JXYZ00000000000000000001"
SAID = {
    "type": "assistant",
    "message": {"id": "m", "content": [{"type": "text", "text": "The heron nests here. " * 500}]},
}
RESULT = {
    "type": "result", "subtype": "success", "duration_ms": 1200, "duration_api_ms": 900, "total_cost_usd": 0.04,
    "session_id": "n",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "s.bks", now=lambda: NOW)


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session()


def spooled(folder: Path, session: Session, *, megabytes: int) -> Spool:
    """A run that is over, with so much said in it."""
    run = Run(
        turn_uid=TURN, session_uid=session.uid, store="s.bks", agent="claude", prompt="Where?", cwd="/w", started=NOW
    )
    spool = Spool.begin(folder / "spool", run, "Where?")
    line = json.dumps(SAID) + "\n"
    lines = [line] * (megabytes * 1024 * 1024 // len(line)) + [json.dumps(RESULT) + "\n"]
    spool.stdout.write_text("".join(lines), "utf-8")
    spool.stderr.write_text("a warning\nand another", "utf-8")
    return spool


def told(spool: Spool) -> SpooledRun:
    run = spool.run
    assert run is not None
    return SpooledRun(spool, run, Exit(code=0), NOW + 5_000)


def write(store: Store, run: SpooledRun, *, at_most: int = 100) -> int:
    """Write a run as far as it is taken, or in so many transactions; gives how many were taken."""
    taken = 0
    for batches in run.batches(store.run_start(run.session_uid, TURN)):
        if taken == at_most or any(each.refused for each in store.append(batches)):
            break
        taken += 1
    return taken


def stored(store: Store, session: Session) -> Turn:
    (turn,) = store.turns(session)
    return turn


def test_a_long_run_comes_in_several_pieces_and_is_whole(tmp_path: Path, store: Store, session: Session) -> None:
    spool = spooled(tmp_path, session, megabytes=20)
    assert write(store, told(spool)) > 2
    logs = {log.kind: log.id for log in store.logs(session)}
    assert b"".join(store.stream_log(logs["stream"])) == spool.stdout.read_bytes()
    assert b"".join(store.stream_log(logs["stderr"])) == b"a warning\nand another"
    turn = stored(store, session)
    assert (turn.outcome, turn.duration_ms, turn.cost_usd) == ("completed", 1200, 0.04)
    assert turn.api_latency_ms == 900
    lines = spool.stdout.read_bytes().count(b"\n")
    assert turn.last_seq == 1 + lines + 2
    assert len(store.events(session)) == 1 + lines
    assert store.verify().problems == []


@pytest.mark.parametrize("written", [1, 2])
def test_a_run_left_between_two_pieces_is_stored_anew(
    tmp_path: Path, store: Store, session: Session, written: int
) -> None:
    spool = spooled(tmp_path, session, megabytes=20)
    assert write(store, told(spool), at_most=written) == written
    assert stored(store, session).outcome is None
    append_run(told(spool), store)
    whole = open_store(tmp_path / "other.bks", now=lambda: NOW)
    again = whole.create_session()
    append_run(told(spooled(tmp_path / "other", again, megabytes=20)), whole)
    assert stored(store, session) == stored(whole, again)
    assert [(each.seq, each.kind) for each in store.events(session)] == [
        (each.seq, each.kind) for each in whole.events(again)
    ]
    assert store.verify().problems == []


def test_a_run_that_is_stored_is_not_stored_again(tmp_path: Path, store: Store, session: Session) -> None:
    spool = spooled(tmp_path, session, megabytes=1)
    assert write(store, told(spool)) == 1
    assert write(store, told(spool)) == 0
    append_run(told(spool), store)
    assert len(store.turns(session)) == 1


def test_records_across_the_border_of_two_pieces_are_found_again(
    tmp_path: Path, store: Store, session: Session
) -> None:
    spool = spooled(tmp_path, session, megabytes=20)
    append_run(told(spool), store)
    data = spool.stdout.read_bytes()
    across = [
        each
        for each in store.events(session)
        if each.position is not None and each.position < PIECE_BYTES <= each.position + (each.length or 0)
    ]
    (event,) = across
    assert event.log_id is not None and event.position is not None and event.length is not None
    line = store.read_log(event.log_id, event.position, event.length)
    assert line == data[event.position : event.position + event.length] and json.loads(line) == SAID


def test_an_answer_that_was_cut_off_is_kept_as_far_as_it_came(tmp_path: Path, store: Store, session: Session) -> None:
    spool = spooled(tmp_path, session, megabytes=0)
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half an "}}
    spool.stdout.write_text(json.dumps({"type": "stream_event", "event": delta}) + "\n", "utf-8")
    append_run(told(spool), store)
    assert [each.event.text for each in store.events(session) if isinstance(each.event, AssistantText)] == ["half an "]


def test_an_answer_that_was_told_whole_is_not_told_twice(tmp_path: Path, store: Store, session: Session) -> None:
    spool = spooled(tmp_path, session, megabytes=0)
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "The heron"}}
    lines = [{"type": "stream_event", "event": delta}, SAID, RESULT]
    spool.stdout.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    append_run(told(spool), store)
    assert sum(isinstance(each.event, AssistantText) for each in store.events(session)) == 1
