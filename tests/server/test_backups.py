"""A copy of a server is made while it works, and a server that begins with one has all that it held."""

from __future__ import annotations

import errno
import json
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from backstory import errors
from backstory.errors import BackupRefused
from backstory.server import backups
from backstory.server.database import make_own, prepared
from backstory.server.postgres import own_database
from tests.support.served import RunningServer
from tests.support.typed_desks import TypedDesk, same

if TYPE_CHECKING:
    from pathlib import Path


def sends(desk: TypedDesk) -> None:
    assert desk.types("ingest").returncode == 0
    assert desk.syncs()[0] == 0


@pytest.mark.slow
def test_after_a_restore_on_an_empty_machine_a_sync_brings_what_came_after_the_copy(
    folder: Path, other_folder: Path, tmp_path: Path
) -> None:
    desk, copy = TypedDesk(tmp_path / "desk"), tmp_path / "copy"
    server = RunningServer(folder, tmp_path)
    desk.opted_in(server.address, server.code)
    desk.works("aaaaaaaa", 3)
    desk.works("bbbbbbbb", 2)
    desk.works("dddddddd", 1)
    sends(desk)
    # While it serves.
    done = desk.types("serve", "--data", str(folder), "--backup", str(copy))
    assert (done.returncode, "3 sessions" in done.stderr) == (0, True), done.stderr
    assert copy.stat().st_mode & 0o777 == 0o600
    desk.works("aaaaaaaa", 4)
    desk.works("cccccccc", 1)
    sends(desk)
    # What is taken out after the copy was made is taken out of the server that has it again.
    gone = desk.texts.index("text 5 of it")
    (taken,) = [each for each in json.loads(desk.types("list", "--all", "--json").stdout)["sessions"]
                if each["title"] == desk.texts[gone]]  # fmt: skip
    assert desk.types("sync", "forget", taken["uid"], "-y").returncode == 0
    del desk.texts[gone]
    same(desk, own_database(folder).address.replace("dbname=postgres", "dbname=backstory"), "Our team")
    assert server.end(signal.SIGTERM) == 0

    restored = desk.types("serve", "--data", str(other_folder), "--restore", str(copy))
    assert (restored.returncode, "3 sessions" in restored.stderr) == (0, True), restored.stderr
    assert "logins that were ended, after the copy was made are in again" in restored.stderr
    port = server.address.rpartition(":")[2]
    again = RunningServer(other_folder, tmp_path, "--port", port)
    assert (again.address, again.code) == (server.address, "")
    assert desk.syncs()[0] == 0
    same(desk, own_database(other_folder).address.replace("dbname=postgres", "dbname=backstory"), "Our team")
    assert again.end() == 0


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy of a server in which nobody is."""
    with backups.running(folder) as own:
        with prepared(make_own(own.address)):
            pass
        backups.back_up(folder, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.slow
def test_a_copy_is_not_brought_back_over_what_is_there(copied: Path, folder: Path) -> None:
    with pytest.raises(BackupRefused, match="has its history in"):
        backups.restore(folder, copied)
    assert backups.back_up(folder, copied.with_name("again")).organisations == 0


@pytest.mark.slow
def test_of_a_copy_that_is_cut_nothing_is_left_and_the_whole_one_comes_in(copied: Path, other_folder: Path) -> None:
    whole = copied.read_bytes()
    for part in (whole[: len(whole) // 2], b"PGDMP", b"other bytes"):
        copied.write_bytes(part)
        with pytest.raises(BackupRefused):
            backups.restore(other_folder, copied)
    copied.write_bytes(whole)
    assert backups.restore(other_folder, copied).sessions == 0
    assert not own_database(other_folder).is_running


@pytest.mark.slow
def test_an_earlier_copy_is_not_written_over(copied: Path, folder: Path) -> None:
    before = copied.read_bytes()
    with pytest.raises(errors.CannotWrite):
        backups.back_up(folder, copied)
    assert copied.read_bytes() == before
    assert [each.name for each in copied.parent.iterdir()] == ["copy"]


@pytest.mark.slow
def test_what_a_killed_restore_left_is_no_history(copied: Path, other_folder: Path) -> None:
    with backups.running(other_folder) as own:
        make_own(own.address)
    assert backups.restore(other_folder, copied).sessions == 0


@pytest.mark.slow
def test_a_database_that_a_server_came_to_meanwhile_is_left_to_it(
    copied: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "GONE_S", 0.1)
    own = own_database(folder)
    with ExitStack() as server:
        with backups.running(folder):
            server.enter_context(prepared(make_own(own.address)))
        assert own.is_running
    with backups.running(folder):
        pass
    assert own.is_running
    own.stop()


@pytest.mark.slow
def test_a_copy_comes_onto_a_disk_without_second_names(
    copied: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    again, before = copied.with_name("again"), copied.read_bytes()
    assert backups.back_up(folder, again).organisations == 0
    assert again.stat().st_mode & 0o777 == 0o600
    with pytest.raises(errors.CannotWrite):
        backups.back_up(folder, copied)
    assert copied.read_bytes() == before
    assert sorted(each.name for each in copied.parent.iterdir()) == ["again", "copy"]


def test_there_is_no_copy_of_a_folder_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="there is no server's database"):
        backups.back_up(tmp_path / "none", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
