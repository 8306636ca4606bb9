"""Habits as a reader returns them: of several stores together, each turn once, and only of the time asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.reader import Reader
from tests.support.clock import NOW
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Place:
    return Place(tmp_path, clock)


def prompts(place: Place, wanted: SessionFilter = EVERYWHERE) -> list[str]:
    return sorted(each.prompt for each in Reader(place).habits(wanted).turns)


def test_a_session_that_two_stores_hold_counts_once(place: Place) -> None:
    place.talk(place.project_store, "first", "second")
    place.replicate(place.project_store)
    place.talk(place.home_store, "elsewhere")
    assert prompts(place) == ["elsewhere", "first", "second"]


def test_what_the_home_store_does_not_have_yet_counts_too(place: Place) -> None:
    uid = place.talk(place.project_store, "first")
    place.replicate(place.project_store)
    place.go_on(place.project_store, uid, "second")
    assert prompts(place) == ["first", "second"]


def test_turns_of_another_time_do_not_count(place: Place) -> None:
    uid = place.talk(place.project_store, "early")
    place.clock.ms += 86_400_000
    place.go_on(place.project_store, uid, "late")
    assert prompts(place, SessionFilter(everywhere=True, since=NOW + 3_600_000)) == ["late"]
    assert prompts(place, SessionFilter(everywhere=True, until=NOW + 3_600_000)) == ["early"]


def test_without_a_store_there_are_none(place: Place) -> None:
    found = Reader(place).habits(EVERYWHERE)
    assert (found.turns, found.calls, found.named("")) == ((), (), "no repository")


def test_how_far_it_is_is_reported(place: Place) -> None:
    place.talk(place.project_store, "first")
    told: list[tuple[int, int]] = []
    Reader(place).habits(EVERYWHERE, lambda done, total: told.append((done, total)))
    assert told
    assert all(done <= total for done, total in told)


def test_very_many_turns_share_what_is_the_same_of_them(place: Place) -> None:
    place.talk(place.project_store, "first")
    place.talk(place.project_store, "second")
    found = Reader(place).habits(EVERYWHERE)
    one, other = found.turns
    assert (one.agent is other.agent, one.session is one.context) == (True, True)
    assert len({id(each) for each in found.places.values()}) == 1 < len(found.places)
