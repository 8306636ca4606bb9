"""Images in records: parts of a message, what came with a prompt, or what a tool returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory.conversation.carried import Image
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

_DATA = lazy_regex(r"data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=]+)")
_LISTS = ("content", "images", "output")


def images_in(line: bytes) -> list[Image]:
    """The images of a record, in order; none where it is no record, or only names files."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    payload = record.get("payload", record) if isinstance(record, dict) else None
    if isinstance(payload, dict) and isinstance(payload.get("item"), dict):
        payload = payload["item"]
    if not isinstance(payload, dict):
        return []
    call_id = payload.get("call_id")
    return [image for name in _LISTS for image in _in_parts(payload.get(name), call_id)]


def _in_parts(parts: Any, call_id: Any) -> Iterator[Image]:
    for part in parts if isinstance(parts, list) else ():
        url = part.get("image_url") if isinstance(part, dict) else part
        if isinstance(url, str) and (found := _DATA.fullmatch(url)):
            call = call_id if isinstance(call_id, str) else None
            yield Image(media_type=found.group(1), data=found.group(2), call_id=call)


def url_of(image: Image) -> str:
    """An image as the client writes it."""
    return f"data:{image.media_type};base64,{image.data}"
