"""Subagents of which only their parent's log reports: each becomes a session of its own, read from a log that is made
of the records that the parent's log repeats.

Such a log is called like its parent's with ``#`` and the subagent's id behind it. It grows as the parent's log does,
gives way to the subagent's own log when that comes, and is never written out: the parent's log holds all of it.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from backstory.agents.jsonl import lines_of
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import Agent

SUBAGENTS_MAX = 1_000
"""The most subagents of one log that become sessions."""
IN_MEMORY_BYTES = 1024 * 1024
BLOCK_BYTES = 256 * 1024
_NAME = lazy_regex(r"(.+\.jsonl)#[\w-]+")


def is_reported(path: str) -> bool:
    """Return True if a log of this name is made of what another one reports.

    >>> is_reported("p/7f2c.jsonl#a580f73"), is_reported("p/7f2c.jsonl")
    (True, False)
    """
    return _NAME.fullmatch(path) is not None


def reported_logs(agent: Agent, path: str, file: IO[bytes], until: int) -> Iterator[tuple[str, IO[bytes]]]:
    """The logs of subagents, by their names, that the first ``until`` bytes of a log report of.

    Those whose own log lies in its place are left out. ``path`` is where the log lies.
    """
    reports = agent.reports
    if reports is None:
        return
    name = path.removesuffix(".zst")
    with ExitStack() as open_files:
        found: dict[str, IO[bytes] | None] = {}
        for _, _, line in lines_of(_blocks(file, until)):
            for subagent, record in reports.reported(line) if line is not None else ():
                if subagent not in found and len(found) < SUBAGENTS_MAX:
                    has_own = any(own.exists() for own in reports.own_logs(Path(name), subagent))
                    found[subagent] = None if has_own else _spooled(open_files)
                if (kept := found.get(subagent)) is not None:
                    kept.write(record + b"\n")
        for subagent, kept in found.items():
            if kept is not None:
                kept.seek(0)
                yield f"{name}#{subagent}", kept


def _spooled(open_files: ExitStack) -> IO[bytes]:
    # In memory while it is small, on the disk when it is not.
    return cast("IO[bytes]", open_files.enter_context(tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)))


def _blocks(file: IO[bytes], until: int) -> Iterator[bytes]:
    """The first bytes of a file."""
    file.seek(0)
    while until > 0 and (block := file.read(min(until, BLOCK_BYTES))):
        until -= len(block)
        yield block
