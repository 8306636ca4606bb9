"""Sessions that a person removed here, and that were sent: they are erased on the server, too.

One that came here from another machine is a copy: of it only what this machine sent goes, and the original stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from backstory.errors import LoginRefused, ServerRefused
from backstory.exchange import frames
from backstory.exchange.frames import START
from backstory.ids import session_identity
from backstory.sync.notes import SyncNote, SyncNotes
from backstory.sync.pull_plan import SentPoint
from backstory.sync.remote import understood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from backstory.sync.remote import Remote

FORGOTTEN = "forgotten"
"""A note's history where the session was taken out of the server."""
ABSENT = "absent"
"""A note's history where the server had nothing of a session when it was removed here: it may be here again."""
OUT = (FORGOTTEN, ABSENT)
COPY = "copy"
"""Noted beside what was sent of a session that came here from another machine."""
STATES_AT_ONCE = 1_000


class _State(Struct, frozen=True):
    uid: str
    chain: str


class _States(Struct, frozen=True):
    sessions: list[_State]


def forgotten(mark: str = "", telling: tuple[int, ...] = ()) -> SentPoint:
    """The note about a session that a person took out of the server."""
    return SentPoint(epoch=1, upto=START, chain=frames.NO_CHAIN, mark=mark, history=FORGOTTEN, telling=telling)


def keep_forgotten(notes: SyncNotes) -> None:
    """Forget what is noted of a server, which may be another one by now, but for what a person took out of it."""
    notes.sent = {uid: sent for uid, sent in notes.sent.items() if sent.history == FORGOTTEN}
    notes.files.clear()
    notes.rewrite()


def erase_again(remote: Remote, notes: SyncNotes) -> None:
    """Have a server that went back to an earlier time erase what was taken out of it since.

    Raises ServerRefused, ServerUnreachable.
    """
    is_copy = {uid: sent.sidecars == COPY for uid, sent in notes.sent.items() if sent.history == FORGOTTEN}
    copies = set(_there(remote, [uid for uid, is_one in is_copy.items() if is_one]))
    for uid, is_one in is_copy.items():
        # An original may be there from any of a person's machines, so nobody is asked.
        if not is_one or uid in copies:
            try:
                _erase(remote, uid, is_copy=is_one)
            except LoginRefused as refused:
                # A login that erases nothing is no reason to send nothing.
                if refused.status != 403:
                    raise


def erasing(notes: SyncNotes, removed: Iterable[str]) -> list[str]:
    """Return the sessions that were removed here and are noted as sent, by the uids that they were sent with."""
    sent = {session_identity(uid): uid for uid, point in notes.sent.items() if point.history not in OUT}
    return sorted({sent[identity] for uid in removed if (identity := session_identity(uid)) in sent})


def erase(remote: Remote, notes: SyncNotes, removed: Iterable[str], fail: Callable[[str, str], None]) -> list[str]:
    """Have the server erase what was removed here; return what it had. ``fail`` receives what it does not allow, why.

    Raises ServerRefused, ServerUnreachable.
    """
    known, removed = {session_identity(uid) for uid in notes.sent}, [*removed]
    # Notes that are lost tell neither what was sent nor that it is a copy.
    unsure = [uid for uid in removed if session_identity(uid) not in known]
    there = _there(remote, unsure)
    gone = list[str]()
    for uid in [*erasing(notes, removed), *there]:
        sent = notes.sent.get(uid)
        is_copy = sent is None or sent.sidecars == COPY
        try:
            _erase(remote, uid, is_copy=is_copy)
        except LoginRefused as refused:
            if refused.status != 403:
                raise
            fail(uid, f"it is not erased: {refused}")
            continue
        notes.add(SyncNote(uid=uid, sent=replace(forgotten(), sidecars=COPY) if is_copy else forgotten()))
        gone.append(uid)
    absent = replace(forgotten(), history=ABSENT)
    if nothing := [SyncNote(uid=uid, sent=absent) for uid in unsure if uid not in there]:
        notes.add(*nothing)
    return gone


def _there(remote: Remote, uids: Sequence[str]) -> list[str]:
    """Those of these sessions that the server has of this machine."""
    found = list[str]()
    for at in range(0, len(uids), STATES_AT_ONCE):
        said = remote.ask("POST", "/v1/state", {"uids": uids[at : at + STATES_AT_ONCE]})
        found += [each.uid for each in understood(remote, said, _States).sessions if each.chain]
    return found


def _erase(remote: Remote, uid: str, *, is_copy: bool) -> None:
    try:
        remote.ask("DELETE", f"/v1/machines/{remote.machine}/sessions/{uid}" if is_copy else f"/v1/sessions/{uid}")
    except ServerRefused as refused:
        # The answer to the first of two such requests may have been lost.
        if refused.status != 404:
            raise
