"""A backup ends, whoever writes beside it, and is whole or not there."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory import errors
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from backstory.store.file import backup
from tests.support.leftovers import leftovers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

SECRET = "qzxwvkjheron"
LARGE = 12 * 1024 * 1024
"""More than was once copied in one step."""


@pytest.fixture
def large(store_path: Path, clock: Clock) -> Path:
    """A store of the machine's own kind, that is not quickly copied."""
    with open_store(store_path, shared=True, now=clock) as store:
        session = store.create_session("kept")
        store.append_events(session, [UserMessage(content="hello"), AssistantText(text="hi")])
    db = apsw.Connection(str(store_path))
    db.execute("create table ballast(data)")
    for _ in range(LARGE // 100_000):
        db.execute("insert into ballast values (randomblob(100000))")
    db.close()
    return store_path


class Writer(threading.Thread):
    """Commits as fast as it can."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._ending = path, threading.Event()
        self.has_begun = threading.Event()

    def run(self) -> None:
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(60_000)
        while not self._ending.is_set():
            db.execute("update ballast set data = randomblob(100000) where rowid = 1 + abs(random()) % 50")
            self.has_begun.set()
        db.close()

    def end(self) -> None:
        self._ending.set()
        self.join()


def test_it_ends_beside_one_who_commits_all_the_time(large: Path, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "copy.db"
    writer = Writer(large)
    writer.start()
    try:
        assert writer.has_begun.wait(60)
        # In a process of its own, so that one that never ends can be ended.
        code = (
            "from pathlib import Path; from backstory.store import open_store\n"
            f"open_store({str(large)!r}).backup(Path({str(target)!r}))"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    finally:
        writer.end()
    with open_store(target) as copy:
        assert copy.verify().problems == []
        assert copy.session("kept").events == 2


def test_it_ends_in_a_folder_that_cannot_be_written_with_a_wal_beside(large: Path, tmp_path: Path) -> None:
    writer = apsw.Connection(str(large))
    writer.wal_autocheckpoint(0)
    writer.execute("update sessions set name = 'in the wal'")
    # A copy as a snapshot of a disk is: of all files, at one moment.
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    for each in sorted(large.parent.iterdir()):
        (frozen / each.name).write_bytes(each.read_bytes())
    writer.close()
    assert (frozen / f"{large.name}-wal").stat().st_size
    done = run_in_frozen(frozen, large.name, tmp_path / "copy.db")
    assert done.returncode == 0, done.stderr
    with open_store(tmp_path / "copy.db") as copy:
        assert copy.verify().problems == []
        assert copy.session("in the wal").events == 2


def run_in_frozen(folder: Path, name: str, target: Path) -> subprocess.CompletedProcess[str]:
    """A backup as a user whom the folder's permissions bind: root may write anywhere."""
    for each in folder.iterdir():
        each.chmod(0o444)
    folder.chmod(0o555)
    code = (
        "import os; from pathlib import Path; from backstory.store import open_store\n"
        f"target = Path({str(target)!r})\n"
        "real = os.access\n"
        f"os.access = lambda path, how, **more: str({str(folder)!r}) not in str(path) and real(path, how, **more)\n"
        f"open_store({str(folder / name)!r}).backup(target)\n"
    )
    try:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    finally:
        folder.chmod(0o755)


def test_one_that_is_killed_leaves_nothing_that_looks_whole(large: Path, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "copy.db"
    code = (
        "import os, signal; from pathlib import Path\n"
        "from backstory.store import open_store; from backstory.store.file import backup\n"
        "backup.sync = lambda path: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"open_store({str(large)!r}).backup(Path({str(target)!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert done.returncode == -signal.SIGKILL
    (part,) = target.parent.iterdir()
    assert part.suffix == ".part"
    with open_store(large) as store:
        store.backup(target)
    with open_store(target) as copy:
        assert copy.verify().problems == []


def test_one_that_is_interrupted_leaves_nothing(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "copies" / "copy.db"
    monkeypatch.setattr(backup, "sync", lambda path: signal.raise_signal(signal.SIGINT))
    with open_store(large) as store, pytest.raises(KeyboardInterrupt):
        store.backup(target)
    assert list(target.parent.iterdir()) == []


def test_a_file_that_comes_meanwhile_is_not_overwritten(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.db"
    monkeypatch.setattr(backup, "sync", lambda path: target.write_text("precious"))
    with open_store(large) as store, pytest.raises(errors.FileInTheWay):
        store.backup(target)
    assert target.read_text() == "precious"


def test_a_link_in_the_way_is_not_followed(large: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.symlink_to(tmp_path / "elsewhere")
    with open_store(large) as store, pytest.raises(errors.FileInTheWay):
        store.backup(target)
    assert not (tmp_path / "elsewhere").exists()


def test_only_its_owner_can_read_it(large: Path, tmp_path: Path) -> None:
    with open_store(large) as store:
        store.backup(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


def test_nothing_that_was_removed_is_in_it(store_path: Path, clock: Clock, tmp_path: Path) -> None:
    with open_store(store_path, shared=True, now=clock) as store:
        store.create_session("kept")
        doomed = store.create_session(SECRET)
        store.append_events(doomed, [UserMessage(content=SECRET), AssistantText(text=f"noted {SECRET}")])
        store.remove(doomed)
        store.backup(tmp_path / "copies" / "copy.db")
    assert leftovers(tmp_path / "copies", SECRET) == set()


def test_what_a_store_of_an_earlier_version_has_in_free_pages_is_not_in_it(
    store_path: Path, clock: Clock, tmp_path: Path
) -> None:
    with open_store(store_path, now=clock) as store:
        store.create_session("kept")
        db = apsw.Connection(str(store_path))
        db.execute("create table words(word)")
        for _ in range(100):
            db.execute("insert into words values (?)", (SECRET * 100,))
        db.execute("delete from words")
        db.close()
        assert leftovers(store_path.parent, SECRET)
        store.backup(tmp_path / "copies" / "copy.db")
    assert leftovers(tmp_path / "copies", SECRET) == set()
