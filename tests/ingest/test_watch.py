"""Following logs, as a real process: what changes is in the store moments later, whatever happens to the files."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.errors import StoreNotFound, StoreOutdated
from backstory.ingest.watch import Sight, Spot, changed
from backstory.model import UserMessage
from backstory.projects.registry import KnownProjects
from backstory.runs.spool import Run, Spool
from backstory.store import open_store
from backstory.store.tables import sidecars
from tests.support.clock import NOW
from tests.support.machines import Machine, claude_line, claude_log, conversation, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

WAIT_S = 120.0
RUNS_ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux lets one")


def until(condition: Callable[[], Any]) -> Any:
    """Ask again and again; a test that waits too long fails here."""
    end = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
    return value


class Following:
    """``backstory ingest --watch`` on a machine."""

    def __init__(self, machine: Machine, *words: str, before: tuple[str, ...] = ()) -> None:
        self.home, self.state = machine.home, machine.home / "backstory"
        self.told: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "backstory", "ingest", "--watch", *words], text=True, cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "BACKSTORY_HOME": str(self.state),
                 "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        out, err = self.process.stdout, self.process.stderr
        self._listening = [
            threading.Thread(target=lambda: self.told.extend(self._parsed(text) for text in out)),
            threading.Thread(target=lambda: self.said.extend(err)),
        ]
        for each in self._listening:
            each.start()
        until(lambda: self.has_said("Following") or self.process.poll() is not None)
        assert self.process.poll() is None, self.said

    def _parsed(self, text: str) -> dict[str, Any]:
        return json.loads(text) if text.startswith("{") else {"text": text}

    @property
    def store(self) -> Path:
        return self.state / "store.db"

    def has_said(self, text: str) -> bool:
        return any(text in each for each in list(self.said))

    def finds(self, word: str) -> bool:
        """Whether a search finds it by now."""
        try:
            with open_store(self.store, shared=True) as store:
                return bool(store.search(word).hits)
        except (StoreNotFound, StoreOutdated):
            # It is being begun.
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        for each in self._listening:
            each.join(WAIT_S)
        for file in (self.process.stdout, self.process.stderr):
            assert file is not None
            file.close()
        return code


@pytest.fixture
def follow(machine: Machine) -> Iterator[Callable[..., Following]]:
    begun: list[Following] = []

    def begin(*words: str, before: tuple[str, ...] = ()) -> Following:
        begun.append(Following(machine, *(words or ("--json",)), before=before))
        return begun[-1]

    yield begin
    for each in begun:
        if each.process.returncode is None:
            assert each.end() == 0, each.said


def append(path: Path, *records: bytes) -> None:
    with path.open("ab") as file:
        file.write(lines(*records))


def prompt(word: str, session: str = "s") -> bytes:
    return claude_line("user", f"uuid-{word}", f"please say {word}").replace(b'"s"', json.dumps(session).encode())


# what changes ----------------------------------------------------------------------------------------------------


def test_a_line_is_found_and_no_other_log_is_looked_at(machine: Machine, follow: Callable[..., Following]) -> None:
    for number in range(20):
        machine.write(claude_log(f"other-{number}"), lines(prompt(f"other{number}")))
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))
    until(lambda: len(following.told) > 1)
    first, batch = following.told[:2]
    assert (first["logs_seen"], first["sessions_new"]) == (21, 21)
    assert (batch["logs_seen"], batch["logs_read"], batch["sessions_updated"], batch["events_new"]) == (1, 1, 1, 1)


def test_each_batch_is_a_line_for_a_person(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow("--agent", "claude")
    append(log, prompt("omega"))
    until(lambda: following.has_said("updated"))
    batch = next(each for each in following.said if "updated" in each)
    assert re.fullmatch(r"\d\d:\d\d:\d\d claude: 1 session updated, 1 event\n", batch)
    assert "Read 1 log (" in following.told[0]["text"]


def test_databases_that_are_brought_to_do_harm_are_told_and_the_rest_is_followed(
    machine: Machine, follow: Callable[..., Following]
) -> None:
    endless = "with recursive c(x) as (select 1 union all select x + 1 from c) select x id, 'user' role from c"
    database = machine.write(".ah/01HZZZZZZZZZZZZZZZZZZZZZZB.db", b"")
    with closing(sqlite3.connect(database)) as db:
        db.execute(f"create view messages as {endless}")
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    until(lambda: following.told)
    assert following.told[0]["errors"] == [
        {"path": str(database), "reason": "its messages is a view, and only real tables are read"}
    ]
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))


@pytest.mark.slow
def test_folders_that_come_go_and_come_again_are_followed(machine: Machine, follow: Callable[..., Following]) -> None:
    following = follow()
    assert following.has_said("Following nothing yet")
    machine.write(claude_log("one"), lines(prompt("alpha")))
    until(lambda: following.finds("alpha"))
    shutil.rmtree(machine.home / ".claude")
    machine.write(claude_log("two"), lines(prompt("beta")))
    until(lambda: following.finds("beta"))
    machine.write(".claude/projects/deep/er/and/deeper/three.jsonl", lines(prompt("gamma")))
    until(lambda: following.finds("gamma"))
    (machine.home / ".claude/projects/deep").rename(machine.home / ".claude/projects/elsewhere")
    append(machine.home / ".claude/projects/elsewhere/er/and/deeper/three.jsonl", prompt("delta"))
    until(lambda: following.finds("delta"))


def test_a_log_rewritten_again_and_again_ends_as_one_read_once(
    machine: Machine, another: Callable[[], Machine], follow: Callable[..., Following]
) -> None:
    log = machine.write(claude_log("s"), lines(*conversation(40)))
    following = follow()
    log.write_bytes(lines(*conversation(10)))
    append(log, *conversation(5, 50))
    whole = log.with_suffix(".new")
    whole.write_bytes(lines(*conversation(60)))
    whole.replace(log)
    until(lambda: following.finds("word59"))
    assert following.end() == 0
    once = another()
    once.write(claude_log("s"), lines(*conversation(60)))
    once.read("claude")
    with open_store(following.store) as store:
        told, expected = ([turn.prompt for turn in each.turns(1)] for each in (store, once.store))
        assert told == expected
        assert store.verify().problems == []


@pytest.mark.slow
def test_hundreds_of_logs_that_grow_at_once_are_all_read(machine: Machine, follow: Callable[..., Following]) -> None:
    logs = [machine.write(claude_log(f"log-{n}"), lines(prompt(f"first{n}"))) for n in range(300)]
    following = follow()
    for number, log in enumerate(logs):
        append(log, prompt(f"second{number}"))
    until(lambda: sum(each["events_new"] for each in following.told) >= 600)
    assert following.end() == 0
    with open_store(following.store) as store:
        assert [len(store.events(session)) for session in store.sessions()] == [2] * 300


def test_what_lies_beside_a_log_is_kept_when_it_changes(machine: Machine, follow: Callable[..., Following]) -> None:
    session = "0b7e2f8a-0000-4000-8000-000000000001"
    machine.write(claude_log(session), lines(prompt("alpha", session)))
    following = follow()
    machine.write(claude_log(session).with_suffix("") / "tool-results" / "long.txt", b"what was too long for the log")
    until(lambda: any(figures["companions_read"] for each in following.told for figures in each["by_agent"]))
    with open_store(following.store) as store:
        (log,) = store.logs()
        assert [kept.name for kept in store.ask(sidecars.of_log, log.id)] == [f"{session}/tool-results/long.txt"]


def test_what_cannot_be_read_is_told_once_and_stops_nothing(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    for number in range(3):
        machine.write(claude_log("bad"), b'{"no":"log"}\n' * (number + 1))
        append(log, prompt(f"omega{number}"))
        until(partial(following.finds, f"omega{number}"))
    assert following.end() == 0
    assert len([each for each in following.said if "Kept as it is" in each]) == 1


# the store -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well_and_the_store_is_one_file(
    number: signal.Signals, machine: Machine, follow: Callable[..., Following]
) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))
    assert following.end(number) == 0
    assert [each.name for each in following.state.glob("store.db*")] == ["store.db"]
    assert not following.has_said("Traceback")


def test_the_store_is_one_file_while_nothing_changes(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))
    until(lambda: [each.name for each in following.state.glob("store.db*")] == ["store.db"])


def test_a_store_that_is_deleted_is_made_again(machine: Machine, follow: Callable[..., Following]) -> None:
    machine.write(claude_log("one"), lines(prompt("alpha")))
    log = machine.write(claude_log("two"), lines(prompt("beta")))
    following = follow()
    for each in following.state.glob("store.db*"):
        each.unlink(missing_ok=True)
    append(log, prompt("omega"))
    assert until(lambda: following.finds("omega")) and until(lambda: following.finds("alpha"))


@pytest.mark.slow
def test_a_store_that_another_process_holds_is_waited_for(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    db = apsw.Connection(str(following.store))
    db.execute("begin immediate")
    append(log, prompt("omega"))
    until(lambda: following.has_said("locked by another process"))
    db.execute("rollback")
    db.close()
    until(lambda: following.finds("omega"))


@pytest.mark.slow
def test_two_that_follow_do_not_get_in_each_others_way(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("s"), lines(*conversation(2)))
    following, _ = follow(), follow()
    for number in range(2, 30):
        append(log, *conversation(1, number))
    until(lambda: following.finds("word29"))
    with open_store(following.store) as store:
        assert [len(store.events(session)) for session in store.sessions()] == [30]


@pytest.mark.slow
@RUNS_ON_LINUX
def test_a_full_disk_is_told_and_waited_for(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    unlimited = resource.prlimit(following.process.pid, resource.RLIMIT_FSIZE)
    # No file may grow any more: to SQLite that is a disk without room.
    resource.prlimit(following.process.pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    append(log, prompt("omega"))
    until(lambda: following.has_said("Meanwhile it is tried again"))
    resource.prlimit(following.process.pid, resource.RLIMIT_FSIZE, unlimited)
    until(lambda: following.finds("omega"))


# runs and projects -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_log_of_a_run_is_read_when_the_run_is_stored(machine: Machine, follow: Callable[..., Following]) -> None:
    mine, other = (machine.write(claude_log(name), lines(prompt(name, name))) for name in ("mine", "other"))
    following = follow()
    run = Run(
        turn_uid="01K000000000000000000000AA", session_uid="01K000000000000000000000BB", agent="claude", prompt="x",
        store=str(machine.home / "none.bks"), cwd="/w", started=NOW, native_id="mine",
    )  # fmt: skip
    spool = Spool.begin(following.state / "spool", run, "x")
    with spool.stdout.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        append(mine, prompt("omega", "mine"))
        append(other, prompt("psi", "other"))
        until(lambda: following.finds("psi"))
        assert not following.finds("omega")
        spool.remove()
    until(lambda: following.finds("omega"))


@pytest.mark.slow
def test_what_a_projects_store_gets_is_here_too(machine: Machine, follow: Callable[..., Following]) -> None:
    machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    with open_store(machine.home / "project" / ".backstory" / "sessions.bks") as project:
        session = project.create_session("Fix the build")
        project.append_events(session, [UserMessage(content="where is the comma")])
        with open_store(following.store, shared=True) as store:
            KnownProjects(following.state, store, lambda: NOW).remember(project)
    until(lambda: following.finds("comma"))


# where nothing is told -------------------------------------------------------------------------------------------


def _few_watches(count: int) -> tuple[str, ...]:
    """A command that begins another one where the system watches few folders."""
    limit = f'echo {count} > /proc/sys/user/max_inotify_watches && exec "$@"'
    return ("unshare", "--user", "--map-root-user", "sh", "-c", limit, "sh")


def _can_limit() -> bool:
    try:
        return subprocess.run([*_few_watches(1), "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@RUNS_ON_LINUX
@pytest.mark.parametrize("allowed", [0, 2])
def test_where_too_few_folders_may_be_watched_all_are_looked_through(
    allowed: int, machine: Machine, follow: Callable[..., Following]
) -> None:
    if not _can_limit():
        pytest.skip("no user namespace may be made here")
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow("--json", before=_few_watches(allowed))
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))
    new = machine.write(".claude/projects/new/two.jsonl", lines(prompt("psi")))
    until(lambda: following.has_said("looked through every few seconds"))
    append(new, prompt("chi"))
    until(lambda: following.finds("psi") and following.finds("chi"))
    assert len([each for each in following.said if "looked through every few seconds" in each]) == 1


def test_a_name_that_is_no_text_stops_nothing(machine: Machine, follow: Callable[..., Following]) -> None:
    log = machine.write(claude_log("one"), lines(prompt("alpha")))
    following = follow()
    (log.parent / os.fsdecode(b"\xff.jsonl")).write_bytes(lines(prompt("beta")))
    append(log, prompt("omega"))
    until(lambda: following.finds("omega"))


# which logs changed files are ------------------------------------------------------------------------------------


SESSION = "0b7e2f8a-0000-4000-8000-000000000002"


def spots(machine: Machine) -> list[Spot]:
    claude = agents.load("claude")
    return [Spot(claude, place) for place in claude.log.roots({}, machine.home)]


def test_a_file_beside_a_log_that_is_not_there_yet_is_remembered(machine: Machine) -> None:
    beside = machine.write(claude_log(SESSION).with_suffix("") / "tool-results" / "a.txt", b"a")
    found = changed([str(beside)], spots(machine))
    assert (found.logs, found.early) == ([], {str(beside)})
    log = machine.write(claude_log(SESSION), lines(prompt("alpha")))
    found = changed([str(beside)], spots(machine))
    assert [(each.path, [file.path for file in each.sidecars]) for each in found.logs] == [(str(log), [str(beside)])]


def test_files_of_no_interest_gone_ones_and_linked_ones_are_passed_over(machine: Machine) -> None:
    machine.write(claude_log(SESSION), lines(prompt("alpha")))
    results = claude_log(SESSION).with_suffix("") / "tool-results"
    outside = machine.write("outside.txt", b"secret")
    linked = machine.home / results / "linked.txt"
    linked.parent.mkdir(parents=True)
    linked.symlink_to(outside)
    names = [machine.write(results / ".env", b"secret"), machine.write(".claude/projects/notes.md", b"x")]
    found = changed(map(str, [*names, linked, outside, machine.home / "gone.jsonl"]), spots(machine))
    assert (found.logs, found.early) == ([], set())


def test_a_new_folder_is_looked_through_also_where_links_go_in_a_circle(machine: Machine) -> None:
    log = machine.write(".claude/projects/a/b/c.jsonl", lines(prompt("alpha")))
    (log.parent / "circle").symlink_to(log.parent.parent)
    found = changed([str(log.parent.parent)], spots(machine))
    assert [each.path for each in found.logs] == [str(log)]
    assert found.folders == {str(log.parent.parent)}


def test_changes_below_a_link_are_told_by_the_name_they_have_for_us(tmp_path: Path) -> None:
    real, named = tmp_path / "real", tmp_path / "named"
    real.mkdir()
    named.symlink_to(real)
    sight = Sight([named])
    assert sight.open() == ""
    try:
        (real / "log.jsonl").write_bytes(b"x")
        assert until(lambda: sight.changes(0.1)) == {str(named / "log.jsonl")}
        assert not sight.is_outdated
        named.unlink()
        assert sight.is_outdated
    finally:
        sight.close()
