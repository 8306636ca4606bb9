"""What AZUREAL's store document promises about the file, asked with a SQLite that knows nothing of us."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

import backstory
from backstory import AssistantText, Complete, ToolCall, ToolResult, UserMessage
from backstory.model import KINDS
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Store
    from tests.support.clock import Clock

PROMISED = {
    "sessions": {
        "id": "INTEGER",
        "name": "TEXT",
        "worktree": "TEXT",
        "created": "TEXT",
        "completed": "INTEGER",
        "duration_ms": "INTEGER",
        "cost_usd": "REAL",
        "last_claude_uuid": "TEXT",
    },
    "events": {
        "id": "INTEGER",
        "session_id": "INTEGER",
        "seq": "INTEGER",
        "kind": "TEXT",
        "data": "TEXT",
        "char_len": "INTEGER",
    },
    "compactions": {
        "id": "INTEGER",
        "session_id": "INTEGER",
        "after_seq": "INTEGER",
        "summary": "TEXT",
        "created": "TEXT",
    },
    "meta": {"key": "TEXT", "value": "TEXT"},
}


@pytest.fixture
def plain(store: Store) -> Iterator[sqlite3.Connection]:
    """A store with one session, opened by the SQLite that comes with Python."""
    session = store.create_session()
    store.append_events(session, [UserMessage(content="hello"), AssistantText(text="hi there")])
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("pragma foreign_keys = on")
        yield db


def session_by_hand(db: sqlite3.Connection) -> int:
    made = db.execute(
        "insert into sessions(name, worktree, created, completed, duration_ms, cost_usd, last_claude_uuid) "
        "values ('by hand', '/tree', '2026-09-21T14:13:20Z', 1, 5000, 0.05, '')"
    )
    assert made.lastrowid is not None
    return made.lastrowid


def event_by_hand(db: sqlite3.Connection, session_id: int, seq: int, data: bytes | str = b'{"Hook":{}}') -> int | None:
    return db.execute(
        "insert into events(session_id, seq, kind, data, char_len) values (?, ?, 'UserMessage', ?, 5)",
        (session_id, seq, data),
    ).lastrowid


@pytest.mark.parametrize("table", PROMISED)
def test_each_promised_table_has_its_promised_columns(plain: sqlite3.Connection, table: str) -> None:
    columns = {name: kind.upper() for _, name, kind, *_ in plain.execute(f"pragma table_info({table})")}
    assert {name: columns.get(name) for name in PROMISED[table]} == PROMISED[table]


@pytest.mark.parametrize("table", ["sessions", "events", "compactions"])
def test_the_id_is_the_primary_key_and_counts_up(plain: sqlite3.Connection, table: str) -> None:
    keys = [name for _, name, _, _, _, key in plain.execute(f"pragma table_info({table})") if key]
    (made_with,) = plain.execute("select sql from sqlite_master where name = ?", (table,)).fetchone()
    assert keys == ["id"]
    assert "autoincrement" in made_with.lower()


def test_the_schema_version_is_in_meta(plain: sqlite3.Connection) -> None:
    (version,) = plain.execute("select value from meta where key = 'schema_version'").fetchone()
    assert int(version) >= 1


def test_values_are_of_the_promised_types(store: Store) -> None:
    session = store.create_session("Fix the build", "/tree")
    store.append_events(session, [UserMessage(content="hello")])
    store.mark_completed(session, 5_000, 0.05)
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        kinds = db.execute(
            "select typeof(id), typeof(name), typeof(worktree), typeof(created), typeof(completed), "
            "typeof(duration_ms), typeof(cost_usd), typeof(last_claude_uuid) from sessions"
        ).fetchone()
        event = db.execute(
            "select typeof(id), typeof(session_id), typeof(seq), typeof(kind), typeof(data), typeof(char_len) "
            "from events"
        ).fetchone()
    assert kinds == ("integer", "text", "text", "text", "integer", "integer", "real", "text")
    assert event == ("integer", "integer", "integer", "text", "blob", "integer")


def test_a_session_can_be_added_by_hand(plain: sqlite3.Connection, store: Store) -> None:
    session_id = session_by_hand(plain)
    plain.commit()
    kept = store.session(session_id)
    assert (kept.name, kept.worktree, kept.completed, kept.duration_ms, kept.cost_usd) == (
        "by hand", "/tree", 1, 5_000, 0.05,
    )  # fmt: skip


def test_two_sessions_added_by_hand_get_different_uids(plain: sqlite3.Connection) -> None:
    session_by_hand(plain), session_by_hand(plain)
    (different,) = plain.execute("select count(distinct uid) from sessions").fetchone()
    assert different == 3


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "blob"])
def test_an_event_can_be_added_by_hand(plain: sqlite3.Connection, store: Store, as_text: bool) -> None:
    session_id = session_by_hand(plain)
    written = '{"UserMessage":{"content":"hello"}}'
    event_by_hand(plain, session_id, 1, written if as_text else written.encode())
    plain.commit()
    assert [stored.event for stored in store.events(session_id)] == [UserMessage(content="hello")]


def test_an_event_compressed_as_azureal_does_can_be_added(plain: sqlite3.Connection, store: Store) -> None:
    # One frame without content size, checksum and dictionary; these very bytes are AZUREAL's.
    frame = bytes.fromhex("28b52ffd00581901007b22557365724d657373616765223a7b22636f6e74656e74223a2268656c6c6f227d7d")
    session_id = session_by_hand(plain)
    event_by_hand(plain, session_id, 1, frame)
    plain.commit()
    assert [stored.event for stored in store.events(session_id)] == [UserMessage(content="hello")]


def test_a_session_added_by_hand_can_be_carried_on(plain: sqlite3.Connection, store: Store) -> None:
    session_id = session_by_hand(plain)
    event_by_hand(plain, session_id, 1, '{"UserMessage":{"content":"hello"}}')
    plain.commit()
    last = store.append_events(session_id, [AssistantText(text="hi")])
    assert [stored.kind for stored in store.events(session_id)] == ["UserMessage", "AssistantText"]
    assert last == 2


def test_the_same_number_twice_in_a_session_is_refused(plain: sqlite3.Connection) -> None:
    session_id = session_by_hand(plain)
    event_by_hand(plain, session_id, 1)
    with pytest.raises(sqlite3.IntegrityError):
        event_by_hand(plain, session_id, 1)


def test_the_same_number_in_two_sessions_is_fine(plain: sqlite3.Connection) -> None:
    assert event_by_hand(plain, session_by_hand(plain), 1) != event_by_hand(plain, session_by_hand(plain), 1)


def test_an_event_of_no_session_is_refused(plain: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        event_by_hand(plain, 999, 1)


def test_events_and_compactions_go_with_their_session(plain: sqlite3.Connection) -> None:
    plain.execute("insert into compactions(session_id, after_seq, summary) select id, 2, 'short' from sessions")
    plain.execute("delete from sessions")
    left = [plain.execute(f"select count(*) from {table}").fetchone()[0] for table in ("events", "compactions")]
    assert left == [0, 0]


def test_a_store_is_whole_after_another_program_deleted_a_session(plain: sqlite3.Connection, store: Store) -> None:
    plain.execute("delete from sessions")
    plain.commit()
    assert store.verify().problems == []
    assert store.search("hello").hits == []


def test_a_compaction_gets_its_time_by_itself(plain: sqlite3.Connection) -> None:
    plain.execute("insert into compactions(session_id, after_seq, summary) select id, 2, 'short' from sessions")
    (created,) = plain.execute("select created from compactions").fetchone()
    assert datetime.fromisoformat(created).tzinfo is not None


def test_a_store_at_rest_is_one_file_with_a_rollback_journal(plain: sqlite3.Connection, store: Store) -> None:
    assert plain.execute("pragma journal_mode").fetchone() == ("delete",)
    assert [each.name for each in store.path.parent.iterdir()] == [store.path.name]


def test_opening_a_store_makes_no_file(store_path: Path) -> None:
    with backstory.open_store(store_path) as opened:
        assert not opened.exists
    assert not store_path.parent.exists()


def test_the_first_session_makes_the_file(store_path: Path) -> None:
    with backstory.open_store(store_path) as opened:
        opened.create_session()
    assert store_path.is_file()


def test_sessions_are_numbered_from_one(store: Store) -> None:
    assert [store.create_session().shown_number for _ in range(3)] == ["S1", "S2", "S3"]


@pytest.mark.parametrize("reopened", [False, True])
def test_the_number_of_a_removed_session_is_not_given_again(store: Store, reopened: bool) -> None:
    *_, third = [store.create_session() for _ in range(3)]
    store.remove(third)
    if reopened:
        store.close()
    assert store.create_session().shown_number == "S4"


def test_a_session_without_a_name_is_called_by_its_number(store: Store) -> None:
    assert [store.create_session().shown_name, store.create_session("Fix the build").shown_name] == [
        "S1",
        "Fix the build",
    ]


def test_a_session_remembers_its_worktree(store: Store, tmp_path: Path) -> None:
    assert store.create_session(worktree=tmp_path).worktree == str(tmp_path)


def test_created_is_iso_8601(store: Store, clock: Clock) -> None:
    created = datetime.fromisoformat(store.create_session().created)
    assert created.timestamp() * 1000 == clock.ms


def test_a_session_that_has_not_ended_is_neither_failed_nor_completed(store: Store) -> None:
    session = store.create_session()
    assert (session.completed, session.duration_ms, session.cost_usd) == (None, None, None)


@pytest.mark.parametrize(("success", "completed"), [(True, 1), (False, 0)])
def test_how_a_session_ended_is_kept(store: Store, success: bool, completed: int) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go"), Complete(success=success)])
    store.mark_completed(session, 5_000, 0.05, success)
    kept = store.session(session.id)
    assert (kept.completed, kept.duration_ms, kept.cost_usd) == (completed, 5_000, 0.05)


def test_duration_and_cost_are_sums_over_the_turns(store: Store) -> None:
    session = store.create_session()
    for duration, cost in ((1_000, 0.25), (2_500, None), (500, 0.5)):
        store.append_events(session, [UserMessage(content="go"), AssistantText(text="done")])
        store.mark_completed(session, duration, cost)
    kept = store.session(session.id)
    assert (kept.completed, kept.duration_ms, kept.cost_usd) == (1, 4_000, 0.75)


def test_marking_a_turn_twice_counts_it_once(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go")])
    store.mark_completed(session, 1_000, 0.25)
    store.mark_completed(session, 2_000, 0.5)
    kept = store.session(session.id)
    assert (kept.duration_ms, kept.cost_usd) == (2_000, 0.5)


def test_the_next_prompt_takes_the_badge_away(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="go")])
    store.mark_completed(session, 1_000, 0.25)
    store.append_events(session, [UserMessage(content="go on")])
    assert store.session(session.id).completed is None


def test_event_data_is_json_that_zstandard_and_the_files_own_dictionary_give_back(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="hello"), ToolResult(tool_name="Glob", content="a\nb")])
    store.close()
    read: list[Any] = []
    with closing(sqlite3.connect(store.path)) as db:
        for frame, dictionary in db.execute(
            "select e.data, d.data from events e join dictionaries d on d.id = 32769 order by e.seq"
        ):
            with_dictionary = zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(dictionary))
            read.append(json.loads(with_dictionary.decompress(frame)))
    assert read == [
        {"UserMessage": {"content": "hello"}},
        {"ToolResult": {"tool_name": "Glob", "content": "2 files"}},
    ]


def test_each_frame_names_the_dictionary_it_was_made_with(plain: sqlite3.Connection) -> None:
    known = {each for (each,) in plain.execute("select id from dictionaries")}
    frames = [each for (each,) in plain.execute("select data from events")]
    assert {zstandard.get_frame_parameters(frame).dict_id for frame in frames} <= known


def test_what_is_stored_is_the_compact_form(store: Store) -> None:
    session = store.create_session()
    output = "\n".join(f"line {n}" for n in range(100))
    store.append_events(
        session,
        [
            ToolCall(tool_name="Read", input={"file_path": "/f", "offset": 3}),
            ToolResult(tool_name="Read", content=output),
        ],
    )
    call, result = (stored.event for stored in store.events(session))
    assert call == ToolCall(tool_name="Read", input={"file_path": "/f"})
    assert result == ToolResult(tool_name="Read", content="line 0\n  (100 lines)\nline 99")


def test_the_length_kept_is_that_of_the_original(store: Store) -> None:
    session = store.create_session()
    store.append_events(session, [UserMessage(content="hello"), ToolResult(tool_name="Bash", content="x\n" * 500)])
    assert [stored.char_len for stored in store.events(session)] == [5, 1_000]


@every("name", ["open_store", "Store", "compact_event", *KINDS])
def test_the_api_is_reached_from_the_package(name: str) -> None:
    assert name in backstory.__all__
    assert getattr(backstory, name) is not None


def test_the_methods_have_their_promised_names() -> None:
    assert all(
        callable(getattr(backstory.Store, name)) for name in ("create_session", "append_events", "mark_completed")
    )


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        backstory.nonsense  # noqa: B018
