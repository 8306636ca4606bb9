"""``backstory followup``: a prompt that runs when the session's current run ends."""

from __future__ import annotations

from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.options import AGENT, SESSION_NAME, session_option, store_option
from backstory.cli.points import find
from backstory.cli.prompt_input import PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.errors import EmptyPrompt, NotRunning, PromptNotText, SessionBusy
from backstory.model import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backstory.cli.app import App
    from backstory.cli.driving import Driver
    from backstory.store.queue import Kind, Options
    from backstory.workspace.located import LocatedSession


class Start(Enum):
    """What a message or a follow-up may start if its session is not running."""

    ASK = "ask"
    RUN = "run"
    NOTHING = "nothing"


def session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Which session a message is for; unlike a run's, it must be there."""

    @wraps(function)
    def with_start(*args: Any, or_run: bool, no_run: bool, **rest: Any) -> Any:
        if or_run and no_run:
            raise click.UsageError("--or-run and --no-run cannot be used together.")
        start = Start.RUN if or_run else Start.NOTHING if no_run else Start.ASK
        return function(*args, start=start, **rest)

    with_options: Callable[..., Any] = with_start
    for option in (
        click.option("--name", type=SESSION_NAME, help="The session of this name."),
        session_option,
        click.option("--or-run", is_flag=True, help="If the session is not running: run it now, as a prompt."),
        click.option("--no-run", is_flag=True, help="Only queue it: if the session is not running, start nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines."),
        input_options,
        trust_option,
        store_option,
    ):
        with_options = option(with_options)
    return with_options


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
    start: Start,
    as_json: bool,
) -> None:
    """Queue TEXT as a session's next prompt; it runs when the current run ends.

    What is piped in follows TEXT, or is the prompt. Without both, on a terminal, it is written in $EDITOR.

    Several run in the order they were queued. If the session is not running, nothing is queued (exit code 75); on a
    terminal you are asked whether to run TEXT now.
    """
    from backstory.store.queue import Kind, Options

    app: App = ctx.obj
    options = Options(agent=agent, model=model, permissions=permissions, cwd=str(app.cwd / cwd) if cwd else None)
    given = PromptInput(ctx)
    said = [(Kind.FOLLOWUP, checked(given.text(text)))]
    code = send(app, said, wanted or name, options, start, as_json=as_json)
    given.stored()
    ctx.exit(code)


def checked(text: str) -> str:
    """The text to send. Raises EmptyPrompt, PromptNotText."""
    if not text.strip():
        raise EmptyPrompt
    try:
        text.encode()
    except UnicodeEncodeError as refused:
        raise PromptNotText from refused
    return text


def send_all(
    app: App, steers: Sequence[str], followups: Sequence[str], wanted: str | None, *, or_run: bool = False
) -> int:
    """Send several messages and follow-ups at once; returns the exit code."""
    from backstory.store.queue import Kind, Options

    for text in (*steers, *followups):
        checked(text)
    said = [*((Kind.STEER, text) for text in steers), *((Kind.FOLLOWUP, text) for text in followups)]
    return send(app, said, wanted, Options(), Start.RUN if or_run else Start.ASK, as_json=False)


def send(
    app: App,
    said: Sequence[tuple[Kind, str]],
    wanted: str | None,
    options: Options,
    start: Start,
    *,
    as_json: bool,
) -> int:
    """Queue messages for a session that is running, or start what ``start`` allows; returns the exit code.

    Raises SessionNotFound, NoSessionHere, SeveralRunHere, NotRunning.
    """
    from backstory.cli.driving import home_of, request_for, runner_of, tell_left

    may_act(app)
    runner = runner_of(app)
    runner.take_up(output.talk)
    located = find(app, wanted, running_first=True)
    options = with_place(app, options)
    if options.agent is not None:
        # Who asks for an agent that is not there is told so now, and not when it is its turn.
        runner.check(request_for(app, app.project_store, None, said[0][1], options))
    if start is Start.ASK and not app.workspace.find_running(located, home_of(app, located), output.talk):
        start = _start_agreed(located)
    driver = _driver(app, located, as_json=as_json)
    left, before = driver.leave(said, options)
    hold, holder = driver.hold_at_last()
    if hold is not None and start is Start.ASK:
        # The run ended meanwhile. What it did not take is not run without a word.
        late = driver.take_late(hold, left)
        if not late:
            output.talk(f"{driver.name} took it.")
            return 0
        start = _start_agreed(located)
        left, before = driver.leave([(text.kind, text.content) for text in late], options)
        hold, holder = driver.hold_at_last()
    if hold is not None and start is Start.RUN:
        driver.tell_not_running(left)
        try:
            return driver.run_queue(hold, [text.uid for text in left])
        except SessionBusy as busy:
            holder = busy.holder
    elif hold is not None:
        hold.release()
    tell_left(driver.name, left, before, holder, as_json=as_json, is_heard=driver.is_heard(holder))
    return 0


def _start_agreed(located: LocatedSession) -> Start:
    """What a person at the terminal agrees to start. Raises NotRunning where that is nothing."""
    if not output.confirm(f"{located.label} is not running. Run it as a prompt now?"):
        raise NotRunning(located.label)
    return Start.RUN


def _driver(app: App, found: LocatedSession, *, as_json: bool) -> Driver:
    """What drives the session that is meant, in the store it is run in."""
    from backstory.cli.acting import writable_session
    from backstory.cli.driving import Driver, home_of, runner_of
    from backstory.cli.printing import printer_for

    store = home_of(app, found)
    # The machine's store has copies of what projects own: where the project is gone, it goes on in this one.
    if store.path in (app.project_store.path, app.machine_store.path) or found.session.number is None:
        store, session = app.project_store, writable_session(app, found)
    else:
        session = store.session(found.session.uid)
    return Driver(app, runner_of(app), store, session, printer_for(as_json=as_json))


def with_place(app: App, options: Options) -> Options:
    """The folder that something was asked for in is the one it is run in."""
    import msgspec

    return options if options.cwd else msgspec.structs.replace(options, cwd=str(app.cwd))
