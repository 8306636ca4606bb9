"""A search on a team's server, with row-level security on: ``python -m bench.team_search [--events N]``.

N events (1,000,000) of ten organisations of one size are made up and stored as the server derives them: turns of 34
events with 900 words of what is searched, over twelve months, whose words are as unequal as those of a language. Then
one of the organisations is searched, as a request is answered: the hits, their sessions, their excerpts.
"""

from __future__ import annotations

import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg

from backstory.server.deriving import month_of
from backstory.server.people import Caller, TeamRole
from backstory.server.postgres import own_database
from backstory.server.reading import TeamReading
from backstory.server.searching import TeamSearch, TeamSearching
from backstory.server.serving import opened
from backstory.server.turn_words import SaidText, SaidTurn, labels_of, sign_of
from bench.figures import Figure, arguments, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from backstory.server.database import TeamDatabase

TENANTS, EVENTS_OF_TURN, TURNS_OF_SESSION, WORDS_OF_TURN, WORDS = 10, 34, 4, 900, 60_000
DAYS = 360
P95_MS = 100
QUERIES = 100
NEWEST = datetime(2026, 11, 28, tzinfo=UTC)
SESSIONS = """
insert into session (tenant, person, uid, machine, repository, epoch, frames, events, title, agent, branch, created,
  last_active, generation)
select tenant, 1, session, 'M', 'me/app', 1, 1, 136, session, 'claude', 'main', min(at), max(at), 1 from turn_text
group by 1, 3;
insert into derivation (tenant, person, session, machine, version, epoch, frames, listed, heading, name, native_id,
  is_run, agents, branches)
select tenant, 1, uid, 'M', 1, 1, 1, json_build_object('title', uid, 'agents', json_build_array('claude'), 'repository',
  'me/app', 'branch', 'main'), uid, '', uid, false, '{claude}', '{main}' from session;
insert into frame (tenant, person, session, machine, epoch, number, chain, events, is_end, generation, head, data)
select tenant, 1, uid, 'M', 1, 1, uid::bytea, 136, true, 1, '', '' from session;
insert into turn (tenant, person, session, machine, number, uid, first_seq, last_seq, agent, is_run, tools)
select tenant, 1, session, 'M', number, session || number, 1, 34, 'claude', false, '{}' from turn_text;
insert into person (tenant, id, name, role, created) select distinct tenant, 1, 'anna', 'admin', now() from session
"""


class MadeUpWords:
    """Words of which the n-th is said 1/n as often as the first, and every hundredth is an identifier."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        self.all = [_word(n) for n in range(WORDS)]
        self._sums = list(accumulate(1 / (n + 1) for n in range(WORDS)))

    def some(self, count: int) -> list[str]:
        """So many, by chance."""
        return self._chance.choices(self.all, cum_weights=self._sums, k=count)


def _word(number: int) -> str:
    letters, left = "", number + 26
    while left:
        left, one = divmod(left, 26)
        letters += chr(97 + one)
    return f"get{letters.title()}Value" if number % 100 == 99 else f"{letters}word"


def texts(words: MadeUpWords, events: int) -> Iterator[tuple[object, ...]]:
    """The rows of what is searched, the oldest first."""
    turns, labels = events // EVENTS_OF_TURN, labels_of("me/app", None, ["claude"])
    for n in range(turns):
        session, number = divmod(n // TENANTS, TURNS_OF_SESSION)
        at = NEWEST - timedelta(days=DAYS) * (1 - n / turns)
        said = words.some(WORDS_OF_TURN)
        parts = [SaidText(1, 0, "UserMessage", "prompt", " ".join(said[:100])),
                 SaidText(2, 0, "AssistantText", "answer", " ".join(said[100:500])),
                 SaidText(3, 0, "ToolCall", "tool_input", " ".join(said[500:]))]  # fmt: skip
        yield (
            1 + n % TENANTS, 1, f"01M3250V00{session:016}", "M", number + 1, month_of(at), at,
            msgspec.json.encode(parts).decode(), SaidTurn(parts).words(sign_of(1 + n % TENANTS), labels),
        )  # fmt: skip


def fill(admin: Connection[tuple[object, ...]], words: MadeUpWords, events: int) -> None:
    """Store what is searched, and the sessions that it is of."""
    admin.execute("set search_path = backstory")
    admin.execute("select make_turn_month(m::date) from generate_series('2025-11-01'::timestamp, %s, '1 month') m",
                  (NEWEST.replace(tzinfo=None),))  # fmt: skip
    names = "tenant, person, session, machine, number, month, at, said, words"
    with admin.cursor() as cursor, cursor.copy(f"copy turn_text ({names}) from stdin".encode()) as copy:
        for each in texts(words, events):
            copy.write_row(each)
    for statement in SESSIONS.split(";"):
        admin.execute(statement.encode())
    admin.execute("vacuum analyze")


def measured(database: TeamDatabase, words: MadeUpWords) -> Iterator[Figure]:
    """The time of an answer, for each kind of words."""
    searching = TeamSearching(database, TeamReading(database))
    caller = Caller(tenant=1, person=1, name="anna", role=TeamRole.ADMIN, token="", scopes=frozenset())
    plain = [each for each in words.all if each.endswith("word")]
    kinds = {
        "a common word": [plain[n] for n in range(QUERIES)],
        "two words": [f"{plain[n]} {plain[200 + 7 * n]}" for n in range(QUERIES)],
        "a rare word": [plain[-1 - 97 * n] for n in range(QUERIES)],
        "an identifier by its parts": [f"get-{words.all[99 + 100 * n][3:-5]}-value" for n in range(QUERIES)],
        "a word of nobody": [f"absent{n}" for n in range(QUERIES)],
        "the beginning of a word": [f"{plain[n * 11][:4]}*" for n in range(QUERIES)],
        "a common word in prompts alone": [plain[n] for n in range(QUERIES)],
    }
    for name, queries in kinds.items():
        times, hits = list[float](), 0
        for query in queries:
            scope = "prompt" if "prompts" in name else ""
            began = time.perf_counter()
            found = searching.search(caller, TeamSearch(words=query, scope=scope))
            times.append((time.perf_counter() - began) * 1_000)
            hits += len(found["hits"])
        times.sort()
        note = f"p50 {times[len(times) // 2]:.1f} ms; {hits / len(queries):.1f} sessions a page"
        yield Figure(f"p95 of {name}", times[int(len(times) * 0.95)], "ms", most=P95_MS, runs=QUERIES, note=note)


def main() -> None:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    given = parser.parse_args()
    words = MadeUpWords()
    with tempfile.TemporaryDirectory(prefix="backstory-bench-") as name, opened(Path(name), None) as database:
        admin = own_database(Path(name)).address.replace("dbname=postgres", "dbname=backstory")
        began = time.perf_counter()
        with psycopg.connect(admin, autocommit=True) as connection:
            fill(connection, words, given.events)
            rows = connection.execute("select count(*) from turn_text").fetchall()
        took = time.perf_counter() - began
        stored = Figure(f"{given.events:,} events, stored", took, "s", note=f"{rows[0][0]:,} turns")
        report(given, chain([stored], measured(database, words)))


if __name__ == "__main__":
    main()
