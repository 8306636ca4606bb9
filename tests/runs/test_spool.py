"""A run lives in its spool until a store has it: on the disk before its agent starts, and until the store is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import msgspec
import pytest

from backstory import agents, ids
from backstory.exchange import replication
from backstory.model import UserMessage
from backstory.runs import process
from backstory.runs.process import MARKER
from backstory.runs.runner import Request, Runner
from backstory.runs.spool import SPOOLS, Run, Spool
from backstory.runs.steering import word_line
from backstory.runs.stream import PIECE_BYTES
from backstory.store import open_store
from backstory.store.tables.queue import QueuedKind, QueuedPrompt
from tests.support.clock import NOW
from tests.support.power import laid_out, losing_power
from tests.support.running import run_alone
from tests.support.syncs import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Session, Store

pytestmark = pytest.mark.slow

AGENT = """#!/bin/sh
cat >/dev/null
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"answered"}]}}'
echo '{"type":"result","subtype":"success","duration_ms":5}'
"""
TURN = ids.new_uid(NOW, os.getpid().to_bytes(10, "big"))
"""Agents are known by it, also to tests that run at once in other processes."""
EACH_CUT = 9
"""A power cut comes after every so many changes of the disk, which were 233."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """BACKSTORY_HOME, with a folder for spools."""
    folder = tmp_path / "home"
    (folder / SPOOLS).mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """An agent's program that answers in one line."""
    program = tmp_path / "agent"
    program.write_text(AGENT)
    program.chmod(0o755)
    return program


def prompt_run(home: Path, home_store: Store, store: Store, agent: Path) -> None:
    """One prompt, run to its end."""
    runner = Runner(home, home_store, {"PATH": os.environ["PATH"]}, lambda: NOW)
    request = Request(agent="claude", prompt="go", cwd=home.parent, executable=str(agent), turn_uid=TURN)
    session = store.create_session(None, home.parent)
    finished = run_alone(runner, store, session, request)
    assert (finished.turn.outcome, finished.waits) == ("completed", None)


def test_a_run_is_on_the_disk_before_its_agent_starts(
    home: Path, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        open_store(tmp_path / "sessions.bks", now=lambda: NOW) as store,
        open_store(home / "store.db", shared=True, now=lambda: NOW) as home_store,
        in_order(home / SPOOLS, monkeypatch) as order,
    ):
        prompt_run(home, home_store, store, agent)
    before = order.steps[: order.steps.index(("start", str(agent)))]
    # A file first, then the folder that names it, then the folder that names that one.
    assert [each for each in before if each in (("sync", f"{TURN}/run.json"), ("sync", TURN), ("sync", "."))] == [
        ("sync", f"{TURN}/run.json"),
        ("sync", TURN),
        ("sync", "."),
    ]
    run = msgspec.json.decode(order.synced[f"{TURN}/run.json"], type=Run)
    assert (run.prompt, run.store) == ("go", str(tmp_path / "sessions.bks"))


@pytest.mark.parametrize("is_in_home", [False, True], ids=["project", "home"])
def test_a_spool_is_removed_when_the_store_that_owns_the_run_has_it_on_the_disk(
    home: Path, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_home: bool
) -> None:
    home_path = home / "store.db"
    owner = home_path if is_in_home else tmp_path / "sessions.bks"
    with losing_power(owner) as power, in_order(home / SPOOLS, monkeypatch) as order:
        left: list[dict[str, bytes]] = []
        order.at_removal = lambda: left.append(power.synced())
        home_store = open_store(home_path, shared=True, now=lambda: NOW)
        store = home_store if is_in_home else open_store(owner, now=lambda: NOW)
        prompt_run(home, home_store, store, agent)
        home_store.close()
        store.close()
    assert [each for each in order.steps if each[0] == "remove"] != []
    laid_out(left[0], tmp_path / "after")
    with open_store(tmp_path / "after" / owner.name, now=lambda: NOW) as after:
        assert [(turn.prompt, turn.outcome) for turn in after.turns(after.sessions()[0])] == [("go", "completed")]


def test_a_power_cut_while_the_home_store_takes_a_run_leaves_it_whole_and_the_run_is_copied_again(
    home: Path, agent: Path, tmp_path: Path
) -> None:
    home_path, owner = home / "store.db", tmp_path / "sessions.bks"
    with losing_power(home_path) as power:
        home_store, store = open_store(home_path, shared=True, now=lambda: NOW), open_store(owner, now=lambda: NOW)
        prompt_run(home, home_store, store, agent)
        home_store.close()
        store.close()
    lacked, images = 0, [image for _, image in power.cuts[::EACH_CUT]]
    for number, image in enumerate(images):
        laid_out(image, tmp_path / f"{number}")
        with open_store(tmp_path / f"{number}" / "store.db", shared=True, now=lambda: NOW) as after, store:
            lacked += not after.uids()
            replication.pull_sessions(after, store)
            assert after.verify().problems == []
            (session,) = after.sessions()
            assert [(turn.prompt, turn.outcome) for turn in after.turns(session)] == [("go", "completed")]
    assert 0 < lacked < len(images)


def test_a_spool_that_is_removed_by_half_still_says_whose_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spool_of(home)
    for each in (spool.stdout, spool.stderr):
        each.write_text("said")
    unlink = Path.unlink

    def cut_off(path: Path, missing_ok: bool = False) -> None:
        if path.name == "run.json":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", cut_off)
    with pytest.raises(KeyboardInterrupt):
        spool.remove()
    assert [each.name for each in spool.folder.iterdir()] == ["run.json"]
    assert spool.run is not None


# processes ----------------------------------------------------------------------------------------------------------


def test_a_spool_that_is_removed_while_somebody_looks_says_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(home / SPOOLS / "gone")
    # Its files were there when it was asked whether they are.
    monkeypatch.setattr(Path, "exists", lambda path: path.parent == spool.folder and path.name != "process.json")
    assert (spool.was_started, spool.last_word_ms(), spool.signs_of_work()) == (False, 0, [])


@pytest.fixture(params=["files", "elsewhere"])
def system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system with files about processes, and one without."""
    if request.param == "elsewhere":
        monkeypatch.setattr(process, "PROC", tmp_path / "proc")
    elif not process.PROC.exists():
        pytest.skip("a system without files about processes")
    return str(request.param)


@pytest.fixture
def living() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any run."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def spool_of(home: Path) -> Spool:
    run = Run(turn_uid=TURN, session_uid="S", store="s.bks", agent="claude", prompt="go", cwd="/w", started=NOW)
    return Spool.begin(home / SPOOLS, run, "go")


@pytest.mark.usefixtures("system")
def test_an_agent_is_known_by_its_process(home: Path, living: subprocess.Popen[bytes]) -> None:
    spool = spool_of(home)
    spool.note_process(living.pid)
    assert (spool.pid, spool.is_alive) == (living.pid, True)
    spool.kill()
    assert living.wait() != 0
    assert (spool.pid, spool.is_alive) == (None, False)


@pytest.mark.usefixtures("system")
def test_a_process_that_was_given_the_number_of_an_agent_that_is_over_is_not_taken_for_it(
    home: Path, living: subprocess.Popen[bytes]
) -> None:
    spool = spool_of(home)
    # Noted is a process that was born earlier, as an agent was whose number another process has today.
    spool.note_process(os.getpid())
    note = next(each for each in spool.folder.iterdir() if str(os.getpid()).encode() in each.read_bytes())
    note.write_bytes(note.read_bytes().replace(str(os.getpid()).encode(), str(living.pid).encode(), 1))
    assert (spool.pid, spool.is_alive) == (None, False)
    assert living.pid not in spool.family()
    spool.interrupt()
    spool.kill()
    assert living.poll() is None


@pytest.mark.usefixtures("system")
def test_two_processes_of_one_number_are_told_apart_by_when_they_began(living: subprocess.Popen[bytes]) -> None:
    born = process.birth(living.pid)
    assert born == process.birth(living.pid) != ""
    assert process.birth(os.getpid()) not in ("", born)
    living.kill()
    os.waitid(os.P_PID, living.pid, os.WEXITED | os.WNOWAIT)
    # Its parent has not asked for it yet, so the number is not given again; it is over all the same.
    assert process.birth(living.pid) == ""
    living.wait()
    assert process.birth(living.pid) == ""


@pytest.mark.usefixtures("system")
def test_a_runs_processes_are_found_by_their_mark_and_no_others(home: Path, living: subprocess.Popen[bytes]) -> None:
    spool = spool_of(home)
    child = subprocess.Popen(["sleep", "600"], env={MARKER: TURN}, start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], env={MARKER: f"{TURN}2"})
    try:
        assert spool.family() == [child.pid]
        spool.kill()
        assert child.wait() != 0
        assert (spool.family(), other.poll(), living.poll()) == ([], None, None)
    finally:
        for each in (child, other):
            each.kill()
            each.wait()


@pytest.mark.usefixtures("system")
def test_a_command_of_a_runs_own_agent_is_not_of_those_that_are_ended(home: Path) -> None:
    spool_of(home)
    code = f"from backstory.runs import process; print(process.of_run('{TURN}'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, MARKER: TURN}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.skipif(sys.platform == "darwin", reason="which does not say for what a file is open")
def test_who_has_an_output_open_for_writing_is_found_and_who_reads_it_is_not(home: Path) -> None:
    spool = spool_of(home)
    stdout, stderr = spool.open_output()
    os.close(stderr)
    with subprocess.Popen(["sleep", "600"], stdout=stdout) as writer, spool.stdout.open("rb") as reading:
        reader = subprocess.Popen(["sleep", "600"], stdin=reading)
        os.close(stdout)
        try:
            assert process.writers_of(spool.stdout) == [writer.pid]
        finally:
            for each in (reader, writer):
                each.kill()
                each.wait()


def test_a_process_that_works_gives_another_sign_each_time() -> None:
    asleep = subprocess.Popen(["sleep", "600"])
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert process.sign_of_work(busy.pid) != process.sign_of_work(busy.pid) is not None
        # It begins, and then does nothing more: the test would not end if each sign were another one.
        while process.sign_of_work(asleep.pid) != process.sign_of_work(asleep.pid):
            continue
    finally:
        for each in (asleep, busy):
            each.kill()
            each.wait()
    assert process.sign_of_work(busy.pid) is None


# home ---------------------------------------------------------------------------------------------------------------


def steered_run(spools: Path, store: Store, session: Session) -> Spool:
    """What is left of a long run that took up a word: three pieces, the word in the second, the last without output."""
    run = Run(
        turn_uid=TURN, session_uid=session.uid, store=str(store.path), agent="claude", prompt="go", cwd="/w",
        started=NOW,
    )  # fmt: skip
    spool = Spool.begin(spools, run, run.prompt)
    word = QueuedPrompt(uid="W", session_uid=session.uid, kind=QueuedKind.STEER, content="look left", queued=NOW)
    spool.note_word(word_line(word, TURN, NOW))
    said = json.dumps({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "x" * 9_000}]}})
    taken = {"type": "command_lifecycle", "command_uuid": word_of(word.uid), "state": "started"}
    begin = {"type": "system", "subtype": "init", "capabilities": ["msg_lifecycle_v1"]}
    with spool.stdout.open("w") as stdout:
        stdout.write(json.dumps(begin) + "\n" + f"{said}\n" * (PIECE_BYTES * 7 // 4 // len(said)))
        stdout.write(json.dumps(taken) + "\n" + f"{said}\n" * (PIECE_BYTES * 2 // 5 // len(said)))
        stdout.write(json.dumps({"type": "result", "subtype": "success", "duration_ms": 5}) + "\n")
    spool.stderr.write_text("a warning\n")
    return spool


def word_of(uid: str) -> str:
    steer = agents.load("claude").steer
    assert steer is not None
    return steer.message_id(uid)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "sessions.bks", now=lambda: NOW) as store:
        yield store


@pytest.fixture
def home_store(home: Path) -> Iterator[Store]:
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as store:
        yield store


@pytest.fixture
def spool(home: Path, home_store: Store, project: Store) -> Spool:
    """A run that is over and not stored yet, in a session that both stores know."""
    session = project.create_session()
    replication.copy_session(home_store, project, session.uid)
    return steered_run(home / SPOOLS, project, session)


@contextmanager
def trigger(store: Store, acts: str) -> Iterator[None]:
    """A store with a rule of its own."""
    with closing(apsw.Connection(str(store.path))) as db:
        db.execute(f"create trigger rule {acts}; end")
    yield
    with closing(apsw.Connection(str(store.path))) as db:
        db.execute("drop trigger rule")


def conversation(store: Store) -> tuple[list[object], dict[str, bytes]]:
    """All that was said in the only session of a store, and the bytes of its logs."""
    (session,) = store.sessions()
    logs = {log.kind: b"".join(store.stream_log(log.id)) for log in store.logs(session)}
    return [(each.seq, each.event) for each in store.events(session)], logs


def said(store: Store) -> list[str]:
    """What the person said in the only session of a store."""
    (session,) = store.sessions()
    events = [each.event for each in store.events(session)]
    return [event.content for event in events if isinstance(event, UserMessage)]


def test_a_run_that_took_up_words_late_is_stored_whole(
    home: Path, home_store: Store, project: Store, spool: Spool
) -> None:
    output, words = spool.stdout.read_bytes(), spool.messages.read_bytes()
    assert Runner(home, home_store, {}, lambda: NOW).recover_finished_runs() == 1
    (session,) = project.sessions()
    assert said(project) == ["go", "look left"]
    assert project.turns(session)[0].outcome == "completed"
    kept = {log.kind: b"".join(project.stream_log(log.id)) for log in project.logs(session)}
    assert kept == {"stream": output, "api": words, "stderr": b"a warning\n"}
    assert project.verify().problems == []


def test_a_run_of_which_the_home_store_refused_a_part_is_kept_until_it_has_all(
    home: Path, home_store: Store, project: Store, spool: Spool
) -> None:
    runner = Runner(home, home_store, {}, lambda: NOW)
    with trigger(home_store, "before insert on logs when new.kind = 'api' begin select raise(abort, 'not this one')"):
        runner.recover_finished_runs()
    assert said(project) == ["go", "look left"]
    assert "not this one" in spool.trouble
    runner.recover_finished_runs()
    assert not spool.folder.exists()
    assert conversation(home_store) == conversation(project)


def test_a_run_of_which_a_part_is_missing_in_its_store_stays_in_its_spool(
    home: Path, home_store: Store, project: Store, spool: Spool
) -> None:
    runner = Runner(home, home_store, {}, lambda: NOW)
    cut_short = (
        "after update of read_to on logs when new.kind = 'stream' and new.read_to > 1 "
        "begin update logs set read_to = 1 where id = new.id"
    )
    with trigger(project, cut_short):
        runner.recover_finished_runs()
    assert "is missing" in spool.trouble
    runner.recover_finished_runs()
    assert not spool.folder.exists()
    assert said(project) == ["go", "look left"]
    assert conversation(home_store) == conversation(project)
    assert project.verify().problems == []
