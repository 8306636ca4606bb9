"""Frames in a folder that several machines see: files that nobody writes over, taken whole or not at all."""

from __future__ import annotations

import shutil
import stat
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.errors import PassphraseMissing, PassphraseWrong
from backstory.exchange.frames import START, FrameHead, FramePoint, FrameVerdict, verdict
from backstory.model import AssistantText, UserMessage
from backstory.sync import folder as folders
from backstory.sync import sealing
from backstory.sync.folder import FolderSource, FrameIndex, Passphrase, writers
from backstory.sync.pull_plan import SentPoint
from backstory.workspace.stores.pulling import noted, pull
from backstory.workspace.stores.pushing import own_writer, push
from tests.support.portable import held
from tests.support.pulled import PullingMachine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.workspace.stores.pulling import Pulled
    from backstory.workspace.stores.pushing import Pushed

SAID = "a passphrase of tests"
UID = "01M3250V00CJ5X1JHP0Z69AWSQ"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that take no time."""
    monkeypatch.setattr(sealing, "COST", 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder"


def pushed(machine: PullingMachine, folder: Path, said: str | None = SAID, *, anew: bool = False) -> Pushed:
    done = push(machine.workspace, folder, None if said is None else Passphrase(lambda: said or None), anew=anew)
    assert done.failed == []
    return done


def pulled(machine: PullingMachine, folder: Path, said: str = SAID, *, plain: bool = True) -> list[Pulled]:
    own = own_writer(machine.workspace, folder)
    return [
        pull(
            machine.workspace,
            FolderSource(
                each, Passphrase(lambda: said or None, reads_plain=plain), noted(machine.workspace, each.name).files
            ),
        )
        for each in writers(folder)[0]
        if each.name != own
    ]


def came(done: list[Pulled]) -> dict[str, int]:
    assert [each.failed for each in done if each.failed] == []
    words = {word for each in done for word, uids in each.came.items() if uids}
    return {word: sum(len(each.came[word]) for each in done) for word in words}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.frames"))


def goes_on(machine: PullingMachine, text: str) -> None:
    """Have the last session of a machine go on, or the first one begin."""
    stored = machine.store.sessions() if machine.store.exists else []
    known = [each for each in stored if each.name == "talk"]
    talk = machine.store.session(known[0].uid) if known else machine.store.create_session("talk")
    machine.store.append_events(talk, [UserMessage(content=text), AssistantText(text="so it is")])


@pytest.mark.parametrize("said", [SAID, None])
def test_what_one_machine_pushes_another_one_pulls(
    there: PullingMachine, here: PullingMachine, folder: Path, said: str | None
) -> None:
    count = len(there.store.sessions(subagents=True))
    assert len(pushed(there, folder, said).sessions) == count
    assert came(pulled(here, folder)) == {"new": count}
    assert held(here.store) == held(there.store)
    assert here.store.verify().problems == []
    assert pushed(there, folder, said).files == 0
    assert came(pulled(here, folder)) == {}
    # What is on the disk is for its owner, and sealed unless it was said each time.
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.rglob("*") if each.is_file()} == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.rglob("*") if each.is_dir()} == {0o700}
    assert any(b"session" in each.read_bytes() for each in files(folder)) == (said is None)


def test_only_what_is_new_is_pushed_and_pulled(there: PullingMachine, here: PullingMachine, folder: Path) -> None:
    for text in ("one", "two", "three"):
        goes_on(there, text)
        pushed(there, folder)
    assert len(files(folder)) == 3
    assert files(folder)[2].stat().st_size < files(folder)[0].stat().st_size / 10
    pulled(here, folder)
    assert held(here.store) == held(there.store)
    goes_on(there, "four")
    pushed(there, folder)
    done = pulled(here, folder)
    assert came(done) == {"updated": 1}
    assert done[0].frames == 1
    assert held(here.store) == held(there.store)


def test_two_writers_never_write_over_each_other(there: PullingMachine, here: PullingMachine, folder: Path) -> None:
    goes_on(here, "mine")
    pushed(there, folder)
    pushed(here, folder)
    assert len({each.parent for each in files(folder)}) == 2
    pulled(here, folder)
    pulled(there, folder)
    assert held(here.store) == held(there.store)


def test_what_was_removed_goes_and_stays_removed(there: PullingMachine, here: PullingMachine, folder: Path) -> None:
    goes_on(there, "a secret plan")
    pushed(there, folder, None)
    pulled(here, folder)
    (talk,) = [each for each in there.store.sessions() if each.name == "talk"]
    there.store.remove(talk)
    assert pushed(there, folder, None).removed == [talk.uid]
    assert sum(each.removed for each in pulled(here, folder)) == 1
    assert not here.store.has(talk.uid)
    before = set(files(folder))
    pushed(there, folder, None, anew=True)
    assert not before & set(files(folder))
    assert came(pulled(here, folder)).keys() <= {"same"}
    assert not here.store.has(talk.uid)


def test_a_file_that_is_missing_for_now_is_waited_for(
    there: PullingMachine, here: PullingMachine, folder: Path, tmp_path: Path
) -> None:
    for text in ("one", "two"):
        goes_on(there, text)
        pushed(there, folder)
    late = files(folder)[0]
    late.rename(tmp_path / "late")
    (done,) = pulled(here, folder)
    assert [each.reason for each in done.failed] == ["a part of it is not in the folder yet"]
    (tmp_path / "late").rename(late)
    pulled(here, folder)
    assert held(here.store) == held(there.store)


def test_files_that_are_lost_are_pushed_again(there: PullingMachine, here: PullingMachine, folder: Path) -> None:
    pushed(there, folder)
    pulled(here, folder)
    files(folder)[0].unlink()
    assert len(pushed(there, folder).sessions) == len(there.store.sessions(subagents=True))
    assert came(pulled(here, folder)) == {}
    goes_on(there, "more")
    pushed(there, folder)
    pulled(here, folder)
    assert held(here.store) == held(there.store)


@pytest.mark.parametrize("said", [SAID, None])
def test_a_damaged_or_foreign_file_is_named_and_passed_over(
    there: PullingMachine, here: PullingMachine, folder: Path, said: str | None
) -> None:
    pushed(there, folder, said)
    (file,) = files(folder)
    data = file.read_bytes()
    for wrong in (data[:-1], data[: len(data) // 2], b"", data + b"x", b"\0" * 99, data[:99] + b"~" + data[100:]):
        file.write_bytes(wrong)
        (done,) = pulled(here, folder)
        assert (done.came["new"], len(done.passed_over)) == ([], 1)
        assert done.passed_over[0].startswith(str(file))
    file.write_bytes(data)
    (file.parent / f"{file.stem} (conflicted copy).frames").write_bytes(data)
    (file.parent / f".{file.name}.part").write_bytes(data[:50])
    (folder / "notes.txt").write_text("mine")
    (done,) = pulled(here, folder)
    assert [each.partition(": ")[2] for each in done.passed_over] == [folders.STRANGE]
    assert writers(folder)[1] == [f"{folder / 'notes.txt'}: it is not of backstory"]
    assert held(here.store) == held(there.store)


def test_a_wrong_passphrase_reads_and_writes_nothing(there: PullingMachine, here: PullingMachine, folder: Path) -> None:
    pushed(there, folder)
    before = files(folder)
    goes_on(there, "more")
    for said, error in (("another", PassphraseWrong), ("", PassphraseMissing)):
        with pytest.raises(error):
            pulled(here, folder, said)
        with pytest.raises(error):
            pushed(there, folder, said)
    assert files(folder) == before
    assert not here.store_path.exists() or here.store.sessions() == []


def test_a_file_that_is_not_sealed_is_read_only_if_that_is_said(
    there: PullingMachine, here: PullingMachine, folder: Path
) -> None:
    pushed(there, folder)
    pulled(here, folder, plain=False)
    goes_on(there, "as somebody else could write it")
    pushed(there, folder, None)
    (done,) = pulled(here, folder, plain=False)
    assert [each.partition(": ")[2] for each in done.passed_over] == [folders.NOT_SEALED]
    assert held(here.store) != held(there.store)
    pulled(here, folder)
    assert held(here.store) == held(there.store)


def test_a_home_that_was_copied_to_another_machine_is_another_writer(
    there: PullingMachine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed(there, folder)
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    pushed(there, folder)
    assert len({each.parent for each in files(folder)}) == 2


def test_a_push_that_is_killed_leaves_nothing_that_is_read(
    there: PullingMachine, here: PullingMachine, folder: Path
) -> None:
    goes_on(there, "one")
    for step in ("publish", "sync", "_next_number"):
        with stopped(folders, step):
            pushed(there, folder)
        pulled(here, folder) if folder.exists() else None
    pushed(there, folder)
    assert not list(folder.rglob(".*.part"))
    pulled(here, folder)
    assert held(here.store) == held(there.store)
    goes_on(there, "two")
    with stopped(there.workspace.machine_store.__class__, "read_log"):
        pushed(there, folder)
    pushed(there, folder)
    pulled(here, folder)
    assert held(here.store) == held(there.store)


class Killed(BaseException):
    """The end of a process."""


@contextmanager
def stopped(owner: object, name: str) -> Iterator[None]:
    """Have a function of a module end the process."""

    def end(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(owner, name, end)
        yield


def test_a_folder_is_copied_by_a_service_in_any_order(
    there: PullingMachine, here: PullingMachine, folder: Path, tmp_path: Path
) -> None:
    for text in ("one", "two", "three"):
        goes_on(there, text)
        pushed(there, folder)
    copy = tmp_path / "copy"
    for each in (*files(folder)[::-1], *folder.rglob("key.json")):
        target = copy / each.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if copy.exists() and list(copy.rglob("key.json")):
            pulled(here, copy)
        shutil.copy(each, target)
    pulled(here, copy)
    assert held(here.store) == held(there.store)


# the way of a session through frames ---------------------------------------------------------------------------------


def chains() -> tuple[dict[str, FrameHead], list[SentPoint]]:
    """The frames of a session in two epochs, and the points that they lead to: of each its own."""
    heads, points = dict[str, FrameHead](), list[SentPoint]()
    for epoch, count in ((1, 4), (2, 3)):
        prev, after = "", START
        for number in range(1, count + 1):
            chain, upto = f"{epoch}{number}".rjust(64, "0"), FramePoint(number, 0)
            heads[chain] = FrameHead(
                format=1,
                session=UID,
                epoch=epoch,
                after=after,
                upto=upto,
                events=1,
                bytes=True,
                redacted=False,
                prev=prev,
                chain=chain,
                size=1,
            )
            points.append(SentPoint(epoch=epoch, upto=upto, chain=chain, mark=chain))
            prev, after = chain, upto
    return heads, points


HEADS, POINTS = chains()


@pytest.mark.hypothesis
@given(
    st.sets(st.sampled_from(sorted(HEADS))),
    st.sets(st.integers(0, len(POINTS) - 1)),
    st.none() | st.sampled_from(POINTS),
)
def test_of_any_files_that_are_there_the_last_whole_way_is_taken(
    there: set[str], told: set[int], sent: SentPoint | None
) -> None:
    index = FrameIndex(
        frames={chain: folders.FramePlace("file", HEADS[chain]) for chain in there},
        points={UID: [POINTS[number] for number in sorted(told)]},
    )
    found = index.way(UID, sent)

    def leads(point: SentPoint) -> bool:
        before = [chain for chain in HEADS if HEADS[chain].epoch == point.epoch and chain <= point.chain]
        known = before.index(sent.chain) + 1 if sent is not None and sent.chain in before else 0
        return set(before[known:]) <= there

    good = [POINTS[number] for number in sorted(told) if leads(POINTS[number])]
    assert (None if found is None else found[0]) == (good[-1] if good else None)
    if found is not None and found[1]:
        heads = [HEADS[chain] for chain in found[1]]
        assert heads[-1].chain == found[0].chain
        assert heads[0].prev in ("", "" if sent is None else sent.chain)
        assert all(verdict(head, [before]) == FrameVerdict.NEXT for before, head in pairwise(heads))
