"""A machine whose sessions are synced by commands as they are typed, each a process."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg

from backstory.exchange import frames
from backstory.exchange.frames import joined, read
from backstory.sync.notes import SyncNotes
from backstory.sync.removed import FORGOTTEN
from tests.support import laptops
from tests.support.typed_home import PROGRAM, TypedHome

if TYPE_CHECKING:
    from pathlib import Path


class TypedDesk(TypedHome):
    """A machine whose sessions are synced by commands."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        super().__init__(home)
        self.texts = list[str]()

    def works(self, name: str, count: int) -> None:
        texts = [f"text {len(self.texts) + number} of it" for number in range(count)]
        laptops.go_on(self.home, self.home / "app", name, *texts)
        self.texts += texts

    def starts(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*PROGRAM, *words], env=self.environ, cwd=self.home, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, text=True)  # fmt: skip

    def opted_in(self, address: str, code: str) -> None:
        assert self.types("login", address, "--code", code, "--person", "anna").returncode == 0
        assert self.types("config", "set", "sync.repositories", "janedoe/app").returncode == 0
        assert self.types("config", "set", "sync.enabled", "true").returncode == 0

    def syncs(self) -> tuple[int, Any]:
        done = self.types("sync", "--json")
        assert done.returncode in (0, 69, 75), done.stderr
        assert (done.stdout == "") == (done.returncode != 0)
        return done.returncode, json.loads(done.stdout or "null")


def same(desk: TypedDesk, admin: str, organisation: str) -> None:
    """Assert that the server has what this machine has, whole, once, and up to where its notes say."""
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "select f.session, f.head, f.data from backstory.frame f join backstory.session s"
            " using (tenant, person, machine, epoch) join backstory.organisation o using (tenant)"
            " where s.uid = f.session and f.number <= s.frames and o.name = %s order by f.session, f.number",
            (organisation,),
        ).fetchall()
    parts: dict[str, list[bytes]] = {}
    for uid, head, data in rows:
        parts.setdefault(uid, []).append(head.encode() + b"\n" + bytes(data))
    said = [json.loads(line) for each in parts.values() for line in joined([read(part) for part in each])]
    prompts = [each["event"]["UserMessage"]["content"] for each in said if "UserMessage" in each.get("event", {})]
    assert sorted(prompts) == sorted(desk.texts)
    (notes,) = (desk.home / "backstory" / "sync").glob("server-*.jsonl")
    noted = {uid: each.chain for uid, each in SyncNotes.read(notes).sent.items() if each.history != FORGOTTEN}
    assert noted == {uid: frames.head_of(each[-1]).chain for uid, each in parts.items()}
