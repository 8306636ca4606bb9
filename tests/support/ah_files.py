"""Databases as ah writes them, by its own rules and with nothing of ours: one writer for all its versions.

``python -m tests.support.ah_files`` writes the logs of the cases anew (``PYTHONPATH=src``): what is read from each.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
START = 1_771_200_000
"""2026-02-16, in seconds since 1970."""
FOLDER = Path("/home/dev/work/.ah")

SCHEMA = """
create table if not exists messages (
  id text primary key,
  parent_id text references messages(id),
  role text not null,
  seq integer not null,
  created_at integer not null,
  input_tokens integer,
  output_tokens integer,
  stop_reason text,
  model text,
  api_latency_ms integer
);
create table if not exists content_blocks (
  id text primary key,
  message_id text not null references messages(id),
  block_type text not null,
  seq integer not null,
  content text,
  tool_id text,
  tool_name text,
  tool_input text,
  tool_output text,
  is_error integer default 0,
  duration_ms integer,
  details text
);
create table if not exists context (key text primary key, value text not null);
create table if not exists events (
  id text primary key,
  message_id text references messages(id),
  event_type text not null,
  created_at integer not null,
  details text
);
create index if not exists idx_messages_parent on messages(parent_id);
create index if not exists idx_content_blocks_message on content_blocks(message_id);
create index if not exists idx_events_message on events(message_id);
create index if not exists idx_events_type on events(event_type);
"""
QUEUE = """
create table if not exists queue_messages (
  id text primary key,
  message_type text not null,
  content text not null,
  created_at integer not null,
  consumed_at integer
);
create table if not exists session_lock (
  key text primary key,
  owner_pid integer not null,
  started_at integer not null,
  heartbeat_at integer not null
);
create index if not exists idx_queue_type on queue_messages(message_type);
create index if not exists idx_queue_consumed on queue_messages(consumed_at);
"""
CONVERSATIONS = """
create table conversations (
  id text primary key, name text, created_at integer not null, closed_at integer, state text not null default 'idle'
);
create table work_iterations (
  id text primary key, conversation_id text references conversations(id) on delete set null, status text not null,
  metric_value real, baseline_value real, message text, created_at integer not null
);
"""
OF_ANY = "conversation_id text references conversations(id) on delete cascade,"
OF_ONE = "conversation_id text not null references conversations(id) on delete cascade,"
SINGLE = (
    SCHEMA.replace("parent_id text references", f"{OF_ONE} parent_id text references")
    .replace("  message_id text references", f"  {OF_ANY} message_id text references")
    + QUEUE.replace("message_type text", f"{OF_ONE}\n  message_type text", 1)
    + CONVERSATIONS
)  # fmt: skip
"""The one file of the last version."""
EARLY = """
create table messages (
  id text primary key, parent_id text references messages(id), role text not null, seq integer not null,
  created_at integer not null
);
create table content_blocks (
  id text primary key, message_id text not null references messages(id), block_type text not null,
  seq integer not null, content text, tool_id text, tool_name text, tool_input text, tool_output text,
  is_error integer default 0, duration_ms integer
);
create table context (key text primary key, value text not null);
"""
"""The first files of a session: no tokens, no events, no details."""
FIRST = "create table sessions (id text primary key, created_at integer not null);\n" + EARLY.replace(
    "id text primary key, parent_id", "id text primary key, session_id text not null, parent_id"
)
"""The first version of all: one file in the home folder."""


def ulid(number: int, at_ms: int = START * 1000) -> str:
    """An id of a moment, whose random part is a number."""

    def letters(value: int, length: int) -> str:
        return "".join(ALPHABET[value >> 5 * place & 31] for place in range(length - 1, -1, -1))

    return letters(at_ms, 10) + letters(number * 7919, 16)


class AhFile:
    """A database that is written as ah writes it. A message's ``parent`` is, unless given, the one before it."""

    def __init__(self, path: Path, schema: str = SCHEMA, *, queue: bool = True, numbers_from: int = 1) -> None:
        self.path = path
        self.queue_path = path.with_name(path.name.removesuffix(".db") + ".queue.db") if queue else path
        self.at, self._number, self.conversation = START, numbers_from, ""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.run(f"pragma journal_mode=wal; {schema}")
        if queue:
            self.run(f"pragma journal_mode=wal; {QUEUE}", self.queue_path)

    def run(self, script: str, path: Path | None = None) -> None:
        with closing(sqlite3.connect(path or self.path)) as db:
            db.executescript(script)

    def ask(self, sql: str, *values: Any, path: Path | None = None) -> list[Any]:
        with closing(sqlite3.connect(path or self.path)) as db, db:
            return db.execute(sql, values).fetchall()

    def new_id(self) -> str:
        self._number += 1
        return ulid(self._number, self.at * 1000)

    def insert(self, table: str, path: Path | None = None, **row: Any) -> str:
        row = {"id": self.new_id(), **row}
        columns = [name for _, name, *_ in self.ask(f"select * from pragma_table_info('{table}')", path=path)]
        row |= {"conversation_id": self.conversation, "session_id": self.conversation}
        kept = {name: value for name, value in row.items() if name in columns}
        marks = ", ".join("?" * len(kept))
        self.ask(f"insert into {table}({', '.join(kept)}) values ({marks})", *kept.values(), path=path)
        return str(row["id"])

    def know(self, key: str, value: str | None) -> None:
        if value is None:
            self.ask("delete from context where key = ?", key)
        else:
            self.ask("insert or replace into context(key, value) values (?, ?)", key, value)

    def message(self, role: str, *blocks: dict[str, Any], parent: str | None = "", wait: int = 1, **more: Any) -> str:
        self.at += wait
        if parent == "":
            found = self.ask("select value from context where key = 'current_message'")
            parent = found[0][0] if found else None
        depth = self.ask("select seq from messages where id = ?", parent)
        seq = depth[0][0] + 1 if depth else 0
        own = self.insert("messages", parent_id=parent, role=role, created_at=self.at, **{"seq": seq, **more})
        for place, block in enumerate(blocks):
            self.insert("content_blocks", message_id=own, **{"seq": place, "is_error": 0, **block})
        self.know("current_message", own)
        return own

    def user(self, text: str, **more: Any) -> str:
        return self.message("user", said(text), **more)

    def answer(self, *blocks: Row | str, tokens: tuple[int, int, int, int] = (10, 5, 0, 0), **more: Any) -> str:
        """An answer with its call's event; ``tokens``: input, output, written to the cache, read from it."""
        given = [said(each) if isinstance(each, str) else each for each in blocks]
        stop = "tool_use" if any(block["block_type"] == "tool_use" for block in given) else "end_turn"
        fresh, out, written, read = tokens
        about: Row = {"stop_reason": stop, "model": "claude-opus-4", "input_tokens": fresh + written + read,
                 "output_tokens": out, "api_latency_ms": 700}  # fmt: skip
        own = self.message("assistant", *given, **(about | more))
        self.event("api_call_end", own, message_id=own, input_tokens=fresh, output_tokens=out,
                   cache_creation_input_tokens=written, cache_read_input_tokens=read, api_latency_ms=700,
                   model="claude-opus-4")  # fmt: skip
        return own

    def event(self, kind: str, message: str | None = None, **fields: Any) -> None:
        if not self.ask("select * from pragma_table_info('events')"):
            return
        details = json.dumps({"event_type": kind, "timestamp": self.at, **fields})
        self.insert("events", event_type=kind, message_id=message, created_at=self.at, details=details)

    def begin(self) -> None:
        """What a run begins with."""
        self.know("session_state", "processing")
        self.event("state_change", from_state="idle", to_state="processing")

    def end(self, stop: str = "end_turn", **more: Any) -> None:
        """What a run ends with."""
        self.event("agent_end", stop_reason=stop, total_input_tokens=10, total_output_tokens=5, **more)
        self.event("state_change", from_state="processing", to_state="idle")
        self.know("session_state", "closed")

    def wait_with(self, kind: str, text: str, consumed: bool = False) -> str:
        """A text in the queue."""
        at = self.at if consumed else None
        return self.insert("queue_messages", self.queue_path, message_type=kind, content=text, created_at=self.at,
                           consumed_at=at)  # fmt: skip


def said(text: str) -> dict[str, Any]:
    return {"block_type": "text", "content": text}


def call(name: str, tool_id: str, **given: Any) -> dict[str, Any]:
    return {"block_type": "tool_use", "tool_id": tool_id, "tool_name": name, "tool_input": json.dumps(given)}


def result(tool_id: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"block_type": "tool_result", "tool_id": tool_id, "tool_output": output, "duration_ms": 12, **more}


# cases --------------------------------------------------------------------------------------------------------


def tree(path: Path) -> AhFile:
    """Two branches; the second is the current one."""
    file = AhFile(path)
    file.begin()
    file.user("Hello", parent=None)
    greeted = file.answer("Hi there")
    file.end()
    file.begin()
    file.user("Tell me about Lua")
    asked = file.answer("Let me look.", call("bash", "toolu_1", command="ls -la"), tokens=(3, 20, 4, 100))
    file.event("tool_call_end", asked, tool_name="bash", tool_output="", is_error=False, duration_ms=12)
    file.message("user", result("toolu_1", "total 0\nlua.md", details='{"exit_code":0}'))
    file.answer("Lua is a scripting language", tokens=(2, 9, 0, 120))
    file.end()
    file.begin()
    file.user("Tell me about Python", parent=greeted)
    file.answer("Python is a programming language")
    file.end()
    return file


def checked_out(path: Path) -> AhFile:
    """The same, but a person went back to the first branch."""
    file = tree(path)
    file.know("current_message", file.ask("select message_id from content_blocks where content like 'Lua is%'")[0][0])
    return file


def checked_out_inside(path: Path) -> AhFile:
    """The same, but a person went back to the message that both branches begin at."""
    file = tree(path)
    file.know("current_message", file.ask("select id from messages where seq = 1")[0][0])
    return file


def early(path: Path) -> AhFile:
    """The first files of a session."""
    file = AhFile(path, EARLY, queue=False)
    file.user("Hello", parent=None)
    file.answer("Reading.", call("read", "toolu_1", path="a.txt"))
    file.message("user", result("toolu_1", "one\ntwo"))
    file.answer("Two lines.")
    return file


def first(path: Path) -> AhFile:
    """The first version of all."""
    file = AhFile(path, FIRST, queue=False)
    for number in (1, 2):
        file.conversation = ulid(number)
        file.ask("insert into sessions(id, created_at) values (?, ?)", file.conversation, START + number)
        file.user(f"Question {number}", parent=None)
        file.answer(f"Answer {number}")
    return file


def busy(path: Path) -> AhFile:
    """Everything that stands in a user's place without being a prompt, and every way in which a run goes wrong."""
    file = AhFile(path)
    file.know("session_name", "alpha")
    file.begin()
    file.user("Count the files", parent=None)
    file.event("compaction_triggered", input_tokens=170000, context_limit=200000)
    file.event("compaction_complete", input_tokens=170000, output_tokens=400)
    file.user("[COMPACTION SUMMARY]\nWe counted before.")
    first = file.answer(call("bash", "toolu_1", command="ls"))
    file.insert("events", event_type="retry", message_id=first, created_at=file.at,
                details=json.dumps({"attempt": 2, "delay_ms": 1000, "status": 529, "error": "overloaded"}))  # fmt: skip
    file.message("user", result("toolu_1", "a\nb"))
    file.wait_with("steer", "only python", consumed=True)
    file.user("[STEERING] only python", wait=0)
    file.answer(call("grep", "toolu_2", pattern="py"), call("write", "toolu_3", path="n.txt", content="2"))
    file.message("user", result("toolu_2", "no match", is_error=1), result("toolu_3", "ok", duration_ms=250))
    warned = file.answer(call("bash", "toolu_4", command="ls"))
    file.event("loop_detected", warned, consecutive_count=3, turn_signature="bash:ls", action="warn")
    file.message("user", result("toolu_4", "a\nb"))
    file.user("[LOOP DETECTED] You repeat yourself.")
    file.answer("Two.")
    file.user("You must write the file `n.txt` before finishing. Please produce it now.")
    file.answer("Done.")
    file.event("payload_warn", payload_bytes=900000, threshold=800000)
    file.end()
    file.begin()
    file.user("Once more")
    file.answer("I was", stop_reason="interrupted")
    file.end("interrupted")
    file.begin()
    file.user("And more")
    file.event("error", error="HTTP 500")
    file.end("error", error="HTTP 500")
    file.begin()
    file.user("Spend all")
    spent = file.answer(call("read", "toolu_5", path="big"))
    file.event("budget_exceeded", spent, total_input_tokens=90, total_output_tokens=9, max_tokens=50)
    skipped = "error: tool execution skipped (token budget exceeded)"
    file.message("user", result("toolu_5", skipped, is_error=1, duration_ms=0))
    file.end("budget_exceeded")
    file.wait_with("followup", "then tidy up")
    return file


def interrupted_between_calls(path: Path) -> AhFile:
    """Of two calls only one has a result, and the session went on."""
    file = AhFile(path)
    file.begin()
    file.user("Do both", parent=None)
    file.answer(call("bash", "toolu_1", command="one"), call("bash", "toolu_2", command="two"))
    file.message("user", result("toolu_1", "one is done"))
    file.end("interrupted")
    file.begin()
    file.user("Go on")
    file.answer("I go on.")
    file.end()
    return file


def followups(path: Path) -> AhFile:
    """Two follow-ups that were taken at once: both were sent, but they stand side by side."""
    file = AhFile(path)
    file.begin()
    file.user("Begin", parent=None)
    answered = file.answer("Begun.")
    for text in ("then paint", "then dry"):
        file.wait_with("followup", text, consumed=True)
    file.user("then paint", parent=answered, wait=0)
    file.user("then dry", parent=answered, wait=0)
    file.answer("Painted and dried.")
    file.end()
    return file


def single(path: Path) -> AhFile:
    """The one file of the last version, with two conversations and work."""
    file = AhFile(path, SINGLE, queue=False)
    for number, name in ((1, "alpha"), (2, None)):
        file.conversation = ulid(number, START * 1000 + number)
        values = (file.conversation, name, START + number)
        file.ask("insert into conversations(id, name, created_at) values (?, ?, ?)", *values)
        file.know("current_conversation", file.conversation)
        file.event("state_change", from_state="idle", to_state="processing")
        file.user(f"Question {number}", parent=None)
        file.answer(f"Answer {number}")
        file.event("state_change", from_state="processing", to_state="idle")
    file.ask("update conversations set state = 'closed', closed_at = ? where name = 'alpha'", file.at)
    file.know("work:goal", "be quick")
    file.insert("work_iterations", status="kept", metric_value=1.5, message="faster", created_at=file.at)
    file.wait_with("steer", "be nice")
    return file


def roots(path: Path) -> AhFile:
    """Several roots, parents that are gone, a message that is its own parent, a circle, empty messages, odd bytes."""
    file = AhFile(path)
    file.user("First root", parent=None)
    gone = file.answer("To be deleted")
    file.user("Under what is gone", parent=gone)
    file.answer("Still said")
    file.user("Second root", parent=None)
    file.answer("Answer of the second")
    own = file.new_id()
    file.message("user", said("My own parent"), parent=own, id=own)
    one, two = file.new_id(), file.new_id()
    file.message("user", said("In a circle"), parent=two, id=one)
    file.message("assistant", said("Round and round"), parent=one, id=two)
    file.message("assistant", parent=two)
    file.user("Odd bytes", parent=None)
    file.answer(call("bash", "toolu_1", command="cat x"), call("read", "toolu_2", path="p.png"))
    picture = json.dumps({"__image__": True, "content": []}, separators=(",", ":"))
    shown = file.message("user", result("toolu_1", "x"), result("toolu_2", picture))
    odd = "update content_blocks set tool_output = cast(x'ff00fe41' as text) where message_id = ? and seq = 0"
    file.ask(odd, shown)
    file.message("user", result("toolu_9", "whose?"))
    file.ask("delete from messages where id = ?", gone)
    file.ask("delete from content_blocks where message_id = ?", gone)
    return file


CASES: dict[str, tuple[Callable[[Path], AhFile], str]] = {
    "tree": (tree, ""),
    "checked-out": (checked_out, ""),
    "checked-out-inside": (checked_out_inside, ""),
    "early": (early, ""),
    "first": (first, ulid(2)),
    "busy": (busy, ""),
    "interrupted-between-calls": (interrupted_between_calls, ""),
    "followups": (followups, ""),
    "single": (single, ulid(2, START * 1000 + 2)),
    "roots": (roots, ""),
}
"""Of each case: who writes it, and which session of its file is kept as a log; the only one, where none is named."""
SESSION = ulid(1)


def file_name(case: str) -> str:
    return "ah.db" if case in ("first", "single") else f"{SESSION}.db"


def log_of(case: str, folder: Path) -> bytes:
    """What is read of a case's database, as if it had lain in a project."""
    from backstory.agents.ah.log import Databases
    from backstory.agents.contract import SessionRows

    write, wanted = CASES[case]
    path = folder / file_name(case)
    write(path)
    told = Databases().sessions_without_logs(FOLDER / path.name, path)
    found = {each.native_id: each.content for each in told if isinstance(each, SessionRows)}
    return found[wanted or next(iter(found))]


def main() -> None:
    for case in CASES:
        target = Path(__file__).parent.parent / "agents" / "cases" / "ah" / case / "log.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            target.write_bytes(log_of(case, Path(folder)))


if __name__ == "__main__":
    main()
