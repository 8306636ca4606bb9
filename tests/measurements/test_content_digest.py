"""Two stores of the same logs have the same digests; a difference shows in the kinds that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.content_digest import digests
from tests.support.machines import CLAUDE_FOLDER, Machine, claude_line, lines

if TYPE_CHECKING:
    from pathlib import Path


def log(name: str, answer: str = "There.", **more: object) -> bytes:
    said = {"sessionId": name, **more}
    return lines(
        claude_line("user", f"u-{name}", "Where?", **said), claude_line("assistant", f"a-{name}", answer, **said)
    )


def stored(folder: Path, *logs: tuple[str, bytes]) -> dict[str, str]:
    machine = Machine(folder)
    for name, data in logs:
        machine.write(CLAUDE_FOLDER / f"{name}.jsonl", data)
        machine.read("claude")
    return digests(machine.store)


def test_the_order_in_which_logs_came_makes_no_difference(tmp_path: Path) -> None:
    first, second = ("s", log("s")), ("t", log("t"))
    assert stored(tmp_path / "a", first, second) == stored(tmp_path / "b", second, first)


@pytest.mark.parametrize(
    ("changed", "differ"),
    [
        (log("s", "Here."), {"records", "logs"}),
        (log("s", cwd="/x"), {"sessions", "logs"}),
        (log("s") + b"\n", {"logs"}),
    ],
)
def test_what_differs_shows(tmp_path: Path, changed: bytes, differ: set[str]) -> None:
    before, after = stored(tmp_path / "a", ("s", log("s"))), stored(tmp_path / "b", ("s", changed))
    assert {kind for kind in before if before[kind] != after[kind]} == differ
