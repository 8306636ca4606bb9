"""Other tools' logs. A package per agent, found by its name: it is its own registration.

``names()`` lists the agents without importing any; ``load(name)`` imports one. A package elsewhere adds its
own through the entry point group ``backstory.agents`` (name = the agent, value = a module with ``AGENT``).
``contract`` says what an agent is, ``turn_fold`` is what readers of logs do alike, ``conformance`` tests one.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.errors import AgentUnusable, UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from backstory.agents.contract import Agent

ENTRY_POINTS = "backstory.agents"
NOT_READ = Path(__file__).with_name("not_read.json")
"""The places of logs of agents that nothing here reads: patterns below the user's home, by agent."""
COUNTED_MAX = 9_999
"""The most logs of such an agent that are counted."""


def names() -> list[str]:
    """The agents known here, in alphabetical order; none is imported."""
    return sorted(_own() | {point.name for point in _entry_points()})


def is_ours(name: str) -> bool:
    """Return True if an agent of this name comes with the package."""
    return name in _own()


def load(name: str) -> Agent:
    """The agent called ``name``; raises UnknownAgent, AgentUnusable."""
    known = sys.modules.get(f"{__name__}.{name}")
    if known is not None and hasattr(known, "AGENT"):
        # Looking through the folder each time would cost more than what is asked of the agent.
        return _agent_of(known, name)
    if name in _own():
        return _agent_of(importlib.import_module(f"{__name__}.{name}"), name)
    for point in _entry_points():
        if point.name == name:
            return _agent_of(point.load(), name)
    raise UnknownAgent(name, names())


def with_part(part: str) -> list[str]:
    """The agents that have a part, by its name in ``contract.Agent``. One that cannot be used is left out."""
    found = []
    for name in names():
        with suppress(UnknownAgent):
            found += [name] if getattr(load(name), part) is not None else []
    return found


def is_resumable(name: str) -> bool:
    """Return True if the agent has a client that continues a session. One of ours is not imported for it.

    Its package has a module ``resume`` then. False for an agent that is not known here.
    """
    if name in _own():
        return (Path(__file__).parent / name / "resume.py").is_file()
    try:
        return load(name).resume is not None
    except (UnknownAgent, AgentUnusable):
        return False


def logs_of_others(home: Path) -> dict[str, int]:
    """Return the number of logs of each agent that is not read, those with logs only, by name.

    An agent that gets a package of its own is taken out of ``not_read.json``.
    """
    import json  # only an ingest asks

    places: dict[str, list[str]] = json.loads(NOT_READ.read_bytes())
    read = names()
    counts = {name: _count(home, patterns) for name, patterns in places.items() if name not in read}
    return {name: count for name, count in sorted(counts.items()) if count}


def _count(home: Path, patterns: list[str]) -> int:
    try:
        return sum(1 for _ in islice((path for pattern in patterns for path in home.glob(pattern)), COUNTED_MAX))
    except OSError:
        # A folder that may not be entered: what is in it is nobody's to count.
        return 0


def _agent_of(module: object, name: str) -> Agent:
    from backstory.agents.contract import Agent

    agent = getattr(module, "AGENT", None)
    if not isinstance(agent, Agent):
        raise AgentUnusable(name)
    return agent


def _own() -> set[str]:
    # What several of them share is a module beside the packages.
    return {each.name for each in Path(__file__).parent.iterdir() if (each / "__init__.py").is_file()}


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # costs 50 ms, so only where agents are looked for

    return tuple(entry_points(group=ENTRY_POINTS))
