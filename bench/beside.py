"""Our totals beside agentsview's of the same Claude Code logs, and where they part: ``beside.py LOGS``.

LOGS is shaped like a home folder. Both read a copy of its .claude, without network. Printed is a bridge: their figure,
what each class of difference adds, and ours; the classes are counted in the logs themselves, by their raw records. What
no class explains is printed, too, and then the exit code is 1. Docs: docs/numbers-beside-agentsview.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.ask.costs import price_table
from backstory.derive.pricing import cost_of
from backstory.model import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ALONE = ("unshare", "-rnpf", "--kill-child", "--mount-proc", "--", "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
"""Runs a command with nothing but loopback, and ends with it whatever servers it started."""
TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache read": "cache_read_input_tokens",
    "cache write": "cache_creation_input_tokens",
}
UNEXPLAINED = "not explained"
SUBAGENTS = "subagents only in their parent's log"
WIDTHS = (8, 7, 5, 9, 9, 13, 12, 7, 12)
FIGURES = ("sessions", "prompts", "words", *TOKENS, "calls", "dollars")
NOISE = {
    r"<bash-(stdout|stderr)>": "output of a person's own shell commands",
    r"<bash-input>": "a person's own shell commands",
    r"Operation stopped by hook:": "notices of the client",
    r"<command-(name|message)>": "commands that the client answers itself",
}
"""What agentsview shows as prompts: the model was told nothing of it."""

Figures = dict[str, float]
Bridge = dict[str, Figures]
"""Class of difference to what it adds to each figure."""


class Message(NamedTuple):
    """One answer of the model: of its records, the maximum of each count."""

    model: str
    day: str
    used: Counter[str]
    for_an_hour: int


class Logs:
    """What the raw records say."""

    def __init__(self, home: Path) -> None:
        self.lines: dict[str, list[str]] = {}
        self.texts: dict[str, str] = {}
        self.messages: dict[tuple[str, str], Message] = {}
        self.reported: dict[tuple[str, str], Message] = {}
        self.agents: set[str] = set()
        self.their_calls: set[str] = set()
        for path in sorted((home / ".claude" / "projects").rglob("*.jsonl")):
            self.lines[path.stem] = path.read_text(errors="replace").split("\n")
            for line in self.lines[path.stem]:
                for record in values(line):
                    self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        if record.get("uuid"):
            self.texts[record["uuid"]] = text((record.get("message") or {}).get("content"))
        data = record.get("data") or {}
        if record.get("type") == "progress" and data.get("type") == "agent_progress":
            # A subagent without a log of its own: its parent's log reports what it said.
            self.agents.add(data["agentId"])
            told = data.get("message") or {}
            if told.get("type") == "assistant":
                add(self.reported, (data["agentId"], told["message"]["id"]), told["message"], record["timestamp"])
                blocks = told["message"].get("content") or []
                self.their_calls |= {each["id"] for each in blocks if each.get("type") == "tool_use"}
        elif record.get("type") == "assistant" and record["message"].get("model") != "<synthetic>":
            key = (record["message"]["id"], record.get("requestId") or "")
            add(self.messages, key, record["message"], record["timestamp"])


def values(line: str) -> Iterator[dict[str, Any]]:
    """The objects of a line: two processes may have written one into the other's."""
    while (start := line.find("{")) >= 0:
        line = line[start:]
        try:
            value, end = json.JSONDecoder().raw_decode(line)
        except ValueError:
            value, end = None, 1
        if isinstance(value, dict):
            yield value
        line = line[end:]


def text(content: Any) -> str:
    """The words of a message."""
    if isinstance(content, list):
        return "\n".join(each.get("text") or "" for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def add(messages: dict[tuple[str, str], Message], key: tuple[str, str], message: dict[str, Any], at: str) -> None:
    """Put a record of a message to those before."""
    used = message.get("usage") or {}
    counts = Counter({name: used.get(field) or 0 for name, field in TOKENS.items()})
    hour = (used.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    old = messages.get(key, Message(message["model"], at[:10], Counter(), 0))
    messages[key] = Message(old.model, old.day, old.used | counts, max(old.for_an_hour, hour))


def put(bridge: Bridge, name: str, more: Mapping[str, float]) -> None:
    """Add to a class."""
    figures = bridge.setdefault(name, {})
    for each, count in more.items():
        figures[each] = figures.get(each, 0) + count


def theirs(home: Path, program: str) -> tuple[sqlite3.Connection, dict[str, Any]]:
    """Their database, and what they say was used."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"}
    told = ""
    for command in (["sync"], ["usage", "daily", "--all", "--json", "--offline"]):
        done = subprocess.run([*ALONE, program, *command], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{program} {' '.join(command)} failed:\n{done.stderr[-2000:]}")
        told = done.stdout
    return sqlite3.connect(home / ".agentsview" / "sessions.db"), json.loads(told)


def their_figures(db: sqlite3.Connection, usage: dict[str, Any]) -> Figures:
    """As their own commands print them."""
    totals = usage["totals"]
    sessions, asked = db.execute("select count(*), sum(user_message_count) from sessions").fetchone()
    fields = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens")
    calls = db.execute("select count(*) from tool_calls").fetchone()[0]
    dollars = totals["totalCost"]["microdollars"] / 1e6
    return dict(zip(FIGURES, (sessions, asked, asked, *(totals[each] for each in fields), calls, dollars), strict=True))


class Ours:
    """What `backstory sql` says."""

    def __init__(self, home: Path) -> None:
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home), "BACKSTORY_HOME": str(home / ".backstory")}
        subprocess.run([sys.executable, "-m", "backstory", "ingest"], env=self._env, capture_output=True, check=True)

    def sql(self, question: str) -> list[list[Any]]:
        """The rows of an answer, all of them."""
        command = [
            sys.executable,
            "-m",
            "backstory",
            "sql",
            "--json",
            "--limit",
            "1000000",
            "--timeout",
            "60",
            question,
        ]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=True)
        rows: list[list[Any]] = json.loads(done.stdout)["rows"]
        return rows

    def figures(self) -> Figures:
        """Our totals. Dollars are what it cost at least."""
        asked = (
            "(select count(*) from sessions), (select count(*) from turns where not is_copy),"
            "(select count(*) from events where kind = 'UserMessage'), sum(input_tokens), sum(output_tokens),"
            "sum(cache_read_tokens), sum(cache_write_tokens), (select count(*) from tool_calls where not is_copy),"
            "sum(low_usd)"
        )
        return dict(zip(FIGURES, self.sql(f"select {asked} from usage")[0], strict=True))


def prompts(db: sqlite3.Connection, ours: Ours, logs: Logs) -> Bridge:
    """Who takes which record for a person's words."""
    asked = "select source_uuid from messages where role = 'user' and not is_system"
    shown = {uuid for (uuid,) in db.execute(asked)}
    told = ours.sql("select t.native_id, s.relation from turns t join sessions s on s.id = t.session_id")
    main = {uuid for uuid, relation in told if relation != "subagent"}
    bridge: Bridge = {}
    for uuid in shown - main:
        named = (name for begin, name in NOISE.items() if re.match(begin, logs.texts[uuid].lstrip()))
        put(bridge, next(named, UNEXPLAINED), {"prompts": -1, "words": -1})
    for uuid in main - shown:
        name = UNEXPLAINED if logs.texts.get(uuid, "?").strip() else "prompts that are only a picture"
        put(bridge, name, {"prompts": 1, "words": 1})
    return bridge


def words(ours: Ours, logs: Logs) -> Bridge:
    """What people said that is no prompt: the records in which it stands."""
    bridge: Bridge = {}
    asked = (
        "select s.native_id, e.seq from events e join sessions s on s.id = e.session_id where e.kind = 'UserMessage' "
        "and s.relation is not 'subagent' and not exists "
        "(select 1 from turns t where t.session_id = e.session_id and t.first_seq = e.seq)"
    )
    for native, seq in ours.sql(asked):
        record = next(values(logs.lines[native][seq - 1]), {})
        content = (record.get("message") or {}).get("content")
        name = UNEXPLAINED
        if record.get("type") == "queue-operation":
            name = "typed while the agent worked"
        elif isinstance(content, list) and any(each.get("type") == "tool_result" for each in content):
            name = "typed to refuse or answer a call"
        put(bridge, name, {"words": 1})
    return bridge


def used(db: sqlite3.Connection, logs: Logs) -> Bridge:
    """What was used in messages that they leave out."""
    shown = set(db.execute("select claude_message_id, claude_request_id from messages where token_usage <> ''"))
    bridge: Bridge = {}
    for key, message in logs.messages.items():
        if key not in shown:
            put(bridge, "answers without words that can be seen", {**message.used, "dollars": least(message)})
    for message in logs.reported.values():
        put(bridge, SUBAGENTS, {**message.used, "dollars": least(message)})
    agents = len(logs.agents)
    put(bridge, SUBAGENTS, {"sessions": agents, "prompts": agents, "words": agents, "calls": len(logs.their_calls)})
    return bridge


def prices(db: sqlite3.Connection, usage: dict[str, Any], logs: Logs) -> Bridge:
    """What they make of the price of the messages that both have."""
    shown = set(db.execute("select claude_message_id, claude_request_id from messages where token_usage <> ''"))
    both = [message for key, message in logs.messages.items() if key in shown]
    rates = {name: each["resolutions"][0] for name, each in usage["pricing"]["models"].items()}

    def rate(message: Message, name: str) -> float:
        return float(rates[message.model][f"{name.replace(' ', '_')}_cost_per_mtok"]["microdollars"]) / 1e12

    hour = sum(each.for_an_hour * (rate(each, "cache write 1h") - rate(each, "cache write")) for each in both)
    priced = hour + sum(count * rate(each, name) for each in both for name, count in each.used.items())
    rounded = usage["totals"]["totalCost"]["microdollars"] / 1e6 - priced
    name = "each message rounded to a millionth" if abs(rounded) < len(both) / 1e6 else UNEXPLAINED
    return {
        "list prices that are not the same": {"dollars": sum(least(each) for each in both) - priced},
        name: {"dollars": -rounded},
    }


def least(message: Message) -> float:
    """What a message costs at least, by our list prices."""
    counts = {name.replace(" ", "_"): count for name, count in message.used.items()}
    whole = message.used["input"] + message.used["cache read"] + message.used["cache write"]
    tokens = Tokens(**counts, cache_write_1h=message.for_an_hour, largest_input=whole)
    return cost_of(tokens, price_table().price("claude", message.model, message.day)).low_usd or 0


def rows(start: Figures, bridge: Bridge, end: Figures) -> Iterable[tuple[str, Figures]]:
    """The lines of the table; the last one is what nothing explains."""
    yield "agentsview", start
    told = {name: figures for name, figures in bridge.items() if any(round(count, 6) for count in figures.values())}
    yield from sorted((name, figures) for name, figures in told.items() if name != UNEXPLAINED)
    yield "backstory", end
    parts = [start, *(figures for name, figures in bridge.items() if name != UNEXPLAINED)]
    yield UNEXPLAINED, {each: end[each] - sum(part.get(each, 0) for part in parts) for each in FIGURES}


def show(name: str, figures: Figures) -> None:
    """Print a line; what is nothing stays blank."""
    cells = []
    for each, width in zip(FIGURES, WIDTHS, strict=True):
        count = round(figures.get(each, 0), 6)
        shown = f"{count:,.6f}" if each == "dollars" else f"{count:,.0f}"
        cells.append(f"{shown if count else '':>{width}}")
    print(f"{name:44}", *cells)


def main() -> None:
    """Print the bridge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--agentsview", default=shutil.which("agentsview"), help="its program")
    given = parser.parse_args()
    if not given.agentsview:
        sys.exit("agentsview is not installed: pip install agentsview==0.46.1 somewhere, and name it with --agentsview")
    bridge: Bridge = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(given.logs / ".claude", home / ".claude")
        logs, ours = Logs(home), Ours(home)
        db, usage = theirs(home, given.agentsview)
        for part in (prompts(db, ours, logs), words(ours, logs), used(db, logs), prices(db, usage, logs)):
            for name, figures in part.items():
                put(bridge, name, figures)
        start, end = their_figures(db, usage), ours.figures()
        db.close()
    print(f"{'':44}", *(f"{each:>{width}}" for each, width in zip(FIGURES, WIDTHS, strict=True)))
    for name, figures in rows(start, bridge, end):
        show(name, figures)
    if UNEXPLAINED in bridge or any(round(count, 6) for count in figures.values()):
        sys.exit("not everything is explained")


if __name__ == "__main__":
    main()
