"""A log whose file was rewritten has numbers that do not grow with its bytes; a copy of it has the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import copies
from tests.support.clock import Clock
from tests.support.machines import claude_log, conversation, lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Store
    from tests.support.machines import Machine

LOG = claude_log("s")


class Rewritten:
    """A log that goes on with an answer, or gets a prompt before its first record, and is read then."""

    def __init__(self, machine: Machine, made: int = 0) -> None:
        self._machine, self._made, self._content = machine, made, lines(*conversation(2))
        self._read()

    def change(self, *how: str) -> None:
        for each in how:
            self._made += 1
            record = lines(conversation(1, 100 * self._made + (each == "answer"))[0])
            self._content = self._content + record if each == "answer" else record + self._content
            self._read()

    def _read(self) -> None:
        self._machine.write(LOG, self._content)
        assert self._machine.read("claude").errors == []


def places(store: Store) -> list[tuple[int, int]]:
    """The number and the place of each event."""
    asked = "select e.seq, e.position from events e join logs l on l.id = e.log_id order by 1, 2"
    return store.ask(lambda db: list(db.execute(asked)))


@pytest.mark.parametrize(
    "before",
    [
        ("answer", "prompt before", "answer"),
        ("prompt before", "answer", "prompt before", "answer"),
        ("answer", "prompt before", "prompt before", "answer"),
    ],
    ids=", ".join,
)
def test_its_records_have_the_same_numbers_in_a_copy(machine: Machine, tmp_path: Path, before: tuple[str, ...]) -> None:
    Rewritten(machine).change(*before)
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.begin()
        copies.merge(other, machine.store)
        assert (machine.store.verify().problems, other.verify().problems) == ([], [])
        assert places(other) == places(machine.store)


def test_what_is_rewritten_further_is_merged_into_the_copy(machine: Machine, tmp_path: Path) -> None:
    log = Rewritten(machine)
    with copies.opened(tmp_path / "other", Clock()) as other:
        other.begin()
        for change in (["answer"], ["prompt before", "answer"], ["prompt before"], ["answer"]):
            log.change(*change)
            copies.merge(other, machine.store)
            assert other.verify().problems == []
            said = [{each.prompt for each in store.turns(store.sessions()[0])} for store in (other, machine.store)]
            assert said[0] == said[1]


@pytest.mark.parametrize(
    "others", [("answer",), ("answer", "answer"), ("prompt before", "answer", "answer")], ids=", ".join
)
def test_one_that_went_on_otherwise_is_merged_with_it(another: Callable[[], Machine], others: tuple[str, ...]) -> None:
    rewritten, grown = another(), another()
    Rewritten(rewritten).change("answer", "prompt before", "answer")
    Rewritten(grown, 50).change(*others)
    copies.merge(grown.store, rewritten.store)
    copies.merge(rewritten.store, grown.store)
    assert (grown.store.verify().problems, rewritten.store.verify().problems) == ([], [])
    prompts = [{each.prompt for each in store.turns(store.sessions()[0])} for store in (grown.store, rewritten.store)]
    assert prompts[0] == prompts[1]
