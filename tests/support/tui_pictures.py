"""Pictures of the screen for docs/: ``python -m tests.support.tui_pictures`` makes them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.piloted import piloted, screen
from tests.support.screens import ROOT
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from tests.support.piloted import Piloted

PICTURES = ROOT / "docs" / "tui"
SIZE = (100, 30)
COUNTING = "Count requests per person"


async def sessions(seen: Piloted) -> None:
    """The list, with a preview of the second session."""
    await seen.until_seen("8 sessions")
    await seen.press("down")
    await seen.until_seen("> ✓ Add a rate limit", "and test it")


async def searching(seen: Piloted) -> None:
    """A search of everything."""
    await seen.press("slash")
    await seen.type("gateway")
    await seen.until_seen("6 in texts", "The gateway counts requests")
    await seen.press("down", "down", "down", "down")
    await seen.until_seen(f"> {'':2}{COUNTING}"[:20], "The gateway has limits")


async def session(seen: Piloted) -> None:
    """A session in which a call was opened."""
    await seen.until_seen("8 sessions")
    await seen.press("end")
    await seen.until_seen(f"> ✓ {COUNTING}")
    await seen.press("enter")
    opened = await seen.opened("Viel.")
    opened.pane.go((4, 0))
    await seen.opened("pytest -q tests/test_limits.py")
    await seen.press("enter")
    await seen.until_seen("FAILED test_two_people")


async def prompt(seen: Piloted) -> None:
    """A prompt while it is written."""
    await session(seen)
    await seen.press("p")
    await seen.until_seen("to the agent of the last turn")
    await seen.type("Now add a test for two people")


async def costs(seen: Piloted) -> None:
    """The costs of all time, by day and agent."""
    await seen.until_seen("8 sessions")
    await seen.press("R", "2", "+", "j", "j")
    await seen.until_seen("[2 Costs]", "all time", "> 2025-")


async def standup(seen: Piloted) -> None:
    """The stand-up of a week."""
    await seen.until_seen("8 sessions")
    await seen.press("R", "w", "j")
    await seen.until_seen("[1 Stand-up]", "last 7 days", ">   ✓")


PICTURED = {
    "sessions": sessions,
    "search": searching,
    "session": session,
    "prompt": prompt,
    "costs": costs,
    "standup": standup,
}


def made(machine: SessionMachine) -> dict[Path, str]:
    """The pictures as SVG, by their files."""
    found: dict[Path, str] = {}

    async def take(name: str) -> None:
        async with screen(machine.project, machine.environ, size=SIZE) as seen:
            await PICTURED[name](seen)
            found[PICTURES / f"{name}.svg"] = seen.app.export_screenshot(title=f"backstory tui: {name}")

    for name in PICTURED:
        piloted(lambda name=name: take(name))  # type: ignore[misc]
    return found


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as root:
        for path, picture in made(SessionMachine(Path(root))).items():
            path.write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
