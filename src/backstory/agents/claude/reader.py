"""Folds the records of one log into events, turns and facts about the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from backstory import ids
from backstory.agents import jsonl, numbers
from backstory.agents.claude import prompts, records, reports, retries
from backstory.agents.claude.blocks import Blocks
from backstory.agents.claude.places import NAME
from backstory.agents.claude.records import Message, Record, plain_text, record_decoder, text_of
from backstory.agents.claude.spending import Spending
from backstory.agents.claude.state import State
from backstory.agents.claude.turns import Anchors, Queue, note_end, parent_of_prompt
from backstory.agents.turn_fold import TurnFold
from backstory.conversation.context import typed_part
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Error,
    Event,
    FoundSummary,
    Hook,
    LogIdentity,
    Parsed,
    Plan,
    Relation,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TITLE_RANK = {"summary": 1, "ai-title": 2, "agent-name": 3, "custom-title": 4}
_MAX_TURNS = "max_turns"
_NOT_AN_EXPANSION = ("<", "Caveat: ", "Continue from where you left off")
_CLIENT_NOTICE = lazy_regex(
    r"No response requested\.|API Error|Invalid API key|Credit balance|Claude (?:AI )?usage limit|Prompt is too long"
    r"|Please run /login"
)


class Reader(TurnFold[State]):
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(NAME, identity, stored, State)
        self._is_subagent = identity.relation == Relation.SUBAGENT
        self._anchors = Anchors(self._state, (lambda: _anchors_in(earlier(), identity)) if stored else None)
        self._blocks = Blocks(self._state.calls, self._state.plans, self.unknown)
        self._queue = Queue(self._state)
        self._spending = Spending(self._state)
        self._has_reports = False
        self._record_ids: list[str] = []
        self._summaries: list[FoundSummary] = []

    def _storable(self) -> State:
        return msgspec.structs.replace(super()._storable(), recent=self._anchors.recent())

    def read(self, line: bytes, seq: int) -> Parsed:
        self._has_reports, self._record_ids, self._summaries = False, [], []
        try:
            records = jsonl.decode(line, record_decoder)
        except jsonl.NotJson:
            return Parsed(None, [(0, self.unknown.emit("not JSON"))], self._turn_at(seq))
        at, events = None, list[Event]()
        for record in records:
            at = numbers.time_ms(record.timestamp)
            events += self._record(record, at, seq)
        turn = self._turn_at(seq)
        if turn is not None and events:
            # A plan follows the result that shows its call did not fail, and ends nothing.
            ending = events if not isinstance(events[-1], Plan) else [e for e in events if not isinstance(e, Plan)]
            if ending:
                note_end(turn, ending[-1], at)
        return Parsed(
            at, list(enumerate(events)), turn, summaries=self._summaries, record_ids=self._record_ids,
            has_reports=self._has_reports,
        )  # fmt: skip

    def _record(self, record: Record, at: int | None, seq: int) -> list[Event]:
        self._note_session(record)
        before = self._state.turn
        if record.uuid is None:
            return self._control(record)
        if record.uuid in self._anchors.known:
            # Two processes that write one log may both write a record.
            return []
        if not self._is_subagent:
            self._record_ids.append(record.uuid)
        anchor = self._anchors.above(record.parent_uuid)
        if self._state.turn is None and record.type == "assistant" and not record.is_sidechain:
            # A log may begin in the midst of a conversation whose prompt it does not hold.
            self._begin_prompt("", "", at, seq, anchor)
        events = self._conversation(record, at, seq, anchor)
        is_aside = record.is_sidechain and not self._is_subagent
        begins = self._state.turn is not before or (bool(events) and isinstance(events[0], UserMessage))
        is_anchor = (begins or record.type == "assistant") and not is_aside
        self._anchors.note(record.uuid, record.uuid if is_anchor else anchor)
        return events

    def _begin_prompt(self, native_id: str, prompt: str, at: int | None, seq: int, anchor: str | None) -> None:
        self._begin_turn(native_id, prompt, at, seq, parent_of_prompt(self._state, anchor))
        self._state.usage, self._state.unfinished, self._state.finished = {}, {}, []

    def _note_session(self, record: Record) -> None:
        session = self._state.session
        if record.cwd:
            session.cwd = session.cwd or record.cwd
            session.agent_version = record.version or session.agent_version
            if record.git_branch and record.git_branch != "HEAD":
                session.on_branch(record.git_branch)

    def _control(self, record: Record) -> list[Event]:
        """Return the events of a record besides the conversation: of the session, the queue, running totals."""
        kind = record.type
        if kind == "summary":
            self._note_summary(record)
            return []
        if kind in _TITLE_RANK:
            self._note_title(kind, record.ai_title or record.agent_name or record.custom_title)
            return []
        if kind == "queue-operation":
            return self._queue.read(record)
        if kind == "cost-state":
            self._spending.note_total_cost(numbers.amount(record.total_cost_usd, "cost_usd"))
            self._spending.note_total_latency(numbers.count(record.total_api_duration, "api_latency_ms"))
            return []
        if kind == "system":
            return self._system(record)
        if kind == "progress" and reports.MARK in bytes(record.data):
            self._has_reports = True
        return [] if kind in records.KEPT else [self.unknown.emit(kind or "record without a type")]

    def _note_title(self, kind: str, title: Any) -> None:
        if isinstance(title, str) and title.strip() and _TITLE_RANK[kind] >= self._state.title_rank:
            self._state.session.title, self._state.title_rank = title.strip(), _TITLE_RANK[kind]

    def _note_summary(self, record: Record) -> None:
        """A summary is a title of the session that holds its leaf: older builds wrote it into the next log."""
        if not isinstance(record.leaf_uuid, str):
            self._note_title("summary", record.summary)
        elif isinstance(record.summary, str) and record.summary.strip():
            self._summaries.append(FoundSummary(ids.record_key(record.leaf_uuid), record.summary.strip()))

    def _conversation(self, record: Record, at: int | None, seq: int, anchor: str | None) -> list[Event]:
        match record.type:
            case "assistant":
                return self._assistant(record)
            case "user":
                return self._user(record, at, seq, anchor)
            case "attachment":
                return self._attachment(record, at, seq, anchor)
            case "system":
                return self._system(record)
            case _:
                return self._control(record)

    # what the model said ------------------------------------------------------------------------------------

    def _assistant(self, record: Record) -> list[Event]:
        message = record.message or Message()
        text = text_of(message.content)
        self._state.command = None
        if record.is_api_error_message:
            return [Error(message=text, code=str(record.api_error_status or ""))]
        if message.model == "<synthetic>":
            # Mostly the client's own notice; some versions also wrap what the model had said when it was cut off.
            if not text:
                return []
            return [Hook(name="notice", output=text) if _CLIENT_NOTICE.match(text) else AssistantText(text=text)]
        self._spending.note_answer(record, message)
        return self._blocks.answer(message.content)

    # what was typed, and what was put beside it ---------------------------------------------------------------

    def _user(self, record: Record, at: int | None, seq: int, anchor: str | None) -> list[Event]:
        content = record.message.content if record.message else None
        if record.is_compact_summary:
            return [Compacted(summary=text_of(content))]
        events = self._blocks.results(content, record.tool_use_result)
        if record.is_meta:
            return events + self._expansion(record, text_of(content), seq, anchor)
        typed = self._typed(record, text_of(content), at, seq, anchor)
        # A prompt opens its turn, so that results in the same record stand after it.
        return typed + events if typed and isinstance(typed[0], UserMessage) else events + typed

    def _typed(self, record: Record, text: str, at: int | None, seq: int, anchor: str | None) -> list[Event]:
        """Return the events of a text in the user's place: a prompt begins a turn, others belong to the present one."""
        if not text.strip():
            return []
        if aside := prompts.untyped_event(text):
            if isinstance(aside, Command) and aside.name and not aside.name.startswith("!"):
                self._state.command = (record.uuid or "", aside.name, at)
            return [aside]
        self._state.command = None
        prompt = prompts.typed_prompt(text)
        if not prompt.strip():
            return [Hook(name="context", output=text)]
        if record.is_sidechain and not self._is_subagent:
            return [Hook(name="subagent prompt", output=prompt)]
        prompt, event = typed_part(prompt)
        if self._queue.is_given_here(record):
            # Words that the agent was given while it worked belong to the turn that goes on.
            return [event]
        self._begin_prompt(record.uuid or "", prompt, at, seq, anchor)
        return [event]

    def _expansion(self, record: Record, text: str, seq: int, anchor: str | None) -> list[Event]:
        """Return the events of a text in the user's place that a command, such as /goal, brought: that was a prompt."""
        if self._state.command is None or not text.strip() or text.lstrip().startswith(_NOT_AN_EXPANSION):
            return []
        (native_id, typed, at), self._state.command = self._state.command, None
        self._begin_prompt(native_id, typed, at, seq, anchor)
        return [UserMessage(content=typed)]

    def _attachment(self, record: Record, at: int | None, seq: int, anchor: str | None) -> list[Event]:
        given = record.attachment if isinstance(record.attachment, dict) else {}
        kind = str(given.get("type", ""))
        if kind == "queued_command":
            text = given.get("prompt")
            text = plain_text(text) if text is not None else ""
            is_prompt = given.get("commandMode", "prompt") == "prompt"
            return self._typed(record, text, at, seq, anchor) if is_prompt and not self._queue.was_given(text) else []
        if kind == "max_turns_reached":
            turn = self._state.turn
            if turn is not None:
                turn.stop_reason = _MAX_TURNS
            return [Error(message=f"It was stopped after {given.get('maxTurns', 'its')} turns.", code=_MAX_TURNS)]
        if kind.startswith("hook_") or kind.endswith("_hook"):
            output = next(
                (given[key] for key in ("content", "stdout", "stderr", "blockingError") if given.get(key)), ""
            )
            return [Hook(name=str(given.get("hookName", kind)), output=plain_text(output))] if output else []
        return [] if kind in records.KEPT_ATTACHMENTS else [self.unknown.emit(f"attachment/{kind}")]

    def _system(self, record: Record) -> list[Event]:
        kind = record.subtype or ""
        if kind == "api_error":
            return [retries.of_log(record.retry_attempt, record.max_retries, record.error)]
        if kind == "local_command":
            return [prompts.command_event(plain_text(record.content))]
        if kind == "stop_hook_summary":
            problems = record.hook_errors or []
            return [Hook(name="Stop", output=plain_text(problems))] if problems else []
        if kind == "turn_duration" and self._state.turn is not None:
            duration_ms = numbers.count(record.duration_ms, "duration_ms")
            if duration_ms is not None:
                # Hooks that let the agent go on, and queued words, end a turn more than once.
                self._state.turn.duration_ms = (self._state.turn.duration_ms or 0) + duration_ms
        return [] if kind in records.KEPT_SYSTEM else [self.unknown.emit(f"system/{kind}")]


def _anchors_in(lines: Iterable[bytes], identity: LogIdentity) -> dict[str, str | None]:
    """The anchors of all records of these lines."""
    past = Reader(identity, None, lambda: ())
    for line in lines:
        past.read(line, 0)
    return past._anchors.known
