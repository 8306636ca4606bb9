"""``backstory checkout``: where the next prompt goes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from backstory.cli import output, path
from backstory.cli.acting import own_session
from backstory.cli.app import Found
from backstory.cli.deciding import copy_decisions
from backstory.cli.options import json_option, store_option
from backstory.cli.points import find, locked, meant, session_option, shown, tell_moved
from backstory.cli.trusting import may_act, trust_option

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.conversation.tree import Point

TOLD_COLUMNS = 60
SESSION = re.compile(r"[Ss][1-9][0-9]*")


@click.command("checkout")
@click.argument("point", metavar="@N|NAME|LEAF|SESSION")
@session_option
@json_option
@trust_option
@store_option
@click.pass_obj
def command(app: App, point: str, wanted: str | None, as_json: bool) -> None:
    """Have the next prompt follow a record (@12), or the tip of a branch: by its name, or its number in `branches`.

    S3 has commands here go on with session S3, wherever it stands. Nothing is removed: `backstory tree` shows all. A
    session that was read from a log is carried on by one of this project's own, with copies of its turns.
    """
    may_act(app)
    if wanted is None and SESSION.fullmatch(point):
        _go_to(app, point, as_json=as_json)
        return
    found = find(app, wanted)
    to = meant(found, point)
    session = own_session(app, found, to.point)
    own = Found(app.project_store, session)
    with locked(app, session.uid, shown(own)):
        own.store.checkout(session, to.point)
    tell_moved(to)
    copy_decisions(app, own, "Switched")
    if as_json:
        output.json({"session": shown(own), "uid": session.uid, "seq": to.point.seq, "turn": to.point.uid})
    else:
        output.data(f"switched to @{to.point.seq}{_last_word(own, to.point)}")


def _go_to(app: App, name: str, *, as_json: bool) -> None:
    """Have commands here go on with another session."""
    found = app.find(name)
    own = Found(app.project_store, own_session(app, found))
    own.store.choose_session(own.session, app.worktree)
    leaf = own.store.leaf(own.session)
    if as_json:
        at = {"seq": leaf.seq if leaf else None, "turn": leaf.uid if leaf else None}
        output.json({"session": shown(own), "uid": own.session.uid, **at})
    else:
        told = output.one_line(own.session.shown_title, TOLD_COLUMNS)
        output.data(f"switched to {shown(own)} {told}".strip())


def _last_word(found: Found, point: Point) -> str:
    """The last that was said up to a record of a turn."""
    (turn,) = (turn for turn in found.store.tree(found.session) if turn.uid == point.uid)
    said = f"U: {turn.prompt}"
    for stored in found.store.events(found.session, after=(turn.first_seq - 1, 1 << 30), limit=path.WINDOW):
        word = path.told(stored.event)
        if stored.seq > point.seq:
            break
        if stored.turn_id == turn.id and word is not None:
            said = f"{word[0]}{':' * word[0].isalpha()} {word[1]}"
    return f" {output.one_line(said, TOLD_COLUMNS)}"
