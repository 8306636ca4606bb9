"""Codex CLI's logs: ``sessions/Y/M/D/rollout-<time>-<thread>.jsonl`` (or ``.zst``) below CODEX_HOME (else ~/.codex).

Source: recorded logs of 0.124 to 0.169. A line is ``{timestamp, type, payload}``. The conversation is written
twice: by ``response_item`` (what the model is sent) and by ``event_msg`` (what the screen showed). Answers and
tools are taken from the first, prompts and endings from the second. A task is a turn, known by its ``turn_id``;
forks and helpers begin with copies of their parent's records, whose turns keep their ids. Token counts are a
running total of the thread. These logs hold no costs, nor how long the model took: a task's time holds its tools.
"""

from __future__ import annotations

import re

from backstory.agents import jsonl, numbers
from backstory.agents.codex.fold import Fold
from backstory.agents.codex.prompts import is_synthetic, typed, typed_command
from backstory.agents.codex.records import (
    KEPT,
    KEPT_EVENTS,
    KEPT_ITEMS,
    KEPT_RESPONSES,
    CompactedLine,
    EventLine,
    EventMsg,
    Git,
    Record,
    ResponseItem,
    ResponseLine,
    SessionMeta,
    SessionMetaLine,
    TurnContext,
    TurnContextLine,
    TurnError,
    TurnItem,
    code_of,
    plain_text,
    records_on,
)
from backstory.agents.codex.retries import retry_of
from backstory.agents.codex.tools import event_failed, item_failed, nested_call
from backstory.lazy import lazy_regex
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
    Parts,
    Plan,
    Thinking,
)

_UNTOLD_MAX = 8
_STARTS = ("task_started", "turn_started")
_ROLES_ASKING = ("user", "developer", "system")
_PROPOSED = lazy_regex(r"<proposed_plan>\s*(.*?)\s*</proposed_plan>", re.DOTALL)


class Reader(Fold):
    """Folds one log. See ``contract.LogReader``."""

    def read(self, line: bytes, seq: int) -> Parsed:
        try:
            records = records_on(line)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, slots, untold = None, list[Event | None](), list[Event | None]()
        for record in records:
            at = numbers.time_ms(record.timestamp)
            untold += self._untold_prompts(record, at, seq)
            slots += self._record(record, at, seq)
        # From a copy to the next prompt records make no turn longer.
        turn = None if self._state.path_copied else self._turn_at(seq)
        # A copy of an event leaves its slot empty, so that parts never depend on what came before.
        # A prompt that an earlier record holds comes before the record's own events.
        parts, told = Parts(), enumerate(untold + slots, -len(untold))
        events = [(parts.of(seq, part), event) for part, event in told if event is not None]
        if turn is not None and events:
            self._close(turn, events[-1][1], at)
        return Parsed(at, events, turn)

    def _record(self, record: Record, at: int | None, seq: int) -> list[Event | None]:
        if self._state.is_copy and not _begins_a_task(record):
            return self._copied(record)
        match record:
            case ResponseLine(payload=item, own_cwd=cwd):
                self._state.session.cwd = self._state.session.cwd or cwd
                return self._response(item, at, seq)
            case EventLine(payload=payload):
                return self._event(payload, at, seq)
            case TurnContextLine(payload=context):
                return self._turn_context(context)
            case SessionMetaLine(payload=meta):
                return self._session_meta(meta)
            case CompactedLine(payload=compacted):
                return [Compacted(summary=compacted.message or "")]
            case _:
                return [] if record.type in KEPT else [self.unknown.emit(record.type or "record without a type")]

    def _copied(self, record: Record) -> list[Event | None]:
        """A record that a fork repeats in the same log adds no events, but later counts continue from its totals."""
        match record:
            case EventLine(payload=EventMsg(type="token_count", info=info)) if info is not None:
                self._state.totals = info.total_token_usage or self._state.totals
        return []

    def _untold_prompts(self, record: Record, at: int | None, seq: int) -> list[Event | None]:
        """The prompts of a task that only the model's copy holds: it is known when the model begins to answer."""
        state = self._state
        if not state.untold or not isinstance(record, ResponseLine) or record.payload.role in _ROLES_ASKING:
            return []
        untold, state.untold = state.untold, []
        if state.task_prompts > 0 or state.is_copy:
            return []
        return [self._prompt("response_item", text, images, at, seq) for text, images in untold]

    # the thread and its tasks ---------------------------------------------------------------------------------

    def _session_meta(self, meta: SessionMeta) -> list[Event | None]:
        state, thread = self._state, meta.id or ""
        if state.thread == thread:
            return [None]
        first, state.thread, state.totals = state.thread is None, thread, None
        if not first:
            state.has_copies = True
            return [None]
        session, git = state.session, meta.git or Git()
        session.cwd = meta.cwd or session.cwd
        session.agent_version = meta.cli_version or session.agent_version
        if git.branch:
            session.on_branch(git.branch)
        session.repository = git.repository_url or session.repository
        return [Init(cwd=session.cwd or "", model=meta.model or "", version=session.agent_version or "")]

    def _turn_context(self, context: TurnContext) -> list[Event | None]:
        state = self._state
        if context.turn_id:
            self._begin_task(context)
        state.session.cwd = state.session.cwd or context.cwd or None
        if not context.model:
            return [None]
        before, state.model = state.model, context.model
        turn = state.turn
        if turn is not None and (turn.model is None or (context.turn_id and context.turn_id == state.turn_task)):
            turn.model = context.model
        return [ModelSwitch(model=context.model) if before not in (None, context.model) else None]

    # what the model said --------------------------------------------------------------------------------------

    def _response(self, item: ResponseItem, at: int | None, seq: int) -> list[Event | None]:
        match item.type:
            case "message":
                return self._message(item, at, seq)
            case "reasoning":
                text = plain_text(item.summary) or plain_text(item.content)
                return [Thinking(text=text)] if text else []
            case "agent_message":
                return self._agent_message(item, at, seq)
            case kind if kind.endswith("_call"):
                return [self._tool_call(item)]
            case kind if kind.endswith("_output"):
                return [self._tool_result(item)]
            case kind:
                return [] if kind in KEPT_RESPONSES else [self.unknown.emit(f"response_item/{kind}")]

    def _message(self, item: ResponseItem, at: int | None, seq: int) -> list[Event | None]:
        match item.role:
            case "assistant":
                return _answer(plain_text(item.content))
            case "user":
                text, images = typed(item.content)
                return [*typed_command(text)] or [self._doubled_prompt(item, text, images, at, seq)]
            case "developer" | "system":
                return []
            case role:
                return [self.unknown.emit(f"response_item/message/{role}")]

    def _doubled_prompt(self, item: ResponseItem, text: str, images: int, at: int | None, seq: int) -> Event | None:
        """The model's copy of a prompt counts only where no other record holds it: in old logs, and in copied turns."""
        if is_synthetic(item, text):
            return None
        if self._state.has_events and not self._state.has_copies:
            if self._state.task_prompts == 0 and text.strip():
                self._state.untold = [*self._state.untold, (text, images)][-_UNTOLD_MAX:]
            return None
        return self._prompt("response_item", text, images, at, seq)

    def _agent_message(self, item: ResponseItem, at: int | None, seq: int) -> list[Event | None]:
        """Words from another agent: to a helper that has none yet they are its prompt."""
        text = plain_text(item.content)
        if self._is_helper and self._state.task_prompts == 0:
            return [self._prompt("agent_message", text.partition("Payload:\n")[2].strip() or text, 0, at, seq)]
        return [Hook(name=f"message from {item.author or ''}", output=text)]

    # what the screen showed -----------------------------------------------------------------------------------

    def _event(self, payload: EventMsg, at: int | None, seq: int) -> list[Event | None]:
        self._state.has_events = True
        match payload.type:
            case "user_message":
                if payload.kind not in (None, "plain"):
                    return [None]
                images = len(payload.images or ()) + len(payload.local_images or ())
                return [self._prompt("user_message", payload.message or "", images, at, seq)]
            case "item_completed" if payload.item is not None:
                return self._item(payload.item, at, seq)
            case "task_started" | "turn_started":
                self._begin_task(payload)
                self._note_window(payload.model_context_window)
                return []
            case "task_complete" | "turn_complete":
                return self._complete(payload)
            case "turn_aborted":
                return [self._aborted(payload)]
            case "error":
                self._state.task_error = payload.message or ""
                return [Error(message=payload.message or "", code=code_of(payload.codex_error_info))]
            case "stream_error":
                return [retry_of(payload.message or "")]
            case "warning" | "guardian_warning" | "deprecation_notice":
                return [Hook(name=payload.type, output=payload.message or payload.summary or "")]
            case kind:
                return self._note(kind, payload)

    def _note(self, kind: str, payload: EventMsg) -> list[Event | None]:
        """Records that change what is known without being an event."""
        match kind:
            case "token_count":
                self._note_tokens(payload.info)
            case "thread_rolled_back":
                self._roll_back(payload.num_turns)
            case "thread_name_updated":
                self._state.session.title = (payload.thread_name or "").strip() or self._state.session.title
            case kind if kind in KEPT_EVENTS:
                self._note_failure(payload.call_id or "", event_failed(payload))
            case _:
                return [self.unknown.emit(f"event_msg/{kind}")]
        return []

    def _item(self, item: TurnItem, at: int | None, seq: int) -> list[Event | None]:
        if item.type == "UserMessage":
            text, images = typed(item.content)
            return [self._prompt("item_completed", text, images, at, seq)]
        if item.type == "Error":
            return [Error(message=item.message or "")]
        if item.type not in KEPT_ITEMS:
            return [self.unknown.emit(f"event_msg/item_completed/{item.type}")]
        # A call made by the model's script is in its item alone; all other items repeat a response_item.
        if (item.id or "").startswith("exec-") and (nested := nested_call(item)):
            return [*nested]
        self._note_failure(item.id or "", item_failed(item))
        return []

    def _complete(self, payload: EventMsg) -> list[Event | None]:
        error = TurnError(payload.error) if isinstance(payload.error, str) else payload.error or TurnError()
        before, message = self._state.task_error, error.message or ""
        failed = bool(payload.error) or (before is not None and not payload.last_agent_message)
        duration_ms = numbers.count(payload.duration_ms, "duration_ms")
        self._end_turn(payload, Outcome.FAILED if failed else Outcome.COMPLETED, duration_ms)
        events: list[Event | None] = [Complete(success=not failed, duration_ms=duration_ms)]
        if payload.error:
            is_repeated = before is not None and before == message
            events.insert(0, None if is_repeated else Error(message=message, code=code_of(error.codex_error_info)))
        return events

    def _aborted(self, payload: EventMsg) -> Error:
        reason = payload.reason or ""
        duration_ms = numbers.count(payload.duration_ms, "duration_ms")
        # A helper's log closes the copy of its parent's turn like this, though that turn went on.
        is_seal = self._state.has_copies and duration_ms is None
        turn = None if is_seal else self._end_turn(payload, Outcome.CANCELLED, duration_ms)
        if turn is not None:
            turn.stop_reason = reason or None
        return Error(message=f"turn aborted: {reason}", code="interrupted")


def _begins_a_task(record: Record) -> bool:
    """Return True if a record may end a copy: the beginning of another task, or of another thread."""
    match record:
        case EventLine(payload=payload):
            return payload.type in _STARTS
        case _:
            return isinstance(record, SessionMetaLine | TurnContextLine)


def _answer(text: str) -> list[Event | None]:
    """Return the events of the model's words, and of the plan that it put before the user."""
    found = _PROPOSED.search(text)
    if found is None:
        return [AssistantText(text=text)] if text else []
    rest = (text[: found.start()] + text[found.end() :]).strip()
    plan = Plan(name="proposed_plan", content=found.group(1))
    return [AssistantText(text=rest), plan] if rest else [plan]
