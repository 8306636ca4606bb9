"""``backstory resume``: a session continues in its agent's own client.

``--print --json`` prints ``uid``, ``label``, ``agent``, ``native_id`` (the agent's own id), ``folder`` (where the
client starts), ``command`` (its words), ``log`` (where the client looks) and ``is_log_there``. With another agent, up
to a record, or for a session of our own runs, a log is written anew for the client.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from backstory.cli import output
from backstory.cli.handing_over import planned, resuming, talk_put_back
from backstory.cli.options import AGENT, find, json_option, session_argument, store_option
from backstory.cli.trusting import trust_option
from backstory.errors import AgentNotStarted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from backstory.cli.app import App
    from backstory.workspace.clients.resuming import PutBack, Resuming, Resumption
    from backstory.workspace.located import LocatedSession


class _HandOver(NamedTuple):
    """A session to hand over, the words of the client, and the function that puts its log where the client looks."""

    resumption: Resumption
    words: list[str]
    put: Callable[[], PutBack]


FOR_AGENT = "backstory.words_for_agent"


class WithWordsForAgent(click.Command):
    """A command of which all words behind ``--`` are the agent's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, theirs = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
        ctx.meta[FOR_AGENT] = theirs
        return super().parse_args(ctx, ours)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


@click.command("resume", cls=WithWordsForAgent)
@session_argument
@click.option("--print", "is_printed", is_flag=True, help="Print the command and its folder; change and start nothing.")
@click.option(
    "--cwd", type=click.Path(path_type=Path), metavar="DIR", help="The folder to resume in; default: its own."
)
@click.option("--agent", "-a", type=AGENT, help="Another agent, for whose client a log is written.")
@click.option("--at", metavar="@N", help="Continue behind this record, in a log of its own.")
@click.option("--force", is_flag=True, help="Also if the session is in use.")
@click.option("--undo", is_flag=True, help="Remove what was put back or written, if nothing was added to it.")
@json_option
@trust_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, session: str | None, is_printed: bool, cwd: Path | None, agent: str | None, at: str | None,
    force: bool, undo: bool, as_json: bool,
) -> None:  # fmt: skip
    """Continue SESSION in its agent's own client, by the agent's own id.

    If the agent deleted the log, it is put back first; no file is ever overwritten, and --undo removes what was put
    back. With --agent or --at, and for a session of backstory's runs, a log is written for the client: `export` says
    what becomes of each record there. The client starts in the session's folder; ARGS are passed to it. Without a
    terminal, or with --print, the command is only printed. Default: the session running here, else the one last active.
    """
    app: App = ctx.obj
    found, at_work = find(app, session, running_first=True), resuming(app)
    is_other = agent is not None and not at_work.is_own_client(found, agent)
    is_anew = at is not None or found.session.number is not None or is_other
    if undo:
        _undo(app, at_work, found, agent, at, is_anew=is_anew, as_json=as_json)
        return
    hand_over = _written_anew(app, found, agent, at, cwd) if is_anew else _its_own(app, at_work, found, cwd)
    resumption, words = hand_over.resumption, [*hand_over.words, *ctx.meta[FOR_AGENT]]
    if is_printed or as_json or not (output.can_ask() and sys.stdout.isatty()):
        given = [*(["--trust"] if app.trusts else []), *(["--cwd", str(resumption.folder)] if cwd is not None else [])]
        _print(resumption, words, given, at, as_json=as_json)
        return
    program = at_work.program(resumption)
    with at_work.held(resumption, force=force):
        talk_put_back(hand_over.put(), resumption)
        at_work.keep_held()
        app.close()
        _become(resumption, program, words, dict(app.environ))


def _its_own(app: App, at_work: Resuming, found: LocatedSession, cwd: Path | None) -> _HandOver:
    """A session in its own log, which is put back if it is gone."""
    resumption = planned(app, at_work, found, cwd)
    return _HandOver(resumption, at_work.command(resumption), lambda: at_work.put_back(resumption))


def _written_anew(app: App, found: LocatedSession, agent: str | None, at: str | None, cwd: Path | None) -> _HandOver:
    """A session in a log that is written for the client. ``agent``: None for that of its last turn."""
    from backstory.cli.views.native_log_view import LogRequest, native_exports, planned_log

    exports = native_exports(app)
    plan = planned_log(app, found, LogRequest(form=agent or exports.own_agent(found), at=at, cwd=cwd))
    return _HandOver(plan.resumption, exports.command(plan), lambda: exports.write(plan))


def _print(resumption: Resumption, words: list[str], given: list[str], at: str | None, *, as_json: bool) -> None:
    """Print how a client is started. ``given``: the options without which a log would not be put back there."""
    if as_json:
        output.json(_as_json(resumption, words))
    else:
        output.data(output.one_liner(f"cd {shlex.quote(str(resumption.folder))} && {shlex.join(words)}"))
    if resumption.is_log_there:
        return
    uid = resumption.located.session.uid
    if resumption.written is None:
        back = shlex.join(["backstory", "restore", "--in-place", *given, uid])
        output.talk(output.one_liner(f"Its log is gone. This puts it back: {back}"))
    else:
        up_to, folder = ["--at", at] if at is not None else [], ["--cwd", str(resumption.folder)]
        writing = ["export", "-S", uid, "--format", resumption.agent, *up_to, *folder, "--write"]
        output.talk(output.one_liner(f"Its log is not written yet. This writes it: backstory {shlex.join(writing)}"))


def _as_json(resumption: Resumption, words: list[str]) -> dict[str, Any]:
    return {
        **resumption.located.keys,
        "agent": resumption.agent,
        "native_id": resumption.native_id,
        "folder": str(resumption.folder),
        "command": words,
        "log": str(resumption.log),
        "is_log_there": resumption.is_log_there,
    }


def _undo(
    app: App, at_work: Resuming, found: LocatedSession, agent: str | None, at: str | None, *, is_anew: bool,
    as_json: bool,
) -> None:  # fmt: skip
    if is_anew:
        from backstory.cli.views.native_log_view import LogRequest, native_exports, show_undone

        form = agent or native_exports(app).own_agent(found)
        show_undone(app, found.session.uid, LogRequest(form=form, at=at, as_json=as_json))
        return
    done = at_work.undo(found)
    if as_json:
        output.json(found.keys | {"removed_paths": [each.path for each in done.files]})
        return
    for each in done.files:
        output.data(output.one_liner(each.path))
    output.talk(f"{output.counted(len(done.files), 'file')} removed.")


def _become(resumption: Resumption, program: str, words: list[str], environ: dict[str, str]) -> NoReturn:
    """Become the agent's client. Raises AgentNotStarted."""
    sys.stderr.flush()
    try:
        os.chdir(resumption.folder)
        os.execve(program, [program, *words[1:]], environ | {"PWD": str(resumption.folder)})
    except OSError as refused:
        raise AgentNotStarted(resumption.agent, program, refused.strerror or str(refused)) from refused
