"""When lines came, out of few bytes: a time is right or not known, whatever became of the bytes."""

from __future__ import annotations

import random
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.bounds import INTEGER_MAX, TIME_MAX_MS
from backstory.store.intake import batches
from backstory.store.intake.batches import BYTES_MAX, VERSION, Arrivals, seen, unwatched
from tests.support.clock import NOW

FORMAT = Path(__file__).parents[2] / "docs" / "file-format.md"
DAY_MS = 86_400_000
HEAD = bytes([VERSION])
Look = tuple[int, int | None]
"""How many bytes had come, and when; None: while nobody watched."""


def noted(looks: list[Look]) -> bytes:
    content, before = HEAD, 0
    for length, at in looks:
        content += unwatched(length) if at is None else seen(length, at - before)
        before = before if at is None else at
    return content


def times(content: bytes, length: int) -> list[int | None]:
    """The time of each of so many bytes."""
    arrivals = Arrivals(content)
    return [arrivals.at(n, 1) for n in range(length)]


def test_a_line_came_when_its_last_byte_was_first_seen() -> None:
    arrivals = Arrivals(noted([(5, NOW), (4, NOW + 40), (11, NOW + 90)]))
    assert (arrivals.at(0, 5), arrivals.at(3, 6), arrivals.at(3, 7)) == (NOW, NOW + 40, NOW + 90)


def test_a_line_that_holds_nothing_came_with_its_end() -> None:
    assert Arrivals(noted([(5, NOW), (1, NOW + 40)])).at(5, 0) == NOW + 40


def test_the_example_of_the_file_format_is_read_as_it_says() -> None:
    (example,) = re.findall(r"`([0-9a-f ]+)` says that 5 bytes were", FORMAT.read_text("utf-8"))
    assert times(bytes.fromhex(example), 13) == [1_000] * 5 + [1_040] * 4 + [None] * 4


def test_what_was_never_seen_has_no_time() -> None:
    arrivals = Arrivals(noted([(5, NOW)]))
    assert (arrivals.at(4, 1), arrivals.at(4, 2), arrivals.at(5, 1)) == (NOW, None, None)


def test_what_came_while_nobody_watched_has_no_time_and_what_came_after_it_has() -> None:
    assert times(noted([(1, NOW), (2, None), (1, NOW + DAY_MS)]), 4) == [NOW, None, None, NOW + DAY_MS]


def test_a_clock_that_is_set_back_changes_no_other_time() -> None:
    looks: list[Look] = [(1, NOW), (1, NOW - DAY_MS), (1, NOW - DAY_MS + 1), (1, NOW + 1)]
    assert times(noted(looks), 4) == [at for _, at in looks]


def test_a_time_that_cannot_be_kept_is_none() -> None:
    looks: list[Look] = [(1, TIME_MAX_MS), (1, TIME_MAX_MS + 1), (1, NOW), (1, -1), (1, NOW)]
    assert times(noted(looks), 5) == [TIME_MAX_MS, None, NOW, None, NOW]


def test_lengths_that_no_output_has_end_the_reading() -> None:
    assert times(noted([(1, NOW), (INTEGER_MAX, NOW), (1, NOW)]), 1) == [NOW]
    assert Arrivals(noted([(1, NOW), (INTEGER_MAX, NOW), (1, NOW)])).at(INTEGER_MAX - 1, 1) is None


def test_the_last_time_is_that_of_the_last_look_that_saw_something() -> None:
    assert Arrivals(noted([(1, NOW + 9), (1, NOW), (3, None)])).last == NOW
    assert (Arrivals().last, Arrivals(noted([(3, None)])).last) == (None, None)


def test_notes_of_another_version_say_nothing() -> None:
    content = noted([(1, NOW)])
    assert times(bytes([VERSION + 1]) + content[1:], 1) == [None]


def test_nothing_is_read_behind_the_most_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100_000
    monkeypatch.setattr(batches, "BYTES_MAX", most)
    content = noted([(1, NOW)]) + seen(1, 1) * (most // 2)
    last = (most - len(noted([(1, NOW)]))) // 2
    arrivals = Arrivals(content)
    assert (arrivals.at(last, 1), arrivals.at(last + 1, 1)) == (NOW + last, None)


def test_fifty_thousand_lines_take_little_room_and_keep_every_time() -> None:
    chance, looks, at = random.Random(7), list[Look](), NOW
    for _ in range(50_000):
        at += chance.randrange(25, 900)
        looks.append((chance.randrange(60, 9_000), at))
    content = noted(looks)
    arrivals, start = Arrivals(content), 0
    for length, when in looks:
        assert arrivals.at(start, length) == when
        start += length
    assert len(content) < 4 * 50_000 + 10


def test_no_more_notes_are_read_than_there_is_output_to_describe() -> None:
    arrivals = Arrivals(HEAD + seen(1, 1) * ((BYTES_MAX - 1) // 2))
    tracemalloc.start()
    assert arrivals.at(1_000, 1) == 1_001
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 1_000_000


def test_times_are_the_same_in_whichever_order_they_are_asked_for() -> None:
    arrivals = Arrivals(noted([(5, NOW), (4, None), (11, NOW + 90)]))
    assert [arrivals.at(n, 1) for n in (12, 0, 7, 40)] == [NOW + 90, NOW, None, None]


LOOKS = st.lists(
    st.tuples(st.integers(1, 200), st.none() | st.integers(0, TIME_MAX_MS) | st.integers(NOW, NOW + 300)), max_size=12
)


@given(LOOKS, st.data())
def test_a_torn_tail_costs_times_and_makes_none_up(looks: list[Look], data: st.DataObject) -> None:
    content, length = noted(looks), sum(length for length, _ in looks)
    whole = times(content, length)
    assert whole == [at for length, at in looks for _ in range(length)]
    kept = content[: data.draw(st.integers(0, len(content)))]
    # A disk that lost what was written may have zeros in its place.
    torn = times(kept + bytes(data.draw(st.integers(0, 20))), length)
    assert all(at is None or at == known for at, known in zip(torn, whole, strict=True))


@given(st.binary(max_size=60))
def test_whatever_the_bytes_are_nothing_is_raised(content: bytes) -> None:
    for each in times(HEAD + content, 300):
        assert each is None or 0 <= each <= TIME_MAX_MS
