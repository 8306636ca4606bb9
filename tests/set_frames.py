"""Writes the frames in docs/json-format.md anew: ``python -m tests.set_frames``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.exchange import frames
from backstory.exchange.frames import head_of, joined, read

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent.parent / "docs" / "json-format.md"
BEGIN, END = "<!-- frames -->\n", "<!-- end of frames -->"
UID, TURN = "01M3250V00CJ5X1JHP0Z69AWSQ", "01M3250V00CJ5X1JHP0Z69AW01"
EVENTS = [
    {"seq": 1, "turn": TURN, "event": {"UserMessage": {"content": "hi"}}},
    {"seq": 2, "turn": TURN, "event": {"AssistantText": {"text": "hello"}}},
    {"seq": 3, "turn": TURN, "event": {"AssistantText": {"text": "and more"}}},
]
"""A session when it had two events, and when it had three."""


def line(of: str, **fields: object) -> bytes:
    return json.dumps({"type": of, **fields}, separators=(",", ":")).encode() + b"\n"


def bytes_of(log: bytes, start: int) -> bytes:
    data = log[start:]
    digest, text = hashlib.sha256(data).hexdigest(), base64.b64encode(data).decode()
    return line("bytes", log=1, start=start, sha256=digest, data=text)


def exported(before: int, count: int, *, has_bytes: bool) -> Iterator[bytes]:
    """The lines of the session when it had so many events, behind those that were exported before."""
    records = [json.dumps(each["event"]).encode() for each in EVENTS]
    starts = [sum(len(each) + 1 for each in records[:n]) for n in range(len(records) + 1)]
    log = b"".join(each + b"\n" for each in records[:count])
    yield line("session", uid=UID, created="2026-09-21T14:13:20.123Z", next_seq=count + 1)
    if has_bytes:
        yield line("log", log=1, agent="api", kind="api", native_id=UID, length=len(log), parsed_to=len(log))
        yield line("numbers", log=1, ranges=[[0, len(log), 1, count]])
        yield bytes_of(log, starts[before])
    yield line("turn", uid=TURN, first_seq=1, last_seq=count, agent="api", prompt="hi")
    for n, each in enumerate(EVENTS[before:count], before):
        place = {"log": 1, "position": starts[n], "length": len(records[n])} if has_bytes else {}
        yield line("event", **{key: each[key] for key in ("seq", "turn")}, **place, event=each["event"])
    new = {"bytes": len(log) - starts[before]} if has_bytes else {}
    yield line("session_end", uid=UID, turns=1, events=count - before, **new)


def frames_of(name: str) -> list[bytes]:
    """The frames of the page that are called so."""
    if name == "removed":
        removed = line("removed", uid=UID, at="2026-09-22T09:00:00.000Z")
        return list(frames.frames([removed], session=UID, epoch=2))
    has_bytes = name == "bytes"
    first, then = exported(0, 2, has_bytes=has_bytes), exported(2, 3, has_bytes=has_bytes)
    found = list(frames.frames(first, session=UID, has_bytes=has_bytes))
    head = head_of(found[-1])
    return [*found, *frames.frames(then, session=UID, after=head.upto, prev=head.chain, has_bytes=has_bytes)]


def shown(name: str) -> str:
    blocks = []
    for each in frames_of(name):
        head, packed = each.split(b"\n", 1)
        text = "\n".join(textwrap.wrap(base64.b64encode(packed).decode(), 104))
        blocks.append(f"```frame {name}\n{head.decode()}\n{text}\n```\n")
    lines = b"".join(joined([read(each) for each in frames_of(name)])).decode()
    blocks.append(f"```jsonl joined {name}\n{lines}```\n")
    return "\n".join(blocks)


def vectors() -> str:
    return (
        "Two frames of a session, the second from when it had gone on, in base64; and their lines, joined.\n"
        f"The first `chain` is over `1 {UID} 1 0 -1 2 0 2 0 0 -`, LF and the payload.\n\n"
        f"{shown('plain')}\nThe same with the bytes of its log:\n\n"
        f"{shown('bytes')}\nAnd a frame that says that it was removed:\n\n{shown('removed')}"
    )


if __name__ == "__main__":
    text = DOCS.read_text("utf-8")
    part = re.escape(BEGIN) + ".*?" + re.escape(END)
    DOCS.write_text(re.sub(part, lambda _: f"{BEGIN}{vectors()}{END}", text, flags=re.DOTALL), "utf-8")
