"""A session as an outline: what was asked, what was decided, what was committed, each with its record's number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory import model
from backstory.derive.essence import without_terminal_codes
from backstory.export.shared import OutlinePoint
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backstory.export.shared import SharedEvent

PROMPT, DECISION, COMMIT = "prompt", "decision", "commit"
TEXT_CHARS_MAX = 200
CALLS_OPEN_MAX = 100
"""The most questions that wait for the person's answer."""
ASKING = frozenset({"AskUserQuestion", "ask_user", "request_user_input", "ask_question", "question"})
"""Tools by which a model asks the person."""
PLANNING = frozenset({"ExitPlanMode", "exit_plan_mode"})
_ANSWER = lazy_regex(r'"([^"]{1,500})"="([^"]{1,500})"')
_COMMITTED = lazy_regex(r"^\[\S+(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.*)$", re.MULTILINE)
"""A commit as git prints it: branch, hash and subject, in a line of its own."""


def points(events: Iterable[SharedEvent], commits: Mapping[int, Sequence[OutlinePoint]]) -> Iterator[OutlinePoint]:
    """The outline's lines, in order. ``commits``: those that are known, by their records."""
    asked: dict[str, str] = {}
    last: int | None = None
    for each in events:
        if each.seq is not None and each.seq != last and each.seq in commits:
            yield from commits[each.seq]
        last = each.seq
        yield from _points_of(each, asked)


def _points_of(each: SharedEvent, asked: dict[str, str]) -> Iterator[OutlinePoint]:
    match each.event:
        case model.UserMessage(content=text) if text.strip():
            yield _point(each, PROMPT, text)
        case model.Plan(content=text) if text.strip():
            yield _point(each, DECISION, f"plan: {text.lstrip('# ')}")
        case model.ModelSwitch(model=name):
            yield _point(each, DECISION, f"model: {name}")
        case model.ToolCall(tool_name=name) as call if name in ASKING | PLANNING:
            asked[call.tool_use_id] = name
            if len(asked) > CALLS_OPEN_MAX:
                asked.pop(next(iter(asked)))
        case model.ToolResult(tool_use_id=call_id) as result if call_id in asked:
            yield _point(each, DECISION, _decided(asked.pop(call_id), result))
        case _:
            return


def _decided(tool: str, result: model.ToolResult) -> str:
    if tool in PLANNING:
        return "plan refused" if result.is_error else "plan accepted"
    answers = _ANSWER.findall(result.content)
    return "; ".join(f"{question} → {answer}" for question, answer in answers) or f"answer: {result.content}"


def _point(each: SharedEvent, kind: str, text: str) -> OutlinePoint:
    return OutlinePoint(kind=kind, seq=each.seq, turn=each.turn, at=each.at, text=shortened(text))


def commits_in(text: str) -> list[str]:
    """The commits that git says it made: of each its hash and subject.

    >>> commits_in("[main 0123abc] Fix the build\\n 1 file changed")
    ['0123abc Fix the build']
    """
    return [f"{sha[:12]} {subject.strip()}" for sha, subject in _COMMITTED.findall(text)]


def shortened(text: str) -> str:
    """A text in a line of an outline."""
    words = " ".join(without_terminal_codes(text[: TEXT_CHARS_MAX * 20]).split())
    return words if len(words) <= TEXT_CHARS_MAX else f"{words[: TEXT_CHARS_MAX - 1]}…"
