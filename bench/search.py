"""How well and how fast a store is searched.

``python -m bench.search STORE [--queries N] [--rounds N]`` asks a store that was filled by ``backstory ingest`` for
things that are known to be in it. *Known items*: whole short prompts, three of their words, and subjects of commits,
each of which one session (or its copies) has; told are hit@1, hit@5 and the mean reciprocal rank among 20 sessions.
*Times*: rare words (at most 20 hits), phrases of two words, common words (the most frequent of the sample), common
words with a filter, what 20 excerpts take when the hits are known, and ``backstory search`` as a process; medians and
95th percentiles (of processes the worst) in ms of CPU, in process with a warm index, beside their bounds. Also told:
common words with up to 1,000 sessions shown, two words that may stand apart, and words that occur nowhere. The choice
is by a fixed seed.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import random
import re
import resource
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from backstory.search.query import find
from backstory.store import Filter, open_store
from bench import profiles
from bench.figures import Figure, arguments, profiled, report
from bench.measuring import Command, backstory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.store import Store

SEED = 1
SESSIONS_SHOWN = 20
ALL_SESSIONS = 1_000
RARE_HITS_MAX = 20
BOUNDS_MS = {"rare": 1, "phrase": 8, "common": 15, "filtered": 15, "every session": 60, "two words": 25, "misspelt": 15,
             "20 excerpts": 15, "process": 120}  # fmt: skip
"""What the 95th percentiles should not exceed for 100 MB of text; of processes the worst."""
BOUNDS_OF_A_GIGABYTE_MS = {"rare": 5, "phrase": 40, "common": 40, "filtered": 40, "every session": 250, "two words": 60,
                           "misspelt": 40, "20 excerpts": 15, "process": 160}  # fmt: skip
GIGABYTE_TEXT_MB = 200
"""A store with so much text holds about a gigabyte of logs."""
PROCESS_QUERIES = ("rename", "#12", "C++", "rename file test", "login.ts", "the", "xyzzy plugh")
PROCESS_ROUNDS = 7
WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{3,}")
COMMIT = re.compile(r"git commit[^\n]*?-[a-z]*m\s+(?:\"\$\(cat <<'?EOF'?\n)?[\"']?([^\n\"']{15,120})")


def known_items(store: Store, most: int) -> dict[str, dict[str, set[int]]]:
    """Queries of each kind, so many at most, with the sessions that are right answers."""
    chance = random.Random(SEED)
    items: dict[str, dict[str, set[int]]] = {"prompt": {}, "three words": {}, "commit": {}}
    for session in store.sessions():
        for turn in store.turns(session):
            if len(turn.prompt) < 400 and len(dict.fromkeys(WORD.findall(turn.prompt))) >= 5:
                items["prompt"].setdefault(" ".join(turn.prompt.split()), set()).add(session.id)
        for stored in store.events(session):
            for subject in COMMIT.findall(_command(stored.event)):
                items["commit"].setdefault(subject.strip(), set()).add(session.id)
    for prompt, ids in items["prompt"].items():
        # Where two prompts give the same words, both are right.
        words = chance.sample(list(dict.fromkeys(WORD.findall(prompt))), 3)
        items["three words"].setdefault(" ".join(words), set()).update(ids)
    return {kind: _some(chance, queries, most) for kind, queries in items.items()}


def _some(chance: random.Random, queries: dict[str, set[int]], most: int) -> dict[str, set[int]]:
    # What was said in many sessions is no known item.
    known = [query for query, ids in queries.items() if len(ids) <= 3]
    return {query: queries[query] for query in chance.sample(known, min(most, len(known)))}


def _command(event: Any) -> str:
    given = getattr(event, "input", None)
    return str(given.get("command", "")) if isinstance(given, dict) else ""


def ranks(store: Store, queries: dict[str, set[int]]) -> dict[str, float]:
    """How high the right sessions are."""
    places = []
    for query, right in queries.items():
        hits = store.search(query, limit=SESSIONS_SHOWN).hits
        places.append(next((n for n, hit in enumerate(hits, start=1) if hit.shown_id in right), 0))
    return {
        "queries": len(places),
        "hit@1": round(sum(place == 1 for place in places) / len(places), 3),
        "hit@5": round(sum(0 < place <= 5 for place in places) / len(places), 3),
        "mrr": round(sum(1 / place for place in places if place) / len(places), 3),
    }


def sample(store: Store) -> tuple[list[str], list[str]]:
    """Words and phrases from texts all over the store."""
    from backstory.derive.index_text import searchable

    chance = random.Random(SEED)
    words, phrases = Counter[str](), []
    sessions = store.sessions()
    for session in chance.sample(sessions, min(40, len(sessions))):
        events = store.events(session)
        for stored in chance.sample(events, min(60, len(events))):
            _, text = searchable(stored.event) or ("", "")
            words.update(each.lower() for each in WORD.findall(text[:5_000]))
            phrases += re.findall(r"[A-Za-z]{3,} [A-Za-z]{3,}", text[:500])[:1]
    rare = sorted(word for word, count in words.items() if count == 1)
    chosen = chance.sample(rare, min(400, len(rare))) + [word for word, _ in words.most_common(60)]
    different = sorted({phrase.lower() for phrase in phrases})
    return chosen, chance.sample(different, min(100, len(different)))


def timed(questions: list[Callable[[], object]]) -> dict[str, float]:
    """Median and 95th percentile in ms; each is asked three times, and the best time counts."""
    times = []
    for question in questions:
        rounds = []
        for _ in range(3):
            started = time.process_time()
            question()
            rounds.append((time.process_time() - started) * 1000)
        times.append(min(rounds))
    times.sort()
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
    return {"queries": len(times), "p50_ms": round(statistics.median(times), 2), "p95_ms": round(p95, 2)}


def speeds(store: Store, most: int, *, only: str | None = None) -> dict[str, dict[str, float]]:
    """Times of each kind of query, or of one kind."""
    words, phrases = sample(store)
    totals = {word: store.search(word, limit=1).total for word in words}
    rare = [word for word in words if 0 < totals[word] <= RARE_HITS_MAX][:most]
    common = sorted(words, key=lambda word: -totals[word])[:30]
    session = store.sessions(limit=10)[-1]
    newest = session.last_active or 0
    filters = [
        Filter(project=session.project, folder=session.cwd), Filter(branch=session.branch), Filter(since=newest),
        Filter(scopes=("prompt",)), Filter(until=newest),
    ]  # fmt: skip

    def plain(word: str) -> Callable[[], object]:
        return lambda: store.search(word, limit=SESSIONS_SHOWN)

    def filtered(word: str, wanted: Filter) -> Callable[[], object]:
        return lambda: store.search(word, wanted, limit=SESSIONS_SHOWN)

    def all_of(word: str) -> Callable[[], object]:
        return lambda: store.search(word, limit=ALL_SESSIONS)

    def excerpts(word: str) -> Callable[[], object]:
        """What is left to do once the hits are known: each is read and its place shown."""
        return lambda: find(_Searched(store), word, Filter(), limit=SESSIONS_SHOWN)  # type: ignore[arg-type]

    kinds = {
        "rare": [plain(word) for word in rare],
        "phrase": [plain(f'"{phrase}"') for phrase in phrases[:most]],
        "common": [plain(word) for word in common],
        "filtered": [filtered(word, wanted) for word in common[:10] for wanted in filters],
        "every session": [all_of(word) for word in common[:10]],
        "two words": [plain(phrase) for phrase in phrases[:most]],
        "misspelt": [plain(_misspelt(word)) for word in rare[:100]],
        "20 excerpts": [excerpts(word) for word in common],
    }
    return {name: timed(asked) for name, asked in kinds.items() if only in (None, name) and asked}


def _misspelt(word: str) -> str:
    """A word with its third and fourth letter exchanged."""
    return f"{word[:2]}{word[3:4]}{word[2:3]}{word[4:]}"


class _Searched:
    """A store that remembers what its searches gave."""

    found: ClassVar[dict[str, Any]] = {}

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(self, query: str, wanted: Filter, **how: Any) -> Any:
        if query not in self.found:
            self.found[query] = self._store.search(query, wanted, **how)
        return self.found[query]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def processes(store: Path, most: int) -> dict[str, float]:
    """Median and worst of the best times in ms of CPU that ``backstory search`` takes as a process."""
    times = []
    for query in PROCESS_QUERIES:
        command = backstory("search", "--store", str(store), query)
        rounds = []
        for _ in range(most):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            rounds.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
        times.append(min(rounds))
    times.sort()
    return {"queries": len(times), "p50_ms": round(statistics.median(times), 1), "p95_ms": round(times[-1], 1)}


def figures(path: Path, queries: int, rounds: int, *, profile: bool) -> Iterator[Figure]:
    """Times beside their bounds, and how high known items are."""
    with open_store(path, shared=True) as store:
        megabytes = sum(each.char_len for session in store.sessions() for each in store.events(session)) / 1e6
        quality = {kind: ranks(store, items) for kind, items in known_items(store, queries).items() if items}
        times = {**speeds(store, queries), "process": processes(path, rounds)}
    bounds = BOUNDS_MS if megabytes < GIGABYTE_TEXT_MB else BOUNDS_OF_A_GIGABYTE_MS
    yield Figure("text in the store", megabytes, "MB")
    for name, row in times.items():
        note = f"median {row['p50_ms']:.2f} ms, {row['queries']:.0f} queries"
        figure = Figure(f"{name}, 95th percentile", row["p95_ms"], "ms", most=bounds[name], note=note)
        yield profiled(figure, lambda name=name: _profile(path, name), wanted=profile)  # type: ignore[misc]
    for name, row in quality.items():
        note = f"among the first five {row['hit@5']:.3f}, {row['queries']:.0f} queries"
        yield Figure(f"{name}: found first", row["hit@1"], note=note)


def _profile(path: Path, name: str) -> list[str]:
    """Where all searches of one kind spend their time."""
    if name == "process":
        return profiles.imports(Command(backstory("search", "--store", str(path), "the"), dict(os.environ)))
    recorded = cProfile.Profile()
    with open_store(path, shared=True) as store:
        recorded.runcall(speeds, store, 100, only=name)
    return profiles.top(pstats.Stats(recorded))


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--queries", type=int, default=400, help="how many of each kind at most")
    parser.add_argument("--rounds", type=int, default=PROCESS_ROUNDS, help="how often each process is started")
    given = parser.parse_args()
    report(given, figures(given.store, given.queries, given.rounds, profile=given.profile))


if __name__ == "__main__":
    main()
