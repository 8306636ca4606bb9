"""Writing a log that ``claude --resume`` continues.

Source: logs of 2.1.330, and what that client sends its model of a log written so. A message of the model is several
records, one for each block, with one ``message.id``. A tool's result stands in the user's place right behind the calls.
A record of the user that is ``isMeta`` goes to the model, and nobody typed it. What records lack is not made up: there
is no usage but zeros, which the loader demands.
"""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.agents.claude.resume import PROJECTS, project_folder
from backstory.agents.claude.steer import Steering
from backstory.bounds import iso
from backstory.conversation.carried import (
    Action,
    Call,
    CarriedAnswer,
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
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.conversation.carried import CarriedSession, CarriedTurn, Step
    from backstory.model import ToolCall

INTERRUPTED = "[Request interrupted by user]"
UNKNOWN_MODEL = "unknown"
NO_USAGE = {
    "input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0,
}  # fmt: skip


def log_name(session: CarriedSession) -> PurePath:
    """See ``contract.WritePart``."""
    return PurePath(PROJECTS, project_folder(session.folder), f"{session.native_id}.jsonl")


def lines(session: CarriedSession, turns: Iterable[CarriedTurn], summary: str | None, version: str) -> Iterator[bytes]:
    """See ``contract.WritePart``."""
    chain = _Chain(session, version)
    for turn in turns:
        chain.begin(turn)
        if summary:
            yield chain.user("summary", SUMMARY_AS_TEXT.format(summary=summary), turn.started, isMeta=True)
            summary = None
        if turn.prompt or turn.images:
            yield chain.user("", _content(turn.prompt, turn.images), turn.started)
        for n, step in enumerate(turn.steps):
            yield from chain.step(str(n), step)


class _Chain:
    """Records that follow each other. Their ids come from their turn's uid and their place in it."""

    def __init__(self, session: CarriedSession, version: str) -> None:
        self._head = {
            "isSidechain": False, "userType": "external", "entrypoint": "cli", "cwd": session.folder,
            "sessionId": session.native_id, "version": version, "gitBranch": session.branch or "",
        }  # fmt: skip
        self._at = session.started
        self._last: str | None = None
        self._turn, self._model = "", UNKNOWN_MODEL

    def begin(self, turn: CarriedTurn) -> None:
        """The records that follow are of this turn."""
        self._turn, self._model = turn.uid, turn.model or UNKNOWN_MODEL

    def user(self, name: str, content: Any, at: int | None, **more: Any) -> bytes:
        """A record in the user's place; the one without a name is the turn's prompt."""
        return self._record("user", name, {"role": "user", "content": content}, at, **more)

    def step(self, name: str, step: Step) -> Iterator[bytes]:
        """Yield the records after the prompt; ``name`` is another one for each step."""
        match step:
            case Message():
                yield from self._message(name, step)
            case Words():
                # By an id of this kind the words are known as given while the agent worked, not as a prompt.
                uuid = Steering().message_id(f"{self._turn}/{name}")
                yield self.user(name, _content(step.text, step.images), step.at, uuid=uuid)
            case Remark():
                blocks = [{"type": "text", "text": step.text}, *map(block_of, step.images)]
                yield self.user(name, blocks, step.at, isMeta=True)
            case Interruption():
                yield self.user(name, [{"type": "text", "text": INTERRUPTED}], step.at)

    def _message(self, name: str, message: Message) -> Iterator[bytes]:
        calls = [part for part in message.parts if isinstance(part, Call)]
        head = {
            "id": f"msg_{written_turn_id(f'{self._turn}/{name}').replace('-', '')}", "type": "message",
            "role": "assistant", "model": self._model, "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None, "usage": NO_USAGE,
        }  # fmt: skip
        for n, part in enumerate(message.parts):
            yield self._record("assistant", f"{name}.{n}", {**head, "content": [_block(part)]}, message.at)
        if calls:
            yield self.user(f"{name}.results", [_result(call) for call in calls], message.at)

    def _record(self, kind: str, name: str, message: dict[str, Any], at: int | None, **more: Any) -> bytes:
        uuid = written_turn_id(f"{self._turn}/{name}" if name else self._turn)
        self._at = max(self._at, at or 0)
        record = {
            "parentUuid": self._last, **self._head, "type": kind, "message": message, "uuid": uuid,
            "timestamp": iso(self._at), **more,
        }  # fmt: skip
        self._last = record["uuid"]
        return encoded(record) + b"\n"


def _content(text: str, pictures: tuple[Image, ...]) -> Any:
    if not pictures:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *map(block_of, pictures)]


def _block(part: CarriedAnswer | Call) -> dict[str, Any]:
    if isinstance(part, CarriedAnswer):
        return {"type": "text", "text": part.text}
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}


def _result(call: Call) -> dict[str, Any]:
    content = _content(call.result, call.images)
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": call.is_error}


# actions --------------------------------------------------------------------------------------------------------------
# The calls of this agent as actions, whatever a tool is called, and actions as its calls.


def action_of(call: ToolCall) -> Action | None:
    """See ``contract.WritePart``. An ``Edit`` may begin and end inside lines, which no other tool says as well."""
    match call.tool_name, call.input:
        case "Bash", {"command": str(command)}:
            return RunCommand(command=command)
        case "Write", {"file_path": str(path), "content": str(content)}:
            return WriteFile(path=path, content=content)
    return None


def call_for(action: Action, folder: str) -> tuple[str, Any]:
    """See ``contract.WritePart``. Paths are absolute here, and every command begins in the session's folder."""
    match action:
        case RunCommand(command=command, folder=where):
            moved = where is not None and where != folder
            return "Bash", {"command": f"cd {shlex.quote(where or '')} && {command}" if moved else command}
        case ReplaceText(path=path, old=old, new=new):
            return "Edit", {"file_path": _absolute(path, folder), "old_string": old, "new_string": new}
        case WriteFile(path=path, content=content):
            return "Write", {"file_path": _absolute(path, folder), "content": content}


def _absolute(path: str, folder: str) -> str:
    return path if path.startswith("/") else f"{folder.rstrip('/')}/{path}"


def own_call(call: ToolCall) -> tuple[str, Any] | None:
    """See ``contract.WritePart``."""
    return (call.tool_name, call.input) if call.tool_name and isinstance(call.input, dict) else None


# images ---------------------------------------------------------------------------------------------------------------
# Images in records: blocks of a message, or of a tool's result.


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
