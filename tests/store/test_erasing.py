"""What a person removed is not in the file any more, however one looks."""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import errors
from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.store import Session, Store, open_store
from backstory.store.file import connection, erasing
from tests.support.faults import failing_disk
from tests.support.leftovers import leftovers

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store.database import Database
    from tests.support.clock import Clock

maintenance = importlib.import_module("backstory.store.file.maintenance")
"""The module itself: its package has a stand-in until it is imported."""

pytestmark = pytest.mark.slow

SECRET = "qzxwvkjheron"
TURNS = 60
BOTH = pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])


def said(store: Store, session: Session, word: str, rng: random.Random) -> None:
    """A turn that says a word in every kind of event, among words of other lengths each time."""
    filling = " ".join(f"{rng.randrange(10**6)}" for _ in range(rng.randrange(1, 300)))
    store.append_events(
        session,
        [
            UserMessage(content=f"use {word} for {filling}"),
            ToolCall(tool_name="Bash", tool_use_id=filling[:9], input={"command": f"echo {word} {filling}"}),
            ToolResult(tool_use_id=filling[:9], content=f"{word} {filling}"),
            ToolCall(tool_name="Read", tool_use_id="r", input={"file_path": f"/w/{filling[:9]}/{word}.py"}),
            AssistantText(text=f"noted {word} in #{filling[:4]}"),
        ],
    )
    store.mark_completed(session, 1_000, 0.5)


def with_a_secret(store: Store) -> tuple[Session, Session]:
    """Two conversations that took turns: the second one is about the secret, which is its name and its branch's too."""
    rng = random.Random(7)
    kept, doomed = store.create_session("kept"), store.create_session(SECRET, f"/w/{SECRET}")
    for _ in range(TURNS):
        said(store, kept, "harmless", rng)
        said(store, doomed, SECRET, rng)
    leaf = store.leaf(doomed)
    assert leaf is not None
    store.name_branch(doomed, f"about {SECRET}", leaf)
    store.choose_session(kept, "/w")
    store.choose_session(doomed, f"/w/{SECRET}")
    return kept, doomed


@BOTH
def test_nothing_of_a_removed_session_is_left(store_path: Path, clock: Clock, shared: bool) -> None:
    with open_store(store_path, shared=shared, now=clock) as store:
        kept, doomed = with_a_secret(store)
        before = store.events(kept)
        assert leftovers(store_path.parent, SECRET)
        store.remove(doomed)
        # While the store is open, too: a watch may keep it so for days.
        assert leftovers(store_path.parent, SECRET) == set()
        assert store.events(kept) == before
        assert store.verify().problems == []
        assert store.search("harmless").hits


def test_nothing_is_left_where_pages_were_rebuilt(store_path: Path, clock: Clock) -> None:
    # SQLite overwrites what is deleted, but not where it lay before its page was put in order: chance decides where
    # that is, and with this seed some of it stays there.
    rng = random.Random(2)
    with open_store(store_path, shared=True, now=clock) as store:
        everyone = [store.create_session(f"n{n}") for n in range(12)]
        for n in range(300):
            who = rng.choice(everyone)
            word = SECRET if who is everyone[3] else "harmless"
            path = f"/{rng.random()}/{word}.py"
            prompt = UserMessage(content=f"{word} " * rng.randrange(1, 300))
            call = ToolCall(tool_name="Read", tool_use_id=f"t{n}", input={"file_path": path})
            store.append_events(who, [prompt, call, AssistantText(text=word)])
            store.mark_completed(who, 1_000, 0.5)
        store.remove(*everyone[6:])
        store.remove(everyone[3])
        assert leftovers(store_path.parent, SECRET) == set()


def test_sessions_that_are_removed_together_are_erased_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    everyone = [store.create_session(f"n{n}") for n in range(3)]
    rewritten: list[Path] = []
    monkeypatch.setattr(erasing, "rewrite", lambda db, path: rewritten.append(path))
    assert store.remove(*everyone) == [each.uid for each in everyone]
    assert rewritten == [store.path]


def test_what_is_deleted_is_overwritten_also_before_the_file_is_written_anew(
    store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "rewrite", lambda db, path: None)
    with open_store(store_path, now=clock) as store:
        doomed = store.create_session()
        said(store, doomed, SECRET, random.Random(7))
        store.remove(doomed)
    assert leftovers(store_path.parent, SECRET) == set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a file that others use."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 1)


@pytest.mark.usefixtures("impatient")
def test_a_reader_that_holds_on_to_what_was_is_told_of_and_optimize_erases_later(
    store_path: Path, clock: Clock
) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        _, doomed = with_a_secret(store)
        reader = apsw.Connection(str(store_path))
        reader.execute("begin; select count(*) from events").fetchall()
        with pytest.raises(errors.NotErased, match="goes on using") as refused:
            store.remove(doomed)
        assert str(store_path) in str(refused.value)
        assert not store.has(doomed.uid)
        assert leftovers(store_path.parent, SECRET)
        reader.close()
        store.optimize(0)
        assert leftovers(store_path.parent, SECRET) == set()


@pytest.mark.usefixtures("impatient")
def test_a_writer_that_does_not_end_is_told_of(store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        _, doomed = with_a_secret(store)
        writer = apsw.Connection(str(store_path))
        merge = maintenance.merge_index

        def merge_beside_a_writer(store: Database) -> None:
            merge(store)
            writer.execute("begin immediate")

        monkeypatch.setattr(maintenance, "merge_index", merge_beside_a_writer)
        with pytest.raises(errors.NotErased, match="goes on using"):
            store.remove(doomed)
        writer.close()
        monkeypatch.setattr(maintenance, "merge_index", merge)
        store.erase()
        assert leftovers(store_path.parent, SECRET) == set()


def test_an_erasing_that_was_cut_off_is_made_up_for_by_optimize(
    store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        _, doomed = with_a_secret(store)
        with monkeypatch.context() as patched:
            patched.setattr(maintenance, "merge_index", _struck)
            with pytest.raises(KeyboardInterrupt):
                store.remove(doomed)
    assert leftovers(store_path.parent, SECRET)
    with open_store(store_path, shared=True, now=clock) as store:
        store.optimize(0)
        assert leftovers(store_path.parent, SECRET) == set()


def _struck(_: Database) -> None:
    raise KeyboardInterrupt


def removed_by_an_earlier_version(path: Path, session: Session) -> None:
    db = apsw.Connection(str(path))
    db.execute("pragma foreign_keys = 1; pragma secure_delete = 0")
    db.execute("delete from search_index where rowid in (select id from events where session_id = ?)", (session.id,))
    db.execute("delete from sessions where id = ?", (session.id,))
    db.execute("delete from meta where key = ?", (erasing.MARK,))
    db.execute("delete from meta where key like 'here %'")
    db.close()


def test_what_an_earlier_version_removed_is_erased_once_by_optimize(
    store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        kept, doomed = with_a_secret(store)
    removed_by_an_earlier_version(store_path, doomed)
    assert leftovers(store_path.parent, SECRET)
    with open_store(store_path, shared=True, now=clock) as store:
        store.optimize(0)
        assert leftovers(store_path.parent, SECRET) == set()
        assert store.verify().problems == []
        assert len(store.events(kept)) == TURNS * 5
        rewritten: list[Path] = []
        monkeypatch.setattr(erasing, "rewrite", lambda db, path: rewritten.append(path))
        store.optimize(0)
        assert rewritten == []


def test_a_store_that_never_lost_anything_is_not_written_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said(store, store.create_session(), "harmless", random.Random(7))
    rewritten: list[Path] = []
    monkeypatch.setattr(erasing, "rewrite", lambda db, path: rewritten.append(path))
    store.optimize(0)
    assert rewritten == []


def test_a_full_disk_is_told_of(store_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with failing_disk() as disk, open_store(store_path, now=clock) as store:
        _, doomed = with_a_secret(store)
        merge = maintenance.merge_index

        def merge_and_fill_the_disk(store: Database) -> None:
            merge(store)
            disk.fail(1, apsw.FullError, for_good=True)

        monkeypatch.setattr(maintenance, "merge_index", merge_and_fill_the_disk)
        with pytest.raises(errors.NotErased, match="full"):
            store.remove(doomed)
        disk.heal()
        assert not store.has(doomed.uid)
        monkeypatch.setattr(maintenance, "merge_index", merge)
        store.erase()
        assert leftovers(store_path.parent, SECRET) == set()
