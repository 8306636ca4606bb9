"""Where a session that is read from a log goes on, when the log says that it is not at its newest turn."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from backstory.conversation.context import build_context
from backstory.ingest.reindex import reindex
from tests.support.clock import NOW
from tests.support.machines import CODEX_FOLDER, Machine, lines

if TYPE_CHECKING:
    from backstory.store import Session

SESSION = "01a2b3c4-0000-7000-8000-000000000001"
LOG = CODEX_FOLDER / f"rollout-2026-11-21T21-00-00-{SESSION}.jsonl"


def record(number: int, kind: str, **payload: Any) -> bytes:
    at = f"2026-11-21T21:00:{number:02}.000Z"
    return json.dumps({"timestamp": at, "type": kind, "payload": payload}).encode()


def turn(number: int) -> list[bytes]:
    task = f"0000000{number}-0000-7000-8000-000000000000"
    return [
        record(number, "event_msg", type="task_started", turn_id=task),
        record(number, "event_msg", type="user_message", message=f"prompt {number}"),
        record(number, "event_msg", type="agent_message", message=f"answer {number}"),
        record(number, "event_msg", type="task_complete", turn_id=task, last_agent_message=f"answer {number}"),
    ]


def put(machine: Machine, *records: bytes) -> Session:
    machine.write(LOG, lines(record(0, "session_meta", id=SESSION, cwd="/w"), *records))
    assert machine.read("codex").errors == []
    (session,) = machine.store.sessions()
    return session


def told(machine: Machine, session: Session) -> str:
    return build_context(machine.store.context_turns(session, 10_000), budget_chars=10_000).text


BACK = record(9, "event_msg", type="thread_rolled_back", num_turns=1)


def test_what_was_rolled_back_is_not_told_also_when_nothing_was_asked_since(machine: Machine) -> None:
    context = told(machine, put(machine, *turn(1), *turn(2), BACK))
    assert "prompt 1" in context
    assert "prompt 2" not in context


def test_a_rollback_that_comes_later_counts_as_well(machine: Machine) -> None:
    put(machine, *turn(1), *turn(2))
    context = told(machine, put(machine, *turn(1), *turn(2), BACK))
    assert "prompt 2" not in context


def test_a_prompt_after_a_rollback_is_where_the_session_goes_on(machine: Machine) -> None:
    put(machine, *turn(1), *turn(2), BACK)
    context = told(machine, put(machine, *turn(1), *turn(2), BACK, *turn(3)))
    assert "prompt 1" in context
    assert "prompt 2" not in context
    assert "prompt 3" in context


def test_reading_the_kept_bytes_again_leaves_the_session_where_it_goes_on(machine: Machine) -> None:
    session = put(machine, *turn(1), *turn(2), BACK)
    before = machine.store.leaf(session)
    reindex(machine.store, now=NOW, events_too=True)
    assert machine.store.leaf(session) == before
    assert "prompt 2" not in told(machine, session)


def test_reading_the_kept_bytes_again_tells_where_a_session_goes_on_that_was_read_without_it(machine: Machine) -> None:
    session = put(machine, *turn(1), *turn(2), BACK)
    before = machine.store.leaf(session)
    with closing(sqlite3.connect(machine.store_path, isolation_level=None)) as db:
        db.execute("update sessions set leaf_seq = null, leaf_uid = (select uid from turns order by id desc limit 1)")
    assert machine.store.leaf(session) != before
    reindex(machine.store, now=NOW, events_too=True)
    assert machine.store.leaf(session) == before


def tip(machine: Machine, session: Session) -> str:
    """The prompt that the one named branch is at."""
    (name,) = machine.store.branch_names(session)
    return next(each.prompt for each in machine.store.turns(session) if each.uid == name.uid)


def test_a_name_follows_all_turns_that_a_log_has_more(machine: Machine) -> None:
    session = put(machine, *turn(1))
    machine.store.name_branch(session, "main", machine.store.place(session, 4).point)
    put(machine, *turn(1), *turn(2), *turn(3))
    assert tip(machine, session) == "prompt 3"


def test_a_name_follows_no_turn_that_was_there_before_it(machine: Machine) -> None:
    session = put(machine, *turn(1), *turn(2))
    first = machine.store.turns(session)[0]
    machine.store.name_branch(session, "early", machine.store.place(session, first.last_seq).point)
    put(machine, *turn(1), *turn(2), turn(3)[0])
    reindex(machine.store, now=NOW)
    assert tip(machine, session) == "prompt 1"


def test_a_name_follows_once_also_where_an_older_versions_trigger_does_it_too(machine: Machine) -> None:
    session = put(machine, *turn(1))
    machine.store.name_branch(session, "main", machine.store.place(session, 4).point)
    with closing(sqlite3.connect(machine.store_path)) as db:
        db.execute(
            "create trigger turn_follows after insert on turns when new.parent_uid is not null begin "
            "update branches set leaf_uid = new.uid, leaf_seq = null "
            "where session_id = new.session_id and leaf_uid = new.parent_uid; end"
        )
        db.commit()
    put(machine, *turn(1), *turn(2), *turn(3))
    assert tip(machine, session) == "prompt 3"
