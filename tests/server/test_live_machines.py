"""A run on one machine, seen on the server while it goes on: by real processes, a scripted agent and a viewer."""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backstory.server import live_view
from tests.support.bench import Bench
from tests.support.going import GOOD, Going, delta, until
from tests.support.senders import Sender
from tests.support.streamed import StreamedByTeam
from tests.support.team_pages import TeamVisitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.server.people import LetIn
    from tests.support.team import Team


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_view, "LOOK_S", 0.02)


class WatchedMachine:
    """A machine of a person whose repository leaves, with a sync that goes on."""

    def __init__(self, bench: Bench, team: Team, address: str) -> None:
        self.bench, self.team, self.address, self.admin = bench, team, address, team.founded("zoe")
        origin = ("git", "-C", str(bench.project), "remote", "add", "origin", "git@github.com:me/app.git")
        subprocess.run(origin, check=True)
        _, invited = team.ask("POST", "/v1/invites", self.admin.token, {})
        self._types("login", address, "--code", "-", "--person", "anna", given=invited["code"])
        self._types("config", "set", "sync.repositories", "me/app")
        self._types("config", "set", "sync.enabled", "true")
        self.watch: subprocess.Popen[str] | None = None

    def _types(self, *words: str, given: str | None = None) -> None:
        done = self.bench.backstory(*words, given=given)
        assert done.returncode == 0, done.stderr

    def watches(self) -> None:
        self.watch = self.bench.start("sync", "--watch")

    def kills_watch(self) -> None:
        assert self.watch is not None
        self.watch.kill()
        self.watch.communicate()

    @property
    def uid(self) -> str:
        with self.bench.store as store:
            return store.uids()[0]

    def told(self) -> list[tuple[Any, ...]]:
        with self.team.database.of(Sender(self.team, self.admin).tenant) as rows:
            return rows.execute("select session, state, last, writing from live_run").fetchall()

    def view(self, who: LetIn | None = None) -> StreamedByTeam:
        until(lambda: any(last for _, _, last, _ in self.told()))
        return StreamedByTeam(self.address, (who or self.admin).token, self.uid)

    def ends(self) -> str:
        """Stop the sync as a person does; returns what it said."""
        if self.watch is None or self.watch.poll() is not None:
            return ""
        self.watch.send_signal(signal.SIGINT)
        return self.watch.communicate(timeout=60)[1]


@contextmanager
def watched(root: Path, team: Team) -> Iterator[WatchedMachine]:
    with team.served() as address:
        machine = WatchedMachine(Bench(root), team, address)
        try:
            yield machine
        finally:
            machine.ends()


@pytest.fixture
def machine(tmp_path: Path, team: Team) -> Iterator[WatchedMachine]:
    with watched(tmp_path, team) as found:
        yield found


def said(stream: StreamedByTeam) -> list[str]:
    return [each.split()[0] for each in stream.words if not each.startswith("turn ")]


def test_a_run_is_seen_as_it_goes_on_and_is_then_what_is_stored(machine: WatchedMachine) -> None:
    then = ({"say": "second"}, {"wait_for": str(machine.bench.root / "end")}, GOOD)
    with Going(machine.bench, {"say": "first"}, {"tool": "ls"}, then=then) as going:
        machine.watches()
        stream = machine.view()
        stream.until("Bash")
        assert said(stream) == ["Where", "first", "Bash"]
        going.go.touch()
        stream.until("second")
        assert said(stream)[:4] == ["Where", "first", "Bash", "second"]
        (machine.bench.root / "end").touch()
        until(lambda: len(stream.of("base")) == 2)
    with machine.bench.store as store:
        (session,) = store.sessions()
        kinds = [each.kind for each in store.events(session)]
        last = max(each.seq for each in store.events(session))
    stream.close()
    assert (stream.of("base")[1].value, machine.told(), said(stream)) == ({"seq": last, "turn": 1}, [], [])
    _, there = machine.team.ask("GET", f"/v1/sessions/{machine.uid}/entries", machine.admin.token)
    assert [each["kind"] for each in there["events"]] == kinds


def test_a_sync_that_was_killed_is_silent_and_another_one_goes_on_where_it_was(machine: WatchedMachine) -> None:
    with Going(machine.bench, {"say": "first"}, then=({"say": "second"}, GOOD)) as going:
        machine.watches()
        stream = machine.view()
        stream.until("first")
        machine.kills_watch()
        machine.team.clock.ms += 21_000
        until(lambda: stream.of("note"))
        assert stream.of("note")[0].value["text"].startswith("There is no news of this run since ")
        machine.watches()
        until(lambda: len(stream.of("note")) == 2)
        going.go.touch()
        until(lambda: len(stream.of("base")) == 2)
    stream.close()
    entries = [each.words for each in stream.of("entry")]
    assert sum("first" in each for each in entries) == 1


def test_a_run_whose_runner_was_killed_is_said_to_be(machine: WatchedMachine) -> None:
    with Going(machine.bench, {"say": "first"}, then=({"say": "second"}, {"signal": 9})) as going:
        machine.watches()
        stream = machine.view()
        stream.until("first")
        going.kill_backstory()
        going.go.touch()
        # The sync that goes on finds the run that nobody stored, stores it and sends it; or says first that it is gone.
        until(lambda: len(stream.of("base")) == 2 or stream.of("note"))
    stream.close()
    notes = [each.value["text"] for each in stream.of("note")]
    assert notes in ([], [live_view.KILLED])


def test_nothing_of_a_secret_or_of_this_machine_comes_not_even_half_of_it(machine: WatchedMachine) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    told = f"The token is {token} in {machine.bench.project}/a.py and {machine.bench.root}/notes.txt."
    pieces = [delta(f"It is\n\n{token[:20]}"), delta(f"{token[20:]}\n\nand "), delta("more")]
    with Going(machine.bench, {"say": told}, *pieces, then=({"say": f"It is\n\n{token}\n\nand more"}, GOOD)) as going:
        machine.watches()
        stream = machine.view()
        until(lambda: any("[github-token" in str(each) for each in [*stream.of("writing"), *stream.of("more")]))
        going.go.touch()
        until(lambda: len(stream.of("base")) == 2)
    stream.close()
    came = str(stream.events)
    assert "[github-token-" in came
    assert [each for each in (token[:12], token[20:32], str(machine.bench.root)) if each in came] == []
    assert " a.py and ~/" in came or " a.py and [path-" in came


def test_a_run_is_steered_from_a_browser_elsewhere(machine: WatchedMachine) -> None:
    assert machine.bench.run("The first prompt", GOOD).returncode == 0
    assert machine.bench.backstory("config", "set", "sync.steer", "true").returncode == 0
    assert machine.bench.backstory("sync").returncode == 0
    browser = TeamVisitor(machine.team, machine.address)
    code = browser.code()
    assert machine.bench.backstory("login", "--approve", code, "--steer").returncode == 0
    browser.keep(browser.get("/login"))
    with Going(machine.bench, {"listens": True}, {"say": "first"}, then=({"hear": 1}, GOOD)) as going:
        machine.watches()
        stream = machine.view()
        stream.until("first")
        until(lambda: "Message for the agent" in browser.get(f"/s/{machine.uid}").words)
        form = browser.get(f"/s/{machine.uid}").text.partition('id="steering"')[2].partition("</form>")[0]
        fields = dict(re.findall(r'name="(csrf|id)" value="([\w-]+)"', form))
        assert browser.post(f"/s/{machine.uid}/steer", fields | {"text": "Look at the otter."}).status == 303
        until(lambda: "The run's machine took the message." in browser.get(f"/s/{machine.uid}").words)
        going.go.touch()
        assert going.process.wait() == 0
    # Who looks on is told of no message.
    assert stream.of("steering") == []
    stream.close()
    heard = machine.bench.received.with_suffix(".heard").read_text().splitlines()
    assert heard == ['"Look at the otter."']
