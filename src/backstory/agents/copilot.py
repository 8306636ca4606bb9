"""GitHub Copilot CLI's logs: ``session-state/<session>/events.jsonl`` below COPILOT_HOME (else ~/.copilot).

Source: recorded logs of 1.0.77 to 1.0.102 and the event schema that 1.0.102 ships. Older builds left a flat
``session-state/<session>.jsonl``. A line is ``{type, data, id, timestamp, parentId, agentId?, ephemeral?}``. A prompt
is told twice, as typed (``content``) and as sent (``transformedContent``). An answer is one record with its text and
the calls it asks for; each call is told again when it starts, and its result follows by ``toolCallId``. What a helper
does stands in the same file, marked by ``agentId`` or ``parentToolCallId``: its calls are events of the turn, its
words are none of the agent's answer. A rewind cuts the file off before a prompt, so the records are one line of turns.

Tokens: newer builds write a receipt for each request (``session.usage_record``), older ones only an answer's output
tokens and, at the end, the totals of the process, which go on counting when a session is resumed. What such a total
says beyond what was counted already goes to the last turn. A compaction's tokens are in no total. Costs are told in
credits, which are not money, so there are none here.

Beside a log lie its companions: ``workspace.yaml`` (flat, and the only place of a session's title), ``plan.md``,
``checkpoints/NNN-slug.md`` with their titles in ``index.md``, and what the session made in ``files`` and ``research``.
``session-store.db`` holds the prompts and last answers of all sessions, also of those whose folders are gone.

Builds before 0.0.342 kept a session as one document, ``history-session-state/session_<session>_<ms>.json``. Its
``timeline`` is what was on the screen, with times; its ``chatMessages``, what the model was sent, have none and lack
what the model forgot, so they tell a session only where there is no timeline.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import (
    CompanionFacts,
    Place,
    _jsonl,
    _latency,
    _numbers,
    _session_document,
    _session_reindex,
    _session_rows,
    _session_store,
    _token_sums,
)
from backstory.agents._copilot_helpers import Helpers
from backstory.bounds import added
from backstory.conversation.context import strip_context
from backstory.derive.facts import At, FoundRef, Ref
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    LogIdentity,
    ModelSwitch,
    Outcome,
    Parsed,
    Plan,
    Relation,
    SessionFacts,
    Thinking,
    Tokens,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    Unknown,
    UserMessage,
    encoded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.agents import Exported, SessionRows, UnreadRows

NAME = "copilot"
FOLDER = "session-state"
EARLIEST = "history-session-state"
DATABASE = "session-store.db"
LOG = "events"

TOOLS = {
    "view": Tool.READ,
    "show_file": Tool.READ,
    "edit": Tool.EDIT,
    "multi_edit": Tool.EDIT,
    "str_replace": Tool.EDIT,
    "str_replace_editor": Tool.EDIT,
    "insert": Tool.EDIT,
    "apply_patch": Tool.EDIT,
    "create": Tool.WRITE,
    "bash": Tool.SHELL,
    "powershell": Tool.SHELL,
    "shell": Tool.SHELL,
    "local_shell": Tool.SHELL,
    "read_bash": Tool.SHELL,
    "write_bash": Tool.SHELL,
    "stop_bash": Tool.SHELL,
    "read_powershell": Tool.SHELL,
    "write_powershell": Tool.SHELL,
    "stop_powershell": Tool.SHELL,
    "grep": Tool.GREP,
    "rg": Tool.GREP,
    "glob": Tool.GLOB,
    "task": Tool.TASK,
    "web_fetch": Tool.FETCH,
    "fetch": Tool.FETCH,
    "web_search": Tool.SEARCH,
}
EDITOR_COMMANDS = {"view": Tool.READ, "create": Tool.WRITE}
"""What ``str_replace_editor`` does when it does not edit."""

REF_TYPES = frozenset({"pr", "issue", "commit"})

KEPT = frozenset(
    {
        "assistant.fusion_phase_completed", "assistant.fusion_phase_failed", "assistant.turn_start",
        "external_tool.requested", "hook.start", "human_response.recorded", "mcp.oauth_recovery_completed",
        "permission.assentDetected", "permission.carriedForward", "permission.completed",
        "permission.contextualAuthorization", "permission.messageAuthorization",
        "permission.messageAuthorizationDegraded", "permission.messageAuthorizationRead", "permission.requested",
        "session.autopilot_objective_changed", "session.binary_asset", "session.canvas.recorded",
        "session.canvas.removed", "session.compaction_start", "session.completion_receipt",
        "session.fusion_change_checkpoint", "session.fusion_commit_started", "session.fusion_completed",
        "session.fusion_handoff", "session.fusion_resolved", "session.fusion_route_failed", "session.mode_changed",
        "session.mode_notice_delivered", "session.model_deselected",
        "session.permission_recovery", "session.permissions_changed", "session.plan_changed",
        "session.remote_steerable_changed", "session.request_body_compression_disabled", "session.schedule_cancelled",
        "session.schedule_created", "session.schedule_rearmed", "session.session_limits_changed",
        "session.snapshot_rewind", "session.truncation", "session.usage_checkpoint", "session.usage_info",
        "session.workspace_file_changed", "skill.context_delivered", "skill.context_delivered_ref",
        "skill.invoked_ref", "subagent.completed", "subagent.configured", "subagent.deselected", "subagent.selected",
        "subagent.started", "system.message", "tool_search.activated",
    }
)  # fmt: skip
"""Types whose records say nothing that is shown; their bytes are kept."""

KEPT_PREFIX = "model."
"""A compaction by hand leaves its request to the model in the log, with all that the model was sent."""

_CALLS_OPEN_MAX = 2_000
_MESSAGES_BYTES_MAX = 4 * 1024 * 1024
"""So many bytes of a document's messages wait for a timeline that tells the same."""
_PATH_MAX = 1_000
_STARTS_TRIED_MAX = 4
_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_NUMBER_MAX = 2**63
"""Beyond it JSON's numbers are not exact, and none of these logs' are meant to be so large."""

_START = re.compile(rb'\{"type": ?"([a-z_]+(?:\.[A-Za-z_]+)*)", ?"data": ?\{')
_TYPES = re.compile(
    r"(?:abort|(?:assistant|hook|model|permission|session|skill|subagent|system|tool|user)\.[A-Za-z_.]+)$"
)
_FILE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_NOT_TYPED = re.compile(r"agent-|autopilot$|hook|inbox|jit|notification|sidekick|skill|system")
_DOCUMENT_ID = re.compile(r"session_([0-9a-f-]{36})_\d+$")
_ADDED = re.compile(r"\s*<(current_datetime|reminder)>.*?</\1>", re.DOTALL)
"""What the earliest builds put behind a prompt."""
_SENT_AT = re.compile(r"<current_datetime>[^<]*</current_datetime>\s*")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_EXIT_CODE = re.compile(r"<(?:shellId: \S+ completed|exited) with exit code (-?\d+)>\s*$")


WORKSPACE = "workspace.yaml"
PLAN = "plan.md"
BESIDE = frozenset({WORKSPACE, PLAN, "autopilot-objective.json", "client-metadata.json", "vscode.metadata.json"})
MADE = frozenset({"files", "research"})
"""The folders of what a session made, text or not."""
INDEX = "checkpoints/index.md"
_CHECKPOINT = re.compile(r"checkpoints/0*(\d{1,9})(?:-[^/]*)?\.md$")
_INDEXED = re.compile(r"^\| *(\d{1,9}) *\| *(.*?) *\| *[^|]*\|\s*$", re.MULTILINE)
_YAML_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*):(?: +(.*))?$")
_YAML_BLOCK = re.compile(r"[|>][+-]?$")
_YAML_NOT_TEXT = re.compile(r"[\[\]{}&*!%@`?,|>#]|-(?: |$)")
_YAML_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TITLE_CHARS_MAX = 1_000


class _Line(Struct):
    type: Any = ""
    data: Any = None
    id: Any = None
    timestamp: Any = None
    agent_id: Any = field(default=None, name="agentId")
    ephemeral: Any = None
    table: Any = None
    row: Any = None


class _Call(Struct, array_like=True):
    """A call whose result is still to come."""

    name: str
    tool: str
    path: str | None = None


class _State(Struct, kw_only=True):
    """What a reader needs to go on: bounded, whatever the log's size."""

    session: SessionFacts = field(default_factory=SessionFacts)
    turn: Turn | None = None
    turns_seen: int = 0
    calls: dict[str, _Call] = field(default_factory=dict)
    helpers: Helpers = field(default_factory=Helpers)
    has_prompts: bool = False
    """Whether the session has begun to be used since it was started: until then, choosing a model switches none."""
    selected: str | None = None
    routed: str | None = None
    """The model that ``auto`` was last turned into."""
    thought: tuple[str, str] = ("", "")
    """The kind of record that told the last thinking, and its digest: some builds tell it twice."""
    is_running: bool = False
    has_answered: bool = False
    has_receipts: bool = False
    answer: tuple[str, int] = ("", 0)
    """The last request without a receipt and its output tokens: an answer may come in several records."""
    total: Tokens = field(default_factory=Tokens)
    counted: Tokens = field(default_factory=Tokens)
    """What was given to turns since that total was told."""
    turns_counted: int = 0
    latency: _latency.Total = field(default_factory=_latency.Total)
    messages: list[Any] = field(default_factory=list)
    """A document's messages, for as long as it has told no timeline."""
    messages_bytes: int = 0
    has_timeline: bool = False


_BESIDE = (Hook, Command, Init, ModelSwitch, Compacted, Unknown)

_decoder = msgspec.json.Decoder(_Line)
_any_decoder = msgspec.json.Decoder()
_text_decoder = msgspec.json.Decoder(str)
_state_decoder = msgspec.json.Decoder(_State)


class Copilot:
    """GitHub Copilot CLI."""

    name = NAME
    title = "GitHub Copilot CLI"

    def places(self, environ: Mapping[str, str], home: Path) -> list[Place]:
        roots = [Path(environ.get("COPILOT_HOME") or home / ".copilot")]
        # Early builds kept their state there; today's moves it at its first start and leaves a link.
        if state_home := environ.get("XDG_STATE_HOME"):
            roots.append(Path(state_home) / ".copilot")
        places = {root / FOLDER: Place(folder=root / FOLDER, root=root) for root in roots if not _is_moved(root)}
        # No build of today makes the earliest ones' folder.
        earliest = (Place(folder=root / EARLIEST, root=root) for root in roots if _holds_documents(root))
        return list((places | {each.folder: each for each in earliest}).values())

    def is_document(self, path: PurePath) -> bool:
        return path.suffix == ".json" and path.parent.name == EARLIEST

    def record_end(self, head: bytes) -> re.Pattern[bytes]:
        return _session_document.record_end(head)

    def started_ms(self, head: bytes) -> int:
        return _session_document.started_ms(head)

    def is_log(self, path: Path) -> bool:
        if self.is_document(path):
            return True
        if not path.name.endswith(_jsonl.ENDINGS):
            return False
        stem = _jsonl.stem(path)
        # A session's own files may be named like anything, so only these two places count.
        if path.parent.name == FOLDER:
            return _FILE_ID.match(stem) is not None
        return stem == LOG and path.parent.parent.name == FOLDER

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if self.is_document(path):
            return _identify_document(path, head)
        lines = list(_jsonl.lines_in(head))
        if DATABASE in path.name and (of_row := next(filter(None, map(_session_rows.session_of, lines[:1])), None)):
            return LogIdentity(native_id=of_row)
        if not any(map(_is_ours, lines)):
            return None
        start = next(filter(None, map(_session_started, lines)), {})
        if not start and b"\n" not in head and len(head) < ids.HEAD_BYTES:
            # A first record that is torn may still say whose it is.
            return None
        stem = _jsonl.stem(path)
        own = _text(start.get("sessionId")) or (path.parent.name if stem == LOG else stem)
        parent = _text(start.get("detachedFromSpawningParentSessionId"))
        if not parent:
            return LogIdentity(native_id=own)
        return LogIdentity(native_id=own, parent_native_id=parent, relation=Relation.SUBAGENT)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(identity, state)

    def is_whole(self, line: bytes) -> bool:
        if _session_document.is_record(line):
            return _session_document.is_closed(line)
        return _jsonl.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        if _session_document.is_record(line):
            return _session_document.native_id_of(line)
        try:
            return _text(_jsonl.decode(line, _decoder)[0].id) or None
        except _jsonl.NotJson:
            return None

    def log_of(self, below: PurePath) -> PurePath | None:
        session, *rest = below.parts
        match rest:
            case [name] if name in BESIDE:
                pass
            case ["checkpoints", name] if name.endswith(".md"):
                pass
            case [folder, _, *_] if folder in MADE:
                pass
            case _:
                return None
        return PurePath(session, f"{LOG}.jsonl")

    def tells(self, name: str) -> bool:
        return name in (WORKSPACE, INDEX) or _CHECKPOINT.match(name) is not None

    def told_by(self, name: str, content: bytes) -> CompanionFacts:
        text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        if name == WORKSPACE:
            return _workspace(_flat_yaml(text))
        if name == INDEX:
            titles = {int(number): title.replace("\\|", "|") for number, title in _INDEXED.findall(text)}
            return CompanionFacts(checkpoint_titles={number: title for number, title in titles.items() if title})
        found = _CHECKPOINT.match(name)
        if found is None or not text.strip():
            return CompanionFacts()
        return CompanionFacts(checkpoint=(int(found.group(1)), text))

    def spilled_to(self, result: ToolResult) -> str | None:
        return None

    def databases(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        return [place.root / DATABASE for place in self.places(environ, home) if place.folder.name == FOLDER]

    def sessions_without_logs(self, database: Path, copy: Path) -> Iterator[SessionRows | UnreadRows]:
        folder = database.with_name(FOLDER)
        here = {_jsonl.stem(log) if log.is_file() else log.name for log in _entries(folder) if _holds_log(log)}
        return _session_rows.sessions_in(copy, here)

    def write_store(self, path: Path, sources: Iterable[Exported], *, exact: bool, now: int) -> dict[str, int]:
        with _session_store.SessionStore(path) as store:
            if exact:
                own = [log for source in sources for log in source.logs() if log.agent == NAME]
                _session_reindex.keep_rows(store, (log for log in own if f"{DATABASE}#" in log.path))
                folders = (log for log in own if PurePath(log.path).name == f"{LOG}.jsonl")
                _session_reindex.reindex(store, folders, _workspace_pairs, now)
            else:
                for source in sources:
                    _session_store.write_known(store, source, NAME, _is_made)
        return store.counts


class Reader:
    """Folds one log. See ``agents.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None) -> None:
        self._native_id = identity.native_id
        self._state = _state_decoder.decode(state) if state else _State()
        self._touched: dict[str, Turn] = {}
        self._refs: list[FoundRef] = []
        self.unknown: dict[str, int] = Counter()

    @property
    def session(self) -> SessionFacts:
        return self._state.session

    def touched(self) -> Iterator[Turn]:
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def named(self) -> list[FoundRef]:
        """The refs that rows of a database told since the last call."""
        refs, self._refs = self._refs, []
        return refs

    def state(self) -> bytes:
        turn = self._state.turn
        # The prompt of a turn that has begun is in the store already.
        turn = msgspec.structs.replace(turn, prompt="") if turn else None
        return msgspec.json.encode(msgspec.structs.replace(self._state, turn=turn))

    def read(self, line: bytes, seq: int) -> Parsed:
        if _session_document.is_record(line):
            return self._document(line, seq)
        records, is_torn = _records(line)
        at, events = None, [self._unknown("not JSON")] if is_torn else list[Event]()
        for record in records:
            at = _time_ms(record.timestamp)
            if record.table is not None and isinstance(record.row, dict):
                events += self._row(_text(record.table), record.row, at, seq)
            else:
                events += self._record(record, at, seq)
            # A line that lost its end may hold several prompts.
            self._touch(seq)
        return Parsed(at, list(enumerate(events)), self._touch(seq))

    def _touch(self, seq: int) -> Turn | None:
        turn = self._state.turn
        if turn is not None:
            turn.last_seq = seq
            self._touched[turn.uid] = turn
        return turn

    def _record(self, record: _Line, at: int | None, seq: int) -> list[Event]:
        kind, data = _text(record.type), record.data if isinstance(record.data, dict) else {}
        if record.ephemeral is True or kind == "session.title_changed":
            self._note_title(kind, data)
            return []
        if record.agent_id or data.get("parentToolCallId"):
            events = self._state.helpers.named(self._aside(kind, data), kind, data, record.agent_id)
        else:
            events = self._own(kind, data, _text(record.id), at, seq)
            self._close(kind, data, events, at)
        self._note_end(events, at)
        return events

    def _own(self, kind: str, data: dict[str, Any], native_id: str, at: int | None, seq: int) -> list[Event]:
        """What the agent itself, or its user, said and did."""
        match kind:
            case "user.message":
                return self._user(data, native_id, at, seq)
            case "assistant.message":
                return self._answer(kind, data)
            case "assistant.reasoning":
                return self._thinking(kind, _text(data.get("content")))
            case "tool.execution_start":
                return self._started(data)
            case "tool.user_requested":
                return [self._typed_command(data)]
            case "tool.execution_complete":
                return [self._result(data)]
            case "abort":
                return [Error(message=f"aborted: {_text(data.get('reason')) or 'no reason given'}", code="interrupted")]
            case "session.error":
                code = data.get("statusCode") or data.get("errorCode") or data.get("errorType") or ""
                return [Error(message=_plain(data.get("message")), code=_plain(code))]
            case "session.task_complete":
                return _task_complete(data)
            case _:
                return self._session(kind, data)

    def _aside(self, kind: str, data: dict[str, Any]) -> list[Event]:
        """What a helper was told, said and did."""
        match kind:
            case "user.message":
                return _hook("subagent prompt", _prompt_of(data))
            case "assistant.message":
                self._note_answer_tokens(data)
                said = _hook("subagent", _text(data.get("content")))
                return [*self._thinking(kind, _text(data.get("reasoningText"))), *said, *self._requests(data)]
            case "assistant.reasoning":
                return self._thinking(kind, _text(data.get("content")))
            case "tool.execution_start":
                return self._started(data)
            case "tool.execution_complete":
                return [self._result(data)]
            case "session.compaction_complete":
                self._note_compaction_tokens(data)
                return []
            case "abort" | "session.model_change" | "session.task_complete":
                return []
            case "session.error":
                return _hook("subagent error", _plain(data.get("message")))
            case _:
                return self._session(kind, data)

    def _session(self, kind: str, data: dict[str, Any]) -> list[Event]:
        """What is told about a session, whoever is at work in it."""
        match kind:
            case "session.start":
                return [self._begin_session(data)]
            case "session.resume":
                self._note_place(data.get("context"))
                self._state.has_receipts = False
                return self._select(_text(data.get("selectedModel")))
            case "session.context_changed":
                self._note_place(data)
                return []
            case "session.model_change":
                return self._select(_text(data.get("newModel")))
            case "session.auto_mode_resolved":
                return self._route(_text(data.get("chosenModel")))
            case "session.usage_record":
                self._note_receipt(data.get("usage"))
                return []
            case "session.shutdown":
                return self._shut_down(data)
            case "session.compaction_complete":
                return self._compacted(data)
            case _:
                return self._notice(kind, data)

    def _notice(self, kind: str, data: dict[str, Any]) -> list[Event]:
        match kind:
            case "session.context_cleared":
                return [Command(name="/clear", output=_text(data.get("initialMessage")))]
            case "session.handoff":
                return self._handed_off(data)
            case "session.info" | "session.warning":
                name = data.get("infoType") or data.get("warningType") or kind
                return _hook(_plain(name), _plain(data.get("message")))
            case "system.notification":
                about = data.get("kind")
                name = _text(about.get("type")) if isinstance(about, dict) else ""
                return _hook(name or "notification", _plain(data.get("content")))
            case "hook.end":
                told = data.get("error") if data.get("error") is not None else data.get("output")
                return _hook(_text(data.get("hookType")) or "hook", _message(told))
            case "skill.invoked":
                return _hook(f"skill {_text(data.get('name'))}", _plain(data.get("content")))
            case "subagent.failed":
                return _hook("subagent failed", _plain(data.get("error")))
            case "assistant.turn_end":
                return []
            case _:
                is_kept = kind in KEPT or kind.startswith(KEPT_PREFIX)
                return [] if is_kept else [self._unknown(kind or "record without a type")]

    def _row(self, table: str, row: dict[str, Any], at: int | None, seq: int) -> list[Event]:
        """What a row of the database says of a session whose log is gone."""
        match table:
            case "sessions":
                self._note_place(row)
                self._state.session.title = _text(row.get("summary")).strip() or self._state.session.title
                return []
            case "turns":
                prompt, answer = _text(row.get("user_message")), _text(row.get("assistant_response"))
                if prompt.strip():
                    self._begin_turn(f"{self._native_id}/{_number(row.get('turn_index'))}", prompt, at, seq)
                said: list[Event] = [UserMessage(content=prompt)] if prompt.strip() else []
                return [*said, AssistantText(text=answer)] if answer.strip() else said
            case "session_files":
                return self._row_file(row)
            case "session_refs":
                return self._row_ref(row, at, seq)
            case "checkpoints":
                text = _session_rows.checkpoint_text(row)
                return [Compacted(summary=text)] if text else []
            case "assistant_usage_events":
                self._note_row_usage(row)
                return []
            case _:
                return []

    def _row_file(self, row: dict[str, Any]) -> list[Event]:
        """A file that was written, as the call that did it: only calls that went well have such a row."""
        name, path = _text(row.get("tool_name")), _text(row.get("file_path"))
        call_id, tool = f"session_files/{_number(row.get('id'))}", TOOLS.get(name, Tool.EDIT)
        about: dict[str, Any] = {"tool_use_id": call_id, "tool_name": name, "tool": tool, "file_path": path}
        return [ToolCall(**about, input={"path": path}), ToolResult(**about)] if path else []

    def _row_ref(self, row: dict[str, Any], at: int | None, seq: int) -> list[Event]:
        """What was named. The row says in which turn, but not in which words."""
        kind, value = _text(row.get("ref_type")), row.get("ref_value")
        named = _text(value) or (str(value) if _number(value) is not None else "")
        if kind not in REF_TYPES or not named:
            return [self._unknown(f"session_refs of type {kind}")]
        uid = ids.turn_uid(NAME, f"{self._native_id}/{_number(row.get('turn_index'))}")
        turn = self._state.turn
        where = At(seq, 0, uid if turn is not None and turn.uid == uid else None, at)
        self._refs.append(FoundRef(where, Ref(kind, named)))
        return []

    def _note_row_usage(self, row: dict[str, Any]) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
        self._give(_usage({_camel(name): row.get(name) for name in names}))
        self._give_latency(row.get("duration_ms"))
        if self._state.turn is not None and not row.get("agent_id"):
            self._state.turn.model = _text(row.get("model")) or self._state.turn.model

    # documents ----------------------------------------------------------------------------------------------

    def _document(self, record: bytes, seq: int) -> Parsed:
        """A record of a document: what stands in it of its two lists, and what it says of the session."""
        state, found = self._state, _session_document.piece(record)
        if found is None:
            return Parsed(None, [(0, self._unknown("not JSON"))], self._touch(seq))
        at, events = _time_ms(found.rest.get("startTime")), list[Event | None]()
        self._note_document(found.rest)
        if found.messages and not state.has_timeline:
            self._keep_messages(found.messages, len(record))
        for entry in found.entries:
            state.has_timeline, state.messages = True, []
            at = (_time_ms(entry.get("timestamp")) if isinstance(entry, dict) else None) or at
            events += self._entry(entry if isinstance(entry, dict) else {}, at, seq)
            self._touch(seq)
        if found.is_end and not state.has_timeline:
            messages, state.messages = state.messages, []
            for message in messages:
                events += self._message(message, seq)
                self._touch(seq)
        return Parsed(at, [(part, event) for part, event in enumerate(events) if event is not None], self._touch(seq))

    def _keep_messages(self, messages: list[Any], size: int) -> None:
        self._state.messages_bytes += size
        if self._state.messages_bytes <= _MESSAGES_BYTES_MAX:
            self._state.messages += [each for each in messages if isinstance(each, dict)]

    def _note_document(self, rest: dict[str, Any]) -> None:
        state = self._state
        state.selected = _text(rest.get("selectedModel")) or state.selected
        if state.turn is not None:
            state.turn.model = state.turn.model or state.selected

    def _entry(self, entry: dict[str, Any], at: int | None, seq: int) -> list[Event | None]:
        """What an entry of the timeline says; None in the place of an event that was told before."""
        kind, text = _text(entry.get("type")), _text(entry.get("text"))
        match kind:
            case "user":
                events: list[Event | None] = [*self._typed(entry, text, at, seq)]
            case "copilot":
                events = [AssistantText(text=text)] if text else []
            case "tool_call_requested" | "tool_call_completed":
                events = self._entry_call(kind, entry)
            case "info" | "warning":
                events = [*_hook(kind, text)]
            case "error":
                events = [Error(message=text)]
            case _:
                events = [self._unknown(kind or "entry without a type")]
        self._note_entry(kind, [each for each in events if each is not None], at)
        return events

    def _typed(self, entry: dict[str, Any], text: str, at: int | None, seq: int) -> list[Event]:
        typed = strip_context(text)
        prompt = typed if typed.strip() else _attachments(entry.get("imageAttachments"))
        if not prompt:
            return _hook("context", text)
        self._begin_turn(_text(entry.get("id")), prompt, at, seq)
        self._note_document({})
        return [UserMessage(content=prompt)]

    def _entry_call(self, kind: str, entry: dict[str, Any]) -> list[Event | None]:
        """A call with its result, which takes the second place also when the call was told by another entry."""
        data = {name: entry.get(old) for name, old in (("toolCallId", "callId"), ("toolName", "name"))}
        told = self._started({**data, "arguments": entry.get("arguments")})
        if kind == "tool_call_requested":
            return [*told]
        result = entry.get("result")
        is_told = isinstance(result, dict)
        content = _plain(result.get("log")) if isinstance(result, dict) else _plain(result)
        is_good = not isinstance(result, dict) or result.get("type") == "success"
        done = self._result({**data, "success": is_good, "result": {"content": content}})
        return [told[0] if told else None, done if is_told or content else None]

    def _note_entry(self, kind: str, events: list[Event], at: int | None) -> None:
        turn = self._state.turn
        if turn is not None and kind == "copilot":
            turn.outcome = Outcome.COMPLETED
        elif turn is not None and kind == "error":
            turn.outcome = Outcome.FAILED
        elif turn is not None and kind.startswith("tool_call"):
            turn.outcome = None
        self._note_end(events, at)

    def _message(self, message: dict[str, Any], seq: int) -> list[Event]:
        """What a message to or from the model says, in a document that has nothing better."""
        text = _plain(message.get("content"))
        match message.get("role"):
            case "user":
                prompt = strip_context(_ADDED.sub("", text)).strip()
                if not prompt:
                    return _hook("context", text)
                self._begin_turn("", prompt, None, seq)
                return [UserMessage(content=prompt)]
            case "assistant":
                said: list[Event] = [AssistantText(text=text)] if text else []
                calls = message.get("tool_calls")
                for each in calls if isinstance(calls, list) else []:
                    function = each.get("function") if isinstance(each, dict) else None
                    if isinstance(function, dict):
                        given = function.get("arguments")
                        said += self._call(_text(each.get("id")), _text(function.get("name")), given)
                return said
            case "tool":
                return [self._result({"toolCallId": message.get("tool_call_id"), "result": {"content": text}})]
            case "system" | "developer":
                return []
            case _:
                return [self._unknown("message without a role")]

    # where and with what ------------------------------------------------------------------------------------

    def _begin_session(self, data: dict[str, Any]) -> Init:
        state, context = self._state, data.get("context")
        self._note_place(context)
        state.session.agent_version = _text(data.get("copilotVersion")) or state.session.agent_version
        state.selected, state.routed, state.has_prompts = _text(data.get("selectedModel")) or None, None, False
        # Several processes may have written to one file, each counting from zero.
        state.total, state.counted, state.turns_counted, state.has_receipts = Tokens(), Tokens(), 0, False
        state.latency = _latency.Total(0, state.turns_seen)
        cwd = _text(context.get("cwd")) if isinstance(context, dict) else ""
        return Init(cwd=cwd, model=state.selected or "", version=state.session.agent_version or "")

    def _note_place(self, context: Any) -> None:
        if isinstance(context, dict):
            session = self._state.session
            session.cwd = session.cwd or _text(context.get("cwd")) or None
            if branch := _text(context.get("branch")):
                session.on_branch(branch)
            session.repository = _text(context.get("repository")) or session.repository

    def _note_title(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "session.title_changed" and (title := _text(data.get("title")).strip()):
            self._state.session.title = title

    def _select(self, model: str) -> list[Event]:
        if not model or model == self._state.selected:
            return []
        self._state.selected, self._state.routed = model, None
        return [ModelSwitch(model=model)] if self._state.has_prompts else []

    def _route(self, model: str) -> list[Event]:
        before, self._state.routed = self._state.routed, model or self._state.routed
        return [ModelSwitch(model=model)] if model and before not in (None, model) else []

    def _handed_off(self, data: dict[str, Any]) -> list[Event]:
        repository = data.get("repository")
        if isinstance(repository, dict) and repository.get("owner") and repository.get("name"):
            name = f"{_text(repository['owner'])}/{_text(repository['name'])}"
            self._note_place({"repository": name, "branch": repository.get("branch")})
        told = [_plain(data.get("context")), _plain(data.get("summary"))]
        return _hook("handoff", "\n\n".join(text for text in told if text))

    # prompts and answers ------------------------------------------------------------------------------------

    def _user(self, data: dict[str, Any], native_id: str, at: int | None, seq: int) -> list[Event]:
        source = _text(data.get("source"))
        if data.get("isAutopilotContinuation") is True:
            return _hook("autopilot", _prompt_of(data))
        if _NOT_TYPED.match(source):
            return _hook(source, _prompt_of(data))
        text = _text(data.get("content"))
        typed = strip_context(text)
        attached = _attachments(data.get("attachments"))
        prompt = typed if typed.strip() else attached
        if not prompt:
            return _hook("context", text)
        self._begin_turn(native_id, prompt, at, seq)
        return [UserMessage(content=prompt)]

    def _begin_turn(self, native_id: str, prompt: str, at: int | None, seq: int) -> None:
        state, before = self._state, self._state.turn
        state.turns_seen += 1
        state.turns_counted += 1
        # A prompt may come while the agent works: then it goes on working, for this one.
        state.has_answered, state.has_prompts = False, True
        state.turn = Turn(
            uid=ids.turn_uid(NAME, native_id or f"{self._native_id}/{state.turns_seen}"),
            agent=NAME,
            native_id=native_id,
            first_seq=seq,
            last_seq=seq,
            parent_uid=before.uid if before else None,
            parent_seq=before.last_seq if before else None,
            prompt=prompt,
            started=at,
        )

    def _answer(self, kind: str, data: dict[str, Any]) -> list[Event]:
        self._note_answer_tokens(data)
        if self._state.turn is not None:
            self._state.turn.model = _text(data.get("model")) or self._state.turn.model
        text = _plain(data.get("content"))
        said: list[Event] = [AssistantText(text=text)] if text else []
        requests = self._requests(data)
        self._state.has_answered = not requests
        return [*self._thinking(kind, _text(data.get("reasoningText"))), *said, *requests]

    def _thinking(self, kind: str, text: str) -> list[Event]:
        """What was thought, unless the last thinking is the same, told by a record of the other kind."""
        if not text:
            return []
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        last, self._state.thought = self._state.thought, (kind, digest)
        return [] if last[1] == digest and last[0] != kind else [Thinking(text=text)]

    # tools --------------------------------------------------------------------------------------------------

    def _requests(self, data: dict[str, Any]) -> list[Event]:
        requests = data.get("toolRequests")
        asked = [each for each in requests if isinstance(each, dict)] if isinstance(requests, list) else []
        events: list[Event] = []
        for each in asked:
            events += self._call(_text(each.get("toolCallId")), _text(each.get("name")), each.get("arguments"))
        return events

    def _typed_command(self, data: dict[str, Any]) -> Command:
        """A shell command that the user typed after a ``!``; the model had no part in it."""
        self._started(data)
        command = _text(_arguments(data.get("arguments")).get("command"))
        return Command(name=f"! {command or _text(data.get('toolName'))}")

    def _started(self, data: dict[str, Any]) -> list[Event]:
        """A call that no answer asked for, such as one that code of the model's makes."""
        call_id = _text(data.get("toolCallId"))
        if call_id in self._state.calls:
            return []
        return self._call(call_id, _text(data.get("toolName")), data.get("arguments"))

    def _call(self, call_id: str, name: str, arguments: Any) -> list[Event]:
        given = _arguments(arguments)
        tool, path = TOOLS.get(name, Tool.OTHER), _path_in(given)
        if name == "str_replace_editor":
            tool = EDITOR_COMMANDS.get(_text(given.get("command")), tool)
        calls = self._state.calls
        calls[call_id] = _Call(name, tool, path)
        if len(calls) > _CALLS_OPEN_MAX:
            calls.pop(next(iter(calls)))
        call = ToolCall(tool_use_id=call_id, tool_name=name, tool=tool, file_path=path, input=given)
        plan = _text(given.get("summary")) if name == "exit_plan_mode" else ""
        return [call, Plan(name=name, content=plan)] if plan else [call]

    def _result(self, data: dict[str, Any]) -> Event:
        call_id = _text(data.get("toolCallId"))
        call = self._state.calls.pop(call_id, None) or _Call("", "")
        content = _result_text(data)
        if data.get("isUserRequested") is True:
            return Command(name="", output=content)
        return ToolResult(
            tool_use_id=call_id,
            tool_name=call.name,
            tool=call.tool,
            file_path=call.path or _edited(data.get("fileEdits")),
            content=content,
            is_error=data.get("success") is False or _exit_code(data, call.tool, content) != 0,
        )

    # how a turn stands --------------------------------------------------------------------------------------

    def _close(self, kind: str, data: dict[str, Any], events: list[Event], at: int | None) -> None:
        """Note what a record of the agent's own says about how its turn stands."""
        state, turn = self._state, self._state.turn
        if turn is None:
            return
        match kind:
            case "assistant.turn_start":
                state.is_running, turn.outcome = True, None
            case "assistant.turn_end":
                state.is_running = not state.has_answered
                turn.outcome = turn.outcome or (Outcome.COMPLETED if state.has_answered else None)
            case "assistant.message":
                turn.outcome = Outcome.COMPLETED if state.has_answered and events else None
            case "abort":
                state.is_running, turn.outcome = False, Outcome.CANCELLED
                turn.stop_reason = _text(data.get("reason")) or turn.stop_reason
            case "session.error":
                state.is_running, turn.outcome = False, Outcome.FAILED
            case "session.task_complete" if _text(data.get("outcome")) != "continue":
                # What follows in the same step is the end of it.
                state.is_running, state.has_answered = False, True
                turn.outcome = Outcome.FAILED if data.get("success") is False else Outcome.COMPLETED
                turn.stop_reason = _text(data.get("outcome")) or turn.stop_reason
            case "session.start" | "session.resume" if state.is_running and data.get("sessionWasActive") is not True:
                # The process before this one never said that it ended.
                state.is_running, turn.outcome = False, Outcome.CRASHED
            case "session.shutdown" if state.is_running and turn.outcome is None:
                state.is_running, turn.ended = False, at or turn.ended
                turn.outcome = Outcome.CRASHED if data.get("shutdownType") == "error" else Outcome.CANCELLED

    def _note_end(self, events: list[Event], at: int | None) -> None:
        turn = self._state.turn
        # What comes when a turn is over, such as a warning or another model, does not make it longer.
        if turn is None or at is None or not events:
            return
        if not all(isinstance(each, _BESIDE) for each in events):
            turn.ended = at if turn.ended is None else max(turn.ended, at)

    def _shut_down(self, data: dict[str, Any]) -> list[Event]:
        self._note_totals(data.get("modelMetrics"), data.get("totalApiDurationMs"))
        reason = _plain(data.get("errorReason")) if data.get("shutdownType") == "error" else ""
        return [Error(message=reason, code="shutdown")] if reason else []

    def _compacted(self, data: dict[str, Any]) -> list[Event]:
        self._note_compaction_tokens(data)
        if data.get("success") is False:
            return _hook("compaction failed", _plain(data.get("error")) or _plain(data.get("outcomeReason")))
        return [Compacted(summary=_plain(data.get("summaryContent")))]

    # tokens -------------------------------------------------------------------------------------------------

    def _note_receipt(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self._state.has_receipts = True
        self._count(_usage(usage))
        self._give_latency(usage.get("duration"))
        turn = self._state.turn
        if turn is not None and not usage.get("parentToolCallId"):
            turn.model = _text(usage.get("model")) or turn.model
            turn.stop_reason = _text(usage.get("finishReason")) or turn.stop_reason

    def _note_answer_tokens(self, data: dict[str, Any]) -> None:
        """The output tokens of a request that has no receipt; each of its records may tell them."""
        output = _numbers.count(data.get("outputTokens"), "outputTokens")
        if output is None or self._state.has_receipts:
            return
        key = _text(data.get("apiCallId")) or _text(data.get("messageId"))
        last, before = self._state.answer
        known = before if key and key == last else 0
        self._state.answer = (key, max(known, output))
        more = max(output - known, 0)
        # Nearly every answer comes here, so nothing is made anew.
        self._state.counted.output = added(self._state.counted.output, more)
        if self._state.turn is not None:
            self._state.turn.tokens.output = added(self._state.turn.tokens.output, more)
            self._state.turn.tokens_source = self._state.turn.tokens_source or "reported"

    def _note_compaction_tokens(self, data: dict[str, Any]) -> None:
        used = data.get("compactionTokensUsed")
        if isinstance(used, dict):
            self._give(_usage(used))
            # Without receipts the time of the turn's other requests is not known.
            self._give_latency(used.get("duration") if self._state.has_receipts else None)

    def _note_totals(self, metrics: Any, latency_ms: Any) -> None:
        """What a process says it used in all: from it comes what its requests did not tell."""
        if not isinstance(metrics, dict) or not metrics:
            return
        state, total = self._state, Tokens()
        for each in metrics.values():
            usage = each.get("usage") if isinstance(each, dict) else None
            total = _token_sums.sum_of(total, _usage(usage)) if isinstance(usage, dict) else total
        grown = _token_sums.since(total, state.total, state.counted)
        total_ms = _numbers.count(latency_ms, "api_latency_ms")
        lasted_ms = state.latency.grown_ms(total_ms, state.turns_seen, is_anew=grown is total)
        if not state.has_receipts:
            self._give_latency(lasted_ms)
        rest = _token_sums.above_zero(_token_sums.difference(grown, state.counted))
        if any(msgspec.structs.astuple(rest)):
            self._give(rest)
            if state.turn is not None and state.turn.model is None and len(metrics) == 1:
                # A turn that failed before its first answer names no model, and now holds this one's tokens.
                state.turn.model = next(iter(metrics))
            if state.turn is not None and state.turns_counted > 1:
                state.turn.tokens_source = "run"
        elif state.turn is not None and state.turn.tokens_source:
            # A zero that is told is known, too.
            self._give(rest)
        state.total, state.counted, state.turns_counted = total, Tokens(), 0

    def _count(self, tokens: Tokens) -> None:
        self._state.counted = _token_sums.sum_of(self._state.counted, tokens)
        self._give(tokens)

    def _give(self, tokens: Tokens) -> None:
        turn = self._state.turn
        if turn is not None:
            turn.tokens = _token_sums.sum_of(turn.tokens, tokens)
            turn.tokens_source = turn.tokens_source or "reported"

    def _give_latency(self, told: Any) -> None:
        """Add how long the model took for a request to the turn that it was for."""
        lasted_ms, turn = _numbers.count(told, "api_latency_ms"), self._state.turn
        if lasted_ms is not None and turn is not None:
            turn.api_latency_ms = added(lasted_ms, turn.api_latency_ms)

    def _unknown(self, kind: str) -> Unknown:
        self.unknown[kind] = self.unknown.get(kind, 0) + 1
        return Unknown(type=kind)


# records ------------------------------------------------------------------------------------------------------


def _records(line: bytes) -> tuple[list[_Line], bool]:
    """The records on a line, and whether something there is none: all of it, or a torn record before whole ones."""
    try:
        return _jsonl.decode(line, _decoder), False
    except _jsonl.NotJson:
        pass
    for found in islice(_START.finditer(line, 1), _STARTS_TRIED_MAX):
        try:
            return _jsonl.decode(line[found.start() :], _decoder), True
        except _jsonl.NotJson:
            continue
    return [], True


def _is_ours(line: bytes) -> bool:
    records, is_torn = _records(line)
    # A record may be longer than what is looked at.
    if is_torn and (found := _START.match(line)) and _TYPES.match(found.group(1).decode("ascii")):
        return True
    return any(_TYPES.match(_text(each.type)) and each.id and isinstance(each.data, dict) for each in records)


def _session_started(line: bytes) -> dict[str, Any] | None:
    """What the record that a session began says, where it is on this line."""
    starts = [each.data for each in _records(line)[0] if each.type == "session.start"]
    return starts[0] if starts and isinstance(starts[0], dict) else None


def _identify_document(path: Path, head: bytes) -> LogIdentity | None:
    told = _session_document.session_of(head)
    if told is None:
        return None
    named = _DOCUMENT_ID.match(path.stem)
    return LogIdentity(native_id=told or (named.group(1) if named else path.stem))


def _holds_documents(root: Path) -> bool:
    """Whether the earliest builds' folder is there, and is not only the way to another one."""
    folder = root / EARLIEST
    return folder.is_dir() and not folder.is_symlink()


def _is_moved(root: Path) -> bool:
    """Whether a root's sessions lie elsewhere by now, so that this is only the way to them."""
    return (root / FOLDER).is_symlink()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _holds_log(entry: Path) -> bool:
    """Whether an entry of the sessions' folder is a log, or has one."""
    if entry.name.endswith(_jsonl.ENDINGS):
        return True
    return any((entry / f"{LOG}{ending}").exists() for ending in _jsonl.ENDINGS)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _task_complete(data: dict[str, Any]) -> list[Event]:
    summary = _plain(data.get("summary"))
    said: list[Event] = [AssistantText(text=summary)] if summary else []
    if _text(data.get("outcome")) == "continue":
        return said
    return [*said, Complete(success=data.get("success") is not False)]


# companions ---------------------------------------------------------------------------------------------------


def _is_made(name: str) -> bool:
    """Whether a companion is a session's own work, not a note about it."""
    return name == PLAN or name.partition("/")[0] in MADE


def _workspace_pairs(text: str) -> dict[str, str]:
    return _flat_yaml(text.removeprefix("\ufeff").replace("\r\n", "\n"))


def _workspace(told: dict[str, str]) -> CompanionFacts:
    # Once the title stood under "summary"; a name beside one is the user's.
    name, summary = told.get("name", "").strip(), told.get("summary", "").strip()
    return CompanionFacts(
        title=(name or summary)[:_TITLE_CHARS_MAX] or None,
        is_title_given=bool(name) and told.get("user_named", "true" if summary else "false") == "true",
        cwd=told.get("cwd") or None,
        repository=told.get("repository") or None,
        branch=told.get("branch") or None,
    )


def _flat_yaml(text: str) -> dict[str, str]:
    """The texts of a document of ``key: value`` lines. What is no plain text on one line, or a block, is left out."""
    told: dict[str, str] = {}
    lines = iter(text.split("\n"))
    line = next(lines, None)
    while line is not None:
        found, line = _YAML_PAIR.match(line.rstrip()), next(lines, None)
        block: list[str] = []
        while line is not None and (line.startswith(" ") or not line.strip()):
            block.append(line)
            line = next(lines, None)
        value = _yaml_value((found.group(2) or "").strip(), block) if found else None
        if found and value is not None:
            told.setdefault(found.group(1), value)
    return told


def _yaml_value(given: str, block: list[str]) -> str | None:
    if _YAML_BLOCK.match(given):
        return ("\n" if given[0] == "|" else " ").join(line.strip() for line in block).strip()
    if any(line.strip() for line in block):
        return None
    if given.startswith('"'):
        try:
            return str(_text_decoder.decode(given))
        except (msgspec.DecodeError, RecursionError):
            return None
    if given.startswith("'"):
        inner = given[1:-1].replace("''", "")
        return given[1:-1].replace("''", "'") if len(given) > 1 and given[-1] == "'" and "'" not in inner else None
    plain = given.partition(" #")[0].rstrip()
    return None if plain in _YAML_NOTHING or _YAML_NOT_TEXT.match(plain) or ": " in plain else plain


# what was given and what came back ----------------------------------------------------------------------------


def _arguments(arguments: Any) -> dict[str, Any]:
    """A call's input by name; a patch, which is a text alone, as ``input``."""
    if isinstance(arguments, dict):
        return arguments
    text = _text(arguments)
    try:
        given = _any_decoder.decode(text) if text.lstrip().startswith("{") else None
    except (msgspec.DecodeError, RecursionError):
        given = None
    if isinstance(given, dict):
        return given
    return {} if arguments is None else {"input": text or arguments}


def _path_in(given: dict[str, Any]) -> str | None:
    for name in ("path", "file_path"):
        if isinstance(given.get(name), str):
            return str(given[name])
    found = _PATCHED.search(_text(given.get("input")) or _text(given.get("patch")))
    return found.group(1).strip()[:_PATH_MAX] if found else None


def _edited(edits: Any) -> str | None:
    """The first file that a tool says it changed."""
    first = edits[0] if isinstance(edits, list) and edits else None
    return (_text(first.get("path")) or None) if isinstance(first, dict) else None


def _result_text(data: dict[str, Any]) -> str:
    result, error = data.get("result"), data.get("error")
    if not isinstance(result, dict):
        return _plain(result) or _message(error)
    told = _plain(result.get("content")) or _plain(result.get("detailedContent")) or _message(error)
    return told or ("[image]" if result.get("binaryResultsForLlm") else "")


def _exit_code(data: dict[str, Any], tool: str, content: str) -> int:
    """A command's exit code, 0 for other tools: newer builds tell it, older ones write it under the output."""
    shell = data.get("shellExecution")
    if isinstance(shell, dict) and (code := _number(shell.get("exitCode"))) is not None:
        return code
    found = _EXIT_CODE.search(content[-200:]) if tool == Tool.SHELL else None
    return int(found.group(1)) if found else 0


def _attachments(attached: Any) -> str:
    """A prompt that consists of what is attached to it."""
    parts = [each for each in attached if isinstance(each, dict)] if isinstance(attached, list) else []
    named = (_text(each.get("displayName")) or _text(each.get("path")) or _text(each.get("type")) for each in parts)
    return "\n".join(f"[{name or 'attachment'}]" for name in named)


def _prompt_of(data: dict[str, Any]) -> str:
    """Words in the user's place: some are only told as they were sent."""
    return _plain(data.get("content")) or _SENT_AT.sub("", _plain(data.get("transformedContent")))


def _hook(name: str, output: str) -> list[Event]:
    return [Hook(name=name, output=output)] if output.strip() else []


def _message(value: Any) -> str:
    """What an error, or a hook's output, says."""
    if isinstance(value, dict):
        for name in ("message", "additionalContext"):
            if isinstance(value.get(name), str):
                return str(value[name])
    return _plain(value) if value else ""


def _plain(value: Any) -> str:
    """The text of a value: a string, parts with text, or anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text for text in map(_plain, value) if text)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    return encoded(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < _NUMBER_MAX else None


def _time_ms(value: Any) -> int | None:
    return _numbers.time_ms(value)


# tokens -------------------------------------------------------------------------------------------------------


def _usage(usage: dict[str, Any]) -> Tokens:
    told, output, read, written, reasoning = (_numbers.count(usage.get(name), name) for name in _USAGE)
    return Tokens(
        # What came from the cache, or went into it, is counted as input too.
        input=None if told is None else max(told - (read or 0) - (written or 0), 0),
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


AGENT = Copilot()
