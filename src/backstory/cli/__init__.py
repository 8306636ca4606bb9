"""The command line. A command's module is imported when it is run, so that a small one starts quickly."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
import threading
import time
from pathlib import Path

import click

from backstory import __version__

COMMANDS = {
    "ingest": "Read every agent's logs on this machine into the store.",
    "reindex": "Read what is new, and make everything that can be derived again.",
    "chronicle": "Work with the history as a whole.",
    "list": "List sessions: this project's, or with --all the machine's.",
    "show": "Show a session: its turns and what happened in them.",
    "run": "Run a prompt in an agent, with the session so far as context.",
    "steer": "Send a message to the running agent.",
    "followup": "Queue the session's next prompt; it runs when the current run ends.",
    "queue": "Show, edit and run queued prompts.",
    "tree": "Show a session's turns, and where its branches part.",
    "scan": "List the current branch, record by record.",
    "branches": "List a session's branches.",
    "checkout": "Continue from another record, branch or session.",
    "branch": "Name branches, remove them, bring them back.",
    "diff": "Compare two branches.",
    "ps": "List running and pending runs.",
    "cancel": "Stop the running agent.",
    "context": "Show the context the next run would receive.",
    "search": "Search everything that was ever said or done.",
    "sql": "Ask the store in SQL.",
    "restore": "Give logs back, byte for byte.",
    "export": "Write sessions as another tool's store.",
    "verify": "Check that everything in the store is whole.",
    "optimize": "Make the store smaller.",
    "rename": "Give a session a name.",
    "rm": "Remove a session and all that is kept of it.",
    "backup": "Copy the store into one file, also while it is in use.",
    "config": "Show and change settings.",
    "completion": "Print the completion script of a shell.",
    "help": "Show the help of a command.",
}
NO_TEXT = 64
INTERRUPTED = 130
PIPE_CLOSED = 141


class _ReaderGone(Exception):
    """Nobody reads our output any more."""


class Group(click.Group):
    """Commands; of one that does not exist it names the one that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise no_command(self, ctx, name)
        return super().resolve_command(ctx, args)


def no_command(group: click.Group, ctx: click.Context, name: str) -> click.UsageError:
    """The error for a command that does not exist."""
    from backstory.errors import nearest

    near = nearest(name, group.list_commands(ctx))
    return click.UsageError(f"No such command {name!r}.{f' Did you mean {near}?' if near else ''}", ctx)


class Commands(Group):
    """The commands, each in a module of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"backstory.cli.{cmd_name}_command").command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            # As itself it would be taken for a failure by click.
            raise _ReaderGone from gone

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="backstory %(version)s")
@click.option("--store", "--db", "store_path", metavar="PATH", help="Use this store file instead of the machine's own.")
@click.option("--steer", metavar="TEXT", multiple=True, help="As the command `steer`, also several times.")
@click.option("--followup", metavar="TEXT", multiple=True, help="As the command `followup`, also several times.")
@click.option("--name", metavar="NAME", help="With --steer and --followup: the session of this name.")
@click.option("--session", "-S", "wanted", metavar="SESSION", help="With --steer and --followup: the session.")
@click.option("--or-run", is_flag=True, help="With --steer and --followup: as there.")
@click.option("--trust", is_flag=True, help="With --steer and --followup: as there.")
@click.pass_context
def cli(
    ctx: click.Context,
    store_path: str | None,
    steer: tuple[str, ...],
    followup: tuple[str, ...],
    name: str | None,
    wanted: str | None,
    or_run: bool,
    trust: bool,
) -> None:
    """One store for every coding-agent session: keep every byte, find everything."""
    from backstory.cli.app import App

    is_said = bool(steer or followup)
    if ctx.invoked_subcommand is not None and (is_said or name or wanted or or_run or trust):
        if not is_said:
            raise click.UsageError(f"Options come after the command: backstory {ctx.invoked_subcommand} [OPTIONS]")
        raise click.UsageError("--steer and --followup are commands of their own: leave the other one out.")
    if ctx.invoked_subcommand is None and not is_said:
        raise click.exceptions.NoArgsIsHelpError(ctx)
    ctx.obj = App(os.environ, _current_folder(), store_path)
    ctx.obj.trusts = trust
    ctx.call_on_close(ctx.obj.close)
    if is_said:
        from backstory.cli.sending import send
        from backstory.workspace.scheduler import IfIdle, Kind, Options

        messages = [*((Kind.STEER, text) for text in steer), *((Kind.FOLLOWUP, text) for text in followup)]
        if_idle = IfIdle.RUN if or_run else IfIdle.ASK
        ctx.exit(send(ctx.obj, messages, wanted or name, Options(), if_idle))


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as refused:
        from backstory.errors import FolderNotUsable

        raise FolderNotUsable(None, refused.strerror or str(refused)) from refused


def _have_standard_files() -> None:
    """A closed stdin is an empty one; what is written to a closed stdout or stderr is written to nobody."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for as long as we live


def main() -> None:
    """Run the command line; every error a person can meet ends here, as one sentence and an exit code."""
    from backstory.cli import output
    from backstory.errors import ClockUnusable

    _have_standard_files()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that knows few letters gets the others as question marks.
        sys.stdout.reconfigure(errors="replace")
    threading.excepthook = lambda failed: output.trace(failed.exc_value)
    sys.unraisablehook = lambda failed: output.trace(failed.exc_value)
    try:
        try:
            time.time_ns()
        except OverflowError as refused:
            raise ClockUnusable from refused
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        output.refuse("stopped; what was stored so far is whole")
        code = INTERRUPTED
    except (BrokenPipeError, _ReaderGone):
        # The reader of our output has gone (`| head`): nothing is wrong, and nothing more can be said.
        _write_to_nobody()
        code = PIPE_CLOSED
    except Exception as failed:
        code = _refused(failed)
    # The stores are closed; to look for garbage once more would take longer than many a command.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _refused(failed: Exception) -> int:
    """Say why a command ended; gives its exit code."""
    from backstory.cli import output
    from backstory.errors import BackstoryError, OutOfFiles, OutOfMemory, OutputFailed

    match failed:
        case click.ClickException():
            output.refuse_usage(failed)
            return failed.exit_code
        case UnicodeEncodeError():
            # Arguments are bytes to the system; where they are looked up in the store they must be text.
            output.refuse(f"not UTF-8, so nothing can be called so: {ascii(failed.object)[:80]}")
            return NO_TEXT
        case BackstoryError():
            refused = failed
        case MemoryError():
            refused = OutOfMemory()
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            refused = OutOfFiles()
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EIO):
            refused = OutputFailed(failed.strerror or str(failed))
        case _:
            # A fault of ours. It is told here because what it quotes may have come from anywhere.
            output.trace(failed)
            return 1
    output.refuse(refused)
    if isinstance(refused, OutputFailed):
        _write_to_nobody()
    return refused.exit_code


def _write_to_nobody() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
