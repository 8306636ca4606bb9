"""SQL over sessions with branches: what the views show follows the tree, where it goes on, and what was removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.conversation.tree import Point
from backstory.model import AssistantText, Compacted, Complete, Error, Retry, ToolCall, ToolResult, UserMessage
from backstory.store import Session, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.model import Event

NOW = 1_790_000_000_000
ANCESTRY = """
with recursive ancestry(id, parent_id, seq, depth) as (
  select id, parent_id, seq, 0 from messages where id = ? union all
  select m.id, m.parent_id, m.seq, depth + 1 from messages m join ancestry a on m.id = a.parent_id
) select seq from ancestry order by depth desc"""
"""How ah walks up a branch."""
LEAVES = "select seq from messages m where not exists (select 1 from messages where parent_id = m.id) order by seq"
CURRENT = "select m.seq from context c join messages m on m.id = c.value where c.key = 'current_message'"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "sessions.bks", now=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    """@1 a prompt, @2 its answer; @3 a prompt, @4 and @5 a call with its result, @6 the answer."""
    session = store.create_session("Garden")
    say(store, session, UserMessage(content="first"), AssistantText(text="one"))
    called = ToolCall(tool_use_id="t1", tool_name="Bash", input={"command": "ls"})
    gave = ToolResult(tool_use_id="t1", tool_name="Bash", content="a", is_error=True)
    say(store, session, UserMessage(content="second"), called, gave, AssistantText(text="two"))
    return session


def say(store: Store, session: Session, *events: Event) -> None:
    store.append_events(session, events)


def fork(store: Store, session: Session, seq: int) -> None:
    """Go on from a record with another prompt and its answer."""
    go_to(store, session, seq)
    say(store, session, UserMessage(content=f"other than {seq}"), AssistantText(text="three"))


def go_to(store: Store, session: Session, seq: int) -> None:
    store.checkout(session, store.place(session, seq).point)


def rows(store: Store, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return store.execute_read_only(sql, parameters=parameters, timeout_s=30).rows


def ancestry(store: Store, seq: int) -> list[int]:
    ((own,),) = rows(store, "select id from messages where seq = ?", seq)
    return [each for (each,) in rows(store, ANCESTRY, own)]


def change(store: Store, sql: str) -> None:
    db = apsw.Connection(str(store.path))
    db.execute(sql)
    db.close()


def last_turn(store: Store, session: Session) -> str:
    return store.turns(session)[-1].uid


# the tree -----------------------------------------------------------------------------------------------------


def test_a_fork_inside_a_turn_follows_the_record_it_begins_at(store: Store, session: Session) -> None:
    fork(store, session, 5)
    assert ancestry(store, 7) == [1, 2, 3, 4, 5, 7]
    assert rows(store, LEAVES) == [(6,), (8,)]


def test_a_turn_behind_one_without_messages_follows_what_that_followed(store: Store, session: Session) -> None:
    fork(store, session, 2)
    change(
        store, f"delete from events where turn_id = (select id from turns where uid = '{last_turn(store, session)}')"
    )
    say(store, session, UserMessage(content="on"))
    assert ancestry(store, 9) == [1, 2, 9]


def test_turns_in_a_circle_end_at_the_first(store: Store, session: Session) -> None:
    first, second = store.turns(session)
    change(store, f"update turns set parent_uid = '{second.uid}', parent_seq = 6 where uid = '{first.uid}'")
    assert ancestry(store, 6) == [1, 2, 3, 4, 5, 6]


def test_the_current_message_is_the_record_that_was_checked_out(store: Store, session: Session) -> None:
    go_to(store, session, 5)
    assert rows(store, CURRENT) == [(5,)]


def test_without_a_leaf_the_newest_turn_is_gone_on_with(store: Store, session: Session) -> None:
    change(store, "update sessions set leaf_uid = 'nowhere', leaf_seq = 2")
    assert rows(store, CURRENT) == [(6,)]


def test_a_session_without_messages_has_no_current_one(store: Store) -> None:
    store.create_session()
    assert rows(store, CURRENT) == []


def test_a_session_says_where_it_goes_on(store: Store, session: Session) -> None:
    go_to(store, session, 5)
    assert rows(store, "select leaf_uid, leaf_seq from sessions") == [(last_turn(store, session), 5)]


# removed ------------------------------------------------------------------------------------------------------


def test_messages_of_a_removed_branch_are_gone_and_its_turn_says_since_when(store: Store, session: Session) -> None:
    fork(store, session, 2)
    store.remove_turns(session, [last_turn(store, session)])
    assert rows(store, LEAVES) == [(6,)]
    assert rows(store, "select count(*) from content_blocks") == [(6,)]
    removed = rows(store, "select user_message, removed from turns order by turn_index")
    assert removed == [("first", None), ("second", None), ("other than 2", "2026-09-21T14:13:20.000Z")]
    assert rows(store, CURRENT) == [(2,)]


# branches -----------------------------------------------------------------------------------------------------


def test_a_branch_has_its_number_its_name_and_its_tip(store: Store, session: Session) -> None:
    fork(store, session, 2)
    store.name_branch(session, "lua", Point(store.turns(session)[1].uid, 6))
    store.name_branch(session, "old", Point(store.turns(session)[1].uid, 6))
    told = "select leaf, name, seq, prompt, depth, agent, is_current, last_active from branches order by leaf"
    at = "2026-09-21T14:13:20.000Z"
    assert rows(store, told) == [
        (1, "lua, old", 6, "second", 1, "api", 0, at),
        (2, None, 8, "other than 2", 1, "api", 1, at),
    ]


def test_a_name_inside_a_branch_is_a_row_without_a_number(store: Store, session: Session) -> None:
    store.name_branch(session, "before", Point(store.turns(session)[1].uid, 5))
    go_to(store, session, 5)
    told = rows(store, "select leaf, name, seq, is_current from branches order by leaf")
    assert told == [(None, "before", 5, 1), (1, None, 6, 0)]


def test_a_removed_branch_is_no_branch_and_the_others_keep_their_numbers(store: Store, session: Session) -> None:
    fork(store, session, 2)
    fork(store, session, 2)
    store.remove_turns(session, [store.turns(session)[2].uid])
    assert rows(store, "select leaf, seq from branches order by leaf") == [(1, 6), (3, 10)]


# events -------------------------------------------------------------------------------------------------------


def test_ah_s_events_are_told_with_their_details(store: Store, session: Session) -> None:
    more = [Retry(attempt=2, message="busy"), Error(message="no"), Compacted(summary="all"), Complete(success=True)]
    say(store, session, *more)
    change(store, "update turns set input_tokens = 7, output_tokens = 3, stop_reason = 'end_turn', model = 'big'")
    sql = "select event_type, message_id, created_at, details from events where event_type is not null order by id"
    found = rows(store, sql)
    answers = {kind: json.loads(details) for kind, _, _, details in found}
    assert [kind for kind, *_ in found] == [
        "api_call_end", "tool_call_end", "api_call_end", "retry", "error", "compaction_complete", "agent_end"
    ]  # fmt: skip
    assert answers["api_call_end"] == {
        "event_type": "api_call_end", "timestamp": answers["error"]["timestamp"], "message_id": found[2][1],
        "input_tokens": 7, "output_tokens": 3, "cache_creation_input_tokens": None, "cache_read_input_tokens": None,
        "api_latency_ms": None, "model": "big",
    }  # fmt: skip
    assert answers["retry"] == {"attempt": 2, "error": "busy"}
    assert answers["error"]["error"] == "no"
    assert answers["tool_call_end"]["is_error"] is True
    assert (answers["agent_end"]["stop_reason"], answers["agent_end"]["total_output_tokens"]) == ("end_turn", 3)


def test_what_came_of_a_call_names_the_call(store: Store, session: Session) -> None:
    change(
        store,
        "insert or replace into call_results(call_id, result_id, is_error) "
        "select c.id, r.id, 1 from events c join events r on r.seq = 5 where c.seq = 4",
    )
    sql = "select m.seq from events e join messages m on m.id = e.message_id where e.event_type = 'tool_call_end'"
    assert rows(store, sql) == [(4,)]


def test_ah_s_context_tells_the_state_and_its_agent_s_name_for_it(store: Store, session: Session) -> None:
    change(store, "update sessions set name = '', title = 'Shed', last_claude_uuid = 'running'")
    told = dict(rows(store, "select key, value from context where key <> 'current_message'"))
    assert told == {"session_name": "Shed", "session_state": "processing"}
