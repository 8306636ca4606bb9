"""The message of commands that fill the home store if the settings have it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.cli import output
from backstory.workspace.stores.up_to_date import HOME_OFF

if TYPE_CHECKING:
    from backstory.cli.app import App


def says_off(app: App, *, as_json: bool) -> bool:
    """Return True if the home store is off, so that nothing is done; then that is printed."""
    if app.workspace.keeps_home:
        return False
    if as_json:
        output.json({"off": "store.enabled"})
    output.talk(HOME_OFF)
    return True
