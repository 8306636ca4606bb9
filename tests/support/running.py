"""Real runs: how they are begun, left and waited for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.runs.runner import Came, Finished, Request, Runner
    from backstory.store import Session, Store
    from tests.support.bench import Bench

GOOD: dict[str, Any] = {"result": True}
DEADLINE_S = 120


def until(condition: object) -> None:
    """Poll; a test that waits too long fails here."""
    assert callable(condition)
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def run_alone(
    runner: Runner, store: Store, session: Session, request: Request, seen: Callable[[Came], None] = lambda _: None
) -> Finished:
    """One prompt, run to its end by nobody but this runner."""
    lease = runner.hold(store, session)
    run = runner.run_held(lease, store, session, request)
    try:
        while True:
            seen(next(run))
    except StopIteration as over:
        finished: Finished = over.value
        return finished
    finally:
        lease.release()


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def the_agents_own_log(bench: Bench, prompts: list[str]) -> None:
    """What the agent writes of a run beside its stream: one log with the run's session id, the context echoed."""
    words = bench.argv()
    native_id = words[words.index("--session-id") + 1]
    folder = bench.root / ".claude" / "projects" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    for n, prompt in enumerate(prompts):
        common = {"sessionId": native_id, "timestamp": f"2026-11-21T10:00:0{n}.000Z", "cwd": str(bench.project)}
        user = {"type": "user", "uuid": f"{native_id}-u{n}", "message": {"role": "user", "content": prompt}}
        answer = {
            "type": "assistant", "uuid": f"{native_id}-a{n}", "parentUuid": f"{native_id}-u{n}",
            "message": {"id": f"m{n}", "role": "assistant", "content": [{"type": "text", "text": "the heron answer"}]},
        }  # fmt: skip
        records += [json.dumps({**user, **common}), json.dumps({**answer, **common})]
    (folder / f"{native_id}.jsonl").write_text("\n".join(records) + "\n")


def start_and_leave(bench: Bench, prompt: str, *script: dict[str, Any]) -> None:
    """Start a run whose backstory is killed after the agent's first word, and before its second."""
    gate = bench.root / "gate"
    gate.unlink(missing_ok=True)
    steps: list[dict[str, Any]] = [{"say": "first word"}, {"wait_for": str(gate)}, *script]
    process = bench.start("run", "-a", "claude", prompt, script=steps)
    assert process.stdout is not None
    assert process.stdout.readline() == "first word\n"
    process.kill()
    process.communicate()
    gate.touch()


def until_stored(bench: Bench) -> None:
    """Wait until every run is in the stores: what an agent said is seen before that."""
    until(lambda: not bench.spools())


def until_over(bench: Bench) -> None:
    until(lambda: all(row["state"] == "waiting" for row in json.loads(bench.backstory("ps", "--json").stdout)["runs"]))
