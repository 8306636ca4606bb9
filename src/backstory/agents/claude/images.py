"""Images in records: blocks of a message, or of a tool's result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory.conversation.carried import Image

if TYPE_CHECKING:
    from collections.abc import Iterator


def images_in(line: bytes) -> list[Image]:
    """The images of a record, in order; none where it is no record."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    message = record.get("message") if isinstance(record, dict) else None
    return list(_in_blocks(message.get("content") if isinstance(message, dict) else None, None))


def _in_blocks(blocks: Any, call_id: str | None) -> Iterator[Image]:
    for block in blocks if isinstance(blocks, list) else ():
        match block:
            case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
                yield Image(media_type=kind, data=data, call_id=call_id)
            case {"type": "tool_result", "content": list(inner), "tool_use_id": str(call)} if call_id is None:
                yield from _in_blocks(inner, call)


def block_of(image: Image) -> dict[str, Any]:
    """An image as a block of a message."""
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
