"""A key of JSON means one thing, whatever the command; docs/json.md lists what, and the changelog what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    paths,
    reference,
    uses,
)
from tests.support.json_meanings import MEANINGS, UNSEEN

if TYPE_CHECKING:
    from pathlib import Path

REGENERATE = "python -m tests.set_json_reference"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Values:
    folder: Path = tmp_path_factory.mktemp("answers") / "machine"
    return answers(folder)


def test_every_command_with_json_was_asked(printed: Values) -> None:
    assert {command for command, found in printed.items() if not found} == set()


def test_no_command_prints_a_bare_list(printed: Values) -> None:
    assert {command for command, found in printed.items() for each in found if not isinstance(each, dict)} == set()


def test_a_key_has_one_type(printed: Values) -> None:
    assert {key: kinds for key, kinds in uses(printed).items() if len(kinds) > 1 and key not in MAPS} == {}


def test_every_key_has_a_meaning_and_is_printed(printed: Values) -> None:
    assert set(uses(printed)) == set(MEANINGS) - UNSEEN


def test_the_reference_lists_what_is_printed(printed: Values) -> None:
    assert DOCUMENT.read_text("utf-8") == reference(printed), REGENERATE


def test_the_changelog_lists_every_key_that_changed(printed: Values) -> None:
    assert listed_changes(CHANGES.read_text("utf-8")) == changed(before(), paths(printed))
