"""What a crash leaves is closed, once, and what comes all the same is not lost by that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backstory.model import Error, ToolResult, UserMessage
from backstory.store import Session, Store, open_store
from backstory.store.tables import runs
from backstory.store.tables.runs import NO_RESULT
from tests.support.spooled import NOW, TURN, spooled, stored, told, write

CALL = {
    "type": "assistant",
    "message": {"id": "c", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}]},
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "s.bks", now=lambda: NOW)


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session()


def begin(tmp_path: Path, store: Store, session: Session, *lines: object) -> None:
    """A run of which the first piece was stored, and no other."""
    spool = spooled(tmp_path, session, megabytes=3)
    rest = spool.stdout.read_text("utf-8")
    spool.stdout.write_text("".join(json.dumps(line) + "\n" for line in lines) + rest, "utf-8")
    assert write(store, told(spool), at_most=1) == 1
    assert stored(store, session).outcome is None


def test_a_turn_without_an_ending_is_closed_as_crashed(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session)
    (closed,) = store.cleanup_orphans()
    assert (closed.turn_uid, closed.seq, closed.calls) == (TURN, 1, 0)
    assert stored(store, session).outcome == "crashed"
    assert store.session(session.id).completed == 0
    events = store.events(session)
    assert [each.kind for each in events][-2:] == ["Error", "Complete"]
    assert stored(store, session).last_seq == events[-1].seq
    assert store.verify().problems == []


def test_a_second_time_there_is_nothing_to_close(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session)
    store.cleanup_orphans()
    before = store.events(session)
    assert store.cleanup_orphans() == []
    assert store.events(session) == before


def test_a_call_without_a_result_is_told_to_have_none(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session, CALL)
    (closed,) = store.cleanup_orphans()
    assert closed.calls == 1
    (result,) = [each.event for each in store.events(session) if isinstance(each.event, ToolResult)]
    assert (result.tool_use_id, result.tool_name, result.content, result.is_error) == ("t1", "Bash", NO_RESULT, True)


def test_a_run_that_is_still_to_come_is_left_alone(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session)
    assert store.cleanup_orphans({TURN}) == []
    assert stored(store, session).outcome is None


def test_a_run_that_comes_after_all_is_stored_whole(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session)
    store.cleanup_orphans()
    spool = spooled(tmp_path / "again", session, megabytes=3)
    assert write(store, told(spool)) > 1
    assert stored(store, session).outcome == "completed"
    assert not [each for each in store.events(session) if isinstance(each.event, Error)]
    assert store.verify().problems == []


def test_a_run_that_was_closed_is_not_run_again_by_the_queue(tmp_path: Path, store: Store, session: Session) -> None:
    begin(tmp_path, store, session)
    assert not store.ask_or(False, runs.has_ended, session.uid, TURN)
    store.cleanup_orphans()
    assert store.ask_or(False, runs.has_ended, session.uid, TURN)


def test_what_the_api_wrote_and_nobody_marked_is_no_orphan(store: Store, session: Session) -> None:
    store.append_events(session, [UserMessage(content="hello")])
    assert store.cleanup_orphans() == []


def test_nothing_is_made_by_looking_for_orphans(tmp_path: Path) -> None:
    assert open_store(tmp_path / "none.bks").cleanup_orphans() == []
    assert not (tmp_path / "none.bks").exists()
