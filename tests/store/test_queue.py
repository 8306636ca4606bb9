"""The queue beside a store: texts in the order they were left, and who says to run a session."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import apsw
import pytest

from backstory.errors import QueueReadOnly, QueueUnusable, StoreTooNew
from backstory.store.queue import STALE_MS, Kind, Options, Owner, Queue, Text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_800_000_000_000
HERE = Owner(session_uid="S", pid=41, host="here", started=NOW, heartbeat=NOW)
WRITERS = 8


def text(uid: str, *, session: str = "S", kind: Kind = Kind.FOLLOWUP, content: str = "") -> Text:
    return Text(uid=uid, session_uid=session, kind=kind, content=content or f"text {uid}", queued=NOW)


def elsewhere(heartbeat: int) -> Owner:
    return Owner(session_uid="S", pid=7, host="there", started=NOW, heartbeat=heartbeat)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir(mode=0o700)
    return tmp_path / "folder" / "sessions.bks"


@pytest.fixture
def queue(store_path: Path) -> Iterator[Queue]:
    with Queue(store_path) as queue:
        yield queue


def uids(queue: Queue, session: str | None = "S") -> list[str]:
    return [each.uid for each in queue.texts(session)]


def test_texts_are_taken_in_the_order_they_were_left(queue: Queue) -> None:
    for uid in ("b", "c", "a"):
        queue.add([text(uid)])
    assert uids(queue) == ["b", "c", "a"]


def test_a_text_is_kept_as_it_was_typed_with_what_it_asks_for(queue: Queue) -> None:
    asked = Text(
        uid="a", session_uid="S", kind=Kind.STEER, content="läs\n\t'filen' \0 🐦", queued=NOW,
        options=Options(agent="x", model="y", permissions="all", cwd="/somewhere else"),
    )  # fmt: skip
    queue.add([asked])
    assert queue.texts() == [asked]


def test_it_says_how_many_of_the_session_wait_before(queue: Queue) -> None:
    queue.add([text("a", session="other")])
    assert [queue.add([text("b")]), queue.add([text("c"), text("d")]), queue.add([text("e")])] == [0, 1, 3]


def test_each_session_and_each_kind_is_told_apart(queue: Queue) -> None:
    queue.add([text("a"), text("b", session="other"), text("c", kind=Kind.STEER)])
    assert (uids(queue), uids(queue, "other"), uids(queue, None)) == (["a", "c"], ["b"], ["a", "b", "c"])
    assert [each.uid for each in queue.texts("S", Kind.STEER)] == ["c"]


def test_a_steer_that_becomes_a_followup_keeps_its_place(queue: Queue) -> None:
    queue.add([text("a", kind=Kind.STEER), text("b")])
    assert queue.make_followups(["a", "b"]) == 1
    assert [(each.uid, each.kind) for each in queue.texts("S")] == [("a", Kind.FOLLOWUP), ("b", Kind.FOLLOWUP)]


def test_looking_makes_no_file(queue: Queue, store_path: Path) -> None:
    assert (queue.texts(), queue.has("a"), queue.owner("S"), queue.has_changed()) == ([], False, None, False)
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
from backstory.store.queue import Kind, Queue, Text
for n in range(25):
    with Queue(Path(sys.argv[1])) as queue:
        uid = f"{sys.argv[2]}-{n:02}"
        queue.add([Text(uid=uid, session_uid="S", kind=Kind.FOLLOWUP, content=uid)])
        if n % 2:
            queue.remove([uid])
"""


def test_many_who_leave_and_take_at_once_lose_nothing_and_keep_their_order(queue: Queue, store_path: Path) -> None:
    started = [subprocess.Popen([sys.executable, "-c", WRITER, str(store_path), f"w{n}"]) for n in range(WRITERS)]
    assert [process.wait() for process in started] == [0] * WRITERS
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
    queue.own(Owner(session_uid="S", pid=os.getpid(), host="here", started=NOW, heartbeat=NOW))
    assert queue.own(HERE) is None


def test_giving_up_leaves_what_is_somebody_elses_by_now(queue: Queue) -> None:
    queue.own(HERE)
    other = Owner(session_uid="S", pid=42, host="here", started=NOW, heartbeat=NOW)
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
        queue.texts()
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
    assert queue.texts() == []
    queue.add([text("a")])
    assert uids(queue) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_may_not_be_written_is_said_so(queue: Queue) -> None:
    queue.path.parent.chmod(0o555)
    with pytest.raises(QueueReadOnly):
        queue.add([text("a")])
