"""A machine with sessions of several ages, projects and agents, for what prunes them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from tests.support.machines import claude_line, claude_log, lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.support.shell import Shell

OLD, LATER, NEW = "2026-01-05T10:00:00.000Z", "2026-04-05T10:00:00.000Z", "2026-09-05T10:00:00.000Z"
WORDS = ("stork", "heron", "crane", "egret", "ibis", "bittern", "spoonbill", "pelican", "gannet", "shag")


def prose(seed: int, chars: int) -> str:
    """Words and numbers, of which some are in every text and most in this one alone."""
    rng = random.Random(seed)
    said = (rng.choice(WORDS) if rng.random() < 0.7 else f"{rng.randrange(10**6)}" for _ in range(chars // 7))
    return " ".join(said)


def put(shell: Shell, name: str, folder: Path | str, at: str, *, chars: int = 2_000, seed: int = 0) -> None:
    """A log of Claude's: a prompt, a call with its result, an answer."""
    told: dict[str, Any] = {"sessionId": name, "timestamp": at, "cwd": str(folder), "version": "2.0.0"}
    call = [{"type": "tool_use", "id": f"t-{name}", "name": "Bash", "input": {"command": f"ls {name}"}}]
    back = [{"type": "tool_result", "tool_use_id": f"t-{name}", "content": prose(seed, chars)}]
    _write(
        shell.home / claude_log(name),
        [
            claude_line("user", f"{name}-1", f"the prompt of {name}", **told),
            claude_line("assistant", f"{name}-2", **told, message={"role": "assistant", "content": call}),
            claude_line("user", f"{name}-3", **told, message={"role": "user", "content": back}),
            claude_line("assistant", f"{name}-4", f"the answer of {name}", **told),
        ],
    )


def put_subagent(shell: Shell, parent: str, folder: Path | str, at: str, *, chars: int = 2_000) -> None:
    """A log of a subagent of such a session."""
    name = f"agent-of-{parent}"
    told: dict[str, Any] = {
        "sessionId": parent, "timestamp": at, "cwd": str(folder), "agentId": f"of-{parent}", "isSidechain": True,
    }  # fmt: skip
    _write(
        shell.home / claude_log(parent).parent / parent / "subagents" / f"{name}.jsonl",
        [
            claude_line("user", f"{name}-1", f"the task of {name}", **told),
            claude_line("assistant", f"{name}-2", prose(7, chars), **told),
        ],
    )


def _write(path: Path, records: Sequence[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*records))


def ids(shell: Shell, *words: str) -> set[str]:
    """The agents' own ids of the sessions that a list has."""
    told = json.loads(shell("list", "--all", "--limit", "0", "--json", *words).out)
    return {each["native_id"] for each in told["sessions"]}


def settled(shell: Shell) -> Shell:
    """The machine with five sessions that were read: in two projects, of which one is gone; one has a subagent."""
    here = shell.home / "here"
    here.mkdir()
    put(shell, "old", here, OLD, seed=1)
    put(shell, "later", here, LATER, seed=2)
    put(shell, "new", here, NEW, seed=3)
    put(shell, "away", "/no/such/place", LATER, seed=4)
    put(shell, "large", "/no/such/place", NEW, chars=900_000, seed=5)
    put_subagent(shell, "old", here, OLD)
    assert shell("ingest").code == 0
    return shell
