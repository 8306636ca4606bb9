"""``backstory mcp``: history for agents, as tools of the Model Context Protocol."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import click

from backstory import __version__
from backstory.cli import failing, output
from backstory.cli.lazy_family import LazyFamily
from backstory.errors import McpNotInstalled

if TYPE_CHECKING:
    from backstory.cli.app import App


BY_HAND = "This talks to an agent's client, which `backstory mcp install` has start it. Ctrl-D ends it."
COMMANDS = {"install": "mcp_install_command", "uninstall": "mcp_uninstall_command"}
"""The module of each, imported when it is asked for."""


@click.group("mcp", cls=LazyFamily, modules=COMMANDS, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Serve history to an agent over stdin and stdout (MCP).

    The tools answer from the repository that the server is started in, unless your own setting mcp.scope is all.
    An agent starts this by itself once `mcp install` has told it to; it ends when the agent closes its end.
    """
    if ctx.invoked_subcommand is None:
        _serve(ctx.obj)


def _serve(app: App) -> None:
    from backstory.mcp.lobby import Lobby

    if not _is_installed():
        raise McpNotInstalled
    if output.can_ask():
        output.talk(BY_HAND)
    lobby = Lobby(__version__)
    if not lobby.receive():
        return
    from backstory.mcp.kept import KeptWorkspace
    from backstory.mcp.server import serve
    from backstory.workspace.history.asking import look_around

    files = (app.config.own, *([app.config.project] if app.config.project else []))
    kept = KeptWorkspace(app.new_workspace, app.user_home, look_around(app.environ), files)
    serve(kept, __version__, failing.trace, lobby)


def _is_installed() -> bool:
    """Return True if the packages of the extra are there; they are not imported for that."""
    try:
        return all(importlib.util.find_spec(each) is not None for each in ("mcp", "mcp_types", "anyio"))
    except ValueError:
        return False
