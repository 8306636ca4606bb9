"""A machine with agents' logs on it, made of recorded logs, and what a store holds of them in comparable form."""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import msgspec
import zstandard

from backstory import agents
from backstory.export.restore import Restored, RestoredFile, Restoring
from backstory.ingest.ingest import ingest
from backstory.ingest.log_reader import numbered_lines
from backstory.ingest.report import IngestReport
from backstory.model import event_to_json
from backstory.store import Store, open_store
from backstory.store.tables import turns
from tests.support.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Session

CASES = Path(__file__).parent.parent / "agents" / "cases"
CLAUDE_FOLDER = Path(".claude/projects/-home-dev-work")
CODEX_FOLDER = Path(".codex/sessions/2026/11/21")

PARENT_ID = "7f2c6826-7376-4f1b-9fe1-fb5f083dec4c"
ORIGINAL_ID = "011ed182-7e99-4421-9c41-c873947f9fe6"
"""The session of claude/tools, resumed in claude/resume and forked in claude/fork."""


def case(name: str) -> bytes:
    """The bytes of a recorded log, by ``agent/name``."""
    (log,) = (CASES / name).rglob("*.jsonl")
    return log.read_bytes()


def place(name: str) -> Path:
    """Where the log of a case lies below a home folder, as its agent would have put it."""
    agent = name.partition("/")[0]
    (log,) = (CASES / name).rglob("*.jsonl")
    if log.name != "log.jsonl":
        return CLAUDE_FOLDER / log.relative_to(CASES / name)
    if agent == "claude":
        return CLAUDE_FOLDER / f"{claude_id(log.read_bytes())}.jsonl"
    meta = json.loads(log.read_bytes().split(b"\n", 1)[0])["payload"]
    return CODEX_FOLDER / f"rollout-2026-11-21T21-00-00-{meta['id']}.jsonl"


def claude_id(data: bytes) -> str:
    """The session id that Claude's records carry."""
    return next(str(each["sessionId"]) for each in map(_record, data.splitlines()) if "sessionId" in each)


def _record(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


SMALL = (
    "claude/resume", "claude/fork", "claude/with-a-helper", "claude/helper", "claude/denied", "claude/summaries",
    "codex/resume", "codex/fork", "codex/with-a-helper", "codex/helper", "codex/mcp", "codex/queued-prompt",
)  # fmt: skip
"""Cases that belong together in every way: a fork and its original, helpers and their parents, of both agents."""


class Machine:
    """A home folder with logs in it, and the store that reads them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.store_path = folder / "store.db"
        self.store: Store = open_store(self.store_path, shared=True, now=lambda: NOW)

    def close(self) -> None:
        self.store.close()

    def stored(self) -> bytes:
        """The store's file, closed; empty where there is none."""
        self.store.close()
        return self.store_path.read_bytes() if self.store_path.exists() else b""

    def put_back(self, stored: bytes) -> None:
        """Have the store be what it was, whatever became of it."""
        self.store.close()
        for each in self.store_path.parent.glob(f"{self.store_path.name}*"):
            each.unlink()
        if stored:
            self.store_path.write_bytes(stored)

    def put(self, name: str, data: bytes | None = None) -> Path:
        """The log of a case in its place; with ``data`` instead of what was recorded."""
        return self.write(place(name), case(name) if data is None else data)

    def write(self, relative: Path | str, data: bytes) -> Path:
        path = self.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def read(self, *names: str) -> IngestReport:
        """An ingest of this machine's logs."""
        chosen = [agents.load(name) for name in names or ("claude", "codex")]
        return ingest(self.store, chosen, environ={}, home=self.home, now=NOW)

    def content(self) -> dict[str, Any]:
        return content(self.store)


def restored(store: Store, out: Path, *, only: Session | None = None, force: bool = False) -> list[Restored]:
    """All logs of a store written out, or those of one session."""
    restoring = Restoring([store], out, force=force)
    wanted = [each for each in restoring.logs if only is None or each[1].session_id == only.id]
    return [*restoring.lost, *restoring.each(wanted)]


def lies(told: Restored | RestoredFile) -> Path:
    """Where a file that was given back lies."""
    assert told.error is None
    assert told.written is not None
    return Path(told.written)


def claude_log(name: str) -> Path:
    """The path below a home folder of a Claude log with this session id."""
    return CLAUDE_FOLDER / f"{name}.jsonl"


def claude_line(kind: str, uuid: str | None, text: str = "", **more: Any) -> bytes:
    """One record as Claude writes it, small."""
    said: dict[str, Any] = {"type": kind, "sessionId": "s", "timestamp": "2026-11-21T21:00:00.000Z", "cwd": "/w"}
    if uuid is not None:
        said["uuid"] = uuid
    if kind in ("user", "assistant"):
        content: Any = text if kind == "user" else [{"type": "text", "text": text}]
        said["message"] = {"role": kind, "content": content}
    return json.dumps(said | more).encode()


def conversation(count: int, start: int = 0) -> list[bytes]:
    """Records of a conversation: prompt, answer, prompt, answer …"""
    return [
        claude_line("user" if n % 2 == 0 else "assistant", f"u{n}", f"word{n} said")
        for n in range(start, start + count)
    ]


def lines(*records: bytes) -> bytes:
    return b"".join(record + b"\n" for record in records)


def compressed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def content(store: Store) -> dict[str, Any]:
    """All that a store holds of logs, by what does not depend on the order in which it came."""
    return {session.uid: _session(store, session.id) for session in store.sessions(subagents=True)}


def _session(store: Store, session_id: int) -> dict[str, Any]:
    session = store.session(session_id)
    facts = msgspec.structs.asdict(session)
    del facts["id"]
    numbers = store.ask(turns.numbers, session.id)
    return {
        "facts": facts,
        "turns": msgspec.to_builtins(store.turns(session)),
        "events": [
            (each.seq, each.part, each.kind, each.at, numbers.get(each.turn_id or 0), each.char_len, each.position,
             each.length, event_to_json(each.event))
            for each in store.events(session)
        ],
        "logs": sorted(
            (log.relpath, log.agent, log.native_id, log.read_to, bytes_of(store, log.id)[1])
            for log in store.logs(session)
        ),
        "numbers": sorted([seq for _, seq in numbered_lines(store, log)] for log in store.logs(session)),
        "answers": answers(store, session_id),
        "found": indexed(store, session_id),
        "derived": derived(store, session_id),
    }  # fmt: skip


def bytes_of(store: Store, log_id: int) -> tuple[int, str]:
    digest, length = hashlib.sha256(), 0
    for piece in store.stream_log(log_id):
        digest.update(piece)
        length += len(piece)
    return length, digest.hexdigest()


def kept(store: Store) -> list[str]:
    """The SHA-256 of the bytes of every log in a store, sorted."""
    return sorted(bytes_of(store, log.id)[1] for log in store.logs())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def looked_up(path: Path, question: str, *values: Any) -> list[Any]:
    """Rows of a store, read past its API."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return list(db.execute(question, values))
    finally:
        db.close()


def problems(store: Store) -> list[str]:
    """What ``verify`` finds. Of the same pages it finds the same, so each state of a store is verified once."""
    store.sessions()
    with closing(apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        pages = hashlib.sha256(db.serialize("main")).digest()
    if pages not in _WHOLE:
        if found := store.verify().problems:
            return found
        _WHOLE.add(pages)
    return []


_WHOLE: set[bytes] = set()
"""Hashes of the stores in which nothing was found."""


def answers(store: Store, session_id: int) -> list[Any]:
    return looked_up(
        store.path,
        "select t.uid, x.answer from turns t join turn_texts x on x.turn_id = t.id where t.session_id = ? order by 1",
        session_id,
    )


def derived(store: Store, session_id: int) -> list[list[Any]]:
    """What is derived of a session, without ids."""
    turn = "(select uid from turns where id = x.turn_id)"
    questions = (
        f"select file_path, tool_name, action, {turn}, first_seq, first_seen_at from session_files x "
        "where session_id = ? order by 1",
        "select file_path, t.seq, t.part, t.action, t.to_path from file_touches t join session_files f "
        "on f.id = t.file_id where f.session_id = ? order by 1, 2, 3",
        f"select ref_type, ref_value, host, repository, {turn}, seq, created_at from session_refs x "
        "where session_id = ? order by 1, 2",
        "select c.seq, c.part, r.seq, r.part, x.is_error, x.exit_code from call_results x "
        "join events c on c.id = x.call_id join events r on r.id = x.result_id where c.session_id = ? order by 1, 2",
        "select checkpoint_number, seq, title, overview, created_at from checkpoints where session_id = ? order by 1",
    )
    return [looked_up(store.path, question, session_id) for question in questions]


def indexed(store: Store, session_id: int) -> list[Any]:
    """Which events the search index knows."""
    return looked_up(
        store.path,
        "select e.seq, e.part, f.source_id, f.scope from events e join search_index f on f.rowid = e.id "
        "where e.session_id = ? order by 1, 2",
        session_id,
    )


def prompts(store: Store) -> list[str]:
    """All prompts of all sessions, in the sessions' order of time."""
    found = sorted(store.sessions(subagents=True), key=lambda session: session.uid)
    return [turn.prompt for session in found for turn in store.turns(session)]


class _Opened:
    """Counts the opening of files below a folder, for as long as it is asked to."""

    def __init__(self) -> None:
        self.below: str | None = None
        self.paths: list[str] = []
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self.below is not None and event == "open" and str(args[0]).startswith(self.below):
            self.paths.append(str(args[0]))


_opened: _Opened | None = None
"""A hook cannot be taken away again, so there is one."""


def opened_below(folder: Path) -> Iterator[list[str]]:
    """Yields the list of files below a folder that are opened from now on."""
    global _opened
    _opened = _opened or _Opened()
    _opened.below, _opened.paths = str(folder), []
    yield _opened.paths
    _opened.below = None


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    """Where two contents differ, in few words."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(set(one) | set(other))
        return [line for key in keys for line in differences(one.get(key), other.get(key), f"{at}/{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = enumerate(zip(one, other, strict=False))
        found = [line for n, (a, b) in pairs for line in differences(a, b, f"{at}/{n}")]
        return found + ([f"{at}: {len(one)} != {len(other)}"] if len(one) != len(other) else [])
    return [] if one == other else [f"{at}: {str(one)[:200]} != {str(other)[:200]}"]
