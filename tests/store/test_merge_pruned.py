"""A store that has the whole of a session that was pruned here fills nothing of it, nor loses anything itself."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from backstory.derive.pruning import MARK, PROMPTS, Pruning
from backstory.errors import SessionDiverged
from backstory.exchange import replication
from backstory.ingest.pruning import prune_again, prune_session
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText
from backstory.store.tables import compactions, pruned
from backstory.store.tables.compactions import NewCompaction
from tests.support.clock import NOW
from tests.support.copies import merge, opened, say
from tests.support.machines import Machine, claude_line, claude_log, lines, looked_up
from tests.support.portable import Importer, exported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Store
    from tests.support.clock import Clock

ONLY_PROMPTS = Pruning(keep=PROMPTS)


class Pair:
    """Two copies of a store with one session of two turns."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        with opened(folder / "one", clock) as store:
            session = store.create_session("herons")
            say(store, session, "first")
            clock.ms += 1
            say(store, session, "second")
        shutil.copy(folder / "one", folder / "two")
        self.one, self.two = opened(folder / "one", clock), opened(folder / "two", clock)


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> Iterator[Pair]:
    made = Pair(tmp_path, clock)
    yield made
    made.one.close()
    made.two.close()


def prune(store: Store) -> None:
    (session,) = store.sessions()
    prune_session(store, session, ONLY_PROMPTS)


def answers(store: Store) -> list[str]:
    (session,) = store.sessions()
    return [each.event.text for each in store.events(session) if isinstance(each.event, AssistantText)]


def merged(store: Store, other: Store) -> None:
    """Merge as the command does."""
    merge(store, other)
    assert reindex(store, now=NOW, only_stale=True).failed == []
    assert prune_again(store) == []
    assert store.verify().problems == []


def log_bytes(store: Store) -> bytes:
    return b"".join(store.read_log(log.id, 0, log.read_to) for log in store.logs())


def test_a_copy_that_is_whole_fills_nothing_and_its_new_turn_comes(pair: Pair) -> None:
    prune(pair.one)
    say(pair.two, pair.two.session("S1"), "third")
    merged(pair.one, pair.two)
    assert answers(pair.one) == [MARK, MARK, "to third"]
    assert b"to first" not in log_bytes(pair.one)
    assert [turn.prompt for turn in pair.one.turns(pair.one.session("S1"))] == ["first", "second", "third"]
    assert len(pair.one.logs()) == 1
    assert answers(pair.two) == ["to first", "to second", "to third"]


def test_a_copy_that_was_pruned_takes_nothing_away_and_its_new_turn_comes(pair: Pair) -> None:
    prune(pair.one)
    say(pair.one, pair.one.session("S1"), "third")
    merged(pair.two, pair.one)
    assert answers(pair.two) == ["to first", "to second", "to third"]
    assert len(pair.two.logs()) == 1
    assert pair.two.ask(pruned.noted, pair.two.session("S1").id) is None


def test_copies_that_both_went_on_keep_what_each_has(pair: Pair) -> None:
    prune(pair.one)
    say(pair.one, pair.one.session("S1"), "ours")
    say(pair.two, pair.two.session("S1"), "theirs")
    merged(pair.one, pair.two)
    assert sorted(answers(pair.one)) == sorted([MARK, MARK, "to ours", "to theirs"])
    assert b"to first" not in log_bytes(pair.one)


def test_merging_again_changes_nothing(pair: Pair) -> None:
    prune(pair.one)
    say(pair.two, pair.two.session("S1"), "third")
    merged(pair.one, pair.two)
    before = log_bytes(pair.one), looked_up(pair.one.path, "select session_id, log_id, start, length from pruned")
    merged(pair.one, pair.two)
    assert before == (
        log_bytes(pair.one), looked_up(pair.one.path, "select session_id, log_id, start, length from pruned"),
    )  # fmt: skip
    assert answers(pair.one) == [MARK, MARK, "to third"]


def test_a_session_that_is_only_there_comes_as_pruned(pair: Pair, tmp_path: Path, clock: Clock) -> None:
    prune(pair.one)
    with opened(tmp_path / "three", clock) as other:
        other.create_session("another")
        merged(other, pair.one)
        session = other.session("herons")
        note = other.ask(pruned.noted, session.id)
        assert note is not None
        assert note.words == [PROMPTS]
        found = [each.event for each in other.events(session)]
        assert [each.text for each in found if isinstance(each, AssistantText)] == [MARK, MARK]


def test_a_summary_that_was_pruned_does_not_come_back(pair: Pair) -> None:
    for store in (pair.one, pair.two):
        store.decide(compactions.add, 1, NewCompaction(after_seq=4, summary="all of it in short"))
    prune(pair.one)
    merged(pair.one, pair.two)
    assert looked_up(pair.one.path, "select summary from compactions") == [(MARK,)]
    merged(pair.two, pair.one)
    assert looked_up(pair.two.path, "select summary from compactions") == [("all of it in short",)]


def test_a_copy_in_the_home_is_neither_filled_nor_pruned_by_its_owner(pair: Pair, tmp_path: Path, clock: Clock) -> None:
    uid = pair.one.session("S1").uid
    with opened(tmp_path / "home", clock) as home:
        replication.copy_session(home, pair.one, uid)
        prune(home)
        say(pair.one, pair.one.session("S1"), "third")
        with pytest.raises(SessionDiverged):
            replication.copy_session(home, pair.one, uid)
        assert answers(home) == [MARK, MARK]
        prune(pair.one)
        say(pair.one, pair.one.session("S1"), "fourth")
        prune(home)
        replication.copy_session(home, pair.one, uid)
        assert answers(home) == [MARK, MARK, MARK, "to fourth"]
        assert home.verify().problems == []
    with opened(tmp_path / "other", clock) as home:
        replication.copy_session(home, pair.two, uid)
        with pytest.raises(SessionDiverged):
            replication.copy_session(home, pair.one, uid)
        assert answers(home) == ["to first", "to second"]


def test_an_older_copy_of_a_log_does_not_fill_it(tmp_path: Path) -> None:
    records = [claude_line("user" if n % 2 == 0 else "assistant", f"u{n}", f"word{n} is said here") for n in range(6)]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    one.write(claude_log("s"), lines(*records[:4]))
    two.write(claude_log("s"), lines(*records[:2]))
    one.read()
    two.read()
    prune(one.store)
    merged(one.store, two.store)
    assert answers(one.store) == [MARK, MARK]
    two.write(claude_log("s"), lines(*records))
    two.read()
    merged(one.store, two.store)
    assert answers(one.store) == [MARK, MARK, "word5 is said here"]
    assert b"word1" not in log_bytes(one.store)
    one.close()
    two.close()


def test_an_import_fills_nothing_and_its_new_turns_come(tmp_path: Path) -> None:
    records = [claude_line("user" if n % 2 == 0 else "assistant", f"u{n}", f"word{n} is said here") for n in range(6)]
    machine, importer = Machine(tmp_path / "machine"), Importer(tmp_path / "other")
    machine.write(claude_log("s"), lines(*records[:4]))
    machine.read()
    importer(exported(machine.store))
    prune(importer.store)
    importer(exported(machine.store))
    assert answers(importer.store) == [MARK, MARK]
    machine.write(claude_log("s"), lines(*records))
    machine.read()
    importer(exported(machine.store))
    assert answers(importer.store) == [MARK, MARK, "word5 is said here"]
    assert b"word1" not in log_bytes(importer.store)
    assert importer.store.verify().problems == []
    machine.close()
