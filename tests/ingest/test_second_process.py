"""The second process that reads along: whatever becomes of it, the store says the same."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory.ingest import ingest as ingest_module
from backstory.ingest import worker
from backstory.model import LogIdentity
from backstory.store import open_store
from backstory.store.tables.logs import FileStamp
from tests.support.clock import NOW
from tests.support.machines import SMALL, Machine, claude_line, claude_log, content, differences, lines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

STOPS_MIN = 20
BETWEEN_STOPS_S = 0.005
LOGS, RECORDS, SAID_BYTES = 12, 200, 2_000
PROGRAM = """
import io, os, sys
from backstory.ingest import worker as parsing
send, load = parsing._send, parsing.agents.load

def put(pipe, data):
    pipe.write(data)
    pipe.flush()

def framed(frame):
    out = io.BytesIO()
    send(out, frame)
    return out.getvalue()

def garbage_after_a_frame(pipe, frame):
    put(pipe, framed(frame) + b"not a frame, " * 90_000)

def one_byte_lost(pipe, frame):
    put(pipe, framed(frame)[:60] + framed(frame)[61:])

def one_byte_changed(pipe, frame):
    whole = bytearray(framed(frame))
    whole[len(whole) // 2] ^= 1
    put(pipe, bytes(whole))

def cut_short(pipe, frame):
    put(pipe, framed(frame) + framed(frame)[:-5])
    os._exit(0)

def too_long(pipe, frame):
    put(pipe, b"bksf" + b"\\xff" * 8 + framed(frame))

def another_shape(pipe, frame):
    send(pipe, b"\\x93\\x01\\x02\\x03")

def no_text(pipe, frame):
    send(pipe, b"\\x81\\xa5batch\\xa2\\xff\\xfe")

def ends_at_once(pipe, frame):
    os._exit(3)

def talks(name):
    print("hello", flush=True)
    return load(name)
"""
FAULTS = re.findall(r"def (\w+)\(pipe, frame\)", PROGRAM)
"""What may come out of the second process instead of its frames."""


@pytest.fixture
def always_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "WORKER_BYTES", 0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a machine's store has of its logs that one process reads."""
    alone = Machine(tmp_path_factory.mktemp("alone"))
    for name in SMALL:
        alone.put(name)
    alone.read()
    found = alone.content()
    alone.close()
    return found


@pytest.mark.usefixtures("always_two")
@pytest.mark.parametrize("sending", [f"parsing._send = {fault}" for fault in FAULTS] + ["parsing.agents.load = talks"])
def test_what_is_no_frame_of_the_second_process_is_read_by_the_first(
    sending: str, machine: Machine, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SMALL:
        machine.put(name)
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", f"{PROGRAM}{sending}\nparsing.serve()"))
    assert machine.read().errors == []
    assert differences(machine.content(), undisturbed) == []


def test_a_key_that_interrupts_both_processes_is_answered_by_the_first_alone(tmp_path: Path) -> None:
    # The terminal interrupts all that are in its foreground. The first one ends the second.
    lost = worker.Job(
        agent="claude", identity=LogIdentity(native_id="a"), session_uid="a", created=NOW, path=str(tmp_path / "none"),
        relpath="a", next_seq=1, first_hash=None,
        place=FileStamp(path="a", agent="claude", log_id=None, device=0, inode=0, size=0, mtime_ns=0),
    )  # fmt: skip
    with subprocess.Popen(
        worker.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as second:
        assert second.stdin is not None
        assert second.stdout is not None
        for _ in range(2):
            worker._send(second.stdin, msgspec.msgpack.encode(lost))
            assert worker._receive(second.stdout) is not None
            second.send_signal(signal.SIGINT)
        _, complaints = second.communicate()
    assert (second.returncode, complaints) == (0, b"")


@pytest.mark.slow
def test_an_ingest_that_is_stopped_and_continued_over_and_over_stores_the_same(
    machine: Machine, tmp_path: Path
) -> None:
    dice = random.Random(1)
    for n in range(LOGS):
        said = (claude_line("user", f"u{m}", dice.randbytes(SAID_BYTES).hex()) for m in range(RECORDS))
        machine.write(claude_log(f"log-{n}"), lines(*said))
    environ = {**os.environ, "HOME": str(machine.home), "PYTHONUNBUFFERED": "1", "BACKSTORY_HOME": str(tmp_path / "bh")}
    running = subprocess.Popen(
        [sys.executable, "-m", "backstory", "ingest", "--json"], env=environ, cwd=machine.home,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    stops = stopped_until_it_ends(running)
    _, complaints = running.communicate()
    assert (running.returncode, complaints) == (0, b"")
    assert stops >= STOPS_MIN
    machine.read()
    with open_store(tmp_path / "bh" / "store.db", now=lambda: NOW) as stored:
        assert differences(content(stored), machine.content()) == []


def stopped_until_it_ends(running: subprocess.Popen[Any]) -> int:
    """Stop and continue a process and those that it started, again and again until it ends; how often."""
    stops = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            running.wait(BETWEEN_STOPS_S)
            return stops
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.killpg(running.pid, number)
        stops += 1
