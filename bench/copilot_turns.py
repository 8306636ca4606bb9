"""How long Copilot CLI's logs take to go in, and again when nothing changed: 8,000 turns, and ten times as many.

``copilot_turns.py [--turns N ...] [--one] [--runs N] [--json]`` writes logs of N turns (40 to a session, about 3 KB to
a turn; with ``--one`` all in one session) into a throw-away home folder, and ingests them into a new store, each time
in a process of its own. "rerun" is a second ingest in the same process; "reindex" derives everything again from the
store. Read the time for each turn: it stays the same when the history grows. "cpu" is processor time, of both
processes that an ingest has: on a machine that others use too, it tells more.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

TURNS = (8_000, 80_000)
TURNS_IN_SESSION = 40
OUTPUT_CHARS = 900
ANSWER_CHARS = 500
WORDS = (
    *("the", "gate", "parser", "reads", "every", "token", "and", "returns", "none", "when", "a", "line", "of", "it"),
    *("file", "is", "torn", "before", "its", "end"),
)
CHILD = "import sys; sys.path.insert(0, {bench!r}); import copilot_turns; copilot_turns.measure({home!r}, {out!r})"


def write_home(home: Path, turns: int, in_session: int) -> int:
    """Logs of so many turns below a home folder; gives their bytes."""
    chance, size = random.Random(turns), 0
    for first in range(0, turns, in_session):
        session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        folder = home / ".copilot" / "session-state" / session
        folder.mkdir(parents=True)
        data = _log(session, range(first, min(first + in_session, turns)), chance)
        (folder / "events.jsonl").write_bytes(data)
        (folder / "workspace.yaml").write_text(f"id: {session}\ncwd: /src\nname: Session {first}\n")
        size += len(data)
    return size


def _log(session: str, turns: range, chance: random.Random) -> bytes:
    context = {"cwd": "/src", "repository": "octo/app", "branch": "main"}
    lines = [_line("session.start", turns[0], chance, sessionId=session, copilotVersion="1.0.102", context=context)]
    for turn in turns:
        lines += _turn(turn, chance)
    return b"".join(lines)


def _turn(turn: int, chance: random.Random) -> list[bytes]:
    call = {"toolCallId": f"call_{turn}"}
    ran = {"command": f"grep -rn token{turn} src/gate_{turn % 97}.py", "description": "Look for it"}
    edit = {"toolCallId": f"edit_{turn}", "name": "edit", "arguments": {"path": f"/src/gate_{turn % 97}.py"}}
    output = {"content": f"{_words(chance, OUTPUT_CHARS)}\n<exited with exit code 0>"}
    told = (
        ("user.message", {"content": _words(chance, 120), "transformedContent": _words(chance, 200)}),
        ("assistant.turn_start", {"turnId": str(turn)}),
        ("assistant.message", {"messageId": f"m{turn}", "content": "", "model": "gpt-5", "outputTokens": 40,
                               "toolRequests": [{**call, "name": "bash", "arguments": ran}, edit]}),
        ("tool.execution_start", {**call, "toolName": "bash", "arguments": ran}),
        ("tool.execution_complete", {**call, "success": True, "result": output}),
        ("tool.execution_complete", {"toolCallId": f"edit_{turn}", "success": True, "result": {"content": "edited"}}),
        ("assistant.message", {"messageId": f"n{turn}", "content": _words(chance, ANSWER_CHARS), "outputTokens": 90}),
        ("assistant.turn_end", {"turnId": str(turn)}),
    )  # fmt: skip
    return [_line(kind, turn, chance, **data) for kind, data in told]


def _line(kind: str, turn: int, chance: random.Random, **data: object) -> bytes:
    at = f"2026-{turn // 25_000 % 12 + 1:02}-{turn // 1000 % 25 + 1:02}T{turn // 60 % 24:02}:{turn % 60:02}:00.000Z"
    id_ = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    return json.dumps({"type": kind, "data": data, "id": id_, "timestamp": at, "parentId": None}).encode() + b"\n"


def _words(chance: random.Random, chars: int) -> str:
    return " ".join(chance.choices(WORDS, k=chars // 5))


def measure(home: str, out: str) -> None:
    """Ingest, ingest again and reindex, and print how long each took, as JSON."""
    from backstory import agents
    from backstory.ingest.ingest import ingest
    from backstory.ingest.reindex import reindex
    from backstory.store import open_store

    store = open_store(Path(out) / "store.db", shared=True)
    chosen, took = [agents.load("copilot")], dict[str, float]()
    for name in ("first", "rerun"):
        began, busy = time.perf_counter(), _busy()
        report = ingest(store, chosen, environ={}, home=Path(home), now=0)
        took[name], took[f"{name}_cpu"] = time.perf_counter() - began, _busy() - busy
        took[f"{name}_read"] = report.total("logs_read")
        assert not report.errors, report.errors
    began, busy = time.perf_counter(), _busy()
    done = reindex(store, now=0)
    took["reindex"], took["reindex_cpu"] = time.perf_counter() - began, _busy() - busy
    took["turns"] = done.stored["turns"]
    took["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 1 << 20
    )
    store.close()
    print(json.dumps(took))


def _busy() -> float:
    """Seconds of processor time so far, of this process and those it started that have ended."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


def _measured(home: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as out:
        code = CHILD.format(bench=str(Path(__file__).parent), home=str(home), out=out)
        told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout
    figures: dict[str, float] = json.loads(told)
    return figures


def measured(turns: int, in_session: int, runs: int) -> dict[str, float]:
    """The medians of some runs over the same logs."""
    with tempfile.TemporaryDirectory() as folder:
        size = write_home(Path(folder), turns, in_session)
        every = [_measured(Path(folder)) for _ in range(runs)]
    figures = {name: statistics.median(each[name] for each in every) for name in every[0]}
    return {**figures, "log_mb": size / 1e6, "first_us_a_turn": figures["first"] / turns * 1e6}


def main() -> None:
    """Measure each number of turns and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=TURNS)
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measured(turns, turns if given.one else TURNS_IN_SESSION, given.runs) for turns in given.turns]
    if given.json:
        print(json.dumps(rows))
        return
    columns = ("turns", "log_mb", "first", "first_cpu", "first_us_a_turn", "rerun", "reindex", "reindex_cpu", "peak_mb")
    print(" ".join(f"{name:>15}" for name in columns))
    for row in rows:
        print(" ".join(f"{row[name]:15.{0 if name == 'turns' else 3}f}" for name in columns))


if __name__ == "__main__":
    main()
