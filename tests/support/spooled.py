"""A run in its spool, as long as it is told to be."""

from __future__ import annotations

import json
from pathlib import Path

from backstory.agents.contract import Exit
from backstory.model import Turn
from backstory.runs.spool import Run, Spool
from backstory.runs.stream import SpooledRun
from backstory.store import Session, Store
from backstory.store.tables import runs

NOW = 1_750_000_000_000
TURN = "01JXYZ00000000000000000001"
SAID = {
    "type": "assistant",
    "message": {"id": "m", "content": [{"type": "text", "text": "The heron nests here. " * 500}]},
}
RESULT = {
    "type": "result", "subtype": "success", "duration_ms": 1200, "duration_api_ms": 900, "total_cost_usd": 0.04,
    "session_id": "n",
}  # fmt: skip


def spooled(folder: Path, session: Session, *, megabytes: int) -> Spool:
    """A run that is over, with so much said in it."""
    run = Run(
        turn_uid=TURN, session_uid=session.uid, store="s.bks", agent="claude", prompt="Where?", cwd="/w", started=NOW
    )
    spool = Spool.begin(folder / "spool", run, "Where?")
    line = json.dumps(SAID) + "\n"
    lines = [line] * (megabytes * 1024 * 1024 // len(line)) + [json.dumps(RESULT) + "\n"]
    spool.stdout.write_text("".join(lines), "utf-8")
    spool.stderr.write_text("a warning\nand another", "utf-8")
    return spool


def told(spool: Spool) -> SpooledRun:
    run = spool.run
    assert run is not None
    return SpooledRun(spool, run, Exit(code=0), NOW + 5_000)


def write(store: Store, run: SpooledRun, *, at_most: int = 100) -> int:
    """Write a run as far as it is taken, or in so many transactions; gives how many were taken."""
    taken = 0
    for batches in run.batches(store.ask(runs.start_in, run.session_uid, TURN)):
        if taken == at_most or any(each.refused for each in store.append(batches)):
            break
        taken += 1
    return taken


def stored(store: Store, session: Session) -> Turn:
    (turn,) = store.turns(session)
    return turn
