"""A machine with sessions of repositories, which syncs with a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import agents
from backstory.derive.secrets import Redactor
from backstory.errors import ServerUnreachable
from backstory.exchange.frames import joined, read
from backstory.ingest.ingest import ingest
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from backstory.sync.outward import MachineNames
from backstory.sync.uploading import Uploader
from tests.support.claude_records import answer, user
from tests.support.clock import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from backstory.store import Store
    from backstory.sync.uploading import Sent
    from tests.support.senders import Sender

MACHINE = MachineNames(name="laptop.corp.example", account="janedoe", home="/home/janedoe", folders=frozenset())
KEY = b"k" * 32
PASSWORD = "Tr0ub4dor-and-3-horses"
"""A secret that only its name tells."""


class BrokenLine:
    """The server as the client knows it, with a line that may fail: each answer is lost while ``lost`` has more."""

    def __init__(self, sender: Sender) -> None:
        self._team, self._headers, self.machine = sender.team, sender.headers, sender.machine
        self.lost = list[bool]()
        self.asked = list[str]()
        self.bodies = list[bytes]()

    def ask(self, method: str, path: str, body: Any = None, *, repeats: bool = True) -> Any:
        return self._answer(method, path, None if body is None else msgspec.json.encode(body))

    def send(self, path: str, data: bytes) -> Any:
        self.bodies.append(data)
        return self._answer("POST", path, data)

    def _answer(self, method: str, path: str, data: bytes | None) -> Any:
        self.asked.append(path)
        answer = self._team.client.request(method, path, content=data, headers=self._headers)
        if self.lost and self.lost.pop(0):
            raise ServerUnreachable("http://x", "the line broke")
        assert answer.status_code == 200, answer.text
        return answer.json()


class Laptop:
    """A machine with sessions of some repositories, which syncs."""

    def __init__(self, folder: Path, store: Store, sender: Sender) -> None:
        self.folder, self.store, self.sender = folder, store, sender
        self.remote = BrokenLine(sender)
        self.notes = folder / "notes.jsonl"
        self.opted = ["janedoe/app"]

    def works(self, name: str, *texts: str, repository: str = "app") -> None:
        """Go on with a session by prompts, each with its answer."""
        go_on(self.folder / "home", self.folder / "work" / repository, name, *texts)
        ingest(self.store, [agents.load("claude")], environ={}, home=self.folder / "home", now=NOW)

    def sync(self) -> Sent:
        def redactor() -> Redactor:
            return Redactor(people=False, key=lambda: KEY)

        remote: Any = self.remote
        uploader = Uploader(remote, SyncNotes.read(self.notes), MACHINE, redactor, NOW)
        return uploader.run([self.store], opted_in(self.opted, MACHINE.home))

    def there(self) -> dict[str, list[str]]:
        """The texts of each session on the server, by uid, out of all its frames."""
        self.sender.upto = ""
        frames: dict[str, list[Any]] = {}
        for each in self.sender.news():
            frame = read(each)
            frames.setdefault(frame.head.session, []).append(frame)
        found = dict[str, list[str]]()
        for uid, parts in frames.items():
            events = [json.loads(line) for line in joined(parts) if line.startswith(b'{"type":"event"')]
            found[uid] = [str(next(iter(each["event"].values()))) for each in events]
        return found


def go_on(home: Path, work: Path, name: str, *texts: str) -> None:
    """Go on with a session of Claude's by prompts, each with its answer, in a clone of janedoe's repository."""
    (work / ".git").mkdir(parents=True, exist_ok=True)
    remote = f'[remote "origin"]\n\turl = git@github.com:janedoe/{work.name}.git\n'
    (work / ".git/config").write_text(remote, "utf-8")
    log = home / f".claude/projects/x/{name}-0000-4000-8000-000000000000.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = log.read_bytes().count(b"\n") // 2 if log.exists() else 0
    with log.open("ab") as file:
        for number, text in enumerate(texts, before):
            parent = f"{name}{number - 1}a" if number else None
            at: dict[str, Any] = {"cwd": str(work), "sessionId": f"{name}-0000-4000-8000-000000000000"}
            file.write(user(text, uuid=f"{name}{number}u", parent=parent, **at) + b"\n")
            file.write(answer(f"did {text}", uuid=f"{name}{number}a", parent=f"{name}{number}u", **at) + b"\n")
