"""What a store does for its callers, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import errors
from backstory.export.full_form import FullForms
from backstory.model import AssistantText, Error, Event, Relation, ToolCall, ToolResult, UserMessage
from backstory.store import Session, Store, open_store
from backstory.store.file import backup, connection, migrate
from backstory.store.intake import ingesting
from backstory.store.tables import logs, sessions, turns
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clock import Clock

LONG = "\n".join(f"line {n}" for n in range(100))
NOBODY = 65534

READINGS: dict[str, Callable[[Store], object]] = {
    "sessions": lambda store: store.sessions(),
    "session": lambda store: store.session("S1"),
    "session_count": lambda store: store.ask(sessions.count),
    "events": lambda store: store.events(1),
    "turns": lambda store: store.turns(1),
    "search": lambda store: store.search("hello"),
    "logs": lambda store: store.logs(),
    "read_log": lambda store: store.read_log(1, 0, 10),
    "stream_log": lambda store: list(store.stream_log(1)),
    "children": lambda store: store.children(1),
    "verify": lambda store: store.verify(),
    "id": lambda store: store.id,
}
WRITINGS: dict[str, Callable[[Store], object]] = {
    "append_events": lambda store: store.append_events(1, [UserMessage(content="again")]),
    "mark_completed": lambda store: store.mark_completed(1, 1, 0.5),
    "rename": lambda store: store.rename(1, "other"),
    "remove": lambda store: store.remove(1),
}


def begin(store: Store, *events: Event, name: str | None = None) -> Session:
    session = store.create_session(name)
    store.append_events(session, events or [UserMessage(content="hello"), AssistantText(text="hi")])
    return session


def listing(folder: Path) -> list[tuple[str, int, int]]:
    return sorted((str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in folder.rglob("*"))


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Run as a user whom permissions bind, who owns ``folder``: root may write anywhere."""
    if os.getuid() != 0:
        yield
        return
    for each in (folder, *folder.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, unlike tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="backstory-"))
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


# events and turns ---------------------------------------------------------------------------------------------


def test_the_full_form_of_an_event_stays_beside_the_compact_one(store: Store) -> None:
    result = ToolResult(tool_use_id="t1", tool_name="Read", content=LONG)
    session = begin(store, UserMessage(content="read it"), result)
    stored = store.events(session)[1]
    assert stored.event == ToolResult(tool_use_id="t1", tool_name="Read", content="line 0\n  (100 lines)\nline 99")
    assert FullForms(store).expand(stored) == result


def test_every_full_form_comes_back_over_many_appends(store: Store) -> None:
    session = store.create_session()
    given = [ToolCall(tool_name="Bash", input={"command": f"make {n}", "why": "because"}) for n in range(150)]
    for event in given:
        store.append_events(session, [event])
    full = FullForms(store)
    assert [full.expand(stored) for stored in store.events(session)] == given


def test_events_are_numbered_on(store: Store) -> None:
    session = store.create_session()
    lasts = [store.append_events(session, [UserMessage(content=str(n))] * 2) for n in range(3)]
    assert lasts == [2, 4, 6]
    assert [stored.seq for stored in store.events(session)] == [1, 2, 3, 4, 5, 6]


def test_each_session_is_numbered_for_itself(store: Store) -> None:
    one, two = begin(store), begin(store)
    assert [stored.seq for stored in store.events(one)] == [stored.seq for stored in store.events(two)] == [1, 2]


def test_appending_nothing_changes_nothing(store: Store) -> None:
    session = begin(store)
    assert store.append_events(session, []) == 2
    assert len(store.events(session)) == 2
    assert store.verify().problems == []


def test_events_can_be_read_a_window_at_a_time(store: Store) -> None:
    session = begin(store, *[AssistantText(text=str(n)) for n in range(5)])
    first = store.events(session, limit=2)
    rest = store.events(session, after=(first[-1].seq, first[-1].part))
    assert [stored.seq for stored in first + rest] == [1, 2, 3, 4, 5]


def test_an_event_is_found_by_its_id(store: Store) -> None:
    session = begin(store)
    stored = store.events(session)[0]
    assert store.event(stored.id) == stored
    assert store.event(stored.id + 1_000) is None


def test_a_prompt_begins_a_turn_and_the_rest_belongs_to_it(store: Store, clock: Clock) -> None:
    one, two = UserMessage(content="one"), UserMessage(content="two")
    session = begin(store, AssistantText(text="early"), one, AssistantText(text="1"), two)
    first, second = store.turns(session)
    assert [(first.prompt, first.first_seq, first.last_seq), (second.prompt, second.first_seq, second.last_seq)] == [
        ("one", 2, 3),
        ("two", 4, 4),
    ]
    assert (first.parent_uid, second.parent_uid, second.parent_seq) == (None, first.uid, 3)
    numbers = store.ask(turns.numbers, session.id)
    assert [numbers.get(stored.turn_id or 0) for stored in store.events(session)] == [None, 1, 1, 2]


def test_a_turn_goes_on_over_several_appends(store: Store, clock: Clock) -> None:
    session = begin(store, UserMessage(content="go"))
    clock.ms += 5_000
    store.append_events(session, [AssistantText(text="done")])
    (turn,) = store.turns(session)
    assert (turn.last_seq, turn.started, turn.ended) == (2, clock.ms - 5_000, clock.ms)


def test_a_turn_lasts_until_its_last_event(store: Store, clock: Clock) -> None:
    session = begin(store, UserMessage(content="go"))
    for _ in range(2):
        clock.ms += 5_000
        store.append_events(session, [AssistantText(text="done")])
    assert store.session(session.id).duration_ms == 10_000


def test_a_reported_duration_stands_when_more_is_appended(store: Store, clock: Clock) -> None:
    session = begin(store, UserMessage(content="go"))
    store.mark_completed(session, 1_234, None)
    clock.ms += 5_000
    store.append_events(session, [Error(message="late")])
    assert store.session(session.id).duration_ms == 1_234


def test_a_session_without_a_turn_can_end(store: Store) -> None:
    session = store.create_session()
    store.mark_completed(session, 10, 0.5, success=False)
    kept = store.session(session.id)
    assert (kept.completed, kept.duration_ms, kept.cost_usd) == (0, 10, 0.5)


def test_events_of_a_session_that_is_not_there_are_refused(store: Store) -> None:
    begin(store)
    with pytest.raises(errors.SessionNotFound):
        store.append_events(999, [UserMessage(content="hello")])
    assert store.ask(sessions.count) == 1


# which session ------------------------------------------------------------------------------------------------


def test_a_session_is_found_by_number_name_and_uid(store: Store) -> None:
    session = begin(store, name="Fix the build")
    begin(store)
    for wanted in ("S1", "s1", "Fix the build", session.uid, session.uid.lower(), session.id):
        assert store.session(wanted).uid == session.uid


def test_a_session_is_found_by_the_start_of_its_uid(store: Store, clock: Clock) -> None:
    session = begin(store)
    clock.ms += 10**9
    begin(store)
    assert store.session(session.uid[:8]).uid == session.uid


def test_a_session_is_found_by_its_agents_own_id(store: Store) -> None:
    session = begin(store)
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("update sessions set native_id = 'a-native-id'")
    assert store.session("a-native-id").uid == session.uid


def test_a_start_that_fits_several_lists_them(store: Store) -> None:
    first, second = begin(store, name="one"), begin(store)
    with pytest.raises(errors.SessionAmbiguous) as told:
        store.session(first.uid[:6])
    assert first.uid[:12] in str(told.value)
    assert second.uid[:12] in str(told.value)
    assert "(one)" in str(told.value)


def test_a_name_that_two_have_is_ambiguous(store: Store) -> None:
    begin(store, name="twin"), begin(store, name="twin")
    with pytest.raises(errors.SessionAmbiguous, match="twin"):
        store.session("twin")


@pytest.mark.parametrize(
    "wanted", ["S9", "", "nobody", "0" * 26, "S" + "9" * 30, "S" + "9" * 5_000, "%", "s\0", "S²", 999]
)
def test_what_fits_no_session_is_not_found(store: Store, wanted: str | int) -> None:
    begin(store)
    with pytest.raises(errors.SessionNotFound, match="backstory list"):
        store.session(wanted)


def test_the_last_active_session_is_listed_first(store: Store, clock: Clock) -> None:
    first, second = begin(store), begin(store)
    assert [each.uid for each in store.sessions()] == sorted([first.uid, second.uid], reverse=True)
    clock.ms += 1_000
    store.append_events(first, [UserMessage(content="again")])
    assert [each.uid for each in store.sessions()] == [first.uid, second.uid]
    assert [each.uid for each in store.sessions(limit=1, offset=1)] == [second.uid]


def test_a_listed_session_says_how_much_is_in_it(store: Store, clock: Clock) -> None:
    begin(store)
    (listed,) = store.sessions()
    assert (listed.turns, listed.events, listed.last_active, listed.agents) == (1, 2, clock.ms, ())


def test_sessions_of_one_folder_can_be_listed(store: Store, tmp_path: Path) -> None:
    here = store.create_session(worktree=tmp_path)
    store.create_session(worktree=f"{tmp_path}-other")
    assert [each.uid for each in store.sessions(folder=str(tmp_path))] == [here.uid]


# naming and removing ------------------------------------------------------------------------------------------


def test_a_whole_uid_is_its_session_s_although_another_one_is_called_like_it(store: Store) -> None:
    first, second = store.create_session(), store.create_session()
    store.rename(second, first.uid)
    assert store.session(first.uid).id == store.session(first.uid.lower()).id == first.id
    store.rename(second, "cranes")
    assert store.session("cranes").id == second.id


def test_a_session_can_be_renamed_and_lose_its_name(store: Store) -> None:
    session = begin(store)
    store.rename(session, "Fix the build")
    assert store.session("Fix the build").shown_name == "Fix the build"
    store.rename(session, "")
    assert store.session(session.id).shown_name == "S1"


@pytest.mark.parametrize("method", WRITINGS)
def test_a_session_that_is_not_there_cannot_be_changed(store: Store, method: str) -> None:
    store.remove(begin(store))
    with pytest.raises(errors.SessionNotFound):
        WRITINGS[method](store)


@pytest.mark.parametrize("method", WRITINGS)
def test_changing_a_store_that_is_not_there_makes_none(store: Store, method: str) -> None:
    with pytest.raises(errors.StoreNotFound, match="There is no store"):
        WRITINGS[method](store)
    assert not store.path.parent.exists()


def test_removing_a_session_takes_all_that_was_kept_of_it(store: Store) -> None:
    kept, removed = begin(store), begin(store, UserMessage(content="unmistakable"))
    assert store.remove(removed) == [removed.uid]
    assert store.search("unmistakable").hits == []
    assert [each.uid for each in store.sessions()] == [kept.uid]
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        for table in ("events", "logs", "turns"):
            assert {each for (each,) in db.execute(f"select session_id from {table}")} == {kept.id}
        (chunks,) = db.execute("select count(*) from chunks").fetchone()
        (texts,) = db.execute("select count(*) from turn_texts").fetchone()
        (indexed,) = db.execute("select count(*) from search_index_docsize").fetchone()
    assert (chunks, texts, indexed) == (1, 1, 2)


def test_a_removed_session_leaves_a_tombstone(store: Store, clock: Clock) -> None:
    session = begin(store)
    store.remove(session)
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("select uid, at from forgotten").fetchall() == [(session.uid, clock.ms)]


def test_tombstones_can_be_taken_away(store: Store) -> None:
    store.remove(begin(store))
    assert (store.decide(sessions.unforget), store.decide(sessions.unforget)) == (1, 0)


def test_a_removed_session_takes_its_helpers_along_and_leaves_its_forks(store: Store) -> None:
    parent, helper, deeper, fork = (begin(store) for _ in range(4))
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        for child, above, relation in (
            (helper, parent, Relation.SUBAGENT),
            (deeper, helper, Relation.SUBAGENT),
            (fork, parent, Relation.FORK),
        ):
            db.execute(
                "update sessions set parent_id = ?, relation = ? where id = ?", (above.id, str(relation), child.id)
            )
    assert {each.uid for each in store.children(parent)} == {helper.uid, fork.uid}
    assert {each.uid for each in store.sessions()} == {parent.uid, fork.uid}
    assert {each.uid for each in store.sessions(subagents=True)} == {
        each.uid for each in (parent, helper, deeper, fork)
    }
    assert set(store.remove(parent)) == {parent.uid, helper.uid, deeper.uid}
    (left,) = store.sessions()
    assert (left.uid, left.parent_uid) == (fork.uid, None)
    assert store.verify().problems == []


def test_removing_gives_the_room_back(store: Store) -> None:
    begin(store)
    before = store.path.stat().st_size
    big = begin(store, *[UserMessage(content=os.urandom(3_000).hex()) for _ in range(100)])
    grown = store.path.stat().st_size
    store.remove(big)
    assert store.path.stat().st_size < before + (grown - before) / 4


# search -------------------------------------------------------------------------------------------------------


def test_a_word_is_found_where_it_was_said(store: Store) -> None:
    begin(store)
    session = begin(store, UserMessage(content="why does the flux capacitor overheat"), AssistantText(text="physics"))
    (hit,) = store.search("capacitor").hits
    stored = store.event(hit.event_id)
    assert hit.session_id == session.id
    assert stored is not None
    assert stored.event == UserMessage(content="why does the flux capacitor overheat")


def test_what_the_compact_form_leaves_out_is_found_too(store: Store) -> None:
    session = begin(store, ToolResult(tool_name="Bash", content=f"unmistakable\n{LONG}"))
    assert [hit.session_id for hit in store.search("unmistakable").hits] == [session.id]


@pytest.mark.parametrize(
    "query",
    ['"', "AND", "NOT a", "a OR", "(", "*", "^x", "-x", "x:y", "NEAR(", "C++", "#12", "a\0b", "'; drop", "{", "é"],
)
def test_no_query_is_a_syntax_error(store: Store, query: str) -> None:
    begin(store, UserMessage(content="login.ts C++ #12"))
    store.search(query)


# the file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
def test_a_backup_is_one_whole_file(store_path: Path, clock: Clock, tmp_path: Path, shared: bool) -> None:
    target = tmp_path / "copies" / "copy.bks"
    with open_store(store_path, shared=shared, now=clock) as store:
        session = begin(store, name="kept")
        size = store.backup(target)
        events = store.events(session)
    assert [each.name for each in target.parent.iterdir()] == [target.name]
    assert target.stat().st_size == size
    with open_store(target) as copy:
        assert copy.verify().problems == []
        assert copy.session("kept").uid == session.uid
        assert copy.events(session) == events
    assert [each.name for each in target.parent.iterdir()] == [target.name]


def test_a_backup_overwrites_nothing(store: Store, tmp_path: Path) -> None:
    begin(store)
    target = tmp_path / "precious"
    target.write_text("do not touch")
    with pytest.raises(errors.FileInTheWay, match="was not changed"):
        store.backup(target)
    assert target.read_text() == "do not touch"


def test_a_backup_replaces_no_file_that_came_while_it_was_made(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store)
    target = tmp_path / "copy.bks"
    copy = backup._copy

    def and_another(*words: Any) -> None:
        copy(*words)
        target.write_text("mine")

    monkeypatch.setattr(backup, "_copy", and_another)
    with pytest.raises(errors.FileInTheWay):
        store.backup(target)
    assert (target.read_text(), [*tmp_path.glob(".backstory-*")]) == ("mine", [])


def test_a_backup_of_no_store_makes_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(errors.StoreNotFound):
        store.backup(tmp_path / "copies" / "copy.bks")
    assert list(tmp_path.iterdir()) == []


def test_a_backup_into_a_file_as_folder_says_so(store: Store, tmp_path: Path) -> None:
    begin(store)
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.CannotWrite, match="Choose a folder"):
        store.backup(tmp_path / "file" / "copy.bks")


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("method", READINGS)
def test_reading_leaves_the_folder_as_it_was(store_path: Path, clock: Clock, method: str, shared: bool) -> None:
    with open_store(store_path, shared=shared, now=clock) as store:
        begin(store)
    before, content = listing(store_path.parent), store_path.read_bytes()
    with open_store(store_path, shared=shared, now=clock) as reader:
        READINGS[method](reader)
    assert listing(store_path.parent) == before
    assert store_path.read_bytes() == content


@pytest.mark.parametrize("method", READINGS)
def test_reading_makes_nothing_where_there_is_no_store(store: Store, method: str) -> None:
    with pytest.raises(errors.StoreNotFound, match="There is no store"):
        READINGS[method](store)
    assert not store.path.parent.exists()


def test_what_ingest_asks_first_has_an_answer_before_there_is_a_store(store: Store) -> None:
    assert (
        store.ask_or({}, logs.file_stamps),
        store.ask_or([], logs.of_native_id, "claude", "x"),
        store.ask_or(1, sessions.next_seq, "0" * 26),
    ) == ({}, [], 1)
    assert not store.path.parent.exists()


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("method", READINGS)
def test_a_store_in_a_folder_that_cannot_be_written_can_be_read(
    open_folder: Path, clock: Clock, method: str, shared: bool
) -> None:
    path = open_folder / "sessions.bks"
    with open_store(path, shared=shared, now=clock) as store:
        begin(store)
    path.chmod(0o400)
    open_folder.chmod(0o500)
    with as_nobody(open_folder):
        with open_store(path, shared=shared, now=clock) as reader:
            READINGS[method](reader)
        assert [each.name for each in open_folder.iterdir()] == [path.name]


@pytest.mark.parametrize("method", WRITINGS)
def test_a_store_that_cannot_be_written_says_so_and_stays(open_folder: Path, clock: Clock, method: str) -> None:
    path = open_folder / "sessions.bks"
    with open_store(path, now=clock) as store:
        begin(store)
    path.chmod(0o400)
    open_folder.chmod(0o500)
    content = path.read_bytes()
    with as_nobody(open_folder), open_store(path, now=clock) as store, pytest.raises(errors.StoreReadOnly) as told:
        WRITINGS[method](store)
    assert "BACKSTORY_HOME" in str(told.value)
    assert path.read_bytes() == content


def test_a_store_cannot_be_begun_in_a_folder_that_cannot_be_written(open_folder: Path) -> None:
    open_folder.chmod(0o500)
    with as_nobody(open_folder), open_store(open_folder / "new" / "sessions.bks") as store:  # noqa: SIM117
        with pytest.raises(errors.StoreReadOnly):
            store.create_session()


@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
def test_only_its_owner_may_read_a_store(store_path: Path, shared: bool) -> None:
    mask = os.umask(0)
    try:
        with open_store(store_path, shared=shared) as store:
            begin(store)
            modes = {stat.S_IMODE(each.stat().st_mode) for each in store_path.parent.iterdir()}
    finally:
        os.umask(mask)
    assert modes == {0o600}
    assert stat.S_IMODE(store_path.parent.stat().st_mode) == 0o700


def test_a_newer_store_is_refused_and_left_alone(store: Store) -> None:
    begin(store)
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("update meta set value = ? where key = 'schema_version'", (str(migrate.SCHEMA_VERSION + 1),))
    content = store.path.read_bytes()
    for use in (*READINGS.values(), *WRITINGS.values(), Store.create_session):
        with pytest.raises(errors.StoreTooNew, match="Upgrade it"):
            use(store)
        store.close()
    assert store.path.read_bytes() == content


def a_text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 1_000)


def a_short_text(path: Path) -> None:
    path.write_text("hi")


def another_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table meta(key text primary key, value text)")
        db.execute("insert into meta values ('schema_version', '1')")


def a_database_without_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma user_version = 7")


def a_cut_database(path: Path) -> None:
    another_database(path)
    path.write_bytes(path.read_bytes()[:100])


def only_a_header(path: Path) -> None:
    path.write_bytes(connection.SQLITE_HEADER)


def a_store_without_a_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"pragma application_id = {connection.APPLICATION_ID}")
        db.execute("create table notes(text)")


FOREIGN = [
    a_text, a_short_text, another_database, a_database_without_tables, a_cut_database, only_a_header,
    a_store_without_a_version,
]  # fmt: skip


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_file_that_is_no_store_is_refused_and_left_alone(
    tmp_path: Path, make: Callable[[Path], None], use: str
) -> None:
    path = tmp_path / "file"
    make(path)
    content, before = path.read_bytes(), listing(tmp_path)
    with open_store(path) as store, pytest.raises((errors.NotAStore, errors.StoreDamaged)) as told:
        store.sessions() if use == "read" else store.create_session()
    assert "was not changed" in str(told.value) or "Copy it aside first" in str(told.value)
    assert path.read_bytes() == content
    assert listing(tmp_path) == before


def test_another_programs_database_in_use_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("pragma journal_mode = wal")
        other.execute("create table theirs(a)")
        other.commit()
        shutil.copytree(tmp_path, tmp_path / "left")
    # A copy made while it was in use: its log was never checkpointed.
    left = tmp_path / "left" / "state.db"
    (left.parent / "state.db-shm").unlink()
    before = {each.name: each.read_bytes() for each in left.parent.iterdir()}
    for use in (Store.sessions, Store.create_session):
        with open_store(left) as store, pytest.raises(errors.NotAStore):
            use(store)
    assert {each.name: each.read_bytes() for each in left.parent.iterdir()} == before


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_folder_is_no_store(tmp_path: Path, use: str) -> None:
    with open_store(tmp_path) as store, pytest.raises(errors.BackstoryError, match="director"):
        store.sessions() if use == "read" else store.create_session()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_store_that_was_never_begun(tmp_path: Path) -> None:
    path = tmp_path / "empty.bks"
    path.touch()
    with open_store(path) as store:
        assert not store.exists
        with pytest.raises(errors.StoreNotFound):
            store.sessions()
        assert path.read_bytes() == b""
        store.create_session()
        assert store.verify().problems == []


def test_a_locked_store_says_that_it_is_busy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = begin(store)
    store.close()
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 1)
    # The same SQLite as ours: the locks of another one in the same process would not be seen.
    with closing(apsw.Connection(str(store.path))) as other:
        other.execute("begin exclusive")
        for use in (*WRITINGS.values(), *READINGS.values()):
            with pytest.raises(errors.StoreBusy, match="Try again"):
                use(store)
            store.close()
    assert [stored.seq for stored in store.events(session)] == [1, 2]


def test_a_reader_sees_the_home_store_while_another_writes(
    store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 1)
    with open_store(store_path, shared=True, now=clock) as store:
        session = begin(store)
        with closing(apsw.Connection(str(store.path))) as other:
            other.execute("begin immediate")
            assert len(store.events(session)) == 2
            with pytest.raises(errors.StoreBusy):
                store.rename(session, "later")
        store.rename(session, "later")


def test_a_store_can_be_used_again_after_closing(store: Store) -> None:
    session = begin(store)
    store.close()
    store.append_events(session, [UserMessage(content="again")])
    assert len(store.events(session)) == 3


def test_two_writers_take_turns(store_path: Path, clock: Clock) -> None:
    with open_store(store_path, now=clock) as one, open_store(store_path, now=clock) as two:
        session = begin(one)
        for n in range(10):
            (one if n % 2 else two).append_events(session, [AssistantText(text=str(n))])
        assert [stored.seq for stored in one.events(session)] == list(range(1, 13))


def test_every_store_has_an_id_of_its_own(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.bks") as one, open_store(tmp_path / "b.bks") as two:
        one.create_session(), two.create_session()
        assert one.id != two.id


def test_the_index_gets_its_settings_back_after_a_bulk_that_was_killed(store: Store) -> None:
    begin(store)
    ingesting.begin_bulk(store)
    store.close()
    begin(store)
    store.close()
    with closing(sqlite3.connect(store.path)) as db:
        assert dict(db.execute("select k, v from search_index_config where k <> 'version'")) == {
            "automerge": 4, "crisismerge": 16, "hashsize": 1024 * 1024,
        }  # fmt: skip


def test_a_bulk_ends_in_an_index_that_is_whole(store: Store) -> None:
    ingesting.begin_bulk(store)
    for n in range(50):
        begin(store, UserMessage(content=f"unmistakable{n}"))
    ingesting.end_bulk(store)
    assert [len(store.search(f"unmistakable{n}").hits) for n in range(50)] == [1] * 50
    assert store.verify().problems == []


@every(
    "error",
    [
        errors.SessionNotFound("x"),
        errors.SessionAmbiguous("x", ["a", "b"]),
        errors.StoreNotFound(Path("/s")),
        errors.NotAStore(Path("/s"), "why"),
        errors.StoreTooNew(Path("/s"), 9, 1),
        errors.StoreBusy(Path("/s")),
        errors.StoreReadOnly(Path("/s")),
        errors.DiskFull(Path("/s")),
        errors.StoreDamaged(Path("/s"), "torn"),
        errors.FileInTheWay(Path("/s")),
        errors.CannotWrite(Path("/s"), "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_says_what_to_do(error: errors.BackstoryError) -> None:
    advice = r"Try|Give|Run|Upgrade|[Tt]ry again|set BACKSTORY_HOME|[Ff]ree|Copy|choose|Choose|name another"
    assert re.search(advice, str(error))
    assert error.exit_code > 0
