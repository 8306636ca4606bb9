"""``backstory config``: the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.group("config")
def command() -> None:
    """Show and change settings."""


@command.command("list")
@json_option
@click.pass_obj
def _list(app: App, as_json: bool) -> None:
    """Every setting: what it is, where that is said, what it means."""
    rows = [
        {
            "key": setting.key,
            "value": app.config.get(setting.key),
            "origin": str(app.config.origin(setting.key) or "default"),
            "meaning": setting.meaning,
        }
        for setting in app.config.settings()
    ]
    if as_json:
        output.json(rows)
        return
    for row in rows:
        output.data(f"{row['key']} = {row['value']!r}  {output.style('(' + row['origin'] + ')', dim=True)}")
        output.data(f"    {row['meaning']}")


@command.command("get")
@click.argument("key")
@json_option
@click.pass_obj
def _get(app: App, key: str, as_json: bool) -> None:
    """The value of one setting."""
    value = app.config.get(key)
    if as_json:
        output.json({"key": key, "value": value})
    else:
        output.data(", ".join(value) if isinstance(value, list) else str(value))


@command.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--here", is_flag=True, help="For this project only: run.agent, run.silence_s, or a smaller context.")
@click.pass_obj
def _set(app: App, key: str, value: str, here: bool) -> None:
    """Change one setting; a list's items are separated by commas."""
    file = app.config.set(key, value, here=here)
    output.talk(f"{key} is set in {file}.")
