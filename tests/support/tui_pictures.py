"""Pictures of the screen for docs/: ``python -m tests.support.tui_pictures`` makes them."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from backstory.cli.tui.reports_screen import ReportsScreen
from backstory.cli.tui.session_screen import SessionScreen
from backstory.cli.tui.slots import Slot
from backstory.derive.given import Task
from backstory.model import AssistantText, Tool, ToolCall, ToolResult, UserMessage
from backstory.workspace.opening import open_workspace
from tests.support.clock import NOW
from tests.support.piloted import piloted, screen
from tests.support.screens import ROOT
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from backstory.store import Session, Store
    from tests.support.piloted import Piloted

    Shows: TypeAlias = Callable[[Piloted], Awaitable[None]]

PICTURES = ROOT / "docs" / "tui"
SIZE = (100, 30)
COUNTING = "Count requests per person"


async def sessions(seen: Piloted) -> None:
    """The list, with a preview of the second session."""
    await seen.until_seen("8 sessions")
    await seen.press("down")
    await seen.until_seen("> ✓ Add a rate limit", "and test it")


async def searching(seen: Piloted) -> None:
    """A search of everything, from the list."""
    await seen.press("home", "slash")
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
    await seen.opened("pytest -q tests/test_limits")
    await seen.press("enter")
    await seen.until_seen("FAILED test_two_people")


async def prompt(seen: Piloted) -> None:
    """A prompt while it is written, in that session."""
    await seen.press("p")
    await seen.until_seen("to the agent of the last turn")
    await seen.type("Now add a test for two people")


async def drawn(seen: Piloted) -> None:
    """Wait for the report that was asked for: a key that comes before it chooses nothing in it."""
    await seen.until(lambda: isinstance(seen.app.screen, ReportsScreen) and seen.app.screen.is_settled)


async def costs(seen: Piloted) -> None:
    """The costs of all time, by day and agent, behind the stand-up."""
    await seen.press("2", "+", "+")
    await drawn(seen)
    await seen.press("j", "j")
    await seen.until_seen("[2 Costs]", "all time", "> 2025-")


async def standup(seen: Piloted) -> None:
    """The stand-up of a week."""
    await seen.until_seen("8 sessions")
    await seen.press("R", "w")
    await drawn(seen)
    await seen.press("j")
    await seen.until_seen("[1 Stand-up]", "last 7 days", ">   ✓")


async def activity(seen: Piloted) -> None:
    """The activity of all time, behind the costs."""
    await seen.press("3")
    await drawn(seen)
    await seen.press("j")
    await seen.until_seen("[3 Activity]", "all time", "> ")


async def tips(seen: Piloted) -> None:
    """The tips, of every project, behind the activity."""
    await seen.press("4")
    await seen.until_seen("[4 Tips]", "all time", "Tips of")


async def question(seen: Piloted) -> None:
    """A question that says what a yes does, in that session."""
    await seen.press("b")
    await seen.until_seen("2 turns", "▸")
    await seen.press("up", "c")
    await seen.until_seen("y yes", "> n no")


async def back(seen: Piloted) -> None:
    """The session again, behind the question."""
    await seen.press("n", "escape")
    await seen.until_seen("FAILED test_two_people", "s sessions")


async def empty(seen: Piloted) -> None:
    """The list where nothing was ever recorded."""
    await seen.until_seen("n begins one, `backstory ingest` imports")


async def keys(seen: Piloted) -> None:
    """The keys of that session."""
    await seen.press("question_mark")
    await seen.until_seen("Search in this session")


async def palette(seen: Piloted) -> None:
    """The palette, with words typed, over the list as it is at first."""
    await seen.until_seen("8 sessions")
    await seen.press("ctrl+p")
    await seen.type("session")
    await seen.until_seen("Next session")


async def at_work(seen: Piloted) -> None:
    """Runs at work, and what the agent has to do, in that session."""
    opened = seen.app.screen
    assert isinstance(opened, SessionScreen)
    tasks = (("read the limit", True, False), ("count per person", False, True), ("test it with two", False, False))
    opened.tasks.show_tasks([Task(words, is_done=done, is_at_hand=here) for words, done, here in tasks])
    seen.app._take_slots([slot(opened.uid or "", "S12", "claude", 1), slot("other", "S7", "codex", 2, queued=2)])
    await seen.until_seen("S7 codex", "1 of 3 done")


def slot(uid: str, label: str, agent: str, n: int, **more: int) -> Slot:
    return Slot(
        uid=uid,
        turn=f"turn {n}",
        label=label,
        agent=agent,
        state="running",
        pid=4710 + n,
        cwd="/app",
        started=n,
        **more,
    )


async def branches(seen: Piloted) -> None:
    """The branches of a session."""
    await seen.until_seen("1 session")
    await seen.press("enter")
    await seen.opened("A file is slow")
    await seen.press("b")
    await seen.until_seen("7 turns · 3 branches", "▸")
    await seen.press("up")
    await seen.until_seen("branch 2 · from @4 to @18 · with redis")


async def compared(seen: Piloted) -> None:
    """Two branches beside each other."""
    await seen.press("v", "home", "right_square_bracket", "v")
    await seen.until_seen("fork point: @4", "branch 1 (2 turns)", "branch 2 (2 turns)")


async def line(seen: Piloted) -> None:
    """A field of one line: a name for a branch."""
    await seen.press("n")
    await seen.until_seen("A name for the branch", "Enter take it")


async def left(seen: Piloted) -> None:
    """The branches again, behind the field."""
    await seen.press("escape")
    await seen.until_gone("A name for the branch")


async def closed(seen: Piloted) -> None:
    """The session again, behind what covers a part of it."""
    await seen.press("escape")
    await seen.until_seen("FAILED test_two_people", "s sessions")


async def same(seen: Piloted) -> None:
    """What is there, in other colours."""


OF_MACHINE: tuple[dict[str, Shows], ...] = (
    {"sessions": sessions, "search": searching},
    {"palette": palette},
    {"session": session, "light": same, "keys": keys, "-keys": closed, "question": question, "-question": back,
     "prompt": prompt, "-prompt": closed, "at-work": at_work},
    {"standup": standup, "costs": costs, "activity": activity, "tips": tips},
)  # fmt: skip
"""What is pictured in a screen that is open, one after the other; a name with a minus is a way and no picture."""
LIGHT = "light"
EMPTY: dict[str, Shows] = {"empty": empty}
OF_BRANCHED: dict[str, Shows] = {"branches": branches, "line": line, "-line": left, "compared": compared}


def alone(*steps: Shows) -> Shows:
    """What is pictured behind other things, in a screen that was opened for it."""

    async def shows(seen: Piloted) -> None:
        for step in steps:
            await step(seen)

    return shows


PICTURED: dict[str, Shows] = {
    "sessions": sessions,
    "search": searching,
    "session": session,
    "prompt": alone(session, prompt),
    "costs": alone(standup, costs),
    "standup": standup,
    "activity": alone(standup, costs, activity),
    "tips": alone(standup, costs, activity, tips),
    "question": alone(session, question),
    "keys": alone(session, keys),
    "palette": palette,
    "at-work": alone(session, at_work),
}
BRANCHED: dict[str, Shows] = {
    "branches": branches,
    "compared": alone(branches, compared),
    "line": alone(branches, line),
}


def branched(root: Path) -> tuple[Path, Mapping[str, str]]:
    """A project whose one session has three branches, and its environment."""
    project, times = root / "shop", iter(range(NOW - 9_000_000, NOW, 60_000))
    project.mkdir(parents=True)
    environ = {"HOME": str(root), "BACKSTORY_HOME": str(root / "home")}
    with open_workspace(project, environ, now=lambda: next(times)) as workspace:
        store = workspace.project_store
        workspace.known_projects.begin(store)
        session = store.create_session(worktree=project)
        say(store, session, "Add a rate limit to the login", "I would keep it in memory first.")
        say(store, session, "Which library?", "None: a dict with times is enough for one process.")
        parted = store.place(session, 4).point
        say(store, session, "Then do it", "It counts each person now.", "limits.py")
        say(store, session, "Test it with two people", "Both pass.")
        store.name_branch(session, "in memory", store.place(session, 10).point)
        store.checkout(session, parted)
        say(store, session, "Try it with Redis instead", "It needs a server: see compose.yaml.", "compose.yaml")
        say(store, session, "Count in it", "The limit holds across processes.", "limits.py")
        store.name_branch(session, "with redis", store.place(session, 18).point)
        store.checkout(session, store.place(session, 2).point)
        say(store, session, "Would a file do?", "A file is slow, and two processes would have to lock it.")
    return project, environ


def nothing(root: Path) -> tuple[Path, Mapping[str, str]]:
    """A folder of a person who has no history."""
    folder = root / "nothing"
    folder.mkdir()
    return folder, {"HOME": str(folder), "BACKSTORY_HOME": str(folder / "home")}


def say(store: Store, session: Session, prompt: str, answer: str, edited: str = "") -> None:
    """Add a turn to a session, with an edit of a file."""
    call = ToolCall(tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, file_path=edited, input={"file_path": edited})
    result = ToolResult(tool_use_id="t", tool_name="Edit", tool=Tool.EDIT, content="done")
    calls = [call, result] if edited else []
    store.append_events(session, [UserMessage(content=prompt), *calls, AssistantText(text=answer)])


def made(machine: SessionMachine, root: Path) -> dict[Path, str]:
    """The pictures as SVG, by their files. ``root``: a folder for another project."""
    found: dict[Path, str] = {}

    async def take(shown: Mapping[str, Shows], where: tuple[Path, Mapping[str, str]]) -> None:
        async with screen(*where, size=SIZE) as seen:
            for name, shows in shown.items():
                await shows(seen)
                if not name.startswith("-"):
                    seen.app.theme = "light" if name == LIGHT else "dark"
                    await seen.settled()
                    found[PICTURES / f"{name}.svg"] = seen.app.export_screenshot(title=f"backstory tui: {name}")

    own = (machine.project, machine.environ)
    for shown in OF_MACHINE:
        piloted(partial(take, shown, own))
    piloted(partial(take, OF_BRANCHED, branched(root)))
    piloted(partial(take, EMPTY, nothing(root)))
    return found


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as root:
        for path, picture in made(SessionMachine(Path(root, "home")), Path(root, "branches")).items():
            path.write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
