"""``backstory help``: what ``--help`` shows, of any command; the first page, and the page of all commands."""

from __future__ import annotations

from typing import Any

import click

from backstory.cli import COMMANDS, GROUPS, no_command, output

FRONT = {
    "Find": ("search", "list", "show", "stats", "report"),
    "Continue": ("run", "resume", "steer", "queue", "ps", "cancel"),
    "Branch": ("tree", "checkout", "diff"),
    "Keep": ("ingest", "restore", "export", "rename", "rm"),
    "Agents": ("mcp", "board"),
}
"""The commands of the first page."""
OTHER_NAMES = {
    "chronicle, /chronicle": "The same as report.",
    "/reindex": "The same as reindex.",
    "session_store_sql": "The tool of `backstory mcp` for SQL; for you: sql.",
    "--steer, --followup TEXT": "Without a command: steer and followup.",
    "--db PATH": "The same as --store PATH.",
    "-S SESSION": "The session that is meant, where no argument is one.",
    "run --name NAME": "Continue the session NAME; create it if needed.",
    "run -n PROMPT": "Begin a new session.",
    "run @N PROMPT": "Branch off after record N; checkout, show, diff: @N.",
}
"""Words that other tools have for the same; they work for good."""
ABOUT = "One searchable history for all your coding agents."
OPTIONS = "-h, --help   --version   --store PATH: use this store file"
SIDE_BY_SIDE_COLUMNS_LEAST = 60
"""On narrower terminals the title of a group is above its commands."""


def _commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    named, group = _named(ctx, ctx.params.get("names") or ())
    found = group.list_commands(named) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


@click.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_commands)
@click.option("--all", "lists_all", is_flag=True, help="List every command, and the names from other tools.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], lists_all: bool) -> None:
    """Show the help of COMMAND, for example `search` or `queue list`; without one, the first page of commands."""
    if lists_all:
        if names:
            raise click.UsageError("--all lists every command: leave out COMMAND.")
        output.data(_all_commands(ctx.make_formatter()).rstrip("\n"))
        return
    output.data(_named(ctx, names)[0].get_help())


def _named(ctx: click.Context, names: tuple[str, ...]) -> tuple[click.Context, click.Command]:
    """Return the command with this name, such as ``queue list``. Raises UsageError."""
    at = ctx.find_root()
    for name in names:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise _unknown(at, name)
        at = click.Context(found, info_name=name, parent=at)
    return at, at.command


def _unknown(at: click.Context, name: str) -> click.UsageError:
    if isinstance(at.command, click.Group):
        return no_command(at.command, at, name)
    return click.UsageError(f"{at.command_path} has no command {name!r}.", at)


# the pages of commands ------------------------------------------------------------------------------------------------


def first_page(width: int) -> str:
    """Return the commands that most people need, with no more than a line for each at 80 columns."""
    formatter = click.HelpFormatter(width=width)
    formatter.write_usage("backstory", "[COMMAND]")
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(ABOUT)
        formatter.write_text("Without a command: the newest sessions of this project.")
    if formatter.width < SIDE_BY_SIDE_COLUMNS_LEAST:
        _write_groups(formatter, {title: {name: COMMANDS[name] for name in names} for title, names in FRONT.items()})
    else:
        formatter.write_paragraph()
        formatter.write_dl(_rows())
    rest = len(COMMANDS) - sum(map(len, FRONT.values()))
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(f"backstory help COMMAND · backstory help --all: {rest} more commands")
        formatter.write_text(OPTIONS)
    return formatter.getvalue()


def _all_commands(formatter: click.HelpFormatter) -> str:
    """Return every command by what it is for, and the words of other tools that work, too."""
    formatter.write_usage("backstory", "[COMMAND]")
    _write_groups(formatter, GROUPS)
    _write_groups(formatter, {"Names from other tools": OTHER_NAMES})
    return formatter.getvalue()


def _rows() -> list[tuple[str, str]]:
    room, longest = max(map(len, FRONT)), max(len(name) for names in FRONT.values() for name in names)
    return [
        (f"{title if name == names[0] else '':<{room}}  {name:<{longest}}", COMMANDS[name])
        for title, names in FRONT.items()
        for name in names
    ]


def _write_groups(formatter: click.HelpFormatter, groups: dict[str, dict[str, str]]) -> None:
    # Descriptions begin in one column, whatever the section.
    longest = max(len(name) for group in groups.values() for name in group)
    for title, group in groups.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(longest), about) for name, about in group.items()])
