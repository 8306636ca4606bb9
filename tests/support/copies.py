"""Two copies of a store that go on separately, and what a store says, whatever its numbers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from backstory.conversation.tree import Point
from backstory.errors import BackstoryError
from backstory.exchange import merging, replication
from backstory.export.full_form import FullForms
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Complete, ToolCall, UserMessage, event_to_json
from backstory.store import Store, open_store
from backstory.store.tables import branches, compactions, decisions
from backstory.store.tables.compactions import NewCompaction
from tests.support.clock import Clock
from tests.support.machines import bytes_of, looked_up

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import Session

_randomness = itertools.count(1)


def opened(path: Path, clock: Clock) -> Store:
    """A store whose uids are the same in no other, and in every run."""
    return open_store(path, now=clock, randomness=lambda length: next(_randomness).to_bytes(length, "big"))


def say(store: Store, session: Session | int, prompt: str, *, path: str = "/f.py") -> None:
    """A turn of a session."""
    call = ToolCall(tool_use_id=prompt, tool_name="Read", tool="READ", file_path=path, input={"file_path": path})
    store.append_events(
        session, [UserMessage(content=prompt), call, AssistantText(text=f"to {prompt}"), Complete(success=True)]
    )


def add_session(store: Store, which: int) -> None:
    say(store, store.create_session(f"s{which}" if which % 2 else ""), f"began {which}")


def add_turn(store: Store, which: int) -> None:
    say(store, _session(store, which), f"turn {which}", path=f"/{which % 3}.py")


def add_words(store: Store, which: int) -> None:
    """Words without a prompt belong to the newest turn, if that is there."""
    session = _session(store, which)
    shown = {turn.uid for turn in store.tree(session)}
    if any(turn.uid not in shown for turn in store.turns(session)[-1:]):
        return
    store.append_events(session, [AssistantText(text=f"more {which}")])


def fork(store: Store, which: int) -> None:
    session = _session(store, which)
    turn = _turn(store, session, which)
    store.checkout(session, Point(turn.uid, turn.first_seq + which % 3))
    say(store, session, f"fork {which}")


def check_out(store: Store, which: int) -> None:
    session = _session(store, which)
    turn = _turn(store, session, which)
    store.checkout(session, Point(turn.uid, turn.last_seq))


def rename(store: Store, which: int) -> None:
    store.rename(_session(store, which), f"name {which}")


def name_branch(store: Store, which: int) -> None:
    session = _session(store, which)
    turn = _turn(store, session, which)
    store.name_branch(session, f"b{which % 2}", Point(turn.uid, turn.last_seq))


def unname_branch(store: Store, which: int) -> None:
    store.unname_branch(_session(store, which), f"b{which % 2}")


def remove_turn(store: Store, which: int) -> None:
    session = _session(store, which)
    tree = store.tree(session)
    gone = {_turn(store, session, which).uid}
    for turn in tree:
        if turn.parent_uid in gone:
            gone.add(turn.uid)
    store.remove_turns(session, sorted(gone))


def restore_turns(store: Store, which: int) -> None:
    session = _session(store, which)
    removed = store.ask(branches.removed, session.id)
    if removed:
        store.restore_turns(session, removed[which % len(removed)].uid)


def prune(store: Store, which: int) -> None:
    store.prune_turns(_session(store, which))


def summarise(store: Store, which: int) -> None:
    session = _session(store, which)
    store.decide(
        compactions.add,
        session.id,
        NewCompaction(after_seq=_turn(store, session, which).last_seq, summary=f"sum {which}"),
    )


def undo_summary(store: Store, which: int) -> None:
    store.decide(compactions.undo, _session(store, which).id)


def remove_session(store: Store, which: int) -> None:
    store.remove(_session(store, which))


WAYS = [
    add_session, add_turn, add_turn, add_turn, add_words, fork, check_out, rename, name_branch, unname_branch,
    remove_turn, restore_turns, prune, summarise, undo_summary, remove_session,
]  # fmt: skip
"""How a store goes on; each is told a number."""


def go_on(store: Store, clock: Clock, way: int, which: int, ms: int) -> None:
    """One step, so many ms after the one before; what is not possible is not done."""
    clock.ms += ms
    try:
        WAYS[way % len(WAYS)](store, which)
    except (BackstoryError, IndexError, ZeroDivisionError):
        return


def _session(store: Store, which: int) -> Session:
    found = sorted(store.sessions(), key=lambda each: each.uid) if store.exists else []
    return found[which % len(found)]


def _turn(store: Store, session: Session, which: int) -> Any:
    tree = store.tree(session)
    return tree[which // 2 % len(tree)]


def said(store: Store) -> dict[str, Any]:
    """All that a person would miss of a store, but for numbers."""
    found = {session.uid: _said(store, session) for session in store.sessions(subagents=True)} if store.exists else {}
    return found | {"removed": looked_up(store.path, "select uid, at from forgotten order by 1")}


def _said(store: Store, session: Session) -> dict[str, Any]:
    tree = {turn.uid: turn for turn in store.tree(session, removed=True, pruned=True)}
    names, full, leaf = {turn.id: turn.uid for turn in tree.values()}, FullForms(store), store.leaf(session)

    def place(uid: str | None, seq: int | None) -> Any:
        return None if uid is None else (uid, None if seq is None else seq - tree[uid].first_seq)

    def end(uid: str, seq: int | None) -> Any:
        return place(uid, tree[uid].last_seq if seq is None else seq)

    events: dict[str | None, list[Any]] = {}
    for each in store.events(session):
        uid = names.get(each.turn_id or 0)
        where = each.seq - tree[uid].first_seq if uid else 0
        events.setdefault(uid, []).append((where, each.part, each.at, event_to_json(full.expand(each))))
    return {
        "name": session.name,
        "context": store.ask(decisions.context_of, session.uid),
        "created": session.created,
        "last_active": session.last_active,
        "cost": round(session.cost_usd or 0, 6),
        "turns": {
            uid: (
                turn.prompt,
                turn.prompt and turn.answer,
                turn.outcome,
                turn.removed,
                turn.started,
                turn.ended,
                place(turn.parent_uid, turn.parent_seq),
            )
            for uid, turn in tree.items()
        },
        "events": {uid: sorted(each) if uid is None else each for uid, each in events.items()},
        "leaf": leaf and place(leaf.uid, leaf.seq),
        "branches": {each.name: end(each.uid, each.seq) for each in store.branch_names(session, removed=True)},
        "bytes": sorted(bytes_of(store, log.id)[1] for log in store.logs(session)),
        "summaries": sorted(
            (uid, seq - first, text, undone)
            for uid, first, seq, text, undone in looked_up(
                store.path,
                "select t.uid, t.first_seq, c.after_seq, c.summary, c.undone from compactions c join turns t on "
                "t.session_id = c.session_id and c.after_seq between t.first_seq and t.last_seq where c.session_id = ?",
                session.id,
            )
        ),
        "files": looked_up(
            store.path, "select file_path, action from session_files where session_id = ? order by 1", session.id
        ),
        "touches": looked_up(
            store.path,
            "select f.file_path, n.uid, t.seq - n.first_seq, t.action from file_touches t "
            "join session_files f on f.id = t.file_id join turns n on n.session_id = f.session_id "
            "and t.seq between n.first_seq and n.last_seq where f.session_id = ? order by 1, 2, 3",
            session.id,
        ),
    }


def merge(ours: Store, theirs: Store, *, is_trusted: bool = True) -> bool:
    """Merge a store into another, as the command does; returns whether anything changed."""
    plan = merging.plan_merge(ours, theirs, is_trusted=is_trusted)
    changed = bool(merging.remove_as(ours, plan.removed))
    for uid in plan.taken:
        changed |= replication.merge(ours, theirs, uid, is_trusted=is_trusted).has_changed
    reindex(ours, now=0, only_stale=True)
    return (bool(is_trusted and merging.take_tombstones(ours, theirs))) or changed
