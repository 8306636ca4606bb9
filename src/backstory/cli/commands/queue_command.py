"""``backstory queue``: the prompts that are queued for sessions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.lazy_family import LazyFamily
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.prompt_input import PromptInput, input_options
from backstory.cli.trusting import may_act, trust_option
from backstory.derive.moments import when
from backstory.errors import SessionNotFound
from backstory.workspace.runs import prompt_queue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.runs.prompt_queue import ListedPrompt, PromptQueue

TABLE_COLUMNS_LEAST = 80
FACTS_COLUMNS_LEAST = 8


@click.group("queue", cls=LazyFamily, modules={"add": "followup_command"})
def command() -> None:
    """Queue prompts for later; show, edit and run them."""


@command.command("list")
@session_argument
@json_option
@store_option
@click.pass_obj
def list_(app: App, session: str | None, as_json: bool) -> None:
    """List queued prompts, of SESSION or of this project, in order."""
    listed = _queue(app).listed(_named(app, session))
    if as_json:
        output.json({"prompts": [prompt_queue.as_json(each) for each in listed]})
        return
    if not listed:
        output.talk("The queue is empty.")
        return
    for line in _lines(listed, app.workspace.now()):
        output.data(line)
    if any(each.is_held for each in listed):
        output.talk("Held prompts came with a store from elsewhere. To run one: backstory queue run ID")


def _lines(listed: Sequence[ListedPrompt], now: int) -> Iterator[str]:
    """A table; on a narrow terminal each text stands below what is known of it."""
    is_watched = sys.stdout.isatty()
    cells = [
        (each.session, each.kind, each.prompt.short_id,
         when(each.prompt.queued, now) if is_watched else output.iso(each.prompt.queued) or "", each.prompt.content)
        for each in listed
    ]  # fmt: skip
    if not is_watched or output.width() >= TABLE_COLUMNS_LEAST:
        yield from output.table(cells, flexible=4, heads=("SESSION", "KIND", "ID", "QUEUED", "TEXT"))
        return
    for session, *facts, text in cells:
        about = output.one_line(
            " · ".join(facts), max(output.width() - output.columns(session) - 2, FACTS_COLUMNS_LEAST)
        )
        yield f"{output.ident(session)}  {about}"
        yield f"  {output.style('❯', bold=True)} {output.one_line(text, max(output.width() - 4, FACTS_COLUMNS_LEAST))}"


@command.command("edit")
@click.argument("prompt_id", metavar="ID")
@click.argument("text", nargs=-1)
@json_option
@input_options
@trust_option
@store_option
@click.pass_context
def edit(ctx: click.Context, prompt_id: str, text: tuple[str, ...], as_json: bool) -> None:
    """Replace a queued prompt by TEXT and what is piped in. Without both, on a terminal, it is written in $EDITOR."""
    app: App = ctx.obj
    given = PromptInput(ctx)
    content = given.text(text)
    may_act(app)
    edited = _queue(app).edit(prompt_id, content)
    given.stored()
    if as_json:
        output.json(prompt_queue.as_json(edited))
        return
    output.talk(f"Edited {edited.prompt.short_id} of {edited.session}: {output.one_line(edited.prompt.content, 60)}")


@command.command("drop")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@trust_option
@store_option
@click.pass_obj
def drop(app: App, ids: tuple[str, ...], as_json: bool) -> None:
    """Remove queued prompts, by the ID that `queue list` shows."""
    may_act(app)
    _print_dropped(_queue(app).drop(ids), as_json=as_json)


@command.command("clear")
@session_argument
@json_option
@trust_option
@store_option
@click.pass_obj
def clear(app: App, session: str | None, as_json: bool) -> None:
    """Remove all queued prompts, of SESSION or of this project."""
    may_act(app)
    _print_dropped(_queue(app).clear(_named(app, session)), as_json=as_json)


@command.command("run")
@session_argument
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@trust_option
@store_option
@click.pass_context
def run(ctx: click.Context, session: str | None, as_json: bool) -> None:
    """Run the prompts queued for SESSION, or for the one last active here; after a run that was stopped or failed.

    With the ID of a held prompt, which came with a store from elsewhere, that one is run, too.
    """
    from backstory.cli.views.printing import print_events, printer_for

    app: App = ctx.obj
    may_act(app)
    for problem in app.workspace.scheduler.recover():
        output.talk(problem)
    located, release = _to_run(app, session)
    events = _queue(app).run(located, release)
    ctx.exit(print_events(events, printer_for(as_json=as_json)))


def _to_run(app: App, wanted: str | None) -> tuple[LocatedSession, str | None]:
    """The session whose prompts are to be run, and the uid of the held one, if that was named."""
    try:
        return find(app, wanted), None
    except SessionNotFound:
        held = _queue(app).held(wanted) if wanted is not None else None
        if held is None:
            raise
        return app.workspace.resolve(held.session_uid), held.uid


def _queue(app: App) -> PromptQueue:
    return app.workspace.scheduler.queue


def _named(app: App, session: str | None) -> LocatedSession | None:
    return None if session is None else app.workspace.resolve(session)


def _print_dropped(dropped: list[ListedPrompt], *, as_json: bool) -> None:
    """Print what was taken out, so that it can be queued again."""
    if as_json:
        output.json({"prompts": [prompt_queue.as_json(each) for each in dropped]})
        return
    for each in dropped:
        prompt = each.prompt
        output.talk(f"Dropped {prompt.short_id} of {each.session}: {output.one_line(prompt.content, 60)}")
    if not dropped:
        output.talk("Nothing was queued.")
