"""Codex's own table of threads: a row is added, or led back to its log, and that can be undone.

The database is ``state_N.sqlite`` with the greatest N. Columns come and go between versions, so the table is asked for
them; if one must be filled that is unknown here, no row is added.
"""

from __future__ import annotations

import json
import sqlite3
import tomllib
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory import ids
from backstory.agents import jsonl
from backstory.agents.codex.prompts import is_synthetic, typed
from backstory.agents.codex.records import ResponseLine, records_on
from backstory.agents.contract import IndexChange
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WAIT_S = 3.0
RECORDS_MAX = 200
"""The number of a log's first records that hold the values of a row."""
TITLE_CHARS_MAX = 1_000
LED_BACK = ("rollout_path", "archived", "archived_at")
"""The columns that keep the client from a log."""
COLUMNS = frozenset(
    {
        "id", "rollout_path", "created_at", "updated_at", "created_at_ms", "updated_at_ms", "recency_at",
        "recency_at_ms", "source", "thread_source", "model_provider", "cwd", "title", "first_user_message", "preview",
        "sandbox_policy", "approval_mode", "model", "cli_version", "history_mode", "originator", "git_sha",
        "git_branch", "git_origin_url",
    }
)  # fmt: skip
"""The columns of a row that can be filled from a log."""
_STATE = lazy_regex(r"state_(\d+)\.sqlite$")


def enter(folder: Path, log: Path, native_id: str, aside: Callable[[Path], None]) -> IndexChange | None:
    """See ``contract.ResumePart``. ``folder`` holds the database; without one the client makes it from the logs."""
    path = newest_database(folder)
    if path is None:
        return None
    with closing(sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)) as db:
        columns = {name: bool(needed) and default is None for _, name, _, needed, default, _ in _columns(db)}
        if not {"id", "rollout_path"} <= columns.keys():
            return None
        led_back = [name for name in LED_BACK if name in columns]
        before = _row(db, native_id, led_back)
        if before is not None and before["rollout_path"] == str(log) and not before.get("archived"):
            return None
        given = _values(log, native_id) if before is None else {"rollout_path": str(log), "archived": 0}
        if before is None and any(needed and given.get(name) is None for name, needed in columns.items()):
            return None
        aside(path)
        written = {name: given.get(name) for name in columns if name in given or (before and name in led_back)}
        _write(db, native_id, written, led_back, before)
    return IndexChange(database=str(path), native_id=native_id, log=str(log), before=before)


def obstacle(folder: Path) -> str | None:
    """See ``contract.WritePart``: a database of threads in which no row for a new log can be written."""
    path = newest_database(folder)
    if path is None:
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=WAIT_S)) as db:
            columns = _columns(db)
    except sqlite3.Error as refused:
        return f"{path} cannot be read ({refused})"
    needed = [name for _, name, _, is_needed, default, _ in columns if is_needed and default is None]
    unknown = sorted(set(needed) - COLUMNS)
    if not columns or unknown:
        return f"{path} has no table of threads as it is known here; unknown columns: {', '.join(unknown) or 'none'}"
    return None


def newest_database(folder: Path) -> Path | None:
    """The database of threads in a folder: the one with the greatest number."""
    found = [(int(named[1]), path) for path in folder.glob("state_*.sqlite") if (named := _STATE.match(path.name))]
    return max(found)[1] if found else None


def leave(change: IndexChange) -> None:
    """See ``contract.ResumePart``."""
    with closing(sqlite3.connect(change.database, timeout=WAIT_S, isolation_level=None)) as db:
        where, which = "where id = ? and rollout_path = ?", (change.native_id, change.log)
        if change.before is None:
            db.execute(f"delete from threads {where}", which)
        else:
            named = ", ".join(f"{name} = ?" for name in change.before if name in LED_BACK)
            values = [value for name, value in change.before.items() if name in LED_BACK]
            db.execute(f"update threads set {named} {where}", (*values, *which))


def _columns(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return db.execute("pragma table_info(threads)").fetchall()


def _row(db: sqlite3.Connection, native_id: str, columns: list[str]) -> dict[str, str | int | None] | None:
    row = db.execute(f"select {', '.join(columns)} from threads where id = ?", (native_id,)).fetchone()
    return None if row is None else dict(zip(columns, row, strict=True))


def _write(db: sqlite3.Connection, native_id: str, values: dict[str, Any], led_back: list[str], before: object) -> None:
    """Write a row, unless it is no longer what it was: the client may have written it meanwhile."""
    db.execute("begin immediate")
    try:
        if _row(db, native_id, led_back) == before:
            if before is None:
                marks = ", ".join("?" * len(values))
                db.execute(f"insert into threads({', '.join(values)}) values ({marks})", list(values.values()))
            else:
                named = ", ".join(f"{name} = ?" for name in values)
                db.execute(f"update threads set {named} where id = ?", (*values.values(), native_id))
        db.execute("commit")
    except BaseException:
        db.execute("rollback")
        raise


def _values(log: Path, native_id: str) -> dict[str, Any]:
    """Return the values of a new row's columns, from the first records of its log."""
    meta: dict[str, Any] = {}
    turn: dict[str, Any] = {}
    prompt = ""
    for record, line in _records(log):
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        kind = record.get("type")
        meta = meta or (payload if kind == "session_meta" else {})
        turn = turn or (payload if kind == "turn_context" else {})
        prompt = prompt or _prompt(line)
    created, updated = ids.parse_time_ms(meta.get("timestamp")) or 0, int(log.stat().st_mtime * 1000)
    given = meta.get("git")
    git = given if isinstance(given, dict) else {}
    values = {
        "id": native_id, "rollout_path": str(log), "created_at": created // 1000, "updated_at": updated // 1000,
        "created_at_ms": created, "updated_at_ms": updated, "recency_at": updated // 1000, "recency_at_ms": updated,
        "source": _text(meta.get("source") or "cli"), "thread_source": _text(meta.get("thread_source")),
        "model_provider": _text(meta.get("model_provider") or "openai"),
        "cwd": _text(meta.get("cwd") or turn.get("cwd")), "title": prompt, "first_user_message": prompt,
        "preview": prompt, "sandbox_policy": _text(turn.get("sandbox_policy")),
        "approval_mode": _text(turn.get("approval_policy")), "model": _text(turn.get("model")),
        "cli_version": _text(meta.get("cli_version")), "history_mode": _text(meta.get("history_mode")),
        "originator": _text(meta.get("originator")), "git_sha": _text(git.get("commit_hash")),
        "git_branch": _text(git.get("branch")), "git_origin_url": _text(git.get("repository_url")),
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def _records(log: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    with log.open("rb") as file:
        for line in islice(file, RECORDS_MAX):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record, line


def _prompt(line: bytes) -> str:
    """Return the typed text if a record is a prompt: older builds wrote it as an event, too."""
    try:
        records = records_on(line)
    except jsonl.NotJson:
        return ""
    for record in records:
        if isinstance(record, ResponseLine) and record.payload.role == "user":
            words, _ = typed(record.payload.content)
            if not is_synthetic(record.payload, words):
                return words.strip()[:TITLE_CHARS_MAX]
    return ""


def _text(value: object) -> str | None:
    """A value as the client writes it: texts as they are, anything else as JSON."""
    return value if isinstance(value, str) or value is None else json.dumps(value, separators=(",", ":"))


# provider -------------------------------------------------------------------------------------------------------------
# Finds the service that the client on this machine asks: it continues no log of another one.


DEFAULT = "openai"


def of_client(environ: Mapping[str, str], root: Path) -> str:
    """The name of the client's model provider: as its settings say, else as its newest thread has it."""
    try:
        settings = tomllib.loads((root / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        settings = {}
    named = settings.get("model_provider")
    if isinstance(named, str) and named:
        return named
    database = newest_database(Path(environ.get("CODEX_SQLITE_HOME") or root))
    return (database and _of_newest_thread(database)) or DEFAULT


def _of_newest_thread(database: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=WAIT_S)) as db:
            row = db.execute("select model_provider from threads order by updated_at desc limit 1").fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row and isinstance(row[0], str) else None
