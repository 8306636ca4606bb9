"""How well and how fast a store is searched.

``search.py STORE [--queries N] [--json]`` asks a store that was filled by ``backstory ingest`` for things that are
known to be in it. *Known items*: whole short prompts, three of their words, and subjects of commits, each of which one
session (or its copies) has; told are hit@1, hit@5 and the mean reciprocal rank among 20 sessions. *Times*: rare words
(at most 20 hits), phrases of two words, common words (the most frequent of the sample), common words with a filter,
what 20 excerpts take when the hits are known, and ``backstory search`` as a process; medians and 95th percentiles (of
processes the worst) in ms of CPU, in process with a warm index, beside their bounds. Also told: common words with up to
1,000 sessions shown, two words that may stand apart, and words that occur nowhere. The choice is by a fixed seed.

Measured with Python 3.11 and SQLite 3.54 on a machine with 2 cores and a load of 5 to 7, real logs (17 MB of text, 164
sessions) and made-up ones (102 MB, 430 sessions). Known items, real logs: whole prompts hit@1 0.997, three of their
words 0.956 (hit@5 0.997), commits 1.0; with all scopes weighed alike 0.90 and 0.978, with a LENGTH_WEIGHT of 0.75
0.95 and 0.978. Times, real logs, p50 / p95: rare 0.2 / 1.0, phrase 0.4 / 1.8, common 6 / 7, filtered 3 / 8, every
session of a common word 13 / 19, 20 excerpts 3 / 5. Made-up logs of 1 GB (1,700 sessions, 311,000 events): rare
0.3 / 1.0, common 23 / 36, filtered 27 / 38: nearly all of it is listing a word's hits and grouping them by session,
0.15 to 0.3 ms for 1,000 hits. 100,000 sessions of two events each: common 21 / 53, with --agent 170. Processes, real
logs: 95 to 106.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from backstory.search.query import find
from backstory.store import Filter, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

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


def speeds(store: Store, most: int) -> dict[str, dict[str, float]]:
    """Times of each kind of query."""
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

    return {
        "rare": timed([plain(word) for word in rare]),
        "phrase": timed([plain(f'"{phrase}"') for phrase in phrases[:most]]),
        "common": timed([plain(word) for word in common]),
        "filtered": timed([filtered(word, wanted) for word in common[:10] for wanted in filters]),
        "every session": timed([all_of(word) for word in common[:10]]),
        "two words": timed([plain(phrase) for phrase in phrases[:most]]),
        "misspelt": timed([plain(_misspelt(word)) for word in rare[:100]]),
        "20 excerpts": timed([excerpts(word) for word in common]),
    }


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


def processes(store: Path) -> dict[str, float]:
    """Median and worst of the best times in ms of CPU that ``backstory search`` takes as a process."""
    times = []
    for query in PROCESS_QUERIES:
        command = [sys.executable, "-m", "backstory", "search", "--store", str(store), query]
        rounds = []
        for _ in range(PROCESS_ROUNDS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            rounds.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
        times.append(min(rounds))
    times.sort()
    return {"queries": len(times), "p50_ms": round(statistics.median(times), 1), "p95_ms": round(times[-1], 1)}


def table(times: dict[str, dict[str, float]], megabytes: float) -> list[str]:
    """The times beside their bounds."""
    bounds = BOUNDS_MS if megabytes < GIGABYTE_TEXT_MB else BOUNDS_OF_A_GIGABYTE_MS
    lines = [f"  {'':12}{'queries':>8}{'p50 ms':>9}{'p95 ms':>9}{'bound':>7}"]
    for name, row in times.items():
        verdict = "" if row["p95_ms"] <= bounds[name] else "  over"
        lines.append(f"  {name:12}{row['queries']:8}{row['p50_ms']:9.2f}{row['p95_ms']:9.2f}{bounds[name]:7}{verdict}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--queries", type=int, default=400, help="how many of each kind at most")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with open_store(args.store, shared=True) as store:
        megabytes = sum(each.char_len for session in store.sessions() for each in store.events(session)) / 1e6
        quality = {kind: ranks(store, items) for kind, items in known_items(store, args.queries).items() if items}
        times = {**speeds(store, args.queries), "process": processes(args.store)}
    if args.json:
        print(json.dumps({"text_mb": round(megabytes, 1), "known items": quality, "times": times}, indent=2))
        return
    print(f"{megabytes:.1f} MB of text")
    for name, row in quality.items():
        print(f"  {name:12}" + "  ".join(f"{key} {value}" for key, value in row.items()))
    print("\n".join(table(times, megabytes)))


if __name__ == "__main__":
    main()
