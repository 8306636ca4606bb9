"""The conversation tree's figures beside their bounds: ``tree.py [--turns N] [--runs N] [--json]``.

A session of so many turns is made, every tenth of them the beginning of a branch; commands are whole processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.conversation.tree import get_ancestry
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.store import Store

BRANCH_EVERY = 10
TREE_MS_MAX = 200
ANCESTRY_MS_MAX = 20
CONTEXT_MS_MAX = 50
BATCH = 500


def fill(store: Store, turns: int) -> int:
    """A session of so many turns, forked again and again; gives its id."""
    session = store.create_session("tree").id
    for begin in range(0, turns, BATCH):
        store.append_events(session, [event for n in range(begin, min(begin + BATCH, turns)) for event in said(n)])
    with store._writing_connection() as db:
        db.execute(
            "update turns set parent_uid = (select uid from turns p where p.first_seq = turns.parent_seq - 3), "
            "parent_seq = parent_seq - 2 where session_id = ? and id % ? = 0 and parent_seq > 4",
            (session, BRANCH_EVERY),
        )
    return session


def said(n: int) -> list[UserMessage | AssistantText]:
    """A turn: a prompt and its answer."""
    words = "what the heron does when the tide comes in"
    return [UserMessage(content=f"Tell me of {words}, number {n}"), AssistantText(text=f"It waits {words} ({n})")]


def best_ms(times: int, work: Callable[[], object]) -> float:
    """The best of several times, in ms: others use the machine, too."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return min(taken)


def command(folder: Path, *words: str) -> Callable[[], object]:
    """A command of backstory as a whole process, in a folder with the store."""
    program = Path(sys.executable).with_name("backstory")
    env = {**os.environ, "HOME": str(folder), "BACKSTORY_HOME": str(folder / "home")}
    return lambda: subprocess.run([program, *words], env=env, cwd=folder, check=True, capture_output=True)


def measured(turns: int, runs: int) -> list[tuple[str, float, float]]:
    """What is measured, its bound and its figure, in ms."""
    with tempfile.TemporaryDirectory() as name, open_store(Path(name) / ".backstory" / "sessions.bks") as store:
        folder = Path(name)
        session = fill(store, turns)
        everything = store.turns(session)
        deepest = everything[-1].uid

        def ancestry() -> None:
            assert get_ancestry(everything, deepest)

        return [
            (f"tree of {turns} turns", TREE_MS_MAX, best_ms(runs, command(folder, "tree"))),
            ("tree --json", TREE_MS_MAX, best_ms(runs, command(folder, "tree", "--json"))),
            ("ancestry of the deepest leaf", ANCESTRY_MS_MAX, best_ms(runs, ancestry)),
            ("turns of a context of 400,000 characters", CONTEXT_MS_MAX,
             best_ms(runs, lambda: store.context_turns(session, 400_000))),
            ("branches", TREE_MS_MAX, best_ms(runs, command(folder, "branches"))),
            ("for comparison: --version", TREE_MS_MAX, best_ms(runs, command(folder, "--version"))),
        ]  # fmt: skip


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = measured(given.turns, given.runs)
    if given.json:
        print(json.dumps([{"what": what, "bound_ms": bound, "ms": round(ms, 1)} for what, bound, ms in rows]))
        return
    for what, bound, ms in rows:
        print(f"{what:42} {ms:7.1f} ms   bound {bound:4.0f} ms   {'' if ms <= bound else 'OVER'}")


if __name__ == "__main__":
    main()
