"""The cells that hold events: JSON, as one zstd frame or, in the first schema, as text.

The frames are those of a streaming encoder at level 3: without the length of their content, so they are read as
streams, and no further than there is room. Where nothing else is possible AZUREAL stores the JSON itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import model
from backstory.agents.foreign import SESSION_BYTES_MAX, VALUE_BYTES_MAX, TooLarge
from backstory.derive.index_text import char_len
from backstory.lazy import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    import zstandard
else:
    zstandard = lazy_module("zstandard")

LEVEL = 3
WINDOW_BYTES_MAX = 32 * 1024 * 1024
"""A frame that asks for more memory to be unpacked is none of AZUREAL's, which ask for 2 MB."""
FRAME = bytes.fromhex("28b52ffd")
"""The first bytes of a frame."""


class Encoder:
    """Packs JSON as AZUREAL's own encoder does, byte for byte."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)

    def packed(self, json: bytes) -> bytes:
        """A cell that holds this."""
        encoder = self._compressor.compressobj()
        return encoder.compress(json) + encoder.flush()


class Cells:
    """Reads the cells of one session; what is in them together is limited, too, as a few bytes unpack to very many."""

    def __init__(self) -> None:
        self._room = SESSION_BYTES_MAX
        self._decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)

    def json(self, cell: Any) -> bytes:
        """Return the content of a cell, whether or not it is JSON; raises TooLarge."""
        data = cell.encode() if isinstance(cell, str) else cell if isinstance(cell, bytes) else b""
        if data.startswith(FRAME):
            data = self._unpacked(data)
        self._room -= len(data)
        if self._room < 0:
            raise TooLarge(f"its events are larger than {SESSION_BYTES_MAX >> 20} MB")
        return data

    def _unpacked(self, data: bytes) -> bytes:
        most = min(VALUE_BYTES_MAX, self._room)
        try:
            found = self._decoder.stream_reader(data, read_across_frames=True).read(most + 1)
        except zstandard.ZstdError:
            # A damaged frame is kept as it is, and says nothing.
            return data
        if len(found) > most:
            raise TooLarge(f"one of its events is larger than {most >> 20} MB")
        return found


# told -----------------------------------------------------------------------------------------------------------------
# Events of ours as AZUREAL's: their JSON, and how long it takes them to be.


Body = dict[str, Any]
THOUGHTS, CALLS, RESULTS, SUMMARIES, OTHERS = "thoughts", "full_calls", "full_results", "summaries", "unknown_records"
"""The parts that an event may lose."""
CONTENT_KINDS = frozenset({"Init", "UserMessage", "Command", "Plan", "AssistantText", "ToolCall", "ToolResult"})
"""A session whose last event of these follows its last ``Complete`` has no badge."""


class Told(Struct, frozen=True):
    """An event as it stands in a file: its kind, its JSON, and its length as AZUREAL counts it."""

    kind: str
    json: bytes
    char_len: int


def told(event: model.Event) -> Iterator[Told]:
    """Return the records that an event becomes: often one, and none if it has no place."""
    match event:
        case model.Init():
            yield _event("Init", {"cwd": event.cwd, "model": event.model or "unknown"})
        case model.UserMessage():
            yield _event("UserMessage", {"content": event.content}, event.content)
        case model.AssistantText():
            yield _event("AssistantText", {"text": event.text}, event.text)
        case model.ToolCall():
            yield _call(event)
        case model.ToolResult():
            yield _result(event)
        case model.Plan():
            yield _event("Plan", {"name": event.name, "content": event.content}, event.content)
        case model.Command():
            yield _event("Command", {"name": event.name}, event.name)
            yield from _hook(event.name, event.output)
        case model.ModelSwitch():
            yield _event("ModelSwitch", {"model": event.model})
        case model.Compacted():
            yield _event("Compacting", None)
        case model.Hook():
            yield from _hook(event.name, event.output)
        case model.Error():
            yield from _hook("error", event.message)
        case model.Retry():
            yield from _hook("retry", event.message)


def complete(success: bool, duration_ms: int | None, cost_usd: float | None) -> Told:
    """Return the record of a turn's end; 0 for unknown values, as AZUREAL has it."""
    return _event("Complete", {"success": success, "duration_ms": duration_ms or 0, "cost_usd": float(cost_usd or 0)})


def loses(event: model.Event, chars: int) -> str | None:
    """Return the part of an event that the file lacks, or None. ``chars``: its length before it was compact."""
    match event:
        case model.Thinking():
            return THOUGHTS
        case model.Unknown():
            return OTHERS
        case model.Compacted(summary=summary) if summary:
            return SUMMARIES
        case model.ToolCall() if char_len(event) < chars:
            return CALLS
        case model.ToolResult() if char_len(event) < chars:
            return RESULTS
    return None


def _call(call: model.ToolCall) -> Told:
    given = _sorted(call.input) if isinstance(call.input, dict) else {}
    body = {"tool_use_id": call.tool_use_id, "tool_name": call.tool_name, "file_path": call.file_path, "input": given}
    return _event("ToolCall", body, call.tool_name, _json(given))


def _result(result: model.ToolResult) -> Told:
    body = {
        "tool_use_id": result.tool_use_id, "tool_name": result.tool_name, "file_path": result.file_path,
        "content": result.content, "is_error": result.is_error,
    }  # fmt: skip
    return _event("ToolResult", body, result.content)


def _hook(name: str, output: str) -> Iterator[Told]:
    if output.strip():
        yield _event("Hook", {"name": name, "output": output}, output)


def _event(kind: str, body: Body | None, *counted: str | bytes) -> Told:
    """An event of a kind; ``counted`` is what its length is of, in bytes of UTF-8."""
    length = sum(len(each) if isinstance(each, bytes) else len(_bytes(each)) for each in counted)
    return Told(kind, _json(kind if body is None else {kind: body}), length)


def _sorted(value: Any) -> Any:
    """A value whose keys stand in the order of their bytes, as in a map of AZUREAL's."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _json(value: Any) -> bytes:
    # As its own encoder writes it: only what must be is escaped, in small letters.
    return _bytes(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
