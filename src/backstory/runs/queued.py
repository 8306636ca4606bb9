"""What waits for a session: left, looked at, and taken out when a run has consumed it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backstory import ids
from backstory.errors import BackstoryError, QueueBusy, QueueUnusable
from backstory.runs.spool import SPOOLS, list_spools
from backstory.store.queue import Kind, Queue, QueuedPrompt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from backstory.store import Store
    from backstory.store.queue import Options


def dequeue_consumed(store: Store, session_uid: str, consumed: Iterable[str], report: Callable[[str], None]) -> None:
    """Take out of the queue what a run that is stored has consumed; steers that it did not take up become follow-ups.

    Raises what keeps the queue from being written now; one that cannot be read at all holds nothing back.
    """
    try:
        with Queue(store.path, report) as queue:
            waiting = queue.prompts(session_uid)
            known = set(consumed)
            queue.remove([text.uid for text in waiting if text.uid in known])
            queue.make_followups([text.uid for text in waiting if text.uid not in known and text.kind == Kind.STEER])
    except QueueUnusable:
        return


def is_queued(store: Store, uid: str, report: Callable[[str], None]) -> bool:
    """Whether a text is still in the queue; not, where the queue cannot be read. Raises QueueBusy."""
    try:
        with Queue(store.path, report) as queue:
            return queue.has(uid)
    except QueueBusy:
        # Taken for gone, it would never be run.
        raise
    except BackstoryError:
        return False


def queued_prompts(home: Path, queue: Queue, session_uid: str | None = None) -> list[QueuedPrompt]:
    """What waits, the first to be taken first, without the follow-ups that are run just now."""
    texts = queue.prompts(session_uid)
    at_work = {spool.folder.name for spool in list_spools(home / SPOOLS) if spool.was_started} if texts else set[str]()
    return [text for text in texts if text.uid not in at_work]


def new_prompts(session_uid: str, said: Sequence[tuple[Kind, str, Options]], now: int) -> list[QueuedPrompt]:
    """Texts for a session, each with the uid of the turn it may become."""
    return [
        QueuedPrompt(
            uid=ids.new_uid(now, os.urandom(10)),
            session_uid=session_uid,
            kind=kind,
            content=content,
            options=options,
            queued=now,
        )
        for kind, content, options in said
    ]


def enqueue(store: Store, texts: Sequence[QueuedPrompt], report: Callable[[str], None] = lambda _: None) -> int:
    """Leave texts for a session; gives how many wait before them. Raises what the queue raises."""
    with Queue(store.path, report) as queue:
        return queue.add(texts)
