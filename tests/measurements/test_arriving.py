"""Files that imports are measured with are what they are said to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import arriving
from bench.arriving import earlier, half, nothing
from bench.measuring import Spent, Turns
from tests.support.machines import SMALL, Machine
from tests.support.portable import Importer, came, exported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.measuring import Command


def a_machine(folder: Path) -> Machine:
    made = Machine(folder)
    for name in SMALL:
        made.put(name)
    made.read()
    return made


def test_an_earlier_export_grows_into_the_whole_one(tmp_path: Path) -> None:
    whole = exported(a_machine(tmp_path / "machine").store, has_bytes=False)
    importer = Importer(tmp_path)
    first = importer(b"".join(earlier(whole.splitlines(keepends=True))))
    grown = came(importer(whole))
    assert came(first) == {"new": first.sessions}
    assert grown["updated"] >= first.sessions - grown.get("same", 0) > 0


def test_half_of_an_export_is_one_and_so_is_nothing_of_it(tmp_path: Path) -> None:
    lines = exported(a_machine(tmp_path / "machine").store, has_bytes=False).splitlines(keepends=True)
    sessions = sum(line.startswith(b'{"type":"session",') for line in lines)
    assert Importer(tmp_path)(b"".join(half(lines))).sessions == (sessions + 1) // 2
    assert Importer(tmp_path)(b"".join(nothing(lines))).sessions == 0


def test_every_figure_is_of_commands_that_find_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = a_machine(tmp_path / "machine")

    def export(command: Command) -> None:
        words = [*command.words]
        data = exported(made.store, has_bytes="--no-bytes" not in words)
        Path(words[words.index("-o") + 1]).write_bytes(data)

    def measure(commands: Mapping[str, Command], runs: int) -> Turns:
        for name, command in commands.items():
            assert Path(command.words[-1]).stat().st_size > 0, name
        nothing = Spent(0, 1, 10)
        return Turns(
            {name: [nothing if name == "nothing" else Spent(0, 2, 50)] * runs for name in commands}, (0,) * runs
        )

    monkeypatch.setattr(arriving, "spend", export)
    monkeypatch.setattr(arriving, "in_turn", measure)
    found = {each.name: each for each in arriving.figures(made.store.path, 2, tmp_path)}
    events = sum(line.startswith(b'{"type":"event"') for line in exported(made.store).splitlines())
    assert found["import, an event"].value == pytest.approx(1e6 / events)
    assert found["import, an event"].most == 120
    assert {each.value for each in found.values() if each.unit == "MB"} == {50}
