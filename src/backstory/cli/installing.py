"""Shared by ``mcp install``, ``skill install`` and ``ingest --schedule``: the place, the changes, the report of them.

As JSON: ``agent``, ``scope``, ``file``, ``action`` (``add``, ``update``, ``remove`` or ``none``), ``written``,
``edits`` (each with its ``line``, the lines ``removed`` and those ``added``) and ``remarks``. `mcp install` adds
``command`` and ``env``: what the agent starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from backstory import agents
from backstory.cli import output
from backstory.errors import McpNotInstalled, ProgramNotUsable
from backstory.export.installed import SERVER, SKILL
from backstory.workspace.clients.agent_servers import ServerProgram
from backstory.workspace.clients.agent_skills import AgentSkills
from backstory.workspace.clients.settings_change import ADD, NONE, REMOVE, SCOPES, UPDATE, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from backstory.cli.app import App
    from backstory.workspace.clients.settings_change import SettingsChange

scope_option = click.option(
    "--scope", type=click.Choice(SCOPES), default=USER, show_default=True,
    help="For you in every folder, or for everybody in this project.",
)  # fmt: skip
NO_SERVERS = "has no MCP settings that can be written from here: it gets the skill, which does the same from its shell."
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the change; write nothing.")
THINGS = {SERVER: "MCP server", SKILL: "skill"}
DONE = {ADD: "Written", UPDATE: "Brought up to date", REMOVE: "Removed"}


def show_and_write(
    change: SettingsChange, perform: Callable[[SettingsChange], None], *, dry_run: bool, as_json: bool,
    more: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Print a change, then make it, unless it is a dry run."""
    if not as_json:
        print_change(change)
    is_written = change.action != NONE and not dry_run
    if is_written:
        perform(change)
    if as_json:
        output.json(_as_json(change, is_written=is_written) | (more or {}))
        return
    for remark in change.remarks:
        output.talk(output.one_liner(remark))
    if change.action == NONE:
        output.talk(output.one_liner(f"Nothing to do: it is in {change.path} already."))
    elif not is_written:
        output.talk("Nothing was written.")
    else:
        what = f"the {THINGS[change.what]} of {agents.load(change.agent).title}"
        output.talk(output.one_liner(f"{DONE[change.action]}: {change.path}, {what}"))


def has_only_skills(agent: str) -> bool:
    """Return True for an agent whose client reads skills, and has no MCP settings that can be written here."""
    part = agents.load(agent)
    return part.servers is None and part.skills is not None


def install_skill(app: App, agent: str, scope: str, *, dry_run: bool, as_json: bool) -> None:
    """Put the skill where an agent's client looks for skills."""
    import shutil

    skills = _skills(app)
    change = skills.plan_install(agent, scope)
    if has_only_skills(agent):
        change = replace(change, remarks=(*change.remarks, f"{agents.load(agent).title} {NO_SERVERS}"))
    show_and_write(change, skills.perform, dry_run=dry_run, as_json=as_json)
    if shutil.which("backstory", path=app.environ.get("PATH")) is None:
        output.talk("backstory is not on PATH here, and the skill calls it by this name: put it on your PATH.")


def uninstall_skill(app: App, agent: str, scope: str, *, dry_run: bool, as_json: bool) -> None:
    """Take the skill away, if nobody changed it."""
    skills = _skills(app)
    show_and_write(skills.plan_uninstall(agent, scope), skills.perform, dry_run=dry_run, as_json=as_json)


def _skills(app: App) -> AgentSkills:
    return AgentSkills(app.home, app.environ, app.user_home, app.worktree)


def print_change(change: SettingsChange) -> None:
    """The lines that go and come, and where."""
    for edit in change.edits:
        output.data(output.style(output.one_liner(f"{change.path}, line {edit.line}:"), bold=True))
        for line in edit.removed:
            output.data(output.style(f"- {output.clean(line)}", fg="red"))
        for line in edit.added:
            output.data(output.style(f"+ {output.clean(line)}", fg="green"))


def edits_as_json(change: SettingsChange) -> dict[str, Any]:
    """The change of one file."""
    return {
        "file": str(change.path),
        "action": change.action,
        "edits": [
            {"line": each.line, "removed_lines": each.removed, "added_lines": each.added} for each in change.edits
        ],
    }


def _as_json(change: SettingsChange, *, is_written: bool) -> dict[str, Any]:
    return {
        "agent": change.agent,
        "scope": change.scope,
        "written": is_written,
        **edits_as_json(change),
        "remarks": change.remarks,
    }


# this program ---------------------------------------------------------------------------------------------------------
# The start of this program by another one: absolute words, and the variables to find the same stores.


START_S = 30
MODULE = "backstory"
HOME_VARIABLES = ("BACKSTORY_HOME", "XDG_DATA_HOME")
"""Each leads to another home store."""
ALWAYS_GIVEN = ("HOME", "PATH", "LANG", "LC_ALL", "USER")
"""Variables that every client passes on to its servers."""


class _Asked(dict[str, str]):
    """Variables; notes which of them are asked for."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self.names: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(key)
        return super().get(key, default)


def server_program(app: App) -> ServerProgram:
    """Return the command by which an agent starts ``backstory mcp``. Raises McpNotInstalled, ProgramNotUsable."""
    _check_extra()
    return _checked(app, removing_program(app))


def removing_program(app: App) -> ServerProgram:
    """The same, to find what it added: nothing is started or missing."""
    return ServerProgram(command=(*program_words(), "mcp"), environ=dict(_variables(app)))


def ingest_program(app: App, *, is_checked: bool) -> ServerProgram:
    """Return the command by which a timer starts ``backstory ingest``. Raises ProgramNotUsable."""
    program = ServerProgram(command=(*program_words(), "ingest"), environ=dict(_variables(app)))
    return _checked(app, program) if is_checked else program


def program_words() -> list[str]:
    """The program that runs, as absolute words. Links stay: an upgrade leads them to the new one."""
    started_as = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - links stay
    if started_as.name == "__main__.py" or not started_as.is_file():
        # Without -P Python would look for modules in the folder that the agent works in first.
        return [sys.executable, "-P", "-m", MODULE]
    if os.access(started_as, os.X_OK):
        return [str(started_as)]
    return [sys.executable, "-P", str(started_as)]


def _check_extra() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("mcp")
    except PackageNotFoundError as missing:
        raise McpNotInstalled from missing


def _checked(app: App, program: ServerProgram) -> ServerProgram:
    """Start the program once as a client would: from another folder, with few variables."""
    words, environ = program.command, app.environ
    given = {name: environ[name] for name in ALWAYS_GIVEN if name in environ}
    try:
        for word in words:
            word.encode()
        done = subprocess.run(
            [*words, "--help"], cwd="/", env=given, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=START_S, check=False,
        )  # fmt: skip
    except UnicodeEncodeError as refused:
        raise ProgramNotUsable(words, "its path is not UTF-8") from refused
    except (OSError, subprocess.TimeoutExpired) as refused:
        raise ProgramNotUsable(words, getattr(refused, "strerror", None) or "it does not answer") from refused
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise ProgramNotUsable(words, said[-1])
    return program


def _variables(app: App) -> Iterator[tuple[str, str]]:
    """Yield variables for the places of stores and logs; a client may start without them, or drop them."""
    if any(app.environ.get(name) for name in HOME_VARIABLES):
        yield HOME_VARIABLES[0], str(app.cwd / app.home)
    asked = _Asked(app.environ)
    for name in agents.with_part("log"):
        agents.load(name).log.roots(asked, app.user_home)
    for name in sorted(asked.names):
        if value := app.environ.get(name):
            yield name, value
