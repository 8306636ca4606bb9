"""``backstory run``: one prompt in an agent, recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory import agents, model, projects
from backstory.agents import Permissions
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.list_command import MARKS
from backstory.cli.options import store_option
from backstory.cli.show_command import event_lines, key_field
from backstory.errors import PromptNotText, SessionNotFound
from backstory.runner import Finished, Request, Runner
from backstory.store import Workplace
from backstory.streaming import Shown, is_installed

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Session

EXIT_CODES = {model.Outcome.COMPLETED: 0, model.Outcome.CANCELLED: 130}
METER = ((90, "red"), (60, "yellow"), (0, "green"))
NAME_COLUMNS = 30
TOLD_COLUMNS_LEAST = 12
DEEPER = " " * 5
"""``show`` has a column for records' numbers, which a run does not know yet."""


@click.command("run")
@click.argument("prompt", nargs=-1)
@click.option("--agent", "-a", metavar="NAME", help="The agent to run.  [default: the setting run.agent]")
@click.option("--model", "-m", metavar="NAME", help="The model, in the agent's words.")
@click.option("--new", "-n", "is_new", is_flag=True, help="Begin a new session.")
@click.option("--name", metavar="NAME", help="The session of this name; it is begun if there is none.")
@click.option("--session", "-S", "wanted", metavar="SESSION", help="The session to go on with: S3, a name, a uid.")
@click.option("--permissions", type=click.Choice([each.value for each in Permissions]), help="What needs no asking.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Run it in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    prompt: tuple[str, ...],
    agent: str | None,
    model: str | None,
    is_new: bool,
    name: str | None,
    wanted: str | None,
    permissions: str | None,
    cwd: Path | None,
    as_json: bool,
) -> None:
    """Run PROMPT, or what comes on stdin, in an agent. The session so far goes along, whichever agent it was.

    Without -n, --name or -S it goes on with the session last active here. Ctrl-C stops the agent, twice ends it.
    """
    app: App = ctx.obj
    name = name or None
    wants_new = is_new or (name is None and wanted is None and _last_here(app) is None)
    agent = agent or app.config.get("run.agent") or _usual_agent(app, None if wants_new else wanted or name)
    request = Request(
        agent=agent,
        prompt=" ".join(prompt) if prompt else _from_stdin(),
        cwd=(cwd or app.cwd).absolute(),
        model=model,
        permissions=Permissions(permissions or app.config.get("run.permissions")),
        executable=app.config.get(f"agents.{agent}") or None,
        context_chars=app.config.get("run.context_chars"),
        silence_s=app.config.get("run.silence_s"),
    )
    runner = Runner(app.home, app.machine_store, app.environ, now_ms)
    runner.take_up(output.talk)
    runner.check(request)
    if back := runner.projects.bring_back(app.project_store):
        output.talk(f"{app.project_store.path} was gone; its {back} sessions were brought back.")
    session = _session(app, is_new=is_new, name=name, wanted=wanted)
    printer: _JsonPrinter | _TextPrinter = _JsonPrinter() if as_json else _TextPrinter()
    runner.projects.remember(app.project_store)
    finished = runner.run(app.project_store, session, request, printer.show)
    printer.end(session, finished, request.context_chars)
    if finished.waits is not None:
        output.talk(f"The run is kept, but not stored yet: {finished.waits} The next command of backstory stores it.")
    ctx.exit(EXIT_CODES.get(model_outcome(finished), 1))


def model_outcome(finished: Finished) -> model.Outcome:
    """How a run ended."""
    return model.Outcome(finished.turn.outcome or model.Outcome.CRASHED)


def _usual_agent(app: App, wanted: str | None) -> str:
    """The agent of the session's last turn; for a new one the first agent whose program is on this machine."""
    store = app.project_store
    session = None
    if store.exists:
        try:
            session = store.session(wanted) if wanted else _last_here(app)
        except SessionNotFound:
            session = None
    if session is not None:
        known = [turn.agent for turn in store.turns(session) if turn.agent in agents.names()]
        if known:
            return known[-1]
    able = [name for name in agents.names() if hasattr(agents.load(name), "stream_reader")]
    found = (name for name in able if is_installed(name, app.config.get(f"agents.{name}"), app.environ))
    return next(found, able[0])


def _from_stdin() -> str:
    if sys.stdin.isatty():
        return ""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as refused:
        raise PromptNotText from refused


def _session(app: App, *, is_new: bool, name: str | None, wanted: str | None) -> Session:
    """The session that is meant; a new one where none is."""
    if wanted is not None:
        return _wanted(app, wanted)
    if name is not None:
        return _named(app, name)
    if is_new or not app.project_store.exists:
        return _begun(app)
    session = _last_here(app)
    if session is None:
        return _begun(app)
    output.talk(f"{session.shown_number} {output.one_line(session.name or session.first_prompt or '', 60)}")
    return session


def _named(app: App, name: str) -> Session:
    """The session of this name, found or begun; what goes on here from it if it belongs elsewhere."""
    _keep_out_of_git(app)
    session = app.project_store.find_or_create(name, app.worktree, at=_here(app))
    return session if session.number is not None else _wanted(app, session.uid)


def _wanted(app: App, wanted: str) -> Session:
    """A session of this project's, or what goes on here from one that belongs elsewhere."""
    store = app.project_store
    if store.exists:
        try:
            session = store.session(wanted)
            if session.number is not None:
                return session
        except SessionNotFound:
            pass
    found = app.find(wanted)
    if found.session.number is not None and store.exists and store.has(found.session.uid):
        # The agent's own log of a run of ours leads to the run.
        return store.session(found.session.uid)
    session = store.continue_session(found.store, found.session.uid)
    _keep_out_of_git(app)
    store.place_session(session, _here(app))
    output.talk(f"{session.shown_number} goes on from {found.session.uid[:12]}, with copies of its turns.")
    return store.session(session.id)


def _last_here(app: App) -> Session | None:
    """The session last active in this worktree, else in this project, among those that the store owns."""
    return app.project_store.last_session(app.worktree)


def _begun(app: App) -> Session:
    _keep_out_of_git(app)
    return app.project_store.create_session(worktree=app.worktree, at=_here(app))


def _here(app: App) -> Workplace:
    return Workplace(
        project=app.project_key,
        branch=projects.current_branch(app.worktree),
        cwd=str(app.cwd),
        root=projects.worktree_root(str(app.cwd)),
    )


def _keep_out_of_git(app: App) -> None:
    if not app.store_path:
        projects.keep_out_of_git(app.project_folder, app.project_store.path.parent.name)


class _JsonPrinter:
    """Unified events as JSON lines, each whole; deltas are for people."""

    def show(self, shown: Shown) -> None:
        for event in shown.events:
            if not isinstance(event, model.Complete):
                self._line({"kind": event.kind, **_fields(event)})

    def end(self, session: Session, finished: Finished, context_max: int) -> None:
        turn = finished.turn
        self._line(
            {
                "kind": "Complete",
                "session": session.shown_number or session.uid,
                "uid": session.uid,
                "turn": turn.uid,
                "outcome": turn.outcome,
                "success": turn.outcome == model.Outcome.COMPLETED,
                "error": finished.error,
                "agent": turn.agent,
                "model": turn.model,
                "duration_ms": turn.duration_ms,
                "cost_usd": turn.cost_usd,
                "tokens": turn.tokens,
                "tools": finished.tools,
                "context_chars": finished.context_chars,
                "context_max": context_max,
            }
        )

    def _line(self, value: dict[str, Any]) -> None:
        output.json_line(value)


class _TextPrinter:
    """Text as it comes, tools folded to a line with their result, errors as messages of the system."""

    def __init__(self) -> None:
        self._streamed = ""
        """The answer as far as it was shown before it was told whole."""
        self._is_line_open = False
        self._call: model.ToolCall | None = None
        """The call whose line is still open, for its result."""
        self._used = 0
        self._error = ""

    def show(self, shown: Shown) -> None:
        if shown.delta:
            if self._call is not None:
                self._end_line()
            self._streamed += shown.delta
            self._print(output.clean(shown.delta))
        for event in shown.events:
            self._event(event)

    def _event(self, event: model.Event) -> None:
        match event:
            case model.Thinking() | model.Init() | model.Complete():
                return
            case model.AssistantText():
                self._answer(event.text)
            case model.ToolCall():
                self._end_line()
                self._print(self._call_line(event))
                self._call = event
            case model.ToolResult():
                self._result(event)
            case _:
                self._error = event.message if isinstance(event, model.Error) else self._error
                self._end_line()
                for line in event_lines(None, event, full=False):
                    output.data(line.removeprefix(DEEPER))

    def _answer(self, text: str) -> None:
        """An answer told whole: print what of it was not streamed."""
        told, self._streamed = self._streamed.strip(), ""
        text = text.strip()
        if text not in told:
            is_begun = bool(told) and text.startswith(told)
            if not is_begun:
                self._end_line()
            self._print(output.clean(text.removeprefix(told) if is_begun else text))
        self._end_line()

    def _call_line(self, call: model.ToolCall) -> str:
        name = output.one_line(call.tool_name, NAME_COLUMNS)
        room = max(output.width() * 6 // 10 - output.columns(name) - 5, TOLD_COLUMNS_LEAST)
        told = output.one_line(key_field(call), room)
        self._used = output.columns(f"  ● {name} {told}")
        return f"  {output.style('●', fg='blue')} {output.style(name, bold=True)} {told}"

    def _result(self, result: model.ToolResult) -> None:
        """The line of the words that matter: a command's last, anything else's first."""
        if self._call is None or self._call.tool_use_id != result.tool_use_id:
            self._end_line()
            name = output.one_line(result.tool_name, NAME_COLUMNS)
            self._used = output.columns(f"  ↳ {name}")
            self._print(f"  {output.style('↳', fg='blue')} {output.style(name, bold=True)}")
        lines = [line for line in result.content.split("\n") if line.strip()] or ["(nothing)"]
        told = lines[-1] if result.tool == model.Tool.SHELL and not result.is_error else lines[0]
        more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
        room = max(output.width() - self._used - 3, TOLD_COLUMNS_LEAST)
        how: dict[str, Any] = {"fg": "red"} if result.is_error else {"dim": True}
        self._print(output.style(f" {'✗' if result.is_error else '→'} {output.one_line(told + more, room)}", **how))
        self._end_line()

    def _print(self, text: str) -> None:
        output.raw(text)
        self._is_line_open = not text.endswith("\n") if text else self._is_line_open

    def _end_line(self) -> None:
        if self._is_line_open:
            output.data()
        self._is_line_open, self._call = False, None

    def end(self, session: Session, finished: Finished, context_max: int) -> None:
        self._end_line()
        turn, error = finished.turn, finished.error or ""
        if error and error != self._error:
            self._event(model.Error(message=error))
        mark = MARKS.get(turn.outcome or "", MARKS["crashed"])
        percent = min(100, round(100 * finished.context_chars / context_max)) if context_max else 0
        colour = next(colour for least, colour in METER if percent >= least)
        facts = [
            output.duration(turn.duration_ms),
            "" if turn.cost_usd is None else f"${turn.cost_usd:.2f}",
            f"{finished.tools} tool{'s' * (finished.tools != 1)}",
            "context " + output.style(f"{percent} %", fg=colour),
            turn.outcome if turn.outcome != model.Outcome.COMPLETED else "",
            output.one_line(error, max(output.width() // 2, TOLD_COLUMNS_LEAST)),
        ]
        told = " · ".join(fact for fact in facts if fact)
        output.talk(f"{session.shown_number or session.uid[:12]} {output.style(mark[0], fg=mark[1])} {told}")


def _fields(event: model.Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name != "kind"}
