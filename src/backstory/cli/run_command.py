"""``backstory run``: one prompt in an agent, recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.acting import ready_to_begin, writable_session
from backstory.cli.driving import Driver, request_for, runner_of
from backstory.cli.options import AGENT, SESSION_NAME, session_option, store_option
from backstory.cli.points import find_target, tell_moved
from backstory.cli.printing import printer_for
from backstory.cli.prompt_input import PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.errors import SessionNotFound
from backstory.model import Permissions
from backstory.store.queue import Options
from backstory.workspace.located import LocatedSession
from backstory.workspace.targets import RECORD
from backstory.workspace.writable import workplace

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.runs.runner import Runner
    from backstory.store import Session, Store
    from backstory.workspace.targets import Target


@click.command("run")
@click.argument("prompt", nargs=-1)
@click.option("--agent", "-a", type=AGENT, help="The agent to run.  [default: the setting run.agent]")
@click.option("--model", "-m", metavar="NAME", help="The model, in the agent's words.")
@click.option("--new", "-n", "is_new", is_flag=True, help="Begin a new session.")
@click.option("--name", type=SESSION_NAME, help="The session of this name; it is begun if there is none.")
@session_option
@click.option("--at", metavar="POINT", help="Follow this record (@12, S2@12), branch (its name or number) or session.")
@click.option("--permissions", type=click.Choice([each.value for each in Permissions]), help="What needs no asking.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Run it in this folder.")
@click.option("--cancel-first", "if_busy", flag_value="cancel", help="If it is running: stop it, then run this.")
@click.option("--wait", "if_busy", flag_value="wait", help="If it is running: queue this and wait for its answer.")
@click.option("--fail", "if_busy", flag_value="fail", help="If it is running: do nothing and fail (exit code 75).")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@input_options
@trust_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, prompt: tuple[str, ...], agent: str | None, model: str | None, is_new: bool, name: str | None,
    wanted: str | None, at: str | None, permissions: str | None, cwd: Path | None, if_busy: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run PROMPT in an agent. The session so far goes along, whichever agent it was.

    What is piped in follows PROMPT, or is the prompt: git diff | backstory run "Explain this". In a loop over a pipe,
    use --no-stdin. With --edit, or on a terminal without PROMPT, the prompt is written in $VISUAL or $EDITOR.

    Without -n, --name or -S it goes on with the session last active here. A first word such as @12 means that the
    prompt follows that record, as a branch of its own. Ctrl-C stops the agent; twice kills it.

    If the session is running, PROMPT is queued as a follow-up. Queued prompts run after it, in order.
    """
    app: App = ctx.obj
    name = name or None
    _check_session(is_new=is_new, name=name, wanted=wanted)
    given = PromptInput(ctx)
    at, text = _point_and_prompt(prompt, at, given, is_new=is_new)
    may_act(app)
    runner = _runner(app)
    fork = find_target(app, at, wanted or name) if at is not None else None
    asked = fork.located.session.uid if fork else wanted
    options = Options(
        agent=agent,
        model=model,
        permissions=permissions,
        cwd=str((cwd or app.cwd).absolute()),
        after=(fork.point.uid, fork.point.seq) if fork else None,
    )
    request = request_for(app, *_known(app, asked, None if fork else name), text, options)
    runner.check(request)
    if back := runner.projects.restore_store(app.project_store):
        output.talk(f"{app.project_store.path} was gone; its {back} sessions were brought back.")
    session = _forked(app, fork) if fork else _session(app, is_new=is_new, name=name, wanted=wanted)
    app.project_store.choose_session(session, app.worktree)
    runner.projects.remember(app.project_store)
    printer = printer_for(as_json=as_json, was_chosen=bool(fork or wanted or name))
    driver = Driver(app, runner, app.project_store, session, printer)
    code = driver.run_or_queue(request, options, if_busy, as_json=as_json)
    given.stored()
    ctx.exit(code)


def _runner(app: App) -> Runner:
    """What runs the prompt, when earlier runs that are over are stored."""
    runner = runner_of(app)
    runner.take_up(output.talk)
    runner.cleanup_orphans(app.project_store, output.talk)
    return runner


def _check_session(*, is_new: bool, name: str | None, wanted: str | None) -> None:
    """Refuse what names two sessions at once."""
    if is_new and name is not None:
        raise click.UsageError("--new and --name cannot be used together: --name begins the session if there is none.")
    if is_new and wanted is not None:
        raise click.UsageError("--new and --session cannot be used together: a new session has its name from --name.")
    if name is not None and wanted is not None:
        raise click.UsageError("--name and --session cannot be used together: both say which session is meant.")


def _point_and_prompt(
    words: tuple[str, ...], at: str | None, given: PromptInput, *, is_new: bool
) -> tuple[str | None, str]:
    """What the prompt follows, if that was said, and the prompt: ``@12`` is one where nothing comes after it."""
    # Also an empty prompt is one that was meant: nobody wants the number to be run instead.
    if at is None and words and RECORD.fullmatch(words[0]) and (words[1:] or given.has_more()):
        at, words = words[0], words[1:]
    if at is not None and is_new:
        raise click.UsageError(f"A new session has no {at} to follow: leave out --new.")
    return at, given.text(words)


def _forked(app: App, target: Target) -> Session:
    """The session of this project in which the prompt follows the record."""
    tell_moved(target)
    return writable_session(app, target.located, target.point)


def _known(app: App, wanted: str | None, name: str | None) -> tuple[Store, Session | None]:
    """A session as far as it is there already, and the store that it is in: one that is named is this project's."""
    store = app.project_store
    try:
        if wanted is not None:
            found = app.find(wanted)
            return found.store, found.session
        if not store.exists:
            return store, None
        if name is not None:
            return store, store.session(name)
        last = app.workspace.last_active()
        return store, None if last is None else last.session
    except SessionNotFound:
        return store, None


def _session(app: App, *, is_new: bool, name: str | None, wanted: str | None) -> Session:
    """The session that is meant; a new one where none is."""
    if wanted is not None:
        return _wanted(app, wanted)
    if name is not None:
        return _named(app, name)
    if is_new or not app.project_store.exists:
        return _begun(app)
    last = app.workspace.last_active()
    if last is None:
        return _begun(app)
    return last.session


def _named(app: App, name: str) -> Session:
    """The session of this name, found or begun; what goes on here from it if it belongs elsewhere."""
    ready_to_begin(app)
    session = app.project_store.find_or_create(name, app.worktree, at=workplace(app.workspace))
    return writable_session(app, LocatedSession(app.project_store, session))


def _wanted(app: App, wanted: str) -> Session:
    """A session of this project's, or what goes on here from one that belongs elsewhere."""
    return writable_session(app, app.find(wanted))


def _begun(app: App) -> Session:
    ready_to_begin(app)
    return app.project_store.create_session(worktree=app.worktree, at=workplace(app.workspace))
