"""What a command costs is what all its processes cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import growth, homes, peers, profiles
from bench.measuring import Command, Failed, Quiet, Spent, Turns, in_turn, peak_mb, spend
from bench.plan import Machine, earlier

pytestmark = pytest.mark.slow

BUSY = "import time\nwhile time.process_time() < 0.3: pass"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}], check=True)"
LARGE = "import subprocess, sys, time; held = b'x' * 50_000_000; time.sleep(0.3)"
TWO_LARGE = f"{LARGE}; subprocess.run([sys.executable, '-c', {LARGE!r}], check=True)"


def python(code: str) -> Command:
    return Command([sys.executable, "-c", code], dict(os.environ))


def test_processor_time_of_a_second_process_counts() -> None:
    assert spend(python(PARENT)).cpu_s >= 0.3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what each process has")
def test_memory_of_all_processes_is_added_up() -> None:
    assert peak_mb(python(TWO_LARGE)) > 2 * 47


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(Failed, match="ended with 3: it says why"):
        spend(python("import sys; print('it says why'); sys.exit(3)"))


def test_commands_are_run_in_turn_and_prepared_each_time(tmp_path: Path) -> None:
    order: list[str] = []
    commands = {
        name: Command([sys.executable, "-c", "pass"], {}, tmp_path, lambda name=name: order.append(name))  # type: ignore[misc]
        for name in ("ours", "theirs")
    }
    turns = in_turn(commands, 2)
    assert order == ["ours", "theirs", "ours", "theirs"]
    assert len(turns.loads) == 2


def test_a_ratio_is_the_median_of_the_turns() -> None:
    ours, theirs = ([Spent(0, cpu, 0) for cpu in times] for times in ((1.0, 9.0, 2.0), (2.0, 10.0, 5.0)))
    turns = Turns({"ours": ours, "theirs": theirs}, ())
    assert turns.ratio("ours", "theirs") == 0.5
    assert turns.over("theirs", "ours") == 1.0


def test_a_machine_that_does_not_become_quiet_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (7.0, 7.0, 7.0))
    quiet = Quiet(0.01)
    assert [quiet.load(), quiet.load()] == [7.0, 7.0]
    assert quiet._wait_s == 0


def test_a_profile_names_what_took_the_time_in_every_process() -> None:
    lines = profiles.cpu(python(f"def slow():\n  for n in range(10 ** 6): n * n\nslow()\n{PARENT}"))
    assert lines[0] == "2 processes"
    assert any("slow" in line for line in lines)


def test_a_profile_of_memory_names_what_holds_most() -> None:
    lines = profiles.memory(python("import time; held = b'x' * 30_000_000; time.sleep(0.4)"))
    assert lines[0].split()[:2] == ["30.0", "MB"]


def test_small_sessions_are_small_and_each_is_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home", tmp_path / "store")
    size = homes.small(machine.home, 20)
    assert size / 20 == pytest.approx(homes.SMALL_BYTES, rel=0.02)
    spend(machine.command("ingest"))
    done = subprocess.run(
        machine.command("sql", "select count(*) from turns where user_message != ''", "--json").words,
        env=dict(machine.command().env), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["rows"] == [[20]]


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(peers, "VERSIONS", {"agentsview": "0.46.1"})
    peer = peers.installed(tmp_path / "peers")["agentsview"]
    assert peer.program is None
    assert peer.why_not.startswith("agentsview 0.46.1 is not installed: ERROR: ")


def test_a_revision_that_git_does_not_have_says_so(tmp_path: Path) -> None:
    before = earlier("0000000", tmp_path)
    assert before.source is None
    assert "0000000" in before.why_not


def test_a_factor_is_what_more_there_is_to_do_takes_more() -> None:
    few = growth.Size("few", 10, {"ingest": 2.0, "list": 1.0}, {"ingest": 50, "list": 40}, 0.3)
    many = growth.Size("many", 100, {"ingest": 22.0, "list": 1.0}, {"ingest": 60, "list": 40}, 0.3)
    found = {each.name: each for each in growth.figures([few, many])}
    factors = {name: round(each.value or 0, 6) for name, each in found.items() if name.endswith("factor")}
    assert factors == {"many: ingest, factor": 1.1, "many: list, factor": 0.1}
    assert "60 MB, 1.20 × the size before" in found["many: ingest"].note
