"""``context --explain``: what the next run is told, turn by turn, and what of it is left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backstory import AssistantText, UserMessage, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

LONG = 1_000


@pytest.fixture
def told(bare: Shell) -> Path:
    """A store with a session of a long turn, and a short one after it."""
    path = bare.home / "told.bks"
    with open_store(path) as store:
        session = store.create_session()
        store.append_events(session, [UserMessage(content="the long one"), AssistantText(text="a" * LONG)])
        store.append_events(session, [UserMessage(content="the short one"), AssistantText(text="b")])
    return path


def test_each_turn_is_told_with_its_size(bare: Shell, told: Path) -> None:
    done = bare("context", "S1", "--explain", "--db", told)
    rows = [line.split(maxsplit=3) for line in done.err.splitlines()[1:3]]
    whole = len(done.out.rstrip("\n"))
    assert [(turn, state[:4]) for turn, _, state, _ in rows] == [("1", "sent"), ("2", "sent")]
    sizes = [int(size.replace(",", "")) for _, size, _, _ in rows]
    assert sizes[0] > LONG > sizes[1]
    assert f"{whole:,} of 500,000 characters (0 %): 2 turns, 0 older ones left out." in done.err
    assert f"All turns together are {sum(sizes):,} characters." in done.err


def test_what_does_not_fit_is_told_as_left_out(bare: Shell, told: Path) -> None:
    done = bare("context", "S1", "--explain", "--budget", "500", "--db", told)
    assert "left out  the long one" in done.err
    assert "1 turn, 1 older ones left out." in done.err
    assert "a" * LONG not in done.out


def test_a_turn_that_is_larger_than_the_budget_is_told_to_be_cut(bare: Shell, told: Path) -> None:
    with open_store(told) as store:
        store.append_events(1, [UserMessage(content="huge"), AssistantText(text="c" * LONG)])
    done = bare("context", "S1", "--explain", "--budget", "500", "--db", told)
    assert "Turn 3 alone is larger than the budget, so only its end is sent." in done.err


def test_many_turns_that_are_left_out_take_one_line(bare: Shell, told: Path) -> None:
    with open_store(told) as store:
        for n in range(20):
            store.append_events(1, [UserMessage(content=f"prompt {n}"), AssistantText(text="d" * LONG)])
    done = bare("context", "S1", "--explain", "--budget", "1500", "--db", told)
    head, folded, *sent = done.err.splitlines()[:3]
    assert head.startswith("TURN")
    assert folded.split()[0] == "1-21"
    assert sent[0].split()[0] == "22"


def test_in_json_every_turn_is_explained(bare: Shell, told: Path) -> None:
    found = json.loads(bare("context", "S1", "--explain", "--budget", "500", "--json", "--db", told).out)
    assert [(each["turn"], each["sent"]) for each in found["explained"]] == [(1, False), (2, True)]
    assert found["prefix_chars"] > found["chars"] == len(found["context"])
    assert "explained" not in bare("context", "S1", "--json", "--db", told).json()
