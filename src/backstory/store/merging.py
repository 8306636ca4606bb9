"""Another copy of a store merged into this one: which sessions, and each of them a slice to a transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from backstory import errors, ids
from backstory.lazy_module import lazy_module
from backstory.store import foreign, kinds
from backstory.store.database import believed
from backstory.store.replication import Replication
from backstory.store.rows import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import apsw

    from backstory.store import codec, merge_session
    from backstory.store.reading import Reading
else:
    codec = lazy_module("backstory.store.codec")
    merge_session = lazy_module("backstory.store.merge_session")

R = TypeVar("R")


class MergePlan(Struct, frozen=True, kw_only=True):
    """What is done with the sessions of another store; uids in their order."""

    taken: list[str]
    """Those of the other store that are merged."""
    went_on: list[str]
    """Of them those that were removed here, and went on there since: they are here again."""
    left_out: list[str]
    """Those that were removed here, and not touched there since."""
    removed: dict[str, int]
    """Those of ours that were removed there, and not touched here since; when that was, ms."""
    stay: list[str]
    """Those of ours that were removed there, and went on here since."""


class Merging(Replication):
    """The methods of a store that merge another copy of it, or another store, into it."""

    def plan_merge(self, source: Merging, *, is_trusted: bool) -> MergePlan:
        """What merging a store comes to.

        What was removed in one that is not trusted counts for nothing, and nothing of it brings back what was removed.
        """
        mine, theirs = set(self._uids_here()), sorted(source._uids_here())
        gone_here = self._tombstones()
        # The other clock may be wrong, and what went on here since counts.
        now = self._now()
        gone_there = {each: min(at, now) for each, at in source._tombstones().items()} if is_trusted else {}
        begun_there = source._last_started(uid for uid in theirs if ids.session_identity(uid) in gone_here)
        begun_here = self._last_started(uid for uid in mine if ids.session_identity(uid) in gone_there)
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

    def remove_as(self, removed: Mapping[str, int]) -> list[str]:
        """Remove sessions that were removed in another store, each then, as ``remove`` does; gives their uids."""
        gone = list[str]()
        for uid, at in removed.items():
            if self.has(uid):
                remove = partial(merge_session.remove, session_id=self.session(uid).id, at=at)
                gone += self._change(remove, decided=True)
        if gone:
            self.erase()
        return gone

    def take_tombstones(self, source: Reading) -> int:
        """Have the tombstones of another store, so that nothing brings back what was removed there."""
        keep = partial(merge_session.keep_tombstones, now=self._now())
        return self._write_from(source, keep, decided=True)

    def drop_tombstones(self, uids: Iterable[str]) -> None:
        """Forget that these sessions were removed: they went on elsewhere since."""
        identities = kinds.json_list(ids.session_identity(uid) for uid in uids)
        question = "delete from forgotten where substr(uid, 11) in (select value from json_each(?))"
        self._change(lambda db: db.execute(question, (identities,)) and None, decided=True)

    def disown(self, uids: Iterable[str], owner: str) -> None:
        """Have copies of sessions belong to another store: the one that they were merged into."""
        wanted = kinds.json_list(uids)
        question = (
            "update sessions set owner = ?1, number = null where uid in (select value from json_each(?2)) "
            "and owner is not null and owner <> ?1"
        )
        self._change(lambda db: db.execute(question, (owner, wanted)) and None, decided=True)

    def check_rows(self) -> None:
        """Raise StoreDamaged unless every row is what its columns say; of one from elsewhere as ours are made."""

        def check(db: apsw.Connection) -> None:
            with believed(self.path):
                for (session_id,) in fetch(db, tuple[int], "select id from sessions order by id"):
                    foreign.check_session(db, session_id, self.path, is_bounded=self.is_elsewhere)

        self.check_rest()
        self._read(check)

    def check_dictionaries(self, source: Merging, *, may_have_others: bool) -> None:
        """Raise StoreDamaged if another store packs its events in a way that is another one here, or unknown."""
        asked = "select id, sha256 from dictionaries"
        known = codec.SHIPPED_SHA256 | dict(self._rows(tuple[int, str], asked))
        theirs = source._rows(tuple[int, str], asked)
        if any(known.get(each, digest if may_have_others else None) != digest for each, digest in theirs):
            raise errors.StoreDamaged(source.path, "its events are packed in a way that is not known here")

    def projects_of_sessions(self) -> set[str]:
        """The keys of the projects that sessions are of."""
        asked = "select distinct project from sessions where project is not null"
        return {key for (key,) in self._rows(tuple[str], asked)}

    def _uids_here(self) -> list[str]:
        return [uid for (uid,) in self._rows(tuple[str], "select uid from sessions")]

    def _tombstones(self) -> dict[str, int]:
        """When sessions were removed, by their identity."""
        return dict(self._rows(tuple[str, int], "select substr(uid, 11), max(at) from forgotten group by 1"))

    def _last_started(self, uids: Iterable[str]) -> dict[str, int]:
        """When the last turn of each of these sessions began, ms."""
        asked = (
            "select s.uid, coalesce((select max(started) from turns where session_id = s.id), 0) from sessions s "
            "where s.uid in (select value from json_each(?))"
        )
        return dict(self._rows(tuple[str, int], asked, kinds.json_list(uids)))

    def _rows(self, shape: type[R], question: str, *values: str) -> list[R]:
        """The rows of a store; none of one that is not there yet."""
        nothing: list[R] = []
        return self._read_if_begun(lambda db: fetch(db, shape, question, values), nothing)
