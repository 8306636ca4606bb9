"""A store of every released schema is read by today's code, and carried on by it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import errors
from backstory.cli.app import App
from backstory.export.full_form import FullForms
from backstory.model import AssistantText, Complete, Init, Plan, Thinking, ToolCall, ToolResult, UserMessage
from backstory.store import Store, open_store
from backstory.store.file import connection, migrate
from backstory.store.tables import boarding
from tests.support import make_golden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VERSIONS = range(migrate.OLDEST, migrate.SCHEMA_VERSION + 1)
DRAFTS = range(1, migrate.OLDEST)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A copy of a golden store, opened."""
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / f"store-v{request.param}.bks", copy)
    with open_store(copy, now=lambda: make_golden.BEGUN + 10**6) as store:
        yield store


def test_a_golden_store_is_whole(golden: Store) -> None:
    assert golden.verify().problems == []


def test_a_golden_store_lists_its_sessions(golden: Store) -> None:
    told = [
        (each.shown_number, each.shown_name, each.worktree, each.created, each.turns, each.events)
        for each in golden.sessions()
    ]
    assert told == [
        ("S3", "S3", "", "2026-09-21T14:13:22.000Z", 1, 72),
        ("S1", "Fix the login page", "/home/dev/project", "2026-09-21T14:13:20.000Z", 1, 7),
    ]


def test_a_golden_store_knows_how_its_sessions_ended(golden: Store) -> None:
    told = [(each.completed, each.duration_ms, each.cost_usd) for each in golden.sessions()]
    assert told == [(0, 1_500, None), (1, 5_000, 0.25)]


def test_a_golden_store_gives_every_event_in_its_compact_form(golden: Store) -> None:
    assert [stored.event for stored in golden.events(golden.session("S1"))] == [
        Init(cwd="/home/dev/project", model="opus", version="1.2.3"),
        UserMessage(content="why does the login page overheat? 東京"),
        Thinking(text="perhaps the flux capacitor"),
        ToolCall(
            tool_use_id="t1", tool_name="Read", tool="READ", file_path="/f.py", input={"file_path": "/f.py"}
        ),
        ToolResult(
            tool_use_id="t1", tool_name="Read", tool="READ", file_path="/f.py",
            content="line 0\n  (200 lines)\nline 199",
        ),
        AssistantText(text="It is the flux capacitor."),
        Complete(success=True, duration_ms=5_000, cost_usd=0.25),
    ]  # fmt: skip


def test_a_golden_store_gives_every_event_in_full(golden: Store) -> None:
    full = FullForms(golden)
    call, result = (full.expand(stored) for stored in golden.events(golden.session("S1"))[3:5])
    assert isinstance(call, ToolCall)
    assert call.input == {"file_path": "/f.py", "offset": 3}
    assert isinstance(result, ToolResult)
    assert result.content == make_golden.OUTPUT


def test_a_golden_store_gives_folded_events_in_full(golden: Store) -> None:
    full = FullForms(golden)
    told = [full.expand(stored) for stored in golden.events(golden.session("S3"))]
    assert told == [
        *[AssistantText(text=f"thought number {n}") for n in range(70)],
        UserMessage(content="go on"),
        Plan(name="plan", content="1. go on"),
    ]


def test_a_golden_store_tells_its_turns(golden: Store) -> None:
    (turn,) = golden.turns(golden.session("S1"))
    assert (turn.prompt, turn.first_seq, turn.last_seq, turn.outcome) == (
        "why does the login page overheat? 東京", 2, 7, "completed",
    )  # fmt: skip


@pytest.mark.parametrize(("query", "number"), [("flux capacitor", "S1"), ("東京", "S1"), ('"number 33"', "S3")])
def test_a_golden_store_can_be_searched(golden: Store, query: str, number: str) -> None:
    (hit,) = golden.search(query).hits
    assert golden.session(hit.session_id).shown_number == number


def test_a_golden_store_remembers_what_was_removed(golden: Store) -> None:
    assert golden.search("secret").hits == []
    with closing(sqlite3.connect(golden.path)) as db:
        assert db.execute("select count(*) from forgotten").fetchone() == (1,)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_store_has_the_board_that_its_version_knew(version: int, tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / f"store-v{version}.bks", copy)
    with open_store(copy) as golden:
        items = boarding.items(golden, make_golden.BOARD)
    assert [(each.src, each.name, each.content, each.author, each.read_count) for each in items] == (version >= 4) * [
        ("agent", "build-notes", "how agents build it", "codex", 1),
        ("user", "build-notes", "how users build it", None, 0),
    ]


def test_a_golden_store_can_be_carried_on(golden: Store) -> None:
    session = golden.session("S1")
    assert golden.append_events(session, [UserMessage(content="thanks")]) == 8
    assert golden.create_session().shown_number == "S4"
    assert golden.verify().problems == []


def test_reading_a_golden_store_that_was_brought_forward_changes_nothing(golden: Store) -> None:
    golden.make_ready()
    golden.close()
    content = golden.path.read_bytes()
    golden.sessions(), golden.search("flux")
    golden.close()
    assert golden.path.read_bytes() == content


def test_the_script_makes_what_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "made.bks"
    make_golden.make(made)
    kept = make_golden.GOLDEN / f"store-v{migrate.SCHEMA_VERSION}.bks"
    with open_store(made) as new, open_store(kept) as old:
        for theirs, ours in zip(old.sessions(), new.sessions(), strict=True):
            assert (ours.shown_name, ours.created, ours.completed) == (
                theirs.shown_name,
                theirs.created,
                theirs.completed,
            )
            assert [each.event for each in new.events(ours)] == [each.event for each in old.events(theirs)]
        assert boarding.items(new, make_golden.BOARD) == boarding.items(old, make_golden.BOARD)


# drafts ---------------------------------------------------------------------------------------------------------


def a_draft(version: int, path: Path) -> Path:
    shutil.copy(make_golden.GOLDEN / f"store-v{version}.bks", path)
    return path


def the_last_draft(path: Path) -> Path:
    """What had the number of the first schema before it was promised: one table has another name."""
    shutil.copy(make_golden.GOLDEN / "store-v3.bks", path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("alter table sidecars rename to companions")
    return path


@pytest.fixture(params=[*DRAFTS, migrate.OLDEST], ids=lambda version: f"v{version}")
def draft(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "draft.bks"
    return a_draft(request.param, path) if request.param in DRAFTS else the_last_draft(path)


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.sessions(),
        lambda store: store.search("flux"),
        lambda store: store.create_session(),
        lambda store: store.make_ready(),
        lambda store: store.execute_read_only("select 1"),
        lambda store: store.verify(),
        lambda store: store.erase(),
    ],
    ids=["list", "search", "create", "make ready", "sql", "verify", "erase"],
)
def test_a_draft_of_the_schema_is_refused_unchanged(draft: Path, use: Callable[[Store], object]) -> None:
    content = draft.read_bytes()
    with open_store(draft) as store, pytest.raises(errors.StoreTooOld):
        use(store)
    assert draft.read_bytes() == content
    assert list(draft.parent.iterdir()) == [draft]


def test_a_refused_draft_says_what_is_read_again_and_how_to_get_the_rest(draft: Path) -> None:
    with open_store(draft) as store, pytest.raises(errors.StoreTooOld) as refused:
        store.sessions()
    for words in (str(draft), "not changed", "`backstory ingest`", "runs", "files are gone", "restore --all"):
        assert words in str(refused.value)


# what comes after -------------------------------------------------------------------------------------------------


def bring_seven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a seventh schema with a column more."""
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 7)
    monkeypatch.setattr(migrate, "MIGRATIONS", {7: "alter table turns add column mood text not null default 'calm';"})


def refused_below(kept: Path, opened: Callable[[Path], apsw.Connection], path: Path) -> apsw.Connection:
    """Open a store to write, but for one that lies where that cannot be."""
    if path == kept:
        raise errors.StoreReadOnly(path)
    return opened(path)


def a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[App, Path]:
    """A project with a store of the sixth schema, where the seventh is in force."""
    project = tmp_path / "project"
    path = project / ".backstory" / "sessions.bks"
    path.parent.mkdir(parents=True)
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", path)
    bring_seven(monkeypatch)
    return App({"HOME": str(tmp_path), "BACKSTORY_HOME": str(tmp_path / "home")}, project), path


def test_a_migration_adds_a_column_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    with open_store(copy) as store:
        before = [(each.uid, each.events) for each in store.sessions()]
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 7)
    monkeypatch.setattr(migrate, "MIGRATIONS", {7: "alter table turns add column mood text not null default 'calm';"})
    with open_store(copy) as store:
        assert [(each.uid, each.events) for each in store.sessions()] == before
        store.append_events(store.session("S1"), [UserMessage(content="thanks")])
        assert store.verify().problems == []
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("select value from meta where key = 'schema_version'").fetchone() == ("7",)
        assert {row[0] for row in db.execute("select mood from turns")} == {"calm"}


def test_an_older_store_that_is_only_read_is_brought_forward_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 7)
    monkeypatch.setattr(migrate, "MIGRATIONS", {7: "alter table turns add column mood text not null default 'calm';"})
    with open_store(copy) as store:
        assert len(store.sessions()) == 2
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("select distinct mood from turns").fetchall() == [("calm",)]


WAYS: dict[str, Callable[[Store, pytest.MonkeyPatch], None]] = {
    "from elsewhere": lambda store, _: setattr(store, "is_elsewhere", True),
    "not trusted": lambda store, _: setattr(store, "refuses_writes", True),
    "read-only": lambda store, patched: patched.setattr(
        connection, "open_writer", partial(refused_below, store.path, connection.open_writer)
    ),
}
"""Reasons for which a store may not be written."""


@pytest.fixture(params=WAYS)
def unwritable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Store]:
    def opened(path: Path) -> Store:
        store = open_store(path)
        WAYS[request.param](store, monkeypatch)
        return store

    return opened


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_store_that_may_not_be_written_is_listed_shown_and_searched_as_it_is(
    unwritable: Callable[[Path], Store], tmp_path: Path, version: int
) -> None:
    kept, today = tmp_path / "kept.bks", tmp_path / "today.bks"
    for copy in (kept, today):
        shutil.copy(make_golden.GOLDEN / f"store-v{version}.bks", copy)
    content = kept.read_bytes()
    with unwritable(kept) as old, open_store(today) as new:
        for theirs, ours in zip(new.sessions(), old.sessions(), strict=True):
            assert (ours.uid, ours.turns, ours.events, ours.last_active) == (
                theirs.uid, theirs.turns, theirs.events, theirs.last_active,
            )  # fmt: skip
            assert old.events(ours) == new.events(theirs)
            assert old.turns(ours) == new.turns(theirs)
            assert old.tree(ours) == new.tree(theirs)
        assert len(old.search("flux").hits) == len(new.search("flux").hits) > 0
        assert boarding.items(old, make_golden.BOARD) == boarding.items(new, make_golden.BOARD)
        for log in new.logs():
            assert b"".join(old.stream_log(log.id)) == b"".join(new.stream_log(log.id))
    assert kept.read_bytes() == content
    assert sorted(tmp_path.iterdir()) == [kept, today]


def test_who_reads_an_older_store_as_it_is_sees_when_another_process_brings_it_forward(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v4.bks", copy)
    with open_store(copy) as reading, open_store(copy) as other:
        reading.refuses_writes = True
        (log, *_) = reading.logs()
        before = b"".join(reading.stream_log(log.id))
        other.make_ready()
        other.change(lambda db: db.execute("update chunks set lender = 999 where log_id = ?", (log.id,)))
        # Who still saw no lenders would take what is copied for the bytes.
        with pytest.raises(errors.StoreDamaged):
            b"".join(reading.stream_log(log.id))
    assert before


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["at rest", "beside a journal"])
def test_an_older_store_of_a_clone_is_read_unchanged_and_stays_a_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_interrupted: bool
) -> None:
    app, path = a_project(tmp_path, monkeypatch)
    content = path.read_bytes()
    if is_interrupted:
        path.with_name(path.name + "-journal").touch()
    assert app.stores == [app.project_store]
    assert app.project_store.is_elsewhere
    assert len(app.project_store.sessions()) == 2
    assert path.read_bytes() == content


def test_an_older_store_of_a_project_of_ours_stays_ours_and_is_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, path = a_project(tmp_path, monkeypatch)
    with open_store(path) as store:
        app.workspace.known_projects.remember(store)
    with app.project_store as store:
        assert not store.is_elsewhere
        assert len(store.sessions()) == 2
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select distinct mood from turns").fetchall() == [("calm",)]


def test_an_older_store_is_verified_when_it_was_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    with closing(sqlite3.connect(copy)) as db:
        db.execute("alter table logs drop column told_to")
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 7)
    monkeypatch.setattr(migrate, "MIGRATIONS", {7: "alter table logs add column told_to integer;"})
    with open_store(copy) as store:
        assert store.verify().problems == []


def test_an_older_store_that_another_process_brings_forward_first_is_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    bring_seven(monkeypatch)
    look, others = migrate.is_current, [copy]

    def look_and_lose(db: apsw.Connection, path: Path) -> bool:
        found = look(db, path)
        while others:
            with open_store(others.pop()) as faster:
                faster.make_ready()
        return found

    monkeypatch.setattr(migrate, "is_current", look_and_lose)
    with open_store(copy) as store:
        assert len(store.sessions()) == 2
    assert others == []


def test_what_a_later_version_derived_is_not_stamped_down(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    later = str(migrate.DERIVED_VERSION + 10)
    with open_store(copy) as store:
        store.make_ready()
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("update meta set value = ? where key = 'derived_version'", (later,))
    with open_store(copy) as store:
        store.append_events(store.session("S1"), [UserMessage(content="thanks")])
        assert store.execute_read_only("select count(*) from sessions").rows == [(2,)]
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("select value from meta where key = 'derived_version'").fetchone() == (later,)


def test_an_older_store_where_nothing_can_be_written_is_verified_as_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, copy = tmp_path / "kept.bks", tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v4.bks", kept)
    monkeypatch.setattr(connection, "open_writer", partial(refused_below, kept, connection.open_writer))
    with open_store(kept) as store:
        with pytest.raises(errors.StoreOutdated, match="backstory backup --store"):
            store.verify()
        store.backup(copy)
    with open_store(copy) as store:
        assert store.verify().problems == []


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy.bks"
    shutil.copy(make_golden.GOLDEN / "store-v6.bks", copy)
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", 7)
    broken = "alter table turns add column mood text; insert into nowhere values (1);"
    monkeypatch.setattr(migrate, "MIGRATIONS", {7: broken})
    with open_store(copy) as store, pytest.raises(apsw.SQLError):
        store.create_session()
    monkeypatch.undo()
    with open_store(copy) as store:
        assert store.verify().problems == []
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("select value from meta where key = 'schema_version'").fetchone() == ("6",)
        assert "mood" not in {row[1] for row in db.execute("pragma table_info(turns)")}
