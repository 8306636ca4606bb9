"""Folders that read as one log: every byte kept once, read on from what is new, and given back as they lay there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.agents.jsonl import FOLDER_LINE
from backstory.ingest.folder_log import FileMark, FolderLog, grown
from backstory.ingest.folders import files_in
from tests.support.folders import (
    CHUNKED,
    EVENTFUL,
    ChunkedSession,
    EventSession,
    files_below,
    register,
    said,
)
from tests.support.machines import prompts, restored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.agents.contract import FolderOrder, FolderPart
    from backstory.store import Store
    from tests.support.machines import Machine


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    for agent in (CHUNKED, EVENTFUL):
        register(agent, monkeypatch)


@pytest.fixture
def chunked(machine: Machine) -> ChunkedSession:
    return ChunkedSession(machine.home)


@pytest.fixture
def eventful(machine: Machine) -> EventSession:
    return EventSession(machine.home)


def read(machine: Machine) -> int:
    """Read both agents' folders; returns how many logs were read."""
    report = machine.read("chunked", "eventful")
    assert not report.errors
    return report.total("logs_read")


def stored(store: Store) -> bytes:
    (log,) = store.logs()
    return b"".join(store.stream_log(log.id))


def records_in(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines() if not line.startswith(FOLDER_LINE)]


def given_back(machine: Machine, out: Path) -> dict[str, bytes]:
    (done,) = restored(machine.store, out)
    assert done.error is None
    assert [each.error for each in done.companions] == [None] * len(done.companions)
    return files_below(Path(done.written or ""))


# what is read -------------------------------------------------------------------------------------------------------


def test_a_session_is_its_files_records_in_their_order(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1), said(2), said(3))
    assert read(machine) == 1
    assert prompts(machine.store) == ["said 1", "said 3"]


def test_what_did_not_change_is_not_read_again(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1))
    read(machine)
    assert read(machine) == 0


def test_a_chunk_that_is_extended_under_another_name_doubles_nothing(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1), said(2))
    read(machine)
    (before,) = [turn.uid for session in machine.store.sessions() for turn in machine.store.turns(session)]
    chunked.append(said(3))
    read(machine)
    (session,) = machine.store.sessions()
    assert next(turn.uid for turn in machine.store.turns(session)) == before
    assert prompts(machine.store) == ["said 1", "said 3"]
    assert records_in(stored(machine.store)) == [said(1), said(2), said(3)]


def test_a_chunk_that_only_changes_its_name_doubles_nothing(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1), said(2))
    read(machine)
    (chunked.folder / chunked.last).rename(chunked.folder / "chunks/other.json")
    chunked.put("CURRENT", b'{"chunks": ["chunks/other.json"]}')
    assert read(machine) == 1
    assert records_in(stored(machine.store)) == [said(1), said(2)]


def test_a_record_that_changes_comes_again_behind_the_others(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1), said(2))
    read(machine)
    chunked.said[1] = said(2, "said otherwise")
    chunked.append()
    read(machine)
    assert records_in(stored(machine.store)) == [said(1), said(2), said(2, "said otherwise")]


def test_an_event_that_comes_late_is_read_when_it_comes(machine: Machine, eventful: EventSession) -> None:
    eventful.put(1, said(1))
    eventful.put(4, said(4))
    read(machine)
    eventful.put(3, said(3))
    read(machine)
    assert prompts(machine.store) == ["said 1", "said 3"]
    assert records_in(stored(machine.store)) == [said(1), said(4), said(3)]


def test_an_event_half_written_is_read_when_it_is_whole(machine: Machine, eventful: EventSession) -> None:
    eventful.put(1, said(1))
    whole = said(3)
    half = eventful.put(2, whole[: len(whole) // 2])
    report = machine.read("eventful")
    assert ["events/00002.json is cut short" in each.reason for each in report.not_understood] == [True]
    assert prompts(machine.store) == ["said 1"]
    # Its folder does not change with its content.
    half.write_bytes(whole)
    read(machine)
    assert prompts(machine.store) == ["said 1", "said 3"]


def test_what_the_agent_deletes_stays(machine: Machine, eventful: EventSession, tmp_path: Path) -> None:
    first = eventful.put(1, said(1))
    eventful.put(2, said(3))
    read(machine)
    first.unlink()
    eventful.put(3, said(4))
    read(machine)
    assert prompts(machine.store) == ["said 1", "said 3"]
    assert given_back(machine, tmp_path / "out") == files_below(eventful.folder)


def test_a_session_without_a_chunk_says_so_and_the_others_are_whole(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1))
    whole = ChunkedSession(machine.home, "s-2")
    whole.append(said(5))
    (chunked.folder / chunked.last).unlink()
    report = machine.read("chunked")
    assert [each.path for each in report.not_understood] == [str(chunked.folder / "CURRENT")]
    assert "is missing" in report.not_understood[0].reason
    assert prompts(machine.store) == ["said 5"]


def test_a_chunk_that_comes_back_is_read(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1))
    content = (chunked.folder / chunked.last).read_bytes()
    (chunked.folder / chunked.last).unlink()
    machine.read("chunked")
    (chunked.folder / chunked.last).write_bytes(content)
    read(machine)
    assert prompts(machine.store) == ["said 1"]


def test_a_further_file_that_changes_alone_is_noticed(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.put("title.json", b'{"title": "one"}')
    chunked.append(said(1))
    read(machine)
    chunked.put("title.json", b'{"title": "two"}')
    assert read(machine) == 1
    assert read(machine) == 0


def test_a_folder_that_was_moved_goes_on(machine: Machine, eventful: EventSession) -> None:
    eventful.put(1, said(1))
    read(machine)
    moved = machine.home / ".eventful/s-1-moved"
    (machine.home / ".eventful/s-1").rename(moved)
    (moved / "events/00002.json").write_bytes(said(3))
    # Its name is its session's id, so it is another session here; the first one stays as it was.
    read(machine)
    assert prompts(machine.store) == ["said 1", "said 1", "said 3"]


def test_a_reading_that_did_not_end_is_read_again(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1), said(2))
    part, folder = CHUNKED.folders, chunked.folder
    assert part is not None
    marks = files_in(str(folder))
    whole = grown(part, FolderLog(b""), marks, lambda name: (folder / name).read_bytes()).content
    begun = FolderLog(whole[: whole.index(b"\n") + 1])
    assert grown(part, begun, marks, lambda name: (folder / name).read_bytes()).content == whole


def test_what_a_file_names_outside_of_its_folder_is_not_read(machine: Machine, chunked: ChunkedSession) -> None:
    chunked.append(said(1))
    part, outside = CHUNKED.folders, machine.write("secret.json", b"[]")
    assert part is not None
    asked: list[str] = []

    def read_file(name: str) -> bytes:
        asked.append(name)
        return (chunked.folder / name).read_bytes()

    class Led(type(part)):  # type: ignore[misc]
        def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
            with pytest.raises(FileNotFoundError):
                read(os.path.relpath(outside, chunked.folder))
            found: FolderOrder = super().order(names, read)
            return found

    grown(Led(), FolderLog(b""), files_in(str(chunked.folder)), read_file)
    assert sorted(set(asked)) == sorted(files_below(chunked.folder))


# what is given back -------------------------------------------------------------------------------------------------


def test_a_folder_is_given_back_byte_for_byte(machine: Machine, chunked: ChunkedSession, tmp_path: Path) -> None:
    chunked.put("state.bin", b"\xff\x00" * 4000)
    chunked.put("notes.txt", b"not a record\n" * 90)
    for number in range(1, 12):
        chunked.append(said(number))
        chunked.put("state.bin", b"\xff\x00" * 4000 + bytes([number]))
        read(machine)
    assert given_back(machine, tmp_path / "out") == files_below(chunked.folder)


@pytest.mark.parametrize(
    "content",
    [
        b"[]", b"[ ]\n", b'[\n  {"id": "a"},\n  {"id": "b"}\n]\n', b'[\r\n  {"id": "a"},\r\n  {\r\n"id": "b"}\r\n]',
        b'[{"id":"a"}{"id":"b"}]', b'[{"id":"a"} , {"id":"b"},{"id":"c"}]', b'[{"id":"a"},{"id":"a"}]', b"[1", b"",
        '[{"id":"ä"}]'.encode(), b"\xef\xbb\xbf[]", b'[{"backstory_folder":1}]',
    ],
)  # fmt: skip
def test_a_file_is_kept_as_it_is_however_it_is_written(content: bytes) -> None:
    files = {"CURRENT": b'{"chunks": ["x.json"]}', "x.json": content}
    log = logged(CHUNKED.folders, files)
    assert {name: log.bytes_of(version) for name, version in log.files.items()} == files


def logged(part: FolderPart | None, *states: dict[str, bytes]) -> FolderLog:
    """A folder's log after it was read in each of these states."""
    assert part is not None
    log = FolderLog(b"")
    for time, files in enumerate(states):
        marks = {name: FileMark(len(content), time) for name, content in files.items()}
        log = FolderLog(grown(part, log, marks, files.__getitem__).content)
    return log


def test_a_version_of_another_version_is_given_back() -> None:
    states = [{"CURRENT": b'{"chunks": []}', "state": bytes(range(256)) * 20 + b"%d" % n} for n in range(200)]
    log = logged(CHUNKED.folders, *states)
    assert log.bytes_of(log.files["state"]) == states[-1]["state"]


def test_bytes_that_were_changed_in_the_store_are_not_given_back(
    machine: Machine, chunked: ChunkedSession, tmp_path: Path
) -> None:
    chunked.append(said(1))
    read(machine)
    content = stored(machine.store).replace(b"said 1", b"told 1")
    log = FolderLog(content)
    with pytest.raises(ValueError, match="checksum"):
        log.bytes_of(log.files[chunked.last])


# what it costs --------------------------------------------------------------------------------------------------------


def appended(machine: Machine, append: Callable[[int], object], count: int) -> list[int]:
    """The bytes that are kept after each of so many appends."""
    sizes = []
    for number in range(1, count + 1):
        append(number)
        read(machine)
        sizes.append(len(stored(machine.store)))
    return sizes


def test_the_hundredth_append_keeps_no_more_than_the_tenth(machine: Machine, chunked: ChunkedSession) -> None:
    def append(number: int) -> None:
        chunked.append(said(number))
        chunked.put("state.json", json.dumps({"all": [said(n).decode() for n in range(number)]}).encode())

    sizes = appended(machine, append, 100)
    assert sizes[-1] - sizes[-2] < 2 * (sizes[10] - sizes[9])


def test_a_folder_with_many_files_is_not_looked_through_while_its_head_is_as_it_was(
    machine: Machine, eventful: EventSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 30):
        eventful.put(number, said(number))
    read(machine)
    looked: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> object:
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert read(machine) == 0
    assert [each for each in looked if "s-1" in each] == []
