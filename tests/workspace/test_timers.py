"""The timer that has logs imported: shown, written once, and taken out so that all is as it was, byte for byte."""

from __future__ import annotations

import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backstory.errors import FileNotOurs, LineNotOurs, NoTimers, NotInstalled, SettingsChanged
from backstory.workspace.clients.agent_servers import ServerProgram
from backstory.workspace.clients.crontab import mark_of
from backstory.workspace.clients.timers import TimerPlan, UserTimers
from tests.support.cron import put_crontab, put_program

TELLS = """#!/bin/sh
echo "$(basename "$0") $*" >> "{told}"
exit {code}
"""
OTHERS = b"MAILTO=me\n0 5 * * 1 tar czf /b.tgz /home\n"


class Machine:
    """A person's home, our home beside it, and what starts programs by the clock."""

    def __init__(self, root: Path, platform: str = "linux") -> None:
        self.root, self.home, self.ours = root, root / "home", root / "ours"
        self.programs, self.table, self.told = root / "bin", root / "bin" / "table", root / "told"
        for each in (self.home, self.programs):
            each.mkdir()
        self.place("backstory", "#!/bin/sh\n")
        runtime = root / "run"
        self.environ = {"PATH": f"{self.programs}:/usr/bin:/bin", "XDG_RUNTIME_DIR": str(runtime)}
        self.timers = UserTimers(self.ours, self.environ, self.home, platform)

    def place(self, name: str, text: str) -> None:
        put_program(self.programs / name, text)

    def has_cron(self, table: bytes | None = None) -> None:
        put_crontab(self.programs)
        if table is not None:
            self.table.write_bytes(table)

    def has(self, name: str, code: int = 0) -> None:
        self.place(name, TELLS.format(told=self.told, code=code))
        (self.root / "run" / "systemd").mkdir(parents=True, exist_ok=True)

    @property
    def program(self) -> ServerProgram:
        command = (str(self.programs / "backstory"), "ingest")
        return ServerProgram(command=command, environ={"BACKSTORY_HOME": str(self.root / "50% $HOME")})

    def schedule(self) -> TimerPlan:
        plan = self.timers.plan_schedule(self.program)
        self.said = self.timers.perform(plan)
        return plan

    def unschedule(self) -> None:
        self.timers.perform(self.timers.plan_unschedule(self.program))

    def why(self) -> list[str]:
        return [each.why for each in self.timers.states()]

    def tree(self) -> list[str]:
        return sorted(str(each.relative_to(self.home)) for each in self.home.rglob("*"))

    @property
    def units(self) -> Path:
        return self.home / ".config/systemd/user"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def systemd(machine: Machine) -> Machine:
    machine.has("systemctl")
    return machine


@pytest.fixture
def mac(tmp_path: Path) -> Machine:
    found = Machine(tmp_path, "darwin")
    found.has("launchctl")
    return found


# the crontab ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, b"", OTHERS, OTHERS.rstrip(b"\n"), b"# \xff\xfe\n"])
def test_a_crontab_is_what_it_was_once_the_line_is_out(machine: Machine, before: bytes | None) -> None:
    machine.has_cron(before)
    machine.schedule()
    there = machine.table.read_bytes()
    assert there.startswith(before or b"")
    assert there.count(b"# backstory ") == 1
    machine.unschedule()
    assert (machine.table.read_bytes() if machine.table.exists() else None) == before


def test_what_is_scheduled_is_so_once(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    there = machine.table.read_bytes()
    assert machine.schedule().action == "none"
    assert machine.table.read_bytes() == there


def test_lines_that_came_behind_ours_stay_when_it_goes(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    machine.table.write_bytes(machine.table.read_bytes() + b"@daily true\n")
    machine.unschedule()
    assert machine.table.read_bytes() == OTHERS + b"@daily true\n"


def test_a_program_that_moved_gets_a_new_line_in_place_of_the_old(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    elsewhere = ServerProgram(command=("/opt/backstory", "ingest"), environ={})
    plan = machine.timers.plan_schedule(elsewhere)
    machine.timers.perform(plan)
    assert plan.action == "update"
    line = f"17 * * * * test -x /opt/backstory && /opt/backstory ingest >/dev/null 2>&1 {mark_of(machine.ours)}\n"
    assert machine.table.read_bytes() == OTHERS + line.encode()


def test_a_crontab_that_changed_meanwhile_is_left_alone(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    plan = machine.timers.plan_schedule(machine.program)
    machine.table.write_bytes(b"@daily true\n")
    with pytest.raises(SettingsChanged):
        machine.timers.perform(plan)
    assert machine.table.read_bytes() == b"@daily true\n"


@pytest.mark.parametrize(("old", "new"), [("17 *", "5 6"), ("17 *", "#17 *")])
def test_a_line_that_somebody_changed_is_left_alone(machine: Machine, old: str, new: str) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    changed = machine.table.read_bytes().replace(old.encode(), new.encode(), 1) + b"0 5 * * * backup\n"
    machine.table.write_bytes(changed)
    for act in (machine.schedule, machine.unschedule):
        with pytest.raises(LineNotOurs):
            act()
    assert machine.table.read_bytes() == changed
    assert machine.why() == [""]


def test_lines_behind_ours_stay_lines_where_the_table_had_no_last_end(machine: Machine) -> None:
    machine.has_cron(b"0 1 * * * daily")
    machine.schedule()
    machine.table.write_bytes(machine.table.read_bytes() + b"0 2 * * * more\n")
    machine.unschedule()
    assert machine.table.read_bytes() == b"0 1 * * * daily\n0 2 * * * more\n"


def test_a_table_that_cannot_be_read_is_not_taken_for_none(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    program = (machine.programs / "crontab").read_text()
    machine.place("crontab", program.replace("-l) ", '-l) echo "crontabs/ann: Permission denied" >&2; exit 1; '))
    with pytest.raises(NoTimers, match="Permission denied"):
        machine.schedule()
    assert machine.table.read_bytes() == OTHERS


def test_a_schedule_that_was_killed_leaves_no_second_line(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    there = machine.table.read_bytes()
    elsewhere = ServerProgram(command=("/opt/backstory", "ingest"), environ={})
    # The note was written, the table was not.
    machine.place("crontab", (machine.programs / "crontab").read_text().replace("-) cat", "-) exit 0; cat"))
    machine.timers.perform(machine.timers.plan_schedule(elsewhere))
    machine.has_cron()
    assert machine.table.read_bytes() == there
    machine.timers.perform(machine.timers.plan_schedule(elsewhere))
    assert machine.table.read_bytes().count(b"# backstory ") == 1
    machine.unschedule()
    assert machine.table.read_bytes() == OTHERS


def test_a_line_is_known_again_without_its_note(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    shutil.rmtree(machine.ours)
    assert machine.schedule().action == "update"
    shutil.rmtree(machine.ours)
    machine.unschedule()
    assert machine.table.read_bytes() == OTHERS


def test_what_a_person_removed_is_forgotten_when_it_is_taken_out(machine: Machine) -> None:
    machine.has_cron(OTHERS)
    machine.schedule()
    machine.table.write_bytes(OTHERS)
    assert machine.why() == ["it was switched off or removed by hand"]
    machine.unschedule()
    assert machine.why() == []
    assert machine.table.read_bytes() == OTHERS


def test_a_timer_of_another_home_or_without_an_interpreter_is_dead(machine: Machine) -> None:
    machine.has_cron()
    machine.place("backstory", "#!/gone/python\n")
    machine.schedule()
    assert machine.why() == [f"its program {machine.programs}/backstory is gone"]
    machine.place("backstory", "#!/bin/sh\n")
    assert machine.why() == [""]
    moved = machine.root / "moved"
    machine.ours.rename(moved)
    machine.timers = UserTimers(moved, machine.environ, machine.home, "linux")
    assert machine.why() == [f"it imports into {machine.ours}, which is not this home"]
    machine.schedule()
    assert (machine.why(), machine.table.read_bytes().count(b"# backstory ")) == ([""], 1)


def test_the_line_runs_in_a_shell_as_cron_has_it_run(machine: Machine) -> None:
    machine.has_cron()
    machine.place("backstory", f'#!/bin/sh\necho "$BACKSTORY_HOME $*" > "{machine.told}"; echo talk\n')
    machine.schedule()
    command = machine.table.read_text().split("* ", 4)[-1].replace("\\%", "%")
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert machine.told.read_text() == f"{machine.root}/50% $HOME ingest\n"


def test_a_line_whose_program_is_gone_says_nothing(machine: Machine) -> None:
    machine.has_cron()
    machine.schedule()
    (machine.programs / "backstory").unlink()
    done = subprocess.run(["/bin/sh", "-c", machine.table.read_text().split("* ", 4)[-1]], capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert machine.why() == [f"its program {machine.programs}/backstory is gone"]


def test_a_crontab_that_is_refused_changes_nothing(machine: Machine) -> None:
    refuses = 'echo "You may not use crontab." >&2; exit 1'
    machine.place("crontab", f'#!/bin/sh\n[ "$1" = -l ] && echo "no crontab for me" >&2 && exit 1\n{refuses}\n')
    with pytest.raises(NoTimers, match="crontab: You may not use crontab, so"):
        machine.schedule()
    assert machine.why() == []


# systemd -------------------------------------------------------------------------------------------------------------


def test_units_come_with_what_switches_them_on_and_go_with_their_folders(systemd: Machine) -> None:
    systemd.schedule()
    link = systemd.units / "timers.target.wants/backstory-ingest.timer"
    assert link.resolve() == (systemd.units / "backstory-ingest.timer").resolve()
    assert systemd.told.read_text().splitlines() == [
        "systemctl --user daemon-reload", "systemctl --user start backstory-ingest.timer",
    ]  # fmt: skip
    assert systemd.why() == [""]
    systemd.unschedule()
    assert systemd.tree() == []
    assert systemd.told.read_text().splitlines()[2:] == [
        "systemctl --user stop backstory-ingest.timer", "systemctl --user daemon-reload",
    ]  # fmt: skip


def test_folders_that_were_there_stay(systemd: Machine) -> None:
    (systemd.units / "timers.target.wants").mkdir(parents=True)
    before = systemd.tree()
    systemd.schedule()
    systemd.unschedule()
    assert systemd.tree() == before


def test_a_manager_that_does_not_answer_gets_its_units_all_the_same(machine: Machine) -> None:
    machine.has("systemctl", code=1)
    machine.schedule()
    assert machine.said == ["systemctl: exit code 1"] * 2
    assert machine.why() == [""]


def test_units_are_taken_out_where_they_were_written(systemd: Machine) -> None:
    systemd.schedule()
    environ = {"PATH": str(systemd.programs), "XDG_CONFIG_HOME": str(systemd.root / "other")}
    systemd.timers = UserTimers(systemd.ours, environ, systemd.home, "linux")
    systemd.unschedule()
    assert systemd.tree() == []


@pytest.mark.parametrize("left", [0, 1, 2])
def test_what_a_kill_left_is_scheduled_or_taken_out_by_the_next(systemd: Machine, left: int) -> None:
    systemd.schedule()
    pieces = ["timers.target.wants/backstory-ingest.timer", "backstory-ingest.service", "backstory-ingest.timer"]
    for each in pieces[: left + 1]:
        (systemd.units / each).unlink()
    if left < 2:
        systemd.unschedule()
        assert systemd.tree() == []
    assert systemd.schedule().action != "none"
    assert systemd.why() == [""]


@pytest.mark.parametrize("name", ["backstory-ingest.service", "backstory-ingest.timer"])
def test_a_unit_of_somebody_else_is_left_alone(systemd: Machine, name: str) -> None:
    systemd.units.mkdir(parents=True)
    (systemd.units / name).write_text("[Unit]\n")
    for act in (systemd.schedule, systemd.unschedule):
        with pytest.raises(FileNotOurs):
            act()
    assert (systemd.units / name).read_text() == "[Unit]\n"


def test_a_timer_that_was_switched_off_by_hand_is_dead(systemd: Machine) -> None:
    systemd.schedule()
    (systemd.units / "timers.target.wants/backstory-ingest.timer").unlink()
    assert systemd.why() == ["it was switched off or removed by hand"]
    assert systemd.schedule().action == "update"
    assert systemd.why() == [""]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here, which checks units")
def test_systemd_understands_the_units(systemd: Machine, tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" 50%'
    odd.mkdir()
    (odd / "backstory").symlink_to(sys.executable)
    program = ServerProgram(command=(str(odd / "backstory"), "ingest"), environ={"BACKSTORY_HOME": '/x "y" 5% \\'})
    systemd.timers.perform(systemd.timers.plan_schedule(program))
    units = [str(systemd.units / f"backstory-ingest.{each}") for each in ("service", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# launchd -------------------------------------------------------------------------------------------------------------


def test_launchd_gets_a_list_of_its_own_kind(mac: Machine) -> None:
    mac.schedule()
    path = mac.home / "Library/LaunchAgents/backstory.ingest.plist"
    job = plistlib.loads(path.read_bytes())
    assert (job["ProgramArguments"], job["StartInterval"]) == (list(mac.program.command), 3600)
    assert job["EnvironmentVariables"] == mac.program.environ
    assert mac.told.read_text().split()[:2] == ["launchctl", "bootstrap"]
    mac.unschedule()
    assert mac.tree() == []
    assert "launchctl bootout gui/" in mac.told.read_text()


# none ----------------------------------------------------------------------------------------------------------------


def test_a_machine_without_any_says_so(machine: Machine) -> None:
    machine.timers = UserTimers(machine.ours, {"PATH": str(machine.programs)}, machine.home, "linux")
    with pytest.raises(NoTimers, match="neither systemd for its users nor crontab"):
        machine.schedule()
    with pytest.raises(NotInstalled):
        machine.unschedule()


def test_a_path_with_a_line_end_is_refused(systemd: Machine) -> None:
    program = ServerProgram(command=("/a\nb/backstory", "ingest"), environ={})
    with pytest.raises(NoTimers, match="characters that no timer can have"):
        systemd.timers.plan_schedule(program)
