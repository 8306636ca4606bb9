"""A home that is moved: all of it or nothing, whenever the move is killed, and never two homes or none."""

from __future__ import annotations

import fcntl
import importlib
import os
import re
import shutil
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import backstory
from backstory.errors import (
    CannotWrite,
    DiskFull,
    HomeCopyDiffers,
    HomeHasStore,
    HomeInUse,
    HomeIsMoving,
    HomeNotFound,
    HomeNotMoved,
    HomeNotWhole,
    HomeOfOther,
    HomeWasMoved,
    NotAStore,
)  # fmt: skip
from backstory.ingest.lock import ingest_lock, watch_lock
from backstory.model import UserMessage
from backstory.projects import home_files, home_move, link
from backstory.runs.compactor import lock_of
from backstory.runs.lock import LOCKS, SessionLock
from backstory.runs.spool import SPOOLS, Spool
from backstory.store import open_store
from backstory.store.moves import MOVED_FROM, MOVED_TO, Moving, check_home
from backstory.store.tables import events
from backstory.workspace.stores.home_moving import MovedHome, move_home
from tests.support.counts import steps
from tests.support.homes import QUEUED, STRANGER, TURN, held, killed_at, make_home, write
from tests.support.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS_MAX = 2_000
SOURCE = Path(backstory.__file__).parent


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "old"


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "new"


@pytest.fixture
def uid(source: Path) -> str:
    return make_home(source)


def moved(source: Path, to: Path, *, symlink: bool = False) -> MovedHome:
    return move_home(source, to, current=source, symlink=symlink)


def without_strangers(found: dict[str, object]) -> dict[str, object]:
    return {name: each for name, each in found.items() if name not in (STRANGER, "listeners.json.77")}


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture(params=[True, False], ids=["one disk", "two disks"])
def one_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(Path, "hardlink_to", refused)
    return bool(request.param)


def refused(*_: object) -> None:
    raise OSError(18, "Invalid cross-device link")


# all of it ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uid", "one_disk")
def test_all_that_is_ours_is_there_with_modes_and_times_and_what_is_not_stays(source: Path, to: Path) -> None:
    before = held(source)

    done = moved(source, to)

    assert held(to) == without_strangers(before)
    assert before["verified"] == [] and before["queued"] == [(QUEUED, "later")]
    assert names(source) == [MOVED_TO, STRANGER]
    assert (done.left, done.skipped) == ([STRANGER], [])
    assert [to.stat().st_mode & 0o777, (to / "store.db").stat().st_mode & 0o777] == [0o700, 0o600]


@pytest.mark.usefixtures("uid", "one_disk")
def test_what_names_the_home_store_names_it_where_it_is_now(source: Path, to: Path) -> None:
    moved(source, to)

    run = Spool(to / SPOOLS / TURN).run
    assert run is not None
    assert run.store == str(to / "store.db")
    assert run.store_file is None
    (note,) = (to / "compactions").glob("*.continue")
    assert msgspec.json.decode(note.read_bytes())["store"] == str(to / "store.db")


def test_a_run_of_a_projects_store_still_names_it(source: Path, to: Path, uid: str) -> None:
    run = Spool(source / SPOOLS / TURN).run
    assert run is not None
    theirs = msgspec.structs.replace(run, store="/project/.backstory/sessions.bks")
    write(source, f"{SPOOLS}/{TURN}/run.json", msgspec.json.encode(theirs))

    moved(source, to)

    assert Spool(to / SPOOLS / TURN).run == theirs


@pytest.mark.usefixtures("uid")
def test_what_was_in_the_wal_only_comes_along(source: Path, to: Path) -> None:
    pid = os.fork()
    if pid == 0:
        with open_store(source / "store.db", shared=True) as store:
            store.append_events(store.session("kept"), [UserMessage(content="only in the WAL")])
            # It dies with its connections open, so nobody has moved the pages to the file.
            os._exit(0)
    os.waitpid(pid, 0)
    assert (source / "store.db-wal").stat().st_size > 0

    moved(source, to)

    with open_store(to / "store.db") as store:
        assert store.ask(events.count, store.session("kept").id) == 2
    assert not (source / "store.db-wal").exists()


@pytest.mark.usefixtures("uid")
def test_a_link_is_moved_as_a_link_that_leads_where_it_led(source: Path, to: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (source / "config.toml").rename(tmp_path / "dotfiles" / "config.toml")
    (source / "config.toml").symlink_to("../dotfiles/config.toml")

    moved(source, to)

    assert (to / "config.toml").resolve() == tmp_path / "dotfiles" / "config.toml"
    assert not os.path.lexists(source / "config.toml")


@pytest.mark.usefixtures("uid")
def test_it_can_be_moved_back(source: Path, to: Path) -> None:
    before = held(source)
    moved(source, to)

    moved(to, source)

    check_home(source)
    assert held(source) == {name: each for name, each in before.items() if name != "listeners.json.77"}
    with pytest.raises(HomeWasMoved):
        check_home(to)


@pytest.mark.usefixtures("uid")
def test_once_more_changes_nothing(source: Path, to: Path) -> None:
    moved(source, to)
    before = held(to)

    again = moved(source, to)

    assert (again.moved, held(to)) == ([], before)


# the old place --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uid")
def test_no_store_begins_in_the_old_place(source: Path, to: Path) -> None:
    moved(source, to)

    with pytest.raises(HomeWasMoved, match=f"set BACKSTORY_HOME={to}"):
        check_home(source)
    with pytest.raises(HomeWasMoved), open_store(source / "store.db", shared=True) as store:
        store.create_session("empty")
    with pytest.raises(HomeWasMoved):
        SessionLock(source / LOCKS, "01A").take()
    assert not (source / "store.db").exists()


@pytest.mark.usefixtures("uid")
def test_a_link_in_the_old_place_has_it_work_as_before(source: Path, to: Path) -> None:
    (source / STRANGER).unlink()

    done = moved(source, to, symlink=True)

    assert done.is_link
    assert source.is_symlink() and source.resolve() == to
    check_home(source)
    assert names(source.parent) == ["new", "old"]
    assert moved(source, to, symlink=True).is_link


@pytest.mark.usefixtures("uid")
def test_a_system_that_cannot_exchange_paths_gets_the_link_in_two_steps(
    source: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / STRANGER).unlink()
    monkeypatch.setattr(link, "renamed", lambda one, other, way: False)
    rename = Path.rename

    def killed_between(path: Path, target: Path) -> Path:
        if path == source.with_name(".old.link"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed_between)
    with pytest.raises(KeyboardInterrupt):
        moved(source, to, symlink=True)
    assert not source.exists()
    monkeypatch.setattr(Path, "rename", rename)

    assert moved(source, to, symlink=True).is_link

    assert source.resolve() == to
    assert names(source.parent) == ["new", "old"]


@pytest.mark.usefixtures("uid")
def test_no_link_takes_the_place_of_a_folder_in_which_something_stays(source: Path, to: Path) -> None:
    before = held(source)

    with pytest.raises(HomeNotMoved, match=STRANGER):
        moved(source, to, symlink=True)

    assert (held(source), to.exists()) == (before, False)


# killed ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("same", "symlink"), [(True, True), (False, False)], ids=["linked", "two disks"])
def test_killed_at_any_step_nothing_is_lost_or_doubled(tmp_path: Path, same: bool, symlink: bool) -> None:
    for step in steps(STEPS_MAX, every=8, first=4 * same):
        source, to = tmp_path / f"old{step}", tmp_path / f"new{step}"
        make_home(source)
        if symlink:
            (source / STRANGER).unlink()
        before = held(source)

        was_killed = killed_at(step, lambda: moved(source, to, symlink=symlink), one_disk=same)  # noqa: B023

        if was_killed:
            is_there = usable(source) or usable(to)
            assert is_there or refuses(source), step
            if usable(source) and not source.is_symlink():
                assert held(source) == before, step
            moved(source, to, symlink=symlink)
        assert held(to) == without_strangers(before), step
        assert not os.path.lexists(to / MOVED_FROM)
        assert names(source) == (names(to) if symlink else [MOVED_TO, STRANGER]), step
        assert [each for each in names(tmp_path) if each not in (source.name, to.name)] == [], step
        if not was_killed:
            return
        discard(source, to)
    raise AssertionError("it never came to its end")


def usable(home: Path) -> bool:
    """Whether a command would work in a home, and find the store there."""
    try:
        check_home(home)
    except (HomeWasMoved, HomeNotWhole):
        return False
    return (home / "store.db").exists()


def refuses(home: Path) -> bool:
    try:
        check_home(home)
    except HomeWasMoved:
        return True
    return False


def discard(*folders: Path) -> None:
    for folder in folders:
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)


def test_what_was_done_between_a_kill_and_the_next_try_comes_along(source: Path, to: Path, uid: str) -> None:
    # The last step before the mark says that it is over.
    last = bisect_left(range(STEPS_MAX), True, lo=1, key=lambda step: is_over_after(source.parent / f"{step}", step))
    assert killed_at(last - 1, lambda: moved(source, to), one_disk=False)
    assert (to / "store.db").exists() and usable(source)

    with open_store(source / "store.db", shared=True) as store:
        store.append_events(store.session(uid), [UserMessage(content="meanwhile")])
    (source / "unsent" / "01A-01B.txt").unlink()
    write(source, "projects/02STORE", b"/other")
    before = held(source)
    moved(source, to)

    assert held(to) == without_strangers(before)
    assert before["sessions"] == [("kept", 2)]
    assert "unsent/01A-01B.txt" not in held(to)


def is_over_after(folder: Path, step: int) -> bool:
    make_home(folder)
    killed_at(step, lambda: moved(folder, folder.with_name(f"{folder.name}-to")), one_disk=False)
    return refuses(folder)


@pytest.mark.usefixtures("uid")
def test_an_unfinished_target_is_no_home_and_the_old_one_still_is(source: Path, to: Path) -> None:
    assert killed_at(60, lambda: moved(source, to))

    check_home(source)
    with pytest.raises(HomeNotWhole, match="backstory migrate-home"):
        check_home(to)
    with pytest.raises(HomeNotWhole):
        moved(make_other(source), to)


def make_other(source: Path) -> Path:
    other = source.with_name("third")
    make_home(other)
    return other


# refused, and nothing was changed -------------------------------------------------------------------------------


def a_lock(home: Path, uid: str) -> Callable[[], object]:
    lock = SessionLock(home / LOCKS, uid)
    assert lock.take()
    return lock.release


def a_summary(home: Path, uid: str) -> Callable[[], object]:
    lock = lock_of(home, uid)
    assert lock.take()
    return lock.release


def a_run(home: Path, uid: str) -> Callable[[], object]:
    stdout = (home / SPOOLS / TURN / "stdout").open("ab")
    fcntl.flock(stdout, fcntl.LOCK_EX)
    return stdout.close


def an_ingest(home: Path, uid: str) -> Callable[[], object]:
    lock = ingest_lock(home)
    assert lock.__enter__()
    return lambda: lock.__exit__(None, None, None)


def a_watch(home: Path, uid: str) -> Callable[[], object]:
    first, second = watch_lock(home / LOCKS), watch_lock(home / LOCKS)
    first.__enter__()
    second.__enter__()
    # One of two that watch is over; the other one still does.
    first.__exit__(None, None, None)
    return lambda: second.__exit__(None, None, None)


def a_reader(home: Path, uid: str) -> Callable[[], object]:
    store = open_store(home / "store.db", shared=True)
    store.session(uid)
    return store.close


@pytest.mark.parametrize(
    ("begin", "named"),
    [(a_lock, "Session 01"), (a_summary, "is being summarised"), (a_run, "A run of session 01"), (an_ingest, "imports"),
     (a_watch, "--watch"), (a_reader, "has its store open")],
)  # fmt: skip
def test_it_is_refused_while_something_works_there(
    source: Path, to: Path, uid: str, begin: Callable[[Path, str], Callable[[], object]], named: str
) -> None:
    before = held(source)
    end = begin(source, uid)

    with pytest.raises(HomeInUse, match=named):
        moved(source, to)

    end()
    check_home(source)
    assert not to.exists()
    assert {**held(source), **dict.fromkeys(("locks", "locks/watching"))}.keys() >= before.keys()
    moved(source, to)
    assert held(to)["sessions"] == before["sessions"]


@pytest.mark.usefixtures("uid")
def test_nobody_begins_anything_there_meanwhile(source: Path, to: Path) -> None:
    moving = Moving(source, to)
    moving.begin()

    for begin in (
        lambda: check_home(source),
        lambda: SessionLock(source / LOCKS, "01A").take(),
        lambda: watch_lock(source / LOCKS).__enter__(),
        lambda: open_store(source / "store.db", shared=True).create_session("x"),
    ):
        with pytest.raises(HomeIsMoving):
            begin()

    moving.close()
    check_home(source)


@pytest.mark.usefixtures("uid")
@pytest.mark.parametrize("where", ["old", "old/below", "link", "link/below", "."])
def test_a_target_that_is_the_source_or_lies_in_it_is_refused(source: Path, where: str) -> None:
    (source.parent / "link").symlink_to(source)
    before = held(source)

    with pytest.raises(HomeNotMoved):
        moved(source, source.parent / where)

    assert held(source) == before


@pytest.mark.usefixtures("uid")
def test_two_stores_do_not_become_one(source: Path, to: Path) -> None:
    make_home(to)
    before = held(source), held(to)

    with pytest.raises(HomeHasStore) as refused:
        moved(source, to)

    assert (held(source), held(to)) == before
    check_home(source)
    check_home(to)
    assert "backstory merge" in str(refused.value.below[0])


@pytest.mark.usefixtures("uid", "one_disk")
def test_what_is_there_already_is_skipped_and_stays_on_both_sides(source: Path, to: Path) -> None:
    write(to, "config.toml", b"theirs")
    write(to, "projects/01STORE", b"theirs")
    write(to, "prices.toml", b"")

    done = moved(source, to)

    assert done.skipped == ["config.toml", "projects/01STORE"]
    assert [(to / each).read_bytes() for each in done.skipped] == [b"theirs", b"theirs"]
    assert (source / "config.toml").read_bytes() == b"[list]\nlimit = 7\n"
    # What is the same on both sides is not kept twice.
    assert names(source) == ["config.toml", MOVED_TO, STRANGER, "projects"]


@pytest.mark.usefixtures("uid")
def test_a_copy_that_reads_back_differently_moves_nothing(
    source: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = held(source)
    monkeypatch.setattr(Path, "hardlink_to", refused)
    copied = home_move._write_copy

    def bending(read: Path, written: Path) -> None:
        copied(read, written)
        with written.open("r+b") as file:
            file.write(b"?")

    monkeypatch.setattr(home_move, "_write_copy", bending)

    with pytest.raises(HomeCopyDiffers):
        moved(source, to)

    assert (held(source), to.exists()) == (before, False)
    check_home(source)


@pytest.mark.usefixtures("uid")
def test_a_damaged_store_is_not_moved(source: Path, to: Path) -> None:
    with open_store(source / "store.db", shared=True) as store:
        store.optimize(0)
    with (source / "store.db").open("r+b") as file:
        file.seek(-8192 * 2, os.SEEK_END)
        file.write(b"\xff" * 8192)

    with pytest.raises(HomeCopyDiffers):
        moved(source, to)

    assert not to.exists()
    assert (source / "store.db").exists()


@pytest.mark.usefixtures("uid")
@pytest.mark.parametrize("megabytes", [1, 16])
def test_a_full_disk_leaves_the_old_home_in_use(source: Path, to: Path, megabytes: int) -> None:
    before = held(source)
    to.mkdir(mode=0o700)

    with small_disk(to, megabytes):
        with pytest.raises(DiskFull):
            moved(source, to)
        assert names(to) == []

    assert held(source) == before
    check_home(source)


@pytest.mark.usefixtures("uid")
def test_a_disk_that_fills_up_meanwhile_leaves_the_old_home_in_use(
    source: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = held(source)
    to.mkdir(mode=0o700)
    monkeypatch.setattr(home_move, "SPACE_LEFT_BYTES", -(1 << 30))
    write(source, "drafts/tmp1/big", bytes(3 << 20))
    before = held(source)

    with small_disk(to, 2):
        with pytest.raises(DiskFull):
            moved(source, to)
        assert names(to) == []

    assert held(source) == before


@pytest.mark.usefixtures("uid")
def test_another_disk_gets_all_of_it(source: Path, to: Path) -> None:
    before = held(source)
    to.mkdir(mode=0o700)

    with small_disk(to, 64):
        moved(source, to)
        assert held(to) == without_strangers(before)


def test_a_folder_that_is_no_home_is_not_moved(tmp_path: Path, to: Path) -> None:
    project = tmp_path / "project"
    write(project, "config.toml", b"a project's own")
    write(project, "locks/x", b"")

    for folder in (project, tmp_path / "nothing"):
        with pytest.raises(HomeNotFound):
            move_home(folder, to, current=tmp_path / "home")
    write(project, "store.db", b"somebody's database")
    with pytest.raises(NotAStore):
        move_home(project, to, current=tmp_path / "home")

    assert (project / "config.toml").exists()
    assert not to.exists()


def test_settings_alone_are_a_home_where_it_is_the_one_in_use(source: Path, to: Path) -> None:
    write(source, "config.toml", b"")

    moved(source, to)

    assert names(to) == ["config.toml"]


@pytest.mark.usefixtures("uid")
def test_a_home_that_may_not_be_marked_leaves_no_mark_in_the_target(
    source: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Moving, "begin", read_only)

    with pytest.raises(CannotWrite):
        moved(source, to)

    assert not to.exists()
    check_home(source)


def read_only(moving: Moving) -> None:
    raise CannotWrite(Path("moved-to"), "Permission denied")


@pytest.mark.usefixtures("uid")
def test_a_file_is_no_target(source: Path, to: Path) -> None:
    to.write_bytes(b"")

    with pytest.raises(HomeNotMoved, match="is a file"):
        moved(source, to)


@pytest.mark.usefixtures("uid")
def test_a_folder_of_another_user_is_no_target(source: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to.mkdir()
    others = os.geteuid() + 1
    stat = Path.stat

    class Theirs:
        def __init__(self, status: os.stat_result) -> None:
            self._status = status

        def __getattr__(self, name: str) -> object:
            return others if name == "st_uid" else getattr(self._status, name)

    monkeypatch.setattr(
        Path, "stat", lambda path, **how: Theirs(stat(path, **how)) if path == to else stat(path, **how)
    )
    with pytest.raises(HomeOfOther):
        moved(source, to)


@pytest.mark.usefixtures("uid")
def test_nothing_more_is_moved_to_a_disk_that_is_not_mounted(source: Path, to: Path) -> None:
    write(to, "config.toml", b"theirs")
    moved(source, to)
    shutil.rmtree(to)

    for there in (False, True):
        if there:
            to.mkdir()
        with pytest.raises(HomeNotFound):
            moved(source, to)

    assert names(source) == ["config.toml", MOVED_TO, STRANGER]


@pytest.mark.usefixtures("uid")
def test_the_home_of_a_move_elsewhere_is_not_moved_again(source: Path, to: Path) -> None:
    moved(source, to)

    with pytest.raises(HomeWasMoved):
        moved(source, to.with_name("third"))


@pytest.mark.usefixtures("uid")
def test_every_kind_of_file_that_the_tests_make_is_known(source: Path) -> None:
    (source / STRANGER).unlink()
    assert home_files.files_of(source).strangers == []


def test_every_name_that_is_joined_to_a_home_anywhere_is_known() -> None:
    named = set[str]()
    for path in SOURCE.rglob("*.py"):
        if "agents" in path.parts:
            # There home is the person's.
            continue
        module = ".".join(("backstory", *path.relative_to(SOURCE).with_suffix("").parts))
        for name in re.findall(r"(?:\b|_)home / (?:\w+\.)*([A-Z][A-Z_]+)\b", path.read_text("utf-8")):
            found = getattr(importlib.import_module(module), name, None)
            named |= {found} if isinstance(found, str) else set()

    marks = {MOVED_TO, MOVED_FROM}
    assert {"projects", "spool", "locks", "store.db", "config.toml"} <= named
    assert named <= {*home_files.FILES, *home_files.FOLDERS, *marks}
