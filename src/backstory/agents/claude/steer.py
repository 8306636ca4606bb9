"""Messages to an agent while it runs.

Its prompt is a line on a stdin that stays open. The agent takes up a further line after the next tool's result, else
when the answer is done; at the end of stdin it answers what it was sent, and ends. ``command_lifecycle`` records say
which lines it took up, by a uuid that we chose; the log has it as ``source_uuid`` of a ``queued_command``, or as the
uuid of a prompt.
"""

from __future__ import annotations

import hashlib
import uuid

from backstory.model import encoded

_MARK = b"bkstry"
"""The first bytes of the ids of messages that we send to a running agent: version 8 uuids, which are ours to fill."""
_ID_BEGINNING = "626b7374-7279-8"


def is_own(message_id: str) -> bool:
    """Return True if we sent the message of this id to a running agent."""
    return message_id.startswith(_ID_BEGINNING)


class Steering:
    """See ``contract.SteerPart``."""

    def streaming_command(self, command: list[str]) -> list[str]:
        return [*command, "--input-format", "stream-json"]

    def encode_message(self, text: str, message_id: str = "") -> bytes:
        content = [{"type": "text", "text": text.encode("utf-8", "replace").decode()}]
        record = {"type": "user", "message": {"role": "user", "content": content}}
        return encoded({**record, "uuid": message_id} if message_id else record) + b"\n"

    def message_id(self, uid: str) -> str:
        rest = hashlib.sha256(uid.encode()).digest()[: 16 - len(_MARK)]
        # Version 8 and the variant stand in the first bits of the two bytes that they share.
        filled = bytes([*_MARK, 0x80 | rest[0] & 0x0F, rest[1], 0x80 | rest[2] & 0x3F, *rest[3:]])
        return str(uuid.UUID(bytes=filled))
