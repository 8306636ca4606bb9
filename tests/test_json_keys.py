"""A key of JSON means one thing, whatever the command; docs/json.md lists what, and the changelog what changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.json_answers import answers
from tests.support.json_keys import (
    CHANGES,
    DOCUMENT,
    MAPS,
    Values,
    before,
    changed,
    listed_changes,
    objects,
    paths,
    reference,
    uses,
)
from tests.support.json_meanings import MEANINGS, OF_NULL, UNSEEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGENERATE = "python -m tests.set_json_reference"


def _objects(printed: Values) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((command, each) for command, found in printed.items() for value in found for each in objects(value))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Values:
    folder: Path = tmp_path_factory.mktemp("answers") / "machine"
    return answers(folder)


def test_every_command_with_json_was_asked(printed: Values) -> None:
    assert {command for command, found in printed.items() if not found} == set()


def test_no_command_prints_a_bare_list(printed: Values) -> None:
    assert {command for command, found in printed.items() for each in found if not isinstance(each, dict)} == set()


def test_a_key_has_one_type(printed: Values) -> None:
    several = {key: kinds for key, kinds in uses(printed).items() if len({*kinds} - {"null"}) > 1 and key not in MAPS}
    assert several == {}


def test_a_key_that_is_always_null_has_a_type(printed: Values) -> None:
    assert {key for key, kinds in uses(printed).items() if {*kinds} == {"null"}} == set(OF_NULL)


def test_a_session_is_named_by_uid_and_label(printed: Values) -> None:
    halves = [(command, each) for command, each in _objects(printed) if ("uid" in each) != ("label" in each)]
    assert halves == []
    others = {(command, key) for command, each in _objects(printed) for key in each if key in {"session_uid", "parent"}}
    assert others == set()


def test_a_cost_has_its_kind_and_bounds(printed: Values) -> None:
    cost = {"cost_usd", "cost_kind", "low_usd", "high_usd"}
    partial = [(command, each) for command, each in _objects(printed) if "cost_usd" in each and not cost <= {*each}]
    assert [each for each in partial if each[1].get("kind") != "Complete"] == []


def test_times_are_utc(printed: Values) -> None:
    texts = {value for _, each in _objects(printed) for value in each.values() if isinstance(value, str)}
    times = {each for each in texts if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", each)}
    assert times
    assert {each for each in times if not re.fullmatch(r"[\d-]{10}T[\d:]{8}(\.\d+)?Z", each)} == set()


def test_every_key_has_a_meaning_and_is_printed(printed: Values) -> None:
    assert set(uses(printed)) == set(MEANINGS) - set(UNSEEN)


def test_the_reference_lists_what_is_printed(printed: Values) -> None:
    assert DOCUMENT.read_text("utf-8") == reference(printed), REGENERATE


def test_the_changelog_lists_every_key_that_changed(printed: Values) -> None:
    assert listed_changes(CHANGES.read_text("utf-8")) == changed(before(), paths(printed))
