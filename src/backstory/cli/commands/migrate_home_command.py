"""``backstory migrate-home``: the home store, with all that is kept beside it, moves to another folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.workspace.stores.home_moving import MovedHome

NAMED_MAX = 12
VARIABLE = "BACKSTORY_HOME"


@click.command("migrate-home")
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@click.argument("to", metavar="TO", type=click.Path(path_type=Path))
@click.option("--symlink", is_flag=True, help="Leave a link to TO in the place of FROM.")
@json_option
@click.pass_obj
def command(app: App, source: Path, to: Path, symlink: bool, as_json: bool) -> None:
    """Move the home store, with all that is kept beside it, from the folder FROM to TO.

    All of it is copied and checked before anything is removed; on one disk nothing is copied. A move that was stopped
    is finished by repeating the command. Files that exist in TO are kept; ours stay in FROM. The line on stdout is
    for your shell; until it is set, every command in FROM says where the home is.
    """
    from backstory.workspace.stores.home_moving import as_json as moved_as_json
    from backstory.workspace.stores.home_moving import move_home

    old, new = (Path(os.path.normpath(app.cwd / each.expanduser())) for each in (source, to))
    moved = move_home(old, new, current=app.home_folder, symlink=symlink, progress=output.progress)
    line = _setting(app, moved)
    if as_json:
        output.json(moved_as_json(moved) | {"set": line})
    for remark in _remarks(moved, is_default=moved.to == app.default_home):
        output.talk(output.one_liner(remark))
    if line is not None and not as_json:
        output.data(output.one_liner(line))


def _remarks(moved: MovedHome, *, is_default: bool) -> Iterator[str]:
    """Yield remarks on a move."""
    files = output.counted(len(moved.moved), "entry", "entries")
    yield (
        f"Moved from {moved.source} to {moved.to}: {files}, {output.size(moved.bytes)}."
        if moved.moved
        else f"{moved.to} has all of {moved.source}: nothing was left to move."
    )
    if moved.skipped:
        yield f"Not moved, because {moved.to} has others of these names: {_named(moved.skipped)}"
    if moved.left:
        yield f"Not ours, left in {moved.source}: {_named(moved.left)}"
    if moved.served:
        agents = ", ".join(dict.fromkeys(agent for agent, _ in moved.served))
        paths = _named([path for _, path in moved.served])
        yield f"The old folder is still set for {agents} ({paths}). Update each: backstory mcp install AGENT"
    if moved.is_link:
        yield f"{moved.source} is a link to {moved.to} now: nothing has to be set."
    elif is_default:
        yield f"{moved.to} is the platform's own folder for it, so {VARIABLE} has to be unset:"
    else:
        yield f"Set {VARIABLE}={shlex.quote(str(moved.to))} wherever backstory runs, as in your shell's profile:"


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - NAMED_MAX
    return ", ".join(paths[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _setting(app: App, moved: MovedHome) -> str | None:
    """The line that has the person's shell use the new home; None where nothing has to be set."""
    if moved.is_link:
        return None
    shell, to = Path(app.environ.get("SHELL", "")).name, shlex.quote(str(moved.to))
    if moved.to == app.default_home:
        return f"set -e {VARIABLE}" if shell == "fish" else f"unset {VARIABLE}"
    if shell == "fish":
        return f"set -Ux {VARIABLE} {to}"
    return f"setenv {VARIABLE} {to}" if shell in ("csh", "tcsh") else f"export {VARIABLE}={to}"
