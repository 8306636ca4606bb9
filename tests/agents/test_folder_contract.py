"""An agent whose sessions are folders keeps the contract; one that does not is told what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory.agents.conformance import folder_faults, part_faults
from backstory.agents.contract import Agent, FolderOrder
from backstory.agents.turn_fold import TurnState
from tests.agents.example import Reader
from tests.support.folders import CHUNKED, EVENTFUL, ChunkedSession, Chunks, Events, EventSession, Logs, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path, PurePath

    from backstory.model import LogIdentity


@pytest.fixture
def chunked(tmp_path: Path) -> Path:
    session = ChunkedSession(tmp_path)
    session.append(said(1), said(2), said(3))
    return session.folder


@pytest.fixture
def eventful(tmp_path: Path) -> Path:
    session = EventSession(tmp_path)
    for number in (1, 2, 3):
        session.put(number, said(number))
    return session.folder


def test_a_folder_of_chunks_keeps_the_contract(chunked: Path) -> None:
    assert [*part_faults(CHUNKED), *folder_faults(CHUNKED, chunked)] == []


def test_a_folder_of_events_keeps_the_contract(eventful: Path) -> None:
    assert [*part_faults(EVENTFUL), *folder_faults(EVENTFUL, eventful)] == []


class Anything(Chunks):
    def folder_of(self, below: PurePath) -> PurePath | None:
        return below


class Elsewhere(Chunks):
    head = "LATEST"


class Twice(Events):
    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        found = super().order(names, read)
        return msgspec.structs.replace(found, names=[*found.names, *found.names[:1]])


class Credulous(Chunks):
    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        return FolderOrder(names=msgspec.json.decode(read("CURRENT"))["chunks"])


class Pessimist(Chunks):
    def order(self, names: Sequence[str], read: Callable[[str], bytes]) -> FolderOrder:
        return msgspec.structs.replace(super().order(names, read), missing="something is always missing")


class Overlapping(Chunks):
    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        found = super().records(name, content)
        return found and [*found, found[0]]


class Halved(Events):
    def records(self, name: str, content: bytes) -> Sequence[tuple[int, int]] | None:
        return [(0, len(content))]


class Forgetful(Logs):
    """Its reader takes each record for a new one."""

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader("chunked", identity, state, TurnState)


def broken(folders: Any) -> Agent:
    return msgspec.structs.replace(EVENTFUL if isinstance(folders, Events) else CHUNKED, folders=folders)


@pytest.mark.parametrize(
    ("agent", "fault"),
    [
        (broken(Anything()), "takes any folder for a session's"),
        (broken(Elsewhere()), "'LATEST' is not in it"),
        (broken(Credulous()), "where files are gone or broken"),
        (broken(Pessimist()), "for a whole folder"),
        (broken(Overlapping()), "behind the one before"),
        (msgspec.structs.replace(CHUNKED, log=Forgetful("chunked", "CURRENT")), "come again for others"),
    ],
)
def test_a_broken_agent_of_chunks_is_told_what_is_wrong(agent: Agent, fault: str, chunked: Path) -> None:
    assert any(fault in each for each in folder_faults(agent, chunked))


@pytest.mark.parametrize(
    ("agent", "fault"),
    [(broken(Twice()), "each once"), (broken(Halved()), "takes half of events/00001.json for whole")],
)
def test_a_broken_agent_of_events_is_told_what_is_wrong(agent: Agent, fault: str, eventful: Path) -> None:
    assert any(fault in each for each in folder_faults(agent, eventful))
