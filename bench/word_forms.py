"""How often a search finds what a person half remembers: 120 queries drawn from raw logs.

    python -m bench.word_forms HOME STORE [--seed N]

HOME has the logs, STORE is what ``backstory ingest`` made of them. The drawing reads the logs alone, never the index:

- *other forms* (40): one to three words of a prompt, each as its plural or singular, whichever the prompt has not;
- *misspelt* (20): three words of a prompt, two letters of one exchanged, so that no log has it;
- *parts* (20): an identifier's parts as words: ``get user`` for ``getUser`` or ``get_user``;
- *functions* (20): the name of a function in the text of an edit;
- *errors* (20): four words in a row of a failed tool's output.

Four logs at most hold what a query was drawn from; each of them is right. Told are the share of queries with a right
session among ten, the same of those other forms that ten or more logs hold exactly as typed, and the processor time of
a search in process.
"""

from __future__ import annotations

import json
import random
import re
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.search.query import find
from backstory.store import Filter, open_store
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import apsw

    from backstory.store import Store

LOGS = (".claude/projects/*/*.jsonl", ".codex/sessions/**/*.jsonl", ".copilot/session-state/*/events.jsonl")
COUNTS = {"other forms": 40, "misspelt": 20, "parts": 20, "functions": 20, "errors": 20}
SHOWN = 10
RIGHT_MAX = 4
PROMPT_CHARS_MAX = 2_000
"""A longer prompt was pasted, and nobody remembers its words."""
FORMS_LEAST, ALL_LEAST = 0.93, 0.95

_WORD = re.compile(r"[^\W_]+")
_REMEMBERED = re.compile(r"\b[a-z]{4,16}\b")
_IDENTIFIER = re.compile(r"\b(?:[a-z]+(?:[A-Z][a-z]+){1,3}|[a-z]{2,}(?:_[a-z]{2,}){1,3})\b")
_FUNCTION = re.compile(
    r"^\+?[ \t]*(?:func|def|function|fn)[ \t]+(?:\([^)\n]*\)[ \t]*)?([A-Za-z_]\w{5,40})\(", re.MULTILINE
)
_SMALL = """
about also been could does from have here into just like make need only should some sure that than their them then there
these they this want what when where which will with would your
"""


class Query(NamedTuple):
    """What is typed, the logs that are right, and how many logs hold each word as typed."""

    typed: str
    right: set[Path]
    holders: int


class Log:
    """The texts of one log, by what they are: ``prompt``, ``input``, ``output``, ``error`` or ``answer``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: dict[str, list[str]] = {}
        for line in path.read_text("utf-8", "replace").splitlines():
            with suppress(ValueError):
                for kind, text in _said(json.loads(line)):
                    self.texts.setdefault(kind, []).append(text)

    def of(self, kind: str) -> list[str]:
        """Texts of one kind, each once."""
        return list(dict.fromkeys(self.texts.get(kind, [])))

    @cached_property
    def prompts(self) -> list[set[str]]:
        """The words of each prompt."""
        return [set(_words(text)) for text in self.of("prompt")]

    @cached_property
    def running(self) -> str:
        """Every word in order, a space before and after each."""
        return f" {' '.join(_words(' '.join(text for texts in self.texts.values() for text in texts)))} "

    @cached_property
    def words(self) -> set[str]:
        """Every word."""
        return set(self.running.split())


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _said(record: Any) -> Iterator[tuple[str, str]]:
    """The texts of one record of Claude Code, Codex or Copilot CLI."""
    kind, message = str(record.get("type")), record.get("message") or {}
    data = record.get("payload") or record.get("data") or {}
    if kind == "user" and isinstance(message.get("content"), str):
        yield _prompt(message["content"], is_typed=not record.get("isMeta") and not record.get("isCompactSummary"))
    for block in message["content"] if isinstance(message.get("content"), list) else []:
        if block.get("type") == "text":
            yield _prompt(block["text"], is_typed=kind == "user" and not record.get("isMeta"))
        elif block.get("type") == "tool_use":
            yield "input", "\n".join(_strings(block.get("input")))
        elif block.get("type") == "tool_result":
            yield "error" if block.get("is_error") else "output", "\n".join(_strings(block.get("content")))
    if data.get("type") == "user_message" or kind == "user.message":
        yield _prompt(str(data.get("message") or data.get("content")), is_typed=True)
    elif data.get("type") == "agent_message" or kind == "assistant.message":
        yield "answer", "\n".join(_strings([data.get("message"), data.get("content")]))
        yield "input", "\n".join(_strings(data.get("toolRequests")))
    elif str(data.get("type")).endswith(("_call", "_call_output")) or kind == "tool.execution_complete":
        yield "output", "\n".join(_strings([data.get(name) for name in ("arguments", "input", "output", "result")]))


def _prompt(text: str, *, is_typed: bool) -> tuple[str, str]:
    # What the clients themselves put in a person's place begins with a tag, a bracket or a caveat.
    by_hand = is_typed and len(text) <= PROMPT_CHARS_MAX and not text.startswith(("<", "[", "/", "Caveat:"))
    return "prompt" if by_hand else "answer", text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


class Drawing:
    """Draws queries from logs by a seed."""

    def __init__(self, logs: list[Log], seed: int) -> None:
        self._logs, self._chance = logs, random.Random(seed)
        self._known = set[str]().union(*(log.words for log in logs))

    def queries(self) -> dict[str, list[Query]]:
        """The queries of each kind."""
        ways: dict[str, tuple[tuple[str, ...], Callable[[str], Query | None]]] = {
            "other forms": (("prompt",), self._other_forms), "misspelt": (("prompt",), self._misspelt),
            "parts": (("prompt", "answer", "input"), self._parts), "functions": (("input",), self._function),
            "errors": (("error",), self._error),
        }  # fmt: skip
        return {name: self._some(COUNTS[name], kinds, make) for name, (kinds, make) in ways.items()}

    def _some(self, most: int, kinds: tuple[str, ...], make: Callable[[str], Query | None]) -> list[Query]:
        """So many different queries, each from another text; every log has a turn before one has a second."""
        of_logs = [[text for kind in kinds for text in log.of(kind)] for log in self._logs]
        for texts in of_logs:
            self._chance.shuffle(texts)
        order, found = sorted(range(len(of_logs)), key=lambda _: self._chance.random()), dict[str, Query]()
        while any(of_logs) and len(found) < most:
            for n in order:
                query = None
                while of_logs[n] and query is None:
                    query = make(of_logs[n].pop())
                if query is not None and len(found) < most:
                    found.setdefault(query.typed, query)
        return list(found.values())

    def _query(self, typed: str, right: set[Path]) -> Query | None:
        if not 0 < len(right) <= RIGHT_MAX:
            return None
        return Query(typed, right, sum(log.words >= set(_words(typed)) for log in self._logs))

    def _remembered(self, prompt: str) -> list[str]:
        return [word for word in dict.fromkeys(_REMEMBERED.findall(prompt)) if word not in _SMALL.split()]

    def _asking(self, ways: list[set[str]]) -> set[Path]:
        """The logs with a prompt that has each word in one of its ways."""
        return {log.path for log in self._logs if any(all(way & words for way in ways) for words in log.prompts)}

    def _other_forms(self, prompt: str) -> Query | None:
        there = set(_words(prompt))
        others = {word: other for word in self._remembered(prompt) if (other := self._other(word))}
        pairs = [(word, other) for word, other in others.items() if other not in there]
        if not pairs:
            return None
        at = sorted(self._chance.sample(range(len(pairs)), min(len(pairs), self._chance.randint(1, 3))))
        chosen = [pairs[n] for n in at]
        return self._query(" ".join(other for _, other in chosen), self._asking([set(pair) for pair in chosen]))

    def _other(self, word: str) -> str | None:
        """A word's plural or singular, if some log has that."""
        if word.endswith("s"):
            ends = ("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("sses", "ss"), ("s", "")
            other = "" if word.endswith(("ss", "us", "is")) else next(
                word.removesuffix(many) + one for many, one in ends if word.endswith(many)
            )  # fmt: skip
        elif re.search("[^aeiou]y$", word):
            other = f"{word[:-1]}ies"
        else:
            other = f"{word}es" if word.endswith(("ch", "sh", "x", "z")) else f"{word}s"
        return other if other in self._known else None

    def _misspelt(self, prompt: str) -> Query | None:
        words = [word for word in self._remembered(prompt) if len(word) > 5]
        if len(words) < 3:
            return None
        typed = self._chance.sample(words, 3)
        right, word, at = self._asking([{each} for each in typed]), typed[1], self._chance.randrange(1, 4)
        typed[1] = f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}"
        return None if typed[1] in self._known else self._query(" ".join(typed), right)

    def _parts(self, text: str) -> Query | None:
        found = list(dict.fromkeys(_IDENTIFIER.findall(text)))
        if not found:
            return None
        name = self._chance.choice(found)
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower()
        return self._query(parts, self._holding(name))

    def _function(self, text: str) -> Query | None:
        found = list(dict.fromkeys(_FUNCTION.findall(text)))
        return self._query(name := self._chance.choice(found), self._holding(name)) if found else None

    def _error(self, text: str) -> Query | None:
        lines = [words for line in text.splitlines() if len(words := re.findall(r"[A-Za-z]{3,}", line)) > 5]
        if not lines:
            return None
        words = self._chance.choice(lines)
        at = self._chance.randrange(len(words) - 3)
        return self._query(typed := " ".join(words[at : at + 4]), self._holding(typed))

    def _holding(self, text: str) -> set[Path]:
        running = f" {' '.join(_words(text))} "
        return {log.path for log in self._logs if running in log.running}


def places(store: Store, queries: list[Query]) -> tuple[list[int], float]:
    """The place of the first right session for each query, 0: not among ten; and the seconds of CPU a search took."""
    found, spent = list[int](), 0.0
    for query in queries:
        right = store.ask(_sessions_of, query.right)
        started = time.process_time()
        hits = find(store, query.typed, Filter(), limit=SHOWN).excerpts
        spent += time.process_time() - started
        found.append(next((n for n, hit in enumerate(hits, 1) if right & {hit.session.id, hit.shown.id}), 0))
    return found, spent / len(queries)


def _sessions_of(db: apsw.Connection, logs: set[Path]) -> set[int]:
    rows: list[Any] = db.execute("select session_id, path from logs").fetchall()
    return {session_id for session_id, path in rows if Path(path) in logs}


def figures(home: Path, store: Path, seed: int) -> Iterator[Figure]:
    """The share found among ten, of each kind and of all."""
    logs = [Log(path) for pattern in LOGS for path in sorted(home.glob(pattern))]
    drawn, every = Drawing(logs, seed).queries(), list[int]()
    with open_store(store, shared=True) as opened:
        for kind, queries in drawn.items():
            found, seconds = places(opened, queries)
            every += found
            missed = ", ".join(repr(query.typed) for query, place in zip(queries, found, strict=True) if not place)
            note = f"first {found.count(1)}; {seconds * 1000:.1f} ms of CPU; missed: {missed or 'none'}"
            yield _share(kind, found, FORMS_LEAST if kind == "other forms" else None, note)
            if kind == "other forms":
                crowded = [place for query, place in zip(queries, found, strict=True) if query.holders >= SHOWN]
                yield _share("other forms that ten logs hold as typed", crowded)
    yield _share("all", every, ALL_LEAST, f"mean reciprocal rank {sum(1 / n for n in every if n) / len(every):.3f}")


def _share(name: str, found: list[int], least: float | None = None, note: str = "") -> Figure:
    share = sum(map(bool, found)) / max(len(found), 1)
    return Figure(f"{name}: among ten", share, least=least, note=f"{len(found)} queries; {note}".rstrip("; "))


def main() -> None:
    """Draw, search, print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    report(given, figures(given.home, given.store, given.seed))


if __name__ == "__main__":
    main()
