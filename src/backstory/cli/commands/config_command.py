"""``backstory config``: the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import CommandGroup, output
from backstory.cli.options import SETTING, json_option
from backstory.config import AGENT, IngestSettings, parse
from backstory.errors import AgentCannotRun, AgentMissing, SettingRefused, UnknownAgent

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.config import Setting

PROGRAM = "agents."


INDENT = "    "


@click.group("config", cls=CommandGroup)
def command() -> None:
    """Show and change settings."""


@command.command("list")
@json_option
@click.pass_obj
def _list(app: App, as_json: bool) -> None:
    """List every setting: its value, which file sets it, and what it means."""
    from backstory import agents

    # Those that can be run are those with a program.
    rows = [_row(app, setting) for setting in app.config.every_setting(agents.with_part("run"))]
    if as_json:
        output.json({"settings": rows})
    for row in [] if as_json else rows:
        _print_setting(row)
    wrong = next((row for row in rows if row["wrong"]), None)
    if wrong is not None:
        # Its error names the file, or the variable.
        app.config.get(wrong["key"])


def _print_setting(row: dict[str, Any]) -> None:
    """Print a setting and its meaning; on a terminal a line breaks between words, and a long value has its own."""
    key, shown, origin = output.style(row["key"], bold=True), _shown(row), f"({row['origin']})"
    if output.columns_shown(f"{row['key']} = {shown}  {origin}") <= output.page_columns():
        output.data(f"{key} = {shown}  {output.style(origin, dim=True)}")
    else:
        output.data(f"{key} =")
        for line in output.flowing(f"{shown}  {origin}", len(INDENT)):
            output.data(f"{INDENT}{line}")
    for line in output.flowing(row["meaning"], len(INDENT)):
        output.data(f"{INDENT}{line}")


def _row(app: App, setting: Setting[Any]) -> dict[str, Any]:
    """A setting as JSON shows it; ``found``: the program that a run would start."""
    key, wrong = setting.key, app.config.wrong(setting.key)
    value = None if wrong else app.config.get(key)
    row = {
        "key": key,
        "value": value,
        "origin": str((app.config.own if wrong else app.config.origin(key)) or "default"),
        "meaning": setting.meaning,
        "wrong": wrong,
    }
    return row | {"found": _program(app, key, value)} if key.startswith(PROGRAM) else row


def _program(app: App, key: str, value: str | None) -> str | None:
    from backstory.runs.stream import program

    try:
        return program(key.removeprefix(PROGRAM), value or None, app.environ)
    except (AgentMissing, AgentCannotRun, UnknownAgent):
        return None


def _shown(row: dict[str, Any]) -> str:
    """A value as a person reads it; for a program also the path that was found."""
    if row["wrong"]:
        return output.style(f"wrong: {row['wrong']}", fg="red")
    text = _text(row["value"])
    if "found" not in row or row["found"] == text:
        return text or "(empty)"
    found = f"(found: {row['found']})" if row["found"] else "(not found)"
    return f"{text} {found}".lstrip()


def _text(value: Any) -> str:
    """A value as a person types it to set it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, list) else str(value)


@command.command("get")
@click.argument("key", type=SETTING)
@json_option
@click.pass_obj
def _get(app: App, key: str, as_json: bool) -> None:
    """Print the value of one setting."""
    value = app.config.get(key)
    if as_json:
        output.json({"key": key, "value": value})
    else:
        output.data(_text(value))


@command.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key", type=SETTING)
@click.argument("value")
@click.option(
    "--here", is_flag=True, help="Only for this project: run.agent, run.silence_s, or a smaller run.context_chars."
)
@json_option
@click.pass_obj
def _set(app: App, key: str, value: str, here: bool, as_json: bool) -> None:
    """Change one setting; separate the items of a list with commas."""
    _check_runnable(key, value)
    _check_places(key, value)
    file = app.config.set(key, value, here=here)
    output.talk(f"{key} is set in {file}.")
    if as_json:
        output.json({"key": key, "value": parse(key, value), "file": str(file)})
    if key.startswith(PROGRAM) and value and _program(app, key, value) is None:
        output.talk(f"There is no program {value} on this machine yet.")


def _check_places(key: str, value: str) -> None:
    """Raise SettingRefused where this names no further place of logs."""
    from backstory import agents
    from backstory.agents.further import further_place

    try:
        for each in parse(key, value) if key == IngestSettings.places.key else ():
            further_place(each, agents.names())
    except ValueError as wrong:
        raise SettingRefused(key, value, str(wrong)) from wrong


def _check_runnable(key: str, value: str) -> None:
    """Raise SettingRefused where this would choose, or give a program to, an agent that is not run from here."""
    from backstory import agents

    name = value if key == AGENT else key.removeprefix(PROGRAM) if key.startswith(PROGRAM) and value else ""
    if name in agents.names() and agents.load(name).run is None:
        raise SettingRefused(key, value, "only its logs are read")
