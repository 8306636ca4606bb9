"""Agents of which nothing was ever read: they are new on this machine, or this version learned to read them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import known_values
from backstory.ingest.discover import discover
from backstory.workspace.stores.up_to_date import chosen_agents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.workspace.place import Place
    from backstory.workspace.stores.importing import Machine

ASKED_FROM_BYTES = 1_000_000_000
"""The bytes from which a person is asked before a first reading."""


class NewSource(Struct, frozen=True):
    """An agent's logs and databases, of which nothing was ever read: their number, and their bytes together."""

    agent: str
    files: int
    bytes: int


def new_sources(place: Place, machine: Machine) -> Iterator[NewSource]:
    """Yield the agents to be read that have files here and no session in the home store yet."""
    known = place.home_store.ask_or(set(), known_values.agents)
    for agent in chosen_agents(place.config, machine.only):
        if agent.name in known:
            continue
        found, _ = discover([agent], place.environ, machine.user_home)
        sizes = [each.size for each in found]
        databases = agent.database.databases(place.environ, machine.user_home) if agent.database else []
        databases += agent.database.databases_in(place.folder) if agent.database else []
        databases += agent.live.databases(place.environ, machine.user_home) if agent.live else []
        for database in databases:
            with suppress(OSError):
                sizes.append(database.stat().st_size)
        if sizes:
            yield NewSource(agent.name, len(sizes), sum(sizes))
