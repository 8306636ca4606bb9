"""Runs of ours and the agent's own log of them: one conversation, recorded twice. Never commits.

A run knows the agent's id of its session. The log with that id is kept as a session like any other, but its first
turn *is* the run's, under the run's uid, whichever of the two came first. A log that holds nothing else is not shown
beside the run; one that was gone on with by hand is a session that begins with a copy of the run's turn, and of which
only the turns behind that are shown: each record is shown once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory import ids
from backstory.lazy import lazy_module
from backstory.model import Relation, Turn
from backstory.store import schema
from backstory.store.intake import written
from backstory.store.schema import fetch, fetch_one

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw

    from backstory.store.intake import run_facts
    from backstory.store.intake.batches import RecordBatch
    from backstory.store.tables import lineage
else:
    lineage = lazy_module("backstory.store.tables.lineage")
    run_facts = lazy_module("backstory.store.intake.run_facts")

_RUN = (
    "select r.uid from turns r join sessions o on o.id = r.session_id "
    "where r.native_id = {native_id} and o.owner is not null"
)
CLAIMED = (
    "(s.owner is null and s.native_id is not null and exists (select 1 from turns r join sessions o "
    "on o.id = r.session_id where r.native_id = s.native_id and o.owner is not null and not exists ("
    "select 1 from turns t where t.session_id = s.id and not exists ("
    "select 1 from turns c where c.session_id = o.id and c.uid = t.uid and c.native_id = s.native_id))))"
)
"""A session ``s`` that is an agent's own log of runs that are here themselves, and of nothing else."""
LOGS_OF_RUNS = (
    "(select l.id from sessions o cross join turns r on r.session_id = o.id cross join sessions l "
    "on l.native_id = r.native_id where o.owner is not null and l.owner is null)"
)
"""The sessions that are logs of such runs: where all sessions are asked, found once from the runs, which are fewer."""
IS_RUN = (
    "exists (select 1 from turns r join sessions o on o.id = r.session_id "
    "where r.uid = t.uid and r.native_id = s.native_id and o.owner is not null)"
)
"""A turn ``t`` of an agent's own log, the session ``s``, that is a run which is here itself: it is shown there."""
SHOWN_ELSEWHERE = f"({IS_RUN} or {written.IS_COPY})"
"""A turn ``t`` of a session ``s`` that is read from a log, and that is shown where it ran, or was written of."""
MAY_BE_SHOWN_ELSEWHERE = (
    "(s.owner is null and (s.relation is 'continuation' or exists (select 1 from turns where native_id = s.native_id)))"
)
"""True if a session ``s`` may have such turns; most have none, and this is known at once."""
HIDDEN = f"({CLAIMED} or {written.IS_ONLY_COPIES})"
"""A session ``s`` of which everything is shown elsewhere."""
HIDDEN_OF_ALL = f"(s.id in {LOGS_OF_RUNS} and {CLAIMED} or {written.IS_ONLY_COPIES})"
"""The same, quicker where all sessions are asked, and slower where a few are."""
MAY_BE_SHOWN_ELSEWHERE_OF_ALL = (
    f"((s.relation is 'continuation' or s.id in {LOGS_OF_RUNS} or s.id in {written.SESSIONS}) "
    f"and {MAY_BE_SHOWN_ELSEWHERE})"
)


def all_hidden(db: apsw.Connection) -> list[int]:
    """The sessions that are hidden, because what they say is shown elsewhere; see HIDDEN."""
    # A store that only reads logs has nothing to hide, and most lists ask that.
    has_own = "select exists (select 1 from sessions where owner is not null)"
    if not db.execute(has_own).get and not db.execute(written.HAS_ANY).get:
        return []
    return [int(str(found)) for (found,) in db.execute(f"select s.id from sessions s where {HIDDEN}")]


def shown_elsewhere(db: apsw.Connection, session_id: int) -> dict[str, str]:
    """The turns of a log's session that are shown elsewhere, each with the uid of the session that shows it."""
    return dict(fetch(db, tuple[str, str], _SHOWN_ELSEWHERE, (session_id,)))


_SHOWN_ELSEWHERE = (
    "select t.uid, coalesce((select o.uid from turns r join sessions o on o.id = r.session_id where r.uid = t.uid "
    "and r.native_id = s.native_id and o.owner is not null order by r.id limit 1), "
    "(select o.uid from turns r join sessions o on o.id = r.session_id where r.uid = t.uid and r.id <> t.id "
    f"order by {written.is_written('r')}, o.uid limit 1)) from sessions s join turns t on t.session_id = s.id "
    f"where s.id = ? and {MAY_BE_SHOWN_ELSEWHERE} and {SHOWN_ELSEWHERE} order by t.first_seq"
)


def events_shown_elsewhere(db: apsw.Connection, but: Collection[int]) -> list[int]:
    """The events of all such turns, but for those of some sessions: what they say is found where they are shown."""
    skipped = (schema.json_list(sorted(but)),)
    rows = fetch(
        db,
        tuple[int],
        # In this order, because few turns are runs.
        "select distinct e.id from sessions o cross join turns r on r.session_id = o.id cross join turns t "
        "on t.uid = r.uid cross join sessions s on s.id = t.session_id and s.native_id = r.native_id "
        "cross join events e on e.session_id = s.id and e.seq between t.first_seq and t.last_seq and e.turn_id = t.id "
        "where o.owner is not null and s.owner is null and s.id not in (select value from json_each(?))",
        skipped,
    )
    copied = fetch(db, tuple[int], written.EVENTS_OF_COPIES, skipped) if db.execute(written.HAS_ANY).get else []
    return [event_id for (event_id,) in (*rows, *copied)]


def shown_as(db: apsw.Connection, session_id: int) -> int:
    """The session that is shown for this one: that of its runs, if it is their log and nothing more."""
    return shown_as_each(db, [session_id]).get(session_id, session_id)


def shown_as_each(db: apsw.Connection, session_ids: Collection[int]) -> dict[int, int]:
    """Map those of these sessions that another is shown for to that one."""
    rows = fetch(
        db,
        tuple[int, int, int],
        # Beside a min() the other columns are those of its row.
        "select s.id, r.session_id, min(r.id) from sessions s join turns r on r.native_id = s.native_id "
        "join sessions o on o.id = r.session_id where s.id in (select value from json_each(?)) "
        f"and {CLAIMED} and o.owner is not null group by s.id",
        (schema.json_list(sorted(session_ids)),),
    )
    return {session_id: shown for session_id, shown, _ in rows}


def logs_of(db: apsw.Connection, session_id: int) -> list[int]:
    """The claimed sessions whose runs this one holds."""
    return [
        int(str(found))
        for (found,) in db.execute(
            "select distinct s.id from turns r join sessions s on s.native_id = r.native_id "
            f"where r.session_id = ? and s.id <> r.session_id and {CLAIMED}",
            (session_id,),
        )
    ]


def forget_logs(db: apsw.Connection, session_id: int, at: int) -> None:
    """Never read the agents' own logs of a session's runs again: the person removed their content."""
    runs = fetch(
        db,
        tuple[str, str],
        "select r.agent, r.native_id from turns r join sessions o on o.id = r.session_id "
        # Also of logs that are not here yet: the run knows the agent's id, and the file may still be read.
        "where r.session_id = ? and o.owner is not null and r.native_id <> '' and exists ("
        "select 1 from logs where turn_uid = r.uid and session_id = r.session_id and kind = 'stream') "
        f"and not exists (select 1 from sessions s where s.native_id = r.native_id and not {CLAIMED} "
        "and s.owner is null)",
        (session_id,),
    )
    db.executemany(
        "insert or replace into forgotten(uid, at) values (?, ?)",
        [(ids.session_uid(agent, native_id, 0), at) for agent, native_id in runs],
    )


def link_run_to_log(db: apsw.Connection, session_id: int, turn_uid: str) -> None:
    """Set the run's turn as the first of the agent's own log, if that was read before."""
    found = fetch_one(
        db,
        tuple[str, str, int],
        "select r.agent, r.native_id, s.id from turns r join sessions s on s.native_id = r.native_id "
        "and s.owner is null where r.session_id = ? and r.uid = ? and r.native_id <> '' "
        "and exists (select 1 from logs where session_id = s.id and agent = r.agent)",
        (session_id, turn_uid),
    )
    if found is None:
        return
    own_id = found[2]
    first = fetch_one(
        db, tuple[str], "select uid from turns where session_id = ? order by first_seq, id limit 1", (own_id,)
    )
    # The log's first turn is the run's, whatever it calls it: a run is one prompt.
    if first is not None and first[0] != turn_uid:
        written.rename(db, first[0], turn_uid)
    if first is not None:
        run_facts.take(db, own_id)
        lineage.link_copies(db, [turn_uid])


def renamed(db: apsw.Connection, session_id: int, batch: RecordBatch, runs: dict[str, str]) -> dict[str, str]:
    """The uids that turns of a batch have here, by those that their log gives them, where these differ.

    ``runs``: what ``known_runs`` found for this batch and others of its transaction; a run that is found here is added.
    """
    if not batch.turns:
        return {}
    is_retold = batch.identity.relation == Relation.RETOLD
    own = {turn.uid for turn in batch.turns}
    # What was retold is linked by its content, and keeps those links when more of it comes.
    found = known_as(db, session_id) if is_retold else {uid: runs[uid] for uid in own & runs.keys()}
    if not found:
        found = _claimed_first(db, session_id, batch)
        runs |= found
    found |= written.known_as(db, session_id, batch.turns)
    # A turn may follow one of an earlier batch, which was renamed then.
    for parent in {turn.parent_uid for turn in batch.turns if turn.parent_uid is not None} - own:
        if (uid := _renamed_before(db, session_id, parent)) is not None:
            found[parent] = uid
    return found


def known_as(db: apsw.Connection, session_id: int) -> dict[str, str]:
    """The uids that a session's turns have here, by those that their logs give them, where these differ."""
    rows = fetch(
        db,
        tuple[str, str, str],
        "select uid, agent, native_id from turns where session_id = ? and native_id <> ''",
        (session_id,),
    )
    own = ((ids.turn_uid(agent, native_id), uid) for uid, agent, native_id in rows)
    return {old: uid for old, uid in own if old != uid}


def renamed_turn(turn: Turn, renamed: dict[str, str]) -> Turn:
    """A turn under the uids that it and its parent have here."""
    if turn.uid not in renamed and turn.parent_uid not in renamed:
        return turn
    parent = renamed.get(turn.parent_uid or "", turn.parent_uid)
    return msgspec.structs.replace(turn, uid=renamed.get(turn.uid, turn.uid), parent_uid=parent)


def known_runs(db: apsw.Connection, read: Sequence[Turn]) -> dict[str, str]:
    """The uids of the runs whose turns these are, by the turns' own, if that is known by the agent's id of a turn.

    A turn may have as many copies as there are logs: ask once for all the logs of a transaction.
    """
    if not read or not db.execute("select exists (select 1 from sessions where owner is not null)").get:
        return {}
    rows = fetch(
        db,
        tuple[str, str, str],
        # Copies have one uid, which is looked at once.
        "select native_id, agent, uid from (select native_id, agent, uid, min(id) first from turns "
        "where native_id in (select value from json_each(?)) group by native_id, agent, uid) t where exists ("
        "select 1 from turns r join sessions o on o.id = r.session_id "
        "where r.uid = t.uid and r.native_id is not t.native_id and o.owner is not null) order by first",
        (schema.json_list({turn.native_id for turn in read if turn.native_id}),),
    )
    found: dict[str, str] = {}
    for native_id, agent, uid in rows:
        own = ids.turn_uid(agent, native_id)
        if uid != own:
            found.setdefault(own, uid)
    return found


def _claimed_first(db: apsw.Connection, session_id: int, batch: RecordBatch) -> dict[str, str]:
    """The first turn of a log whose session a run claims is the run's."""
    run = db.execute(
        f"{_RUN.format(native_id='?')} and r.agent = ? order by r.started limit 1",
        (batch.identity.native_id, batch.agent),
    ).get
    # Only the first turn of a log can be the run; later ones were typed in the agent's own client.
    if run is None or db.execute("select count(*) from turns where session_id = ?", (session_id,)).get:
        return {}
    first = min(batch.turns, key=lambda turn: turn.first_seq)
    if first.uid == run:
        return {}
    # A fork may have been read before the log that it was made of.
    written.rename(db, first.uid, str(run))
    return {first.uid: str(run)}


def _renamed_before(db: apsw.Connection, session_id: int, parent: str) -> str | None:
    """The uid here of a turn that its log knows as ``parent``."""
    if db.execute("select count(*) from turns where session_id = ? and uid = ?", (session_id, parent)).get:
        return None
    return known_as(db, session_id).get(parent)
