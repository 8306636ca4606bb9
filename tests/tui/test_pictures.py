"""The pictures in docs/tui are what the screen looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import tui_pictures
from tests.support.session_screens import SessionMachine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_the_pictures_of_the_screen_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Textual would paint without colours.
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for path, picture in tui_pictures.made(SessionMachine(tmp_path / "home"), tmp_path / "branches").items():
        assert path.read_text("utf-8") == picture, f"{path.name}: python -m tests.support.tui_pictures"
