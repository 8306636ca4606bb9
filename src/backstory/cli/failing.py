"""Errors of a command, for the person who typed it: one line in a pipe, broken between words on a terminal."""

from __future__ import annotations

import click

from backstory.cli import output
from backstory.cli.output import parts


def refuse(refused: BaseException | str) -> None:
    """Print why a command failed, in one line in a pipe; below it the additional lines of the error."""
    output.talk(_broken(f"backstory: {output.one_liner(str(refused))}"))
    for line in getattr(refused, "below", ()):
        output.talk(_broken(f"  {output.one_liner(str(line))}"))


def refuse_usage(refused: click.ClickException) -> None:
    """Print what is wrong with the command line, how it is used, and where help is."""
    if isinstance(refused, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        output.talk(refused.format_message())
        return
    refuse(" ".join(refused.format_message().split()))
    if isinstance(refused, click.UsageError) and refused.ctx is not None:
        usage = output.one_liner(refused.ctx.get_usage())
        output.talk(f"  {usage}\n  Help: {refused.ctx.command_path} --help")


def _broken(line: str) -> str:
    """A line, on a terminal as several that are broken between words."""
    most = output.width()
    if len(line) < most or not output.is_watched():
        return line
    line = output.clean(line)
    return "\n".join(" " * indent + line[start:end] for indent, start, end in parts(line, most))


def trace(failed: BaseException | None) -> None:
    """Print the traceback of our own bug, for a report."""
    import traceback

    if failed is not None:
        output.talk("".join(traceback.format_exception(failed)).rstrip("\n"))
