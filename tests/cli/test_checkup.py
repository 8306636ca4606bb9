"""``doctor``: what it finds, that it changes nothing, and that each command which it prints mends what it names."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.projects import home_state
from backstory.projects.home_state import kind_of_mount
from backstory.store.file import maintenance, untouched
from backstory.workspace.care import machine as of_machine
from backstory.workspace.care.findings import KINDS
from tests.support.cron import put_crontab
from tests.support.forked import COMMAND
from tests.support.going import state, until
from tests.support.house import ROOT
from tests.support.read_only import read_only, without_power
from tests.support.small_disk import small_disk
from tests.support.strange_records import NEW_TYPE, PROMPT, put
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Done, Shell

FOUND, NOT_THERE, FULL = 1, 66, 74
GOLDEN = ROOT / "tests/store/golden"


def found(shell: Shell, **environ: str) -> dict[str, dict[str, Any]]:
    """What is found, by its name."""
    done = shell("doctor", "--json", **environ)
    told = json.loads(done.out)
    assert done.code == (FOUND if told["needs_mending"] else 0)
    return {each["finding"]: each for each in told["findings"]}


def typed(shell: Shell, line: str, **environ: str) -> Done:
    """A command that was printed, typed as it is."""
    from tests.support.shell import Done, words_of

    bin_ = shell.home / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "backstory").write_text(f'#!/bin/sh\nexec {" ".join(map(str, COMMAND))} "$@"\n')
    (bin_ / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    for each in bin_.iterdir():
        each.chmod(0o755)
    path = f"{bin_}:{shell.environ['PATH']}"
    words = words_of(line)
    if words is not None:
        return shell(*words, **environ | {"PATH": path})
    done = subprocess.run(
        ["sh", "-c", line], cwd=shell.cwd, env=shell.environ | environ | {"PATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def mend(shell: Shell, name: str) -> None:
    """Find something, run the command that is printed, and find it no more."""
    line = found(shell)[name]["as_typed"]
    done = typed(shell, line)
    assert done.code == 0, done.err
    assert name not in found(shell)


def sql(path: Path, text: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(text).fetchall()


def files(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every file and folder below one: mode, size, time, bytes."""
    return {
        str(each.relative_to(folder)): (
            (known := each.lstat()).st_mode, known.st_size, known.st_mtime_ns,
            each.read_bytes() if each.is_file() else b"",
        )
        for each in sorted(folder.rglob("*"))
    }  # fmt: skip


def test_a_healthy_home_is_one_line(read_once: Shell) -> None:
    done = read_once("doctor")
    assert (done.code, done.out) == (0, "Nothing found: all is well.\n")
    assert read_once("doctor", "--json").json() == {"needs_mending": False, "findings": []}


def test_nothing_is_changed(machine: Shell) -> None:
    sql(machine.store, "delete from meta where key = 'erased'")
    kill_a_writer(machine)
    machine.store.parent.chmod(0o755)
    before = files(machine.home)
    assert len(found(machine)) > 1
    assert machine("doctor").code == FOUND
    assert files(machine.home) == before


def test_what_an_earlier_version_derived_is_derived_anew(machine: Shell) -> None:
    sql(machine.store, "insert into meta(key, value) values ('stale', '1')")
    sql(machine.store, "update logs set derived = 1")
    mend(machine, "derived-stale")


def test_what_was_removed_is_erased(machine: Shell) -> None:
    sql(machine.store, "delete from meta where key = 'erased'")
    mend(machine, "not-erased")


def test_an_index_of_other_settings_is_made_anew(machine: Shell) -> None:
    sql(machine.store, "insert into meta(key, value) values ('index_outdated', '1')")
    mend(machine, "index-outdated")


def test_a_killed_ingest_is_found_and_finished(machine: Shell) -> None:
    sql(machine.store, "insert into search_index(search_index, rank) values ('automerge', 0)")
    mend(machine, "ingest-cut-off")


def kill_a_writer(shell: Shell) -> None:
    """A process writes into the store, and is killed before it closes it."""
    code = (
        "import apsw, os, sys; db = apsw.Connection(sys.argv[1]);"
        "db.execute('pragma journal_mode = wal').fetchall();"
        "db.execute(\"insert or replace into meta(key, value) values ('kept', '1')\").fetchall();"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(shell.store)], check=False)


def test_a_killed_writer_is_found_and_tidied_up(machine: Shell) -> None:
    kill_a_writer(machine)
    mend(machine, "write-cut-off")


def test_a_store_that_is_in_use_is_no_finding(machine: Shell) -> None:
    with closing(apsw.Connection(str(machine.store))) as db:
        db.execute("pragma journal_mode = wal").fetchall()
        db.execute("insert or replace into meta(key, value) values ('kept', '1')").fetchall()
        # Who closes a file has lost its locks on it.
        assert machine.store.read_bytes()
        done = subprocess.run(
            [*COMMAND, "doctor"], cwd=machine.cwd, env=machine.environ, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (0, "Nothing found: all is well.\n")


def test_a_stopped_process_that_holds_the_store_is_named_and_continued(machine: Shell) -> None:
    code = (
        "import apsw, sys; db = apsw.Connection(sys.argv[1]);"
        "db.execute('begin immediate').fetchall(); print(1, flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(machine.store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            holder.send_signal(signal.SIGSTOP)
            until(lambda: state(holder.pid) == "T")
            mend(machine, "store-held")
        finally:
            holder.kill()


def test_a_damaged_store_has_no_command_that_mends_it(machine: Shell) -> None:
    whole = machine.store.read_bytes()
    machine.store.write_bytes(whole[: len(whole) // 2])
    damaged = found(machine)["store-damaged"]
    assert (damaged["command"], "bytes" in damaged["detail"]) == (None, True)


def test_a_file_that_is_no_store_is_not_called_damaged(machine: Shell) -> None:
    whole = machine.store.read_bytes()
    another = bytearray(whole)
    another[68:72] = b"mine"
    for part, detail in (
        (b"no database" + whole[11:], "it is no SQLite file"),
        (another, "another program's database"),
    ):
        machine.store.write_bytes(part)
        foreign = found(machine)["store-foreign"]
        assert (foreign["command"], foreign["detail"], "store-damaged" in found(machine)) == (None, detail, False)


def test_a_store_of_a_newer_backstory_is_left_alone(machine: Shell) -> None:
    sql(machine.store, "update meta set value = '99' where key = 'schema_version'")
    assert found(machine)["store-newer"]["command"] is None


@pytest.mark.parametrize("version", [4, 5])
def test_a_store_of_an_earlier_version_is_brought_to_todays_tables(bare: Shell, version: int) -> None:
    bare.store.parent.mkdir(mode=0o700)
    shutil.copy(GOLDEN / f"store-v{version}.bks", bare.store)
    bare.store.chmod(0o600)
    older = found(bare)["store-older"]
    assert (older["detail"], older["as_typed"]) == (f"schema {version}", "backstory ingest")
    mend(bare, "store-older")


def test_a_store_that_was_named_is_looked_at_instead(machine: Shell) -> None:
    named = machine.home / "a b.bks"
    shutil.copy(GOLDEN / "store-v5.bks", named)
    told = machine("doctor", "--store", str(named), "--json").json()["findings"]
    (older,) = [each for each in told if each["finding"] == "store-older"]
    assert older["as_typed"] == f"backstory reindex --derived --store '{named}'"
    assert typed(machine, older["as_typed"]).code == 0
    assert machine("doctor", "--store", str(named), "--json").json()["findings"] == []


def test_a_draft_of_a_store_has_no_command(machine: Shell) -> None:
    sql(machine.store, "update meta set value = '2' where key = 'schema_version'")
    assert found(machine)["store-draft"]["as_typed"] is None


def test_what_was_pruned_and_came_again_goes_again(machine: Shell) -> None:
    values = "select id, 0, '', 0, 1000, null, 'tool-outputs', 1 from sessions order by id limit 1"
    sql(machine.store, f"insert into pruned(session_id, log_id, name, start, length, sha256, what, at) {values}")
    mend(machine, "prune-due")


def test_a_home_that_is_a_file_is_the_only_finding(machine: Shell) -> None:
    (machine.home / "file").touch()
    assert set(found(machine, BACKSTORY_HOME=str(machine.home / "file"))) == {"home-not-a-folder"}


def test_a_move_that_was_not_finished_is_finished(machine: Shell) -> None:
    old, new = machine.store.parent, machine.home / "new"
    new.mkdir(mode=0o700)
    (new / "moved-from").write_bytes(os.fsencode(old))
    machine.environ["BACKSTORY_HOME"] = str(new)
    assert set(found(machine)) == {"home-half-moved"}
    mend(machine, "home-half-moved")
    assert found(machine) == {}


def test_sync_without_a_login_and_without_an_answer_are_found(machine: Shell) -> None:
    config, server = (machine.store.with_name(name) for name in ("config.toml", "server.json"))
    for each in (config, server):
        each.touch(0o600)
    config.write_text('[sync]\nenabled = true\nrepositories = ["me/app"]\n')
    server.unlink()
    login = found(machine)["sync-not-logged-in"]
    assert typed(machine, login["as_typed"]).code == 0
    own = {"address": "https://team.example", "token": "t", "organisation": "o", "name": "me", "role": "member"}
    server.touch(0o600)
    server.write_text(json.dumps(own))
    assert set(found(machine)) == {"sync-waits"}
    assert found(machine)["sync-waits"]["as_typed"] == "backstory sync"


def test_a_home_that_vanished_is_begun_anew(machine: Shell) -> None:
    shutil.rmtree(machine.store.parent)
    mend(machine, "home-gone")


def test_nothing_imported_is_a_note(bare: Shell) -> None:
    bare.put("claude/tools")
    bare.environ.pop("BACKSTORY_HOME")
    done = bare("doctor")
    assert done.code == 0
    assert "nothing to mend" in done.err
    mend(bare, "nothing-imported")


def test_a_copied_home_is_a_note(machine: Shell) -> None:
    default = machine.home / ".local/share/backstory"
    shutil.copytree(machine.store.parent, default)
    copied = found(machine)["home-copied"]
    assert copied["detail"] == f"the other is {default}"
    assert machine("doctor").code == 0


def test_a_home_that_others_may_read_is_closed(machine: Shell) -> None:
    machine.store.chmod(0o644)
    mend(machine, "home-open")
    machine.store.parent.chmod(0o750)
    mend(machine, "home-open")


def test_settings_that_an_editor_wrote_in_a_closed_home_are_no_finding(machine: Shell) -> None:
    (machine.store.parent / "config.toml").write_text("")
    (machine.store.parent / "config.toml").chmod(0o644)
    assert found(machine) == {}


def test_a_read_only_home_is_found_and_opened(machine: Shell) -> None:
    with read_only(machine.store.parent):
        machine.store.parent.chmod(0o500)
        mend(machine, "home-read-only")


def as_anyone(shell: Shell, *words: str) -> Done:
    """The command without the power of root over files."""
    from tests.support.shell import Done

    done = subprocess.run(
        [*COMMAND, *words], cwd="/", env=shell.environ, capture_output=True, text=True, check=False,
        preexec_fn=without_power,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("closed", ["backstory", "."])
def test_a_home_that_may_not_be_entered_is_found_and_opened(machine: Shell, closed: str) -> None:
    folder = machine.home / closed
    try:
        folder.chmod(0)
        done = as_anyone(machine, "doctor", "--json")
        (told,) = done.json()["findings"]
        assert (done.code, told["finding"], told["command"]) == (FOUND, "home-closed", ["chmod", "u+rwx", str(folder)])
        assert as_anyone(machine, "doctor", "--bundle", "b.zip").code == NOT_CONFIRMED
        assert typed(machine, told["as_typed"]).code == 0
    finally:
        folder.chmod(0o700)
    assert found(machine) == {}


@pytest.mark.parametrize("words", [("list",), ("ingest",), ("search", "x")])
def test_every_command_says_that_a_home_may_not_be_entered(machine: Shell, words: tuple[str, ...]) -> None:
    try:
        machine.home.chmod(0)
        done = as_anyone(machine, *words)
    finally:
        machine.home.chmod(0o700)
    assert (done.code, done.err) == (66, f"backstory: Cannot read {machine.store.parent}: Permission denied.\n")


def test_a_folder_of_notes_that_may_not_be_read_stops_nothing(machine: Shell) -> None:
    notes = machine.store.with_name("installed")
    notes.mkdir(mode=0)
    done = as_anyone(machine, "doctor")
    notes.chmod(0o700)
    assert (done.code, done.err) == (0, "")


def test_a_project_that_may_not_be_entered_is_not_gone(machine: Shell) -> None:
    project = machine.home / "closed"
    (project / ".backstory").mkdir(parents=True)
    (machine.store.parent / "projects").mkdir(mode=0o700)
    note = machine.store.parent / "projects" / ("0" * 26)
    note.touch(0o600)
    note.write_text(f"{project}/.backstory/sessions.bks")
    project.chmod(0)
    done = as_anyone(machine, "doctor", "--json")
    project.chmod(0o700)
    assert done.err == ""
    assert [each["finding"] for each in done.json()["findings"]] == ["store-unreadable"]
    assert set(found(machine)) == {"store-gone"}


@pytest.mark.parametrize("mode", [0o400, 0o440 & 0o500])
def test_a_store_that_cannot_be_written_is_found_and_opened(machine: Shell, mode: int) -> None:
    machine.store.chmod(mode)
    assert found(machine)["store-read-only"]["command"] == ["chmod", "u+rw", str(machine.store)]
    mend(machine, "store-read-only")


def test_a_store_that_cannot_be_read_is_opened(machine: Shell) -> None:
    machine.store.chmod(0)
    (told,) = as_anyone(machine, "doctor", "--json").json()["findings"]
    assert told["finding"] == "store-unreadable"
    assert typed(machine, told["as_typed"]).code == 0
    assert found(machine) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_account_is_taken_back(machine: Shell) -> None:
    os.chown(machine.store, 12_345, -1)
    mend(machine, "home-of-other")


def test_a_home_that_was_moved_says_where_it_is(machine: Shell) -> None:
    assert typed(machine, f"backstory migrate-home {machine.store.parent} {machine.home}/elsewhere").code == 0
    moved = found(machine)["home-moved"]["as_typed"]
    done = typed(machine, f"{moved} && backstory list --all && backstory doctor")
    assert (done.code, "home-moved" in done.out) == (0, False)


def test_a_full_disk_is_found(machine: Shell) -> None:
    disk = machine.home / "disk"
    disk.mkdir()
    with small_disk(disk, 20):
        shutil.copytree(machine.store.parent, disk / "home")
        (disk / "fill").write_bytes(b"x" * 17_000_000)
        assert "disk-full" in found(machine, BACKSTORY_HOME=str(disk / "home"))


def test_little_room_is_a_note(machine: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_machine, "ROOM_LEAST_BYTES", 0)
    monkeypatch.setattr(maintenance, "ROOM_PART", 1e-9)
    told = found(machine)
    assert set(told) == {"disk-low"}
    done = typed(machine, told["disk-low"]["as_typed"])
    assert (done.code, "session" in done.err) == (0, True), done


def test_a_network_file_system_is_a_note(machine: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {machine.home} nfs4 rw 0 0\n")
    monkeypatch.setattr(home_state, "MOUNTS", tmp_path / "mounts")
    assert found(machine)["home-on-network"]["detail"] == "nfs4"


def test_a_mount_with_a_blank_in_its_name_is_found() -> None:
    assert kind_of_mount("/a b/c", ["s /a\\040b nfs rw 0 0", "t / ext4 rw 0 0"]) == "nfs"


def test_a_clock_that_is_behind_is_found(machine: Shell) -> None:
    later = machine.store.stat().st_mtime + 3 * 86_400
    os.utime(machine.store, (later, later))
    assert found(machine)["clock-wrong"]["command"] is None


def test_a_session_of_the_future_is_a_note(machine: Shell) -> None:
    sql(machine.store, "update sessions set last_active = 9999999999999 where id = 1")
    assert set(found(machine)) == {"times-ahead"}


def test_a_log_of_tomorrows_format_is_a_note_with_the_command_that_lists_it(bare: Shell) -> None:
    put(bare, PROMPT, NEW_TYPE | {"version": "99.0.1"})
    newer = found(bare)["format-newer"]
    assert newer["detail"].startswith("version 99.0.1, and ")
    assert newer["detail"].endswith("1 record of a type that is not known")
    done = typed(bare, newer["as_typed"])
    assert (done.code, NEW_TYPE["type"] in done.out) == (0, True)


def test_logs_that_an_agent_will_delete_are_imported(machine: Shell) -> None:
    seen = machine.store.with_name("folders.seen")
    os.utime(seen, (1_600_000_000, 1_600_000_000))
    assert found(machine)["logs-deleted-soon"]["about"] == "claude"
    mend(machine, "logs-deleted-soon")


def test_an_entry_whose_program_is_gone_is_written_anew(machine: Shell) -> None:
    assert typed(machine, "backstory mcp install claude").code == 0
    assert found(machine) == {}
    settings, (note,) = machine.home / ".claude.json", (machine.store.parent / "installed").iterdir()
    program = json.loads(settings.read_text())["mcpServers"]["backstory"]["command"]
    for each in (settings, note):
        each.write_text(each.read_text().replace(json.dumps(program)[1:-1], f"{machine.home}/gone/python"))
    mend(machine, "server-gone")


def test_an_entry_with_another_home_is_written_anew(machine: Shell) -> None:
    assert typed(machine, "backstory mcp install claude").code == 0
    moved = machine.home / "other"
    machine.store.parent.rename(moved)
    machine.environ["BACKSTORY_HOME"] = str(moved)
    mend(machine, "server-elsewhere")


def test_an_earlier_skill_is_brought_up_to_date(machine: Shell) -> None:
    from backstory.workspace.clients.settings_change import sha256_of

    assert typed(machine, "backstory skill install claude").code == 0
    (note,) = (machine.store.parent / "installed").iterdir()
    said = json.loads(note.read_text())
    (skill,) = machine.home.glob(".claude/skills/backstory/SKILL.md")
    skill.write_text("earlier")
    note.write_text(json.dumps(said | {"sha256": sha256_of(b"earlier")}))
    mend(machine, "skill-outdated")


def test_a_skill_that_a_person_changed_is_theirs(machine: Shell) -> None:
    assert typed(machine, "backstory skill install claude").code == 0
    (skill,) = machine.home.glob(".claude/skills/backstory/SKILL.md")
    skill.write_text("mine")
    assert found(machine) == {}


def test_a_timer_whose_program_is_gone_is_written_anew(machine: Shell) -> None:
    table = put_crontab(own := machine.home / "bin")
    machine.environ["PATH"] = f"{own}:{machine.environ['PATH']}"
    machine.environ["XDG_RUNTIME_DIR"] = str(machine.home / "run")
    assert typed(machine, "backstory ingest --schedule").code == 0
    assert found(machine) == {}
    table.write_text("# somebody took it out\n")
    mend(machine, "timer-dead")


def test_settings_that_cannot_be_read_are_found(machine: Shell) -> None:
    config = machine.store.with_name("config.toml")
    config.touch(0o600)
    config.write_text("[run\n")
    assert "config.toml" in found(machine)["settings-broken"]["detail"]


def test_what_a_sqlite_lacks_is_told() -> None:
    assert untouched.sqlite_lacks("3.42.9", ("ENABLE_FTS5",)) == ["version 3.43"]
    assert untouched.sqlite_lacks("3.43.0", ("ENABLE_FTS5",)) == []


def test_every_finding_is_documented() -> None:
    page = (ROOT / "docs/doctor.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `") and ".json`" not in line}
    assert set(rows) == set(KINDS)
    for name, kind in KINDS.items():
        assert kind.means in rows[name]
        assert ("mend" if kind.is_ill else "note") in rows[name]


def test_a_store_that_was_named_and_is_not_there_is_an_error(machine: Shell) -> None:
    assert machine("doctor", "--store", "none.bks").code == NOT_THERE


def test_a_home_that_cannot_be_written_is_not_to_be_filled(bare: Shell) -> None:
    bare.store.parent.mkdir(mode=0o500)
    assert set(found(bare)) == {"home-read-only"}


def test_an_index_is_outdated_as_soon_as_the_settings_say_something_else(machine: Shell) -> None:
    config = machine.store.with_name("config.toml")
    config.touch(0o600)
    config.write_text("[index]\nenabled = false\n")
    assert machine("reindex").code == 0
    assert found(machine) == {}
    config.write_text("")
    mend(machine, "index-outdated")


def test_where_the_home_store_is_off_no_import_is_missed(machine: Shell) -> None:
    config = machine.store.with_name("config.toml")
    config.touch(0o600)
    config.write_text("[store]\nenabled = false\n")
    os.utime(machine.store.with_name("folders.seen"), (1_600_000_000, 1_600_000_000))
    sql(machine.store, "insert into search_index(search_index, rank) values ('automerge', 0)")
    sql(machine.store, "insert into meta(key, value) values ('stale', '1')")
    told = found(machine)
    assert {name: each["command"] for name, each in told.items()} == {
        "ingest-cut-off": None,
        "derived-stale": ["backstory", "reindex", "--derived", "--store", str(machine.store)],
    }
    machine.store.unlink()
    assert found(machine) == {}


def test_a_command_about_a_store_that_was_named_names_it(bare: Shell, tmp_path: Path) -> None:
    put(bare, PROMPT, NEW_TYPE)
    named = tmp_path / "a b.db"
    shutil.move(bare.store, named)
    told = {each["finding"]: each for each in bare("doctor", "--store", str(named), "--json").json()["findings"]}
    done = typed(bare, told["format-newer"]["as_typed"])
    assert (done.code, NEW_TYPE["type"] in done.out) == (0, True)


def test_a_command_that_cannot_be_printed_is_left_out(machine: Shell) -> None:
    odd = machine.home / "a\nb"
    machine.store.parent.rename(odd)
    odd.chmod(0o755)
    machine.environ["BACKSTORY_HOME"] = str(odd)
    told = found(machine)["home-open"]
    assert (told["command"], told["about"]) == (None, str(odd))
    assert "chmod" not in machine("doctor").out
    assert machine("doctor", "--fix", "--yes").code == FOUND


@pytest.mark.parametrize("version", [5, 6])
def test_a_home_that_is_not_utf_8_is_a_finding(bare: Shell, version: int) -> None:
    home = bare.home / "m\udcff"
    home.mkdir(mode=0o755)
    shutil.copy(GOLDEN / f"store-v{version}.bks", home / "store.db")
    (home / "store.db").chmod(0o600)
    told = found(bare, BACKSTORY_HOME=str(home))
    assert set(told) == {"home-open", "store-unreadable"}
    assert [each["command"] for each in told.values()] == [None, None]
    assert told["store-unreadable"]["about"] == f"{bare.home}/m\\udcff/store.db"
    assert bare("doctor", BACKSTORY_HOME=str(home)).code == FOUND


# --fix ----------------------------------------------------------------------------------------------------------------


NOT_CONFIRMED, INTERRUPTED = 64, 130


def test_a_fix_on_a_full_disk_leaves_all_as_it_was_and_is_done_when_there_is_room(machine: Shell) -> None:
    disk = machine.home / "disk"
    disk.mkdir()
    with small_disk(disk, 40):
        home = disk / "home"
        shutil.copytree(machine.store.parent, home)
        sql(home / "store.db", "delete from meta where key = 'erased'")
        with suppress(OSError):
            (disk / "fill").write_bytes(b"x" * 40 * 1024 * 1024)
        done = machine("doctor", "--fix", "--yes", "--json", BACKSTORY_HOME=str(home))
        assert [each["exit_code"] for each in done.json()["fixed"]] == [FULL]
        assert {"disk-full", "not-erased"} <= {each["finding"] for each in done.json()["findings"]}
        (disk / "fill").unlink()
        assert machine("verify", BACKSTORY_HOME=str(home)).code == 0
        assert machine("doctor", "--fix", "--yes", BACKSTORY_HOME=str(home)).code == 0


def several(shell: Shell) -> None:
    """A machine with findings that are safe to mend, and one that is not."""
    sql(shell.store, "insert into meta(key, value) values ('stale', '1')")
    sql(shell.store, "update logs set derived = 1")
    sql(shell.store, "delete from meta where key = 'erased'")
    kill_a_writer(shell)
    shell.store.parent.chmod(0o755)


def test_fix_runs_what_is_safe(machine: Shell) -> None:
    several(machine)
    done = machine("doctor", "--fix", "--yes")
    assert (done.code, done.out) == (0, "Nothing found: all is well.\n")
    listed = done.err.splitlines()
    assert listed[0] == f"chmod -R go= {machine.store.parent}"
    assert done.err.endswith("4 commands run.\n")
    assert machine("verify").code == 0


def test_fix_without_a_person_or_yes_changes_nothing(machine: Shell) -> None:
    several(machine)
    before = files(machine.home)
    done = machine("doctor", "--fix")
    assert (done.code, done.out) == (NOT_CONFIRMED, "")
    assert done.err.startswith("chmod -R go= ")
    assert files(machine.home) == before


def test_fix_asks_at_a_terminal(machine: Shell) -> None:
    several(machine)
    before = files(machine.home)
    with Terminal([*COMMAND, "doctor", "--fix"], machine.cwd, machine.environ, is_copied=True) as terminal:
        terminal.until("Running 4 commands: go on? [y/N]")
        terminal.type("n\r")
        shown = terminal.end()
    assert "Kept." in shown
    assert files(machine.home) == before


def test_what_is_not_safe_is_left_to_the_person(machine: Shell) -> None:
    (machine.store.parent / "config.toml").write_text("[run\n")
    (machine.store.parent / "config.toml").chmod(0o600)
    done = machine("doctor", "--fix")
    assert done.code == FOUND
    assert "None of their commands is safe to run unasked." in done.err


def test_fix_says_what_failed_and_goes_on(machine: Shell) -> None:
    several(machine)
    (machine.home / "bin").mkdir()
    (machine.home / "bin/chmod").write_text("#!/bin/sh\nexit 3\n")
    (machine.home / "bin/chmod").chmod(0o755)
    done = machine("doctor", "--fix", "--yes", "--json", PATH=f"{machine.home}/bin:{machine.environ['PATH']}")
    told = done.json()
    assert [each["exit_code"] for each in told["fixed"]] == [3, 0, 0, 0]
    assert ([each["finding"] for each in told["findings"]], done.code) == (["home-open"], FOUND)


@pytest.mark.parametrize("settings", ['[prune]\nolder = "1d"\n', '[prune]\nto_size = "1K"\n[list]\nlimit = "x"\n'])
def test_fix_prunes_nothing_where_a_rule_would(machine: Shell, settings: str) -> None:
    """Also where a setting is wrong beside the rule."""
    config = machine.store.with_name("config.toml")
    config.touch(0o600)
    config.write_text(settings)
    sql(machine.store, "insert into search_index(search_index, rank) values ('automerge', 0)")
    sql(machine.store, "update logs set derived = 1")
    sql(machine.store, "insert into meta(key, value) values ('stale', '1')")
    os.utime(machine.store.with_name("folders.seen"), (1_600_000_000, 1_600_000_000))
    before = machine("list", "--all", "--json").json()
    told = found(machine)
    assert told["derived-stale"]["command"] == ["backstory", "reindex", "--derived", "--store", str(machine.store)]
    assert {name for name, each in told.items() if each["command"] == ["backstory", "ingest"]} == {
        "ingest-cut-off", "logs-deleted-soon",
    }  # fmt: skip
    done = machine("doctor", "--fix", "--yes", "--json")
    assert not [each["as_typed"] for each in done.json()["fixed"] if "ingest" in each["as_typed"]]
    assert "derived-stale" not in {each["finding"] for each in done.json()["findings"]}
    assert machine("list", "--all", "--json").json() == before != []


@pytest.mark.slow
@pytest.mark.parametrize("at", range(4))
def test_a_fix_that_is_killed_is_finished_by_the_next(machine: Shell, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    several(machine)
    run, begun = subprocess.run, list[str]()

    def killed(words: list[str], **how: Any) -> Any:
        begun.append(words[0])
        if len(begun) <= at:
            return run(words, **how)
        how.pop("check")
        with subprocess.Popen(words, **how) as process:
            process.kill()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", killed)
    assert machine("doctor", "--fix", "--yes").code == INTERRUPTED
    monkeypatch.undo()
    assert len(begun) == at + 1
    assert machine("doctor", "--fix", "--yes").code == 0
    assert machine("verify").code == 0
