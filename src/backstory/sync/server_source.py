"""The other machines of a person, as a team's server has them: masked, in frames, from where they came last."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct

from backstory.ask.session_marks import REMOVED
from backstory.errors import FarEndBroken
from backstory.exchange.json_lines import Uid
from backstory.sync.account import key_of
from backstory.sync.frame_sending import SentFrame, removal
from backstory.sync.pull_plan import SentPoint, SessionOffer, Want
from backstory.sync.remote import understood
from backstory.sync.sources import Arrived, heard_session
from backstory.sync.wire import WANTS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from backstory.sync.account import Account
    from backstory.sync.notes import SyncNotes
    from backstory.sync.remote import Remote
    from backstory.sync.spool import FrameSpool

ID_CHARS = 12
ASKED_AT_ONCE = 1_000
REMOVALS = " removed"
"""The end of a noted count of removals."""


class SentMachine(Struct, frozen=True, kw_only=True):
    """A machine of the person that sent something. ``name``: as its login said it; ``seen``: the day of the last.

    ``generation``: another number when it sent more.
    """

    id: Uid
    name: str
    session_count: int
    event_count: int
    seen: str
    generation: int
    is_this: bool = False
    has_boards: bool = False


class SentMachines(Struct, frozen=True):
    """All of them, and how many sessions the person ever removed on the server."""

    machines: list[SentMachine]
    removals: int


class _Page(Struct, frozen=True):
    offers: list[SessionOffer]
    has_more: bool


def machines(remote: Remote, person: str = "") -> SentMachines:
    """Ask which machines of the person, or of another one for an admin, sent something.

    Raises ServerRefused, ServerUnreachable.
    """
    found = understood(remote, remote.ask("GET", f"/v1/machines{_of(person)}"), SentMachines)
    marked = [msgspec.structs.replace(each, is_this=each.id == remote.machine) for each in found.machines]
    return msgspec.structs.replace(found, machines=marked)


class _RemovedSession(Struct, frozen=True):
    uid: Uid
    at: int


class _Removed(Struct, frozen=True):
    removed: list[_RemovedSession]


def sources(remote: Remote, login: Account, notes_of: Callable[[str], SyncNotes]) -> list[ServerSource]:
    """Return the other machines. ``notes_of`` gives what is noted of a side with an id.

    Its files are the states of all machines, and the counts of removals, up to which it was read.
    """
    found = machines(remote)
    others = [each for each in found.machines if not each.is_this]
    # Of what one machine has it may depend whether a session of another one is shown.
    said = [str(remote.machine), str(found.removals)]
    said += [f"{each.id} {each.generation} {each.session_count}" for each in sorted(others, key=lambda each: each.id)]
    state = hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]
    made = list[ServerSource]()
    for each in others:
        id_ = f"{key_of(login)[:ID_CHARS]}-{each.id}"
        made.append(ServerSource(remote, each, id_, notes_of(id_), {state, f"{found.removals}{REMOVALS}"}))
    return made


class ServerSource:
    """The shelf of one machine. ``states``: of all machines, which are noted when it was read.

    ``person``: whose it is, where an admin asks.
    """

    is_masked = True

    def __init__(
        self, remote: Remote, machine: SentMachine, id_: str, notes: SyncNotes, states: set[str], person: str = ""
    ) -> None:  # fmt: skip
        self._remote, self._path, self._whose = remote, f"/v1/machines/{machine.id}", _of(person)
        self.id, self.name = id_, f"{machine.name or machine.id} at {remote.address}"
        self.passed_over, self.files_read = list[str](), states
        self.has_boards = machine.has_boards
        self._notes, self._removed = notes, dict[str, str]()

    def offers(self) -> list[SessionOffer]:
        """Ask what it sent, and what was removed of what came. Raises ServerRefused, ServerUnreachable."""
        offers, has_more = self._removals(), not self.files_read <= self._notes.files
        after = ""
        while has_more:
            path = f"{self._path}/sessions{self._whose or '?'}&after={after}"
            page = understood(self._remote, self._remote.ask("GET", path), _Page)
            offers += page.offers
            has_more = page.has_more and bool(page.offers)
            after = page.offers[-1].uid if page.offers else ""
        return offers

    def _removals(self) -> list[SessionOffer]:
        """Ask which of the sessions that came were removed since, where any was. The server knows no uids of them."""
        came = [uid for uid, sent in self._notes.sent.items() if not sent.mark.startswith(REMOVED)]
        is_told = all(each in self._notes.files for each in self.files_read if each.endswith(REMOVALS))
        for at in range(0, 0 if is_told else len(came), ASKED_AT_ONCE):
            said = self._remote.ask("POST", "/v1/removals", {"uids": came[at : at + ASKED_AT_ONCE]})
            for each in understood(self._remote, said, _Removed).removed:
                self._removed[each.uid] = f"{REMOVED}{each.at}"
        return [SessionOffer(uid=uid, mark=mark) for uid, mark in self._removed.items()]

    def fetch(self, wants: Sequence[Want], spool_of: Callable[[Want], FrameSpool]) -> Iterator[Arrived]:
        for want in (each for each in wants if each.uid in self._removed):
            yield self._say_removed(want, spool_of(want))
        wants = [each for each in wants if each.uid not in self._removed]
        for at in range(0, len(wants), WANTS_AT_ONCE):
            waiting = [*wants[at : at + WANTS_AT_ONCE]]
            while waiting:
                answer = io.BytesIO(self._remote.receive(f"{self._path}/frames{self._whose}", {"wants": waiting}))
                before = waiting[0]
                while waiting and (came := heard_session(answer, waiting[0], spool_of)) is not None:
                    waiting.pop(0)
                    yield came
                if waiting:
                    is_first = waiting[0] is before
                    waiting[0] = _gone_on(waiting[0], spool_of(waiting[0]))
                    if is_first and waiting[0] == before:
                        raise FarEndBroken("it answers without an end")

    def _say_removed(self, want: Want, spool: FrameSpool) -> Arrived:
        frame, point = removal(want.uid, self._removed[want.uid], want)
        assert isinstance(frame, SentFrame)
        assert isinstance(point, SentPoint)
        spool.shorten()
        spool.add(frame.data)
        return Arrived(want=want, sent=point)


def _of(person: str) -> str:
    return f"?person={quote(person, safe='')}" if person else ""


def _gone_on(want: Want, spool: FrameSpool) -> Want:
    """A session that is to be sent from behind what came of it."""
    return Want(uid=want.uid, sent=want.sent, frames=len(spool), chain=spool.heads[-1].chain if spool else "")
