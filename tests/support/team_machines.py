"""Machines of one person that send to the team's server and pull from it, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backstory.derive.secrets import Redactor
from backstory.exchange import frames
from backstory.exchange.frames import joined, read
from backstory.export.exporting import Chosen
from backstory.export.portable import JsonExport
from backstory.sync.account import Account
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.sync.remote import Remote
from backstory.sync.server_source import sources
from backstory.sync.uploading import Uploader
from backstory.workspace.stores.pulling import noted, pull
from tests.support.laptops import KEY, MACHINE, go_on
from tests.support.pulled import LATER, PullingMachine
from tests.support.senders import Sender

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.server.people import LetIn
    from backstory.sync.uploading import Sent
    from backstory.workspace.stores.pulling import Pulled
    from tests.support.team import Team

OPTED = opted_in(["janedoe/app"], MACHINE.home)


class TeamMachine(PullingMachine):
    """A machine that sends to the server and pulls from it."""

    def __init__(self, folder: Path, team: Team, who: LetIn, address: str) -> None:
        super().__init__(folder)
        self.folder, self.notes = folder, folder / "sent.jsonl"
        self.store.begin()
        self.sender = Sender(team, who, self.store.id)
        self.login = Account(
            address=address, token=who.token, organisation=who.organisation, name=who.name, role=who.role
        )
        self.remote = Remote(address, who.token, self.store.id, wait=lambda _: None)

    def close(self) -> None:
        self.remote.__exit__(None, None, None)
        super().close()

    def works(self, name: str, *texts: str) -> None:
        go_on(self.home, self.folder / "work" / "app", name, *texts)
        self.read("claude")

    def sync(self) -> Sent:
        notes = SyncNotes.read(self.notes)
        uploader = Uploader(
            self.remote, notes, MACHINE, lambda: Redactor(people=False, key=lambda: KEY), self.store.now()
        )
        return uploader.run([self.store], OPTED)

    def pulls(self) -> list[Pulled]:
        found = sources(self.remote, self.login, lambda id_: noted(self.workspace, id_))
        return [pull(self.workspace, each) for each in found]

    def came(self) -> dict[str, int]:
        """How many sessions came, by word."""
        done = self.pulls()
        assert [each.failed for each in done if each.failed] == []
        words = {word for each in done for word in each.came}
        counted = {word: sum(len(each.came[word]) for each in done) for word in words}
        return {word: count for word, count in counted.items() if count}

    def lines(self, uid: str) -> list[bytes]:
        """The turns and events of a session, as an export of it says them."""
        chosen = [Chosen(store=self.store, ids=[self.store.session(uid).id], is_exact=True)]
        return told(JsonExport(has_bytes=False, now=LATER).lines(chosen, removed=False))

    def sent_lines(self) -> dict[str, list[bytes]]:
        """The turns and events of each session that this machine sent, as the server has them."""
        self.sender.upto = ""
        found: dict[str, list[Any]] = {}
        for each in self.sender.news():
            found.setdefault(frames.head_of(each).session, []).append(read(each))
        return {uid: told(joined(parts)) for uid, parts in found.items()}


def told(lines: Any) -> list[bytes]:
    return [line for line in lines if line.startswith((b'{"type":"turn"', b'{"type":"event"'))]
