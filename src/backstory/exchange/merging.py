"""Another copy of a store merged into this one: which sessions, and each of them a slice to a transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from backstory import errors, ids
from backstory.lazy import lazy_module
from backstory.store import schema
from backstory.store.database import believed
from backstory.store.schema import fetch
from backstory.store.tables import sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import apsw

    from backstory.exchange import merge_session, replication
    from backstory.store import Store, codec
else:
    codec = lazy_module("backstory.store.codec")
    replication = lazy_module("backstory.exchange.replication")
    merge_session = lazy_module("backstory.exchange.merge_session")

R = TypeVar("R")


class MergePlan(Struct, frozen=True, kw_only=True):
    """The steps for the sessions of another store; uids in their order."""

    taken: list[str]
    """Those of the other store that are merged."""
    went_on: list[str]
    """Those of them that were removed here and went on there since: they are here again."""
    left_out: list[str]
    """Those that were removed here, and not touched there since."""
    removed: dict[str, int]
    """Those of ours that were removed there, and not touched here since; when that was, ms."""
    stay: list[str]
    """Those of ours that were removed there, and went on here since."""


def plan_merge(store: Store, source: Store, *, is_trusted: bool, home: Store | None = None) -> MergePlan:
    """Plan the merge of a store. ``home``: where it is said, too, what was removed here.

    What was removed in one that is not trusted counts for nothing, and nothing of it brings back what was removed.
    """
    mine, theirs = set(_uids_here(store)), sorted(_uids_here(source))
    gone_here = _tombstones(store)
    for identity, at in _tombstones(home).items() if home is not None else ():
        gone_here[identity] = max(at, gone_here.get(identity, 0))
    # The other clock may be wrong, and what went on here since counts.
    now = store.now()
    gone_there = {each: min(at, now) for each, at in _tombstones(source).items()} if is_trusted else {}
    begun_there = _last_started(source, (uid for uid in theirs if ids.session_identity(uid) in gone_here))
    begun_here = _last_started(store, (uid for uid in mine if ids.session_identity(uid) in gone_there))
    went_on = (uid for uid, began in begun_there.items() if began > gone_here[ids.session_identity(uid)])
    touched = sorted(went_on) if is_trusted else []
    left_out = begun_there.keys() - set(touched)
    stay = [uid for uid, began in begun_here.items() if began > gone_there[ids.session_identity(uid)]]
    return MergePlan(
        taken=[uid for uid in theirs if uid not in left_out],
        went_on=touched,
        left_out=sorted(left_out),
        removed={uid: gone_there[ids.session_identity(uid)] for uid in sorted(begun_here.keys() - set(stay))},
        stay=sorted(stay),
    )


def remove_as(store: Store, removed: Mapping[str, int]) -> list[str]:
    """Remove sessions that were removed in another store, each then, as ``remove`` does; gives their uids."""
    gone = list[str]()
    for uid, at in removed.items():
        if store.has(uid):
            remove = partial(merge_session.remove, session_id=store.session(uid).id, at=at)
            gone += store.decide(remove)
    if gone:
        store.erase()
    return gone


def take_tombstones(store: Store, source: Store) -> int:
    """Copy the tombstones of another store, so that nothing brings back sessions that were removed there."""
    keep = partial(merge_session.keep_tombstones, now=store.now())
    return store.change_from(source, keep, decided=True)


def drop_tombstones(db: apsw.Connection, uids: Iterable[str]) -> None:
    """Forget that these sessions were removed: they went on elsewhere since."""
    identities = schema.json_list(ids.session_identity(uid) for uid in uids)
    db.execute("delete from forgotten where substr(uid, 11) in (select value from json_each(?))", (identities,))


def disown(db: apsw.Connection, uids: Iterable[str], owner: str) -> None:
    """Assign copies of sessions to another store: the one that they were merged into."""
    db.execute(
        "update sessions set owner = ?1, number = null where uid in (select value from json_each(?2)) "
        "and owner is not null and owner <> ?1",
        (owner, schema.json_list(uids)),
    )


def check_rows(store: Store) -> None:
    """Raise StoreDamaged unless every row is what its columns say; of one from elsewhere as ours are made."""

    def check(db: apsw.Connection) -> None:
        for (session_id,) in fetch(db, tuple[int], "select id from sessions order by id"):
            store.whole.check_session(db, session_id, store.path, is_bounded=store.is_elsewhere)

    with believed(store.path):
        replication.check_rest(store, asking=store.ask(sessions.count))
        store.ask(check)


def check_dictionaries(store: Store, source: Store, *, may_have_others: bool) -> None:
    """Raise StoreDamaged if another store packs its events in a way that is another one here, or unknown."""
    asked = "select id, sha256 from dictionaries"
    known = codec.SHIPPED_SHA256 | dict(_rows(store, tuple[int, str], asked))
    theirs = _rows(source, tuple[int, str], asked)
    if any(known.get(each, digest if may_have_others else None) != digest for each, digest in theirs):
        raise errors.StoreDamaged(source.path, "its events are packed in a way that is not known here")


def projects_of_sessions(store: Store) -> set[str]:
    """The keys of the projects that sessions are of."""
    asked = "select distinct project from sessions where project is not null"
    return {key for (key,) in _rows(store, tuple[str], asked)}


def _uids_here(store: Store) -> list[str]:
    return [uid for (uid,) in _rows(store, tuple[str], "select uid from sessions")]


def _tombstones(store: Store) -> dict[str, int]:
    """Return the times when sessions were removed, by their identity."""
    return dict(_rows(store, tuple[str, int], "select substr(uid, 11), max(at) from forgotten group by 1"))


def _last_started(store: Store, uids: Iterable[str]) -> dict[str, int]:
    """Return the time when the last turn of each of these sessions began, ms."""
    asked = (
        "select s.uid, coalesce((select max(started) from turns where session_id = s.id), 0) from sessions s "
        "where s.uid in (select value from json_each(?))"
    )
    return dict(_rows(store, tuple[str, int], asked, schema.json_list(uids)))


def _rows(store: Store, shape: type[R], question: str, *values: str) -> list[R]:
    """The rows of a store; none of one that is not there yet."""
    nothing: list[R] = []
    return store.ask_or(nothing, fetch, shape, question, values)
