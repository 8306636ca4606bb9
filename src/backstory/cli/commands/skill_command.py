"""``backstory skill``: what teaches an agent without MCP to search and read earlier sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import CommandGroup, output
from backstory.cli.installing import dry_run_option, install_skill, scope_option, uninstall_skill
from backstory.cli.options import SKILLED_AGENT, json_option
from backstory.workspace.clients.agent_skills import skill_text

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.group("skill", cls=CommandGroup)
def command() -> None:
    """Teach agents to search history from their shell, without MCP."""


@command.command("show")
def _show() -> None:
    """Print the skill, a SKILL.md, for an agent that is not known here."""
    output.exact(skill_text())


@command.command("install")
@click.argument("agent", type=SKILLED_AGENT)
@scope_option
@dry_run_option
@json_option
@click.pass_obj
def _install(app: App, agent: str, scope: str, dry_run: bool, as_json: bool) -> None:
    """Put the skill where AGENT looks for skills. A file that is not from here is left alone."""
    install_skill(app, agent, scope, dry_run=dry_run, as_json=as_json)


@command.command("uninstall")
@click.argument("agent", type=SKILLED_AGENT)
@scope_option
@dry_run_option
@json_option
@click.pass_obj
def _uninstall(app: App, agent: str, scope: str, dry_run: bool, as_json: bool) -> None:
    """Remove the skill, if nobody changed it."""
    uninstall_skill(app, agent, scope, dry_run=dry_run, as_json=as_json)
