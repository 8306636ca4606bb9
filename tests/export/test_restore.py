"""Logs, written out again byte for byte, all that can be, and nowhere they should not be."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.export.restore import NAME_BYTES_MAX, File, Restoring, named_apart
from backstory.store import open_store
from tests.support.machines import (
    CLAUDE_FOLDER,
    CODEX_FOLDER,
    SMALL,
    Machine,
    case,
    claude_log,
    conversation,
    lies,
    lines,
    looked_up,
    place,
    restored,
    sha256,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.export.restore import Restored

OUT_FOLDER = "claude/projects/-home-dev-work"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def everything(machine: Machine, out: Path, *, force: bool = False) -> list[Restored]:
    return restored(machine.store, out, force=force)


def three_logs(machine: Machine) -> dict[str, bytes]:
    """Three small logs of as many sessions, read; by their names."""
    logs = {f"log-{n}.jsonl": lines(*conversation(6, 10 * n)) for n in range(3)}
    for name, data in logs.items():
        machine.write(CLAUDE_FOLDER / name, data)
    machine.read()
    return logs


def written(out: Path) -> dict[str, bytes]:
    """What lies in the folder of those logs, by name."""
    return {path.name: path.read_bytes() for path in (out / OUT_FOLDER).iterdir() if path.is_file()}


def failed(told: list[Restored]) -> dict[str, str]:
    """Why logs were not given back, by their names."""
    return {Path(each.original).name: each.error for each in told if each.error is not None}


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
    assert (told.original, told.bytes, told.sha256, told.error) == (str(path), len(data), sha256(data), None)
    assert told.session == machine.store.sessions()[0].uid
    assert lies(told).read_bytes() == data


def test_a_restored_log_has_its_time(machine: Machine, out: Path) -> None:
    path = machine.put("claude/tools")
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    machine.read()
    (told,) = everything(machine, out)
    assert lies(told).stat().st_mtime_ns // 1_000_000 == 1_700_000_000_123


def test_a_time_that_no_file_can_have_keeps_nothing_back(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    looked_up(machine.store_path, "update logs set modified = 9223372036854775807")
    (told,) = everything(machine, out)
    assert lies(told).read_bytes() == case("claude/tools")


def test_whatever_the_umask_all_that_is_made_is_its_owners_alone(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    before = os.umask(0)
    try:
        everything(machine, out / "deep" / "er")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (out, *out.rglob("*")) if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()} == {0o600}


# what is in the way -------------------------------------------------------------------------------------------


def test_what_is_there_and_the_same_is_left_as_it_is(machine: Machine, out: Path) -> None:
    three_logs(machine)
    first = everything(machine, out)
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.rglob("*")}
    assert everything(machine, out) == first
    assert everything(machine, out, force=True) == first
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.rglob("*")} == before


def test_a_file_that_is_there_and_differs_is_left_as_it_is_and_the_others_are_written(
    machine: Machine, out: Path
) -> None:
    logs = three_logs(machine)
    (out / OUT_FOLDER).mkdir(parents=True)
    (out / OUT_FOLDER / "log-1.jsonl").write_bytes(b"mine")
    told = everything(machine, out)
    assert [*failed(told)] == ["log-1.jsonl"]
    assert "log-1.jsonl exists and differs" in failed(told)["log-1.jsonl"]
    assert written(out) == logs | {"log-1.jsonl": b"mine"}
    assert failed(everything(machine, out, force=True)) == {}
    assert written(out) == logs


def a_link(path: Path) -> None:
    path.symlink_to(path.with_name("precious.txt"))


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket may not be as long as a path in a test's folder is.
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


IN_THE_WAY = [a_link, Path.mkdir, a_pipe, a_socket]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("put", IN_THE_WAY)
def test_what_is_no_file_is_neither_followed_nor_replaced_nor_waited_for(
    machine: Machine, out: Path, put: Callable[[Path], None], force: bool
) -> None:
    logs = three_logs(machine)
    (out / OUT_FOLDER).mkdir(parents=True)
    (out / OUT_FOLDER / "precious.txt").write_bytes(b"precious")
    put(out / OUT_FOLDER / "log-1.jsonl")
    before = (out / OUT_FOLDER / "log-1.jsonl").lstat()
    told = everything(machine, out, force=force)
    assert "log-1.jsonl is a " in failed(told)["log-1.jsonl"]
    assert (out / OUT_FOLDER / "log-1.jsonl").lstat().st_ino == before.st_ino
    assert (out / OUT_FOLDER / "precious.txt").read_bytes() == b"precious"
    assert (out / OUT_FOLDER / "log-2.jsonl").read_bytes() == logs["log-2.jsonl"]


@pytest.mark.parametrize("put", [a_link, a_pipe, Path.touch])
@pytest.mark.parametrize("below", ["claude", "claude/projects", OUT_FOLDER])
def test_a_folder_that_is_none_is_not_gone_through(
    machine: Machine, out: Path, put: Callable[[Path], None], below: str
) -> None:
    three_logs(machine)
    (out / below).parent.mkdir(parents=True)
    (out / below).with_name("precious.txt").mkdir()
    put(out / below)
    assert len(failed(everything(machine, out))) == 3
    assert list((out / below).with_name("precious.txt").iterdir()) == []


def test_the_folder_itself_may_be_a_link(machine: Machine, out: Path, tmp_path: Path) -> None:
    logs = three_logs(machine)
    (tmp_path / "disk").mkdir()
    out.symlink_to(tmp_path / "disk")
    everything(machine, out)
    assert written(tmp_path / "disk") == logs


def test_files_that_lie_beside_a_log_are_not_touched(machine: Machine, out: Path) -> None:
    logs = three_logs(machine)
    (out / OUT_FOLDER).mkdir(parents=True)
    (out / OUT_FOLDER / ".log-1.jsonl.part").write_bytes(b"mine")
    (out / OUT_FOLDER / "precious.txt").write_bytes(b"precious")
    (out / OUT_FOLDER / ".log-2.jsonl.part").symlink_to("precious.txt")
    assert failed(everything(machine, out)) == {}
    mine = {".log-1.jsonl.part": b"mine", ".log-2.jsonl.part": b"precious", "precious.txt": b"precious"}
    assert written(out) == logs | mine


def test_a_folder_that_cannot_be_written_is_named(machine: Machine, tmp_path: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    (tmp_path / "file").write_text("in the way")
    (told,) = everything(machine, tmp_path / "file")
    assert f"Cannot write {tmp_path / 'file'}" in (told.error or "")


# names --------------------------------------------------------------------------------------------------------


def test_both_tellings_of_a_rewritten_log_are_given_back(machine: Machine, out: Path) -> None:
    said = conversation(6)
    machine.write(claude_log("log"), lines(*said))
    machine.read()
    machine.write(claude_log("log"), lines(*said[:2], *conversation(2, 10)))
    machine.read()
    everything(machine, out)
    assert written(out) == {"log.1.jsonl": lines(*said), "log.jsonl": lines(*said[:2], *conversation(2, 10))}


def test_an_older_telling_takes_no_other_logs_name(machine: Machine, out: Path) -> None:
    said = conversation(6)
    machine.write(claude_log("log"), lines(*said))
    machine.write(claude_log("log.1"), lines(*conversation(4, 20)))
    machine.read()
    machine.write(claude_log("log"), lines(*conversation(2, 10)))
    machine.read()
    for _ in range(2):
        assert failed(everything(machine, out)) == {}
        assert written(out) == {
            "log.jsonl": lines(*conversation(2, 10)),
            "log.1.jsonl": lines(*conversation(4, 20)),
            "log.2.jsonl": lines(*said),
        }


def test_two_sessions_that_were_in_one_file_are_both_given_back(machine: Machine, out: Path) -> None:
    said = {
        each: b'{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"%s","cwd":"/p"}}\n' % each
        for each in (b"first", b"second")
    }
    for data in said.values():
        machine.write(CODEX_FOLDER / "rollout-1.jsonl", data)
        machine.read()
    for _ in range(2):
        assert failed(everything(machine, out)) == {}
        folder = out / "codex" / CODEX_FOLDER.relative_to(".codex")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
            "rollout-1.1.jsonl": said[b"first"],
            "rollout-1.jsonl": said[b"second"],
        }


def test_one_session_is_called_as_it_is_among_all(machine: Machine, out: Path) -> None:
    machine.write(CODEX_FOLDER / "rollout-1.jsonl", case("codex/mcp"))
    machine.read()
    first = machine.store.sessions()[0]
    machine.write(CODEX_FOLDER / "rollout-1.jsonl", case("codex/queued-prompt"))
    machine.read()
    (alone,) = restored(machine.store, out, only=first)
    assert lies(alone).name == "rollout-1.1.jsonl"


def test_a_log_that_two_stores_have_is_one_file(machine: Machine, out: Path, tmp_path: Path) -> None:
    logs = three_logs(machine)
    machine.store.backup(tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db") as copy:
        restoring = Restoring([machine.store, copy], out, force=False)
        assert failed(list(restoring.each(restoring.logs))) == {}
    assert written(out) == logs


def test_files_of_one_name_beside_two_tellings_are_both_given_back(machine: Machine, out: Path) -> None:
    machine.write(claude_log("log"), lines(*conversation(6)))
    machine.read()
    machine.write(claude_log("log"), lines(*conversation(2, 10)))
    machine.write(CLAUDE_FOLDER / "log/tool-results/a.txt", b"second")
    machine.write(CLAUDE_FOLDER / "log/tool-results/b.txt", b"first")
    machine.read()
    looked_up(
        machine.store_path,
        "update sidecars set log_id = 1, name = replace(name, 'b.txt', 'a.txt') where name like '%b.txt'",
    )
    told = everything(machine, out)
    assert {lies(one).name: lies(one).read_bytes() for each in told for one in each.companions} == {
        "a.txt": b"second",
        "a.1.txt": b"first",
    }


@pytest.mark.parametrize("length", [249, 250, NAME_BYTES_MAX])
def test_a_long_name_is_no_trouble(machine: Machine, out: Path, length: int) -> None:
    name = "é" * ((length - 6) // 2) + "x" * (length % 2) + ".jsonl"
    machine.write(CLAUDE_FOLDER / name, lines(*conversation(6)))
    machine.read()
    machine.write(CLAUDE_FOLDER / name, lines(*conversation(2, 10)))
    machine.read()
    assert failed(everything(machine, out)) == {}
    assert sorted(written(out).values()) == sorted([lines(*conversation(6)), lines(*conversation(2, 10))])


@pytest.mark.parametrize("name", ["../../../escaped", "a/../../../escaped", "..", "a/b\0c"])
def test_a_name_that_leads_out_of_the_folder_is_told_and_stops_nothing(machine: Machine, out: Path, name: str) -> None:
    three_logs(machine)
    looked_up(machine.store_path, "update logs set relpath = ? where id = 1", name)
    told = everything(machine, out / "deep" / "er")
    assert [each.error is None for each in told] == [False, True, True]
    assert "is not a path inside the folder" in (told[0].error or "")
    assert list(out.parent.rglob("escaped*")) == []


@pytest.mark.parametrize("name", ["/etc/escaped", "//escaped", ".", "", "~/escaped", "x/./y"])
def test_any_other_name_lies_inside_the_folder(machine: Machine, out: Path, name: str) -> None:
    machine.put("claude/tools")
    machine.read()
    looked_up(machine.store_path, "update logs set relpath = ?", name)
    (told,) = everything(machine, out)
    assert lies(told).resolve().is_relative_to(out.resolve() / "claude")


@pytest.mark.parametrize("agent", ["../../up", "/dev/null/x", ".."])
def test_an_agents_name_in_a_store_does_not_lead_out_of_the_folder(machine: Machine, out: Path, agent: str) -> None:
    machine.put("claude/tools")
    machine.read()
    looked_up(machine.store_path, "update logs set agent = ?", agent)
    (told,) = everything(machine, out / "deep" / "er")
    assert (told.error is None) == (".." not in agent)
    assert {path for path in out.parent.rglob("*.jsonl") if not path.is_relative_to(machine.home)} == (
        set() if ".." in agent else {lies(told)}
    )


def test_a_path_that_is_too_long_makes_no_folders(machine: Machine, out: Path) -> None:
    machine.put("claude/tools")
    machine.read()
    looked_up(machine.store_path, "update logs set relpath = ?", "a/" * 3000 + "b")
    (told,) = everything(machine, out)
    assert told.error is not None
    assert not out.exists()


FILES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "b", "a.1", "a.2.x", "a.x", "é" * 126 + ".x"]), min_size=1, max_size=2).map(
            tuple
        ),
        st.integers(0, 4),
        st.integers(-1, 3),
    ).map(lambda each: File(*each)),
    max_size=12,
)


@given(FILES)
def test_no_two_files_get_one_place_and_each_name_stays_with_one_that_has_it(files: list[File]) -> None:
    given = named_apart(files)
    assert given == named_apart(files)
    assert given.keys() == {(file.parts, file.content) for file in files}
    assert len(set(given.values())) == len(given)
    assert set(given.values()) >= {file.parts for file in files}
    assert all(given[file.parts, file.content] == file.parts for file in {file.parts: file for file in files}.values())
    assert all(len(os.fsencode(name)) <= NAME_BYTES_MAX for place in given.values() for name in place)


# damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    ["update chunks set sha256 = zeroblob(32) where log_id = 2", "update chunks set data = x'00' where log_id = 2",
     "update chunks set start = start + 1 where log_id = 2", "delete from chunks where log_id = 2"],
)  # fmt: skip
def test_a_damaged_log_is_told_and_the_others_are_given_back(machine: Machine, out: Path, damage: str) -> None:
    logs = three_logs(machine)
    looked_up(machine.store_path, damage)
    damaged = Path(machine.store.logs()[1].path).name
    told = everything(machine, out)
    assert [*failed(told)] == [damaged]
    assert "is damaged" in failed(told)[damaged]
    assert written(out) == {name: data for name, data in logs.items() if name != damaged}


def test_a_log_whose_session_cannot_be_read_is_given_back(machine: Machine, out: Path) -> None:
    logs = three_logs(machine)
    looked_up(machine.store_path, "update logs set session_id = 99 where id = 2")
    told = everything(machine, out)
    assert written(out) == logs
    assert [each.session == "" for each in told] == [False, True, False]


def test_a_row_that_cannot_be_read_keeps_no_other_log_back(machine: Machine, out: Path) -> None:
    logs = three_logs(machine)
    damaged = Path(machine.store.logs()[1].path).name
    looked_up(machine.store_path, "update logs set relpath = x'ff' where id = 2")
    (lost, *_) = told = everything(machine, out)
    assert len(told) == 3
    assert "log 2" in (lost.error or "")
    assert written(out) == {name: data for name, data in logs.items() if name != damaged}


def test_a_hurt_page_of_the_list_of_logs_costs_only_the_logs_on_it(machine: Machine, out: Path) -> None:
    for n in range(200):
        machine.write(CLAUDE_FOLDER / f"log-{n:03}.jsonl", lines(*conversation(2, 10 * n)))
    machine.read()
    machine.close()
    pages = looked_up(
        machine.store_path, "select pageno from dbstat where name = 'logs' and pagetype = 'leaf' order by pageno"
    )
    looked_up(machine.store_path, "pragma wal_checkpoint(truncate)")
    assert len(pages) > 2
    with machine.store_path.open("r+b") as file:
        file.seek((int(pages[1][0]) - 1) * 8192)
        file.write(b"\xff" * 64)
    told = everything(machine, out)
    assert 20 < len(written(out)) < 200
    assert len(told) == 200
    assert all("cannot be read" in (each.error or "") for each in told if each.written is None)
