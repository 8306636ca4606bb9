"""A list sorted by cost: the order of all costs, of which only the dearest are computed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from backstory.ask import costs
from backstory.model import AssistantText, UserMessage
from backstory.store import Store
from backstory.workspace.history import listing
from backstory.workspace.history.sessions import Page, SessionFilter
from backstory.workspace.reader import Reader
from tests.support.two_stores import Place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import apsw

    from backstory.derive.pricing import PriceTable
    from tests.support.clock import Clock

EVERYWHERE = SessionFilter(everywhere=True)


@pytest.fixture
def place(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(listing, "COSTS_AT_ONCE", 3)
    return Place(tmp_path, clock)


def fill(place: Place, costs: Iterable[float | None], store: Store | None = None) -> list[str]:
    """Sessions with a turn each, the last one last active; their uids."""
    found = []
    for usd in costs:
        place.clock.ms += 1_000
        chosen = store or place.home_store
        session = chosen.create_session("")
        chosen.append_events(session, [UserMessage(content="go"), AssistantText(text="done")])
        chosen.mark_completed(session, duration_ms=1, cost_usd=usd)
        found.append(session.uid)
    return found


def dearest(place: Place, page: Page) -> list[str]:
    return [each.uid for each in Reader(place).sessions(EVERYWHERE, page).sessions]


@pytest.mark.parametrize("seed", range(5))
def test_a_page_of_any_size_is_the_beginning_of_the_whole_order(place: Place, seed: int) -> None:
    costs = [random.Random(seed * 100 + n).choice([None, 0.0, 0.5, 0.5, 1.5, n / 7]) for n in range(40)]
    uids = fill(place, costs)
    rank = {uid: (usd is None, -(usd or 0), -n) for n, (uid, usd) in enumerate(zip(uids, costs, strict=True))}
    expected = sorted(uids, key=rank.__getitem__)
    for limit in (0, 1, 2, 3, 4, 7, 39, 40, 41):
        assert dearest(place, Page(sort="cost", limit=limit)) == expected[: limit or None]


def test_pages_by_cost_follow_each_other_without_a_gap(place: Place) -> None:
    uids = fill(place, [n % 5 / 10 for n in range(23)])
    seen, after = list[str](), None
    while True:
        page = Reader(place).sessions(EVERYWHERE, Page(sort="cost", limit=4, after=after))
        seen += [each.uid for each in page.sessions]
        assert page.total == 23
        if not page.has_more:
            break
        after = page.end
    assert (len(seen), set(seen)) == (23, set(uids))


def test_sessions_of_two_stores_are_one_order(place: Place) -> None:
    ours = fill(place, [0.3, 0.1, None], place.project_store)
    theirs = fill(place, [0.2, 0.4, None])
    order = [theirs[1], ours[0], theirs[0], ours[1], ours[2], theirs[2]]
    assert dearest(place, Page(sort="cost")) == order


def test_only_as_many_costs_are_computed_as_a_page_needs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    by_session = costs.by_session

    def counting(db: apsw.Connection, prices: PriceTable, session_ids: list[int]) -> object:
        computed.extend(session_ids)
        return by_session(db, prices, session_ids)

    fill(place, [n / 10 for n in range(60)] + [None] * 60)
    monkeypatch.setattr(costs, "by_session", counting)
    dearest(place, Page(sort="cost", limit=2))
    # Of those that are shown it is asked twice.
    assert len(computed) == 3 + 2
