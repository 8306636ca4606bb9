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

import msgspec

from backstory.agents.codex.places import NAME
from backstory.agents.codex.resume import SESSIONS
from backstory.agents.codex.tools import inner_command
from backstory.bounds import iso
from backstory.conversation.carried import (
    Action,
    Call,
    CarriedAnswer,
    CarriedTurn,
    Image,
    Interruption,
    Message,
    Remark,
    ReplaceText,
    RunCommand,
    Words,
    WriteFile,
)
from backstory.conversation.carrying import SUMMARY_AS_TEXT
from backstory.ids import written_turn_id
from backstory.lazy import lazy_regex
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.conversation.carried import CarriedSession, Step
    from backstory.model import ToolCall

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
            shown = [url_of(each) for each in turn.images]
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

    def _part(self, part: CarriedAnswer | Call, at: int | None) -> bytes:
        match part:
            case CarriedAnswer(text=text):
                return self._message("assistant", [{"type": "output_text", "text": text}], NOT_TYPED, at)
            case Call(name=name) if name == PATCH:
                given = {"name": part.name, "input": part.input["patch"], "status": "completed"}
                return self._line("response_item", at, type="custom_tool_call", call_id=part.id, **given)
        # As a log is read, an MCP server's tool has a name of two parts.
        server, _, tool = part.name.rpartition("__") if part.name.startswith("mcp__") else ("", "", part.name)
        named = {"name": tool, **({"namespace": server} if server else {})}
        given = {**named, "arguments": encoded(part.input).decode()}
        return self._line("response_item", at, type="function_call", call_id=part.id, **given)

    def _result(self, call: Call, at: int | None) -> bytes:
        kind = "custom_tool_call_output" if call.name == PATCH else "function_call_output"
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
    return {"type": "input_image", "image_url": url_of(image)}


# images ---------------------------------------------------------------------------------------------------------------
# Images in records: parts of a message, what came with a prompt, or what a tool returned.


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


# actions --------------------------------------------------------------------------------------------------------------
# The calls of this agent as actions, whatever a tool is called, and actions as its calls.


SHELL, PATCH = "exec_command", "apply_patch"
BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE = "*** Add File: ", "*** Update File: "


def action_of(call: ToolCall) -> Action | None:
    """See ``contract.WritePart``. A patch is one action if it changes one place of one file."""
    match call.tool_name, call.input:
        case "exec_command", {"cmd": str(command)}:
            return RunCommand(command=command, folder=_text(call.input.get("workdir")))
        case "exec_command" | "shell" | "shell_command" | "local_shell" | "container.exec", {"command": command}:
            where = _text(call.input.get("workdir")) or _text(call.input.get("working_directory"))
            return _command(command, where)
        case "apply_patch", {"patch": str(patch)}:
            return _patched(patch)
    return None


def call_for(action: Action, folder: str) -> tuple[str, Any] | None:
    """See ``contract.WritePart``. A patch has whole lines, each with its end: other texts cannot be written as one."""
    match action:
        case RunCommand(command=command, folder=where):
            return SHELL, {"cmd": command, **({"workdir": where} if where and where != folder else {})}
        case WriteFile(path=path, content=content) if content.endswith("\n") and "\r" not in content:
            added = [f"+{line}" for line in content[:-1].split("\n")]
            return PATCH, {"patch": "\n".join([BEGIN, f"{ADD}{path}", *added, END])}
    return None


def own_call(call: ToolCall) -> tuple[str, Any] | None:
    """See ``contract.WritePart``. A run's stream names calls in its own way, and some calls have no result in a log."""
    name, given = call.tool_name, call.input
    match name, given:
        case "exec_command", {"cmd": str()}:
            return name, given
        case "exec_command" | "shell" | "local_shell", {"command": str()}:
            action = action_of(call)
            return None if action is None else call_for(action, "")
        case "apply_patch", {"patch": str()}:
            return name, given
        case "apply_patch" | "local_shell" | "web_search" | "image_generation" | "tool_search", _:
            return None
    # What the stream calls SERVER.TOOL, and a script's input, is no function of this name.
    return (name, given) if name and "." not in name and isinstance(given, dict) and set(given) != {"input"} else None


def _command(command: object, folder: str | None) -> RunCommand | None:
    match command:
        case str():
            return RunCommand(command=command, folder=folder)
        case ["bash" | "sh" | "zsh" | "/bin/bash" | "/bin/sh" | "/bin/zsh", "-c" | "-lc", str(inner)]:
            return RunCommand(command=inner, folder=folder)
        case list() if command and all(isinstance(word, str) for word in command):
            import shlex  # few logs name a command by its words

            return RunCommand(command=inner_command(shlex.join(command)), folder=folder)
    return None


def _patched(patch: str) -> Action | None:
    lines = patch.strip().split("\n")
    if len(lines) < 3 or lines[0] != BEGIN or lines[-1] != END:
        return None
    head, body = lines[1], lines[2:-1]
    if head.startswith(ADD) and all(line.startswith("+") for line in body):
        return WriteFile(path=head.removeprefix(ADD), content="".join(f"{line[1:]}\n" for line in body))
    if head.startswith(UPDATE) and body and body[0].startswith("@@"):
        return _replaced(head.removeprefix(UPDATE), body[1:])
    return None


def _replaced(path: str, body: list[str]) -> ReplaceText | None:
    if not body or any(line[:1] not in (" ", "-", "+") for line in body):
        return None
    old = "".join(f"{line[1:]}\n" for line in body if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in body if line[0] in " +")
    return ReplaceText(path=path, old=old, new=new) if old else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
