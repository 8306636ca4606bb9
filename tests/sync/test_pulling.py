"""History pulled by one machine from another: whole, once, in any order, and however often the line is cut."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from backstory.errors import BackstoryError, DiskFull, FarEndBroken
from backstory.model import AssistantText, UserMessage
from backstory.workspace.stores import pulling
from tests.support.machines import case, place
from tests.support.portable import held
from tests.support.pulled import Counted, PullingMachine, counting, cut_after

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.workspace.stores.pulling import Pulled


def came(done: Pulled) -> dict[str, int]:
    assert (done.failed, done.passed_over) == ([], [])
    return {word: len(uids) for word, uids in done.came.items() if uids}


def same(one: PullingMachine, other: PullingMachine) -> bool:
    """Return True if both hold the same of all sessions, each byte of their logs included."""
    assert other.store.verify().problems == []
    return held(one.store) == held(other.store)


def test_all_of_another_machine_comes_once(there: PullingMachine, here: PullingMachine) -> None:
    count = len(there.store.sessions(subagents=True))
    assert came(here.pull(there)) == {"new": count}
    assert same(there, here)
    again = here.pull(there)
    assert (came(again), again.offered, again.frames) == ({}, count, 0)


def test_of_a_log_that_grew_only_the_new_part_travels(tmp_path: Path, here: PullingMachine) -> None:
    there, whole = PullingMachine(tmp_path / "there"), case("claude/tools")
    lines = whole.splitlines(keepends=True)
    sizes = []
    for count in (len(lines) // 2, len(lines) // 2 + 2, len(lines)):
        there.put("claude/tools", b"".join(lines[:count]))
        there.read()
        counted = list[Counted]()
        assert sum(came(here.pull(there, counting(counted))).values()) == 1
        sizes.append(counted[0].count)
        assert same(there, here)
    assert sizes[1] < sizes[0] / 2
    there.close()


def test_a_log_that_was_written_anew_comes_as_a_whole(there: PullingMachine, here: PullingMachine) -> None:
    here.pull(there)
    lines = case("claude/tools").splitlines(keepends=True)
    there.write(place("claude/tools"), lines[0] + b"".join(lines[3:]) + lines[-1].replace(b"a", b"b"))
    there.read()
    assert came(here.pull(there)) == {"updated": 1}
    assert same(there, here)
    assert came(here.pull(there)) == {}


def test_a_session_that_is_read_otherwise_there_is_so_here(there: PullingMachine, here: PullingMachine) -> None:
    talk = there.store.create_session()
    there.store.append_events(talk, [UserMessage(content="hello"), AssistantText(text="hi"), AssistantText(text="yes")])
    here.pull(there)
    # As another version of a reader would: fewer events of the same bytes.
    there.store.change(lambda db: db.execute("delete from events where session_id = ? and seq = 2", (talk.id,)))
    there.store.append_events(talk, [UserMessage(content="and?"), AssistantText(text="more")])
    assert came(here.pull(there)) == {"updated": 1}
    assert len(here.store.turns(here.store.session(talk.uid))) == 2
    assert came(here.pull(there)) == {}


def test_a_session_goes_on_there_and_is_named_there(there: PullingMachine, here: PullingMachine) -> None:
    talk = there.store.create_session("first name")
    there.store.append_events(talk, [UserMessage(content="hello"), AssistantText(text="hi")])
    here.pull(there)
    there.store.append_events(talk, [UserMessage(content="and?"), AssistantText(text="more")])
    there.store.rename(talk, "second name")
    assert came(here.pull(there)) == {"updated": 1}
    assert same(there, here)
    there.store.rename(talk, "third name")
    assert came(here.pull(there)) == {"same": 1}
    assert here.store.session(talk.uid).name == "third name"
    assert came(here.pull(there)) == {}


def test_what_was_removed_stays_removed_on_both_sides(there: PullingMachine, here: PullingMachine) -> None:
    here.pull(there)
    one, other, *_ = there.store.sessions()
    here.store.remove(here.store.session(other.uid))
    there.store.remove(one)
    done = here.pull(there)
    assert (done.removed, came(done)) == (1, {})
    assert not here.store.has(one.uid) and not here.store.has(other.uid)
    # The other way: a copy that was removed here takes nothing from where it comes from.
    there.pull(here)
    assert there.store.has(other.uid) and not there.store.has(one.uid)
    assert came(here.pull(there)) == {}


def test_what_is_here_from_its_own_log_is_not_touched(there: PullingMachine, here: PullingMachine) -> None:
    here.put("claude/tools")
    here.read()
    before = held(here.store)
    here.pull(there)
    for uid, kept in before.items():
        assert held(here.store)[uid] == kept
    assert here.store.has(there.store.sessions()[0].uid)


def test_nothing_of_a_store_from_elsewhere_travels(there: PullingMachine, here: PullingMachine) -> None:
    foreign = there.store.sessions()[0]
    there.store.change(lambda db: db.execute("update sessions set elsewhere = '/clone' where id = ?", (foreign.id,)))
    here.pull(there)
    assert not here.store.has(foreign.uid)
    assert len(here.store.sessions()) == len(there.store.sessions()) - 1


def test_two_machines_that_pull_from_each_other_at_once_lose_nothing(
    there: PullingMachine, here: PullingMachine
) -> None:
    for name in ("codex/queued-prompt", "claude/denied"):
        here.put(name)
    here.read()
    threads = [threading.Thread(target=one.pull, args=(other,)) for one, other in ((here, there), (there, here))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    here.pull(there)
    there.pull(here)
    assert same(there, here)
    assert came(here.pull(there)) == came(there.pull(here)) == {}


def test_a_line_that_is_cut_anywhere_is_gone_on_with(there: PullingMachine, tmp_path: Path) -> None:
    counted = list[Counted]()
    with_all = PullingMachine(tmp_path / "all")
    with_all.pull(there, counting(counted))
    starts = counted[0].starts
    here, brought = PullingMachine(tmp_path / "here"), 0
    for start in starts[:: max(len(starts) // 12, 1)]:
        # What came before does not come again, so a late cut may be behind the end.
        with suppress(BackstoryError, AssertionError):
            here.pull(there, cut_after(start + 3))
        found = len(here.store.sessions(subagents=True)) if here.store.exists else 0
        assert found >= brought
        brought = found
    here.pull(there)
    assert same(there, here)
    assert same(with_all, here)
    with_all.close()
    here.close()


def test_frames_that_came_before_a_cut_do_not_travel_again(tmp_path: Path, here: PullingMachine) -> None:
    there = PullingMachine(tmp_path / "there")
    talk = there.store.create_session()
    words = [f"{number * 7919 % 10_007}" for number in range(200_000)]
    texts = [AssistantText(text=" ".join(words[at : at + 200])) for at in range(0, len(words), 200)]
    there.store.append_events(talk, [UserMessage(content="go"), *texts])
    counted, first = list[Counted](), list[Counted]()
    other = PullingMachine(tmp_path / "other")
    other.pull(there, counting(first))
    whole = first[0].count
    other.close()
    with pytest.raises(FarEndBroken):
        here.pull(there, cut_after(whole // 2))
    here.pull(there, counting(counted))
    assert same(there, here)
    assert counted[0].count < whole * 0.75
    there.close()


def test_a_copy_that_was_changed_here_is_brought_as_a_whole(there: PullingMachine, here: PullingMachine) -> None:
    talk = there.store.create_session()
    there.store.append_events(talk, [UserMessage(content="hello"), AssistantText(text="hi")])
    here.pull(there)
    copy = here.store.session(talk.uid)
    here.store.change(lambda db: db.execute("delete from events where session_id = ? and seq = 2", (copy.id,)))
    there.store.append_events(talk, [UserMessage(content="and?"), AssistantText(text="more")])
    assert came(here.pull(there)) == {"updated": 1}
    assert same(there, here)


def test_a_far_end_does_not_fill_the_disk(
    there: PullingMachine, here: PullingMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(pulling, "FREE_BYTES", 2**60)
        with pytest.raises(DiskFull):
            here.pull(there)
    assert not here.store.exists
    here.pull(there)
    assert same(there, here)


def test_a_far_end_that_cannot_send_a_session_says_so_and_sends_the_rest(
    there: PullingMachine, here: PullingMachine
) -> None:
    broken = there.store.sessions()[0]
    there.store.change(
        lambda db: db.execute(
            "update chunks set sha256 = zeroblob(32) where log_id in (select id from logs where session_id = ?)",
            (broken.id,),
        )
    )
    done = here.pull(there)
    assert [each.session for each in done.failed] == [broken.uid]
    assert len(here.store.sessions(subagents=True)) == len(there.store.sessions(subagents=True)) - 1
