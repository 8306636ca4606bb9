"""A count that an agent's log lacks, from the log to what commands print: no total with a part missing is whole."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support import azs_files
from tests.support.ah_files import AhFile, Row
from tests.support.azs_files import AzsFile
from tests.support.forked import COMMAND
from tests.support.lost_counts import AGENTS, FIELDS, LOGS, NEEDED, PATHS, THREAD, WHOLE
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

DAY = "2026-10-05T10:00:00.000Z"
PRICES = '[[price]]\nmodels = ["m", "m0", "m1"]\n' + "".join(
    f"{name} = 1.0\n" for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h")
)
ABSENT = "absent"
BAD = (-1, 10**23, "five", 0.5, True)
FOLDERS = {
    "claude": ".claude/projects/p", "codex": ".codex/sessions/2026/10/05", "copilot": ".copilot/session-state",
}  # fmt: skip


class Lacking(NamedTuple):
    """A session whose last request has no such count, or one that is none; all of them where ``name`` is None."""

    kind: str
    name: str | None = None
    bad: Any = None

    @property
    def agent(self) -> str:
        return AGENTS.get(self.kind, self.kind)

    @property
    def is_whole(self) -> bool:
        return self.name is None

    @property
    def lacks_tokens(self) -> bool:
        return not self.is_whole and self.agent != "azureal"


SESSIONS = [
    *(
        Lacking(kind, name, bad)
        for kind, name in FIELDS
        for bad in (*BAD, *[ABSENT] * (name.lower() in NEEDED))
        # A column of numbers makes one of what is true.
        if not (kind == "ah messages" and bad is True)
    ),
    *(Lacking("azureal", "cost_usd", bad) for bad in (-1, 10**400, "five", True, ABSENT)),
    *map(Lacking, [*LOGS, "azureal"]),
]


def usages(session: Lacking) -> list[dict[str, Any]]:
    """Of two requests what each used, as its agent writes it."""
    whole = WHOLE.get(session.kind, {"cost_usd": 0.5, "duration_ms": 1000})
    found: list[dict[str, Any]] = [
        {name: count * (n if session.kind == "codex" else 1) for name, count in whole.items()} for n in (1, 2)
    ]
    for each in found if session.kind == "claude" else ():
        # Of what a cache holds for an hour more is to pay.
        each["cache_creation"] = {"ephemeral_5m_input_tokens": 2}
    if session.name is not None:
        found[-1][session.name] = session.bad
        if session.bad == ABSENT:
            del found[-1][session.name]
    return found


def put(bare: Shell, number: int, session: Lacking) -> None:
    if session.kind == "azureal":
        put_azs(bare.cwd / ".azureal" / "sessions.azs", number, session)
        return
    text = "".join(
        f"{json.dumps({'timestamp': DAY, 'cwd': '/p', **each})}\n" for each in LOGS[session.kind](usages(session))
    )
    # Ids of records and turns are those of their session.
    for own in ("s", "q", "a0", "a1", "m0", "m1", "t1", "r0", "r1", "r2", "r3", "end"):
        text = text.replace(f'"{own}"', f'"{own}-{number}"')
    text = text.replace('"go"', f'"go {number}"').replace(THREAD, thread(number))
    if session.agent == "ah":
        put_ah(bare.cwd / ".ah" / f"{number}.db", number, text)
        return
    place = PATHS[session.agent] if session.kind != "claude" else Path(f"s-{number}.jsonl")
    path = bare.home / FOLDERS[session.agent] / str(place).replace(THREAD, thread(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def thread(number: int) -> str:
    return f"{THREAD[:-12]}{number:012}"


def put_ah(path: Path, number: int, text: str) -> None:
    """The same records as rows of a database."""
    file = AhFile(path, queue=False, numbers_from=100 * number)
    for line in map(json.loads, text.splitlines()):
        # SQLite has no greater integers than its own.
        row: Row = {name: float(value) if value == 10**23 else value for name, value in line["row"].items()}
        if line["table"] == "messages":
            about = {name: row[name] for name in row.keys() - {"id", "parent_id", "role"}}
            file.message(row["role"], *line["blocks"], **about)
        elif line["table"] == "events":
            file.event(row["event_type"], **json.loads(row["details"]))


def put_azs(path: Path, number: int, session: Lacking) -> None:
    file = AzsFile(path)
    turns = (
        (azs_files.prompt(f"go {number}"), azs_files.init("m"), azs_files.answer("ok"),
         {"Complete": {"success": True, **each}})
        for each in usages(session)
    )  # fmt: skip
    file.events(file.session(), *(event for turn in turns for event in turn))


@pytest.fixture
def home(bare: Shell) -> Shell:
    """A home that has all these sessions, and a price for their model."""
    (bare.home / "backstory").mkdir(mode=0o700)
    (bare.home / "backstory" / "prices.toml").write_text(PRICES)
    for number, session in enumerate(SESSIONS):
        put(bare, number, session)
    assert bare("ingest").code == 0
    return bare


def printed(bare: Shell, *words: str) -> Any:
    done = bare(*words)
    assert done.code == 0, done.err
    return done.json()


def told_of(listed: Any) -> dict[Lacking, Any]:
    """What a list has of each session, which is known by its prompt."""
    return {SESSIONS[int(each["first_prompt"].removeprefix("go "))]: each for each in listed}


def said_of_cost(session: Lacking) -> str:
    """The kind of what such a session cost."""
    if session.agent == "copilot":
        # It is paid in credits.
        return "unknown"
    return ("exact" if session.agent == "azureal" else "computed") if session.is_whole else "lower bound"


def test_no_command_says_that_a_total_is_whole_which_lacks_a_count(home: Shell) -> None:
    listed = told_of(printed(home, "list", "--all", "--json", "-n", "0")["sessions"])
    assert listed.keys() == {*SESSIONS}
    for session, each in listed.items():
        assert (each["cost_kind"], each["turns_with_partial_tokens"]) == (said_of_cost(session), session.lacks_tokens)
        assert (each["cost_usd"] is None) == (each["cost_kind"] in ("lower bound", "unknown"))
    the_others_say_the_same(home)
    words_say_the_same(home)
    shown_alone_each_says_it(home, listed)


def the_others_say_the_same(home: Shell) -> None:
    counted = printed(home, "stats", "--all", "--json", "--by", "agent")
    for each in (counted["sums"], *counted["groups"]):
        of_it = [session for session in SESSIONS if session.agent == each.get("agent", session.agent)]
        assert each["turns_with_partial_tokens"] == sum(session.lacks_tokens for session in of_it)
        kinds = {said_of_cost(session) for session in of_it}
        assert (each["cost_kind"], each["cost_usd"]) == ("unknown" if kinds == {"unknown"} else "lower bound", None)
    out = home.home / "out.jsonl"
    assert home("export", "--all", "--format", "json", "-o", str(out)).code == 0
    partial = out.read_text().count('"tokens_source":"partial"')
    assert partial == sum(session.lacks_tokens for session in SESSIONS)


def words_say_the_same(home: Shell) -> None:
    for row in home("list", "--all", "-n", "0").out.splitlines():
        _, _, title, *_, cost = row.split("\t")
        said = said_of_cost(SESSIONS[int(title.removeprefix("go "))])
        assert (cost == "", cost.startswith("≥ ")) == (said == "unknown", said == "lower bound"), row
    sums = home("stats", "--all", "--by", "agent").out.splitlines()
    assert len(sums) == len({each.agent for each in SESSIONS}) + 2
    for row in sums[1:]:
        *tokens, _, cost = re.split(" {2,}", row)[3:]
        assert all(each[0] in "≥–" for each in (*tokens, cost)), row
    words = [*COMMAND, "list", "--all", "-n", "0", "--sort", "tokens"]
    # So high that no pager waits for a key.
    with Terminal(words, home.cwd, home.environ, width=150, rows=3 * len(SESSIONS)) as terminal:
        shown = re.findall(r"(≥ |)(\S+) tokens", terminal.end())
    lacking = sum(each.lacks_tokens for each in SESSIONS)
    assert Counter(least for least, _ in shown) == {"≥ ": lacking, "": len(SESSIONS) - lacking}
    assert Counter(count for _, count in shown)["–"] == sum(each.agent == "azureal" for each in SESSIONS)


def shown_alone_each_says_it(home: Shell, listed: dict[Lacking, Any]) -> None:
    for session in [each for each in SESSIONS if each.bad in (None, BAD[0], ABSENT)]:
        _, head, *_, end = filter(None, home("show", "-S", listed[session]["uid"]).out.splitlines())
        assert re.search(r"≥ \S+ tokens", head) is not None or not session.lacks_tokens
        assert ("≥" in head, "≥" in end or "–" in end) == (not session.is_whole, session.lacks_tokens), (head, end)
        is_paid = session.agent != "copilot" and (session.is_whole or session.lacks_tokens)
        assert ("$" in end) == is_paid, end
