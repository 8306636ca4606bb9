"""Facts that a summary should keep of the turns it covers: the decisions, files, commands and numbers in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.conversation.context import decisions_in
from backstory.derive.shell_parse import is_shell, script_of, simple_commands
from backstory.lazy import lazy_regex
from backstory.model import AssistantText, Plan, ToolCall, UserMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from backstory.model import Event, TurnWithEvents

DECISIONS, FILES, COMMANDS, NUMBERS = "decisions", "files", "commands", "numbers"
FACTS_MAX = 2_000
"""The most of one kind that are looked for."""
WORDS_KEPT = 0.8
"""The part of a decision's words that a summary must have."""
TELLING = 3.0
"""A kind is shown if a summary names so many times what the summary of another session names of it."""
MEASURED = {DECISIONS: (0.368, 0.018), FILES: (0.743, 0.09), COMMANDS: (0.051, 0.039), NUMBERS: (0.284, 0.059)}
"""The parts of a session's facts that its own summary names, and another session's; see ``bench/retention.py``."""
SHOWN = frozenset(kind for kind, (own, other) in MEASURED.items() if own >= TELLING * other)
_COMMON_NAMES = frozenset(
    {"README.md", "__init__.py", "index.ts", "index.js", "main.go", "main.py", "mod.rs", "types.ts"}
)
"""Names of files that say little without their folder."""
_NUMBER = lazy_regex(r"(?<![\w.,/:-])\d(?:[\d,]*\.?\d+){1,8}(?![\w:/-])")
_WORD = lazy_regex(r"[^\W\d_]\w{4,}")
_SENTENCE = lazy_regex(r"(?:^|(?<=[.!?]\s))(?:[^.!?\n]|[.!?](?!\s|$)){20,400}(?:[.!?](?=\s|$)|$)", re.MULTILINE)
_HEADING = lazy_regex(r"[#|>]|\W*$|.*[:|]$")
"""A heading, a row of a table, a quotation, or what only introduces a list."""
_LOOKING = frozenset({"cd", "ls", "cat", "echo", "head", "tail", "grep", "rg", "find", "sed", "wc", "pwd", "which"})
"""Programs that only look: nobody needs to know that they ran."""


def facts_of(turns: Iterable[TurnWithEvents], files: Collection[str]) -> dict[str, list[str]]:
    """The facts in turns, by kind, each once: sentences that decide, ``files``, what was run, numbers of some length.

    Of a command that is its program and the word behind it; numbers are those that prompts and answers name.
    """
    decisions, commands, numbers = dict[str, None](), dict[str, None](), dict[str, None]()
    for turn in turns:
        for text in (turn.turn.prompt, *map(_said, turn.events)):
            decisions.update(dict.fromkeys(_decisions(text)))
            numbers.update(dict.fromkeys(_NUMBER.findall(text)))
        for event in turn.events:
            commands.update(dict.fromkeys(_commands(event)))
    found = {DECISIONS: decisions, FILES: dict.fromkeys(files), COMMANDS: commands, NUMBERS: numbers}
    return {kind: list(each)[:FACTS_MAX] for kind, each in found.items()}


def is_kept(kind: str, text: str, fact: str) -> bool:
    """Return True if a summary names a fact, in whole words: a decision by most of its words, a path by its end."""
    if kind == DECISIONS:
        words = {word.casefold() for word in _WORD.findall(fact)}
        there = {word.casefold() for word in _WORD.findall(text)}
        return bool(words) and len(words & there) >= WORDS_KEPT * len(words)
    before = r"\w.,/-"
    if kind == FILES:
        folder, _, name = fact.rpartition("/")
        fact = f"{folder.rpartition('/')[2]}/{name}" if name in _COMMON_NAMES and folder else name
        before = r"\w.-"
    return bool(fact) and re.search(rf"(?<![{before}]){re.escape(fact)}(?![\w/-]|[.,]\w)", text) is not None


def _decisions(text: str) -> Iterator[str]:
    """Yield the whole sentences that decide something."""
    for found in _SENTENCE.findall(text):
        sentence = found.strip().lstrip("-*• ")
        if not _HEADING.match(sentence) and decisions_in(sentence):
            yield sentence


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
