"""``backstory run``: one prompt in an agent, recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import RUNNING_AGENT, SESSION_NAME, find_target, session_option, store_option, tell_moved
from backstory.cli.prompt_input import PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.cli.views.printing import print_events, printer_for
from backstory.model import Permissions
from backstory.workspace.history.targets import RECORD
from backstory.workspace.runs.scheduler import Destination, Options

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.runs.scheduler import IfBusy


@click.command("run")
@click.argument("prompt", nargs=-1)
@click.option("--agent", "-a", type=RUNNING_AGENT, help="The agent to run.  [default: the setting run.agent]")
@click.option("--model", "-m", metavar="NAME", help="The model, as the agent names it.")
@click.option("--new", "-n", "is_new", is_flag=True, help="Begin a new session.")
@click.option("--name", type=SESSION_NAME, help="Use the session NAME; create it if needed.")
@session_option
@click.option("--at", metavar="POINT", help="Follow this record (@12, S2@12), branch (its name or number) or session.")
@click.option(
    "--permissions", type=click.Choice([each.value for each in Permissions]), help="What the agent may do unasked."
)
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Run it in this folder.")
@click.option("--no-board", is_flag=True, help="Do not add board notes to the prompt.")
@click.option(
    "--cancel-first", "if_busy", flag_value="cancel", help="If the session is running: stop it, then run this."
)
@click.option(
    "--wait", "if_busy", flag_value="wait", help="If the session is running: queue this and wait for its answer."
)
@click.option("--fail", "if_busy", flag_value="fail", help="Exit with 75 if the session is running.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@input_options
@trust_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, prompt: tuple[str, ...], agent: str | None, model: str | None, is_new: bool, name: str | None,
    wanted: str | None, at: str | None, permissions: str | None, cwd: Path | None, no_board: bool,
    if_busy: IfBusy | None, as_json: bool,
) -> None:  # fmt: skip
    """Run PROMPT in an agent, with the session so far as context, whichever agent produced it.

    What is piped in follows PROMPT, or is the prompt: git diff | backstory run "Explain this". In a loop over a pipe,
    use --no-stdin. With --edit, or on a terminal without PROMPT, the prompt is written in $VISUAL or $EDITOR.

    Without -n, --name or -S it continues the session last active here. A first word such as @12 means that the
    prompt follows that record, as a branch of its own. Ctrl-C stops the agent; twice kills it.

    If the session is running, PROMPT is queued as a follow-up. Queued prompts run after it, in order.
    """
    app: App = ctx.obj
    name = name or None
    _check_session(is_new=is_new, name=name, wanted=wanted)
    given = PromptInput(ctx)
    at, text = _point_and_prompt(prompt, at, given, is_new=is_new)
    may_act(app)
    scheduler = app.workspace.scheduler
    for problem in scheduler.recover(close_orphans=True):
        output.talk(problem)
    fork = find_target(app, at, wanted or name) if at is not None else None
    if fork is not None:
        tell_moved(fork)
        destination = Destination(located=fork.located, point=fork.point)
    else:
        located = app.workspace.resolve(wanted) if wanted is not None else None
        destination = Destination(located=located, name=name, is_new=is_new)
    options = Options(
        agent=agent,
        model=model,
        permissions=permissions,
        cwd=str(cwd.absolute()) if cwd is not None else None,
        no_board=no_board,
    )
    events = scheduler.submit(destination, text, options, if_busy or "queue")
    printer = printer_for(as_json=as_json, was_chosen=bool(fork or wanted or name))
    code = print_events(events, printer)
    given.stored()
    ctx.exit(code)


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
    """Return the point that the prompt follows, if given, and the prompt: ``@12`` alone is a prompt."""
    # Also an empty prompt is one that was meant: nobody wants the number to be run instead.
    if at is None and words and RECORD.fullmatch(words[0]) and (words[1:] or given.has_more()):
        at, words = words[0], words[1:]
    if at is not None and is_new:
        raise click.UsageError(f"A new session has no {at} to follow: leave out --new.")
    return at, given.text(words)
