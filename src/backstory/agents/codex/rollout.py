"""Writing a log that ``codex resume`` continues.

Source: logs of 0.169, and what that client sends its model of a log written so. The model is sent the
``response_item`` records; prompts stand in ``event_msg`` records once more, for the screen. Each turn is a task, known
by its ``turn_id``. The client refuses a log of another ``model_provider`` than it is set to. A turn of another agent
names no model: the client would tell its own that it was switched.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from backstory.agents.codex import actions, images
from backstory.agents.codex.places import NAME
from backstory.agents.codex.resume import SESSIONS
from backstory.bounds import iso
from backstory.conversation.carried import Answer, Call, CarriedTurn, Interruption, Message, Remark, Words
from backstory.conversation.carrying import SUMMARY_AS_TEXT
from backstory.ids import written_turn_id
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.conversation.carried import CarriedSession, Image, Step

ABORTED = "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>"
TYPED, NOT_TYPED = "user.text", "unknown"
"""The author of a part of a message, as the client notes it."""


def log_name(session: CarriedSession) -> PurePath:
    """See ``contract.WritePart``."""
    at = datetime.fromisoformat(iso(session.started) or "1970-01-01T00:00:00Z")
    name = f"rollout-{at:%Y-%m-%dT%H-%M-%S}-{session.native_id}.jsonl"
    return PurePath(SESSIONS, f"{at:%Y}", f"{at:%m}", f"{at:%d}", name)


def lines(session: CarriedSession, turns: Iterable[CarriedTurn], summary: str | None, version: str) -> Iterator[bytes]:
    """See ``contract.WritePart``."""
    rollout = _Rollout(session)
    yield rollout.head(version)
    for turn in turns:
        yield from rollout.begun(turn)
        if summary:
            yield rollout.words(SUMMARY_AS_TEXT.format(summary=summary), turn.started, NOT_TYPED)
            summary = None
        yield from rollout.prompt(turn)
        for step in turn.steps:
            yield from rollout.step(step)
        yield rollout.ended(turn)


class _Rollout:
    """Lines with their times, which never go back."""

    def __init__(self, session: CarriedSession) -> None:
        self._session, self._at, self._turn = session, session.started, ""

    def head(self, version: str) -> bytes:
        session = self._session
        git = {"git": {"branch": session.branch}} if session.branch else {}
        return self._line(
            "session_meta", None, id=session.native_id, session_id=session.native_id, timestamp=iso(session.started),
            cwd=session.folder, originator="backstory", cli_version=version, source="cli", thread_source="user",
            **session.settings, **git,
        )  # fmt: skip

    def begun(self, turn: CarriedTurn) -> Iterator[bytes]:
        """The beginning of a task."""
        self._turn = written_turn_id(turn.uid)
        yield self._event("task_started", turn.started, turn_id=self._turn, model_context_window=None)
        model = {"model": turn.model} if turn.agent == NAME and turn.model else {}
        yield self._line(
            "turn_context", turn.started, turn_id=self._turn, cwd=self._session.folder, approval_policy="on-request",
            sandbox_policy={"type": "read-only"}, summary="auto", **model,
        )  # fmt: skip

    def prompt(self, turn: CarriedTurn) -> Iterator[bytes]:
        """Yield the typed prompt, for the model and for the screen."""
        if turn.prompt or turn.images:
            yield self.words(turn.prompt, turn.started, TYPED, turn.images)
            shown = [images.url_of(each) for each in turn.images]
            yield self._event("user_message", turn.started, message=turn.prompt, images=shown, local_images=[])

    def step(self, step: Step) -> Iterator[bytes]:
        """Yield the records after it."""
        match step:
            case Message(parts=parts):
                yield from (self._part(part, step.at) for part in parts)
                yield from (self._result(part, step.at) for part in parts if isinstance(part, Call))
            case Words():
                # As typed they would begin a turn of their own.
                yield self.words(step.text, step.at, NOT_TYPED, step.images)
            case Remark():
                yield self.words(step.text, step.at, NOT_TYPED, step.images)
            case Interruption():
                yield self.words(ABORTED, step.at, NOT_TYPED)

    def ended(self, turn: CarriedTurn) -> bytes:
        """The end of a task."""
        if any(isinstance(step, Interruption) for step in turn.steps):
            return self._event("turn_aborted", turn.ended, turn_id=self._turn, reason="interrupted")
        return self._event("task_complete", turn.ended, turn_id=self._turn, last_agent_message=turn.last_answer)

    def words(self, text: str, at: int | None, whose: str, pictures: tuple[Image, ...] = ()) -> bytes:
        """A message in the user's place."""
        content = [*([_input(text)] if text else []), *map(_image, pictures)]
        return self._message("user", content, whose, at)

    def _part(self, part: Answer | Call, at: int | None) -> bytes:
        match part:
            case Answer(text=text):
                return self._message("assistant", [{"type": "output_text", "text": text}], NOT_TYPED, at)
            case Call(name=actions.PATCH):
                given = {"name": part.name, "input": part.input["patch"], "status": "completed"}
                return self._line("response_item", at, type="custom_tool_call", call_id=part.id, **given)
        # As a log is read, an MCP server's tool has a name of two parts.
        server, _, tool = part.name.rpartition("__") if part.name.startswith("mcp__") else ("", "", part.name)
        named = {"name": tool, **({"namespace": server} if server else {})}
        given = {**named, "arguments": encoded(part.input).decode()}
        return self._line("response_item", at, type="function_call", call_id=part.id, **given)

    def _result(self, call: Call, at: int | None) -> bytes:
        kind = "custom_tool_call_output" if call.name == actions.PATCH else "function_call_output"
        output: Any = call.result
        if call.images:
            output = [*([_input(call.result)] if call.result else []), *map(_image, call.images)]
        return self._line("response_item", at, type=kind, call_id=call.id, output=output)

    def _message(self, role: str, content: list[Any], whose: str, at: int | None) -> bytes:
        origin = {"turn_id": self._turn, "content_item_kinds": [whose] * len(content)}
        return self._line(
            "response_item", at, type="message", role=role, content=content,
            internal_chat_message_metadata_passthrough=origin,
        )  # fmt: skip

    def _event(self, kind: str, at: int | None, **more: Any) -> bytes:
        return self._line("event_msg", at, type=kind, **more)

    def _line(self, line_kind: str, at: int | None, **payload: Any) -> bytes:
        self._at = max(self._at, at or 0)
        return encoded({"timestamp": iso(self._at), "type": line_kind, "payload": payload}) + b"\n"


def _input(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": images.url_of(image)}
