"""The command line. A command's module is imported when the command runs, so that small ones start quickly."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory import __version__
from backstory.lazy import import_lean, lazy_module

if TYPE_CHECKING:
    from backstory.cli import failing
else:
    failing = lazy_module("backstory.cli.failing")

GROUPS = {
    "Find": {
        "search": "Search prompts, answers, commands and output.",
        "list": "List sessions, newest first (--all: every project).",
        "show": "Read a session (@12: a record, -f: follow, --md: share).",
        "tui": "Open the screen: read, search and resume by keys.",
        "web": "Read history in the browser: only yours, only here.",
        "stats": "Sum up turns, tokens, cost and time (--by day, model …).",
        "report": "Report from history: standup, recap, blame, cost, tips …",
        "sql": "Query the store with read-only SQL.",
    },
    "Run": {
        "run": "Send a prompt to an agent, with the session so far.",
        "resume": "Open a session in its client (--agent: in another's).",
        "steer": "Send a message to the running agent.",
        "followup": "Queue a prompt to run when the current run ends.",
        "ps": "List what is running.",
        "cancel": "Stop the running agent.",
        "queue": "Queue prompts for later; show, edit and run them.",
        "board": "Keep notes that later runs are offered.",
        "context": "Preview the context of the next run.",
        "compact": "Summarise the start of a long session (runs send less).",
    },
    "Branches": {
        "tree": "Show a session's turns; list, name and remove branches.",
        "checkout": "Continue from another record, branch or session.",
        "diff": "Compare two branches or sessions.",
    },
    "Keep": {
        "ingest": "Import new and changed agent logs.",
        "restore": "Write the original logs back, byte for byte.",
        "export": "Write sessions as JSON, Markdown, HTML or another agent's log.",
        "import": "Import the sessions of a JSON export.",
        "pull": "Bring what other machines of yours have: server, ssh, folder.",
        "push": "Write what is new into a folder for your other machines.",
        "serve": "Serve a team: history that its people send, masked.",
        "login": "Log in to a team server (it sends nothing).",
        "logout": "Log out of the team server.",
        "team": "Let people in to your team, and out.",
        "sync": "Send history to your team's server, masked (--dry-run first).",
        "backup": "Copy the store to one file; safe while it is in use.",
        "merge": "Merge another copy of this project's store into it.",
        "rename": "Name a session.",
        "project": "Tell backstory that a folder was moved.",
        "rm": "Delete sessions from the store (the agents' logs stay).",
        "prune": "Remove old or large sessions, and free their room.",
        "secrets": "Find secrets in what is stored; none is shown.",
        "verify": "Check every byte, every reference and the index.",
        "optimize": "Recompress old logs and compact the index.",
        "reindex": "Import, then rebuild the index and all derived tables.",
        "doctor": "Say what needs mending on this machine, and how.",
    },
    "Set up": {
        "config": "Show and change settings.",
        "mcp": "Let agents search your history: mcp install AGENT.",
        "skill": "Teach an agent without MCP to search history.",
        "migrate-home": "Move the home store, with all its files, to another folder.",
        "uninstall": "List what is ours on this machine, and take it out.",
        "completion": "Print the completion script for a shell.",
        "help": "Show the help of a command; --all lists every command.",
    },
}
"""Every command, by what it is for: `backstory help --all`."""
COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}
ALIASES = {"chronicle": "report", "/chronicle": "report", "/reindex": "reindex"}
"""Names from other tools, which work for good."""
OF_TREE = {"branches": "tree branches", "scan": "tree scan", "branch": "tree"}
"""Names from other tools for commands of ``tree``, which have modules of their own and work for good."""
CLICKS_LEAST_COLUMNS = 52
BUG = 1
NO_TEXT = 64
INTERRUPTED = 130
PIPE_CLOSED = 141


class _ReaderGone(Exception):
    """The reader of our output has gone."""


class CommandGroup(click.Group):
    """Commands; for an unknown one the error suggests the closest, and without one their help is printed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise no_command(self, ctx, name)
        found = super().resolve_command(ctx, args)
        if found[1] is not None:
            end_with_examples(found[1])
        return found


def end_with_examples(command: click.Command) -> None:
    """Have the help of a command end with examples, which are imported only for that."""
    command.format_epilog = _write_examples  # type: ignore[method-assign]


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    importlib.import_module("backstory.cli.commands.help_command").write_examples(ctx, formatter)


def no_command(group: click.Group, ctx: click.Context, name: str) -> click.UsageError:
    """The error for a command that does not exist; it names those of two words that end so, else the nearest."""
    from backstory.errors import nearest

    longer = [
        f"{each} {name}" for each in group.list_commands(ctx)
        if isinstance(command := group.get_command(ctx, each), click.Group) and name in command.list_commands(ctx)
    ]  # fmt: skip
    near = " or ".join(longer) or nearest(name, group.list_commands(ctx))
    return click.UsageError(f"No such command {name!r}.{f' Did you mean {near}?' if near else ''}", ctx)


class Commands(CommandGroup):
    """The commands, each in a module of its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS and name not in OF_TREE:
            return None
        import_lean("msgspec")
        command: click.Command = importlib.import_module(
            f"backstory.cli.commands.{name.replace('-', '_')}_command"
        ).command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            # click would treat a BrokenPipeError as a failure.
            raise _ReaderGone from gone
        except (TypeError, ValueError, AttributeError, OverflowError):
            ctx.obj.check_values()
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pages = importlib.import_module("backstory.cli.commands.help_command")
        formatter.write(pages.first_page(formatter.width))


@click.group(
    cls=Commands,
    invoke_without_command=True,
    options_metavar="",
    subcommand_metavar="[COMMAND]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="backstory %(version)s")
@click.option("--store", "--db", "store_path", metavar="PATH", help="Use this store file instead of the home store.")
@click.option("--steer", metavar="TEXT", multiple=True, hidden=True)
@click.option("--followup", metavar="TEXT", multiple=True, hidden=True)
@click.option("--name", metavar="NAME", hidden=True)
@click.option("--session", "-S", "wanted", metavar="SESSION", hidden=True)
@click.option("--or-run", is_flag=True, hidden=True)
@click.option("--trust", is_flag=True, hidden=True)
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
    """Run a command, send the messages of --steer and --followup, or pick a session of this project."""
    from backstory.cli.app import App

    has_texts = bool(steer or followup)
    if ctx.invoked_subcommand is not None and (has_texts or name or wanted or or_run or trust):
        if not has_texts:
            raise click.UsageError(f"Options come after the command: backstory {ctx.invoked_subcommand} [OPTIONS]")
        raise click.UsageError("--steer and --followup cannot be combined with a command.")
    ctx.obj = App(os.environ, _current_folder(), store_path)
    ctx.obj.trusts = trust
    ctx.call_on_close(ctx.obj.close)
    if has_texts:
        from backstory.cli.sending import send
        from backstory.workspace.runs.scheduler import IfIdle, Options, QueuedKind

        messages = [*((QueuedKind.STEER, text) for text in steer), *((QueuedKind.FOLLOWUP, text) for text in followup)]
        if_idle = IfIdle.RUN if or_run else IfIdle.ASK
        ctx.exit(send(ctx.obj, messages, wanted or name, Options(), if_idle))
    elif ctx.invoked_subcommand is None:
        if name or wanted or or_run or trust:
            raise click.UsageError("--name, --session, --or-run and --trust need --steer or --followup here.")
        from backstory.cli.commands.list_command import open_overview

        ctx.exit(open_overview(ctx.obj))


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as refused:
        from backstory.errors import FolderNotUsable

        raise FolderNotUsable(None, refused.strerror or str(refused)) from refused


def _help_columns() -> int | None:
    """The columns of help on a terminal that is narrower than click's least; else click decides."""
    from backstory.cli import output

    return max(output.width() - 2, 20) if output.width() < CLICKS_LEAST_COLUMNS else None


def _have_standard_files() -> None:
    """Treat a closed stdin as empty, and discard output to a closed stdout or stderr."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the process ends


def main() -> None:
    """Run the command line; every error ends here, as one message and an exit code."""
    from backstory.errors import ClockUnusable

    _have_standard_files()
    if "_BACKSTORY_COMPLETE" in os.environ:
        # bash is told the titles of sessions, too.
        importlib.import_module("backstory.cli.commands.completion_command")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal cannot encode become question marks.
        sys.stdout.reconfigure(errors="replace")
    threading.excepthook = lambda failed: failing.trace(failed.exc_value)
    sys.unraisablehook = lambda failed: failing.trace(failed.exc_value)
    try:
        try:
            time.time_ns()
        except OverflowError as refused:
            raise ClockUnusable from refused
        code = cli.main(standalone_mode=False, terminal_width=_help_columns())
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort) as stopped:
        # click takes any EOFError for a person's Ctrl-D, also that of a damaged module.
        if isinstance(fault := stopped.__cause__, EOFError):
            code = _refused(fault)
        else:
            failing.refuse_for(
                "interrupted", "stopped; everything stored so far is complete", INTERRUPTED, as_json=_is_json()
            )
            code = INTERRUPTED
    except (BrokenPipeError, _ReaderGone):
        # The reader of our output has gone (`| head`): no error, and no more output is possible.
        _discard_output()
        code = PIPE_CLOSED
    except Exception as failed:
        code = _refused(failed)
    # The stores are closed; a last garbage collection would take longer than many commands.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)


def _refused(failed: Exception) -> int:
    """Print why a command failed; returns its exit code."""
    from backstory.errors import BackstoryError, OutOfFiles, OutOfMemory, OutputFailed

    match failed:
        case click.ClickException():
            failing.refuse_usage(failed, as_json=_is_json())
            return failed.exit_code
        case UnicodeEncodeError():
            # Arguments are bytes to the system; to be looked up in the store they must be text.
            why = f"not UTF-8, so no session or setting can have this name: {ascii(failed.object)[:80]}"
            failing.refuse_for("not_text", why, NO_TEXT, as_json=_is_json())
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
            # Our own bug. It is printed here, through `failing`, because its text may quote untrusted input.
            failing.refuse_bug(failed, BUG, as_json=_is_json())
            return BUG
    failing.refuse(refused, as_json=_is_json())
    if isinstance(refused, OutputFailed):
        _discard_output()
    return refused.exit_code


def _is_json() -> bool:
    # A command whose module is damaged cannot say what options it has.
    with suppress(Exception):
        return failing.asks_for_json(cli, sys.argv[1:])
    return False


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
