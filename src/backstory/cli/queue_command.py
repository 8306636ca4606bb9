"""``backstory queue``: the prompts that are queued for sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory.cli import Group, output
from backstory.cli.options import json_option, session_argument, store_option
from backstory.cli.points import find
from backstory.cli.trusting import may_act, trust_option
from backstory.errors import NotQueued, SessionAmbiguous, SessionNotFound

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.store import Store
    from backstory.store.queue import Text


@click.group("queue", cls=Group)
def command() -> None:
    """Show, edit and run queued prompts."""


@command.command("list")
@session_argument
@json_option
@store_option
@click.pass_obj
def list_(app: App, session: str | None, as_json: bool) -> None:
    """List queued prompts, of SESSION or of this project, in order."""
    from backstory.runs.queued import still_waiting
    from backstory.store.queue import Kind, Queue

    store, uid = place_of(app, session)
    with Queue(store.path, output.talk) as queue:
        waiting = [*still_waiting(app.home, queue, uid), *queue.texts(uid, Kind.HELD)]
    if as_json:
        output.json([row_of(store, text) for text in waiting])
        return
    if not waiting:
        output.talk("The queue is empty.")
        return
    cells = [
        (name_of(store, text.session_uid), kind_of(store, text), text.short_id, output.iso(text.queued) or "",
         text.content)
        for text in waiting
    ]  # fmt: skip
    for line in output.table(cells, flexible=4, heads=("SESSION", "KIND", "ID", "QUEUED", "TEXT")):
        output.data(line)
    if any(is_held(store, text) for text in waiting):
        output.talk("Held prompts came with a store from elsewhere. To run one: backstory queue run ID")


@command.command("drop")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@trust_option
@store_option
@click.pass_obj
def drop(app: App, ids: tuple[str, ...], as_json: bool) -> None:
    """Remove queued prompts, by the ID that `queue list` shows."""
    from backstory.runs.queued import still_waiting
    from backstory.store.queue import Kind, Queue

    may_act(app)
    store, _ = place_of(app, None)
    with Queue(store.path, output.talk) as queue:
        waiting = [*still_waiting(app.home, queue), *queue.texts(kind=Kind.HELD)]
        meant = [meant_by(each, waiting) for each in ids]
        queue.remove([text.uid for text in meant])
    tell_dropped(store, meant, as_json=as_json)


@command.command("clear")
@session_argument
@json_option
@trust_option
@store_option
@click.pass_obj
def clear(app: App, session: str | None, as_json: bool) -> None:
    """Remove all queued prompts, of SESSION or of this project."""
    from backstory.runs.queued import still_waiting
    from backstory.store.queue import Kind, Queue

    may_act(app)
    store, uid = place_of(app, session)
    with Queue(store.path, output.talk) as queue:
        waiting = [*still_waiting(app.home, queue, uid), *queue.texts(uid, Kind.HELD)]
        queue.remove([text.uid for text in waiting])
    tell_dropped(store, waiting, as_json=as_json)


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
    from backstory.cli.driving import Driver, runner_of
    from backstory.cli.printing import printer_for

    app: App = ctx.obj
    may_act(app)
    runner = runner_of(app)
    runner.take_up(output.talk)
    if session is None:
        session = find(app, None).session.uid
    text = _held(app, session)
    store, uid = place_of(app, session if text is None else text.session_uid)
    assert uid is not None
    driver = Driver(app, runner, store, store.session(uid), printer_for(as_json=as_json))
    hold = runner.hold(store, store.session(uid))
    if text is not None:
        hold.queue.release(text.uid)
    ctx.exit(driver.run_queue(hold))


def _held(app: App, wanted: str) -> Text | None:
    """The text that is meant of those that came with a store from elsewhere; None where a session is meant."""
    from backstory.store.queue import Kind, Queue

    try:
        app.find(wanted)
    except SessionNotFound:
        with Queue(app.project_store.path) as queue:
            held = queue.texts(kind=Kind.HELD)
        if not held:
            raise
        return meant_by(wanted, held)
    return None


def kind_of(store: Store, text: Text) -> str:
    """What a text waits for, in a word."""
    return "held" if is_held(store, text) else text.kind.value


def is_held(store: Store, text: Text) -> bool:
    """Whether a text is run only when it is released: it came with a store from elsewhere, or is still in one."""
    from backstory.store.queue import Kind

    return store.is_elsewhere or text.kind == Kind.HELD


def place_of(app: App, session: str | None) -> tuple[Store, str | None]:
    """The store whose queue is meant, and the session's uid if one is named."""
    from backstory.cli.driving import home_of

    if session is None:
        return app.project_store, None
    found = app.find(session)
    return home_of(app, found), found.session.uid


def row_of(store: Store, text: Text) -> dict[str, Any]:
    """A text for programs."""
    return {
        "id": text.uid, "kind": text.kind.value, "session": name_of(store, text.session_uid), "uid": text.session_uid,
        "text": text.content, "queued": output.iso(text.queued), "options": msgspec.to_builtins(text.options),
        "held": is_held(store, text),
    }  # fmt: skip


def name_of(store: Store, session_uid: str) -> str:
    """What a session is called; its uid, where it is gone."""
    try:
        return store.session(session_uid).shown_number or session_uid[:12]
    except SessionNotFound:
        return session_uid[:12]


def meant_by(wanted: str, waiting: list[Text]) -> Text:
    """The text whose id begins or ends so; raises NotQueued, SessionAmbiguous."""
    upper = wanted.upper()
    found = [text for text in waiting if upper and (text.uid.startswith(upper) or text.uid.endswith(upper))]
    if not found:
        raise NotQueued(wanted)
    if len(found) > 1:
        raise SessionAmbiguous(wanted, [text.uid for text in found])
    return found[0]


def tell_dropped(store: Store, dropped: list[Text], *, as_json: bool) -> None:
    """Say what was taken out, so that it can be said again."""
    if as_json:
        output.json([row_of(store, text) for text in dropped])
        return
    for text in dropped:
        name = name_of(store, text.session_uid)
        output.talk(f"Dropped {text.short_id} of {name}: {output.one_line(text.content, 60)}")
    if not dropped:
        output.talk("Nothing was queued.")
