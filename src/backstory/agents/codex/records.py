"""The records of a log: a line of JSON each, ``{timestamp, type, payload}``, and what a payload of each type holds.

Source: the logs that ``reader`` names; the Structs of payloads are called as Codex calls them. Fields that nothing is
read from are left out. What is ``Any`` is shown as it stands, whatever it is: what a model or a tool has put there.

The first builds wrote payloads bare: a session's meta has no type, all others are response items.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, field

from backstory.agents import jsonl, numbers
from backstory.agents.codex.usage import Usage
from backstory.lazy import lazy_regex
from backstory.model import encoded

# whose log it is ----------------------------------------------------------------------------------------------


class ThreadSpawn(Struct):
    parent_thread_id: str | None = None


class SubAgent(Struct):
    thread_spawn: ThreadSpawn | None = None


class Source(Struct):
    """The source of a thread, if it is more than a word."""

    subagent: SubAgent | str | None = None


class Git(Struct):
    branch: str | None = None
    repository_url: str | None = None


class SessionMeta(Struct):
    id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    source: Source | str | None = None
    cwd: str | None = None
    model: str | None = None
    cli_version: str | None = None
    git: Git | None = None


# what the model is sent, and what it said -----------------------------------------------------------------------


class TurnContext(Struct):
    turn_id: str | None = None
    root_turn_id: str | None = None
    cwd: str | None = None
    model: str | None = None


class Origin(Struct):
    """The author of each part of a message, as newer builds note it."""

    content_item_kinds: list[str] | None = None


class ResponseItem(Struct):
    """A message, a call (``*_call``) or its result (``*_output``), distinguished by ``type``."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: Any = None
    summary: Any = None
    author: str | None = None
    name: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    arguments: dict[str, Any] | str | None = None
    input: str | None = None
    action: dict[str, Any] | None = None
    revised_prompt: str | None = None
    output: Any = None
    tools: Any = None
    origin: Origin | None = field(default=None, name="internal_chat_message_metadata_passthrough")


class CompactedItem(Struct):
    message: str | None = None


# what the screen showed -----------------------------------------------------------------------------------------


class TokenUsageInfo(Struct):
    total_token_usage: Usage | None = None
    last_token_usage: Usage | None = None
    model_context_window: Any = None


class TurnError(Struct):
    message: str | None = None
    codex_error_info: dict[str, Any] | str | None = None


class McpAnswer(Struct):
    is_error: bool | None = None
    isError: bool | None = None  # noqa: N815  # as MCP spells it


class McpResult(McpAnswer):
    """Older builds wrap an answer in ``Ok``, and write a failure as ``Err``."""

    ok: McpAnswer | None = field(default=None, name="Ok")
    err: Any = field(default=UNSET, name="Err")


class ItemResult(Struct):
    content: Any = None


class TurnItem(Struct):
    """Something that was done in a turn."""

    type: str = ""
    id: str | None = None
    content: Any = None
    message: str | None = None
    status: str | None = None
    command: Any = None
    cwd: Any = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: Any = None
    stdout: str | None = None
    stderr: str | None = None
    server: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | str | None = None
    result: ItemResult | str | None = None
    error: Any = None


class EventMsg(Struct):
    type: str = ""
    turn_id: str | None = None
    root_turn_id: str | None = None
    call_id: str | None = None
    message: str | None = None
    summary: str | None = None
    kind: str | None = None
    images: list[Any] | None = None
    local_images: list[Any] | None = None
    info: TokenUsageInfo | None = None
    model_context_window: Any = None
    item: TurnItem | None = None
    error: TurnError | str | None = None
    codex_error_info: dict[str, Any] | str | None = None
    last_agent_message: str | None = None
    duration_ms: numbers.Count = None
    reason: str | None = None
    num_turns: numbers.Count = None
    changes: Any = None
    started_at_ms: Any = None
    thread_name: str | None = None
    exit_code: int | None = None
    success: bool | None = None
    result: McpResult | str | None = None


# lines ----------------------------------------------------------------------------------------------------------


class SessionMetaLine(Struct, tag="session_meta"):
    payload: SessionMeta
    timestamp: Any = None


class TurnContextLine(Struct, tag="turn_context"):
    payload: TurnContext
    timestamp: Any = None


class ResponseLine(Struct, tag="response_item"):
    payload: ResponseItem
    timestamp: Any = None
    own_cwd: str | None = None
    """The folder that the session is at work in, where only the model's messages name it."""


class EventLine(Struct, tag="event_msg"):
    payload: EventMsg
    timestamp: Any = None


class CompactedLine(Struct, tag="compacted"):
    payload: CompactedItem
    timestamp: Any = None


class OtherLine(Struct):
    """A record of any other type, or of none."""

    type: str = ""
    timestamp: Any = None
    payload: msgspec.Raw = msgspec.Raw()


Record = SessionMetaLine | TurnContextLine | ResponseLine | EventLine | CompactedLine | OtherLine

_LINES: dict[str, type[Record]] = {
    "session_meta": SessionMetaLine,
    "turn_context": TurnContextLine,
    "response_item": ResponseLine,
    "event_msg": EventLine,
    "compacted": CompactedLine,
}
_decoder = msgspec.json.Decoder(SessionMetaLine | TurnContextLine | ResponseLine | EventLine | CompactedLine)
_other_decoder = msgspec.json.Decoder(OtherLine)
_response_decoder = msgspec.json.Decoder(ResponseItem)
_meta_decoder = msgspec.json.Decoder(SessionMeta)


def records_on(line: bytes) -> list[Record]:
    """The records on a line, nearly always one; raises NotJson."""
    try:
        return [_decoder.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Of another type, of the first builds, or odd.
        return [_read_again(each, line, place) for place, each in enumerate(jsonl.decode(line, _other_decoder))]


def _read_again(record: OtherLine, line: bytes, place: int) -> Record:
    payload = bytes(record.payload)
    is_bare = payload in (b"", b"null")
    if is_bare and BARE.match(line):
        return _early(record, line)
    kind = _LINES.get(record.type)
    if kind is None:
        return record
    # From the line itself: a number beyond all bounds is none any more in the payload.
    given = {} if is_bare else jsonl.patiently(line)[place]["payload"]
    if not isinstance(given, dict):
        raise jsonl.NotJson("no JSON object")
    return fitted({"type": record.type, "timestamp": record.timestamp, "payload": given}, kind)


def _early(record: OtherLine, line: bytes) -> Record:
    """A record of the first builds as today's would say it."""
    if record.type:
        item = decode_fitting(line, _response_decoder)[0]
        return ResponseLine(item, record.timestamp, cwd_in(line) or None)
    meta = decode_fitting(line, _meta_decoder)[0]
    if meta.id is None:
        # The state between them.
        return OtherLine("world_state", record.timestamp)
    return SessionMetaLine(meta, record.timestamp)


# kinds ----------------------------------------------------------------------------------------------------------------
# Types of records, responses, events and items that say nothing that is shown; their bytes are kept.


KEPT = frozenset(
    {
        "inter_agent_communication", "inter_agent_communication_metadata", "item_completed", "realtime_item",
        "security_risk_score", "token_count", "token_usage_record", "world_state",
    }
)  # fmt: skip
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
"""Items that are written when they are done, if at all."""


# values ---------------------------------------------------------------------------------------------------------------
# Texts of a record, however they are wrapped.


def plain_text(value: Any) -> str:
    """The text of a content value: a string, parts with text, or anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "\n".join(text for text in map(plain_text, value) if text)
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return str(value["text"])
        kind = text_of(value.get("type"))
        if "image" in kind:
            return "[image]"
        if kind == "encrypted_content":
            sealed = text_of(value.get("encrypted_content"))
            return "" if sealed.startswith("gAAAA") else sealed
    return encoded(value).decode()


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def code_of(info: dict[str, Any] | str | None) -> str:
    """An error's name, whether it stands alone or over its details."""
    return next(iter(info), "") if isinstance(info, dict) else info or ""


# fitting --------------------------------------------------------------------------------------------------------------
# Objects as Structs as far as they fit: a field of another type than any build has written is as if it were not
# there.


S = TypeVar("S", bound=Struct)


def decode_fitting(line: bytes, decoder: msgspec.json.Decoder[S]) -> list[S]:
    """The records on a line, as ``jsonl.decode``, but for fields that do not fit. Raises NotJson."""
    try:
        return [decoder.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        kind: Any = decoder.type
        return [fitted(each, kind) for each in jsonl.patiently(line)]


def fitted(given: dict[str, Any], kind: type[S]) -> S:
    """Raises NotJson where a ``type`` is no word: nobody knows what such an object is."""
    try:
        return msgspec.convert(given, kind)
    except (msgspec.ValidationError, RecursionError):
        values = [(name, _fitted_value(given[key], type_)) for name, key, type_ in _fields(kind) if key in given]
    if ("type", UNSET) in values:
        raise jsonl.NotJson("a type that is no word")
    return kind(**{name: value for name, value in values if value is not UNSET})


def _fitted_value(value: Any, type_: Any) -> Any:
    """UNSET for what does not fit."""
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError):
        choices = get_args(type_) if isinstance(type_, UnionType) or get_origin(type_) is Union else (type_,)
        structs = (each for each in choices if isinstance(each, type) and issubclass(each, Struct))
        struct = next(structs, None)
        return fitted(value, struct) if struct is not None and isinstance(value, dict) else UNSET


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, str, Any]]:
    return [(each.name, each.encode_name, each.type) for each in msgspec.structs.fields(kind)]


# bare records ---------------------------------------------------------------------------------------------------------
# Records of an agent's first builds, which stand bare in their lines. What they say of the session as a whole.


BARE = lazy_regex(rb'\s*\{"(?:id|record_type|type)"\s*:')
META = lazy_regex(rb'\s*\{"id"\s*:\s*"([^"\\]+)"\s*,\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"(?:instructions|git)"')
"""The first line of such a log."""
_CWD = lazy_regex(rb"<environment_context>\s*(?:\\n\s*)*(?:<cwd>|Current working directory: )([^<\\\"]+)")


def cwd_in(line: bytes) -> str:
    """The working folder of a session: only the environment text sent to the model contains it."""
    found = _CWD.search(line)
    return found.group(1).decode("utf-8", "replace").strip() if found else ""
