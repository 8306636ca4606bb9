"""Whether a log that was written says what it should: it is read with our own reader, as any log is.

Of each text its hash is compared, so that a long session takes little memory.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from backstory import agents
from backstory.conversation.carried import Answer, Call, Message, Words
from backstory.conversation.carrying import with_images
from backstory.model import AssistantText, LogIdentity, Plan, ToolCall, ToolResult, UserMessage, encoded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backstory.conversation.carried import CarriedTurn
    from backstory.model import Event

DIGEST_BYTES = 12


class Contents:
    """What a conversation holds: its prompts, answers, calls and results, in order; a result by its call."""

    def __init__(self) -> None:
        self.prompts: list[bytes] = []
        self.answers: list[bytes] = []
        self.calls: list[bytes] = []
        self.results: dict[str, bytes] = {}
        self.asides: set[bytes] = set()
        """Words typed while the agent worked, which not every log tells from what the client said."""

    def difference(self, other: Contents) -> str | None:
        """What differs, as a clause; None if nothing does."""
        asides = self.asides | other.asides
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
        if self.results.keys() != other.results.keys():
            return f"it has {len(other.results)} results instead of {len(self.results)}"
        odd = next((call for call, each in self.results.items() if other.results[call] != each), None)
        return None if odd is None else f"the result of call {odd} differs"

    def add_turn(self, turn: CarriedTurn) -> None:
        """Add what is written of a turn."""
        if turn.prompt.strip() or turn.images:
            self.prompts.append(_digest(with_images(turn.prompt, len(turn.images))))
        for step in turn.steps:
            match step:
                case Message(parts=parts):
                    for part in parts:
                        self._add_part(part)
                case Words():
                    self.asides.add(_digest(with_images(step.text, len(step.images))))

    def _add_part(self, part: Answer | Call) -> None:
        match part:
            case Answer(text=text):
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
                case UserMessage(content=text) if not has_tool:
                    self.prompts.append(_digest(text))
                case AssistantText(text=text):
                    self.answers.append(_digest(text))
                case Plan(content=text) if not has_tool:
                    self.answers.append(_digest(text))
                case ToolCall():
                    self._add_call(each.tool_use_id, each.tool_name, each.input)
                case ToolResult():
                    self.results[each.tool_use_id] = _digest(each.content)


def read_back(agent: str, native_id: str, lines: Iterable[bytes]) -> Contents:
    """What the agent's reader finds in the lines of a log."""
    reader = agents.load(agent).log.reader(LogIdentity(native_id=native_id), None, tuple)
    found = Contents()
    for seq, line in enumerate(lines, 1):
        found.add_record(event for _, event in reader.read(line.rstrip(b"\n"), seq).events)
    return found


def _without(digests: list[bytes], asides: set[bytes]) -> list[bytes]:
    return [each for each in digests if each not in asides]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
