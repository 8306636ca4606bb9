"""Makes the rows of a session store as the agent's own reindex would, from its logs and the files beside them.

The rules of version 1.0.102, kept where they lose something: a checkpoint's title is empty, files and refs are as old
as the reindex, a last answer that came with a call is none, and a call counts prompts that are no turns. Nothing that
was once indexed goes, so a log that was rewritten is read as it was, and then as it is.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.agents.copilot.store import Place
from backstory.agents.jsonl import lines_of
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backstory.agents.contract import KeptFile, KeptLog
    from backstory.agents.copilot.store import SessionStore

WORKSPACE = "workspace.yaml"
_FORGE_TOOL = "github-mcp-server-"
_FORGE_REFS = (("pull_request", "pullNumber", "pr"), ("issue", "issue_number", "issue"), ("commit", "sha", "commit"))
"""A word in a tool's name, the argument that names something then, and what it names."""
_SHELL_REFS = (
    (lazy_regex(r"\bgh\s+pr\s+(?:create|checkout|view|merge)\b"),
     lazy_regex(r"https://github\.com/[^/\s]+/[^/\s]+/pull/(\d+)", re.ASCII), "pr"),
    (lazy_regex(r"gh issue create"),
     lazy_regex(r"https://github\.com/[^/\s]+/[^/\s]+/issues/(\d+)", re.ASCII), "issue"),
    (lazy_regex(r"\bgit\s+commit\b"), lazy_regex(r"\[[A-Za-z0-9_/.-]+\s+([0-9a-f]{7,40})\]"), "commit"),
)  # fmt: skip
"""The reference that a command makes, if its output names the subject, and the subject's kind."""
_CHECKPOINT = lazy_regex(r"checkpoints/[^/]+\.md$")
_CHECKPOINT_NUMBER = lazy_regex(r"(\d{1,9})-", re.ASCII)
_MADE = lazy_regex(r"files/[^/]+$")
_OPENING, _CLOSING = lazy_regex(r"<(\w+)>"), lazy_regex(r"</(\w+)>")
_BLANKS = "\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The characters that JavaScript trims off."""


class _Line(Struct):
    type: Any = ""
    data: Any = None
    timestamp: Any = None
    agent_id: Any = field(default=None, name="agentId")


class _Turn(Struct):
    prompt: str
    at: str
    answer: str | None = None


class _Call(Struct):
    name: str
    arguments: dict[str, Any]
    turn: int
    files: list[str] = field(default_factory=list)
    refs: list[tuple[str, str]] = field(default_factory=list)


class _Folder(Struct):
    """A session's folder: its log as it was each time it was read, oldest first, and the files beside it."""

    path: PurePath
    logs: list[KeptLog] = field(default_factory=list)
    files: dict[str, KeptFile] = field(default_factory=dict)
    workspace: dict[str, str] | None = None

    @property
    def native_id(self) -> str:
        return (self.workspace or {}).get("id") or self.path.name


_decoder = msgspec.json.Decoder(_Line)


def reindex(store: SessionStore, logs: Iterable[KeptLog], pairs_in: Callable[[str], dict[str, str]], now: int) -> None:
    """Write what these logs and the files beside them say, at ``now``. ``pairs_in``: the pairs in a workspace file."""
    at = datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    folders: dict[str, _Folder] = {}
    for log in logs:
        path = PurePath(log.path).parent
        folder = folders.setdefault(str(path), _Folder(path))
        folder.logs.append(log)
        folder.files |= {each.name: each for each in log.beside()}
    found = [folders[path] for path in sorted(folders)]
    for folder in found:
        if (file := folder.files.get(WORKSPACE)) is not None and (text := _text_of(file)) is not None:
            folder.workspace = pairs_in(text)
        _index_checkpoints(store, folder, at)
    for folder in found:
        _index_session(store, folder, at)


def keep_rows(store: SessionStore, logs: Iterable[KeptLog]) -> None:
    """Write the rows that a store had of sessions whose logs are gone: a reindex leaves them alone.

    When such a session was last updated is not kept; the newest time in its rows stands for it.
    """
    for log in logs:
        newest = ""
        for line in filter(None, (line for _, _, line in lines_of(log.read()))):
            entry = msgspec.json.decode(line)
            newest = max(newest, entry["timestamp"] or "")
            # A row that this schema has no place for, as one of no turn, is left out.
            with suppress(KeyError, sqlite3.IntegrityError):
                _keep_row(store, log.native_id, entry["table"], entry["row"])
        store.session(log.native_id, Place(), None, newest or None)


def _keep_row(store: SessionStore, native_id: str, table: str, row: dict[str, Any]) -> None:
    match table:
        case "sessions":
            place = Place(**{name: row.get(name) for name in Place.__struct_fields__})
            store.session(native_id, place, row.get("created_at"), None)
        case "turns":
            prompt, answer = row.get("user_message"), row.get("assistant_response")
            store.turn(native_id, row["turn_index"], prompt, answer, row.get("timestamp"))
        case "checkpoints":
            store.checkpoint(native_id, row["checkpoint_number"], row.get("title"), row, row.get("created_at"))
        case "session_files":
            tool, turn, at = row.get("tool_name"), row.get("turn_index"), row.get("first_seen_at")
            store.file(native_id, row["file_path"], tool, turn, at)
        case "session_refs":
            turn, at = row.get("turn_index"), row.get("created_at")
            store.ref(native_id, row["ref_type"], row["ref_value"], turn, at)


def _note_session(store: SessionStore, folder: _Folder, now: str) -> None:
    workspace = folder.workspace or {}
    place = Place(
        cwd=workspace.get("cwd"),
        repository=workspace.get("repository"),
        branch=workspace.get("branch"),
        summary=workspace.get("name", "").strip(_BLANKS) or workspace.get("summary", "").strip(_BLANKS) or None,
    )
    store.session(folder.native_id, place, workspace.get("created_at") or now, workspace.get("updated_at") or now)


def _index_checkpoints(store: SessionStore, folder: _Folder, now: str) -> None:
    names = sorted(name for name in folder.files if _CHECKPOINT.match(name) and not name.endswith("/index.md"))
    if folder.workspace is None or not names:
        return
    _note_session(store, folder, now)
    for name in names:
        sections = _sections(_text_of(folder.files[name]) or "")
        if sections:
            number = _CHECKPOINT_NUMBER.match(name.partition("/")[2])
            title = sections.get("checkpoint_title") or ""
            store.checkpoint(folder.native_id, int(number.group(1)) if number else 0, title, {**sections}, now)


def _text_of(file: KeptFile) -> str | None:
    """Return the text of a file; None if it is no text, which a reindex passes over."""
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        return None


def _sections(text: str) -> dict[str, str]:
    """Return the text between a tag and its end, by the tag's name; empty for blanks, the last of several."""
    ends: dict[str, list[int]] = {}
    for end in _CLOSING.finditer(text):
        ends.setdefault(end.group(1), []).append(end.start())
    found: dict[str, str] = {}
    at = 0
    while (tag := _OPENING.search(text, at)) is not None:
        closing = ends.get(tag.group(1), [])
        place = bisect_left(closing, tag.end())
        at = tag.end()
        if place < len(closing):
            at = closing[place]
            if section := text[tag.end() : at].strip():
                found[tag.group(1)] = section
    return found


def _index_session(store: SessionStore, folder: _Folder, now: str) -> None:
    for log in folder.logs:
        _note_session(store, folder, now)
        with suppress(UnicodeDecodeError):
            session = _Session(now)
            for n, (_, _, line) in enumerate(lines_of(log.read())):
                session.read((line or b"").decode().removeprefix("" if n else "\ufeff"))
            session.write(store, folder.native_id)
    for name, file in sorted(folder.files.items()):
        if _MADE.match(name) and (text := _text_of(file)) is not None:
            store.artifact(folder.native_id, str(folder.path / name), text)


class _Session:
    """The turns of one log, and what its calls touched and named."""

    def __init__(self, now: str) -> None:
        self._now = now
        self._prompts = 0
        self._turns: list[_Turn] = []
        self._open: _Turn | None = None
        """The turn that answers belong to; none after a prompt that makes no turn."""
        self._calls: dict[str, _Call] = {}

    def read(self, line: str) -> None:
        """Take a line; one that is no record, or a helper's, says nothing."""
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return
        data = record.data if isinstance(record.data, dict) else {}
        if record.agent_id or data.get("parentToolCallId"):
            return
        match record.type:
            case "user.message":
                self._prompt(data.get("content"), record.timestamp)
            case "assistant.message":
                self._answer(data)
            case "tool.execution_start":
                self._started(data)
            case "tool.execution_complete":
                self._completed(data)

    def _prompt(self, content: Any, at: Any) -> None:
        self._prompts += 1
        text = content.strip(_BLANKS) if isinstance(content, str) else ""
        self._open = _Turn(text, at if isinstance(at, str) else self._now) if text else None
        if self._open is not None:
            self._turns.append(self._open)

    def _answer(self, data: dict[str, Any]) -> None:
        content = data.get("content")
        text = content.strip(_BLANKS) if isinstance(content, str) else ""
        if self._open is not None and text and not data.get("toolRequests"):
            self._open.answer = text

    def _started(self, data: dict[str, Any]) -> None:
        call_id, name, arguments = data.get("toolCallId"), data.get("toolName"), data.get("arguments")
        if isinstance(call_id, str) and isinstance(name, str):
            given = arguments if isinstance(arguments, dict) else {}
            call = _Call(name, given, max(self._prompts - 1, 0))
            if name.startswith(_FORGE_TOOL):
                call.refs = _named(name, given)
            self._calls[call_id] = call

    def _completed(self, data: dict[str, Any]) -> None:
        call = self._calls.get(data.get("toolCallId") or "")
        if call is None:
            return
        if data.get("success") is True:
            call.files = _written(call, data)
        result = data.get("result")
        if call.name == "bash" and isinstance(result, dict):
            call.refs = _made(call.arguments.get("command"), result.get("content"))

    def write(self, store: SessionStore, native_id: str) -> None:
        """Write what was read as this session's."""
        for index, turn in enumerate(self._turns):
            store.turn(native_id, index, turn.prompt, turn.answer, turn.at)
        for call in self._calls.values():
            owner, repo = call.arguments.get("owner"), call.arguments.get("repo")
            if call.name.startswith(_FORGE_TOOL) and _is_said(owner) and _is_said(repo):
                store.session(native_id, Place(repository=f"{owner}/{repo}"), self._now, self._now)
            for path in call.files:
                store.file(native_id, path, call.name, call.turn, self._now)
            for kind, value in call.refs:
                store.ref(native_id, kind, value, call.turn, self._now)


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _written(call: _Call, data: dict[str, Any]) -> list[str]:
    """The files that a call which succeeded wrote."""
    if call.name in ("edit", "create"):
        path = call.arguments.get("path")
        return [path] if isinstance(path, str) and path else []
    if call.name != "apply_patch":
        return []
    found: Any = data
    for name in ("toolTelemetry", "restrictedProperties", "filePaths"):
        found = found.get(name) if isinstance(found, dict) else None
    try:
        paths = msgspec.json.decode(found) if isinstance(found, str) else []
    except (msgspec.DecodeError, RecursionError):
        return []
    is_list = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    return list(filter(None, paths)) if is_list else []


def _named(name: str, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the things that the arguments of a call to the forge's server name."""
    found = []
    for word, argument, kind in _FORGE_REFS:
        value = arguments.get(argument)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value != 0
        if word in name and (_is_said(value) if kind == "commit" else is_number):
            found.append((kind, str(int(value) if isinstance(value, float) and value.is_integer() else value)))
    return found


def _made(command: Any, output: Any) -> list[tuple[str, str]]:
    """Return the things that a command made or looked at, as its output names them."""
    if not isinstance(command, str) or not isinstance(output, str):
        return []
    said = ((how.search(command) and where.search(output), kind) for how, where, kind in _SHELL_REFS)
    return [(kind, found.group(1)) for found, kind in said if found]
