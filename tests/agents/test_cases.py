"""Recorded logs say what a person saw in them. See ``rewrite_cases`` for changing an expectation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backstory import agents
from tests.support.every import every
from tests.support.reading import EXPECTED, case_name, case_told, cases, lines_of, log_of, reviewed

if TYPE_CHECKING:
    from pathlib import Path

of_every_case = every("folder", cases(), ids=case_name)


@pytest.mark.parametrize("folder", cases(), ids=case_name)
def test_a_recorded_log_says_what_a_person_saw_in_it(folder: Path) -> None:
    expected = json.loads((folder / EXPECTED).read_text("utf-8"))
    assert json.loads(json.dumps(reviewed(case_told(folder)))) == expected


@of_every_case
def test_no_record_of_a_recorded_log_is_unknown(folder: Path) -> None:
    assert case_told(folder).unknown == {}


@of_every_case
def test_an_id_names_one_record_of_a_log(folder: Path) -> None:
    adapter = agents.load(folder.parent.name)
    given = [adapter.log.native_id_of(line) for line in lines_of(log_of(folder).read_bytes()) if line.strip()]
    named = [each for each in given if each is not None]
    assert len(named) == len(set(named))


@of_every_case
def test_every_turn_follows_a_turn_that_came_before_it(folder: Path) -> None:
    turns = case_told(folder).turns
    for turn in turns.values():
        parent = turns.get(turn.parent_uid or "")
        assert parent is None or parent.first_seq < turn.first_seq
