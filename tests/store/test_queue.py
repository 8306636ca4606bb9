"""The queue beside a store: texts in the order they were left, and who says to run a session."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.errors import CannotWrite, QueueBusy, QueueReadOnly, QueueUnusable, StoreTooNew
from backstory.store.file import connection, waiting
from backstory.store.tables.queue import STALE_MS, Options, Queue, QueuedKind, QueuedPrompt, QueueOwner

if TYPE_CHECKING:
    from collections.abc import Iterator


NOW = 1_800_000_000_000
HERE = QueueOwner(session_uid="S", pid=41, host="here", started=NOW, heartbeat=NOW)
WRITERS = 8
DEADLINE_S = 120


def text(uid: str, *, session: str = "S", kind: QueuedKind = QueuedKind.FOLLOWUP, content: str = "") -> QueuedPrompt:
    return QueuedPrompt(uid=uid, session_uid=session, kind=kind, content=content or f"text {uid}", queued=NOW)


def elsewhere(heartbeat: int) -> QueueOwner:
    return QueueOwner(session_uid="S", pid=7, host="there", started=NOW, heartbeat=heartbeat)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir(mode=0o700)
    return tmp_path / "folder" / "sessions.bks"


@pytest.fixture
def queue(store_path: Path) -> Iterator[Queue]:
    with Queue(store_path) as queue:
        yield queue


def uids(queue: Queue, session: str | None = "S") -> list[str]:
    return [each.uid for each in queue.prompts(session)]


def test_texts_are_taken_in_the_order_they_were_left(queue: Queue) -> None:
    for uid in ("b", "c", "a"):
        queue.add([text(uid)])
    assert uids(queue) == ["b", "c", "a"]


def test_a_text_is_kept_as_it_was_typed_with_what_it_asks_for(queue: Queue) -> None:
    asked = QueuedPrompt(
        uid="a", session_uid="S", kind=QueuedKind.STEER, content="läs\n\t'filen' \0 🐦", queued=NOW,
        options=Options(agent="x", model="y", permissions="all", cwd="/somewhere else"),
    )  # fmt: skip
    queue.add([asked])
    assert queue.prompts() == [asked]


def test_it_says_how_many_of_the_session_wait_before(queue: Queue) -> None:
    queue.add([text("a", session="other")])
    assert [queue.add([text("b")]), queue.add([text("c"), text("d")]), queue.add([text("e")])] == [0, 1, 3]


def test_each_session_and_each_kind_is_told_apart(queue: Queue) -> None:
    queue.add([text("a"), text("b", session="other"), text("c", kind=QueuedKind.STEER)])
    assert (uids(queue), uids(queue, "other"), uids(queue, None)) == (["a", "c"], ["b"], ["a", "b", "c"])
    assert [each.uid for each in queue.prompts("S", QueuedKind.STEER)] == ["c"]


def test_a_steer_that_becomes_a_followup_keeps_its_place(queue: Queue) -> None:
    queue.add([text("a", kind=QueuedKind.STEER), text("b")])
    assert queue.make_followups(["a", "b"]) == 1
    assert [(each.uid, each.kind) for each in queue.prompts("S")] == [
        ("a", QueuedKind.FOLLOWUP),
        ("b", QueuedKind.FOLLOWUP),
    ]


def test_looking_makes_no_file(queue: Queue, store_path: Path) -> None:
    assert (queue.prompts(), queue.has("a"), queue.owner("S"), queue.has_changed()) == ([], False, None, False)
    assert (queue.remove(["a"]), queue.make_followups(["a"])) == (0, 0)
    assert list(store_path.parent.iterdir()) == []


def test_only_its_owner_may_read_it(queue: Queue) -> None:
    queue.add([text("a")])
    assert queue.path.stat().st_mode & 0o777 == 0o600
    assert queue.path.name == "sessions.bks.queue.db"


def test_the_file_goes_with_the_last_text(queue: Queue) -> None:
    queue.add([text("a"), text("b")])
    queue.remove(["a"])
    assert queue.path.exists()
    queue.remove(["b"])
    assert list(queue.path.parent.iterdir()) == []


def test_the_file_stays_while_a_session_is_run(queue: Queue) -> None:
    queue.own(HERE)
    queue.add([text("a")])
    queue.remove(["a"])
    assert queue.path.exists()
    queue.disown(HERE)
    assert list(queue.path.parent.iterdir()) == []


def test_a_text_is_not_left_in_a_file_that_was_just_removed(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    with Queue(store_path) as other:
        assert other.has("a")
        queue.remove(["a"])
        assert not store_path.with_name("sessions.bks.queue.db").exists()
        other.add([text("b")])
    assert uids(queue) == ["b"]


def test_the_file_that_is_removed_while_somebody_waits_for_it_takes_no_text_with_it(
    queue: Queue, store_path: Path
) -> None:
    queue.add([text("a")])
    db = apsw.Connection(str(queue.path))
    db.execute("begin exclusive")
    with Queue(store_path) as other, ThreadPoolExecutor(1) as pool:
        left = pool.submit(other.add, [text("b")])
        db.execute("delete from texts")
        queue.path.unlink()
        db.execute("rollback")
        db.close()
        left.result()
    assert uids(queue) == ["b"]


WRITER = """
import sys
from pathlib import Path
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt
for n in range(25):
    with Queue(Path(sys.argv[1])) as queue:
        uid = f"{sys.argv[2]}-{n:02}"
        queue.add([QueuedPrompt(uid=uid, session_uid="S", kind=QueuedKind.FOLLOWUP, content=uid)])
        if n % 2:
            queue.remove([uid])
"""


@pytest.mark.slow
def test_many_who_leave_and_take_at_once_lose_nothing_and_keep_their_order(queue: Queue, store_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", WRITER, str(store_path), f"w{n}"]) for n in range(WRITERS)]
    assert [process.wait(DEADLINE_S * 2) for process in started] == [0] * WRITERS
    left = uids(queue)
    assert sorted(left) == [f"w{n}-{m:02}" for n in range(WRITERS) for m in range(0, 25, 2)]
    for n in range(WRITERS):
        mine = [uid for uid in left if uid.startswith(f"w{n}-")]
        assert mine == sorted(mine)


def test_a_change_by_somebody_else_is_seen_once(queue: Queue, store_path: Path) -> None:
    with Queue(store_path) as other:
        other.add([text("a")])
        assert queue.has_changed()
        assert not queue.has_changed()
        other.add([text("b")])
        assert queue.has_changed()
        assert not queue.has_changed()


# others who use it at the same time -----------------------------------------------------------------------------------


@contextmanager
def beside(code: str, store_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs ``code`` about a queue; it has printed a line when the block begins."""
    prelude = (
        "import os, signal, sys, apsw\nfrom pathlib import Path\n"
        "from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt, path_beside\n"
        "store = Path(sys.argv[1])\n"
        "text = lambda uid: QueuedPrompt(uid=uid, session_uid='S', kind=QueuedKind.FOLLOWUP, content=uid)\n"
    )
    # A group of its own in our session: only so a key can stop it.
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + code, str(store_path)], stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


LOCKED = """
db = apsw.Connection(str(path_beside(store)))
db.execute("begin exclusive; delete from texts")
print("locked", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
"""Stops in the middle of a transaction."""


def test_who_waits_for_a_process_that_is_stopped_is_told_which_and_gives_up(
    queue: Queue, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.store.file.waiting.TOLD_S", 0.0)
    queue.add([text("a")])
    told: list[str] = []
    with beside(LOCKED, store_path) as holder, Queue(store_path, told.append, patience_s=0.3) as other:
        os.waitpid(holder.pid, os.WUNTRACED)
        with pytest.raises(QueueBusy, match=rf"by process {holder.pid} \(.*\), which is stopped\."):
            other.add([text("b")])
    assert [f"process {holder.pid}" in line for line in told] == [True]
    assert uids(queue) == ["a"]


def test_a_queue_is_waited_for_until_the_process_that_has_it_lets_go(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    with beside(LOCKED, store_path) as holder, ThreadPoolExecutor(1) as pool:
        os.waitpid(holder.pid, os.WUNTRACED)
        left = pool.submit(lambda: Queue(store_path).add([text("b")]))
        holder.kill()
        left.result(DEADLINE_S)
    assert uids(queue) == ["a", "b"]


def test_reading_waits_for_nobody_who_has_written_nothing_yet(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    db = apsw.Connection(str(queue.path))
    db.execute("begin exclusive")
    with Queue(store_path, patience_s=0.0) as other:
        assert (uids(other), other.has("a"), other.has_changed()) == (["a"], True, True)
    db.close()


def test_a_file_that_changed_while_it_was_copied_is_copied_again(
    queue: Queue, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.add([text("a")])
    whole, changed = waiting.copy_of, [True, False]
    monkeypatch.setattr(waiting, "copy_of", lambda db, path: None if changed.pop(0) else whole(db, path))
    db = apsw.Connection(str(queue.path))
    db.execute("begin exclusive")
    with Queue(store_path, patience_s=0.0) as other:
        assert [each.uid for each in other.prompts()] == ["a"]
    db.close()


READING = """
print("begins", flush=True)
with Queue(store) as queue:
    while True:
        queue.has_changed()
        queue.prompts()
"""


def test_a_reader_that_is_stopped_at_any_time_keeps_nobody_from_writing(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    with beside(READING, store_path) as reader, Queue(store_path, patience_s=0.5) as writer:
        for n in range(100):
            reader.send_signal(signal.SIGSTOP)
            os.waitpid(reader.pid, os.WUNTRACED)
            writer.own(elsewhere(NOW + n))
            reader.send_signal(signal.SIGCONT)
            # Let it come to another place.
            for _ in range(n % 10):
                writer.prompts()


PAIRS = """
with Queue(store) as queue:
    for n in range(1_000_000):
        pair = [text(f"{n}-{m}" + "x" * 5_000) for m in range(2)]
        queue.add(pair)
        print("added", flush=True) if n == 0 else None
        queue.remove([each.uid for each in pair])
"""


@pytest.mark.slow
def test_what_is_read_is_what_whole_transactions_left(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    seen = set[int]()
    with beside(PAIRS, store_path), Queue(store_path) as reader:
        while len(seen) < 2:
            seen.add(len(reader.prompts()))
        for _ in range(500):
            seen.add(len(reader.prompts()))
    assert seen == {1, 3}


CTRL_Z = """
print("begins", flush=True)
with Queue(store) as queue:
    queue._write(lambda db: os.kill(os.getpid(), signal.SIGTSTP))
"""


def test_ctrl_z_waits_for_the_end_of_a_transaction(queue: Queue, store_path: Path) -> None:
    queue.add([text("a")])
    with beside(CTRL_Z, store_path) as stopped, Queue(store_path, patience_s=0.0) as other:
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        other.add([text("b")])
    assert uids(queue) == ["a", "b"]


STORING = """
from backstory.store.file import connection
print("begins", flush=True)
db = connection.open_writer(store)
with connection.writing(db, store):
    os.kill(os.getpid(), signal.SIGTSTP)
    db.execute("insert into facts values (2)")
"""


def test_ctrl_z_waits_for_the_end_of_a_transaction_of_a_store(store_path: Path) -> None:
    db = connection.open_writer(store_path)
    with connection.writing(db, store_path, first=True):
        db.execute(f"pragma application_id = {connection.APPLICATION_ID}; create table facts(one)")
    with beside(STORING, store_path) as stopped:
        _, status = os.waitpid(stopped.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert db.execute("select one from facts").get == 2
        db.set_busy_timeout(0)
        db.execute("begin exclusive; rollback")


def test_an_interrupt_in_a_transaction_leaves_nothing_of_it(queue: Queue, store_path: Path) -> None:
    def interrupted(db: apsw.Connection) -> None:
        db.execute("delete from texts")
        raise KeyboardInterrupt

    queue.add([text("a")])
    with pytest.raises(KeyboardInterrupt):
        queue._write(interrupted)
    with Queue(store_path, patience_s=0.0) as other:
        other.add([text("b")])
    assert uids(queue) == ["a", "b"]


# owners -------------------------------------------------------------------------------------------------------------


def test_an_owner_of_another_host_that_was_heard_of_lately_stands_in_the_way(queue: Queue) -> None:
    queue.own(elsewhere(NOW - STALE_MS + 1))
    assert queue.own(HERE) == elsewhere(NOW - STALE_MS + 1)
    assert queue.owner("S") == elsewhere(NOW - STALE_MS + 1)


def test_an_owner_of_another_host_that_went_silent_does_not(queue: Queue) -> None:
    queue.own(elsewhere(NOW - STALE_MS))
    assert queue.own(HERE) is None
    assert queue.owner("S") == HERE


def test_a_heartbeat_from_far_in_the_future_is_a_clock_that_was_wrong(queue: Queue) -> None:
    queue.own(elsewhere(NOW + 3_600_000))
    assert queue.own(HERE) is None


def test_an_owner_of_this_host_never_stands_in_the_way(queue: Queue) -> None:
    """The lock decides among processes of one machine; a process id may be given again."""
    queue.own(QueueOwner(session_uid="S", pid=os.getpid(), host="here", started=NOW, heartbeat=NOW))
    assert queue.own(HERE) is None


def test_giving_up_leaves_what_is_somebody_elses_by_now(queue: Queue) -> None:
    queue.own(HERE)
    other = QueueOwner(session_uid="S", pid=42, host="here", started=NOW, heartbeat=NOW)
    queue.own(other)
    queue.disown(HERE)
    assert queue.owner("S") == other


# what else may lie there ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"garbage\n" * 1000, b"SQLite format 3\0" + b"\xff" * 4096], ids=["text", "torn"])
def test_a_file_of_garbage_is_left_as_it_is(queue: Queue, content: bytes) -> None:
    queue.path.write_bytes(content)
    with pytest.raises(QueueUnusable):
        queue.add([text("a")])
    with pytest.raises(QueueUnusable):
        queue.prompts()
    assert queue.path.read_bytes() == content


def test_another_programs_database_is_left_as_it_is(queue: Queue) -> None:
    db = apsw.Connection(str(queue.path))
    db.execute("create table texts(mine)")
    db.close()
    before = queue.path.read_bytes()
    with pytest.raises(QueueUnusable):
        queue.add([text("a")])
    assert queue.path.read_bytes() == before


def test_a_queue_of_a_later_version_is_left_as_it_is(queue: Queue) -> None:
    queue.add([text("a")])
    queue.close()
    db = apsw.Connection(str(queue.path))
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(StoreTooNew):
        queue.add([text("b")])


def test_an_empty_file_that_a_kill_left_is_begun(queue: Queue) -> None:
    queue.path.touch()
    assert queue.prompts() == []
    queue.add([text("a")])
    assert uids(queue) == ["a"]


@pytest.mark.parametrize("is_begun_anew", [False, True])
def test_a_file_that_is_removed_while_it_is_opened_is_not_taken_for_one_that_cannot_be_written(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, is_begun_anew: bool
) -> None:
    access, removed = os.access, list[int]()

    def removes_first(path: Path, mode: int) -> bool:
        if Path(path) == queue.path and not removed:
            removed.append(1)
            queue.path.unlink()
            told = access(path, mode)
            if is_begun_anew:
                queue.path.touch()
            return told
        return access(path, mode)

    queue.path.touch()
    monkeypatch.setattr(os, "access", removes_first)
    queue.add([text("a")])
    assert removed == [1]
    assert uids(queue) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_may_not_be_written_is_said_so(queue: Queue) -> None:
    queue.path.parent.chmod(0o555)
    with pytest.raises(QueueReadOnly):
        queue.add([text("a")])


@pytest.mark.parametrize("column", ["uid", "session_uid", "kind", "content", "options", "queued"])
def test_a_text_of_other_values_than_ours_is_no_queue(queue: Queue, column: str) -> None:
    queue.add([text("a")])
    with closing(apsw.Connection(str(queue.path))) as db:
        db.execute(f"update texts set {column} = x'ff00'")
    with pytest.raises(QueueUnusable):
        queue.prompts()


def test_an_owner_of_other_values_than_ours_is_no_queue(queue: Queue) -> None:
    queue.own(HERE)
    with closing(apsw.Connection(str(queue.path))) as db:
        db.execute("update owners set heartbeat = 'seven'")
    for asked in (queue.owners, partial(queue.owner, "S")):
        with pytest.raises(QueueUnusable):
            asked()


def test_a_queue_that_cannot_be_made_says_why(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "somewhere")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(CannotWrite, match=r"Input/output error") as told:
        queue.add([text("a")])
    assert "Errno" not in str(told.value)
