"""``backstory mcp uninstall``: an agent's client no longer starts the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.installing import dry_run_option, scope_option, show_and_write
from backstory.cli.options import SERVED_AGENT, json_option
from backstory.workspace.clients.agent_servers import AgentServers

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("uninstall")
@click.argument("agent", type=SERVED_AGENT)
@scope_option
@dry_run_option
@json_option
@click.pass_obj
def command(app: App, agent: str, scope: str, dry_run: bool, as_json: bool) -> None:
    """Remove this server from the settings of AGENT.

    A file that nobody changed since is then what it was before, byte for byte; one that `mcp install` made is removed.
    So is the skill that it gave an agent without MCP settings.
    """
    from backstory.cli.installing import has_only_skills, removing_program, uninstall_skill

    if has_only_skills(agent):
        uninstall_skill(app, agent, scope, dry_run=dry_run, as_json=as_json)
        return
    servers = AgentServers(app.home, app.environ, app.user_home, app.worktree)
    change = servers.plan_uninstall(agent, scope, removing_program(app))
    show_and_write(change, servers.perform, dry_run=dry_run, as_json=as_json)
