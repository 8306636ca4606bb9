"""Folds the records of one session of a history into events, turns and facts about it.

Of times there is only that of the run's begin, so every record has it. Aider's figures of tokens are its own rounded
estimates, not what a service counted: they are shown as the words that they are, and never counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from backstory.agents.aider.edits import Edits, edits_in
from backstory.agents.aider.runs import NAME, OWN, PROMPT, STARTED, is_hard, is_prompt, local_ms, messages_in
from backstory.agents.turn_fold import TurnFold, TurnState
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    At,
    Command,
    Error,
    Event,
    FoundRef,
    Hook,
    Init,
    ModelSwitch,
    Outcome,
    Parsed,
    Ref,
    Tool,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import LogIdentity, Turn

_VERSION = lazy_regex(r"Aider v(\S+)")
_MODEL = lazy_regex(r"(?:Main m|M)odel: (\S+) with ")
_APPLIED = lazy_regex(r"Applied edit to (.+)")
_COMMIT = lazy_regex(r"Commit ([0-9a-f]{7,40}) ")
_FAILURE = lazy_regex(r"litellm\.\w+|\w+(?:Error|Exception): ")


class State(TurnState, kw_only=True):
    """The state of a reader between two readings: bounded, whatever the log's size."""

    started: int | None = None
    model: str | None = None
    has_answer: bool = False
    """True if the model answered since the last prompt or end of an answer."""
    edits: Edits = field(default_factory=dict)
    """The changes that the last answer proposed, by their files."""


class Reader(TurnFold[State]):
    """Folds one session. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, stored: bytes | None) -> None:
        super().__init__(NAME, identity, stored, State)
        self._cwd = identity.cwd

    def read(self, line: bytes, seq: int) -> Parsed:
        text = line.decode("utf-8", "replace")
        if line.startswith(STARTED):
            events = self._begun(text)
        elif line.startswith(PROMPT) and is_hard(line.partition(b"\n")[0]):
            events = self._typed(text, seq)
        elif line.startswith(OWN) and is_hard(line.rstrip(b"\r\n")):
            events = [
                event for n, said in enumerate(messages_in(text)) for event in self._told(said, f"edit-{seq}-{n}")
            ]
        else:
            events = self._answered(text)
        turn, numbered = self._turn_at(seq), list(enumerate(events))
        return Parsed(self._state.started, numbered, turn, refs=list(self._commits(numbered, seq)))

    def _commits(self, events: list[tuple[int, Event]], seq: int) -> Iterator[FoundRef]:
        """The commits that the program says it made."""
        turn, at = self._state.turn, self._state.started
        for part, event in events:
            if isinstance(event, Hook) and (found := _COMMIT.match(event.output)) and turn is not None:
                yield FoundRef(At(seq, part, turn.uid, at), Ref("commit", found[1]))

    def _begun(self, text: str) -> list[Event]:
        state = self._state
        # Runs in which nothing was asked stand before the one that was.
        is_first, state.started = state.started is None, local_ms(_first_line(text)[len(STARTED) :]) or None
        state.session.cwd = self._cwd
        return [Init(cwd=self._cwd or "")] if is_first else []

    def _typed(self, text: str, seq: int) -> list[Event]:
        lines = [line.removeprefix("####").strip("\r") for line in text.rstrip().split("\n")]
        prompt = "\n".join(line.removeprefix(" ").rstrip() for line in lines).strip()
        if not is_prompt(prompt):
            return [Command(name=prompt)] if prompt and prompt != "<blank>" else []
        state = self._state
        state.has_answer, state.edits = False, {}
        self._begin_turn("", prompt, state.started, seq).model = state.model
        return [UserMessage(content=prompt)]

    def _answered(self, text: str) -> list[Event]:
        state, said = self._state, text.strip()
        # Without a prompt it is what is left of a history that was cut off.
        if not said or state.turn is None:
            return [Hook(name=NAME, output=said)] if said else []
        state.has_answer, state.turn.outcome = True, None
        state.edits = edits_in(said)
        return [AssistantText(text=said)]

    def _told(self, said: str, call_id: str) -> list[Event]:
        state = self._state
        turn = state.turn
        if found := _VERSION.fullmatch(said):
            state.session.agent_version = found[1]
        elif found := _MODEL.match(said):
            before, state.model = state.model, found[1]
            if turn is not None and before != state.model:
                return [ModelSwitch(model=state.model)]
        if turn is None or not said:
            # What it says of itself before it is asked anything.
            return []
        if found := _APPLIED.fullmatch(said):
            return self._applied(found[1], call_id)
        if said.startswith("Tokens: "):
            self._answer_ended(turn)
        elif said.startswith("^C"):
            turn.outcome = Outcome.CANCELLED
            return [Error(message=said, code="interrupted")]
        elif _FAILURE.match(said):
            turn.outcome = Outcome.FAILED
            return [Error(message=said)]
        return [Hook(name=NAME, output=said)]

    def _answer_ended(self, turn: Turn) -> None:
        if self._state.has_answer and turn.outcome is None:
            turn.outcome = Outcome.COMPLETED
        self._state.has_answer = False

    def _applied(self, path: str, call_id: str) -> list[Event]:
        """An edit of the answer before, which the program made in a file."""
        calls, change = self._state.calls, self._state.edits.pop(path, {})
        tool = Tool.WRITE if "content" in change else Tool.EDIT
        call = calls.open(call_id, "edit", tool, path, {"path": path, **change})
        return [call, calls.close(call_id).result(call_id, f"Applied edit to {path}", is_error=False)]


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip()
