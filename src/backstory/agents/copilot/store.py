"""A session store in the schema of version 3, written by the rules its own agent writes by.

A row that is there already yields where the new one says more: a session's and a turn's texts are replaced by texts
that are known, its times only widen, and of a file or a ref the first mention stays. So a store can be filled from
several sources in a row. Times are text as given: RFC 3339, UTC, with milliseconds and Z. A time that nobody knows is
NULL, as nothing is made up.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.derive.checkpoints import SECTIONS, SOURCE_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from backstory.agents.contract import ExportSource, KeptLog
    from backstory.conversation.board import BoardItem

VERSION = 3
TABLES = ("sessions", "turns", "checkpoints", "session_files", "session_refs", "search_index")
NOTES = "dynamic_context_items"
SCHEMA = """
create table schema_version(version INTEGER NOT NULL);
create table sessions(
  id TEXT PRIMARY KEY, cwd TEXT, repository TEXT, host_type TEXT, branch TEXT, summary TEXT,
  created_at TEXT DEFAULT (datetime('now')), updated_at TEXT DEFAULT (datetime('now')));
create table turns(
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), turn_index INTEGER NOT NULL,
  user_message TEXT, assistant_response TEXT, timestamp TEXT DEFAULT (datetime('now')),
  UNIQUE(session_id, turn_index));
create table checkpoints(
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id),
  checkpoint_number INTEGER NOT NULL, title TEXT, overview TEXT, history TEXT, work_done TEXT, technical_details TEXT,
  important_files TEXT, next_steps TEXT, created_at TEXT DEFAULT (datetime('now')),
  UNIQUE(session_id, checkpoint_number));
create table session_files(
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), file_path TEXT NOT NULL,
  tool_name TEXT, turn_index INTEGER, first_seen_at TEXT DEFAULT (datetime('now')),
  UNIQUE(session_id, file_path));
create table session_refs(
  id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id), ref_type TEXT NOT NULL,
  ref_value TEXT NOT NULL, turn_index INTEGER, created_at TEXT DEFAULT (datetime('now')),
  UNIQUE(session_id, ref_type, ref_value));
create table dynamic_context_items(
  repository TEXT NOT NULL, branch TEXT NOT NULL, src TEXT NOT NULL, name TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '', content TEXT NOT NULL DEFAULT '', read_count INTEGER NOT NULL DEFAULT 0,
  count INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(repository, branch, src, name));
create virtual table search_index using fts5(
  content, session_id UNINDEXED, source_type UNINDEXED, source_id UNINDEXED);
create index idx_sessions_repo on sessions(repository);
create index idx_sessions_cwd on sessions(cwd);
create index idx_session_files_path on session_files(file_path);
create index idx_session_refs_type_value on session_refs(ref_type, ref_value);
create index idx_turns_session on turns(session_id);
create index idx_checkpoints_session on checkpoints(session_id);
create index idx_dynamic_context_repo_branch on dynamic_context_items(repository, branch);
"""


class Place(Struct, frozen=True, kw_only=True):
    """The known facts of a whole session; None for the unknown ones."""

    cwd: str | None = None
    repository: str | None = None
    host_type: str | None = None
    branch: str | None = None
    summary: str | None = None


class SessionStore:
    """A store on its way into an empty file: one transaction, that ends with the ``with`` it is used in."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._indexed: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        """The rows of each table, once it is whole; those of notes only if it has any."""

    def __enter__(self) -> SessionStore:
        # Until it is whole the file is nobody's, so it needs no journal.
        for pragma in ("journal_mode = off", "synchronous = off", "foreign_keys = on"):
            self._db.execute(f"pragma {pragma}")
        self._db.executescript(f"begin; {SCHEMA}")
        self._db.execute("insert into schema_version(version) values (?)", (VERSION,))
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        with closing(self._db):
            if failed is None:
                self.counts = {
                    table: self._db.execute(f"select count(*) from {table}").fetchone()[0] for table in TABLES
                }
                if notes := self._db.execute(f"select count(*) from {NOTES}").fetchone()[0]:
                    self.counts[NOTES] = notes
                self._db.execute("commit")

    def has(self, native_id: str) -> bool:
        """Return True if there is a session of this id."""
        return self._db.execute("select 1 from sessions where id = ?", (native_id,)).fetchone() is not None

    def session(self, native_id: str, place: Place, created: str | None, updated: str | None) -> None:
        """A session, or more about one."""
        self._db.execute(
            "insert into sessions(id, cwd, repository, host_type, branch, summary, created_at, updated_at) "
            "values (?, ?, ?, ?, ?, ?, ?, ?) on conflict(id) do update set cwd = coalesce(excluded.cwd, cwd), "
            "repository = coalesce(excluded.repository, repository), "
            "host_type = coalesce(excluded.host_type, host_type), branch = coalesce(excluded.branch, branch), "
            "summary = coalesce(excluded.summary, summary), "
            "created_at = min(coalesce(created_at, excluded.created_at), coalesce(excluded.created_at, created_at)), "
            "updated_at = max(coalesce(updated_at, excluded.updated_at), coalesce(excluded.updated_at, updated_at))",
            (native_id, place.cwd, place.repository, place.host_type, place.branch, place.summary, created, updated),
        )

    def turn(self, native_id: str, index: int, prompt: str | None, answer: str | None, at: str | None) -> None:
        """A turn: what was asked, and what came of it."""
        self._db.execute(
            "insert into turns(session_id, turn_index, user_message, assistant_response, timestamp) "
            "values (?, ?, ?, ?, ?) on conflict(session_id, turn_index) do update set "
            "user_message = coalesce(excluded.user_message, user_message), "
            "assistant_response = coalesce(excluded.assistant_response, assistant_response)",
            (native_id, index, prompt, answer, at),
        )
        self._index(f"{native_id}:turn:{index}", native_id, "turn", "\n".join(filter(None, (prompt, answer))))

    def checkpoint(
        self, native_id: str, number: int, title: str | None, sections: dict[str, str | None], at: str | None
    ) -> None:
        """A summary, by its sections."""
        texts = [sections.get(name) for name in SECTIONS]
        kept = ", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in ("title", *SECTIONS))
        self._db.execute(
            f"insert into checkpoints(session_id, checkpoint_number, title, {', '.join(SECTIONS)}, created_at) "
            f"values (?, ?, ?{', ?' * len(SECTIONS)}, ?) "
            f"on conflict(session_id, checkpoint_number) do update set {kept}",
            (native_id, number, title, *texts, at),
        )
        for kind, text in zip(SOURCE_TYPES, texts, strict=True):
            if text:
                self._index(f"{native_id}:ckpt:{number}:{kind}", native_id, kind, text)

    def file(self, native_id: str, path: str, tool: str | None, turn: int | None, at: str | None) -> None:
        """A file that was touched, unless an earlier touch is known."""
        self._db.execute(
            "insert or ignore into session_files(session_id, file_path, tool_name, turn_index, first_seen_at) "
            "values (?, ?, ?, ?, ?)",
            (native_id, path, tool, turn, at),
        )

    def ref(self, native_id: str, kind: str, value: str, turn: int | None, at: str | None) -> None:
        """A pull request, issue or commit that was named, unless an earlier mention is known."""
        self._db.execute(
            "insert or ignore into session_refs(session_id, ref_type, ref_value, turn_index, created_at) "
            "values (?, ?, ?, ?, ?)",
            (native_id, kind, value, turn, at),
        )

    def note(self, item: BoardItem) -> None:
        """An item of a context board."""
        self._db.execute(
            "insert or replace into dynamic_context_items(repository, branch, src, name, description, content, "
            "read_count, count) values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                item.repository, item.branch, item.src, item.name, item.description, item.content, item.read_count,
                item.count,
            ),
        )  # fmt: skip

    def artifact(self, native_id: str, path: str, text: str) -> None:
        """A file of the session's own, for the index alone."""
        if text.strip():
            self._index(f"{native_id}:workspace:{path}", native_id, "workspace_artifact", text)

    def _index(self, source_id: str, native_id: str, kind: str, content: str) -> None:
        # The index cannot look a source up, so where its words are is remembered here.
        if (before := self._indexed.pop(source_id, None)) is not None:
            self._db.execute("delete from search_index where rowid = ?", (before,))
        if not content:
            return
        added = self._db.execute(
            "insert into search_index(content, session_id, source_type, source_id) values (?, ?, ?, ?)",
            (content, native_id, kind, source_id),
        )
        assert added.lastrowid is not None
        self._indexed[source_id] = added.lastrowid


def write_known(store: SessionStore, source: ExportSource, agent: str, is_made: Callable[[str], bool]) -> None:
    """All that is known of a source's sessions: with its own times, every answer, titles, and whoever wrote the log.

    A session has its agent's own id, as in that agent's store; our uid where there is none, or another has it already.
    Of the files beside this ``agent``'s logs, those that ``is_made`` says a session made are found by the index.
    """
    names = _write_sessions(store, source)

    def rows(view: str, *columns: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for of, *values in source.rows(view, ("session_id", *columns)):
            # What began since the sessions were listed is not of this export.
            if of in names:
                yield names[of], tuple(values)

    for name, turn in rows("turns", "turn_index", "user_message", "assistant_response", "timestamp"):
        store.turn(name, *turn)
    for name, (number, title, at, *texts) in rows("checkpoints", "checkpoint_number", "title", "created_at", *SECTIONS):
        store.checkpoint(name, number, title, dict(zip(SECTIONS, texts, strict=True)), at)
    for name, file in rows("session_files", "file_path", "tool_name", "turn_index", "first_seen_at"):
        store.file(name, *file)
    for name, ref in rows("session_refs", "ref_type", "ref_value", "turn_index", "created_at"):
        store.ref(name, *ref)
    for item in source.notes():
        store.note(item)
    for log in source.logs():
        if log.agent == agent and log.session_id in names:
            _index_made(store, names[log.session_id], log, is_made)


def _write_sessions(store: SessionStore, source: ExportSource) -> dict[int, str]:
    """Write the sessions; gives what each is called there."""
    names: dict[int, str] = {}
    for of, uid, native_id, created, updated, *place in source.rows(
        "sessions", ("id", "uid", "native_id", "created_at", "updated_at", *Place.__struct_fields__)
    ):
        names[of] = native_id if native_id and not store.has(native_id) else uid
        store.session(names[of], Place(**dict(zip(Place.__struct_fields__, place, strict=True))), created, updated)
    return names


def _index_made(store: SessionStore, name: str, log: KeptLog, is_made: Callable[[str], bool]) -> None:
    for file in log.beside():
        if is_made(file.name):
            # What is no text has no words to find.
            with suppress(UnicodeDecodeError):
                store.artifact(name, str(PurePath(log.path).parent / file.name), file.read().decode())
