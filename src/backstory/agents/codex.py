"""Codex CLI's logs: ``sessions/Y/M/D/rollout-<time>-<thread>.jsonl`` (or ``.zst``) below CODEX_HOME (else ~/.codex).

Source: recorded logs of 0.124 to 0.169. A line is ``{timestamp, type, payload}``. The conversation is told
twice: by ``response_item`` (what the model is sent) and by ``event_msg`` (what the screen showed). Answers and
tools are taken from the first, prompts and endings from the second. A task is a turn, known by its ``turn_id``;
forks and helpers begin with copies of their parent's records, whose turns keep their ids. Token counts are a
running total of the thread. These logs tell no costs, nor how long the model took: a task's time holds its tools.

A run is ``codex exec --json``: items with a short id each, told when they start and when they are done. Only
``turn.completed`` and ``turn.failed`` tell how it ended; calls that Codex refused are told on stderr alone.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory import ids
from backstory.agents import _bare_records, _jsonl, _numbers, _usage_of_totals
from backstory.agents._typed_commands import typed_command
from backstory.agents.contract import Agent, Ending, LogRoot, SteerState, Streamed
from backstory.conversation.context import strip_context, told_as
from backstory.model import (
    AssistantText,
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

NAME = "codex"

TOOLS = {
    "exec_command": Tool.SHELL,
    "shell": Tool.SHELL,
    "shell_command": Tool.SHELL,
    "local_shell": Tool.SHELL,
    "write_stdin": Tool.SHELL,
    "unified_exec": Tool.SHELL,
    "container.exec": Tool.SHELL,
    "apply_patch": Tool.EDIT,
    "view_image": Tool.READ,
    "read_file": Tool.READ,
    "grep_files": Tool.GREP,
    "list_dir": Tool.GLOB,
    "web_search": Tool.SEARCH,
    "spawn_agent": Tool.TASK,
    "spawn": Tool.TASK,
}

KEPT = frozenset(
    {
        "inter_agent_communication", "inter_agent_communication_metadata", "item_completed", "realtime_item",
        "security_risk_score", "token_count", "token_usage_record", "world_state",
    }
)  # fmt: skip
"""Types whose records say nothing that is shown; their bytes are kept."""

KEPT_RESPONSES = frozenset(
    {
        "additional_tools", "compaction", "compaction_summary", "compaction_trigger", "context_compaction",
        "ghost_snapshot", "other",
    }
)  # fmt: skip
KEPT_EVENTS = frozenset(
    {
        "agent_message", "agent_message_content_delta", "agent_message_delta", "agent_reasoning",
        "agent_reasoning_delta", "agent_reasoning_raw_content", "agent_reasoning_raw_content_delta",
        "agent_reasoning_section_break", "apply_patch_approval_request", "background_event",
        "collab_agent_interaction_begin", "collab_agent_interaction_end", "collab_agent_spawn_begin",
        "collab_agent_spawn_end", "collab_close_begin", "collab_close_end", "collab_resume_begin", "collab_resume_end",
        "collab_waiting_begin", "collab_waiting_end", "context_compacted", "dynamic_tool_call_request",
        "dynamic_tool_call_response", "elicitation_request", "entered_review_mode", "exec_approval_request",
        "exec_command_begin", "exec_command_end", "exec_command_output_delta", "exited_review_mode", "hook_completed",
        "hook_started", "image_generation_begin", "image_generation_end", "item_started", "mcp_startup_complete",
        "mcp_startup_update", "mcp_tool_call_begin", "mcp_tool_call_end", "model_reroute", "patch_apply_begin",
        "patch_apply_end", "patch_apply_updated", "plan_delta", "plan_update", "raw_response_item",
        "reasoning_content_delta", "reasoning_raw_content_delta", "request_permissions", "request_user_input",
        "session_configured", "shutdown_complete", "terminal_interaction", "thread_goal_updated",
        "thread_settings_applied", "turn_diff", "undo_completed", "undo_started", "view_image_tool_call",
        "web_search_begin", "web_search_end",
    }
)  # fmt: skip
KEPT_ITEMS = frozenset(
    {
        "AgentMessage", "CollabAgentToolCall", "CommandExecution", "ContextCompaction", "DynamicToolCall",
        "EnteredReviewMode", "ExitedReviewMode", "FileChange", "HookPrompt", "ImageGeneration", "ImageView",
        "McpToolCall", "Plan", "Reasoning", "SubAgentActivity", "WebSearch",
    }
)  # fmt: skip

KEPT_STREAM = frozenset({"turn.started"})
KEPT_STREAM_ITEMS = frozenset({"agent_message", "error", "plan", "reasoning", "todo_list"})
"""Items that are told when they are done, if at all."""

PERMISSIONS = {
    Permissions.AGENT: [],
    Permissions.ASK: ["--sandbox", "read-only"],
    Permissions.EDIT: ["--sandbox", "workspace-write"],
    Permissions.ALL: ["--dangerously-bypass-approvals-and-sandbox"],
}

_CALLS_OPEN_MAX = 2_000
_STDERR_LINES_HELD_MAX = 20
_PATH_MAX = 200
_TELLINGS_MAX = 200
_OVER_MAX = 200
_UNTOLD_MAX = 8
_STARTS = ("task_started", "turn_started")
_ROLES_ASKING = ("user", "developer", "system")

_OURS = re.compile(rb'"type"\s*:\s*"(?:session_meta|turn_context|response_item|event_msg|compacted|world_state)"')
_PAYLOAD = re.compile(rb'"payload"\s*:')
_META = re.compile(rb'"type"\s*:\s*"session_meta"')
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]+)"')
_FORKED_FROM = re.compile(rb'"forked_from_id"\s*:\s*"([^"\\]+)"')
_REVIEW_OF = re.compile(rb'"parent_thread_id"\s*:\s*"([^"\\]+)".*?"source"\s*:\s*\{\s*"subagent"\s*:\s*"')
_SPAWNED_BY = re.compile(rb'"thread_spawn"\s*:\s*\{[^{}]*?"parent_thread_id"\s*:\s*"([^"\\]+)"')
_FILE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_UNIQUE_ID = re.compile(r"[a-z]+_[0-9a-f-]{24,}$")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)\s*$", re.MULTILINE)
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)", re.MULTILINE)
_ENVELOPE = re.compile(r"(?:Chunk ID|Exit code|Wall time|Process exited|Script )")
_FAILED = re.compile(
    "apply_patch verification failed|failed to parse function arguments|unsupported call|exec_command failed"
    "|write_stdin failed|Script failed|(?:Wall time: [^\n]*\n)?aborted(?: by user)?$"
)
_SYNTHETIC = re.compile(
    r"\s*(?:# AGENTS\.md instructions"
    r"|<(?:environment_context|user_instructions|INSTRUCTIONS|permissions|turn_aborted|subagent_notification"
    r"|user_shell_command|user_action|skill|goal|goal_context|plugin|plugins_instructions|recommended_plugins"
    r"|collaboration_mode|personality_spec|model_switch|hook_prompt|app-context|apps_instructions"
    r"|codex_internal_context|realtime_conversation)\b)"
)
_IDE_CONTEXT = re.compile(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*\n", re.DOTALL | re.MULTILINE)
_IMAGE_TAG = re.compile(r"\s*</?image\b[^>]*>\s*\Z")
_RETRYING = re.compile(r"Reconnecting\b|.*\bretrying \d+/\d+")
_ATTEMPT = re.compile(r"\b(\d+)/\d+")
_SHELLS = frozenset({"bash", "sh", "zsh"})
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
_STDERR_ERROR = re.compile(r"(?:^|\s)ERROR\s+(?:[^\s{]+\{[^}]*\}:?\s*)*(?:[\w:]*\w:\s+)?(?:error=)?(.*)")
_PROPOSED = re.compile(r"<proposed_plan>\s*(.*?)\s*</proposed_plan>", re.DOTALL)


class _Info(Struct):
    total_token_usage: _usage_of_totals.Usage | None = None
    last_token_usage: _usage_of_totals.Usage | None = None


class _Item(Struct):
    type: str = ""
    id: Any = None
    content: Any = None
    message: Any = None
    status: Any = None
    command: Any = None
    cwd: Any = None
    aggregated_output: Any = None
    exit_code: Any = None
    changes: Any = None
    stdout: Any = None
    stderr: Any = None
    server: Any = None
    tool: Any = None
    arguments: Any = None
    result: Any = None
    error: Any = None


class _Payload(Struct):
    type: str = ""
    id: Any = None
    turn_id: Any = None
    root_turn_id: Any = None
    role: Any = None
    content: Any = None
    summary: Any = None
    name: Any = None
    namespace: Any = None
    call_id: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None
    tools: Any = None
    author: Any = None
    revised_prompt: Any = None
    message: Any = None
    kind: Any = None
    images: Any = None
    local_images: Any = None
    info: _Info | None = None
    item: _Item | None = None
    error: Any = None
    codex_error_info: Any = None
    last_agent_message: Any = None
    duration_ms: Any = None
    reason: Any = None
    num_turns: Any = None
    thread_name: Any = None
    exit_code: Any = None
    success: Any = None
    result: Any = None
    cwd: Any = None
    model: Any = None
    cli_version: Any = None
    git: Any = None
    origin: Any = field(default=None, name="internal_chat_message_metadata_passthrough")


class _Record(Struct):
    type: str = ""
    timestamp: Any = None
    payload: _Payload | None = None


class _Call(Struct):
    name: str
    tool: str
    path: str | None = None
    failed: bool = False


class _State(Struct, kw_only=True):
    """What a reader needs to go on: bounded, whatever the log's size."""

    session: SessionFacts = field(default_factory=SessionFacts)
    thread: str | None = None
    has_copies: bool = False
    has_events: bool = False
    model: str | None = None
    task: str | None = None
    task_root: str | None = None
    """The turn that a task is a part of, such as the review that it makes."""
    tells_tasks: bool = False
    task_prompts: int = 0
    task_error: str | None = None
    tellings: dict[str, dict[str, int]] = field(default_factory=dict)
    turn: Turn | None = None
    turn_task: str | None = None
    turns_seen: int = 0
    path: list[tuple[str, int]] = field(default_factory=list)
    totals: _usage_of_totals.Usage | None = None
    over: list[str] = field(default_factory=list)
    """The last tasks that ended in this log: one that begins again is a copy, written by a fork in the same file."""
    is_copy: bool = False
    path_copied: list[tuple[str, int]] = field(default_factory=list)
    """The path as it was when copies began."""
    untold: list[tuple[str, int]] = field(default_factory=list)
    """What the model was sent as the user's words, and how many images, while no other record tells the prompt."""
    calls: dict[str, _Call] = field(default_factory=dict)


class _StreamItem(_Item):
    text: Any = None
    query: Any = None
    action: Any = None
    prompt: Any = None
    receiver_thread_ids: Any = None
    agents_states: Any = None


class _StreamRecord(Struct):
    type: str = ""
    thread_id: str | None = None
    item: _StreamItem | None = None
    usage: _usage_of_totals.Usage | None = None
    message: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Record)
_stream_decoder = msgspec.json.Decoder(_StreamRecord)
_state_decoder = msgspec.json.Decoder(_State)
_any_decoder = msgspec.json.Decoder()


class Logs:
    """See ``contract.LogPart``."""

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        root = Path(environ.get("CODEX_HOME") or home / ".codex")
        return [LogRoot(folder=root / name, root=root) for name in ("sessions", "archived_sessions")]

    def is_log(self, path: Path) -> bool:
        return path.name.startswith("rollout-") and path.name.endswith(_jsonl.ENDINGS)

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if early := _bare_records.META.match(head):
            return LogIdentity(native_id=early.group(1).decode("utf-8", "replace"))
        if not (_OURS.search(head) and _PAYLOAD.search(head)):
            return None
        meta = _first_meta(head)
        in_name = _FILE_ID.search(_jsonl.stem(path))
        native_id = _text(meta.get("id")) or (in_name.group() if in_name else _jsonl.stem(path))
        if spawned_by := _spawned_by(meta):
            return LogIdentity(native_id=native_id, parent_native_id=spawned_by, relation=Relation.SUBAGENT)
        if forked_from := _text(meta.get("forked_from_id")):
            return LogIdentity(native_id=native_id, parent_native_id=forked_from, relation=Relation.FORK)
        return LogIdentity(native_id=native_id)

    def reader(
        self,
        identity: LogIdentity,
        state: bytes | None,
        earlier: Callable[[], Iterable[bytes]],
    ) -> Reader:
        # No record of these logs points further back than the state remembers.
        return Reader(identity, state)

    def is_whole(self, line: bytes) -> bool:
        return _jsonl.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        """Ids that Codex or the model's server drew at random; a short one may come twice in a log."""
        try:
            record = _jsonl.decode(line, _decoder)[0]
        except _jsonl.NotJson:
            return None
        given = record.payload.id if record.type == "response_item" and record.payload else None
        return given if isinstance(given, str) and _UNIQUE_ID.match(given) else None


class Runs:
    """See ``contract.RunPart``."""

    executable = "codex"
    prompt_chars_max: int | None = 1_048_576

    def native_id(self, randomness: bytes) -> str | None:
        return None

    def command(
        self, executable: str, *, model: str | None, permissions: Permissions, native_id: str | None
    ) -> list[str]:
        words = [executable, "exec", "--json", "--skip-git-repo-check"]
        words += ["-m", model] if model else []
        return [*words, *PERMISSIONS[permissions], "-"]

    def stream_reader(self) -> StreamReader:
        return StreamReader()


class Reader:
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None) -> None:
        self._is_helper = identity.relation == Relation.SUBAGENT
        self._native_id = identity.native_id
        self._state = _state_decoder.decode(state) if state else _State()
        self._touched: dict[str, Turn] = {}
        self.unknown: dict[str, int] = Counter()

    @property
    def session(self) -> SessionFacts:
        return self._state.session

    def touched(self) -> Iterator[Turn]:
        turns, self._touched = self._touched, {}
        return iter(turns.values())

    def state(self) -> bytes:
        turn = self._state.turn
        # The prompt of a turn that has begun is in the store already.
        turn = msgspec.structs.replace(turn, prompt="") if turn else None
        return msgspec.json.encode(msgspec.structs.replace(self._state, turn=turn))

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = _jsonl.decode(line, _decoder)
        except _jsonl.NotJson:
            return Parsed(None, [(0, self._unknown("not JSON"))], self._turn_at(seq))
        at, slots, untold = None, list[Event | None](), list[Event | None]()
        for record in records:
            at = _numbers.time_ms(record.timestamp)
            record = self._early(record, line)
            untold += self._untold_prompts(record, at, seq)
            slots += self._record(record, at, seq)
        # From a copy to the next prompt records make no turn longer.
        turn = None if self._state.path_copied else self._turn_at(seq)
        # A telling that repeats another leaves its slot empty, so that parts never depend on what came before.
        # A prompt that an earlier record held stands before the record's own parts, whose numbers stay theirs.
        events = [(part, event) for part, event in enumerate(untold + slots, -len(untold)) if event is not None]
        if turn is not None and events:
            self._close(turn, events[-1][1], at)
        return Parsed(at, events, turn)

    def _early(self, record: _Record, line: bytes) -> _Record:
        """A record of the first builds, which stands bare in its line, as today's would say it."""
        if record.payload is not None or not _bare_records.BARE.match(line):
            return record
        try:
            payload = msgspec.json.decode(line, type=_Payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return record
        if record.type:
            self._state.session.cwd = self._state.session.cwd or _bare_records.cwd_in(line) or None
            return _Record(type="response_item", timestamp=record.timestamp, payload=payload)
        kind = "session_meta" if isinstance(payload.id, str) else "world_state"
        return _Record(type=kind, timestamp=record.timestamp, payload=payload)

    def _record(self, record: _Record, at: int | None, seq: int) -> list[Event | None]:
        payload = record.payload or _Payload()
        if self._state.is_copy and not _begins_a_task(record.type, payload):
            return self._copied(payload)
        match record.type:
            case "session_meta":
                return self._session_meta(payload)
            case "turn_context":
                return self._turn_context(payload)
            case "response_item":
                return self._response(payload, at, seq)
            case "event_msg":
                return self._event(payload, at, seq)
            case "compacted":
                return [Compacted(summary=_text(payload.message))]
            case kind:
                return [] if kind in KEPT else [self._unknown(kind or "record without a type")]

    def _copied(self, payload: _Payload) -> list[Event | None]:
        """A record that a fork repeats in the same log says nothing new, but counts are told from its totals on."""
        if payload.type == "token_count" and payload.info is not None:
            self._state.totals = payload.info.total_token_usage or self._state.totals
        return []

    def _untold_prompts(self, record: _Record, at: int | None, seq: int) -> list[Event | None]:
        """The prompts of a task that only the model's copy tells: it is known when the model begins to answer."""
        state, payload = self._state, record.payload or _Payload()
        if not state.untold or not (record.type == "response_item" and payload.role not in _ROLES_ASKING):
            return []
        untold, state.untold = state.untold, []
        if state.task_prompts > 0 or state.is_copy:
            return []
        return [self._prompt("response_item", text, images, at, seq) for text, images in untold]

    # the thread and its tasks ---------------------------------------------------------------------------------

    def _session_meta(self, payload: _Payload) -> list[Event | None]:
        state, thread = self._state, _text(payload.id)
        if state.thread == thread:
            return [None]
        first, state.thread, state.totals = state.thread is None, thread, None
        if not first:
            state.has_copies = True
            return [None]
        git = payload.git if isinstance(payload.git, dict) else {}
        session = state.session
        session.cwd = _text(payload.cwd) or session.cwd
        session.agent_version = _text(payload.cli_version) or session.agent_version
        if branch := _text(git.get("branch")):
            session.on_branch(branch)
        session.repository = _text(git.get("repository_url")) or session.repository
        return [Init(cwd=session.cwd or "", model=_text(payload.model), version=session.agent_version or "")]

    def _turn_context(self, payload: _Payload) -> list[Event | None]:
        state, model = self._state, _text(payload.model)
        if payload.turn_id:
            self._begin_task(payload)
        state.session.cwd = state.session.cwd or _text(payload.cwd) or None
        if not model:
            return [None]
        before, state.model = state.model, model
        turn = state.turn
        if turn is not None and (turn.model is None or (payload.turn_id and payload.turn_id == state.turn_task)):
            turn.model = model
        return [ModelSwitch(model=model) if before not in (None, model) else None]

    def _begin_task(self, payload: _Payload) -> None:
        state, task = self._state, _text(payload.turn_id) or None
        state.tells_tasks = True
        is_told_again = task in state.over and payload.type in _STARTS
        if task is None or task != state.task or is_told_again:
            state.task, state.task_prompts, state.task_error, state.tellings = task, 0, None, {}
            state.task_root = _text(payload.root_turn_id) or None
            state.untold, state.is_copy = [], task in state.over
            if state.is_copy:
                self._follow_copy(ids.turn_uid(NAME, task or ""))

    # what the model said --------------------------------------------------------------------------------------

    def _response(self, payload: _Payload, at: int | None, seq: int) -> list[Event | None]:
        match payload.type:
            case "message":
                return self._message(payload, at, seq)
            case "reasoning":
                text = _plain(payload.summary) or _plain(payload.content)
                return [Thinking(text=text)] if text else []
            case "agent_message":
                return self._agent_message(payload, at, seq)
            case kind if kind.endswith("_call"):
                return [self._tool_call(payload)]
            case kind if kind.endswith("_output"):
                return [self._tool_result(payload)]
            case kind:
                return [] if kind in KEPT_RESPONSES else [self._unknown(f"response_item/{kind}")]

    def _message(self, payload: _Payload, at: int | None, seq: int) -> list[Event | None]:
        match payload.role:
            case "assistant":
                return _answer(_plain(payload.content))
            case "user":
                text, images = _typed(payload.content)
                return [*typed_command(text)] or [self._doubled_prompt(payload, text, images, at, seq)]
            case "developer" | "system":
                return []
            case role:
                return [self._unknown(f"response_item/message/{role}")]

    def _doubled_prompt(self, payload: _Payload, text: str, images: int, at: int | None, seq: int) -> Event | None:
        """The model's copy of a prompt counts only where nothing else tells it: in old logs, and in copied turns."""
        if _is_synthetic(payload, text):
            return None
        if self._state.has_events and not self._state.has_copies:
            if self._state.task_prompts == 0 and text.strip():
                self._state.untold = [*self._state.untold, (text, images)][-_UNTOLD_MAX:]
            return None
        return self._prompt("response_item", text, images, at, seq)

    def _agent_message(self, payload: _Payload, at: int | None, seq: int) -> list[Event | None]:
        """Words from another agent: to a helper that has none yet they are its prompt."""
        text = _plain(payload.content)
        if self._is_helper and self._state.task_prompts == 0:
            return [self._prompt("agent_message", text.partition("Payload:\n")[2].strip() or text, 0, at, seq)]
        return [Hook(name=f"message from {_text(payload.author)}", output=text)]

    def _tool_call(self, payload: _Payload) -> ToolCall:
        name, given, path = _call_of(payload)
        call_id = _text(payload.call_id) or _text(payload.id)
        tool = TOOLS.get(_text(payload.name) or name, Tool.OTHER)
        self._state.calls[call_id] = _Call(name, tool, path)
        if len(self._state.calls) > _CALLS_OPEN_MAX:
            self._state.calls.pop(next(iter(self._state.calls)))
        return ToolCall(tool_use_id=call_id, tool_name=name, tool=tool, file_path=path, input=given)

    def _tool_result(self, payload: _Payload) -> ToolResult:
        call_id = _text(payload.call_id)
        call = self._state.calls.pop(call_id, None) or _Call("", "")
        content, failed = _output_of(payload.tools if payload.output is None else payload.output)
        return ToolResult(
            tool_use_id=call_id,
            tool_name=call.name,
            tool=call.tool,
            file_path=call.path,
            content=content,
            is_error=failed or call.failed,
        )

    # what the screen showed -----------------------------------------------------------------------------------

    def _event(self, payload: _Payload, at: int | None, seq: int) -> list[Event | None]:
        self._state.has_events = True
        match payload.type:
            case "user_message":
                if payload.kind not in (None, "plain"):
                    return [None]
                images = _length(payload.images) + _length(payload.local_images)
                return [self._prompt("user_message", _text(payload.message), images, at, seq)]
            case "item_completed" if payload.item is not None:
                return self._item(payload.item, at, seq)
            case "task_started" | "turn_started":
                self._begin_task(payload)
                return []
            case "task_complete" | "turn_complete":
                return self._complete(payload)
            case "turn_aborted":
                return [self._aborted(payload)]
            case "error":
                self._state.task_error = _text(payload.message)
                return [Error(message=_text(payload.message), code=_code(payload.codex_error_info))]
            case "stream_error":
                return [Retry(message=_text(payload.message))]
            case "warning" | "guardian_warning" | "deprecation_notice":
                return [Hook(name=payload.type, output=_text(payload.message) or _text(payload.summary))]
            case kind:
                return self._note(kind, payload)

    def _note(self, kind: str, payload: _Payload) -> list[Event | None]:
        """Records that change what is known without being an event."""
        match kind:
            case "token_count":
                self._note_tokens(payload.info)
            case "thread_rolled_back":
                self._roll_back(payload.num_turns)
            case "thread_name_updated":
                self._state.session.title = _text(payload.thread_name).strip() or self._state.session.title
            case kind if kind in KEPT_EVENTS:
                self._note_failure(_text(payload.call_id), _event_failed(payload))
            case _:
                return [self._unknown(f"event_msg/{kind}")]
        return []

    def _item(self, item: _Item, at: int | None, seq: int) -> list[Event | None]:
        if item.type == "UserMessage":
            text, images = _typed(item.content)
            return [self._prompt("item_completed", text, images, at, seq)]
        if item.type == "Error":
            return [Error(message=_text(item.message))]
        if item.type not in KEPT_ITEMS:
            return [self._unknown(f"event_msg/item_completed/{item.type}")]
        # What a script of the model's calls is told by its item alone; all other items repeat a response_item.
        if _text(item.id).startswith("exec-") and (nested := _nested_call(item)):
            return [*nested]
        self._note_failure(_text(item.id), _item_failed(item))
        return []

    def _note_failure(self, call_id: str, failed: bool) -> None:
        if failed and call_id in self._state.calls:
            self._state.calls[call_id].failed = True

    def _complete(self, payload: _Payload) -> list[Event | None]:
        error = payload.error if isinstance(payload.error, dict) else {"message": payload.error}
        message, told = _text(error.get("message")), self._state.task_error
        failed = bool(payload.error) or (told is not None and not payload.last_agent_message)
        duration_ms = _numbers.count(payload.duration_ms, "duration_ms")
        self._end_turn(payload, Outcome.FAILED if failed else Outcome.COMPLETED, duration_ms)
        events: list[Event | None] = [Complete(success=not failed, duration_ms=duration_ms)]
        if payload.error:
            repeated = told is not None and told == message
            events.insert(0, None if repeated else Error(message=message, code=_code(error.get("codex_error_info"))))
        return events

    def _aborted(self, payload: _Payload) -> Error:
        reason = _text(payload.reason)
        duration_ms = _numbers.count(payload.duration_ms, "duration_ms")
        # A helper's log closes the copy of its parent's turn like this, though that turn went on.
        is_seal = self._state.has_copies and duration_ms is None
        turn = None if is_seal else self._end_turn(payload, Outcome.CANCELLED, duration_ms)
        if turn is not None:
            turn.stop_reason = reason or None
        return Error(message=f"turn aborted: {reason}", code="interrupted")

    def _end_turn(self, payload: _Payload, outcome: Outcome, duration_ms: int | None) -> Turn | None:
        """The turn that a task's end is about; none when the task had no prompt of its own."""
        turn, ours = self._state.turn, self._state.turn_task
        if isinstance(payload.turn_id, str):
            self._state.over = [*self._state.over, payload.turn_id][-_OVER_MAX:]
        root = self._state.task_root if ours == self._state.task else None
        if turn is None or not (payload.turn_id is None or ours is None or payload.turn_id in (ours, root)):
            return None
        turn.outcome, turn.duration_ms = outcome, duration_ms
        return turn

    def _note_tokens(self, info: _Info | None) -> None:
        if info is None or info.total_token_usage is None:
            return
        state, total = self._state, info.total_token_usage
        before, state.totals = state.totals, total
        if before is None or total.spent() < before.spent():
            # Another count begins, and its first total may hold what a parent spent.
            grown = info.last_token_usage or total
        else:
            grown = total.since(before)
        if state.turn is not None and (grown.spent() or state.turn.tokens_source is None):
            state.turn.tokens = _usage_of_totals.added_to(state.turn.tokens, grown, info.last_token_usage)
            state.turn.tokens_source = "reported"

    # turns and their tree -------------------------------------------------------------------------------------

    def _prompt(self, channel: str, text: str, images: int, at: int | None, seq: int) -> Event | None:
        """Begin a turn, unless another channel has told this prompt of the task already."""
        text = strip_context(_IDE_CONTEXT.sub("", text))
        shown = "\n".join([text] * bool(text.strip()) + ["[image]"] * images)
        if not shown or self._is_repeated(channel, text.strip()):
            return None
        prompt, event = told_as(shown)
        self._begin_turn(prompt, at, seq)
        return event

    def _is_repeated(self, channel: str, text: str) -> bool:
        # Counted per channel: the same words typed twice are two prompts, told twice each.
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        tellings = self._state.tellings
        counts = tellings.setdefault(digest, {})
        most = max(counts.values(), default=0)
        counts[channel] = counts.get(channel, 0) + 1
        if len(tellings) > _TELLINGS_MAX:
            tellings.pop(next(iter(tellings)))
        return counts[channel] <= most

    def _begin_turn(self, prompt: str, at: int | None, seq: int) -> None:
        state = self._state
        state.task_prompts, state.turns_seen = state.task_prompts + 1, state.turns_seen + 1
        native_id = state.task or f"{self._native_id}/{state.turns_seen}"
        if state.task and state.task_prompts > 1:
            native_id = f"{state.task}/{state.task_prompts}"
        uid = ids.turn_uid(NAME, native_id)
        self._leave_turn()
        state.session.leaf, state.path_copied = None, []
        # A turn that is told again, as copies are, keeps its place.
        again = next((place for place, (known, _) in enumerate(state.path) if known == uid), len(state.path))
        del state.path[again:]
        parent = state.path[-1] if state.path else (None, None)
        state.path = [*state.path, (uid, seq)][-_PATH_MAX:]
        state.turn_task = state.task
        state.turn = Turn(
            uid=uid,
            agent=NAME,
            native_id=native_id,
            first_seq=seq,
            last_seq=seq,
            parent_uid=parent[0],
            parent_seq=parent[1],
            prompt=prompt,
            model=state.model,
            started=at,
        )

    def _leave_turn(self) -> None:
        """Note in the path where the turn ended that a new one follows, unless a rollback took it off."""
        turn, path = self._state.turn, self._state.path
        if turn is not None and path and path[-1][0] == turn.uid:
            path[-1] = (turn.uid, turn.last_seq)

    def _follow_copy(self, uid: str) -> None:
        """A fork goes on behind the last turn that it copied."""
        self._leave_turn()
        state = self._state
        state.path_copied = state.path_copied or list(state.path)
        place = next((place for place, (known, _) in enumerate(state.path_copied) if known == uid), None)
        if place is not None:
            state.path = state.path_copied[: place + 1]
            state.session.leaf = None if state.turn is not None and state.turn.uid == uid else state.path[-1]

    def _roll_back(self, turns: Any) -> None:
        self._leave_turn()
        count = _numbers.count(turns, "num_turns") or 0
        if count > 0:
            del self._state.path[-count:]
            self._state.session.leaf = self._state.path[-1] if self._state.path else None

    def _turn_at(self, seq: int) -> Turn | None:
        turn = self._state.turn
        if turn is not None:
            turn.last_seq = seq
            self._touched[turn.uid] = turn
        return turn

    def _close(self, turn: Turn, last: Event, at: int | None) -> None:
        state = self._state
        if at is not None and state.task == state.turn_task:
            turn.ended = at if turn.ended is None else max(turn.ended, at)
        if state.tells_tasks:
            return
        # A log that tells no tasks tells how a turn ended by the last thing said.
        match last:
            case AssistantText() | Plan():
                turn.outcome = Outcome.COMPLETED
            case Error(code=code) if code != "interrupted":
                turn.outcome = Outcome.FAILED
            case ToolCall() | ToolResult() | Thinking() | UserMessage():
                turn.outcome = None

    def _unknown(self, kind: str) -> Unknown:
        self.unknown[kind] = self.unknown.get(kind, 0) + 1
        return Unknown(type=kind)


class StreamReader:
    """Understands the output of one run. See ``contract.StreamReader``."""

    def __init__(self) -> None:
        self.native_id: str | None = None
        self.steering: SteerState | None = None
        self.unknown: dict[str, int] = Counter()
        self._calls: set[str] = set()
        self._completed = False
        self._failed = False
        self._usage: _usage_of_totals.Usage | None = None
        self._last_error = ""
        self._said_why = False
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
            slots += self._record(record)
        # A call that has been told leaves its slot empty, so that parts never depend on what came before.
        events = [(part, event) for part, event in enumerate(slots) if event is not None]
        return Streamed(events, takes_number=any(record.type != "item.updated" for record in records))

    def stderr(self, line: bytes) -> list[Event]:
        text = _TERMINAL_CODES.sub("", line.decode("utf-8", "replace")).strip()
        if found := _STDERR_ERROR.search(text):
            self._said_why = True
            return [Error(message=found.group(1), code="stderr")]
        if text:
            self._held.append(text)
        return []

    def ended(self, exit: Exit) -> Ending:
        outcome = self._outcome(exit)
        # A total of nothing is none: a review is told so, whose requests are another thread's.
        usage = self._usage if self._usage is not None and self._usage.spent() else None
        return Ending(
            outcome=outcome,
            error=self._why(exit) if outcome in (Outcome.FAILED, Outcome.CRASHED) else None,
            # A run is a thread of its own, so the thread's total is the run's.
            tokens=_usage_of_totals.added_to(Tokens(), usage) if usage else Tokens(),
            tokens_source="reported" if usage else None,
        )

    # records ------------------------------------------------------------------------------------------------

    def _record(self, record: _StreamRecord) -> list[Event | None]:
        item = record.item or _StreamItem()
        match record.type:
            case "thread.started":
                first, self.native_id = self.native_id is None, self.native_id or record.thread_id
                return [Init() if first else None]
            case "item.started":
                return self._started(item)
            case "item.updated":
                return []
            case "item.completed":
                return self._done(item)
            case "error":
                return self._error(_text(record.message))
            case "turn.failed":
                self._failed = True
                return [Error(message=_error_text(record.error) or self._last_error)]
            case "turn.completed":
                self._completed, self._usage = True, record.usage or self._usage
                return [Complete(success=True)]
            case kind:
                return [] if kind in KEPT_STREAM else [self._unknown(kind or "record without a type")]

    def _started(self, item: _StreamItem) -> list[Event | None]:
        call = _call_told(item)
        if call is None:
            return [] if item.type in KEPT_STREAM_ITEMS else [self._unknown(f"item/{item.type}")]
        self._calls.add(call.tool_use_id)
        return [call]

    def _done(self, item: _StreamItem) -> list[Event | None]:
        text = _text(item.text)
        match item.type:
            case "agent_message":
                return [AssistantText(text=text)] if text else []
            case "reasoning":
                return [Thinking(text=text)] if text else []
            case "plan":
                return [Plan(name="plan", content=text)] if text else []
            case "error":
                return [Hook(name="warning", output=_text(item.message))]
            case _:
                return self._call_done(item)

    def _call_done(self, item: _StreamItem) -> list[Event | None]:
        call = _call_told(item)
        if call is None:
            return [] if item.type in KEPT_STREAM_ITEMS else [self._unknown(f"item/{item.type}")]
        was_told = call.tool_use_id in self._calls
        self._calls.discard(call.tool_use_id)
        result = ToolResult(
            tool_use_id=call.tool_use_id,
            tool_name=call.tool_name,
            tool=call.tool,
            file_path=call.file_path,
            content=_result_told(item),
            is_error=_item_failed(item) or item.status == "declined",
        )
        return [None if was_told else call, result]

    def _error(self, message: str) -> list[Event | None]:
        if _RETRYING.match(message):
            attempt = _ATTEMPT.search(message)
            return [Retry(attempt=int(attempt.group(1)) if attempt else 0, message=message)]
        # The turn's failure says it again; it is remembered for a run that is cut off before that.
        self._last_error = message
        return []

    def _not_a_record(self, line: bytes) -> Event:
        text = line.decode("utf-8", "replace").strip()
        return self._unknown("not JSON") if text.startswith("{") else Hook(name="stdout", output=text)

    def _unknown(self, kind: str) -> Unknown:
        self.unknown[kind] = self.unknown.get(kind, 0) + 1
        return Unknown(type=kind)

    # what it came to ----------------------------------------------------------------------------------------

    def _outcome(self, exit: Exit) -> Outcome:
        if self._failed:
            return Outcome.FAILED
        if self._completed and exit.code == 0:
            return Outcome.COMPLETED
        if exit.was_cancelled:
            return Outcome.CANCELLED
        if exit.signal is not None or exit.code == 0:
            return Outcome.CRASHED
        return Outcome.FAILED

    def _why(self, exit: Exit) -> str | None:
        if self._failed:
            return None
        told = self._last_error or "\n".join(self._held)
        if told or self._said_why:
            return told or None
        return f"signal {exit.signal}" if exit.signal is not None else f"exit code {exit.code}"


def _call_told(item: _StreamItem) -> ToolCall | None:
    """The call that an item of a run is about; None when it is about none."""
    path: str | None = None
    match item.type:
        case "command_execution":
            name, given = "shell", {"command": _inner_command(_text(item.command))}
        case "file_change":
            path = next((path for _, path in _changes(item.changes)), None)
            name, given = "apply_patch", {"changes": item.changes}
        case "mcp_tool_call":
            name, given = f"{_text(item.server)}.{_text(item.tool)}", _arguments(item.arguments)
        case "web_search":
            name, given = "web_search", {"query": item.query, "action": item.action}
        case "collab_tool_call":
            name, given = _text(item.tool), {"prompt": item.prompt, "receiver_thread_ids": item.receiver_thread_ids}
        case _:
            return None
    tool = TOOLS.get(name, Tool.OTHER)
    return ToolCall(tool_use_id=_text(item.id), tool_name=name, tool=tool, file_path=path, input=given)


def _result_told(item: _StreamItem) -> str:
    match item.type:
        case "command_execution":
            return _text(item.aggregated_output)
        case "file_change":
            return "\n".join(f"{kind} {path}" for kind, path in _changes(item.changes))
        case "mcp_tool_call":
            content = item.result.get("content") if isinstance(item.result, dict) else item.result
            return _plain(content) or _error_text(item.error)
        case "collab_tool_call":
            return _plain(item.agents_states or None)
        case _:
            return ""


def _changes(changes: Any) -> list[tuple[str, str]]:
    """Kind and path of each file that a patch changed."""
    given = [each for each in changes if isinstance(each, dict)] if isinstance(changes, list) else []
    return [(_text(each.get("kind")), _text(each.get("path"))) for each in given]


def _inner_command(command: str) -> str:
    """A command without the shell that Codex starts for it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_wrapped = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-lc", "-c")
    return words[2] if is_wrapped else command


def _error_text(error: Any) -> str:
    return _text(error.get("message")) if isinstance(error, dict) else _text(error)


def _begins_a_task(kind: str, payload: _Payload) -> bool:
    """Whether a record may end a copy: the beginning of another task, or of another thread."""
    if kind == "event_msg":
        return payload.type in _STARTS
    return kind in ("session_meta", "turn_context")


# whose log it is ----------------------------------------------------------------------------------------------


def _first_meta(head: bytes) -> dict[str, Any]:
    """What the first session_meta says, and no later one: a fork repeats its parent's after its own."""
    line = next((line for line in _jsonl.lines_in(head) if _META.search(line)), b"")
    try:
        payload = _jsonl.patiently(line)[0].get("payload")
    except _jsonl.NotJson:
        # Its instructions may be longer than the head; what names the thread comes before them.
        spawned_by = _word(_SPAWNED_BY.search(line) or _REVIEW_OF.search(line))
        payload = {
            "id": _word(_ID.search(line, max(line.find(b'"payload"'), 0))),
            "forked_from_id": _word(_FORKED_FROM.search(line)),
            "source": {"subagent": {"thread_spawn": {"parent_thread_id": spawned_by}}},
        }
    return payload if isinstance(payload, dict) else {}


def _spawned_by(meta: dict[str, Any]) -> str:
    """The thread that spawned this one; a review names it beside its source, which is no more than a word."""
    source = meta.get("source")
    if isinstance(source, dict) and isinstance(source.get("subagent"), str):
        return _text(meta.get("parent_thread_id"))
    value: Any = meta
    for key in ("source", "subagent", "thread_spawn", "parent_thread_id"):
        value = value.get(key) if isinstance(value, dict) else None
    return _text(value)


# calls and what came of them ----------------------------------------------------------------------------------


def _call_of(payload: _Payload) -> tuple[str, dict[str, Any], str | None]:
    """A call's name, input and path."""
    name, namespace = _text(payload.name), _text(payload.namespace)
    match payload.type:
        case "custom_tool_call":
            text = _text(payload.input)
            patch = name == "apply_patch"
            return name, {"patch" if patch else "input": text}, _patched(text) if patch else None
        case "local_shell_call" | "web_search_call":
            given = payload.action if isinstance(payload.action, dict) else {}
            return payload.type.removesuffix("_call"), given, None
        case "image_generation_call":
            return "image_generation", {"prompt": _text(payload.revised_prompt)}, None
        case kind:
            name = name or kind.removesuffix("_call")
            given = _arguments(payload.arguments)
            path = given.get("file_path") or given.get("path")
            path = path if isinstance(path, str) else _patched(_text(payload.arguments))
            return f"{namespace}__{name}" if namespace.startswith("mcp__") else name, given, path


def _arguments(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, dict):
        return arguments
    text = _text(arguments)
    try:
        given = _any_decoder.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"arguments": text}


def _output_of(output: Any) -> tuple[str, bool]:
    """A result's text as told, and whether it tells of a failure."""
    if isinstance(output, dict) and ("content" in output or "output" in output):
        text, said = _output_of(output["content"] if output.get("content") is not None else output.get("output"))
        return text, said or output.get("success") is False or _exit_code(output) != 0
    text = _plain(output)
    if text.startswith('{"') and '"metadata"' in text:
        wrapped = _arguments(text)
        if isinstance(wrapped.get("output"), str):
            return wrapped["output"], _exit_code(wrapped) != 0 or bool(_FAILED.match(wrapped["output"]))
    if _FAILED.match(text):
        return text, True
    if _ENVELOPE.match(text):
        exited = _EXIT.search(text.partition("Output:")[0])
        return text, exited is not None and int(exited.group(1)) != 0
    return text, False


def _exit_code(result: dict[str, Any]) -> int:
    metadata = result.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    return code if isinstance(code, int) else 0


def _event_failed(payload: _Payload) -> bool:
    result = payload.result if isinstance(payload.result, dict) else {}
    answer = result.get("Ok", result)
    return (
        payload.success is False
        or payload.exit_code not in (None, 0)
        or "Err" in result
        or (isinstance(answer, dict) and bool(answer.get("isError") or answer.get("is_error")))
    )


def _item_failed(item: _Item) -> bool:
    return item.status == "failed" or item.exit_code not in (None, 0)


def _nested_call(item: _Item) -> list[Event]:
    """A command, patch or MCP call made by a script that the model wrote: its call and its result."""
    name, tool, path, given, content = "", Tool.OTHER, None, dict[str, Any](), ""
    match item.type:
        case "CommandExecution":
            name, tool = "exec_command", Tool.SHELL
            given, content = {"command": item.command, "cwd": item.cwd}, _text(item.aggregated_output)
        case "FileChange":
            name, tool = "apply_patch", Tool.EDIT
            path = next(iter(item.changes), None) if isinstance(item.changes, dict) else None
            given, content = {"changes": item.changes}, _text(item.stdout) or _text(item.stderr)
        case "McpToolCall":
            name = f"mcp__{_text(item.server)}__{_text(item.tool)}"
            given = _arguments(item.arguments)
            content = _plain(item.result.get("content") if isinstance(item.result, dict) else item.error)
        case _:
            return []
    call_id = _text(item.id)
    return [
        ToolCall(tool_use_id=call_id, tool_name=name, tool=tool, file_path=path, input=given),
        ToolResult(
            tool_use_id=call_id,
            tool_name=name,
            tool=tool,
            file_path=path,
            content=content,
            is_error=_item_failed(item),
        ),
    ]


def _patched(text: str) -> str | None:
    """The first path that a patch names."""
    if "*** Begin Patch" not in text:
        return None
    found = _PATCHED.search(text if "\n" in text else text.replace("\\n", "\n"))
    return found.group(1) if found else None


# words and numbers --------------------------------------------------------------------------------------------


def _answer(text: str) -> list[Event | None]:
    """What the model said, and the plan it put before the user where it says so."""
    found = _PROPOSED.search(text)
    if found is None:
        return [AssistantText(text=text)] if text else []
    rest = (text[: found.start()] + text[found.end() :]).strip()
    plan = Plan(name="proposed_plan", content=found.group(1))
    return [AssistantText(text=rest), plan] if rest else [plan]


def _is_synthetic(payload: _Payload, text: str) -> bool:
    """Whether Codex wrote these words in the user's place: newer logs say so, in older ones the words tell."""
    kinds = payload.origin.get("content_item_kinds") if isinstance(payload.origin, dict) else None
    if isinstance(kinds, list) and kinds:
        return not any(_text(kind).startswith("user.") for kind in kinds)
    return _SYNTHETIC.match(text) is not None


def _typed(content: Any) -> tuple[str, int]:
    """The words of a user's message, and how many images came with them."""
    if not isinstance(content, list):
        return _text(content), 0
    parts = [part for part in content if isinstance(part, dict)]
    images = sum("image" in _text(part.get("type")) for part in parts)
    words = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(word for word in words if not _IMAGE_TAG.match(word)), images


def _plain(value: Any) -> str:
    """The text of a content value: a string, parts with text, or anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text for text in map(_plain, value) if text)
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return str(value["text"])
        kind = _text(value.get("type"))
        if "image" in kind:
            return "[image]"
        if kind == "encrypted_content":
            sealed = _text(value.get("encrypted_content"))
            return "" if sealed.startswith("gAAAA") else sealed
    return encoded(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _word(found: re.Match[bytes] | None) -> str | None:
    return found.group(1).decode("utf-8", "replace") if found else None


def _code(info: Any) -> str:
    """An error's name, whether it stands alone or over its details."""
    return next(iter(info), "") if isinstance(info, dict) else _text(info)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


AGENT = Agent(name=NAME, title="Codex CLI", log=Logs(), run=Runs())
