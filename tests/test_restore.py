"""Logs, written out again byte for byte, and nowhere they should not be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.errors import CannotWrite, FileInTheWay, StoreDamaged
from backstory.restore import restore
from tests.ingest.machines import SMALL, Machine, case, claude_log, conversation, lines, looked_up, place, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.restore import Restored


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def everything(machine: Machine, out: Path, *, force: bool = False) -> list[Restored]:
    store = machine.store
    return [restore(store, store.session(log.session_id), log, out, force=force) for log in store.logs()]


def test_every_log_lies_below_its_agents_folder_as_it_did(machine: Machine, out: Path) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    everything(machine, out)
    for name in SMALL:
        agent, _, below = str(place(name)).partition("/")
        assert (out / agent.removeprefix(".") / below).read_bytes() == case(name)
    assert sum(path.is_file() for path in out.rglob("*")) == len(SMALL)


def test_what_is_told_of_a_log_is_what_was_written(machine: Machine, out: Path) -> None:
    path = machine.put("claude/tools")
    machine.read()
    (told,) = everything(machine, out)
    data = case("claude/tools")
    assert (told.original, told.bytes, told.sha256) == (str(path), len(data), sha256(data))
    assert Path(told.written).read_bytes() == data


def test_a_restored_log_has_its_time_and_is_only_its_owners(machine: Machine, out: Path) -> None:
    path = machine.put("claude/tools")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    machine.read()
    (told,) = everything(machine, out)
    found = Path(told.written).stat()
    assert (found.st_mtime_ns // 1_000_000, found.st_mode & 0o777) == (1_700_000_000_123, 0o600)


def test_a_file_that_is_there_and_the_same_is_no_trouble(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    assert everything(machine, out) == everything(machine, out)


def test_a_file_that_is_there_and_differs_is_left_as_it_is(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    (told,) = everything(machine, out)
    target = Path(told.written)
    target.write_bytes(b"mine")
    with pytest.raises(FileInTheWay, match=target.name):
        everything(machine, out)
    assert target.read_bytes() == b"mine"
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    everything(machine, out, force=True)
    assert target.read_bytes() == case("claude/tools")


def test_both_tellings_of_a_rewritten_log_are_given_back(machine: Machine, out: Path) -> None:
    said = conversation(6)
    machine.write(claude_log("log"), lines(*said))
    machine.read()
    machine.write(claude_log("log"), lines(*said[:2], *conversation(2, 10)))
    machine.read()
    everything(machine, out)
    folder = out / "claude/projects/-home-dev-work"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "log.1.jsonl": lines(*said),
        "log.jsonl": lines(*said[:2], *conversation(2, 10)),
    }


@pytest.mark.parametrize("name", ["../../../escaped", "/etc/escaped", "a/../../../escaped", "..", ""])
def test_a_name_in_a_store_does_not_lead_out_of_the_folder(machine: Machine, out: Path, name: str) -> None:
    machine.put("claude/tools")
    machine.read()
    machine.close()
    looked_up(machine.store_path, "update logs set relpath = ?", name)
    (told,) = everything(machine, out)
    assert Path(told.written).resolve().is_relative_to(out.resolve())


@pytest.mark.parametrize("agent", ["../../up", "/dev/null/x", ".."])
def test_an_agents_name_in_a_store_does_not_lead_out_of_the_folder(machine: Machine, out: Path, agent: str) -> None:
    machine.put("claude/tools")
    machine.read()
    machine.close()
    looked_up(machine.store_path, "update logs set agent = ?", agent)
    (told,) = everything(machine, out / "deep" / "er")
    assert Path(told.written).resolve().is_relative_to((out / "deep" / "er").resolve())


def test_damaged_bytes_are_not_given_back_as_if_whole(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    machine.close()
    looked_up(machine.store_path, "update chunks set sha256 = zeroblob(32)")
    with pytest.raises(StoreDamaged):
        everything(machine, out)
    assert [path for path in out.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_is_named(machine: Machine, tmp_path: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CannotWrite, match="file"):
        everything(machine, tmp_path / "file")
