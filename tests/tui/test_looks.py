"""Every screen looks as it did, in every size and theme; without colours nothing has any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.piloted import Piloted, piloted, screen
from tests.support.shell import Shell
from tests.support.tui_looks import LOOKS, SIZES, Looked, golden

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
PLAIN = {
    "list": {"search", "palette"}, "session": {"prompt", "question", "at-work"}, "reports": {"costs"},
    "branches": {"branches"},
}  # fmt: skip
SHRUNK = {
    "list": {"sessions", "palette"}, "session": {"prompt", "question"}, "reports": {"tips"},
    "branches": {"branches", "compared"},
}  # fmt: skip
OVER_ANOTHER = ("palette", "keys", "question")
"""Looks of what is over a screen, and shows less of it without colours."""


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Looked:
    return Looked(tmp_path_factory.mktemp("looks"))


@pytest.fixture(autouse=True)
def coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    # Textual would paint without colours.
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("walk", LOOKS)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_screen_looks_as_before(looked: Looked, size: tuple[int, int], walk: str) -> None:
    for name, look in looked.looks(walk, size).items():
        before = golden(name, size).read_text("utf-8")
        assert look.golden == before, f"{name}: look at it, then python -m tests.support.tui_looks"


@pytest.mark.parametrize("walk", PLAIN)
def test_without_colours_a_screen_has_the_same_text_and_no_colour(
    looked: Looked, monkeypatch: pytest.MonkeyPatch, walk: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    looks = looked.looks(walk, (80, 24), ["light"], PLAIN[walk])
    assert looks.keys() == PLAIN[walk]
    for name, now in looks.items():
        before = golden(name, (80, 24)).read_text("utf-8")
        assert (now.colours, now.text) == (set(), before.partition("\n-- dark\n")[0]) or name in OVER_ANOTHER, name
        assert ("reverse" in now.styles["light"], now.colours) == (True, set()), name


@pytest.mark.parametrize("walk", SHRUNK)
def test_below_the_smallest_size_every_screen_is_a_line_and_then_as_before(looked: Looked, walk: str) -> None:
    shrunk = set[str]()

    async def shrink(name: str, seen: Piloted) -> None:
        before = seen.shown()
        await seen.resize(59, 14)
        await seen.until_seen("59 columns and 14 lines: the screen needs 60 and 15.")
        assert seen.shown().split("\n")[2:] == [""] * 12
        await seen.press("question_mark", "ctrl+p", "x", "enter")
        await seen.resize(7, 2)
        await seen.until_seen("7")
        await seen.resize(80, 24)
        await seen.until(lambda: seen.shown() == before)
        shrunk.add(name)

    looked.open(walk, (80, 24), shrink, SHRUNK[walk])
    assert shrunk == SHRUNK[walk]


def test_a_key_chooses_other_colours_and_the_choice_is_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    bare = Shell(home)

    async def test() -> None:
        async with screen(bare.cwd, bare.environ) as seen:
            await seen.press("T")
            await seen.until_seen("Colours: light")
            assert not seen.app.current_theme.dark
        async with screen(bare.cwd, bare.environ) as seen:
            assert seen.app.theme == "light"
            await seen.press("T")
            await seen.until_seen("Colours: terminal")
            assert seen.app.current_theme.ansi

    piloted(test)
    assert bare("config", "get", "screen.theme").out == "terminal\n"
