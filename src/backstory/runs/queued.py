"""The prompts and messages queued for a session: queued, listed, and removed when a run has consumed them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory import ids
from backstory.errors import BackstoryError, QueueBusy, QueueUnusable
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from backstory.store import Store
    from backstory.store.tables.queue import Options


def dequeue_consumed(store: Store, session_uid: str, consumed: Iterable[str], report: Callable[[str], None]) -> None:
    """Remove from the queue what a stored run has consumed; messages that it did not receive become follow-ups.

    Raises what keeps the queue from being written now; a queue that cannot be read at all is no obstacle.
    """
    try:
        with Queue(store.path, report) as queue:
            queued = queue.prompts(session_uid)
            known = set(consumed)
            queue.remove([each.uid for each in queued if each.uid in known])
            queue.make_followups(
                [each.uid for each in queued if each.uid not in known and each.kind == QueuedKind.STEER]
            )
    except QueueUnusable:
        return


def is_queued(store: Store, uid: str, report: Callable[[str], None]) -> bool:
    """Return True if a prompt is still in the queue; False where the queue cannot be read. Raises QueueBusy."""
    try:
        with Queue(store.path, report) as queue:
            return queue.has(uid)
    except QueueBusy:
        # Taken for removed, it would never be run.
        raise
    except BackstoryError:
        return False


def queued_prompts(home: Path, queue: Queue, session_uid: str | None = None) -> list[QueuedPrompt]:
    """Return the queued prompts in order, without the follow-ups that run just now."""
    prompts = queue.prompts(session_uid)
    if not prompts:
        return []
    # A follow-up stays queued until its turn is stored, so that a crash in between loses nothing.
    at_work = {spool.folder.name for spool in list_spools(home / SPOOLS) if spool.was_started}
    return [each for each in prompts if each.uid not in at_work]


def new_prompts(session_uid: str, messages: Sequence[tuple[QueuedKind, str, Options]], now: int) -> list[QueuedPrompt]:
    """Prompts and messages for a session, each with the uid of the turn it may become."""
    return [
        QueuedPrompt(
            uid=ids.new_uid(now, os.urandom(10)),
            session_uid=session_uid,
            kind=kind,
            content=content,
            options=options,
            queued=now,
        )
        for kind, content, options in messages
    ]


def enqueue(store: Store, prompts: Sequence[QueuedPrompt], report: Callable[[str], None] = lambda _: None) -> int:
    """Queue prompts for a session; returns how many are queued before them. Raises what the queue raises."""
    with Queue(store.path, report) as queue:
        return queue.add(prompts)
