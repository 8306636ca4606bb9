"""A machine that loses power at any step: what was acknowledged is there afterwards, and the store is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.model import UserMessage
from backstory.store import open_store
from tests.support.clock import NOW
from tests.support.power import laid_out, losing_power

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.store import Store
    from tests.support.power import Power

pytestmark = pytest.mark.slow

PROMPTS = ("first", "second", "third")
NAMES = ("one", "two", "three")


def after_each_cut(power: Power, folder: Path, name: str, holds: Callable[[Store], list[str]]) -> list[list[str]]:
    """What the store holds after a power cut at each step, whole and with all that was acknowledged."""
    found = []
    for number, (acknowledged, image) in enumerate(power.cuts):
        laid_out(image, folder / str(number))
        with open_store(folder / str(number) / name, now=lambda: NOW) as store:
            held = holds(store) if store.exists else []
            assert len(held) >= acknowledged, f"cut {number} of {len(power.cuts)}"
            assert not store.exists or store.verify().problems == []
        found.append(held)
    return found


def prompts(store: Store) -> list[str]:
    return [turn.prompt for session in store.sessions() for turn in store.turns(session)]


def names(store: Store) -> list[str]:
    return sorted(session.name or "" for session in store.sessions())


def test_what_a_project_store_acknowledged_outlives_a_power_cut_at_any_step(tmp_path: Path) -> None:
    path = tmp_path / "sessions.bks"
    with losing_power(path) as power, open_store(path, now=lambda: NOW) as store:
        session = store.create_session("one")
        for prompt in PROMPTS:
            store.append_events(session, [UserMessage(content=prompt)])
            power.acknowledge()
    (tmp_path / "cuts").mkdir()
    held = after_each_cut(power, tmp_path / "cuts", path.name, prompts)
    assert held[-1] == list(PROMPTS)


def test_what_a_person_decided_outlives_a_power_cut_in_the_home_store_too(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with losing_power(path) as power, open_store(path, shared=True, now=lambda: NOW) as store:
        for name in NAMES:
            store.create_session(name)
            power.acknowledge()
    (tmp_path / "cuts").mkdir()
    held = after_each_cut(power, tmp_path / "cuts", path.name, names)
    assert held[-1] == sorted(NAMES)


def test_a_power_cut_leaves_the_home_store_whole_and_all_of_it_once_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with losing_power(path) as power:
        with open_store(path, shared=True, now=lambda: NOW) as store:
            session = store.create_session("one")
            for prompt in PROMPTS:
                store.append_events(session, [UserMessage(content=prompt)])
        for _ in PROMPTS:
            power.acknowledge()
    (tmp_path / "cuts").mkdir()
    held = after_each_cut(power, tmp_path / "cuts", path.name, prompts)
    assert all(each == list(PROMPTS)[: len(each)] for each in held)
    assert held[-1] == list(PROMPTS)
