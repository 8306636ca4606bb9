"""Branches: where a session goes on, what people call its branches, and those they removed. Never commits.

A removed branch's turns are marked and stay until they are pruned. Reading takes stores of earlier versions, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from backstory import errors
from backstory.conversation.tree import Point, Tree
from backstory.model import DOCUMENT_LINE
from backstory.store import codec, schema
from backstory.store.schema import fetch, fetch_one
from backstory.store.tables import event_rows, lent, logs, turns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import apsw

    from backstory.conversation.tree import Span
    from backstory.model import Turn

PREVIEW_CHARS = 400
"""The most of prompts and answers that is read for a line in a tree."""


class TreeTurn(Struct, frozen=True, gc=False):
    """A turn as a tree shows it: prompt and answer may be cut; times in ms since 1970."""

    id: int
    uid: str
    parent_uid: str | None
    parent_seq: int | None
    """The record that it follows; the parent's last one also where only an end without words lies between."""
    first_seq: int
    last_seq: int
    agent: str
    prompt: str
    answer: str
    started: int | None
    ended: int | None
    outcome: str | None
    model: str | None
    removed: int | None


class BranchName(Struct, frozen=True, kw_only=True):
    """A name of a branch, and where its tip is; ``seq`` is None at the end of the turn."""

    name: str
    uid: str
    seq: int | None


class _Leaf(NamedTuple):
    """A turn that a session may continue after, with the record of it that was checked out."""

    uid: str
    last_seq: int
    leaf_seq: int | None


class _TurnOfRecord(NamedTuple):
    """The turn that holds a record; without an id where the record is in none."""

    id: int | None
    uid: str
    first_seq: int
    last_seq: int
    outcome: str | None
    removed: int | None


class TreePosition(Struct, frozen=True):
    """The place of a record in the tree. ``asked`` differs where it lay between a tool's call and its result."""

    point: Point
    asked: int


def of_session(db: apsw.Connection, session_id: int, *, removed: bool = False, pruned: bool = False) -> list[TreeTurn]:
    """A session's turns in the order of their prompts; those of removed and of pruned branches only when asked for."""
    rows = db.execute(
        "select t.id, t.uid, t.parent_uid, t.parent_seq, t.first_seq, t.last_seq, t.agent, substr(t.prompt, 1, ?), "
        "coalesce(substr(x.answer, 1, ?), ''), t.started, t.ended, t.outcome, t.model, t.removed from turns t "
        "left join turn_texts x on x.turn_id = t.id where t.session_id = ? order by t.first_seq, t.id",
        (PREVIEW_CHARS, PREVIEW_CHARS, session_id),
    )
    found = [turn for turn in (TreeTurn(*row) for row in rows) if turn.removed is None or removed or pruned]
    # A pruned turn still has its row, so that no log brings it back.
    kept = [turn for turn in found if turn.removed is None or _is_kept(db, session_id, turn)]
    return _at_ends(db, session_id, found if pruned else kept, {turn.uid: turn.last_seq for turn in kept})


def _is_kept(db: apsw.Connection, session_id: int, turn: TreeTurn) -> bool:
    """Return True if a removed turn has not been pruned."""
    return bool(turn.prompt) or _has_content_after(db, session_id, turn.first_seq - 1, turn.last_seq)


def _at_ends(db: apsw.Connection, session_id: int, found: list[TreeTurn], last: dict[str, int]) -> list[TreeTurn]:
    """The same turns; what follows the last words of another follows that as a whole.

    ``last``: the last record of each turn that has its words; where they were pruned it was noted then.
    """
    turns: list[TreeTurn] = []
    for turn in found:
        seq, end = turn.parent_seq, last.get(turn.parent_uid or "")
        # An agent may say that it follows the last words, or the record of the end behind them: that is one place.
        if seq is not None and end is not None and seq < end and not _has_content_after(db, session_id, seq, end):
            turns.append(replace(turn, parent_seq=end))
        else:
            turns.append(turn)
    return turns


def _has_content_after(db: apsw.Connection, session_id: int, after: int, last: int) -> bool:
    return bool(
        db.execute(
            "select exists (select 1 from events where session_id = ? and seq > ? and seq <= ? "
            f"and kind in {schema.CONTENT})",
            (session_id, after, last),
        ).get
    )


def leaf(db: apsw.Connection, session_id: int) -> Point | None:
    """The record that the next prompt follows: the one checked out, else the last of the newest turn.

    One behind which its turn says nothing more is at the turn's end.
    """
    chosen = (
        "select t.uid, t.last_seq, s.leaf_seq from sessions s join turns t on t.session_id = s.id "
        "and t.uid = s.leaf_uid and t.removed is null where s.id = ?"
    )
    newest = (
        "select uid, last_seq, null from turns where session_id = ? and removed is null "
        "order by first_seq desc, id desc limit 1"
    )
    found = fetch_one(db, _Leaf, chosen, (session_id,)) or fetch_one(db, _Leaf, newest, (session_id,))
    if found is None:
        return None
    uid, last, seq = found
    return _settled(db, session_id, Point(uid, last if seq is None else seq), last)


def settled(db: apsw.Connection, session_id: int, point: Point) -> Point:
    """The record as ``leaf`` returns it: the end of its turn if the turn says nothing more; raises RecordNotFound."""
    return _settled(db, session_id, point, _last_record(db, session_id, point))


def _settled(db: apsw.Connection, session_id: int, point: Point, last: int) -> Point:
    has_more = point.seq < last and _has_content_after(db, session_id, point.seq, last)
    return point if has_more else Point(point.uid, last)


def length(db: apsw.Connection, session_id: int, to: Point | None) -> int:
    """Return the number of turns that lead to a record, the one that holds it included."""
    if to is None:
        return 0
    rows = fetch(
        db,
        tuple[str, str | None],
        "select uid, parent_uid from turns where session_id = ? and removed is null",
        (session_id,),
    )
    parents: dict[str, str | None] = dict(rows)
    walked = set[str]()
    at: str | None = to.uid
    # A log may name any parent, also one in a circle.
    while at is not None and at in parents and at not in walked:
        walked.add(at)
        at = parents[at]
    return len(walked)


def place(db: apsw.Connection, session_id: int, seq: int) -> TreePosition:
    """Return the place of a record; between a tool's call and its result that is before the call.

    Raises RecordNotFound, BranchRemoved.
    """
    of_record = (
        "select t.id, t.uid, t.first_seq, t.last_seq, t.outcome, t.removed from events e "
        "left join turns t on t.id = e.turn_id where e.session_id = ? and e.seq = ? limit 1"
    )
    around = (
        "select id, uid, first_seq, last_seq, outcome, removed from turns "
        "where session_id = ?1 and first_seq <= ?2 and last_seq >= ?2 order by first_seq desc limit 1"
    )
    asked = (session_id, seq)
    found = fetch_one(db, _TurnOfRecord, of_record, asked) or fetch_one(db, _TurnOfRecord, around, asked)
    # The first turn of most sessions has records before it, such as the settings of the client.
    if found is None or found.id is None:
        raise errors.RecordNotFound(seq, is_before_turns=found is not None)
    if found.removed is not None:
        raise errors.BranchRemoved(seq)
    if seq >= found.last_seq and found.outcome is not None:
        # Behind the end of a turn no call is open any more.
        return TreePosition(Point(found.uid, found.last_seq), seq)
    last_closed = _before_open_calls(db, session_id, found.id, found.first_seq, seq)
    return TreePosition(Point(found.uid, max(last_closed, found.first_seq)), seq)


def _before_open_calls(db: apsw.Connection, session_id: int, turn_id: int, first: int, seq: int) -> int:
    """The last record up to ``seq`` at which every call that was made has its result."""
    codecs: dict[int, Any] = {}
    rows = fetch(
        db,
        tuple[int, bytes | str],
        "select seq, data from events where session_id = ? and turn_id = ? and seq between ? and ? "
        f"and kind in {schema.TOOLS} order by seq, part",
        (session_id, turn_id, first, seq),
    )
    from backstory.model import ToolCall, ToolResult, event_from_json

    calls = list[tuple[int, str]]()
    answered: dict[str, int] = {}
    for at, data in rows:
        event = event_from_json(codec.unpack_event(db, codecs, data))
        if isinstance(event, ToolCall):
            calls.append((at, event.tool_use_id))
        elif isinstance(event, ToolResult):
            answered.setdefault(event.tool_use_id, at)
    for at, call in sorted(calls, reverse=True):
        # Moving before one call may take away the result of another that was made at the same time.
        if answered.get(call, seq + 1) > seq:
            seq = at - 1
    return seq


def check_out(db: apsw.Connection, session_id: int, point: Point, now: int) -> None:
    """Let the next prompt follow this record; raises RecordNotFound."""
    _last_record(db, session_id, point)
    db.execute(
        "update sessions set leaf_uid = ?, leaf_seq = ?, leaf_at = ? where id = ?",
        (point.uid, point.seq, now, session_id),
    )


# names ------------------------------------------------------------------------------------------------------


def names(db: apsw.Connection, session_id: int, *, removed: bool = False) -> list[BranchName]:
    """Return the names of a session's branches; those of removed branches only when asked for."""
    rows = fetch(
        db,
        tuple[str, str, int | None],
        "select b.name, b.leaf_uid, b.leaf_seq from branches b join turns t on t.session_id = b.session_id "
        "and t.uid = b.leaf_uid and (? or t.removed is null) where b.session_id = ? order by b.created, b.id",
        (removed, session_id),
    )
    return [BranchName(name=name, uid=uid, seq=seq) for name, uid, seq in rows]


def name_branch(db: apsw.Connection, session_id: int, name: str, point: Point, now: int) -> None:
    """Give the branch with this tip a name; raises RecordNotFound, BranchNameTaken."""
    # Names of removed branches are free again, and are overwritten.
    taken = next((each for each in names(db, session_id) if each.name == name), None)
    last, follows = _end_of(db, session_id, point)
    seq = None if point.seq >= last and not follows else point.seq
    if taken is not None and (taken.uid, taken.seq) != (point.uid, seq):
        raise errors.BranchNameTaken(name)
    db.execute(
        "insert into branches(session_id, name, leaf_uid, leaf_seq, created) values (?, ?, ?, ?, ?) "
        "on conflict(session_id, name) do update set leaf_uid = excluded.leaf_uid, leaf_seq = excluded.leaf_seq, "
        "moved = null",
        (session_id, name, point.uid, seq, now),
    )


def _end_of(db: apsw.Connection, session_id: int, point: Point) -> tuple[int, bool]:
    """The last record of a turn, or the one asked for if nothing is said behind it; and whether something follows."""
    last = _last_record(db, session_id, point)
    follows = bool(
        db.execute(
            "select count(*) from turns where session_id = ? and parent_uid = ? and removed is null",
            (session_id, point.uid),
        ).get
    )
    return (last if _has_content_after(db, session_id, point.seq, last) else point.seq), follows


def _last_record(db: apsw.Connection, session_id: int, point: Point) -> int:
    """The last record of the turn that a point is in; raises RecordNotFound where the session has no such turn."""
    last = db.execute("select last_seq from turns where session_id = ? and uid = ?", (session_id, point.uid)).get
    if last is None:
        raise errors.RecordNotFound(point.seq)
    return int(last)


def unname_branch(db: apsw.Connection, session_id: int, name: str) -> None:
    """Take a name away."""
    db.execute("delete from branches where session_id = ? and name = ?", (session_id, name))


def put_name(db: apsw.Connection, session_id: int, named: tuple[str, str, int | None, int, int | None]) -> None:
    """Put a name where another store has it: the name, its tip's uid and record, when it was given and moved."""
    db.execute(
        "insert into branches(session_id, name, leaf_uid, leaf_seq, created, moved) values (?, ?, ?, ?, ?, ?) "
        "on conflict(session_id, name) do update set leaf_uid = excluded.leaf_uid, leaf_seq = excluded.leaf_seq, "
        "created = excluded.created, moved = excluded.moved",
        (session_id, *named),
    )


def has_names(db: apsw.Connection, session_id: int) -> bool:
    """Return True if a branch of a session has a name."""
    return bool(db.execute("select exists (select 1 from branches where session_id = ?)", (session_id,)).get)


def follow(db: apsw.Connection, session_id: int, new: Iterable[Turn]) -> None:
    """Move names whose tip one of these new turns follows there; they come in the order of their prompts."""
    for turn in new:
        parent, seq = turn.parent_uid, turn.parent_seq
        if parent is None or seq is None:
            continue
        asked = "select id, leaf_seq from branches where session_id = ? and leaf_uid = ?"
        for branch_id, tip_seq in fetch(db, tuple[int, int | None], asked, (session_id, parent)):
            if _is_at_tip(db, session_id, parent, seq, tip_seq):
                db.execute(
                    "update branches set leaf_uid = ?, leaf_seq = null, moved = coalesce(?, moved) where id = ?",
                    (turn.uid, turn.started, branch_id),
                )


def follow_unknown(db: apsw.Connection, session_id: int, name: str, known: Collection[str]) -> None:
    """Take a name on to what followed its tip since: turns that the store where it was given does not have."""
    branch = "select leaf_uid, leaf_seq from branches where session_id = ? and name = ?"
    tip, seq = db.execute(branch, (session_id, name)).fetchall()[0]
    rows = fetch(
        db,
        tuple[str, str, int],
        "select uid, parent_uid, parent_seq from turns where session_id = ? and parent_uid is not null "
        "order by first_seq, id",
        (session_id,),
    )
    for uid, parent, parent_seq in rows:
        # A turn comes after the one that it follows, so one look at each is enough.
        if uid not in known and parent == tip and _is_at_tip(db, session_id, parent, parent_seq, seq):
            tip, seq = uid, None
    db.execute(
        "update branches set leaf_uid = ?, leaf_seq = ? where session_id = ? and name = ?", (tip, seq, session_id, name)
    )


def _is_at_tip(db: apsw.Connection, session_id: int, tip: object, parent_seq: int, tip_seq: object) -> bool:
    """Return True if what follows this record of a tip's turn follows the tip: nothing is said behind it there."""
    if tip_seq is not None:
        return tip_seq == parent_seq
    last = db.execute("select last_seq from turns where session_id = ? and uid = ?", (session_id, tip)).get
    return last is not None and not _has_content_after(db, session_id, parent_seq, int(last))


# removing ---------------------------------------------------------------------------------------------------


def remove(db: apsw.Connection, session_id: int, uids: Iterable[str], now: int) -> int:
    """Mark turns as removed; returns how many. Where the session went on there, it goes on where they began."""
    tree = Tree(of_session(db, session_id))
    gone = [uid for uid in dict.fromkeys(uids) if uid in tree]
    at = leaf(db, session_id)
    # What is removed together is known by its time, however quickly a script removes one after another.
    latest: Any = db.execute("select max(removed) from turns where session_id = ?", (session_id,)).get
    now = max(now, (latest or 0) + 1)
    db.executemany(
        "update turns set removed = ? where session_id = ? and uid = ? and removed is null",
        [(now, session_id, uid) for uid in gone],
    )
    if at is not None and at.uid in gone:
        back = next((turn for turn in reversed(tree.ancestry(at.uid)) if turn.uid not in gone), None)
        above = next((turn for turn in tree.ancestry(at.uid) if turn.uid in gone), None)
        if back is None or above is None:
            db.execute(
                "update sessions set leaf_uid = null, leaf_seq = null, leaf_at = ? where id = ?", (now, session_id)
            )
        else:
            check_out(db, session_id, Point(back.uid, above.parent_seq or back.last_seq), now)
    turns.sum_up(db, session_id)
    return len(gone)


def restore(db: apsw.Connection, session_id: int, uid: str) -> set[str]:
    """Bring back what was removed together with a turn, and what that comes from; returns the turns' uids."""
    tree = Tree(of_session(db, session_id, removed=True))
    if uid not in tree:
        return set()
    back = {turn.uid for turn in tree if turn.removed is not None and turn.removed == tree[uid].removed}
    # What was removed at another time may lie above it, and a branch without its beginning is none.
    back |= {turn.uid for each in list(back) for turn in tree.ancestry(each) if turn.removed is not None}
    db.executemany(
        "update turns set removed = null where session_id = ? and uid = ?", [(session_id, each) for each in back]
    )
    turns.sum_up(db, session_id)
    return back


def removed(db: apsw.Connection, session_id: int) -> list[TreeTurn]:
    """The turns of removed branches that can be restored, the last removed first."""
    found = [turn for turn in of_session(db, session_id, removed=True) if turn.removed is not None]
    return sorted(found, key=lambda turn: (-(turn.removed or 0), turn.first_seq))


def mark_removed(db: apsw.Connection, session_ids: Iterable[int], when: Mapping[str, int]) -> None:
    """Mark turns as removed when they were so in another store."""
    db.executemany(
        "update turns set removed = ? where session_id = ? and uid = ?",
        [(ms, session_id, uid) for session_id in session_ids for uid, ms in when.items()],
    )


def prune(db: apsw.Connection, session_id: int, only: Collection[str] | None = None) -> int:
    """Drop what removed turns, or only these of them, hold, a run with its bytes; gives how many turns that were.

    A row stays of each, with what it cost: a log that has the turn, here or the agent's own, must not bring it back.
    """
    doomed = [turn for turn in removed(db, session_id) if only is None or turn.uid in only]
    # Without content nobody knows what follows the last of them, and that decides which branch is which.
    db.executemany(
        "update turns set parent_seq = ? where id = ? and parent_seq is not ?",
        [(turn.parent_seq, turn.id, turn.parent_seq) for turn in doomed],
    )
    for turn in doomed:
        event_rows.delete_events(db, "session_id = ? and turn_id = ?", (session_id, turn.id))
        db.execute("delete from turn_texts where turn_id = ?", (turn.id,))
        db.execute(
            "delete from file_touches where seq between ? and ? and file_id in "
            "(select id from session_files where session_id = ?)",
            (turn.first_seq, turn.last_seq, session_id),
        )
        covered = (session_id, turn.first_seq, turn.last_seq)
        event_rows.delete_sections(db, "session_id = ? and seq between ? and ?", covered)
        for table in ("session_refs", "checkpoints"):
            db.execute(f"delete from {table} where session_id = ? and seq between ? and ?", covered)
        summaries = "session_id = ? and after_seq between ? and ?"
        event_rows.delete_summaries(db, summaries, covered)
        db.execute(f"delete from compactions where {summaries}", covered)
        db.execute("delete from logs where session_id = ? and turn_uid = ?", (session_id, turn.uid))
        # The row keeps its costs: they were spent, whatever happened to the words.
        db.execute("update turns set prompt = '' where id = ?", (turn.id,))
        db.execute("delete from branches where session_id = ? and leaf_uid = ?", (session_id, turn.uid))
    db.execute(
        "delete from session_files where session_id = ? and turn_id in "
        "(select id from turns where removed is not null) "
        "and not exists (select 1 from file_touches where file_id = session_files.id)",
        (session_id,),
    )
    lent.settle(db)
    turns.sum_up(db, session_id)
    return len(doomed)


def prunable(db: apsw.Connection) -> list[int]:
    """The ids of sessions with removed branches."""
    rows = db.execute("select distinct session_id from turns where removed is not null order by 1").fetchall()
    return [int(str(session_id)) for (session_id,) in rows]


# what a path holds ------------------------------------------------------------------------------------------


def touched(db: apsw.Connection, session_id: int, spans: Sequence[Span]) -> dict[str, str]:
    """The files that the records of a path touched, each with the action that says most, in order."""
    ranks = ("create", "rename", "delete", "edit", "read")
    found: dict[str, str] = {}
    for span in spans:
        for path, action in db.execute(
            "select f.file_path, t.action from session_files f join file_touches t on t.file_id = f.id "
            "where f.session_id = ? and t.seq between ? and ? order by t.seq, t.part",
            (session_id, span.first, span.last),
        ).fetchall():
            if path not in found or ranks.index(str(action)) < ranks.index(found[str(path)]):
                found[str(path)] = str(action)
    return found


# what was left behind ---------------------------------------------------------------------------------------


def rewound(db: apsw.Connection, session_id: int) -> frozenset[str]:
    """The uids of a session's turns that a rewind, or another branch, left behind; their records are kept.

    They are not on the way to where the session goes on, or their prompt is in its log no more: that was written anew
    without it, or cut short before it. Nothing is known of a session without a leaf.
    """
    leaf: str | None = db.execute("select leaf_uid from main.sessions where id = ?", (session_id,)).get
    rows = fetch(
        db, tuple[str, str | None], "select uid, parent_uid from main.turns where session_id = ?", (session_id,)
    )
    parents: dict[str, str | None] = dict(rows)
    path, uid = set[str](), leaf
    # A log may name any parent, also one in a circle.
    while uid is not None and uid not in path:
        path.add(uid)
        uid = parents.get(uid)
    off = parents.keys() - path if leaf in parents else set[str]()
    gone = fetch(db, tuple[str, int | None], _NOT_IN_LOG, (session_id,))
    documents = {log_id for log_id in {log_id for _, log_id in gone if log_id is not None} if _is_document(db, log_id)}
    return frozenset(off | {uid for uid, log_id in gone if log_id not in documents})


def _is_document(db: apsw.Connection, log_id: int) -> bool:
    """Return True if a log is the kept form of a document that its agent writes anew."""
    try:
        return logs.look_at(db, log_id, 0, len(DOCUMENT_LINE)) == DOCUMENT_LINE
    except codec.CodecError:
        return False


_NOT_IN_LOG = """
with prompts as materialized (
  select t.uid, e.log_id, e.position from main.turns t
  join main.events e on e.session_id = t.session_id and e.seq = t.first_seq and e.turn_id = t.id
  where t.session_id = ?
),
followed as materialized (
  select l.id, exists (select 1 from main.logs n where n.agent = l.agent and n.native_id = l.native_id
      and n.kind = 'file' and n.path = l.path and n.generation > l.generation) as is_followed,
    (select min(size) from (
      select p.size from main.log_places p
      where p.path = l.path and p.log_id = l.id and p.size < l.read_to and p.path not like '%.zst'
      union all select l.size where l.size < l.read_to and l.path not like '%.zst')) as size
  from main.logs l
  where l.id in (select log_id from prompts) and l.kind = 'file' and l.relpath not like '%/'
)
select t.uid, iif(l.is_followed, null, l.id) from followed l join prompts t on t.log_id = l.id
where l.is_followed or t.position >= l.size
"""
"""Turns whose prompt was last written by a log that another generation took the place of, or behind its present end.

What is kept of a folder, whose path ends in a slash, only grows, and is longer than the file that stands for it. So is
what is kept of a document that is written anew: where only the sizes say that a turn is gone, its log is named.
"""
