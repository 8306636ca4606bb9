"""A log that reports of subagents, and what a store has of theirs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from backstory.agents.claude import reports
from tests.support.machines import claude_line, claude_log, conversation, lines, looked_up

if TYPE_CHECKING:
    from backstory.store import Log, Session, Store

PARENT = "a1b2c3"
LOG = claude_log(PARENT)
LENT = "select count(*) from lent"
LENDERS = "select distinct c.lender from chunks c join logs l on l.id = c.log_id where l.path like '%#%'"


def report(n: int, agent: str = "a58") -> bytes:
    """A record that repeats one of a subagent, long enough to be copied."""
    kind, text = ("user", "assistant")[n % 2], f"pelican {n} " + random.Random(n).randbytes(40).hex()
    message = {"role": kind, "content": text if kind == "user" else [{"type": "text", "text": text}]}
    record = {"type": kind, "uuid": f"h{n}", "timestamp": "2026-11-21T21:00:05.000Z", "message": message}
    if n % 3 == 0:
        record["toolUseResult"] = {"stdout": text}
    data = {"type": "agent_progress", "agentId": agent, "message": record, "prompt": "look"}
    return claude_line("progress", f"p-{n}", data=data, timestamp="2026-11-21T21:00:09.000Z")


def said(content: bytes, agent: str = "a58") -> bytes:
    """The bytes of a subagent's log as its parent's log repeats them."""
    found = (each for line in content.splitlines() for each in reports.reported(line))
    return b"".join(each.record + b"\n" for each in found if each.subagent == agent)


CONTENT = lines(*conversation(2), *(report(n) for n in range(6)), report(6, "b77"), *conversation(4, 2))
BYTES = said(CONTENT)


def log_of(store: Store, name: str = "#a58") -> Log:
    (found,) = (log for log in store.logs() if log.path.endswith(name))
    return found


def parent_of(store: Store) -> Session:
    (found,) = (each for each in store.sessions(subagents=True) if each.native_id == PARENT)
    return found


def bytes_in(store: Store, name: str = "#a58") -> bytes:
    return b"".join(store.stream_log(log_of(store, name).id))


def lenders(store: Store) -> list[int | None]:
    return [lender for (lender,) in looked_up(store.path, LENDERS)]


def is_settled(store: Store) -> bool:
    """Return True if no chunk of a subagent's log is made of another log any more, and nothing is left over."""
    return lenders(store) == [None] and looked_up(store.path, LENT) == [(0,)]
