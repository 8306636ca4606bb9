"""Whether a context that cannot hold all has what the next prompt needs: turns in brief beside whole turns only.

``python -m bench.context_policy STORE [--turns N]``. STORE is a store with real sessions. Of N turns that a prompt
began, chosen at random with a fixed seed from those with at least 6,000 characters of history, the history before
each is rendered twice into the same budget: half, a quarter and an eighth of what it has whole. Counted are the file
names, commands (a program and its first word) and identifiers that the turn itself uses, in its prompt, answers and
calls, and that occurred before it: which part of them the context has.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from backstory import model
from backstory.conversation import context
from backstory.derive.index_text import texts_in
from backstory.store import open_store
from backstory.store.tables import compactions
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.model import TurnWithEvents

HISTORY_CHARS_LEAST = 6_000
SHARES = {"half": 2, "a quarter": 4, "an eighth": 8}
SEED = 7
_PATH = re.compile(
    r"(?:[\w.@+-]+/)+[\w.@+-]+|\b[\w-]+\.(?:py|rs|tsx?|js|go|c|h|cpp|java|md|toml|json|ya?ml|sh|sql|txt|html|css)\b"
)
_IDENTIFIER = re.compile(r"\b(?:[a-z0-9]+_[a-z0-9_]+|[A-Z0-9]+_[A-Z0-9_]+|[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w+)\b")
_IDENTIFIER_CHARS_LEAST = 5
_BETWEEN = re.compile(r"&&|\|\||[;\n|]")
_PROGRAM = re.compile(r"[\w./-]+")


class Case(NamedTuple):
    """A turn with what came before it."""

    history: Sequence[TurnWithEvents]
    chars: int
    """Of the history, whole."""
    used: frozenset[str]
    """What the turn uses of what occurred before."""


def cases(store: Path) -> Iterator[Case]:
    """Every turn of a store with enough before it that uses anything that occurred before."""
    with open_store(store) as opened:
        for session in opened.sessions():
            turns = list(opened.ask(compactions.history, session.id, 1 << 60).turns)
            sizes = [sum(len(block) + 1 for block in blocks) for blocks in context.rendered_blocks(turns)]
            before, chars = set[str](), 0
            for n, each in enumerate(turns):
                if each.turn.prompt and chars >= HISTORY_CHARS_LEAST:
                    used = facts(each, with_results=False) & before
                    if used:
                        yield Case(turns[:n], chars, frozenset(used))
                before |= facts(each, with_results=True)
                chars += sizes[n]


def facts(given: TurnWithEvents, *, with_results: bool) -> set[str]:
    """The names of files, the commands and the identifiers in a turn."""
    found = set[str]()
    for text in [given.turn.prompt, *(_text(each, with_results=with_results) for each in given.events)]:
        found |= {path.rpartition("/")[2] for path in _PATH.findall(text)} - {""}
        found |= {name for name in _IDENTIFIER.findall(text) if len(name) >= _IDENTIFIER_CHARS_LEAST}
    for each in given.events:
        found.update(_commands(each))
    return found


def _text(event: model.Event, *, with_results: bool) -> str:
    match event:
        case model.UserMessage(content=text) | model.AssistantText(text=text) | model.Plan(content=text):
            return text
        case model.ToolCall():
            return "\n".join([event.file_path or "", *texts_in(event.input)])
        case model.ToolResult(content=text) | model.Error(message=text) if with_results:
            return text
    return ""


def _commands(event: model.Event) -> Iterator[str]:
    if isinstance(event, model.ToolCall) and event.tool == model.Tool.SHELL:
        for text in texts_in(event.input):
            for part in _BETWEEN.split(text):
                words = part.split()
                if len(words) > 1 and _PROGRAM.fullmatch(words[0]):
                    yield f"{words[0]} {words[1]}"


def kept(chosen: Sequence[Case], divisor: int, brief_room_least: int) -> float:
    """Which part of what the turns use their contexts have, all turns alike; in percent."""
    usual, context.BRIEF_ROOM_LEAST = context.BRIEF_ROOM_LEAST, brief_room_least
    try:
        shares = []
        for case in chosen:
            text = context.build_context(case.history, budget_chars=case.chars // divisor).text
            shares.append(sum(each in text for each in case.used) / len(case.used))
        return 100 * sum(shares) / len(shares)
    finally:
        context.BRIEF_ROOM_LEAST = usual


def figures(store: Path, turns: int) -> Iterator[Figure]:
    """Both policies at each budget; what is in brief is worth it if its figure is not below the other."""
    found = list(cases(store))
    random.Random(SEED).shuffle(found)
    chosen = found[:turns]
    note = f"{len(chosen)} turns of {len(found)}, {sum(len(each.used) for each in chosen):,} names"
    for name, divisor in SHARES.items():
        whole = kept(chosen, divisor, 1 << 60)
        brief = kept(chosen, divisor, 0)
        yield Figure(f"context of {name} of its history: whole turns only has", whole, "%", note=note)
        yield Figure(f"context of {name} of its history: with turns in brief has", brief, "%", least=whole, note=note)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--turns", type=int, default=200)
    asked = parser.parse_args()
    report(asked, figures(asked.store, asked.turns))


if __name__ == "__main__":
    main()
