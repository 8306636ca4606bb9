"""A writer that is killed at any moment loses nothing that it was told is stored."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

import pytest

from backstory.model import UserMessage
from backstory.store import Store, open_store
from backstory.store.tables import logs, sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLS = 25
ACKNOWLEDGED_MAX = 12
BATCH = 3
SPIN_S_MAX = 0.004

# One process imports everything once; for each line it is given it forks a writer, and reaps it.
NURSERY = """
import os, sys
from pathlib import Path
from backstory.model import UserMessage
from backstory.store import open_store

def tell(*words):
    # One write, so that a kill leaves no half of a line.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

for line in sys.stdin:
    path, shared, name = line.rstrip().split("\\t")
    child = os.fork()
    if child:
        tell("writer", child)
        _, status = os.waitpid(child, 0)
        tell("gone", os.waitstatus_to_exitcode(status))
        continue
    store = open_store(Path(path), shared=shared == "True")
    session = store.session(1) if store.exists and store.uids() else store.create_session()
    tell("begun")
    for n in range(1_000_000):
        store.append_events(session, [UserMessage(content=f"{name} {n} {part}") for part in range(BATCH)])
        tell("acknowledged", n)
"""


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY.replace("BATCH", str(BATCH))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def killed_writer(process: subprocess.Popen[str], path: Path, shared: bool, name: str, chance: random.Random) -> int:
    """Let a writer write until it is killed; gives how many batches were acknowledged."""
    stdin, stdout = pipes(process)
    stdin.write(f"{path}\t{shared}\t{name}\n")
    stdin.flush()
    wanted = chance.randrange(ACKNOWLEDGED_MAX)
    told = [stdout.readline()]
    while not told[-1].startswith("writer"):
        told.append(stdout.readline())
    pid = int(told[-1].split()[1])
    # Some are killed before they have begun, some between two answers, some within a transaction.
    while len(told) < wanted and not told[-1].startswith("gone"):
        told.append(stdout.readline())
    until = time.perf_counter() + chance.random() * SPIN_S_MAX
    while time.perf_counter() < until:
        pass
    os.kill(pid, signal.SIGKILL)
    while not told[-1].startswith("gone"):
        told.append(stdout.readline())
    assert told[-1] == f"gone {-signal.SIGKILL}\n", told
    return sum(each.startswith("acknowledged") for each in told)


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def batches(store: Store, name: str) -> list[list[str]]:
    """What the store holds of one writer, a batch each."""
    texts = [each.event.content for each in store.events(1) if isinstance(each.event, UserMessage)]
    texts = [text for text in texts if text.split()[0] == name]
    return [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("fresh", [False, True], ids=["growing", "beginning"])
@pytest.mark.parametrize("shared", [False, True], ids=["project", "home"])
def test_a_killed_writer_loses_nothing_and_tears_nothing(
    nursery: subprocess.Popen[str], tmp_path: Path, shared: bool, fresh: bool
) -> None:
    chance = random.Random(f"{shared} {fresh}")
    seen = 0
    for n in range(KILLS):
        path = tmp_path / (f"{n}.bks" if fresh else "store.bks")
        acknowledged = killed_writer(nursery, path, shared, f"w{n}", chance)
        with open_store(path, shared=shared) as store:
            store.ask_or({}, logs.file_stamps)
            if not store.exists:
                assert acknowledged == 0
                continue
            found = batches(store, f"w{n}") if store.ask(sessions.count) else []
            # The last one may have been stored without its answer.
            assert len(found) in (acknowledged, acknowledged + 1)
            assert found == [[f"w{n} {batch} {part}" for part in range(BATCH)] for batch in range(len(found))]
            if store.ask(sessions.count):
                numbers = [each.seq for each in store.events(1)]
                assert numbers == list(range(1, len(numbers) + 1))
            assert store.verify().problems == []
        seen += len(found)
    assert seen > KILLS


def test_a_first_transaction_that_was_cut_off_leaves_no_store(tmp_path: Path) -> None:
    """A hot journal of an empty file, as a kill between writing the file and its commit leaves it."""
    path = tmp_path / "s.bks"
    code = (
        "import os, signal, sys\n"
        "from backstory.store import open_store\n"
        "from backstory.store.file import migrate\n"
        "begin = migrate.begin\n"
        "def cut(db, *about):\n"
        "    begin(db, *about)\n"
        "    db.cache_flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "migrate.begin = cut\n"
        "open_store(sys.argv[1]).create_session()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with open_store(tmp_path / "whole.bks") as whole:
        whole.create_session()
    # All its pages are written, and the journal that undoes them is still there.
    path.write_bytes((tmp_path / "whole.bks").read_bytes())
    with open_store(path) as store:
        assert not store.exists
        assert store.create_session().number == 1
        assert store.exists
