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
from backstory.cli.options import store_option
from backstory.cli.show_command import event_lines
from backstory.errors import SessionNotFound
from backstory.runner import Finished, Request, Runner
from backstory.streaming import Shown, is_installed

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Session

EXIT_CODES = {model.Outcome.COMPLETED: 0, model.Outcome.CANCELLED: 130}
METER = ((90, "red"), (60, "yellow"), (0, "green"))


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
    if back := runner.bring_back(app.project_store):
        output.talk(f"{app.project_store.path} was gone; its {back} sessions were brought back.")
    session = _session(app, is_new=is_new, name=name, wanted=wanted)
    printer: _JsonPrinter | _TextPrinter = _JsonPrinter() if as_json else _TextPrinter()
    runner.remember_project(app.project_store)
    finished = runner.run(app.project_store, session, request, printer.show)
    printer.end(session, finished, request.context_chars)
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
    return "" if sys.stdin.isatty() else sys.stdin.read()


def _session(app: App, *, is_new: bool, name: str | None, wanted: str | None) -> Session:
    """The session that is meant; a new one where none is."""
    store = app.project_store
    if wanted is not None:
        return _wanted(app, wanted)
    if name is not None and store.exists:
        for each in store.sessions():
            if each.name == name:
                return each
    if is_new or name is not None or not store.exists:
        return _begun(app, name)
    session = _last_here(app)
    if session is None:
        return _begun(app, None)
    output.talk(f"{session.shown_number} {output.one_line(session.name or session.first_prompt or '', 60)}")
    return session


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
    session = store.continue_session(found.store, found.session.uid)
    _settle(app, session)
    output.talk(f"{session.shown_number} goes on from {found.session.uid[:12]}, with copies of its turns.")
    return store.session(session.id)


def _last_here(app: App) -> Session | None:
    """The session last active in this worktree, else in this project, among those that the store owns."""
    if not app.project_store.exists:
        return None
    own = [each for each in app.project_store.sessions() if each.number is not None]
    here = [each for each in own if each.worktree == str(app.worktree)]
    return next(iter(here or own), None)


def _begun(app: App, name: str | None) -> Session:
    session = app.project_store.create_session(name, app.worktree)
    _settle(app, session)
    return app.project_store.session(session.id)


def _settle(app: App, session: Session) -> None:
    """Say where a new session is at work, and have git overlook the store."""
    if not app.store_path:
        projects.keep_out_of_git(app.project_folder, app.project_store.path.parent.name)
    app.project_store.place_session(
        session, project=app.project_key, branch=projects.current_branch(app.worktree), cwd=str(app.cwd)
    )


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
        output.raw(msgspec.json.encode(value).decode() + "\n")


class _TextPrinter:
    """Text as it comes, tools folded to a line with their result."""

    def __init__(self) -> None:
        self._was_streamed = False

    def show(self, shown: Shown) -> None:
        if shown.delta:
            output.raw(output.clean(shown.delta))
            self._was_streamed = True
        for event in shown.events:
            self._event(event)

    def _event(self, event: model.Event) -> None:
        was_streamed, self._was_streamed = self._was_streamed, False
        if was_streamed:
            output.data()
        if isinstance(event, model.AssistantText):
            if not was_streamed:
                output.data(output.clean(event.text))
        elif not isinstance(event, model.Thinking | model.Init | model.Complete):
            for line in event_lines(None, event, full=False):
                output.data(line)

    def end(self, session: Session, finished: Finished, context_max: int) -> None:
        if self._was_streamed:
            output.data()
        turn = finished.turn
        mark = {"completed": ("✓", "green"), "cancelled": ("■", "yellow")}.get(turn.outcome or "", ("✗", "red"))
        percent = min(100, round(100 * finished.context_chars / context_max)) if context_max else 0
        colour = next(colour for least, colour in METER if percent >= least)
        facts = [
            output.duration(turn.duration_ms),
            "" if turn.cost_usd is None else f"${turn.cost_usd:.2f}",
            f"{finished.tools} tool{'s' * (finished.tools != 1)}",
            "context " + output.style(f"{percent} %", fg=colour),
            turn.outcome if turn.outcome != model.Outcome.COMPLETED else "",
            output.one_line(finished.error or "", 200),
        ]
        told = " · ".join(fact for fact in facts if fact)
        output.talk(f"{session.shown_number or session.uid[:12]} {output.style(mark[0], fg=mark[1])} {told}")


def _fields(event: model.Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name != "kind"}
