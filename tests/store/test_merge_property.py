"""Two copies of a store that went on separately, in any ways: merged either way round they are the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.clock import Clock
from tests.support.copies import WAYS, go_on, merge, opened, said
from tests.support.counts import examples
from tests.support.machines import differences

Steps = list[tuple[int, int, int]]
steps = st.lists(st.tuples(st.integers(0, len(WAYS) - 1), st.integers(0, 7), st.integers(0, 1)), max_size=8)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=steps, here=steps, there=steps)
# At one moment a branch was named at a record of a turn, and at the end of that turn, which had grown there.
@example(before=[(1, 0, 0)], here=[(1, 0, 0), (8, 4, 0)], there=[(4, 0, 0), (8, 4, 0)])
def test_copies_merged_either_way_round_are_the_same(before: Steps, here: Steps, there: Steps) -> None:
    folder = Path(tempfile.mkdtemp(prefix="backstory-"))
    try:
        check(folder, before, here, there)
    finally:
        shutil.rmtree(folder)


def check(folder: Path, before: Steps, here: Steps, there: Steps) -> None:
    clock = Clock()
    with opened(folder / "one", clock) as one:
        go_on(one, clock, 0, 1, 1)
        go_on(one, clock, 1, 1, 1)
        for step in before:
            go_on(one, clock, *step)
    shutil.copy(folder / "one", folder / "other")
    begun = clock.ms
    for name, taken in (("one", here), ("other", there)):
        clock.ms = begun
        with opened(folder / name, clock) as store:
            for step in taken:
                go_on(store, clock, *step)
        shutil.copy(folder / name, folder / f"{name}-before")
    clock.ms += 100
    with (
        opened(folder / "one", clock) as one, opened(folder / "other-before", clock) as other,
        opened(folder / "other", clock) as back, opened(folder / "one-before", clock) as first,
    ):  # fmt: skip
        merge(one, other)
        merge(back, first)
        found = differences(said(one), said(back))
        assert not found, found
        for store in (one, back):
            problems = store.verify().problems
            assert not problems, problems
        was = said(one)
        assert not merge(one, other)
        assert not (found := differences(said(one), was)), found
        # What came of it is merged with what it was made of: nothing is new.
        assert not merge(one, back)
        assert not (found := differences(said(one), was)), found
