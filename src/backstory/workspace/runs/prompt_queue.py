"""The queued prompts: listed, changed, dropped and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.bounds import iso
from backstory.errors import NotQueued, SessionAmbiguous, SessionNotFound
from backstory.ids import session_keys
from backstory.runs.queued import queued_prompts
from backstory.store.tables.queue import Queue, QueuedKind
from backstory.workspace.runs.session_runs import SessionRuns
from backstory.workspace.runs.writable import store_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from backstory.store import Store
    from backstory.store.tables.queue import QueuedPrompt
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.place import Place
    from backstory.workspace.runs.run_events import RunEvent
    from backstory.workspace.runs.session_runs import Hooks


class ListedPrompt(Struct, frozen=True, kw_only=True):
    """A queued prompt as it is listed."""

    prompt: QueuedPrompt
    session: str
    """The name of its session; the start of its uid, if it is gone."""
    is_held: bool
    """True if it runs only when a person releases it: it came with a store from elsewhere, or is still in one."""

    @property
    def kind(self) -> str:
        """The reason why it waits, in a word."""
        return QueuedKind.HELD.value if self.is_held else self.prompt.kind.value


def as_json(listed: ListedPrompt) -> dict[str, Any]:
    """A queued prompt as ``queue list --json`` prints it."""
    prompt = listed.prompt
    return {
        "id": prompt.uid, "kind": prompt.kind.value, **session_keys(prompt.session_uid, listed.session),
        "text": prompt.content, "queued": iso(prompt.queued), "options": msgspec.to_builtins(prompt.options),
        "held": listed.is_held,
    }  # fmt: skip


class PromptQueue:
    """The queued prompts of one session, or of the project of the place."""

    def __init__(self, place: Place, hooks: Hooks) -> None:
        self._place, self._hooks = place, hooks

    def listed(self, located: LocatedSession | None = None) -> list[ListedPrompt]:
        """Queued prompts in order, without those that run just now; held ones last."""
        store, uid = self._store_of(located)
        with Queue(store.path, self._place.report) as queue:
            return [_listed(store, each) for each in self._queued(queue, uid)]

    def drop(self, ids: Sequence[str]) -> list[ListedPrompt]:
        """Remove prompts of this project by their ids; returns them. Raises NotQueued, SessionAmbiguous."""
        store, _ = self._store_of(None)
        with Queue(store.path, self._place.report) as queue:
            queued = self._queued(queue)
            found = [_of_id(each, queued) for each in ids]
            queue.remove([each.uid for each in found])
        return [_listed(store, each) for each in found]

    def edit(self, wanted: str, text: str) -> ListedPrompt:
        """Change the text of a prompt of this project; returns it. Raises NotQueued also where it is run by now."""
        from backstory.runs.runner import check_text

        check_text(text)
        store, _ = self._store_of(None)
        with Queue(store.path, self._place.report) as queue:
            found = _of_id(wanted, self._queued(queue))
            if not queue.edit(found.uid, text):
                raise NotQueued(wanted)
        return _listed(store, msgspec.structs.replace(found, content=text))

    def clear(self, located: LocatedSession | None = None) -> list[ListedPrompt]:
        """Remove all queued prompts of a session, or of this project; returns them."""
        store, uid = self._store_of(located)
        with Queue(store.path, self._place.report) as queue:
            found = self._queued(queue, uid)
            queue.remove([each.uid for each in found])
        return [_listed(store, each) for each in found]

    def run(self, located: LocatedSession, release: str | None = None) -> Generator[RunEvent, None, None]:
        """Run the prompts queued for a session. ``release``: the uid of a held one, which is run, too."""
        store = store_of(self._place, located)
        session = store.session(located.session.uid)
        lease = self._place.runner.hold(store, session)
        if release is not None:
            lease.queue.release(release)
        yield from SessionRuns(self._place, self._hooks, store, session).run_queue(lease)

    def held(self, wanted: str) -> QueuedPrompt | None:
        """The held prompt with an id that begins or ends so; None where nothing is held. Raises NotQueued."""
        with Queue(self._place.project_store.path) as queue:
            held = queue.prompts(kind=QueuedKind.HELD)
        return _of_id(wanted, held) if held else None

    def _store_of(self, located: LocatedSession | None) -> tuple[Store, str | None]:
        """The store whose queue is meant, and the session's uid if one is."""
        if located is None:
            return self._place.project_store, None
        return store_of(self._place, located), located.session.uid

    def _queued(self, queue: Queue, session_uid: str | None = None) -> list[QueuedPrompt]:
        held = queue.prompts(session_uid, QueuedKind.HELD)
        return [*queued_prompts(self._place.home, queue, session_uid), *held]


def _listed(store: Store, prompt: QueuedPrompt) -> ListedPrompt:
    is_held = store.is_elsewhere or prompt.kind == QueuedKind.HELD
    return ListedPrompt(prompt=prompt, session=_label(store, prompt.session_uid), is_held=is_held)


def _label(store: Store, session_uid: str) -> str:
    try:
        return store.session(session_uid).shown_number or session_uid[:12]
    except SessionNotFound:
        return session_uid[:12]


def _of_id(wanted: str, queued: Sequence[QueuedPrompt]) -> QueuedPrompt:
    """The prompt whose id begins or ends so; raises NotQueued, SessionAmbiguous."""
    upper = wanted.upper()
    found = [each for each in queued if upper and (each.uid.startswith(upper) or each.uid.endswith(upper))]
    if not found:
        raise NotQueued(wanted)
    if len(found) > 1:
        raise SessionAmbiguous(wanted, [each.uid for each in found])
    return found[0]
