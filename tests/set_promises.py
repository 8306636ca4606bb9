"""Writes docs/agents.md, which promises of an adapter have tests: ``PYTHONPATH=src python -m tests.set_promises``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.support.promises import EXCUSED, KEPT, PROMISES, has_adapter
from tests.support.recorded import cases_of, count_of

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "agents.md"
HEAD = """# What each agent's adapter promises

Each row is an agent of which a home was recorded that its own program left. A number says how many tests keep a promise
for it; most run on several recordings. A dash stands for a reason, below. `python -m tests.set_promises` writes this.
Claude Code, Codex CLI, Copilot CLI, ah and AZUREAL are older here and have tests of their own.

"""
NONE = "–"


def gather() -> None:
    """Import each module of tests that keeps a promise."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "tests.support.promises" in path.read_text("utf-8"):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def agents() -> list[str]:
    """The recorded agents, those first that are read."""
    return sorted(dict.fromkeys(agent for agent, _ in cases_of()), key=lambda agent: (not has_adapter(agent), agent))


def document() -> str:
    """The whole page."""
    numbers = list(PROMISES)
    rows = [f"| agent | recorded | {' | '.join(map(str, numbers))} |", "|---|---|" + "---|" * len(numbers)]
    for agent in agents():
        versions = dict.fromkeys(count_of(*each)["recorded"].rpartition(" ")[2] for each in cases_of(agent))
        rows.append(f"| {agent} | {', '.join(versions)} | {' | '.join(_cell(agent, each) for each in numbers)} |")
    promised = [f"{number}. {words}" for number, words in PROMISES.items()]
    reasons = [f"- {agent}, {number}: {why}" for (agent, number), why in sorted(EXCUSED.items())]
    unread = [agent for agent in agents() if not has_adapter(agent)]
    if unread:
        reasons.append(f"- {', '.join(unread)}: no adapter yet; the recordings wait for it")
    parts = ["\n".join(each) + "\n" for each in (rows, promised, reasons)]
    return HEAD + parts[0] + "\n## The promises\n\n" + parts[1] + "\n## The reasons\n\n" + parts[2]


def empty() -> list[tuple[str, int]]:
    """The cells of agents that are read with neither a test nor a reason."""
    read = [agent for agent in agents() if has_adapter(agent)]
    return [(agent, each) for agent in read for each in PROMISES if (agent, each) not in KEPT.keys() | EXCUSED.keys()]


def needless() -> list[tuple[str, int]]:
    """The reasons for cells that have a test."""
    return sorted(KEPT.keys() & EXCUSED.keys())


def _cell(agent: str, number: int) -> str:
    tests = KEPT.get((agent, number), [])
    return str(len(dict.fromkeys(tests))) if tests else NONE


def main() -> None:
    gather()
    DOCUMENT.write_text(document(), "utf-8")


if __name__ == "__main__":
    main()
