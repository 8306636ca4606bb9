"""A machine that syncs over a line that breaks, and what the server then has."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from backstory.derive.secrets import Redactor
from backstory.errors import ServerBusy, ServerUnreachable
from backstory.exchange import frames
from backstory.exchange.frames import joined, read
from backstory.store import open_store
from backstory.sync import uploading
from backstory.sync.leaving import choose
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.sync.outward_export import OutwardExport
from backstory.sync.remote import Remote
from tests.support.clock import NOW
from tests.support.going import until
from tests.support.laptops import KEY, MACHINE, Laptop
from tests.support.senders import LAPTOP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.cutting import CuttingProxy
    from tests.support.senders import Sender


def remote(proxy: CuttingProxy, token: str | None = None, pause_s: float = 0) -> Remote:
    """The server behind the broken line, which is asked again after this pause."""
    return Remote(proxy.address, token, LAPTOP, wait=lambda _: time.sleep(pause_s))


class BrokenLaptop(Laptop):
    """A machine that syncs over a broken line, and checks what it is told."""

    def __init__(self, folder: Path, sender: Sender, proxy: CuttingProxy, pause_s: float = 0) -> None:
        super().__init__(folder, open_store(folder / "store.db", shared=True, now=lambda: NOW), sender)
        self.proxy, self.pause_s = proxy, pause_s

    def tries_to_sync(self) -> bool:
        """Sync as far as the line lets it; what it says is confirmed is there."""
        with remote(self.proxy, self.sender.token, self.pause_s) as line:
            self.remote: Any = line
            try:
                done = self.sync()
            except (ServerBusy, ServerUnreachable):
                return False
        for uid in {*done.sent, *done.created}:
            assert self.state(uid)["chain"] == SyncNotes.read(self.notes).sent[uid].chain
        return not done.failed

    def forgets(self, uids: list[str]) -> list[str] | None:
        with remote(self.proxy, self.sender.token, self.pause_s) as line:
            try:
                return uploading.forget(line, SyncNotes.read(self.notes), uids)
            except (ServerBusy, ServerUnreachable):
                return None

    def state(self, uid: str) -> dict[str, Any]:
        """The state of a session there; a database that was killed is waited for."""
        found = list[dict[str, Any]]()

        def is_said() -> bool:
            with suppress(KeyError):
                found.append(self.sender.state(uid))
            return bool(found)

        until(is_said)
        return found[0]

    def lines(self) -> dict[str, list[bytes]]:
        """The lines of each session that the client has, as it would send them to a server that has nothing."""
        chosen = choose([self.store], opted_in(self.opted, MACHINE.home)).leaving
        export = OutwardExport(chosen, MACHINE, Redactor(people=False, key=lambda: KEY), NOW)
        return {
            each.origin.uid: [*_whole([*frames.frames(lines, session=each.origin.uid, is_redacted=True)])]
            for each, lines in export.by_session(chosen)
        }

    def lines_there(self) -> dict[str, list[bytes]]:
        """The lines of each session that the server has."""
        self.sender.upto = ""
        found: dict[str, list[bytes]] = {}
        for each in self.sender.news():
            found.setdefault(frames.head_of(each).session, []).append(each)
        return {uid: [*_whole(parts)] for uid, parts in found.items()}


def _whole(parts: list[bytes]) -> Iterator[bytes]:
    return joined([read(each) for each in parts])


def same(laptop: BrokenLaptop, *, gone: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """Assert that the server has what the client has: the same chains and lines, none twice, none missing."""
    ours, notes = laptop.lines(), SyncNotes.read(laptop.notes).sent
    assert {uid: lines for uid, lines in ours.items() if uid not in gone} == laptop.lines_there()
    for uid in ours.keys() - gone:
        assert laptop.state(uid)["chain"] == notes[uid].chain
    for uid in gone:
        assert (laptop.sender.state(uid)["is_forgotten"], laptop.sender.state(uid)["chain"]) == (True, "")
