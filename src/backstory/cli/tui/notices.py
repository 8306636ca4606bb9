"""Tells a person who looks elsewhere that a run has ended: by the terminal's bell, or by its title."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import App

    from backstory.cli.tui.slots import Slot

BELL, TITLE, OFF = "bell", "title", "off"
KEEP_TITLE, GIVE_BACK_TITLE = "\x1b[22;2t", "\x1b[23;2t"
SET_TITLE = "\x1b]2;{}\x1b\\"
SHOWN_S = 8.0


class Notices:
    """Tells of runs that ended, in the way that the setting names, and on the screen."""

    def __init__(self, app: App[None], way: str) -> None:
        self._app, self._way, self._has_title = app, way, False

    def tell(self, ended: Sequence[Slot]) -> None:
        """Tell that these runs have ended."""
        words = f"{', '.join(each.label for each in ended)}: the run has ended"
        said = output.for_screen(words, is_coloured=False)
        self._app.notify(said, markup=False, timeout=SHOWN_S)
        if self._way == BELL:
            self._app.bell()
        elif self._way == TITLE:
            self._write(f"{'' if self._has_title else KEEP_TITLE}{SET_TITLE.format(f'backstory: {said}')}")
            self._has_title = True

    def close(self) -> None:
        """Give the terminal its title back."""
        if self._has_title:
            self._write(GIVE_BACK_TITLE)
            self._has_title = False

    def _write(self, sequence: str) -> None:
        if (driver := self._app._driver) is not None:
            driver.write(sequence)
