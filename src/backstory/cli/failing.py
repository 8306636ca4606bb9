"""Errors of a command: one line in a pipe, broken between words on a terminal, an object where JSON was asked for."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.output import parts
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.errors import BackstoryError

_CAPITAL = lazy_regex("(?<!^)(?=[A-Z])")


def refuse(refused: BackstoryError, *, as_json: bool) -> None:
    """Print why a command failed, in one line in a pipe; below it the additional lines of the error."""
    if not as_json:
        say(str(refused), [str(line) for line in refused.below])
        return
    _print_object(kind_of(type(refused)), str(refused), refused.exit_code, refused.next, refused.candidates)


def kind_of(refused: type[BackstoryError]) -> str:
    """Return the name that an error has in JSON.

    >>> from backstory.errors import SessionNotFound
    >>> kind_of(SessionNotFound)
    'session_not_found'
    """
    return _CAPITAL.sub("_", refused.__name__).lower()


def refuse_usage(refused: click.ClickException, *, as_json: bool) -> None:
    """Print what is wrong with the command line, how it is used, and where help is."""
    if isinstance(refused, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        output.talk(refused.format_message())
        return
    message, context = " ".join(refused.format_message().split()), getattr(refused, "ctx", None)
    if as_json:
        _print_object("usage", message, refused.exit_code, [f"{context.command_path} --help"] if context else [])
        return
    say(message)
    if context is not None:
        output.talk(f"  {output.one_liner(context.get_usage())}\n  Help: {context.command_path} --help")


def refuse_for(kind: str, message: str, code: int, *, as_json: bool) -> None:
    """Print why a command failed that no error of ours is the reason of."""
    if as_json:
        _print_object(kind, message, code)
    else:
        say(message)


def say(message: str, below: Sequence[str] = ()) -> None:
    """Print a message in one line, and further lines below it."""
    output.talk(_broken(f"backstory: {output.one_liner(message)}"))
    for line in below:
        output.talk(_broken(f"  {output.one_liner(line)}"))


def asks_for_json(command: click.Command, words: Sequence[str]) -> bool:
    """Return True if a command line has the option ``--json``, also one that could not be parsed."""
    context, coming = click.Context(command), iter(takewhile(lambda word: word != "--", words))
    for word in coming:
        if word == "--json":
            return True
        if any(word in each.opts for each in command.params if isinstance(each, click.Option) and not each.is_flag):
            # It is the value of this option, whatever it looks like.
            next(coming, None)
        elif isinstance(command, click.Group) and (found := command.get_command(context, word)) is not None:
            command, context = found, click.Context(found, parent=context)
    return False


def _print_object(
    kind: str, message: str, code: int, commands: Sequence[str] = (), candidates: Sequence[str] = ()
) -> None:
    found = {"kind": kind, "message": message, "code": code, "candidates": candidates, "next": commands}
    output.talk(output.encoded({"error": found}))


def _broken(line: str) -> str:
    """A line, on a terminal as several that are broken between words."""
    most = output.width()
    if len(line) < most or not output.is_watched():
        return line
    line = output.clean(line)
    return "\n".join(" " * indent + line[start:end] for indent, start, end in parts(line, most))


def refuse_bug(failed: BaseException, code: int, *, as_json: bool) -> None:
    """Print the traceback of our own bug, and with JSON a last line as of any error."""
    trace(failed)
    if as_json:
        _print_object("bug", f"{type(failed).__name__}: {failed}", code)


def trace(failed: BaseException | None) -> None:
    """Print the traceback of our own bug, for a report."""
    import traceback

    if failed is not None:
        output.talk("".join(traceback.format_exception(failed)).rstrip("\n"))
