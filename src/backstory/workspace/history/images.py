"""Images in the records of a session, told by their own bytes, whatever a log calls them. No named file is read."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from backstory.conversation.carrying import IMAGE
from backstory.errors import RecordNotFound
from backstory.export.full_form import FullForms
from backstory.model import ToolResult, UserMessage
from backstory.store.tables import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event
    from backstory.workspace.located import LocatedSession

BYTES_MOST = 20 * 1024 * 1024
"""A larger image is not shown."""
IMAGES_MOST = 50
"""The most images that are shown of an event."""
SIGNED = {
    "image/png": (b"\x89PNG\r\n\x1a\n", 0), "image/jpeg": (b"\xff\xd8\xff", 0), "image/gif": (b"GIF8", 0),
    "image/webp": (b"WEBP", 8),
}  # fmt: skip
"""The bytes by which each kind is known, and where they stand. There is no SVG among them: that is a program."""
_SIGN_CHARS = 16
"""The base64 up to here has the sign of every kind."""


class ShownImage(NamedTuple):
    """An image, and what its bytes say it is."""

    media_type: str
    data: bytes


def image_count(event: Event) -> int:
    """The number of images that an event names, each on a line of its own."""
    if not isinstance(event, UserMessage | ToolResult) or IMAGE not in event.content:
        return 0
    return min(sum(line == IMAGE for line in event.content.split("\n")), IMAGES_MOST)


def image_of(located: LocatedSession, seq: int, part: int, number: int) -> ShownImage:
    """An image of an event, counted from 0. Raises RecordNotFound where there is none that can be shown."""
    forms = FullForms(located.store)
    stored = located.store.ask(events.of_records, located.session.id, [seq])
    before = sum(image_count(forms.expand(each)) for each in stored if each.part < part)
    if stored and 0 <= number < IMAGES_MOST:
        for n, text in enumerate(_texts_of_images(forms.record(stored[0]))):
            if n == before + number and (found := _decoded(text)) is not None:
                return found
    raise RecordNotFound(seq)


def _texts_of_images(record: bytes) -> Iterator[str]:
    """The base64 of every image in a record, in order."""
    try:
        waiting: list[Any] = [msgspec.json.decode(record)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
    seen = set[str]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting += reversed([*value.values()] if isinstance(value, dict) else value)
        elif isinstance(value, str):
            head, comma, _ = value[:64].partition(",")
            text = value[len(head) + 1 :] if comma and head.startswith("data:image/") else value
            # Some logs have what a tool returned twice: for the model and for their own screen.
            if _media_type(_bytes(text[:_SIGN_CHARS])) and text not in seen:
                seen.add(text)
                yield text


def _decoded(text: str) -> ShownImage | None:
    if len(text) > BYTES_MOST * 4 // 3 + 4:
        return None
    data = _bytes(text)
    kind = _media_type(data)
    return ShownImage(kind, data) if kind else None


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _media_type(data: bytes) -> str:
    return next((kind for kind, (sign, at) in SIGNED.items() if data.startswith(sign, at)), "")
