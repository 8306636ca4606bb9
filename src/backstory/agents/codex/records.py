"""The records of a log: a line of JSON each, ``{timestamp, type, payload}``, and what a payload of each type holds.

Source: the logs that ``reader`` names; the Structs of payloads are called as Codex calls them. Fields that nothing is
read from are left out. What is ``Any`` is shown as it stands, whatever it is: what a model or a tool has put there.

The first builds wrote payloads bare: a session's meta has no type, all others are response items.
"""

# Types stand here as they are: written as text, as elsewhere, they would take decoders 0.5 ms to find at every start.
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from backstory.agents import jsonl, numbers
from backstory.agents.codex import bare_records
from backstory.agents.codex.fitting import decode_fitting, fitted
from backstory.agents.codex.usage import Usage

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
    if is_bare and bare_records.BARE.match(line):
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
        return ResponseLine(item, record.timestamp, bare_records.cwd_in(line) or None)
    meta = decode_fitting(line, _meta_decoder)[0]
    if meta.id is None:
        # The state between them.
        return OtherLine("world_state", record.timestamp)
    return SessionMetaLine(meta, record.timestamp)
