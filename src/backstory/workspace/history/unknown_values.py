"""Filters whose value no session has: an unknown agent or tool is refused, of other values it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory import agents
from backstory.ask import known_values
from backstory.errors import UnknownAgent, UnknownTool, nearest
from backstory.workspace.history.sessions import SessionFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backstory.store import Store
    from backstory.store.tables.session_filter import Selection


def check_agent(stores: Iterable[Store], name: str) -> None:
    """Raise UnknownAgent if no agent is called so, and none is in a store."""
    if agents.is_ours(name):
        return
    known = set(agents.names()).union(*(store.ask_or(set(), known_values.agents) for store in stores))
    if name not in known:
        raise UnknownAgent(name, sorted(known))


def check_tool(stores: Iterable[Store], name: str) -> None:
    """Raise UnknownTool if no tool of this name was ever called."""
    known = set[str]().union(*(store.ask_or(set(), known_values.tools) for store in stores))
    if known and name.casefold() not in {each.casefold() for each in known}:
        raise UnknownTool(name, known)


def nobody_has(stores: Sequence[Store], count: Callable[[SessionFilter], int], wanted: Selection) -> str:
    """Name the first value of a filter that no session has, and the nearest that one has; '' where all are there.

    ``count``: how many sessions a list would have.
    """
    for name, (words, values_of) in known_values.OPEN.items():
        value = getattr(wanted, name)
        if value is None or count(SessionFilter(everywhere=True, subagents=True, **{name: value})):
            continue
        known = set[str]().union(*(store.ask_or(set(), values_of) for store in stores if values_of is not None))
        short = {each.rpartition("/")[2]: each for each in known} if name == "repository" and "/" not in value else {}
        near = nearest(value.rpartition("/")[2] if name == "path" else value, {*known, *short})
        return f"No session {words} {value!r}{f', nearest: {short.get(near, near)}' if near else ''}."
    return ""
