"""Files of sessions as AZUREAL writes them, by its own rules and with nothing of ours: one writer for all its schemas.

``python -m tests.support.azs_files`` writes the logs of the cases anew (``PYTHONPATH=src``): what is read from each.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
WORKTREE = Path("/home/dev/work")
CREATED = "2026-03-15 12:00:00"
COLUMNS = {
    1: "",
    2: """,
    completed        INTEGER,
    duration_ms      INTEGER,
    cost_usd         REAL,
    context_tokens   INTEGER""",
    3: """,
    completed        INTEGER,
    duration_ms      INTEGER,
    cost_usd         REAL,
    last_claude_uuid TEXT NOT NULL DEFAULT ''""",
}
"""What each schema adds to sessions."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id               INTEGER PRIMARY KEY,
    name             TEXT NOT NULL DEFAULT '',
    worktree         TEXT NOT NULL DEFAULT '',
    created          TEXT NOT NULL DEFAULT (datetime('now')){more}
);
CREATE TABLE IF NOT EXISTS events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    data       TEXT NOT NULL,
    char_len   INTEGER NOT NULL DEFAULT 0,
    UNIQUE(session_id, seq)
);
CREATE INDEX IF NOT EXISTS idx_events_session ON events(session_id, seq);
CREATE TABLE IF NOT EXISTS compactions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    after_seq  INTEGER NOT NULL,
    summary    TEXT NOT NULL,
    created    TEXT NOT NULL DEFAULT (datetime('now'))
);
CREATE INDEX IF NOT EXISTS idx_compactions_session ON compactions(session_id);
CREATE TABLE IF NOT EXISTS meta ( key TEXT PRIMARY KEY, value TEXT NOT NULL );
INSERT OR IGNORE INTO meta(key, value) VALUES ('schema_version', '{version}');
"""


def packed(event: Any) -> bytes:
    """An event as AZUREAL stores it, from the appendix of its facts."""
    encoder = zstandard.ZstdCompressor(level=3).compressobj()
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    return encoder.compress(text) + encoder.flush()


def unpacked(cell: Any) -> Any:
    if isinstance(cell, str):
        return json.loads(cell)
    return json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(cell))


class AzsFile:
    """A file of sessions, as one writes it that has it open."""

    def __init__(self, path: Path, schema: int = 3) -> None:
        self.path, self.schema = path, schema
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.executescript(SCHEMA.format(more=COLUMNS[min(schema, 3)], version=schema))

    def run(self, sql: str, *values: Any) -> int:
        with closing(sqlite3.connect(self.path)) as db, db:
            return db.execute(sql, values).lastrowid or 0

    def session(self, worktree: str = "main", created: str = CREATED, name: str = "") -> int:
        return self.run("insert into sessions(worktree, created, name) values (?, ?, ?)", worktree, created, name)

    def events(self, session: int, *events: Any) -> None:
        """Append events; each is a dict with its kind as the only key, or the name of one that holds nothing."""
        with closing(sqlite3.connect(self.path)) as db, db:
            sql = "select coalesce(max(seq), 0) from events where session_id = ?"
            (last,) = db.execute(sql, (session,)).fetchone()
            for seq, event in enumerate(events, start=last + 1):
                kind = event if isinstance(event, str) else next(iter(event))
                data = json.dumps(event) if self.schema == 1 else packed(event)
                db.execute(
                    "insert into events(session_id, seq, kind, data, char_len) values (?, ?, ?, ?, 0)",
                    (session, seq, kind, data),
                )

    def compaction(self, session: int, after_seq: int, summary: str, created: str = "2026-03-15 13:00:00") -> None:
        sql = "insert into compactions(session_id, after_seq, summary, created) values (?, ?, ?, ?)"
        self.run(sql, session, after_seq, summary, created)


def prompt(text: str) -> Row:
    return {"UserMessage": {"content": text}}


def answer(text: str) -> Row:
    return {"AssistantText": {"text": text}}


def init(model: str = "claude-opus-4", cwd: str = str(WORKTREE)) -> Row:
    return {"Init": {"cwd": cwd, "model": model}}


def call(name: str, tool_id: str, path: str | None = None, **given: Any) -> Row:
    body = {"tool_use_id": tool_id, "tool_name": name, "file_path": path, "input": dict(sorted(given.items()))}
    return {"ToolCall": body}


def result(name: str, tool_id: str, content: str, path: str | None = None, *, is_error: bool = False) -> Row:
    body = {"tool_use_id": tool_id, "tool_name": name, "file_path": path, "content": content, "is_error": is_error}
    return {"ToolResult": body}


def complete(duration_ms: int = 5000, cost_usd: float = 0.05, *, success: bool = True) -> Row:
    return {"Complete": {"success": success, "duration_ms": duration_ms, "cost_usd": cost_usd}}


CONVERSATION = (
    prompt("Mend the parser"), init(), answer("I'll look at it."),
    call("Read", "toolu_1", "/home/dev/work/parser.py", file_path="/home/dev/work/parser.py"),
    result("Read", "toolu_1", "import re\n  (120 lines)\nmain()", "/home/dev/work/parser.py"),
    call("Edit", "toolu_2", "/home/dev/work/parser.py", file_path="/home/dev/work/parser.py", new_string="b",
         old_string="a"),
    result("Edit", "toolu_2", "The file was updated.", "/home/dev/work/parser.py"),
    call("Glob", "toolu_3", pattern="**/*.py"), result("Glob", "toolu_3", "5 files"),
    call("Write", "toolu_4", "/home/dev/work/new.py", _lines=40, _purpose="# what it is for",
         file_path="/home/dev/work/new.py"),
    result("Write", "toolu_4", "Done.", "/home/dev/work/new.py"),
    answer("It is mended."), complete(),
    prompt("Run the tests"), call("Bash", "toolu_5", command="pytest"),
    result("Bash", "toolu_5", "1 failed\nexit 1", is_error=True), answer("One fails."),
    complete(7000, 0.02, success=False),
)  # fmt: skip
"""Two turns, with the calls whose compact form must not be compacted again."""


def conversation(path: Path, schema: int = 3) -> AzsFile:
    file = AzsFile(path, schema)
    file.events(file.session(name="Parser"), *CONVERSATION)
    return file


def schema_1(path: Path) -> AzsFile:
    return conversation(path, 1)


def every_kind(path: Path) -> AzsFile:
    """What the other cases do not have: hooks, plans, commands, models, banners, and a summary."""
    file = AzsFile(path)
    file.events(
        file.session("myrepo/feat-a"),
        init("gpt-5.5"), prompt("Größer — 大きく"), {"Hook": {"name": "SessionStart", "output": "hello"}},
        {"Plan": {"name": "plan", "content": "1. Look"}}, answer("Done."), complete(0, 1.2),
        {"Command": {"name": "/compact"}}, "Compacting", "Compacted", {"ModelSwitch": {"model": "opus"}},
        prompt("And now?"), "MayBeCompacting", answer("All is well."), "Filtered",
        prompt("<azureal-internal-auto-continue>\nContinue\n</azureal-internal-auto-continue>"), answer("Going on."),
    )  # fmt: skip
    file.compaction(1, 10, "They made it larger.")
    return file


def dirty(path: Path) -> AzsFile:
    """An early build stored contexts with prompts, whole or in pieces, and what Codex puts before them."""
    file = AzsFile(path)
    whole = "<azureal-session-context>\n## User\nfirst\n</azureal-session-context>\n\n"
    file.events(
        file.session(),
        prompt("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief\n</INSTRUCTIONS>"),
        prompt(f"{whole}Go on"), answer("Yes."),
        prompt("<azureal-session-context>\n## User\nfirst"), prompt("more of it"),
        prompt("the end\n</azureal-session-context>\n\nAnd this"), answer("That too."),
        prompt("<azureal-session-context>\n## User\nnever closed"), answer("Lost."), prompt("Is it over?"),
    )  # fmt: skip
    return file


CASES: dict[str, tuple[Callable[[Path], AzsFile], str]] = {
    "conversation": (conversation, "sessions.azs"),
    "schema-1": (schema_1, "sessions.azs"),
    "every-kind": (every_kind, "sessions.azs"),
    "dirty": (dirty, "sessions.azs"),
}


def log_of(case: str, folder: Path) -> bytes:
    """The rows of the case's only session, as they are read from its file."""
    from backstory.agents.azureal.log import Databases

    write, name = CASES[case]
    file = write(folder / case / ".azureal" / name)
    (found,) = Databases().sessions_without_logs(WORKTREE / ".azureal" / name, file.path)
    content: bytes = found.content  # type: ignore[union-attr]
    return content


def main() -> None:
    folder = Path(__file__).parent.parent / "agents" / "cases" / "azureal"
    with tempfile.TemporaryDirectory() as temporary:
        for case in CASES:
            (folder / case).mkdir(parents=True, exist_ok=True)
            (folder / case / "log.jsonl").write_bytes(log_of(case, Path(temporary)))


if __name__ == "__main__":
    main()
