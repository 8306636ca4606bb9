"""``backstory optimize`` says what it takes before it begins, and does not begin where that is not there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest

    from tests.support.shell import Shell


class Usage(NamedTuple):
    """Of a disk, as ``shutil.disk_usage`` says it."""

    free: int


def test_it_says_beforehand_how_long_it_takes_and_how_much_room(machine: Shell) -> None:
    told = machine("optimize", "--all")
    assert told.code == 0
    assert "12 logs (" in told.err
    assert "to recompress: about 1 s, and up to " in told.err
    assert "Ctrl-C stops it; run it again to continue." in told.err


def test_a_second_time_there_is_nothing_to_say(machine: Shell) -> None:
    machine("optimize", "--all")
    assert machine("optimize", "--all").err == ""


def test_without_room_it_changes_nothing(machine: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine.store.read_bytes()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(len(before)))
    told = machine("optimize", "--all")
    assert told.code == 74
    assert "This may take " in told.err
    assert "Nothing was changed." in told.err
    assert machine.store.read_bytes() == before
