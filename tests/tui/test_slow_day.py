"""A day of work on the screen over a line that takes 20 KB a second, at 60 columns: by keyboard alone, by mouse alone.

It finds what ran before, goes on with it in its own client and comes back, has an agent work, watches it, tells it
something, sends it elsewhere, has it summarised, and writes it to a file. What is read only is in test_slow_line.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.going import GOOD, until
from tests.support.slow_line import SlowLine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.bench import Bench

pytestmark = pytest.mark.slow

SIZE, PER_S = (60, 20), 20_000
MOST_BYTES = 4_000
MORE_BYTES = {"stage": 6_000, "Enter send": 6_000, "sessions": 6_000, "s sessions": 6_000}
"""Of steps in which more than a key is painted: a run is stopped and another begins; a list is read behind a run."""
SUMMARY = "It was about the heron, which nests in the reeds, and about what it eats there. " * 6
CLIENT = """#!/bin/sh
case " $* " in
*" --version "*) echo "99.0.0 (Claude Code)"; exit;;
*" --resume "*) echo "its own client"; read -r line; exit;;
esac
exec {agent} "$@"
"""
"""The agent's client: a person's own where it resumes a session, else the scripted one."""
WHEEL_DOWN = "\x1b[<65;30;10M"


class Day:
    """A project with a session of two turns, a scripted agent, and the screen on a slow line."""

    def __init__(self, bench: Bench) -> None:
        self.told, self.counted, self.bench = bench.root / "go on", bench.root / "counted", bench
        for prompt in ("Where does the heron nest?", "And what does it eat?"):
            assert bench.run(prompt, {"say": f"{prompt} In the reeds. {'Reeds. ' * 40}"}, GOOD).returncode == 0
        scripted = (bench.bin / "claude").rename(bench.bin / "scripted")
        (bench.bin / "claude").write_text(CLIENT.format(agent=shlex.quote(str(scripted))))
        (bench.bin / "claude").chmod(0o755)
        # The first words that a prompt has decide, and a context has those of earlier prompts.
        script: dict[str, list[dict[str, Any]]] = {
            "Summarise it:": [{"say": SUMMARY}, GOOD],
            "Rather count ducks": [
                {"say": "Ducks, then."},
                {"wait_for": str(self.counted)},
                {"say": "Seven ducks."},
                GOOD,
            ],
            "Count the herons": [
                {"listens": True},
                {"say": "I look at the reeds."},
                {"wait_for": str(self.told)},
                {"say": "Three herons so far."},
                {"hear": 1},
                {"say": "The pond, too: four."},
                {"wait_for": str(bench.root / "never")},
            ],
        }
        self.line = SlowLine(bench.project, bench.environ(script), size=SIZE, per_s=PER_S)

    def written(self) -> Path:
        return self.bench.project / "count-the-herons.md"


@pytest.fixture
def day(bench: Bench) -> Day:
    return Day(bench)


def watch(day: Day) -> None:
    """See what the agent says meanwhile, without a key."""
    day.told.touch()
    day.line.step("watch", "", "Three herons so far.")


def see_the_end(day: Day) -> None:
    """See how what was sent elsewhere ends and is stored, without a key."""
    day.counted.touch()
    day.line.step("end", "", "Seven ducks.", "completed", "!running")


def check(day: Day) -> None:
    """No step was heavy, and all of it is stored once."""
    assert [each for each in day.line.steps if each.sent > MORE_BYTES.get(each.name, MOST_BYTES)] == []
    until(lambda: not day.bench.spools())
    with day.bench.store as store:
        turns = {each.shown_number: store.turns(each) for each in store.sessions()}
    assert [(each.prompt, each.outcome) for each in turns["S2"]] == [
        ("Count the herons", "cancelled"),
        ("Rather count ducks", "completed"),
    ]
    assert "Seven ducks." in day.written().read_text("utf-8")


def test_a_day_by_keyboard_alone(day: Day) -> None:
    with day.line as line:
        line.step("open", "", "1 session", "❯")
        line.step("read", "\r", "what does it eat?", "completed")
        line.step("resume", "r", "its own client")
        line.step("come back", "\r", "!its own client", "what does it eat?", "s sessions")
        line.step("compact", "C", "Summarise", "n no")
        line.step("yes", "y", "!n no")
        line.step("summarised", "", "≡ 1 exchange summarised")
        line.step("sessions", "s", "1 session")
        line.step("new", "n", "A new session", "to the agent")
        line.step("write", "Count the herons", "Count the herons")
        line.step("send", "\r", "I look at the reeds.", "running", "!to the agent")
        watch(day)
        line.step("prompt", "p", "to the agent")
        line.step("write", "Look at the pond", "Look at the pond")
        line.step("steer", "\x07", "The pond, too: four.", "!to the agent")
        line.step("prompt", "p", "to the agent")
        line.step("write", "Rather count ducks", "Rather count ducks")
        line.step("stage", "\r", "Ducks, then.", "running", "!to the agent")
        see_the_end(day)
        line.step("export", "e", "Write the session to a file")
        line.step("take it", "\r", "Written: ")
        line.step("sessions", "s", "2 sessions")
        line.step("reports", "R", "[1 Stand-up]", "Count the herons")
        line.step("costs", "2", "[2 Costs]", "Sessions")
        line.step("leave", "q")
    check(day)


def choose(line: SlowLine, entry: str, *words: str) -> None:
    """Open the menu by a click, have the wheel bring an entry of it into sight, and click on that."""
    line.click(" menu", "Search for commands")
    while entry not in line.text:
        lines = line.screen.lines()
        field = next(n for n, each in enumerate(lines) if "Search for commands" in each)
        first = next(each for each in lines[field + 1 :] if each.strip() and not each.strip().startswith("key "))
        line.step("wheel", 3 * WHEEL_DOWN, f"!{first.strip(' ▁▂▃▄▅▆▇█')}")
    line.click(entry, *words)


def test_a_day_by_mouse_alone(day: Day) -> None:
    with day.line as line:
        line.step("open", "", "1 session", "❯")
        line.click("✓ Where does", "what does it eat?", "completed", times=2)
        choose(line, "Resume it in its own agent", "its own client")
        line.step("come back", "\r", "!its own client", "what does it eat?", "s sessions")
        choose(line, "Have its beginning summarised", "Summarise", "n no")
        line.click("y yes", "!n no")
        line.step("summarised", "", "≡ 1 exchange summarised", "characters.")
        line.click("characters.", "s sessions")
        line.click("s sessions", "1 session")
        choose(line, "Write a prompt for a new session", "A new session", "to the agent")
        line.step("write", "Count the herons", "Count the herons")
        line.click("Enter send", "I look at the reeds.", "running", "!to the agent")
        watch(day)
        choose(line, "Write a prompt for this session", "to the agent")
        line.step("write", "Look at the pond", "Look at the pond")
        choose(line, "Send it to the agent while", "The pond, too: four.", "!to the agent")
        choose(line, "Write a prompt for this session", "to the agent")
        line.step("write", "Rather count ducks", "Rather count ducks")
        line.click("Enter send", "Ducks, then.", "running", "!to the agent")
        see_the_end(day)
        choose(line, "Write the session to a file", "Enter take it")
        line.click("Enter take it", "Written: ")
        line.click("Written: ", "s sessions")
        line.click("s sessions", "2 sessions")
        choose(line, "Reports: stand-up", "[1 Stand-up]", "Count the herons")
        line.click("2 Costs", "[2 Costs]", "Sessions")
        line.click("q leave")
    check(day)
