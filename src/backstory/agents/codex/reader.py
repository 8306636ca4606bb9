"""Codex CLI's logs: ``sessions/Y/M/D/rollout-<time>-<thread>.jsonl`` (or ``.zst``) below CODEX_HOME (else ~/.codex).

Source: recorded logs of 0.124 to 0.169. A line is ``{timestamp, type, payload}``. The conversation is told
twice: by ``response_item`` (what the model is sent) and by ``event_msg`` (what the screen showed). Answers and
tools are taken from the first, prompts and endings from the second. A task is a turn, known by its ``turn_id``;
forks and helpers begin with copies of their parent's records, whose turns keep their ids. Token counts are a
running total of the thread. These logs tell no costs, nor how long the model took: a task's time holds its tools.
"""

from __future__ import annotations

import re

import msgspec

from backstory.agents import _jsonl, _numbers
from backstory.agents.codex.fold import STARTS, Fold
from backstory.agents.codex.kinds import KEPT, KEPT_EVENTS, KEPT_ITEMS, KEPT_RESPONSES
from backstory.agents.codex.prompts import is_synthetic, typed, typed_command
from backstory.agents.codex.records import EARLY, Item, Payload, Record, decoder
from backstory.agents.codex.tools import event_failed, item_failed, nested_call
from backstory.agents.codex.values import code_of, length_of, plain_text, text_of
from backstory.model import (
    AssistantText,
    Compacted,
    Complete,
    Error,
    Event,
    Hook,
    Init,
    ModelSwitch,
    Outcome,
    Parsed,
    Plan,
    Retry,
    Thinking,
)

_UNTOLD_MAX = 8
_ROLES_ASKING = ("user", "developer", "system")
_PROPOSED = re.compile(r"<proposed_plan>\s*(.*?)\s*</proposed_plan>", re.DOTALL)


class Reader(Fold):
    """Folds one log. See ``contract.LogReader``."""

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = _jsonl.decode(line, decoder)
        except _jsonl.NotJson:
            return Parsed(None, [(0, self._unknown("not JSON"))], self._turn_at(seq))
        at, slots, untold = None, list[Event | None](), list[Event | None]()
        for record in records:
            at = _numbers.time_ms(record.timestamp)
            record = self._early(record, line)
            untold += self._untold_prompts(record, at, seq)
            slots += self._record(record, at, seq)
        # From a copy to the next prompt records make no turn longer.
        turn = None if self._state.path_copied else self._turn_at(seq)
        # A telling that repeats another leaves its slot empty, so that parts never depend on what came before.
        # A prompt that an earlier record held stands before the record's own parts, whose numbers stay theirs.
        events = [(part, event) for part, event in enumerate(untold + slots, -len(untold)) if event is not None]
        if turn is not None and events:
            self._close(turn, events[-1][1], at)
        return Parsed(at, events, turn)

    def _early(self, record: Record, line: bytes) -> Record:
        """A record of the first builds, which stands bare in its line, as today's would say it."""
        if record.payload is not None or not EARLY.match(line):
            return record
        try:
            payload = msgspec.json.decode(line, type=Payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return record
        if record.type:
            return Record(type="response_item", timestamp=record.timestamp, payload=payload)
        kind = "session_meta" if isinstance(payload.id, str) else "world_state"
        return Record(type=kind, timestamp=record.timestamp, payload=payload)

    def _record(self, record: Record, at: int | None, seq: int) -> list[Event | None]:
        payload = record.payload or Payload()
        if self._state.is_copy and not _begins_a_task(record.type, payload):
            return self._copied(payload)
        match record.type:
            case "session_meta":
                return self._session_meta(payload)
            case "turn_context":
                return self._turn_context(payload)
            case "response_item":
                return self._response(payload, at, seq)
            case "event_msg":
                return self._event(payload, at, seq)
            case "compacted":
                return [Compacted(summary=text_of(payload.message))]
            case kind:
                return [] if kind in KEPT else [self._unknown(kind or "record without a type")]

    def _copied(self, payload: Payload) -> list[Event | None]:
        """A record that a fork repeats in the same log says nothing new, but counts are told from its totals on."""
        if payload.type == "token_count" and payload.info is not None:
            self._state.totals = payload.info.total_token_usage or self._state.totals
        return []

    def _untold_prompts(self, record: Record, at: int | None, seq: int) -> list[Event | None]:
        """The prompts of a task that only the model's copy tells: it is known when the model begins to answer."""
        state, payload = self._state, record.payload or Payload()
        if not state.untold or not (record.type == "response_item" and payload.role not in _ROLES_ASKING):
            return []
        untold, state.untold = state.untold, []
        if state.task_prompts > 0 or state.is_copy:
            return []
        return [self._prompt("response_item", text, images, at, seq) for text, images in untold]

    def _session_meta(self, payload: Payload) -> list[Event | None]:
        state, thread = self._state, text_of(payload.id)
        if state.thread == thread:
            return [None]
        first, state.thread, state.totals = state.thread is None, thread, None
        if not first:
            state.has_copies = True
            return [None]
        git = payload.git if isinstance(payload.git, dict) else {}
        session = state.session
        session.cwd = text_of(payload.cwd) or session.cwd
        session.agent_version = text_of(payload.cli_version) or session.agent_version
        if branch := text_of(git.get("branch")):
            session.on_branch(branch)
        session.repository = text_of(git.get("repository_url")) or session.repository
        return [Init(cwd=session.cwd or "", model=text_of(payload.model), version=session.agent_version or "")]

    def _turn_context(self, payload: Payload) -> list[Event | None]:
        state, model = self._state, text_of(payload.model)
        if payload.turn_id:
            self._begin_task(payload)
        state.session.cwd = state.session.cwd or text_of(payload.cwd) or None
        if not model:
            return [None]
        before, state.model = state.model, model
        turn = state.turn
        if turn is not None and (turn.model is None or (payload.turn_id and payload.turn_id == state.turn_task)):
            turn.model = model
        return [ModelSwitch(model=model) if before not in (None, model) else None]

    def _response(self, payload: Payload, at: int | None, seq: int) -> list[Event | None]:
        match payload.type:
            case "message":
                return self._message(payload, at, seq)
            case "reasoning":
                text = plain_text(payload.summary) or plain_text(payload.content)
                return [Thinking(text=text)] if text else []
            case "agent_message":
                return self._agent_message(payload, at, seq)
            case kind if kind.endswith("_call"):
                return [self._tool_call(payload)]
            case kind if kind.endswith("_output"):
                return [self._tool_result(payload)]
            case kind:
                return [] if kind in KEPT_RESPONSES else [self._unknown(f"response_item/{kind}")]

    def _message(self, payload: Payload, at: int | None, seq: int) -> list[Event | None]:
        match payload.role:
            case "assistant":
                return _answer(plain_text(payload.content))
            case "user":
                text, images = typed(payload.content)
                return [*typed_command(text)] or [self._doubled_prompt(payload, text, images, at, seq)]
            case "developer" | "system":
                return []
            case role:
                return [self._unknown(f"response_item/message/{role}")]

    def _doubled_prompt(self, payload: Payload, text: str, images: int, at: int | None, seq: int) -> Event | None:
        """The model's copy of a prompt counts only where nothing else tells it: in old logs, and in copied turns."""
        if is_synthetic(payload, text):
            return None
        if self._state.has_events and not self._state.has_copies:
            if self._state.task_prompts == 0 and text.strip():
                self._state.untold = [*self._state.untold, (text, images)][-_UNTOLD_MAX:]
            return None
        return self._prompt("response_item", text, images, at, seq)

    def _agent_message(self, payload: Payload, at: int | None, seq: int) -> list[Event | None]:
        """Words from another agent: to a helper that has none yet they are its prompt."""
        text = plain_text(payload.content)
        if self._is_helper and self._state.task_prompts == 0:
            return [self._prompt("agent_message", text.partition("Payload:\n")[2].strip() or text, 0, at, seq)]
        return [Hook(name=f"message from {text_of(payload.author)}", output=text)]

    def _event(self, payload: Payload, at: int | None, seq: int) -> list[Event | None]:
        self._state.has_events = True
        match payload.type:
            case "user_message":
                if payload.kind not in (None, "plain"):
                    return [None]
                images = length_of(payload.images) + length_of(payload.local_images)
                return [self._prompt("user_message", text_of(payload.message), images, at, seq)]
            case "item_completed" if payload.item is not None:
                return self._item(payload.item, at, seq)
            case "task_started" | "turn_started":
                self._begin_task(payload)
                return []
            case "task_complete" | "turn_complete":
                return self._complete(payload)
            case "turn_aborted":
                return [self._aborted(payload)]
            case "error":
                self._state.task_error = text_of(payload.message)
                return [Error(message=text_of(payload.message), code=code_of(payload.codex_error_info))]
            case "stream_error":
                return [Retry(message=text_of(payload.message))]
            case "warning" | "guardian_warning" | "deprecation_notice":
                return [Hook(name=payload.type, output=text_of(payload.message) or text_of(payload.summary))]
            case kind:
                return self._note(kind, payload)

    def _note(self, kind: str, payload: Payload) -> list[Event | None]:
        """Records that change what is known without being an event."""
        match kind:
            case "token_count":
                self._note_tokens(payload.info)
            case "thread_rolled_back":
                self._roll_back(payload.num_turns)
            case "thread_name_updated":
                self._state.session.title = text_of(payload.thread_name).strip() or self._state.session.title
            case kind if kind in KEPT_EVENTS:
                self._note_failure(text_of(payload.call_id), event_failed(payload))
            case _:
                return [self._unknown(f"event_msg/{kind}")]
        return []

    def _item(self, item: Item, at: int | None, seq: int) -> list[Event | None]:
        if item.type == "UserMessage":
            text, images = typed(item.content)
            return [self._prompt("item_completed", text, images, at, seq)]
        if item.type == "Error":
            return [Error(message=text_of(item.message))]
        if item.type not in KEPT_ITEMS:
            return [self._unknown(f"event_msg/item_completed/{item.type}")]
        # What a script of the model's calls is told by its item alone; all other items repeat a response_item.
        if text_of(item.id).startswith("exec-") and (nested := nested_call(item)):
            return [*nested]
        self._note_failure(text_of(item.id), item_failed(item))
        return []

    def _complete(self, payload: Payload) -> list[Event | None]:
        error = payload.error if isinstance(payload.error, dict) else {"message": payload.error}
        message, told = text_of(error.get("message")), self._state.task_error
        failed = bool(payload.error) or (told is not None and not payload.last_agent_message)
        duration_ms = _numbers.count(payload.duration_ms, "duration_ms")
        self._end_turn(payload, Outcome.FAILED if failed else Outcome.COMPLETED, duration_ms)
        events: list[Event | None] = [Complete(success=not failed, duration_ms=duration_ms)]
        if payload.error:
            repeated = told is not None and told == message
            events.insert(0, None if repeated else Error(message=message, code=code_of(error.get("codex_error_info"))))
        return events

    def _aborted(self, payload: Payload) -> Error:
        reason = text_of(payload.reason)
        duration_ms = _numbers.count(payload.duration_ms, "duration_ms")
        # A helper's log closes the copy of its parent's turn like this, though that turn went on.
        is_seal = self._state.has_copies and duration_ms is None
        turn = None if is_seal else self._end_turn(payload, Outcome.CANCELLED, duration_ms)
        if turn is not None:
            turn.stop_reason = reason or None
        return Error(message=f"turn aborted: {reason}", code="interrupted")


def _begins_a_task(kind: str, payload: Payload) -> bool:
    """Whether a record may end a copy: the beginning of another task, or of another thread."""
    if kind == "event_msg":
        return payload.type in STARTS
    return kind in ("session_meta", "turn_context")


def _answer(text: str) -> list[Event | None]:
    """What the model said, and the plan it put before the user where it says so."""
    found = _PROPOSED.search(text)
    if found is None:
        return [AssistantText(text=text)] if text else []
    rest = (text[: found.start()] + text[found.end() :]).strip()
    plan = Plan(name="proposed_plan", content=found.group(1))
    return [AssistantText(text=rest), plan] if rest else [plan]
