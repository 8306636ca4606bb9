"""Logs of Claude Code and Codex by hand: of an agent's own session, and as we write one for another agent."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory import ids
from tests.support.machines import CODEX_FOLDER, claude_log

if TYPE_CHECKING:
    from collections.abc import Iterable

USED = {"claude": 7, "codex": 11}
"""Tokens of output that an agent counts for each of its own turns."""


class Said(Struct, frozen=True):
    """A turn in a log: its id there, its prompt and answer, whether the agent counted its tokens."""

    native_id: str
    prompt: str
    answer: str
    minute: int
    is_counted: bool = True


class HandMade(Struct, frozen=True):
    """A log, and the agent whose it is."""

    agent: str
    native_id: str
    turns: tuple[Said, ...]
    minute: int = 0
    """When its first record was written."""

    @property
    def path(self) -> Path:
        """Where it lies below a home folder."""
        if self.agent == "claude":
            return claude_log(self.native_id)
        return CODEX_FOLDER / f"rollout-2026-11-21T21-00-00-{self.native_id}.jsonl"

    @property
    def bytes(self) -> bytes:
        made = _claude(self) if self.agent == "claude" else _codex(self)
        return b"".join(json.dumps(each).encode() + b"\n" for each in made)

    @property
    def uids(self) -> list[str]:
        """The uids of its turns, where nothing says that they are others'."""
        return [ids.turn_uid(self.agent, turn.native_id) for turn in self.turns]

    @property
    def uid(self) -> str:
        """The uid of its session."""
        return ids.session_uid(self.agent, self.native_id, ids.first_timestamp_ms(self.bytes))

    def with_more(self, *words: str, minute: int = 30) -> HandMade:
        """The same log after its agent went on with it."""
        turns = (_said(self.native_id, word, minute + n) for n, word in enumerate(words))
        return HandMade(self.agent, self.native_id, (*self.turns, *turns), self.minute)


def own(agent: str, name: str, *words: str, minute: int = 0) -> HandMade:
    """A session that the agent began, with a turn for each word. Its ids come of its name."""
    native_id = str(_random(name))
    turns = (_said(native_id, word, minute + n) for n, word in enumerate(words))
    return HandMade(agent, native_id, tuple(turns), minute)


def written_of(original: HandMade, agent: str, *, uids: Iterable[str] | None = None, minute: int = 0) -> HandMade:
    """A log of another agent as we write it of a session. ``uids``: those that its turns have in the store we have."""
    known = list(uids if uids is not None else original.uids)
    turns = (
        Said(ids.written_turn_id(uid), turn.prompt, turn.answer, turn.minute, is_counted=False)
        for uid, turn in zip(known, original.turns, strict=True)
    )
    return HandMade(agent, ids.written_log_id(original.uid, known[-1], agent), tuple(turns), minute)


def _said(session: str, word: str, minute: int) -> Said:
    return Said(str(_random(f"{session} {word}")), f"ask {word}", f"about {word}", minute)


def _random(name: str) -> uuid.UUID:
    """A UUID as agents make them, always the same of a name."""
    return uuid.UUID(bytes=uuid.uuid5(uuid.NAMESPACE_OID, name).bytes, version=4)


def _at(minute: int, second: int = 0) -> str:
    return f"2026-11-21T21:{minute:02}:{second:02}.000Z"


def _claude(log: HandMade) -> Iterable[dict[str, Any]]:
    above: str | None = None
    for turn in log.turns:
        common = {"sessionId": log.native_id, "cwd": "/w", "version": "2.1.330", "isSidechain": False}
        answer_id = str(_random(f"{log.native_id} {turn.native_id}"))
        said = {"role": "user", "content": turn.prompt}
        yield common | {
            "type": "user", "uuid": turn.native_id, "parentUuid": above, "timestamp": _at(turn.minute), "message": said,
        }  # fmt: skip
        usage = {"input_tokens": 3, "output_tokens": USED["claude"] if turn.is_counted else 0}
        message = {
            "id": f"m{answer_id}", "role": "assistant", "model": "claude-opus-4-1-20250805", "type": "message",
            "content": [{"type": "text", "text": turn.answer}], "stop_reason": "end_turn", "usage": usage,
        }  # fmt: skip
        yield common | {
            "type": "assistant", "uuid": answer_id, "parentUuid": turn.native_id, "timestamp": _at(turn.minute, 30),
            "message": message,
        }  # fmt: skip
        above = answer_id


def _codex(log: HandMade) -> Iterable[dict[str, Any]]:
    def record(kind: str, minute: int, second: int = 0, **payload: Any) -> dict[str, Any]:
        return {"timestamp": _at(minute, second), "type": kind, "payload": payload}

    yield record("session_meta", log.minute, id=log.native_id, cwd="/w", cli_version="0.169.0")
    used = 0
    for turn in log.turns:
        yield record("event_msg", turn.minute, type="task_started", turn_id=turn.native_id)
        yield record("turn_context", turn.minute, turn_id=turn.native_id, cwd="/w", model="gpt-5")
        text = [{"type": "input_text", "text": turn.prompt}]
        yield record("response_item", turn.minute, type="message", role="user", content=text)
        yield record("event_msg", turn.minute, type="user_message", message=turn.prompt)
        answer = [{"type": "output_text", "text": turn.answer}]
        yield record("response_item", turn.minute, 30, type="message", role="assistant", content=answer)
        if turn.is_counted:
            used += USED["codex"]
            counted = {
                f"{name}_token_usage": {"input_tokens": count, "cached_input_tokens": 0, "output_tokens": count}
                for name, count in (("total", used), ("last", USED["codex"]))
            }
            yield record("event_msg", turn.minute, 30, type="token_count", info=counted)
        yield record("event_msg", turn.minute, 31, type="task_complete", turn_id=turn.native_id)
