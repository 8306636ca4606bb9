"""``backstory mcp install``: an agent's client starts the server from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli.installing import dry_run_option, scope_option, show_and_write
from backstory.cli.options import SERVED_AGENT, json_option
from backstory.workspace.clients.agent_servers import AgentServers

if TYPE_CHECKING:
    from backstory.cli.app import App


@click.command("install")
@click.argument("agent", type=SERVED_AGENT)
@scope_option
@dry_run_option
@json_option
@click.pass_obj
def command(app: App, agent: str, scope: str, dry_run: bool, as_json: bool) -> None:
    """Add this server to the settings of AGENT, and show what changes there.

    The entry has the absolute path of this program. Everything else in the file stays as it is, byte for byte; a file
    that cannot be read, and another server of this name, are left alone. `mcp uninstall` takes it away again.

    An agent without MCP settings that can be written gets the skill of `backstory skill install` instead.
    """
    from backstory.cli.installing import has_only_skills, install_skill, server_program

    if has_only_skills(agent):
        install_skill(app, agent, scope, dry_run=dry_run, as_json=as_json)
        return
    servers = AgentServers(app.home, app.environ, app.user_home, app.worktree)
    program = server_program(app)
    change = servers.plan_install(agent, scope, program)
    more = {"command": program.command, "env": program.environ}
    show_and_write(change, servers.perform, dry_run=dry_run, as_json=as_json, more=more)
