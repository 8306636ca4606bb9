"""Facts that a summary should keep of the turns it covers: the decisions, files, commands and numbers in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.conversation.context import decisions_in
from backstory.derive.shell_parse import is_shell, script_of, simple_commands
from backstory.lazy import lazy_regex
from backstory.model import AssistantText, Plan, ToolCall, UserMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from backstory.model import Event, TurnWithEvents

DECISIONS = "decisions"
FACTS_MAX = 2_000
"""The most of one kind that are looked for."""
_NUMBER = lazy_regex(r"(?<![\w.,/:-])\d(?:[\d,]*\.?\d+){1,8}(?![\w:/-])")
_WORD = lazy_regex(r"[^\W\d_]\w{4,}")
_LOOKING = frozenset({"cd", "ls", "cat", "echo", "head", "tail", "grep", "rg", "find", "sed", "wc", "pwd", "which"})
"""Programs that only look: nobody needs to know that they ran."""


def facts_of(turns: Iterable[TurnWithEvents], files: Collection[str]) -> dict[str, list[str]]:
    """The facts in turns, by kind, each once: sentences that decide, ``files``, what was run, numbers of some length.

    Of a command that is its program and the word behind it; numbers are those that prompts and answers name.
    """
    decisions, commands, numbers = dict[str, None](), dict[str, None](), dict[str, None]()
    for turn in turns:
        for text in (turn.turn.prompt, *map(_said, turn.events)):
            decisions.update(dict.fromkeys(decisions_in(text)))
            numbers.update(dict.fromkeys(_NUMBER.findall(text)))
        for event in turn.events:
            commands.update(dict.fromkeys(_commands(event)))
    found = {DECISIONS: decisions, "files": dict.fromkeys(files), "commands": commands, "numbers": numbers}
    return {kind: list(each)[:FACTS_MAX] for kind, each in found.items()}


def is_decision_kept(text: str, decision: str) -> bool:
    """Return True if a summary has at least half of the words of some length that a decision is made of."""
    words = {word.casefold() for word in _WORD.findall(decision)}
    folded = text.casefold()
    return bool(words) and 2 * sum(word in folded for word in words) >= len(words)


def _said(event: Event) -> str:
    match event:
        case AssistantText():
            return event.text
        case UserMessage() | Plan():
            return event.content
        case _:
            return ""


def _commands(event: Event) -> Iterator[str]:
    if (
        not isinstance(event, ToolCall)
        or not is_shell(event.tool_name, event.tool)
        or not isinstance(event.input, dict)
    ):
        return
    for command in simple_commands(script_of(event.input) or ""):
        words = [word.rpartition("/")[2] if n == 0 else word for n, word in enumerate(command.words[:2]) if word]
        if words and words[0] not in _LOOKING:
            yield " ".join(words)
