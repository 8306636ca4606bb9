"""``backstory checkout``: where the next prompt goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backstory.cli import output
from backstory.cli.options import find_target, json_option, session_option, store_option, tell_moved
from backstory.cli.trusting import may_act, talk_late, trust_option, writable_session
from backstory.cli.views import path
from backstory.conversation.tree import Span
from backstory.workspace.history.records import path_records
from backstory.workspace.located import LocatedSession
from backstory.workspace.runs.branching import check_out
from backstory.workspace.workspace import NUMBERED

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.conversation.tree import Point

TEXT_COLUMNS = 60


@click.command("checkout")
@click.argument("point", metavar="@N|NAME|LEAF|SESSION")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def command(app: App, point: str, wanted: str | None, as_json: bool) -> None:
    """Continue from a record (@12), or from the tip of a branch, given by its name or its number in `tree branches`.

    With a session (S3, a name, the start of a uid) commands here continue that session at its current branch. Nothing
    is removed: `backstory tree` shows all. A session imported from a log is continued by a new session of this
    project, with copies of its turns.
    """
    may_act(app)
    if wanted is None and NUMBERED.fullmatch(point):
        _go_to(app, app.workspace.resolve(point), as_json=as_json)
        return
    to = find_target(app, point, wanted)
    if to.is_session:
        _go_to(app, to.located, as_json=as_json)
        return
    own, late = check_out(app.workspace, to, output.talk)
    tell_moved(to)
    talk_late("Switched", late)
    if as_json:
        output.json(own.keys | {"seq": to.point.seq, "turn_uid": to.point.uid})
    else:
        output.data(f"Switched to @{to.point.seq}{_last_message(own, to.point)}")


def _go_to(app: App, located: LocatedSession, *, as_json: bool) -> None:
    """Make another session the one that commands here continue."""
    own = LocatedSession(app.project_store, writable_session(app, located))
    own.store.choose_session(own.session, app.worktree)
    leaf = own.store.leaf(own.session)
    if as_json:
        at = {"seq": leaf.seq if leaf else None, "turn_uid": leaf.uid if leaf else None}
        output.json(own.keys | at)
    else:
        title = output.one_line(own.session.shown_title, TEXT_COLUMNS)
        output.data(f"Switched to {own.label} {title}".strip())


def _last_message(found: LocatedSession, point: Point) -> str:
    """The last message of a turn up to one of its records."""
    (turn,) = (turn for turn in found.store.tree(found.session) if turn.uid == point.uid)
    message = f"U: {turn.prompt}"
    for record in path_records(found, [Span(turn.uid, turn.first_seq, point.seq)], [turn]):
        message = path.said(record, found.session.said_folder)
    return f" {output.one_line(message, TEXT_COLUMNS)}"
