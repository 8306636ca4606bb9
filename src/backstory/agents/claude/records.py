"""The records of a log, as far as they are read, their text, and their counts of tokens."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from backstory.agents import numbers
from backstory.bounds import LOST, added
from backstory.model import Tokens, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable

_CANONICAL = "canonicalModel"
Counted = tuple[int, ...]
"""A message's counts: input, output, read from a cache, written to one, and of that the part held for an hour."""


class Usage(numbers.Counts):
    """The usage of a message, or of a result."""

    input_tokens: numbers.Count = None
    output_tokens: numbers.Count = None
    cache_read_input_tokens: numbers.Count = None
    cache_creation_input_tokens: numbers.Count = None
    cache_write_1h: Any = field(default=None, name="cache_creation")
    """The part held for an hour, set on reading; None if the periods do not add up to the tokens that were written."""

    def __post_init__(self) -> None:
        periods, self.cache_write_1h = self.cache_write_1h, None
        super().__post_init__()
        self.cache_write_1h = _held_for_an_hour(periods, self.cache_creation_input_tokens)


def _held_for_an_hour(periods: object, written: int | None) -> int | None:
    if not written:
        return written
    if written == LOST or not isinstance(periods, dict):
        return None
    short, long = periods.get("ephemeral_5m_input_tokens", 0), periods.get("ephemeral_1h_input_tokens", 0)
    if type(short) is not int or type(long) is not int or min(short, long) < 0:
        return None
    return long if short + long == written else None


def add_record(tokens: Tokens, before: Counted | None, usage: Usage) -> tuple[Counted, Tokens]:
    """Return a message's counts and a turn's tokens after one more record of it; ``before``: its counts so far.

    A count of a cache that is not there is 0, as a client writes none of what it does not use; input or output that is
    not there is not known. A count that was lost stays lost.
    """
    written, written_1h = usage.cache_creation_input_tokens or 0, usage.cache_write_1h
    read = usage.cache_read_input_tokens or 0
    counted = (usage.input_tokens or 0, usage.output_tokens or 0, read, written, written_1h or 0)
    if counted == before:
        return counted, tokens
    # What was kept of a log that goes on may come from a version that knew nothing of the periods.
    known = (*(before or ()), 0, 0, 0, 0, 0)[: len(counted)]
    now = tuple(map(max, known, counted))
    if before is not None and now == known:
        return now, tokens
    grown = [LOST if new == LOST else new - old for new, old in zip(now, known, strict=True)]
    known_1h = tokens.cache_write_1h if tokens.cache_write else 0
    is_known_1h = known_1h is not None and (not written or written_1h is not None)
    return now, Tokens(
        input=_added(tokens.input, None if usage.input_tokens is None else grown[0]),
        output=_added(tokens.output, None if usage.output_tokens is None else grown[1]),
        cache_read=added(tokens.cache_read, grown[2]),
        cache_write=added(tokens.cache_write, grown[3]),
        cache_write_1h=added(known_1h, grown[4]) if is_known_1h else None,
        largest_input=numbers.largest_input(
            tokens, None if usage.input_tokens is None else added(now[0], now[2], now[3])
        ),
    )


def tokens_of(usage: Usage) -> Tokens:
    """The tokens of a message, or of a result."""
    return Tokens(
        input=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_input_tokens,
        cache_write=usage.cache_creation_input_tokens,
        cache_write_1h=usage.cache_write_1h,
    )


def larger_counts(one: Tokens, other: Tokens) -> Tokens:
    """Return the larger of each number of two countings of the same."""
    tokens = Tokens(
        input=_max(one.input, other.input),
        output=_max(one.output, other.output),
        cache_read=_max(one.cache_read, other.cache_read),
        cache_write=_max(one.cache_write, other.cache_write),
    )
    for each in (one, other):
        if each.cache_write_1h is not None and each.cache_write == tokens.cache_write:
            tokens.cache_write_1h = each.cache_write_1h
        if each.largest_input is not None and _whole_input(each) == _whole_input(tokens):
            tokens.largest_input = each.largest_input
    return tokens


def is_whole(usage: Usage) -> bool:
    """Return True if it has both input and output, as every request does that was answered."""
    return usage.input_tokens is not None and usage.output_tokens is not None


def tokens_of_run(messages: Iterable[Tokens], results: Iterable[Tokens]) -> Tokens | None:
    """Return the tokens of a run, by its messages, a request each, and by its results.

    Messages miss the requests that were not streamed; results miss the answers that were cut off. Neither counts
    anything twice, so the larger number is the nearer one.
    """
    requests = list(messages)
    for each in requests:
        each.largest_input = _whole_input(each)
    sums = [reduce(_plus, each) for each in (requests, list(results)) if each]
    return reduce(larger_counts, sums) if sums else None


def _plus(one: Tokens, other: Tokens) -> Tokens:
    is_known_1h = all(each.cache_write_1h is not None or not each.cache_write for each in (one, other))
    return Tokens(
        input=_added(one.input, other.input),
        output=_added(one.output, other.output),
        cache_read=_added(one.cache_read, other.cache_read),
        cache_write=_added(one.cache_write, other.cache_write),
        cache_write_1h=_added(one.cache_write_1h, other.cache_write_1h) if is_known_1h else None,
        largest_input=_max(one.largest_input, other.largest_input),
    )


def _whole_input(tokens: Tokens) -> int:
    return added(tokens.input, tokens.cache_read, tokens.cache_write)


def _max(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else added(one, other)


def context_window(model_usage: object, model: str | None) -> int | None:
    """Return the most tokens that a model takes, as a result gives it beside each model's use.

    A model may stand there with a suffix, ``[1m]``; a single one is that of the turn.
    """
    given = model_usage if isinstance(model_usage, dict) else {}
    used = {name: each for name, each in given.items() if isinstance(each, dict)}
    known = model if model is not None else ""
    own = [each for name, each in used.items() if known in (name, name.partition("[")[0], each.get(_CANONICAL))]
    found = next(iter(own or (used.values() if len(used) == 1 else ())), {})
    return numbers.count(found.get("contextWindow"), "context_window")


# records ------------------------------------------------------------------------------------------------------------


class Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    is_error: bool | None = None


Content = str | list[Block | str] | None
"""The content of a message."""


class Message(Struct):
    id: str | None = None
    model: str | None = None
    content: Content = None
    usage: Usage | None = None
    stop_reason: str | None = None


class Record(Struct, rename="camel"):
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
    message: Message | None = None
    attachment: Any = None
    content: Any = None
    duration_ms: Any = None
    retry_attempt: Any = None
    max_retries: Any = None
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


record_decoder = msgspec.json.Decoder(Record)


def plain_text(value: Any) -> str:
    """The text of a content value: a string, blocks, or anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(plain_text(each) for each in value)
    if isinstance(value, dict):
        for key in ("text", "tool_name" if value.get("type") == "tool_reference" else "message"):
            if isinstance(value.get(key), str):
                return str(value[key])
        if value.get("type") in ("image", "document"):
            return f"[{value['type']}]"
    return encoded(value).decode()


def text_of(content: Content) -> str:
    """Return the words of a message, its tool results left out; an image is named."""
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


# kinds ----------------------------------------------------------------------------------------------------------------
# Kinds of records that show nothing: their bytes are kept. A kind that is neither read nor named here is unknown.


KEPT = frozenset(
    {
        "agent-setting", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "bridge-session",
        "file-history-snapshot", "frame-link", "last-prompt", "mode", "permission-mode", "pr-link", "progress",
        "queue-operation", "tools-used", "worktree-state",
    }
)  # fmt: skip
"""Types of a log's records."""

KEPT_SYSTEM = frozenset(
    {
        "away_summary", "compact_boundary", "informational", "microcompact_boundary", "model_fallback",
        "scheduled_task_fire", "turn_duration",
    }
)  # fmt: skip
"""Subtypes of a log's ``system`` records."""

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
"""Types of what the client put beside a prompt."""

KEPT_BLOCKS = frozenset({"redacted_thinking", "document", "container_upload", "fallback"})
"""Types of a message's blocks."""

KEPT_STREAM = frozenset(
    {
        "auth_status", "command_lifecycle", "control_cancel_request", "control_request", "control_response",
        "keep_alive", "prompt_suggestion", "rate_limit_event", "tool_progress", "tool_use_summary",
    }
)  # fmt: skip
"""Types of the records that a run prints."""

KEPT_STREAM_SYSTEM = frozenset(
    {
        "background_tasks_changed", "elicitation_complete", "files_persisted", "hook_progress", "hook_response",
        "hook_started", "local_command_output", "permission_denied", "post_turn_summary", "session_state_changed",
        "status", "task_notification", "task_progress", "task_started", "task_updated", "thinking_tokens",
        "vcs_state_changed",
    }
)  # fmt: skip
"""Subtypes of the ``system`` records that a run prints."""
