"""``backstory followup``: words for a session when what it does now is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.app import Found
from backstory.cli.options import AGENT, SESSION_NAME, store_option
from backstory.cli.prompt_input import PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.errors import EmptyPrompt, PromptNotText, SessionBusy, SessionNotFound
from backstory.model import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.cli.app import App
    from backstory.cli.driving import Driver
    from backstory.store.queue import Kind, Options


def session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which session words are for; unlike a run's, it must be there."""
    for option in (
        click.option("--name", type=SESSION_NAME, help="The session of this name."),
        click.option("--session", "-S", "wanted", metavar="SESSION", help="The session: S3, a name, a uid."),
        click.option("--no-run", is_flag=True, help="Only leave it: where nothing runs, start nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines."),
        input_options,
        trust_option,
        store_option,
    ):
        function = option(function)
    return function


@click.command("followup")
@click.argument("text", nargs=-1)
@click.option("--agent", "-a", type=AGENT, help="The agent to run it.  [default: that of the turn before]")
@click.option("--model", "-m", metavar="NAME", help="The model, in the agent's words.")
@click.option("--permissions", type=click.Choice([each.value for each in Permissions]), help="What needs no asking.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False), help="Run it in this folder.")
@session_options
@click.pass_context
def command(
    ctx: click.Context,
    text: tuple[str, ...],
    agent: str | None,
    model: str | None,
    permissions: str | None,
    cwd: str | None,
    wanted: str | None,
    name: str | None,
    no_run: bool,
    as_json: bool,
) -> None:
    """Leave TEXT as a session's next prompt: it is run when the run that goes on is over.

    What is piped in follows TEXT, or is the prompt. Without both, on a terminal, it is written in $EDITOR.

    Several are run in the order they were left, each after the one before. Where nothing runs it is run at once.
    """
    from backstory.store.queue import Kind, Options

    app: App = ctx.obj
    options = Options(agent=agent, model=model, permissions=permissions, cwd=str(app.cwd / cwd) if cwd else None)
    given = PromptInput(ctx)
    said = [(Kind.FOLLOWUP, checked(given.text(text)))]
    code = say(app, said, wanted or name, options, no_run=no_run, as_json=as_json)
    given.stored()
    ctx.exit(code)


def checked(text: str) -> str:
    """What is to be said. Raises EmptyPrompt, PromptNotText."""
    if not text.strip():
        raise EmptyPrompt
    try:
        text.encode()
    except UnicodeEncodeError as refused:
        raise PromptNotText from refused
    return text


def say_all(app: App, steers: Sequence[str], followups: Sequence[str], wanted: str | None) -> int:
    """Leave several words at once; gives the exit code."""
    from backstory.store.queue import Kind, Options

    for text in (*steers, *followups):
        checked(text)
    said = [*((Kind.STEER, text) for text in steers), *((Kind.FOLLOWUP, text) for text in followups)]
    return say(app, said, wanted, Options(), no_run=False, as_json=False)


def say(
    app: App,
    said: Sequence[tuple[Kind, str]],
    wanted: str | None,
    options: Options,
    *,
    no_run: bool,
    as_json: bool,
) -> int:
    """Leave words for a session, and run what waits if nobody does so; gives the exit code.

    Raises SessionNotFound: nothing is left for a session that is not there.
    """
    from backstory.cli.driving import request_for, runner_of, tell_left

    may_act(app)
    runner = runner_of(app)
    runner.take_up(output.talk)
    driver = _driver(app, wanted, as_json=as_json)
    options = with_place(app, options)
    if options.agent is not None:
        # Who asks for an agent that is not there is told so now, and not when it is its turn.
        runner.check(request_for(app, app.project_store, None, said[0][1], options))
    left, before = driver.leave(said, options)
    hold, holder = driver.hold_at_last()
    if hold is not None and not no_run:
        driver.tell_not_running(left)
        try:
            return driver.run_queue(hold, [text.uid for text in left])
        except SessionBusy as busy:
            holder = busy.holder
    elif hold is not None:
        hold.release()
    tell_left(driver.name, left, before, holder, as_json=as_json, is_heard=driver.is_heard(holder))
    return 0


def _driver(app: App, wanted: str | None, *, as_json: bool) -> Driver:
    """What drives the session that is meant, in the store it is run in."""
    from backstory.cli.acting import own_session
    from backstory.cli.driving import Driver, home_of, runner_of
    from backstory.cli.printing import printer_for

    found = found_session(app, wanted)
    store = home_of(app, found)
    # The machine's store has copies of what projects own: where the project is gone, it goes on in this one.
    if store.path in (app.project_store.path, app.machine_store.path) or found.session.number is None:
        store, session = app.project_store, own_session(app, found)
    else:
        session = store.session(found.session.uid)
    return Driver(app, runner_of(app), store, session, printer_for(as_json=as_json))


def found_session(app: App, wanted: str | None) -> Found:
    """The session that is meant; without a word the one last active here. Raises SessionNotFound."""
    if wanted is not None:
        return app.find(wanted)
    store = app.project_store
    session = store.last_session(app.worktree) if store.exists else None
    if session is None:
        raise SessionNotFound(str(app.project_folder))
    output.talk(f"{session.shown_number} {output.one_line(session.shown_title, 60)}".rstrip())
    return Found(store, session)


def with_place(app: App, options: Options) -> Options:
    """The folder that something was asked for in is the one it is run in."""
    import msgspec

    return options if options.cwd else msgspec.structs.replace(options, cwd=str(app.cwd))
