"""Turns on their way into another agent's log: what of each event is kept, converted, told as text, or left out. Pure.

The target's form is not known here. ``NativeCall`` says how a call looks there; without one it is told as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory import model
from backstory.conversation.carried import Call, CarriedAnswer, CarriedTurn, Fate, Interruption, Message, Remark, Words
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backstory.conversation.carried import Fidelity, Image, Step

NO_RESULT = "[The session's log holds no result of this call: it was still open there.]"
"""The result for a call of which none is known; agents' services refuse an open call."""
NO_PROMPT = "[The session's log begins here, in the midst of a conversation.]"
CALL_AS_TEXT = "Called the {name} tool of {agent} with the following input: {input}"
RESULT_AS_TEXT = "Result of calling the {name} tool: {result}"
FAILED_AS_TEXT = "The {name} tool failed: {result}"
SUBAGENT_SAID = "What the subagent said last:\n{answer}"
SUMMARY_AS_TEXT = "What was said and done before, summarised:\n\n{summary}"
IMAGE, DOCUMENT = "[image]", "[document]"
NOTIFIED = ("task-notification", "agent-notification", "message from")
"""Beginnings of the names of ``Hook`` events by which subagents say what they did."""

THINKING = "thinking is of use to the model alone that thought it"
CLIENTS_OWN = "the agent's client says this to itself; the target's says its own"
INSIDE = "its words stand in the result or the call beside it"
UNREAD = "nobody understands it"
FAILED = "an error of the agent's service or client"
SUMMARY = "what it stands for is written whole"
BEFORE_ANY = "it stands before the first prompt"
OPEN = "the call was open: it is closed with an error"
OTHER_TOOL = "the target has no such tool"
OTHER_NAME = "the target's own tool does this"
EMPTY = "it says nothing"
NO_IMAGE = "an image in it is only named"
INTERRUPTED = "an interruption, in the target's form"


class NativeCall(Struct, frozen=True, kw_only=True):
    """A call as the target has it. ``is_same``: whether that is how it was."""

    id: str
    name: str
    input: Any
    is_same: bool


class CarryEvent(Struct, frozen=True, kw_only=True):
    """An event in its full form, the images in it, and its place."""

    seq: int
    part: int
    at: int | None
    event: model.Event
    images: tuple[Image, ...] = ()


class _OpenCall:
    """A call whose result may still come, and where it stands; ``native`` is None for one that is told as text."""

    def __init__(self, at: CarryEvent, call: model.ToolCall, native: NativeCall | None) -> None:
        self.at, self.call, self.native = at, call, native
        self.result: model.ToolResult | None = None
        self.images: tuple[Image, ...] = ()
        self.message: _Said | None = None


class _Said:
    """A message that is being put together."""

    def __init__(self, at: int | None) -> None:
        self.at, self.parts, self.has_result = at, list[CarriedAnswer | _OpenCall](), False


class TurnCarrier:
    """Carries one turn. ``native_call``: how a call of this turn looks in the target; None for as text.

    ``subagent_answer``: what the subagent that a result names said last; None where it names none.
    """

    def __init__(
        self, turn: model.Turn, is_same_agent: bool, fidelity: Fidelity,
        native_call: Callable[[CarryEvent, model.ToolCall], NativeCall | None],
        subagent_answer: Callable[[str], str | None] = lambda text: None,
    ) -> None:  # fmt: skip
        self._turn, self._is_same, self._fidelity = turn, is_same_agent, fidelity
        self._native_call, self._subagent_answer = native_call, subagent_answer
        self._steps: list[_Said | _OpenCall | Step] = []
        self._calls: dict[str, _OpenCall] = {}
        self._prompt: tuple[str, tuple[Image, ...]] | None = None

    def take(self, records: Iterable[Sequence[CarryEvent]]) -> None:
        """Take the turn's records, each with its events, in order."""
        for record in records:
            for each in record:
                self._take(each, record)

    def take_results(self, record: Sequence[CarryEvent]) -> list[CarryEvent]:
        """Take results of open calls out of the record that begins the next turn; returns the rest of it."""
        if not record or not isinstance(record[0].event, model.UserMessage):
            return [*record]
        rest = list[CarryEvent]()
        for each in record:
            if isinstance(each.event, model.ToolResult) and self._open_call(each.event) is not None:
                self._result(each, each.event)
            else:
                rest.append(each)
        return rest

    def carried(self) -> CarriedTurn:
        """The turn as it is written."""
        steps = tuple(step for each in self._steps for step in self._finished(each))
        text, images = self._prompt or ("", ())
        if steps and self._prompt is None:
            # A conversation begins in the user's place.
            steps = (Remark(text=NO_PROMPT, at=self._turn.started), *steps)
        turn = self._turn
        return CarriedTurn(
            uid=turn.uid, prompt=text, images=images, agent=turn.agent, model=turn.model,
            started=turn.started, ended=turn.ended, outcome=turn.outcome, steps=steps,
        )  # fmt: skip

    # events -------------------------------------------------------------------------------------------------------

    def _take(self, each: CarryEvent, record: Sequence[CarryEvent]) -> None:
        match each.event:
            case model.UserMessage(content=text):
                self._user(each, text, record)
            case model.AssistantText(text=text):
                self._answer(each, text)
            case model.ToolCall():
                self._call(each, each.event)
            case model.ToolResult():
                self._result(each, each.event)
            case model.Plan(content=text):
                self._plan(each, text, record)
            case model.Error(code="interrupted"):
                self._steps.append(Interruption(at=each.at))
                self._note(
                    each, Fate.KEPT if self._is_same else Fate.CONVERTED, "an interruption, in the target's form"
                )
            case model.Hook(name=name, output=text) if name.startswith(NOTIFIED):
                self._as_text(each, text, "a subagent says what it did")
            case model.Command(name=name, output=text) if name.startswith("!") or (not name and text.strip()):
                self._as_text(each, f"{name}\n{text}".strip(), "a command that the person ran")
            case _:
                self._note(each, Fate.LEFT_OUT, _why_left_out(each.event))

    def _user(self, each: CarryEvent, text: str, record: Sequence[CarryEvent]) -> None:
        if is_inside(each, text, record):
            self._note(each, Fate.KEPT, INSIDE)
            return
        given = without_images(text, len(each.images)), each.images
        if _lacks_images(given[0]):
            self._note(each, Fate.AS_TEXT, NO_IMAGE)
        if self._prompt is None:
            self._prompt = given
            self._note(each, Fate.KEPT)
        else:
            self._steps.append(Words(text=given[0], images=each.images, at=each.at))
            self._note(each, Fate.CONVERTED, "words typed while the agent worked, as a message in its turn")

    def _answer(self, each: CarryEvent, text: str, fate: Fate = Fate.KEPT, why: str = "") -> None:
        if not text.strip():
            self._note(each, Fate.LEFT_OUT, EMPTY)
            return
        self._message(each).parts.append(CarriedAnswer(text))
        self._note(each, fate, why)

    def _plan(self, each: CarryEvent, text: str, record: Sequence[CarryEvent]) -> None:
        if any(isinstance(other.event, model.ToolResult | model.ToolCall) for other in record):
            self._note(each, Fate.KEPT, INSIDE)
        else:
            self._answer(each, text, Fate.CONVERTED, "a plan, as an answer")

    def _call(self, each: CarryEvent, call: model.ToolCall) -> None:
        native = self._native_call(each, call)
        opened = _OpenCall(each, call, native)
        if call.tool_use_id:
            self._calls[call.tool_use_id] = opened
        if native is None:
            self._steps.append(opened)
            self._note(each, Fate.AS_TEXT, OTHER_TOOL)
        else:
            opened.message = self._message(each)
            opened.message.parts.append(opened)
            self._note(each, Fate.KEPT if native.is_same else Fate.CONVERTED, "" if native.is_same else OTHER_NAME)

    def _result(self, each: CarryEvent, result: model.ToolResult) -> None:
        opened = self._open_call(result)
        if opened is None:
            self._as_text(each, _result_text(result), "a result whose call is not in its turn, or has one already")
            return
        opened.result, opened.images = result, each.images
        if opened.message is not None:
            opened.message.has_result = True
        is_native = opened.native is not None
        if _lacks_images(without_images(result.content, len(each.images))):
            self._note(each, Fate.AS_TEXT, NO_IMAGE)
        self._note(each, Fate.KEPT if is_native else Fate.AS_TEXT, "" if is_native else OTHER_TOOL)

    def _open_call(self, result: model.ToolResult) -> _OpenCall | None:
        opened = self._calls.get(result.tool_use_id)
        return opened if opened is not None and opened.result is None else None

    def _as_text(self, each: CarryEvent, text: str, why: str) -> None:
        if text.strip():
            self._steps.append(Remark(text=text, at=each.at))
        self._note(each, Fate.AS_TEXT if text.strip() else Fate.LEFT_OUT, why if text.strip() else EMPTY)

    def _message(self, each: CarryEvent) -> _Said:
        """The message that goes on; a new one behind results."""
        last = self._steps[-1] if self._steps else None
        if not isinstance(last, _Said) or last.has_result:
            last = _Said(each.at)
            self._steps.append(last)
        return last

    def _note(self, each: CarryEvent, fate: Fate, why: str = "") -> None:
        self._fidelity.note(each.seq, fate, each.event.kind, why, each.part)

    # the end of the turn ------------------------------------------------------------------------------------------

    def _finished(self, step: _Said | _OpenCall | Step) -> list[Step]:
        match step:
            case _Said():
                parts = tuple(each if isinstance(each, CarriedAnswer) else self._closed(each) for each in step.parts)
                return [Message(parts=parts, at=step.at)]
            case _OpenCall():
                return [Remark(text=self._told(step), at=step.at.at, images=step.images)]
            case _:
                return [step]

    def _closed(self, opened: _OpenCall) -> Call:
        """A call with its result; one without any is closed with an error, which says so."""
        native, result = opened.native, opened.result
        assert native is not None
        if result is None:
            self._note(opened.at, Fate.CONVERTED, OPEN)
        return Call(
            id=native.id, name=native.name, input=native.input, images=opened.images,
            result=self._text_of(result, opened.images) if result is not None else NO_RESULT,
            is_error=result is None or result.is_error,
        )  # fmt: skip

    def _told(self, opened: _OpenCall) -> str:
        """A call and its result as text."""
        call, result = opened.call, opened.result
        given = CALL_AS_TEXT.format(name=call.tool_name, agent=self._turn.agent, input=encoded(call.input).decode())
        if result is None:
            return f"{given}\n{NO_RESULT}"
        form = FAILED_AS_TEXT if result.is_error else RESULT_AS_TEXT
        return f"{given}\n{form.format(name=call.tool_name, result=self._text_of(result, opened.images))}"

    def _text_of(self, result: model.ToolResult, images: tuple[Image, ...]) -> str:
        """A result's text, with what the subagent that it names said last, if the result does not say that itself."""
        text = without_images(result.content, len(images))
        answer = self._subagent_answer(text)
        return text if answer is None or answer in text else f"{text}\n\n{SUBAGENT_SAID.format(answer=answer)}"


def is_inside(each: CarryEvent, text: str, record: Sequence[CarryEvent]) -> bool:
    """Return True if a person's words are read from a result before them in their record, as those of a refusal are."""
    results = [o.event.content for o in record if isinstance(o.event, model.ToolResult) and o.part < each.part]
    return any(all(line.strip() in content for line in text.splitlines()) for content in results)


def without_images(text: str, count: int) -> str:
    """A text without the lines that stand for so many images, which come with it.

    >>> without_images("Look\\n[image]", 1), without_images("[image]", 0)
    ('Look', '[image]')
    """
    lines = text.split("\n")
    while count and IMAGE in lines:
        lines.remove(IMAGE)
        count -= 1
    return "\n".join(lines)


def _lacks_images(text: str) -> bool:
    """Return True if images are left of which only the names go along."""
    return any(line in (IMAGE, DOCUMENT) for line in text.split("\n"))


def with_images(text: str, count: int) -> str:
    """A text with a line for each of so many images, as a log is read.

    >>> with_images("Look", 1), with_images("", 1)
    ('Look\\n[image]', '[image]')
    """
    return "\n".join([*([text] if text else []), *[IMAGE] * count])


def _result_text(result: model.ToolResult) -> str:
    form = FAILED_AS_TEXT if result.is_error else RESULT_AS_TEXT
    return form.format(name=result.tool_name or "", result=result.content) if result.content.strip() else ""


def _why_left_out(event: model.Event) -> str:
    match event:
        case model.Thinking():
            return THINKING
        case model.Error():
            return FAILED
        case model.Compacted():
            return SUMMARY
        case model.Unknown():
            return UNREAD
        case _:
            return CLIENTS_OWN


def masked(event: CarryEvent, mask: Callable[[Any], Any]) -> CarryEvent:
    """An event without its secrets; images go, because nobody can mask them."""
    return msgspec.structs.replace(event, event=mask(event.event), images=())
