"""Claude Code's logs: ``projects/<encoded cwd>/<session>.jsonl`` below CLAUDE_CONFIG_DIR (else ~/.claude).

Source: recorded logs of 2.0 to 2.1.330. A line is a record with a ``type``; those of a conversation carry
``uuid`` and ``parentUuid``. An assistant message is several records (one content block each) with one
``message.id`` and a growing ``usage``. A helper's log lies in ``<session>/subagents/agent-<id>.jsonl``
(older builds: beside the session) and carries the parent's session id. Resumed and forked copies repeat
records with the same uuid, so a turn, known by the uuid of its prompt, is the same turn in both.

A run is ``claude -p`` with ``stream-json``: the blocks of messages are those of the log, but a message's true usage
is only in its ``stream_event`` records. One run may tell several ``init`` and ``result`` records, and ends when the
process does. Cost is a running total; the usage of a result is its own.

Its prompt is a line on a stdin that stays open. A further line is taken up behind the next tool's result, else when the
answer is done; at the end of stdin the agent answers what it was told and ends. ``command_lifecycle`` records say which
lines were taken up, by a uuid that we chose; the log has it as ``source_uuid`` of a ``queued_command``, or as the uuid
of a prompt.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter, deque
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import (
    _changed_files,
    _claude_prompts,
    _jsonl,
    _latency,
    _numbers,
    _reported,
    _usage_of_messages,
)
from backstory.agents.contract import Agent, Ending, LogRoot, SidecarContent, SteerState, Streamed
from backstory.bounds import added
from backstory.conversation.context import told_as
from backstory.model import (
    PARTIAL,
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    FoundSummary,
    Hook,
    Init,
    LogIdentity,
    Outcome,
    Parsed,
    Permissions,
    Plan,
    Relation,
    Retry,
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

    from backstory.agents.contract import Exit

NAME = "claude"

TOOLS = {
    "Read": Tool.READ,
    "NotebookRead": Tool.READ,
    "Edit": Tool.EDIT,
    "MultiEdit": Tool.EDIT,
    "NotebookEdit": Tool.EDIT,
    "Write": Tool.WRITE,
    "Bash": Tool.SHELL,
    "BashOutput": Tool.SHELL,
    "Grep": Tool.GREP,
    "Glob": Tool.GLOB,
    "Task": Tool.TASK,
    "Agent": Tool.TASK,
    "WebFetch": Tool.FETCH,
    "WebSearch": Tool.SEARCH,
}

KEPT = frozenset(
    {
        "agent-setting", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "bridge-session",
        "file-history-snapshot", "frame-link", "last-prompt", "mode", "permission-mode", "pr-link", "progress",
        "queue-operation", "tools-used", "worktree-state",
    }
)  # fmt: skip
"""Types whose records say nothing that is shown; their bytes are kept."""

KEPT_SYSTEM = frozenset(
    {
        "away_summary", "compact_boundary", "informational", "microcompact_boundary", "model_fallback",
        "scheduled_task_fire", "turn_duration",
    }
)  # fmt: skip
KEPT_ATTACHMENTS = frozenset(
    {
        "agent_listing_delta", "auto_mode", "auto_mode_exit", "budget_usd", "command_permissions", "companion_intro",
        "compact_file_reference",
        "date", "date_change", "deferred_tools_delta", "diagnostics", "directory", "edited_text_file", "environment",
        "file", "goal_status", "invoked_skills", "mcp_instructions_delta", "mcp_resource", "model", "nested_memory",
        "opened_file_in_ide", "output_style", "plan_mode", "plan_mode_exit", "plan_file_reference", "prompt_snapshot",
        "relevant_memories", "remote_session_change", "selected_lines_in_ide", "session_context",
        "silent_turn_reminder", "skill_listing", "structured_output", "task_reminder", "task_status", "todo",
        "todo_reminder", "token_usage", "total_tokens_reminder", "ultra_memory", "unknown_command_fallback",
    }
)  # fmt: skip
KEPT_BLOCKS = frozenset({"redacted_thinking", "document", "container_upload", "fallback"})

KEPT_STREAM = frozenset(
    {
        "auth_status", "command_lifecycle", "control_cancel_request", "control_request", "control_response",
        "keep_alive", "prompt_suggestion", "rate_limit_event", "tool_progress", "tool_use_summary",
    }
)  # fmt: skip
KEPT_STREAM_SYSTEM = frozenset(
    {
        "background_tasks_changed", "elicitation_complete", "files_persisted", "hook_progress", "hook_response",
        "hook_started", "local_command_output", "permission_denied", "post_turn_summary", "session_state_changed",
        "status", "task_notification", "task_progress", "task_started", "task_updated", "thinking_tokens",
    }
)  # fmt: skip

PERMISSIONS = {
    Permissions.AGENT: [],
    Permissions.ASK: ["--permission-mode", "default"],
    Permissions.EDIT: ["--permission-mode", "acceptEdits"],
    Permissions.ALL: ["--dangerously-skip-permissions"],
}

_WORD = b"bkstry"
"""The first bytes of the ids of words that a run of ours was told while it went on: a version 8 uuid, ours to fill."""
_WORD_IDS = "626b7374-7279-8"
_ACKNOWLEDGES = "msg_lifecycle_v1"
"""Among the capabilities of a version that tells which words it takes up."""

_TITLE_RANK = {"summary": 1, "ai-title": 2, "agent-name": 3, "custom-title": 4}
_QUEUED_MAX = 100
_WORDS_TOLD_MAX = 16
_ABSORBED = "absorbed_mid_turn"
_MAX_TURNS = "max_turns"
_CALLS_OPEN_MAX = 2_000
_RECENT_ANCHORS = 16
_MESSAGES_OPEN_MAX = 16
_HEADS_MAX = 2_000
_STDERR_LINES_HELD_MAX = 20
_CODE_OF_SIGNAL_MIN = 129

_META_ENDING = ".meta.json"
_SPILLED = re.compile(r"<persisted-output>\nOutput too large [^\n]*[/\\]tool-results[/\\]([^/\\\n]+)\n")
_OURS = re.compile(rb'"(?:sessionId|leafUuid|parentUuid|messageId)"\s*:')
_SESSION_ID = re.compile(rb'"sessionId"\s*:\s*"([^"]+)"')
_NOT_OF_A_COMMAND = ("<", "Caveat: ", "Continue from where you left off")
_REFUSED = re.compile(r"the user said:\n(?!The user wants to clarify these questions)(.+)", re.DOTALL)
_ASKING = "AskUserQuestion"
_PLANNING = "ExitPlanMode"
_PLANS_OPEN_MAX = 4
_USER_REFUSED = "The user doesn't want to proceed"
_ANSWERED = "User has answered your questions:"
_ANSWER = re.compile(r'"="([^"]*)"')
_NOTICE = re.compile(
    r"No response requested\.|API Error|Invalid API key|Credit balance|Claude (?:AI )?usage limit|Prompt is too long"
    r"|Please run /login"
)


class _Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None


class _Answered(Struct):
    """A result of the tool that asks the user."""

    answers: dict[str, Any] = field(default_factory=dict)


class _Message(Struct):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block | str] | None = None
    usage: _usage_of_messages.Usage | None = None
    stop_reason: str | None = None


class _Line(Struct, rename="camel"):
    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: Any = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    is_meta: bool | None = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    request_id: str | None = None
    message: _Message | None = None
    attachment: Any = None
    content: Any = None
    duration_ms: Any = None
    retry_attempt: Any = None
    error: Any = None
    hook_errors: Any = None
    api_error_status: int | str | None = None
    summary: Any = None
    leaf_uuid: Any = None
    operation: str | None = None
    reason: Any = None
    command_uuid: Any = None
    tool_use_result: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()
    ai_title: Any = None
    custom_title: Any = None
    agent_name: Any = None
    cost_usd: Any = field(default=None, name="costUSD")
    total_cost_usd: Any = field(default=None, name="totalCostUSD")
    total_api_duration: Any = field(default=None, name="totalAPIDuration")


class _State(Struct, kw_only=True):
    """What a reader needs to go on: bounded, whatever the log's size."""

    session: SessionFacts = field(default_factory=SessionFacts)
    title_rank: int = 0
    turn: Turn | None = None
    turns_seen: int = 0
    usage: dict[str, _usage_of_messages.Counted] = field(default_factory=dict)
    unfinished: dict[str, bool] = field(default_factory=dict)
    """Messages of the turn whose final count was not told, in order; some of them, where there are many."""
    finished: list[str] = field(default_factory=list)
    calls: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    last_anchor: str | None = None
    recent: dict[str, str | None] = field(default_factory=dict)
    heads: dict[str, tuple[str | None, int | None]] = field(default_factory=dict)
    cost_seen: float | None = None
    latency: _latency.Total = field(default_factory=_latency.Total)
    plans: dict[str, str] = field(default_factory=dict)
    """Plans whose call has no result yet."""
    queued: list[str] = field(default_factory=list)
    """Words typed while the agent works, which it was not yet given."""
    told: list[str] = field(default_factory=list)
    """The last of those that it was given in the midst of a turn; newer builds log them a second time."""
    absorbed: list[str] = field(default_factory=list)
    """The ids of words that were given to it so, which the log has still to tell."""
    command: tuple[str, str, int | None] | None = None
    """A command's uuid, as typed, and when: a prompt if what follows it is told to the model."""


class _Meta(Struct):
    """What lies beside a helper's log."""

    description: str = ""


class _Delta(Struct):
    type: str = ""
    text: str | None = None
    stop_reason: str | None = None


class _StreamEvent(Struct):
    type: str = ""
    message: _Message | None = None
    delta: _Delta | None = None
    usage: _usage_of_messages.Usage | None = None


class _StreamLine(Struct):
    type: str = ""
    tool_use_result: msgspec.Raw = msgspec.Raw()
    subtype: str | None = None
    command_uuid: str | None = None
    state: Any = None
    capabilities: Any = None
    session_id: str | None = None
    parent_tool_use_id: str | None = None
    message: _Message | str | None = None
    event: _StreamEvent | None = None
    cwd: str | None = None
    model: str | None = None
    claude_code_version: str | None = None
    is_synthetic: bool | None = field(default=None, name="isSynthetic")
    is_api_error_message: bool | None = None
    api_error_status: int | str | None = None
    attempt: Any = None
    error: Any = None
    error_status: int | str | None = None
    is_error: bool | None = None
    result: Any = None
    errors: Any = None
    terminal_reason: str | None = None
    local_command: Any = None
    local_command_source: Any = None
    stop_reason: str | None = None
    duration_ms: Any = None
    duration_api_ms: Any = None
    total_cost_usd: Any = None
    usage: _usage_of_messages.Usage | None = None


_decoder = msgspec.json.Decoder(_Line)
_stream_decoder = msgspec.json.Decoder(_StreamLine)
_state_decoder = msgspec.json.Decoder(_State)


class Logs:
    """See ``contract.LogPart``."""

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
        return [LogRoot(folder=root / "projects", root=root)]

    def is_log(self, path: Path) -> bool:
        return path.name.endswith(_jsonl.ENDINGS) and path.name != "journal.jsonl"

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if not _OURS.search(head):
            return None
        # A log of what is reported of a subagent is called like its parent's, with the subagent's id behind it.
        name, _, subagent = path.name.partition("#")
        stem = _jsonl.stem(path.with_name(name))
        if subagent and not stem.startswith("agent-"):
            return LogIdentity(native_id=f"{stem}/{subagent}", parent_native_id=stem, relation=Relation.SUBAGENT)
        if not stem.startswith("agent-"):
            return LogIdentity(native_id=stem)
        parent = next((folder.parent.name for folder in path.parents if folder.name == "subagents"), None)
        if parent is None:
            found = _SESSION_ID.search(head)
            parent = found.group(1).decode("utf-8", "replace") if found else None
        if parent is None:
            # A first record that is torn may still say it.
            return LogIdentity(native_id=stem) if b"\n" in head else None
        native_id = f"{parent}/{subagent or stem.removeprefix('agent-')}"
        return LogIdentity(native_id=native_id, parent_native_id=parent, relation=Relation.SUBAGENT)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(identity, state, earlier)

    def is_whole(self, line: bytes) -> bool:
        return _jsonl.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        try:
            return _jsonl.decode(line, _decoder)[0].uuid
        except _jsonl.NotJson:
            return None


class Reports:
    """See ``contract.ReportPart``."""

    def reported(self, line: bytes) -> list[tuple[str, bytes]]:
        return _reported.reported(line)

    def own_logs(self, path: Path, subagent: str) -> list[Path]:
        inside = path.parent if path.parent.name == "subagents" else path.with_suffix("") / "subagents"
        return [folder / f"agent-{subagent}{ending}" for folder in (inside, path.parent) for ending in _jsonl.ENDINGS]


class Sidecars:
    """See ``contract.SidecarPart``."""

    def log_of(self, below: PurePath) -> PurePath | None:
        """Beside a helper's log lies what it was started as; in ``<session>/`` results too long for the log, and
        workflows with their journals."""
        if below.name.startswith("agent-") and below.name.endswith(_META_ENDING):
            return below.with_name(f"{below.name.removesuffix(_META_ENDING)}.jsonl")
        match below.parts:
            case (project, session, "tool-results", _):
                return PurePath(project, f"{session}.jsonl")
            case (project, session, "workflows", name) if name.endswith(".json"):
                return PurePath(project, f"{session}.jsonl")
            case (project, session, "subagents", "workflows", _, "journal.jsonl"):
                return PurePath(project, f"{session}.jsonl")
        return None

    def is_read(self, name: str) -> bool:
        return name.endswith(_META_ENDING)

    def read(self, name: str, content: bytes) -> SidecarContent:
        try:
            described = msgspec.json.decode(content, type=_Meta).description if self.is_read(name) else ""
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            described = ""
        return SidecarContent(title=described.strip() or None)

    def spilled_to(self, result: ToolResult) -> str | None:
        found = _SPILLED.match(result.content)
        return f"/tool-results/{found.group(1)}" if found else None


class Runs:
    """See ``contract.RunPart``."""

    executable = "claude"
    prompt_chars_max: int | None = None

    def native_id(self, randomness: bytes) -> str | None:
        return str(uuid.UUID(bytes=randomness[:16], version=4))

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        words = [executable, "-p", "--verbose", "--output-format", "stream-json", "--include-partial-messages"]
        words += ["--session-id", native_id] if native_id else []
        words += ["--model", model] if model else []
        return words + PERMISSIONS[permissions]

    def stream_reader(self) -> StreamReader:
        return StreamReader()


class Steering:
    """See ``contract.SteerPart``."""

    def streaming_command(self, command: list[str]) -> list[str]:
        return [*command, "--input-format", "stream-json"]

    def encode_message(self, text: str, message_id: str = "") -> bytes:
        said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        line = json.dumps({**said, "uuid": message_id} if message_id else said, ensure_ascii=False)
        return line.encode("utf-8", "surrogatepass") + b"\n"

    def message_id(self, uid: str) -> str:
        rest = hashlib.sha256(uid.encode()).digest()[: 16 - len(_WORD)]
        # Version 8 and the variant stand in the first bits of the two bytes that they share.
        filled = bytes([*_WORD, 0x80 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F, *rest[3:]])
        return str(uuid.UUID(bytes=filled))


class Reader:
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        self._is_helper = identity.relation == Relation.SUBAGENT
        self._native_id = identity.native_id
        self._state = _state_decoder.decode(state) if state else _State()
        self._anchors = dict(self._state.recent)
        self._earlier: Callable[[], Iterable[bytes]] | None = earlier if state else None
        self._touched: dict[str, Turn] = {}
        self._has_reports = False
        self._record_ids: list[str] = []
        self._summaries: list[FoundSummary] = []
        self.unknown: dict[str, int] = Counter()

    @property
    def session(self) -> SessionFacts:
        return self._state.session

    def touched(self) -> Iterator[Turn]:
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def state(self) -> bytes:
        recent = dict(list(self._anchors.items())[-_RECENT_ANCHORS:])
        turn = self._state.turn
        # The prompt of a turn that has begun is in the store already.
        turn = msgspec.structs.replace(turn, prompt="") if turn else None
        return msgspec.json.encode(msgspec.structs.replace(self._state, recent=recent, turn=turn))

    def read(self, line: bytes, seq: int) -> Parsed:
        self._has_reports, self._record_ids, self._summaries = False, [], []
        try:
            records = _jsonl.decode(line, _decoder)
        except _jsonl.NotJson:
            return Parsed(None, [(0, self._unknown("not JSON"))], self._turn_at(seq))
        at, events = None, []
        for record in records:
            at = _numbers.time_ms(record.timestamp)
            events += self._record(record, at, seq)
        turn = self._turn_at(seq)
        # A plan stands behind the result that tells its call did not fail, and ends nothing.
        said = [event for event in events if not isinstance(event, Plan)]
        if turn is not None and said:
            self._close(turn, said, at)
        return Parsed(
            at, list(enumerate(events)), turn, summaries=self._summaries, record_ids=self._record_ids,
            has_reports=self._has_reports,
        )  # fmt: skip

    def _record(self, record: _Line, at: int | None, seq: int) -> list[Event]:
        self._note_session(record)
        before = self._state.turn
        if record.uuid is None:
            return self._control(record)
        if record.uuid in self._anchors:
            # Two processes that write one log may both write a record.
            return []
        if not self._is_helper:
            self._record_ids.append(record.uuid)
        nearest = self._anchor_of(record.parent_uuid)
        if self._state.turn is None and record.type == "assistant" and not record.is_sidechain:
            # A log may begin in the midst of a conversation whose prompt it does not hold.
            self._begin_turn("", "", at, seq, nearest)
        events = self._conversation(record, at, seq, nearest)
        aside = record.is_sidechain and not self._is_helper
        begins = self._state.turn is not before or (bool(events) and isinstance(events[0], UserMessage))
        said = begins or record.type == "assistant"
        self._anchors[record.uuid] = record.uuid if said and not aside else nearest
        self._state.last_anchor = self._anchors[record.uuid]
        return events

    def _note_session(self, record: _Line) -> None:
        session = self._state.session
        if record.cwd:
            session.cwd = session.cwd or record.cwd
            session.agent_version = record.version or session.agent_version
            if record.git_branch and record.git_branch != "HEAD":
                session.on_branch(record.git_branch)

    def _control(self, record: _Line) -> list[Event]:
        kind = record.type
        if kind == "summary":
            self._keep_summary(record)
            return []
        if kind in _TITLE_RANK:
            self._note_title(kind, record.ai_title or record.agent_name or record.custom_title)
            return []
        if kind == "queue-operation":
            return self._queue(record)
        if kind == "cost-state":
            self._note_total_cost(_numbers.amount(record.total_cost_usd, "cost_usd"))
            self._note_total_latency(_numbers.count(record.total_api_duration, "api_latency_ms"))
            return []
        if kind == "system":
            return self._system(record)
        if kind == "progress" and _reported.MARK in bytes(record.data):
            self._has_reports = True
        return [] if kind in KEPT else [self._unknown(kind or "record without a type")]

    def _note_title(self, kind: str, title: Any) -> None:
        if isinstance(title, str) and title.strip() and _TITLE_RANK[kind] >= self._state.title_rank:
            self._state.session.title, self._state.title_rank = title.strip(), _TITLE_RANK[kind]

    def _keep_summary(self, record: _Line) -> None:
        """A summary is a title of the session that holds its leaf: older builds wrote it into the next log."""
        if not isinstance(record.leaf_uuid, str):
            self._note_title("summary", record.summary)
        elif isinstance(record.summary, str) and record.summary.strip():
            self._summaries.append(FoundSummary(ids.record_key(record.leaf_uuid), record.summary.strip()))

    def _queue(self, record: _Line) -> list[Event]:
        """Words typed while the agent works: put in a queue, and given to it at once (``remove``), as a prompt of their
        own (``dequeue``, a record of the user follows), or taken back to be edited (``popAll``)."""
        queued, words = self._state.queued, record.content if isinstance(record.content, str) else ""
        match record.operation:
            case "enqueue":
                queued.append(words)
                del queued[:-_QUEUED_MAX]
            case "popAll":
                queued.clear()
            case "dequeue" if queued:
                queued.pop(0)
            case "remove":
                oldest = queued.pop(0) if queued else ""
                return self._given_at_once(record, words or oldest)
        return []

    def _given_at_once(self, record: _Line, words: str) -> list[Event]:
        if record.reason is not None and record.reason != _ABSORBED:
            return []
        if isinstance(record.command_uuid, str):
            # This build logs them again where the agent was given them.
            self._state.absorbed = [*self._state.absorbed, record.command_uuid][-_WORDS_TOLD_MAX:]
            return []
        if not words.strip() or words in self._state.told:
            return []
        self._state.told = [*self._state.told, words][-_WORDS_TOLD_MAX:]
        return [_claude_prompts.not_typed(words) or UserMessage(content=words)]

    def _conversation(self, record: _Line, at: int | None, seq: int, nearest: str | None) -> list[Event]:
        match record.type:
            case "assistant":
                return self._assistant(record)
            case "user":
                return self._user(record, at, seq, nearest)
            case "attachment":
                return self._attachment(record, at, seq, nearest)
            case "system":
                return self._system(record)
            case _:
                return self._control(record)

    # what the model said ------------------------------------------------------------------------------------

    def _assistant(self, record: _Line) -> list[Event]:
        message = record.message or _Message()
        text = _text_of(message.content)
        self._state.command = None
        if record.is_api_error_message:
            return [Error(message=text, code=str(record.api_error_status or ""))]
        if message.model == "<synthetic>":
            # Mostly the client's own notice; some versions also wrap what the model had said when it was cut off.
            if not text:
                return []
            return [Hook(name="notice", output=text) if _NOTICE.match(text) else AssistantText(text=text)]
        self._note_answer(record, message)
        if isinstance(message.content, str):
            return [AssistantText(text=message.content)] if message.content.strip() else []
        events: list[Event] = []
        for block in message.content or ():
            events += self._answer_block(_Block(type="text", text=block) if isinstance(block, str) else block)
        return events

    def _answer_block(self, block: _Block) -> list[Event]:
        match block.type:
            case "text":
                return [AssistantText(text=block.text)] if block.text and block.text.strip() else []
            case "thinking":
                return [Thinking(text=block.thinking)] if block.thinking else []
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                return self._tool_call(block)
            case kind if kind.endswith("_tool_result"):
                return [self._tool_result(block)]
            case kind if kind in KEPT_BLOCKS:
                return []
            case kind:
                return [self._unknown(f"assistant/{kind}")]

    def _tool_call(self, block: _Block) -> list[Event]:
        given = block.input if isinstance(block.input, dict) else {}
        path = given.get("file_path") or given.get("notebook_path") or given.get("path")
        name, path = block.name or "", path if isinstance(path, str) else None
        self._state.calls[block.id or ""] = (name, path)
        if len(self._state.calls) > _CALLS_OPEN_MAX:
            self._state.calls.pop(next(iter(self._state.calls)))
        plan = given.get("plan")
        if name == _PLANNING and isinstance(plan, str):
            self._state.plans[block.id or ""] = plan
            if len(self._state.plans) > _PLANS_OPEN_MAX:
                self._state.plans.pop(next(iter(self._state.plans)))
        tool = TOOLS.get(name, Tool.OTHER)
        return [ToolCall(tool_use_id=block.id or "", tool_name=name, tool=tool, file_path=path, input=given)]

    def _note_answer(self, record: _Line, message: _Message) -> None:
        turn = self._state.turn
        if turn is None:
            return
        turn.model = message.model or turn.model
        turn.stop_reason = message.stop_reason or turn.stop_reason
        cost_usd = _numbers.amount(record.cost_usd, "cost_usd")
        if cost_usd is not None:
            turn.cost_usd, turn.cost_source = (turn.cost_usd or 0.0) + cost_usd, "reported"
        if message.usage is not None:
            key = f"{message.id}/{record.request_id or ''}"
            self._note_usage(turn, key, message.usage)
            self._note_end_of_message(turn, key, message.stop_reason)

    def _note_usage(self, turn: Turn, key: str, usage: _usage_of_messages.Usage) -> None:
        # Each block of a message repeats its usage, growing: the largest counts, once.
        counted, turn.tokens = _usage_of_messages.one_more(turn.tokens, self._state.usage.get(key), usage)
        self._state.usage[key] = counted
        if len(self._state.usage) > _MESSAGES_OPEN_MAX:
            self._state.usage.pop(next(iter(self._state.usage)))

    def _note_end_of_message(self, turn: Turn, key: str, stop_reason: str | None) -> None:
        """Note whether a message's count is final: a record without a reason to stop repeats that of its beginning."""
        open_messages = self._state.unfinished
        if stop_reason is None and key not in self._state.finished:
            open_messages[key] = True
            if len(open_messages) > _MESSAGES_OPEN_MAX:
                # One of them is enough to know that the sum is a lower bound.
                open_messages.pop(next(islice(open_messages, 1, None)))
        elif stop_reason is not None:
            open_messages.pop(key, None)
            self._state.finished = [*self._state.finished, key][-_MESSAGES_OPEN_MAX:]
        turn.tokens_source = PARTIAL if open_messages else "reported"

    def _note_total_cost(self, total: float | None) -> None:
        """The running total of a session. Its first value may hold a parent's cost, unless this is its first turn."""
        before, self._state.cost_seen = self._state.cost_seen, total
        turn = self._state.turn
        if total is None or turn is None:
            return
        if before is None:
            before = 0.0 if self._state.turns_seen == 1 else None
        if before is not None and total >= before:
            turn.cost_usd, turn.cost_source = (turn.cost_usd or 0.0) + (total - before), "reported"
            self._touched[turn.uid] = turn

    def _note_total_latency(self, total_ms: int | None) -> None:
        turn, lasted_ms = self._state.turn, self._state.latency.grown_ms(total_ms, self._state.turns_seen)
        if turn is not None and lasted_ms is not None:
            turn.api_latency_ms = lasted_ms
            self._touched[turn.uid] = turn

    # what was typed, and what was put beside it ---------------------------------------------------------------

    def _user(self, record: _Line, at: int | None, seq: int, nearest: str | None) -> list[Event]:
        content = record.message.content if record.message else None
        if record.is_compact_summary:
            return [Compacted(summary=_text_of(content))]
        events: list[Event] = []
        if isinstance(content, list):
            for block in content:
                if isinstance(block, _Block) and block.type == "tool_result":
                    events += self._result(block, bytes(record.tool_use_result))
        if record.is_meta:
            return events + self._expanded(record, _text_of(content), seq, nearest)
        typed = self._typed(record, _text_of(content), at, seq, nearest)
        # A prompt opens its turn, so that results in the same record stand after it.
        return typed + events if typed and isinstance(typed[0], UserMessage) else events + typed

    def _typed(self, record: _Line, text: str, at: int | None, seq: int, nearest: str | None) -> list[Event]:
        if not text.strip():
            return []
        if aside := _claude_prompts.not_typed(text):
            if isinstance(aside, Command) and aside.name and not aside.name.startswith("!"):
                self._state.command = (record.uuid or "", aside.name, at)
            return [aside]
        self._state.command = None
        prompt = _claude_prompts.typed(text)
        if not prompt.strip():
            return [Hook(name="context", output=text)]
        if record.is_sidechain and not self._is_helper:
            return [Hook(name="subagent prompt", output=prompt)]
        prompt, event = told_as(prompt)
        source = _source(record)
        if (record.uuid or "").startswith(_WORD_IDS) or source.startswith(_WORD_IDS) or source in self._state.absorbed:
            # Words that the agent was given while it worked belong to the turn that goes on.
            return [event]
        self._begin_turn(record.uuid or "", prompt, at, seq, nearest)
        return [event]

    def _expanded(self, record: _Line, text: str, seq: int, nearest: str | None) -> list[Event]:
        """What the agent is told in the user's place: the command before it, such as /goal, was a prompt then."""
        if self._state.command is None or not text.strip() or text.lstrip().startswith(_NOT_OF_A_COMMAND):
            return []
        (native_id, typed, at), self._state.command = self._state.command, None
        self._begin_turn(native_id, typed, at, seq, nearest)
        return [UserMessage(content=typed)]

    def _attachment(self, record: _Line, at: int | None, seq: int, nearest: str | None) -> list[Event]:
        given = record.attachment if isinstance(record.attachment, dict) else {}
        kind = str(given.get("type", ""))
        if kind == "queued_command":
            text = given.get("prompt")
            text = _plain(text) if text is not None else ""
            is_prompt = given.get("commandMode", "prompt") == "prompt"
            return self._typed(record, text, at, seq, nearest) if is_prompt and text not in self._state.told else []
        if kind == "max_turns_reached":
            turn = self._state.turn
            if turn is not None:
                turn.stop_reason = _MAX_TURNS
            return [Error(message=f"It was stopped after {given.get('maxTurns', 'its')} turns.", code=_MAX_TURNS)]
        if kind.startswith("hook_") or kind.endswith("_hook"):
            output = next(
                (given[key] for key in ("content", "stdout", "stderr", "blockingError") if given.get(key)), ""
            )
            return [Hook(name=str(given.get("hookName", kind)), output=_plain(output))] if output else []
        return [] if kind in KEPT_ATTACHMENTS else [self._unknown(f"attachment/{kind}")]

    def _system(self, record: _Line) -> list[Event]:
        kind = record.subtype or ""
        if kind == "api_error":
            return [Retry(attempt=_numbers.count(record.retry_attempt, "attempt") or 0, message=_plain(record.error))]
        if kind == "local_command":
            return [_claude_prompts.command(_plain(record.content))]
        if kind == "stop_hook_summary":
            problems = record.hook_errors or []
            return [Hook(name="Stop", output=_plain(problems))] if problems else []
        if kind == "turn_duration" and self._state.turn is not None:
            duration_ms = _numbers.count(record.duration_ms, "duration_ms")
            if duration_ms is not None:
                # Hooks that let the agent go on, and queued words, end a turn more than once.
                self._state.turn.duration_ms = (self._state.turn.duration_ms or 0) + duration_ms
        return [] if kind in KEPT_SYSTEM else [self._unknown(f"system/{kind}")]

    def _result(self, block: _Block, told: bytes) -> list[Event]:
        """A tool's result, what the user said in it, and the plan that the call put before the user."""
        result = self._tool_result(block)
        if _changed_files.MARK in told:
            result = msgspec.structs.replace(result, changes=_changed_files.changes(told))
        words = _refusal(result) if result.is_error else "\n".join(_answers(result, told))
        events: list[Event] = [result, UserMessage(content=words)] if words.strip() else [result]
        plan = self._state.plans.pop(result.tool_use_id, None)
        if plan is not None and (not result.is_error or _USER_REFUSED in result.content):
            # A call that failed showed its plan to nobody.
            events.append(Plan(name=_PLANNING, content=plan))
        return events

    def _tool_result(self, block: _Block) -> ToolResult:
        name, path = self._state.calls.pop(block.tool_use_id or "", ("", None))
        return ToolResult(
            tool_use_id=block.tool_use_id or "",
            tool_name=name,
            tool=TOOLS.get(name, Tool.OTHER if name else ""),
            file_path=path,
            content=_plain(block.content),
            is_error=bool(block.is_error),
        )

    # turns and their tree -----------------------------------------------------------------------------------

    def _begin_turn(self, native_id: str, prompt: str, at: int | None, seq: int, nearest: str | None) -> None:
        state = self._state
        before = state.turn
        parent: tuple[str | None, int | None] = (before.uid, before.last_seq) if before else (None, None)
        if nearest is not None:
            # Two prompts after the same word are two branches of one conversation.
            parent = state.heads.setdefault(nearest, parent)
            if len(state.heads) > _HEADS_MAX:
                state.heads.pop(next(iter(state.heads)))
        state.turn = Turn(
            uid=ids.turn_uid(NAME, native_id or f"{self._native_id}/{state.turns_seen + 1}"),
            agent=NAME,
            native_id=native_id,
            first_seq=seq,
            last_seq=seq,
            parent_uid=parent[0],
            parent_seq=parent[1],
            prompt=prompt,
            started=at,
        )
        state.turns_seen += 1
        state.usage, state.unfinished, state.finished = {}, {}, []

    def _turn_at(self, seq: int) -> Turn | None:
        turn = self._state.turn
        if turn is not None:
            turn.last_seq = seq
            self._touched[turn.uid] = turn
        return turn

    def _close(self, turn: Turn, events: list[Event], at: int | None) -> None:
        """Note how the turn stands after these events: the last thing said tells how it ended."""
        # A notice or a command typed later, such as what a resume writes or /compact, does not make the turn longer.
        if at is not None and not isinstance(events[-1], Hook | Command | Compacted):
            turn.ended = at if turn.ended is None else max(turn.ended, at)
        match events[-1]:
            case AssistantText():
                turn.outcome = Outcome.COMPLETED
            case Error(code="interrupted"):
                turn.outcome = Outcome.CANCELLED
            case Error():
                turn.outcome = Outcome.FAILED
            case ToolCall() | ToolResult() | Thinking() | UserMessage():
                turn.outcome = None

    def _anchor_of(self, uuid: str | None) -> str | None:
        """The nearest prompt or answer at or above a record; a missing parent is the record before."""
        if uuid is None:
            return self._state.last_anchor
        if uuid not in self._anchors and self._earlier is not None:
            earlier, self._earlier = self._earlier, None
            self._recall(earlier())
        return self._anchors.get(uuid, self._state.last_anchor)

    def _recall(self, lines: Iterable[bytes]) -> None:
        past = Reader(LogIdentity(native_id=self._native_id), None, lambda: ())
        past._is_helper = self._is_helper
        for line in lines:
            past.read(line, 0)
        self._anchors = past._anchors | self._anchors

    def _unknown(self, kind: str) -> Unknown:
        self.unknown[kind] = self.unknown.get(kind, 0) + 1
        return Unknown(type=kind)


class StreamReader:
    """Understands the output of one run. See ``contract.StreamReader``."""

    def __init__(self) -> None:
        # Messages hold the same blocks as in a log.
        self._blocks = Reader(LogIdentity(native_id=""), None, lambda: ())
        self.native_id: str | None = None
        self.unknown: dict[str, int] = self._blocks.unknown
        self._began = False
        self._model: str | None = None
        self._message_id = ""
        self._messages: dict[str, Tokens] = {}
        self._results: list[_StreamLine] = []
        self._stop_reason: str | None = None
        self._said_why = False
        self._was_interrupted = self._is_compacted = False
        self.steering = SteerState()
        self._held: deque[str] = deque(maxlen=_STDERR_LINES_HELD_MAX)

    def read(self, line: bytes) -> Streamed:
        if not line.strip():
            return Streamed([])
        try:
            records = _jsonl.decode(line, _stream_decoder)
        except _jsonl.NotJson:
            return Streamed([(0, self._not_a_record(line))])
        slots: list[Event | None] = []
        for record in records:
            self.native_id = self.native_id or record.session_id
            self._listen(record)
            if record.type != "stream_event":
                slots += self._record(record)
        events = [(part, event) for part, event in enumerate(slots) if event is not None]
        pieces = [record for record in records if record.type == "stream_event"]
        return Streamed(events, takes_number=len(pieces) < len(records), delta="".join(map(self._piece, pieces)))

    def stderr(self, line: bytes) -> list[Event]:
        if text := line.decode("utf-8", "replace").strip():
            self._held.append(text)
        return []

    def ended(self, exit: Exit) -> Ending:
        outcome = self._outcome(exit)
        tokens = self._tokens()
        costs = [each.total_cost_usd for each in self._results if each.total_cost_usd is not None]
        durations = [each.duration_ms for each in self._results if each.duration_ms is not None]
        return Ending(
            outcome=outcome,
            error=self._why(exit) if outcome in (Outcome.FAILED, Outcome.CRASHED) else None,
            duration_ms=added(*durations) if durations else None,
            # A running total of the process, like the cost. Requests that failed are not in it, so zero is not known.
            api_latency_ms=max((each.duration_api_ms or 0 for each in self._results), default=0) or None,
            stop_reason=self._why_it_stopped(),
            model=self._model,
            tokens=tokens or Tokens(),
            tokens_source="reported" if tokens else None,
            cost_usd=costs[-1] if costs else None,
            cost_source="reported" if costs else None,
        )

    # records ------------------------------------------------------------------------------------------------

    def _record(self, record: _StreamLine) -> list[Event | None]:
        if record.parent_tool_use_id:
            # A helper's words are in a log of its own.
            return []
        events = self._told(record)
        if self._is_compacted and record.type in ("assistant", "user", "result"):
            # Its summary was not printed. Behind what a record says, so that this stays at its part.
            self._is_compacted, events = False, [*events, Compacted()]
        return events

    def _told(self, record: _StreamLine) -> list[Event | None]:
        match record.type:
            case "assistant":
                return [*self._assistant(record)]
            case "user":
                return [*self._user(record)]
            case "system":
                return self._system(record)
            case "result":
                record.duration_ms = _numbers.count(record.duration_ms, "duration_ms")
                record.duration_api_ms = _numbers.count(record.duration_api_ms, "api_latency_ms")
                record.total_cost_usd = _numbers.amount(record.total_cost_usd, "cost_usd")
                self._results.append(record)
                return [
                    Complete(
                        success=not record.is_error, duration_ms=record.duration_ms, cost_usd=record.total_cost_usd
                    )
                ]
            case kind:
                return [] if kind in KEPT_STREAM else [self._blocks._unknown(kind or "record without a type")]

    def _listen(self, record: _StreamLine) -> None:
        """Note what a record says about the messages that the agent is sent."""
        state = self.steering
        if record.type in ("assistant", "stream_event", "user", "result"):
            state.is_deaf = not state.acknowledges
        match record.type:
            case "result":
                state.is_idle = True
            case "assistant" | "stream_event" | "user":
                state.is_idle = False
            case "system" if record.subtype == "init":
                state.is_idle = False
                state.acknowledges = isinstance(record.capabilities, list) and _ACKNOWLEDGES in record.capabilities
                state.is_deaf = not state.acknowledges
            case "command_lifecycle" if (record.command_uuid or "").startswith(_WORD_IDS):
                state.is_idle = state.is_idle and record.state not in ("queued", "started")
                if record.state == "started" and record.command_uuid not in state.acknowledged:
                    state.acknowledged.append(record.command_uuid or "")

    def _assistant(self, record: _StreamLine) -> list[Event]:
        message = _message_of(record)
        self._was_interrupted = False
        is_synthetic = message.model == "<synthetic>"
        if record.is_api_error_message or (is_synthetic and record.error):
            self._said_why = True
            return [Error(message=_text_of(message.content), code=str(record.api_error_status or record.error or ""))]
        if is_synthetic and isinstance(record.local_command_source, str):
            return [_claude_prompts.command(record.local_command_source)]
        if is_synthetic:
            text = _text_of(message.content)
            return [Hook(name="notice", output=text)] if text else []
        self._model = message.model or self._model
        if isinstance(message.content, str):
            return [AssistantText(text=message.content)] if message.content.strip() else []
        events: list[Event] = []
        for block in message.content or ():
            events += self._blocks._answer_block(_Block(type="text", text=block) if isinstance(block, str) else block)
        return events

    def _user(self, record: _StreamLine) -> list[Event]:
        content = _message_of(record).content
        blocks = [block for block in content or () if isinstance(block, _Block)]
        events: list[Event] = []
        for block in blocks:
            events += self._blocks._result(block, bytes(record.tool_use_result)) if block.type == "tool_result" else []
        text = _text_of(content)
        if not text.strip():
            return events
        if record.is_synthetic:
            if not (self._is_compacted or _claude_prompts.is_summary(text)):
                return events
            self._is_compacted = False
            return [*events, Compacted(summary=text)]
        # The prompt itself is not repeated here, so no word in the user's place was typed.
        aside = _claude_prompts.not_typed(text) or Hook(name="context", output=text)
        self._was_interrupted = isinstance(aside, Error)
        return [*events, aside]

    def _system(self, record: _StreamLine) -> list[Event | None]:
        match record.subtype or "":
            case "init":
                first, self._began = not self._began, True
                self._model = self._model or record.model
                init = Init(cwd=record.cwd or "", model=record.model or "", version=record.claude_code_version or "")
                return [init if first else None]
            case "api_retry":
                message = " ".join(str(each) for each in (record.error_status, _plain(record.error)) if each)
                return [Retry(attempt=_numbers.count(record.attempt, "attempt") or 0, message=message)]
            case "compact_boundary":
                # The summary comes next, and tells it.
                self._is_compacted = True
                return []
            case kind:
                return [] if kind in KEPT_STREAM_SYSTEM else [self._blocks._unknown(f"system/{kind}")]

    def _piece(self, record: _StreamLine) -> str:
        """Note what a piece of an answer says about the whole; its text, if it has any."""
        event = record.event or _StreamEvent()
        if record.parent_tool_use_id:
            return ""
        if event.message is not None:
            self._message_id = event.message.id or ""
            self._note_usage(event.message.usage)
        self._note_usage(event.usage)
        delta = event.delta or _Delta()
        self._stop_reason = delta.stop_reason or self._stop_reason
        return (delta.text or "") if delta.type == "text_delta" else ""

    def _not_a_record(self, line: bytes) -> Event:
        text = line.decode("utf-8", "replace").strip()
        return self._blocks._unknown("not JSON") if text.startswith("{") else Hook(name="stdout", output=text)

    # what it came to ----------------------------------------------------------------------------------------

    def _outcome(self, exit: Exit) -> Outcome:
        last = self._results[-1] if self._results else None
        was_stopped = exit.was_cancelled or (last is None and self._was_interrupted)
        if was_stopped or (last is not None and (last.terminal_reason or "").startswith("aborted")):
            return Outcome.CANCELLED
        if last is not None and last.is_error:
            return Outcome.FAILED
        if exit.signal is not None or (exit.code or 0) >= _CODE_OF_SIGNAL_MIN:
            return Outcome.CRASHED
        if exit.code != 0:
            return Outcome.FAILED
        # A run that was stopped early enough ends with code 0 and says nothing.
        return Outcome.COMPLETED if last is not None else Outcome.CRASHED

    def _why_it_stopped(self) -> str | None:
        """The reason of the last answer; a command that the client ran by itself had none."""
        answers = [each for each in self._results if not each.local_command] or self._results
        if not answers:
            return self._stop_reason
        return _MAX_TURNS if answers[-1].terminal_reason == _MAX_TURNS else answers[-1].stop_reason

    def _why(self, exit: Exit) -> str | None:
        if self._said_why:
            return None
        last = self._results[-1] if self._results else _StreamLine()
        said = (_plain(last.errors) or _plain(last.result)) if last.is_error else ""
        return said or "\n".join(self._held) or _exit_told(exit)

    def _note_usage(self, usage: _usage_of_messages.Usage | None) -> None:
        if usage is not None:
            before = self._messages.get(self._message_id, Tokens())
            self._messages[self._message_id] = _usage_of_messages.larger(before, _usage_of_messages.tokens_of(usage))

    def _tokens(self) -> Tokens | None:
        """The main thread's tokens."""
        results = (each.usage for each in self._results if each.usage and not _is_cut_off(each))
        return _usage_of_messages.of_run(self._messages.values(), map(_usage_of_messages.tokens_of, results))


def _source(record: _Line) -> str:
    """The id that queued words came with."""
    given = record.attachment if isinstance(record.attachment, dict) else {}
    return str(given.get("source_uuid", ""))


def _message_of(record: _StreamLine) -> _Message:
    return record.message if isinstance(record.message, _Message) else _Message()


def _is_cut_off(result: _StreamLine) -> bool:
    """Whether a result tells no tokens because its answer was cut off: it says 0, though they were paid."""
    usage = result.usage or _usage_of_messages.Usage()
    return (result.terminal_reason or "").startswith("aborted") and not (usage.input_tokens or usage.output_tokens)


def _exit_told(exit: Exit) -> str:
    return f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"


def _refusal(result: ToolResult) -> str:
    """What the user said when refusing a call."""
    found = _REFUSED.search(result.content)
    return found.group(1).strip() if found else ""


def _answers(result: ToolResult, told: bytes) -> list[str]:
    """What the user answered to the agent's questions."""
    if result.tool_name != _ASKING and not result.content.startswith(_ANSWERED):
        return []
    try:
        answers = msgspec.json.decode(told, type=_Answered).answers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answers = {}
    if answers:
        return [_plain(each) for each in answers.values()]
    return _ANSWER.findall(result.content) if result.content.startswith(_ANSWERED) else []


def _plain(value: Any) -> str:
    """The text of a content value: a string, blocks, or anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(_plain(each) for each in value)
    if isinstance(value, dict):
        for key in ("text", "tool_name" if value.get("type") == "tool_reference" else "message"):
            if isinstance(value.get(key), str):
                return str(value[key])
        if value.get("type") in ("image", "document"):
            return f"[{value['type']}]"
    return encoded(value).decode()


def _text_of(content: str | list[_Block | str] | None) -> str:
    """What a message says in words, its tool results left out; an image is named."""
    if content is None or isinstance(content, str):
        return content or ""
    said = []
    for block in content:
        if isinstance(block, str):
            said.append(block)
        elif block.type == "text" and block.text:
            said.append(block.text)
        elif block.type in ("image", "document"):
            said.append(f"[{block.type}]")
    return "\n".join(said)


AGENT = Agent(
    name=NAME, title="Claude Code", log=Logs(), reports=Reports(), sidecars=Sidecars(), run=Runs(), steer=Steering()
)
