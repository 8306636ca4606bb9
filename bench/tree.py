"""The conversation tree: ``python -m bench.tree [--turns N] [--runs N]``.

A session of so many turns is made, every tenth of them the beginning of a branch; commands are whole processes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.conversation.tree import get_ancestry
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from bench.figures import Figure, arguments, report
from bench.measuring import backstory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    with store.writer() as db:
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
    """The best of several times, in ms of the processor: others use the machine, too."""
    taken = []
    for _ in range(times):
        started = busy_s()
        work()
        taken.append((busy_s() - started) * 1000)
    return min(taken)


def busy_s() -> float:
    """Processor time of this process, and of those that it waited for."""
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


def command(folder: Path, *words: str) -> Callable[[], object]:
    """A command of backstory as a whole process, in a folder with the store."""
    env = {**os.environ, "HOME": str(folder), "BACKSTORY_HOME": str(folder / "home")}
    return lambda: subprocess.run(backstory(*words), env=env, cwd=folder, check=True, capture_output=True)


def figures(turns: int, runs: int) -> Iterator[Figure]:
    """What a large tree takes; best times, because these are so short that whatever else runs disturbs them."""
    with tempfile.TemporaryDirectory() as name, open_store(Path(name) / ".backstory" / "sessions.bks") as store:
        folder = Path(name)
        session = fill(store, turns)
        everything = store.turns(session)
        deepest = everything[-1].uid

        def ancestry() -> None:
            assert get_ancestry(everything, deepest)

        measured = (
            (f"tree of {turns:,} turns", TREE_MS_MAX, command(folder, "tree")),
            ("tree --json", TREE_MS_MAX, command(folder, "tree", "--json")),
            ("ancestry of the deepest leaf, in process", ANCESTRY_MS_MAX, ancestry),
            ("turns of a context of 400,000 characters, in process", CONTEXT_MS_MAX,
             lambda: store.context_turns(session, 400_000)),
            ("branches", TREE_MS_MAX, command(folder, "branches")),
        )  # fmt: skip
        for what, most, work in measured:
            yield Figure(what, best_ms(runs, work), "ms", most=most, note=f"best of {runs}")


def main() -> None:
    """Print the figures."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    report(given, figures(given.turns, given.runs))


if __name__ == "__main__":
    main()
