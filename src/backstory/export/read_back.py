"""True if a log that was written says what it should: it is read with our own reader, as any log is.

The words of a person are compared with those of the session, all else with what was carried. Of each text its hash is
compared, so that a long session takes little memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import agents
from backstory.conversation.carried import Call, CarriedAnswer, Message
from backstory.conversation.carrying import IMAGE, with_images
from backstory.model import AssistantText, Command, Hook, LogIdentity, Plan, ToolCall, ToolResult, UserMessage, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.conversation.carried import CarriedTurn
    from backstory.model import Event

DIGEST_BYTES = 12


class Contents:
    """Contents of a conversation: its prompts, answers, calls and results, in order; a result by its call."""

    def __init__(self) -> None:
        self.prompts: list[bytes] = []
        self.answers: list[bytes] = []
        self.calls: list[bytes] = []
        self.results: dict[str, bytes] = {}
        self.typed = Counter[bytes]()
        """Number of times that each text is in the user's place."""
        self._asides: dict[bytes, int] = {}
        """Words typed while the agent worked, each with its record: not every log tells them from the client's."""
        self._prompt: bytes | None = None
        """The prompt of the turn that was begun, until it comes."""

    def difference(self, other: Contents) -> str | None:
        """Return the difference as a clause; None if there is none."""
        asides = self._asides.keys() | other._asides.keys()
        for name, mine, others in (
            ("prompts", _without(self.prompts, asides), _without(other.prompts, asides)),
            ("answers", self.answers, other.answers),
            ("calls", self.calls, other.calls),
        ):
            if len(mine) != len(others):
                return f"it has {len(others)} {name} instead of {len(mine)}"
            if mine != others:
                at = next(n for n, (one, two) in enumerate(zip(mine, others, strict=True), 1) if one != two)
                return f"number {at} of its {name} differs"
        lacking = [seq for words, seq in self._asides.items() if self.typed[words] > other.typed[words]]
        if lacking:
            return f"it lacks words typed in record {lacking[0]}"
        if self.results.keys() != other.results.keys():
            return f"it has {len(other.results)} results instead of {len(self.results)}"
        odd = next((call for call, each in self.results.items() if other.results[call] != each), None)
        return None if odd is None else f"the result of call {odd} differs"

    def begin_turn(self, prompt: str) -> None:
        """Add a turn of the session, with its prompt; what is typed in it follows."""
        self._prompt = _digest(prompt) if prompt.strip() else None
        if self._prompt is not None:
            self.prompts.append(self._prompt)

    def add_typed(self, text: str, seq: int) -> None:
        """Add words that the session holds in the user's place, in the record ``seq``."""
        words = _digest(text)
        self.typed[words] += 1
        if words == self._prompt:
            self._prompt = None
        elif text.strip():
            self._asides[words] = seq

    def add_steps(self, turn: CarriedTurn) -> None:
        """Add the answers, calls and results that are written of a turn."""
        for step in turn.steps:
            if isinstance(step, Message):
                for part in step.parts:
                    self._add_part(part)

    def _add_part(self, part: CarriedAnswer | Call) -> None:
        match part:
            case CarriedAnswer(text=text):
                self.answers.append(_digest(text))
            case Call():
                self._add_call(part.id, part.name, part.input)
                self.results[part.id] = _digest(with_images(part.result, len(part.images)))

    def _add_call(self, call_id: str, name: str, given: object) -> None:
        self.calls.append(_digest(f"{call_id}\n{name}\n{encoded(given).decode()}"))

    def add_record(self, events: Iterable[Event]) -> None:
        """Add what a record of a log says. Words of a person that stand in a result are no prompt."""
        events = list(events)
        has_tool = any(isinstance(each, ToolCall | ToolResult) for each in events)
        for each in events:
            match each:
                case UserMessage(content=text):
                    self.typed[_digest(text)] += 1
                    if not has_tool:
                        self.prompts.append(_digest(text))
                case Hook(output=text) | Command(output=text):
                    self.typed[_digest(text)] += 1
                case AssistantText(text=text):
                    self.answers.append(_digest(text))
                case Plan(content=text) if not has_tool:
                    self.answers.append(_digest(text))
                case ToolCall():
                    self._add_call(each.tool_use_id, each.tool_name, each.input)
                case ToolResult():
                    self.results[each.tool_use_id] = _digest(each.content)


def read_back(agent: str, native_id: str, lines: Iterable[bytes]) -> Contents:
    """Return the contents that the agent's reader finds in the lines of a log."""
    reader = agents.load(agent).log.reader(LogIdentity(native_id=native_id), None, tuple)
    found = Contents()
    for seq, line in enumerate(lines, 1):
        events = [event for _, event in reader.read(line.rstrip(b"\n"), seq).events]
        found.add_record(events)
        if not events:
            # Words that are no prompt may be for the model alone.
            found.typed.update(map(_digest, _texts(msgspec.json.decode(line))))
    return found


def _texts(value: Any) -> Iterator[str]:
    """All texts in a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _without(digests: list[bytes], asides: set[bytes]) -> list[bytes]:
    return [each for each in digests if each not in asides]


def _digest(text: str) -> bytes:
    """The hash of a text in which images stand last, as in a log that is written."""
    if IMAGE in text:
        lines = text.split("\n")
        text = with_images("\n".join(line for line in lines if line != IMAGE), lines.count(IMAGE))
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
