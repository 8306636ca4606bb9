"""Recorded paths as they are read after folders were moved."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from itertools import count, pairwise
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.errors import BackstoryError
from backstory.store import Store, Workplace, open_store
from backstory.store.moves import MOVES_MAX, Move, Moves, rebased, root_of, with_move
from backstory.store.tables.session_filter import ListFilter
from tests.support.faults import failing_disk

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

NAMES = st.lists(st.sampled_from(["a", "ab", "b", "c d"]), min_size=1, max_size=4).map(
    lambda each: "/" + "/".join(each)
)


def test_only_what_lies_in_a_folder_moves_with_it() -> None:
    moves = Moves([Move(old="/a", new="/z")])
    assert [moves.here(each) for each in ("/a", "/a/b", "/ab", "/", "a/b", "")] == ["/z", "/z/b", "/ab", "/", "a/b", ""]


def test_the_innermost_folder_decides() -> None:
    moves = Moves([Move(old="/a", new="/z"), Move(old="/a/b", new="/y")])
    assert (moves.here("/a/b/c"), moves.here("/a/c")) == ("/y/c", "/z/c")


def test_what_began_after_a_move_is_where_it_says() -> None:
    moves = Moves([Move(old="/a", new="/z", at=1_000)])
    assert moves.here("/a", "1970-01-01T00:00:00.999Z") == "/z"
    assert moves.here("/a", "1970-01-01T00:00:01.000Z") == "/a"


@given(path=NAMES, old=NAMES, new=NAMES)
def test_a_path_that_is_moved_there_and_back_is_the_same(path: str, old: str, new: str) -> None:
    there = rebased(path, old, new)
    assert there is None or rebased(there, new, old) == path


@given(st.lists(st.sampled_from(["/a", "/b", "/c", "/d"]), min_size=2, max_size=8))
def test_a_folder_that_was_moved_often_is_at_its_last_path(places: list[str]) -> None:
    moves: list[Move] = []
    for old, new in pairwise(places):
        if old != new:
            moves = with_move(moves, Move(old=old, new=new))
    assert {Moves(moves).here(each) for each in places} == {places[-1]}
    assert len({each.old for each in moves}) == len(moves)


def test_a_folder_that_was_moved_twice_leads_to_its_last_path() -> None:
    moves = with_move(with_move([], Move(old="/a", new="/b", at=1)), Move(old="/b", new="/c", at=2))
    assert [(each.old, each.new, each.at) for each in moves] == [("/a", "/c", 1), ("/b", "/c", 2)]


def test_a_folder_that_was_moved_back_is_not_moved() -> None:
    moves = with_move(with_move([], Move(old="/a", new="/b", at=1)), Move(old="/b", new="/a", at=2))
    assert [(each.old, each.new) for each in moves] == [("/b", "/a")]


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("p/.backstory/sessions.bks", "p"), ("p.git/backstory/sessions.bks", "p.git"), ("home/store.db", None),
        ("p/.backstory/copy.bks", None), ("backups/sessions.bks", None),
    ],
)  # fmt: skip
def test_only_a_project_s_store_has_a_root(tmp_path: Path, path: str, root: str | None) -> None:
    assert root_of(tmp_path / path) == (None if root is None else str((tmp_path / root).resolve()))


def test_a_root_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert root_of(tmp_path / "link" / ".backstory" / "sessions.bks") == str((tmp_path / "real").resolve())


def begun(store: Store, root: Path) -> None:
    here = str(root)
    store.create_session("one", root, at=Workplace(project=here, cwd=f"{here}/src", root=here))


def moved(store: Store, root: Path, clock: Clock) -> Store:
    store.close()
    root.rename(root.with_name("moved"))
    return open_store(root.with_name("moved") / ".backstory" / "sessions.bks", now=clock)


def test_every_folder_of_a_session_is_read_where_it_lies_now(store: Store, store_path: Path, clock: Clock) -> None:
    root = store_path.parent.parent
    begun(store, root)
    with moved(store, root, clock) as there:
        session, now = there.session("S1"), str(root.with_name("moved"))
    assert (session.project, session.root, session.worktree) == (now, now, now)
    assert (session.cwd, session.said_folder) == (f"{now}/src", f"{root}/src")


def test_a_backup_is_read_as_it_stands(store: Store, store_path: Path, tmp_path: Path) -> None:
    begun(store, store_path.parent.parent)
    store.close()
    copy = store_path.rename(tmp_path / "backup.db")
    with open_store(copy) as there:
        assert there.session("S1").cwd == f"{store_path.parent.parent}/src"


def test_a_disk_that_is_full_leaves_a_moved_store_as_it_was(store: Store, store_path: Path, clock: Clock) -> None:
    """At every step; and then it is noted where the store is."""
    root = store_path.parent.parent
    begun(store, root)
    with moved(store, root, clock) as there:
        path = there.path
    with closing(apsw.Connection(str(path))) as db:
        before = dict(db.execute("select key, value from meta"))
    now = str(root.with_name("moved"))
    for step in count(1):
        with failing_disk() as disk:
            disk.fail(step, apsw.FullError, for_good=True)
            with open_store(path, now=clock) as there, suppress(BackstoryError):
                there.settle()
            disk.heal()
            with open_store(path, now=clock) as there:
                assert there.session("S1").cwd == f"{now}/src"
            if not disk.failed:
                break
    assert step > 1
    with closing(apsw.Connection(str(path))) as db:
        after = dict(db.execute("select key, value from meta"))
    assert json.loads(after.pop("root")) == now
    assert [each["from"] for each in json.loads(after.pop("moves"))] == [json.loads(before.pop("root"))]
    assert after == before


def test_a_session_of_a_machine_whose_clock_is_ahead_is_read_where_it_lies_now(
    store: Store, store_path: Path, clock: Clock
) -> None:
    root = store_path.parent.parent
    clock.ms += 3_600_000
    begun(store, root)
    clock.ms -= 3_600_000
    with moved(store, root, clock) as there:
        there.settle()
        assert there.session("S1").worktree == str(root.with_name("moved"))


def test_no_more_moves_are_read_than_a_store_may_say(store: Store, store_path: Path) -> None:
    begun(store, store_path.parent.parent)
    many = [Move(old=f"/old/{n}") for n in range(MOVES_MAX + 5)]
    store.change_moves(lambda _: many)
    assert len(list(store.moves)) == MOVES_MAX


def test_a_folder_that_something_was_moved_out_of_keeps_the_rest(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        for folder in ("/w/a", "/w/b"):
            store.create_session(folder, folder, at=Workplace(project=folder, cwd=folder))
        store.change_moves(lambda _: [Move(old="/w/a", new="/x/a")])
        found = {
            folder: {each.name for each in store.list_sessions(ListFilter(project=folder, folder=folder))}
            for folder in ("/w", "/w/a", "/w/b", "/x", "/x/a")
        }
    assert found == {"/w": {"/w/b"}, "/w/a": set(), "/w/b": {"/w/b"}, "/x": {"/w/a"}, "/x/a": {"/w/a"}}


def test_a_folder_that_was_moved_within_another_is_still_in_that(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        store.create_session("one", "/w/a", at=Workplace(project="/w/a", cwd="/w/a/src"))
        store.change_moves(lambda _: [Move(old="/w/a", new="/w/b")])
        assert [each.cwd for each in store.list_sessions(ListFilter(project="/w", folder="/w"))] == ["/w/b/src"]


def test_a_project_that_a_remote_names_keeps_its_sessions_wherever_folders_are(tmp_path: Path) -> None:
    with open_store(tmp_path / "store.db") as store:
        store.create_session("one", "/w/a", at=Workplace(project="host/me/tool", cwd="/w/a"))
        store.change_moves(lambda _: [Move(old="/w/a", new="/x/a")])
        wanted = ListFilter(project="host/me/tool", folder="/other/clone")
        assert [each.name for each in store.list_sessions(wanted)] == ["one"]
