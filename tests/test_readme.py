"""The stories of README.md are true: their commands, typed as they stand, print what is shown."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.moving import PICTURE, READ_MS, Stage, find, pictured
from tests.support.moving import REGENERATE as FILM_AGAIN
from tests.support.stories import (
    PICTURES,
    README,
    REGENERATE,
    ROOT,
    Machine,
    address,
    addressed,
    illustrated,
    played,
    retold,
    steps,
    stories,
)

TEXT = README.read_text("utf-8")
STORIES = stories(TEXT)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told() -> list[str]:
    """Each story with what it prints now; a story begins where the one before left the machine.

    The folder's name is short: a long one would be cut where the output has it.
    """
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        return [played(story, machine) for story in STORIES]


def test_there_are_five_stories_of_three_commands_at_most() -> None:
    assert [1 <= len(steps(story)) <= 3 for story in STORIES] == [True] * 5


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_a_story_prints_what_the_readme_shows(told: list[str], number: int) -> None:
    assert told[number] == STORIES[number], f"The output has changed. If that is meant: {REGENERATE}"


def test_no_story_shows_a_failure(told: list[str]) -> None:
    assert [word for word in ("Traceback", "backstory: ", "not found") if any(word in story for story in told)] == []


def test_output_that_is_not_true_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    text = "# Title\n\n```console\n$ cd cli\n$ pwd\nelsewhere\n```\n\n```sh\nls\n```\n"
    assert retold(text, Machine(tmp_path)) == text.replace("elsewhere", "~/cli")


def test_the_address_of_the_repository_is_that_of_the_package() -> None:
    assert addressed(TEXT, address()) == TEXT, REGENERATE
    assert addressed("git clone REPOSITORY here", "https://example.com/b") == "git clone https://example.com/b here"


def test_every_picture_of_a_screen_is_linked() -> None:
    assert illustrated(TEXT) == TEXT, f"Pictures came, went or have other titles: {REGENERATE}"
    assert [path.name for path in PICTURES.glob("*.svg") if f"({path.relative_to(ROOT)})" not in TEXT] == []


def test_the_moving_picture_shows_what_is_printed_today(tmp_path: Path) -> None:
    with Stage(tmp_path).film() as film:
        find(film)
    read = [frame for frame in film.frames if frame.ms >= READ_MS / 2]
    shown = PICTURE.read_text("utf-8")
    changed = [line for frame in read for line in frame.lines if pictured(line) not in shown]
    assert (changed, len(read)) == ([], 4), f"Screens have changed. If that is meant: {FILM_AGAIN}"
