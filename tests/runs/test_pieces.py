"""A long run is stored in pieces: exactly once, whatever dies between two of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backstory.model import AssistantText, Unknown
from backstory.runs.live import live_runs
from backstory.runs.stream import PIECE_BYTES, append_run
from backstory.store import Session, Store, open_store
from backstory.store.tables.logs import OVERSIZE
from tests.support.spooled import NOW, RESULT, SAID, spooled, stored, told, write

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "s.bks", now=lambda: NOW)


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session()


def test_a_long_run_comes_in_several_pieces_and_is_whole(tmp_path: Path, store: Store, session: Session) -> None:
    spool = spooled(tmp_path, session, megabytes=7)
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
    spool = spooled(tmp_path, session, megabytes=7)
    assert write(store, told(spool), at_most=written) == written
    assert stored(store, session).outcome is None
    append_run(told(spool), store)
    whole = open_store(tmp_path / "other.bks", now=lambda: NOW)
    again = whole.create_session()
    append_run(told(spooled(tmp_path / "other", again, megabytes=7)), whole)
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
    spool = spooled(tmp_path, session, megabytes=7)
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


def test_what_a_waiting_run_shows_is_what_is_stored_of_it_also_of_a_line_that_is_too_long(
    tmp_path: Path, store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.agents.jsonl.LINE_BYTES_MAX", 5_000)
    spool = spooled(tmp_path, session, megabytes=0)
    spool.stdout.write_text(f"{json.dumps(SAID)}\n\n{json.dumps(RESULT)}\n", "utf-8")
    (live,) = live_runs(tmp_path / "spool", session.uid, NOW, lambda _: None)
    shown = list(live.events())
    append_run(told(spool), store)
    assert Unknown(type=OVERSIZE) in shown
    assert shown == [each.event for each in store.events(session)]
