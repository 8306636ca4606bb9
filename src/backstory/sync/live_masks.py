"""The words of a run that goes on, as they may leave the machine: masked as what is sent of its repository.

Of an answer that is being written only that part leaves whose secrets are seen for such: half a secret is none yet.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.conversation.compact import compact_event
from backstory.lazy import lazy_regex
from backstory.model import Unknown, encoded, event_to_json
from backstory.sync.following import SIDES, file_state
from backstory.sync.leaving import choose
from backstory.sync.outward_export import BESIDES, OutwardExport
from backstory.sync.uploading import own_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backstory.derive.secrets import Redactor
    from backstory.model import Event
    from backstory.store import Store
    from backstory.sync.leaving import LeavingSession
    from backstory.sync.notes import SyncNotes
    from backstory.sync.opted import OptedIn
    from backstory.sync.outward import MachineNames

EVENT_BYTES_MAX = 64 * 1024
"""A longer event is told in its short form, and of one that is still longer the texts are cut."""
CUT_CHARS, CUT_ITEMS = 2_000, 20
WRITING_CHARS_MAX = 20_000
BEFORE_CHARS_MAX = 1024 * 1024
"""The most that is remembered of what was told: a server keeps no more of it."""
_KEY_BEGUN = lazy_regex(r"-----BEGIN(?![\s\S]*-----END)")
"""A block of a key that has no end yet."""


class LiveMasks:
    """Masks what runs of one session print. ``repository``: its key, '' of a folder without a remote."""

    def __init__(self, export: OutwardExport, session: LeavingSession) -> None:
        self._export, self.session = export, session
        self._before, self._chars = deque[str](), 0
        self._known = 0
        """The number of forms of secrets for which what was told was looked through."""
        self._learned = dict[str, str]()
        """The marks of the sessions from which it learned, and the states of their stores' files."""
        self.files = dict[Path, tuple[int, int]]()
        self.repository = "" if session.repository.startswith("/") else session.repository

    def event(self, event: Event) -> tuple[bytes, bool]:
        """Return an event as it may leave, in the words of the JSON format.

        And whether those before have a secret bare that only this one tells.
        """
        data = self._short(event, encoded(self._export.event(event)))
        is_late = self.is_late()
        self._before.append(data.decode())
        self._chars += len(self._before[-1])
        while self._chars > BEFORE_CHARS_MAX:
            self._chars -= len(self._before.popleft())
        return data, is_late

    def is_late(self) -> bool:
        """Return True if events that were told have a secret bare that was learned since this was asked last."""
        late, self._known = self._export.learned(self._known)
        if late is None or not any(any(late.places_in(each)) for each in self._before):
            return False
        # Who tells of them takes all of them back.
        self._before.clear()
        self._chars = 0
        return True

    @property
    def may_learn(self) -> bool:
        """True if the stores are not what they were when it learned from them."""
        return any(file_state(path) != state for path, state in self.files.items())

    def learn(self, sessions: Sequence[LeavingSession], marks: Mapping[str, str], notes: SyncNotes) -> None:
        """Learn the secrets of sessions of the repository, but of those that are as they were.

        Of sessions that are as they were sent, of those records that tell one, and else of all that they say.
        """
        unread = list["LeavingSession"]()
        for each in sessions:
            uid = each.origin.uid
            if self._learned.get(uid) == marks[uid]:
                continue
            self._learned[uid] = marks[uid]
            sent = notes.sent.get(uid)
            if sent is None or BESIDES in sent.telling or not sent.mark.startswith(f"{marks[uid]} "):
                unread.append(each)
            else:
                self._export.recall(each, sent.telling)
        for _ in self._export.lines(unread):
            # It learns from them.
            pass

    def _short(self, event: Event, data: bytes) -> bytes:
        if len(data) <= EVENT_BYTES_MAX:
            return data
        if len(data := encoded(_cut(self._export.event(compact_event(event))))) <= EVENT_BYTES_MAX:
            return data
        return event_to_json(Unknown(type="an event that is too long to be told of"))

    def writing(self, text: str) -> str:
        """Return the part of an answer that is being written which may leave."""
        return self._export.text(sure_part(text))[-WRITING_CHARS_MAX:]


def sure_part(text: str) -> str:
    """Return the beginning of an unfinished text whose secrets can be seen for such: its whole paragraphs.

    A secret may be broken into several lines. Nothing of a text that is JSON, whose names tell secrets only when it is
    whole, and nothing from a key's block on.
    """
    if text.lstrip()[:1] in ("{", "["):
        return ""
    whole = text[: text.rfind("\n\n") + 2] if "\n\n" in text else ""
    begun = _KEY_BEGUN.search(whole)
    return whole if begun is None else whole[: whole.rfind("\n\n", 0, begun.start()) + 2]


def live_masks(
    uid: str, stores: Sequence[Store], opted: OptedIn, notes: SyncNotes, machine: MachineNames,
    redactor: Callable[[], Redactor], now: int, before: LiveMasks | None = None,
) -> LiveMasks | None:  # fmt: skip
    """Return what masks the runs of a session; None for one that may not leave.

    What secrets its repository has is learned as a sync does; by those of ``before`` only what came since.
    """
    # Asked for first: what comes while it is read is learned the next time.
    files = {path: file_state(path) for each in stores for side in SIDES if (path := Path(f"{each.path}{side}"))}
    leaving = choose(stores, opted).leaving
    session = next((each for each in leaving if each.origin.uid == uid), None)
    if session is None:
        return None
    sessions = [each for each in leaving if each.repository.lower() == session.repository.lower()]
    made = before or LiveMasks(OutwardExport(sessions, machine, redactor(), now), session)
    made.learn(sessions, own_marks(stores, sessions), notes)
    made.files = files
    return made


def _cut(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= CUT_CHARS else f"{value[:CUT_CHARS]}…"
        case list():
            return [_cut(each) for each in value[:CUT_ITEMS]]
        case dict():
            return {key: _cut(each) for key, each in list(value.items())[:CUT_ITEMS]}
    return value
