"""Sessions that the derived tables cover: a rule of the person's settings, kept in the store that follows it.

The rule is in ``meta``, so that whoever writes a session follows it: ingest, runs, copies, merges, imports. A session
that it does not cover keeps its bytes, events and turns, with what they cost; of what is derived from those it has no
row. Without a rule all sessions are covered. Functions take the connection, never commit.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.store import schema
from backstory.store.schema import fetch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import apsw

RULE, OUTDATED = "index_rule", "index_outdated"
"""The keys of meta: the rule, and whether it was changed since all was derived by it."""
PARENTS_MAX = 8
"""The most ancestors asked for the repository of a subagent's session that has none of its own."""


class IndexRule(Struct, frozen=True, kw_only=True):
    """The sessions whose facts a person wants to be derived. ``repositories``: names or globs; empty: all."""

    enabled: bool = True
    """True if there are rows of the search index at all."""
    repositories: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """True if nothing is left out."""
        return self == EVERYTHING

    def covers(self, repository: str | None, project: str | None) -> bool:
        """Return True if sessions of a repository (``owner/name``) or project (remote or folder) are covered."""
        if not self.repositories:
            return True
        names = {each.lower() for key in (repository, project) if key for each in (key, key.rpartition("/")[2])}
        return any(fnmatchcase(name, pattern.lower()) for pattern in self.repositories for name in names)


EVERYTHING = IndexRule()


class Coverage(Struct, frozen=True, kw_only=True):
    """The state of the index, for a person. ``uncovered``: how many sessions their settings leave out."""

    is_on: bool = True
    uncovered: int = 0
    is_outdated: bool = False
    """The settings changed since all was derived by them: rows may be missing, or too many."""


def rule_of(db: apsw.Connection, schema: str = "main") -> IndexRule:
    """The rule that a store follows."""
    said: object = db.execute(f"select value from {schema}.meta where key = ?", (RULE,)).get
    return _parsed(said) if isinstance(said, str) else EVERYTHING


@lru_cache(maxsize=16)
def _parsed(said: str) -> IndexRule:
    try:
        return msgspec.json.decode(said, type=IndexRule)
    except msgspec.DecodeError:
        # Another version's rule: rather too much in the index than nothing in it.
        return EVERYTHING


def is_outdated(db: apsw.Connection) -> bool:
    """Return True if the rule was changed since all sessions were derived by it."""
    return bool(db.execute("select exists (select 1 from meta where key = ?)", (OUTDATED,)).get)


def is_behind(db: apsw.Connection, rule: IndexRule | None) -> bool:
    """Return True if sessions were derived by another rule than this one; it may be unknown."""
    return rule not in (None, rule_of(db)) and bool(db.execute("select exists (select 1 from sessions)").get)


def follow(db: apsw.Connection, rule: IndexRule) -> None:
    """Let a store follow a rule from now on; a reindex applies it to earlier sessions."""
    # No row is the same as a rule that leaves nothing out, so a store that never had one needs none.
    if rule.is_everything:
        db.execute("delete from meta where key = ?", (RULE,))
    else:
        said = msgspec.json.encode(rule).decode()
        db.execute("insert or replace into meta(key, value) values (?, ?)", (RULE, said))
    # An empty store has nothing that was derived by another rule.
    if db.execute("select exists (select 1 from sessions)").get:
        db.execute("insert or replace into meta(key, value) values (?, '1')", (OUTDATED,))


def note_current(db: apsw.Connection) -> None:
    """All sessions were derived by the rule."""
    db.execute("delete from meta where key = ?", (OUTDATED,))


def is_covered(db: apsw.Connection, session_id: int) -> bool:
    """Return True if rows may be derived from a session."""
    rule = rule_of(db)
    # Called for every session that is written, so the common case asks nothing.
    return not rule.repositories or _is_covered(db, rule, session_id)


def is_indexed(db: apsw.Connection, session_id: int) -> bool:
    """Return True if the search index may have rows of a session."""
    rule = rule_of(db)
    return rule.is_everything or (rule.enabled and _is_covered(db, rule, session_id))


def _is_covered(db: apsw.Connection, rule: IndexRule, session_id: int) -> bool:
    known: int | None = session_id
    for _ in range(PARENTS_MAX):
        found = fetch(
            db,
            tuple[str | None, str | None, int | None],
            # A session that is being copied is linked to its parent when all of it is here.
            "select repository, project, coalesce(parent_id, (select p.id from sessions p "
            "where substr(p.uid, 11) = s.parent_identity)) from sessions s where id = ?",
            (known,),
        )
        if not found:
            return not rule.repositories
        repository, project, known = found[0]
        if repository or project or known is None:
            return rule.covers(repository, project)
    return not rule.repositories


def state(db: apsw.Connection, rule: IndexRule | None) -> Coverage:
    """Return the index's coverage, and whether it is as the settings are now. ``rule``: None: the one followed."""
    wanted = rule or rule_of(db)
    return Coverage(
        is_on=wanted.enabled,
        uncovered=uncovered(db, wanted),
        is_outdated=is_outdated(db) or is_behind(db, wanted),
    )


def uncovered(db: apsw.Connection, rule: IndexRule) -> int:
    """Return the number of sessions of people's own, without subagents', that a rule does not cover."""
    if not rule.repositories:
        return 0
    rows = fetch(
        db,
        tuple[str | None, str | None, int],
        # A subagent goes with its parent, and a person never saw it as a session of its own.
        "select repository, project, count(*) from sessions where parent_id is null or relation = 'continuation' "
        "group by 1, 2",
    )
    return sum(count for repository, project, count in rows if not rule.covers(repository, project))


def uncovered_ids(db: apsw.Connection, session_ids: Iterable[int] | None = None) -> set[int]:
    """The sessions, all or of these, that the store's rule does not cover."""
    rule = rule_of(db)
    if not rule.repositories:
        return set()
    if session_ids is None:
        session_ids = (each for (each,) in fetch(db, tuple[int], "select id from sessions"))
    return {each for each in session_ids if not _is_covered(db, rule, each)}


def settle(db: apsw.Connection, session_id: int, *, was_covered: bool) -> None:
    """Deal with a session whose repository has become known, or another one, since rows were derived from it."""
    now = is_covered(db, session_id)
    if was_covered and not now:
        clear(db, session_id)
    elif now and not was_covered:
        # The next ingest derives it anew.
        db.execute("update logs set derived = 0 where session_id = ?", (session_id,))


def clear(db: apsw.Connection, session_id: int) -> None:
    """Remove every row that was derived from a session."""
    events = "(select id from events where session_id = ?)"
    db.execute(f"delete from search_index where rowid in {events}", (session_id,))
    others = db.execute(schema.OTHER_ROWS, (session_id,)).fetchall()
    db.executemany("delete from search_index where rowid = ?", others)
    db.execute(f"delete from call_results where call_id in {events}", (session_id,))
    for table in ("session_files", "session_refs", "checkpoints"):
        db.execute(f"delete from {table} where session_id = ?", (session_id,))
    db.execute("delete from turn_texts where turn_id in (select id from turns where session_id = ?)", (session_id,))


def empty_index(db: apsw.Connection) -> None:
    """Leave no row in the search index."""
    db.execute("insert into search_index(search_index) values ('delete-all')")


def are_alike(db: apsw.Connection, source: str) -> bool:
    """Return True if what was derived in another store can be taken over as it is: it left nothing out."""
    return (
        not rule_of(db, source).repositories
        and not db.execute(f"select exists (select 1 from {source}.meta where key = ?)", (OUTDATED,)).get
    )
