"""Finds the service that the client on this machine asks: it continues no log of another one."""

from __future__ import annotations

import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.agents.codex import threads

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    database = threads.newest_database(Path(environ.get("CODEX_SQLITE_HOME") or root))
    return (database and _of_newest_thread(database)) or DEFAULT


def _of_newest_thread(database: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=threads.WAIT_S)) as db:
            row = db.execute("select model_provider from threads order by updated_at desc limit 1").fetchone()
    except sqlite3.Error:
        return None
    return row[0] if row and isinstance(row[0], str) else None
