"""A person who sends frames to the team's server, and reads them again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from backstory.exchange import frames
from backstory.exchange.frames import START, head_of
from backstory.export.exporting import Chosen
from backstory.export.portable import JsonExport
from backstory.server.api import MACHINE
from tests.support.clock import NOW
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from backstory.server.people import LetIn
    from backstory.store import Session, Store
    from tests.support.team import Team

UID, OTHER = "01M3250V00CJ5X1JHP0Z69AWSQ", "01M3250V00CJ5X1JHP0Z69AWSR"
LAPTOP, DESK = "01M3250V00AAAAAAAAAAAAAAAA", "01M3250V00BBBBBBBBBBBBBBBB"


class Sender:
    """A person who sends frames from a machine, and reads them again."""

    def __init__(self, team: Team, who: LetIn, machine: str = LAPTOP) -> None:
        self.team, self.who, self.token, self.machine = team, who, who.token, machine
        self.upto = ""

    @property
    def tenant(self) -> int:
        """The number of the person's organisation."""
        return tenant_of(self.token)

    @property
    def headers(self) -> dict[str, str]:
        """Who asks, and from where."""
        return {"Authorization": f"Bearer {self.token}", MACHINE: self.machine}

    def send(self, *data: bytes) -> list[str]:
        """Send frames; return the word for each."""
        return [each["word"] for each in self.answer(*data)[1]["confirmed"]]

    def answer(self, *data: bytes) -> tuple[int, Any]:
        answer = self.team.client.post("/v1/sync", content=b"".join(data), headers=self.headers)
        return answer.status_code, answer.json()

    def state(self, uid: str = UID) -> dict[str, Any]:
        answer = self.team.client.post("/v1/state", json={"uids": [uid]}, headers=self.headers)
        state: dict[str, Any] = answer.json()["sessions"][0]
        return state

    def news(self) -> list[bytes]:
        """The frames that came since it was asked last."""
        found = list[bytes]()
        more = True
        while more:
            answer = self.team.client.get("/v1/changes", params={"after": self.upto}, headers=self.headers)
            assert answer.status_code == 200
            self.upto, more = answer.headers["backstory-upto"], answer.headers["backstory-more"] == "1"
            found += split(answer.content)
        return found

    def forget(self, uid: str = UID) -> tuple[int, Any]:
        return self.team.ask("DELETE", f"/v1/sessions/{uid}", self.token)


def split(data: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(data):
        end = data.index(b"\n", at) + 1 + head_of(data[at : at + 4096]).size
        found.append(data[at:end])
        at = end
    return found


def line(of: str, **fields: object) -> bytes:
    return json.dumps({"type": of, **fields}, separators=(",", ":")).encode() + b"\n"


def exported(texts: list[str], after: int = 0, uid: str = UID, title: str = "hi") -> list[bytes]:
    """The lines of a session with these texts, from behind so many of them on."""
    return [
        line("session", uid=uid, created="2026-09-21T14:13:20.123Z", next_seq=len(texts) + 1, title=title,
             repository="github.com/me/app", branch="main"),
        line("turn", uid=uid, first_seq=1, last_seq=len(texts), agent="claude", prompt="hi"),
        *(line("event", seq=number, turn=uid, event={"AssistantText": {"text": text}})
          for number, text in enumerate(texts, 1) if number > after),
        line("session_end", uid=uid, turns=1, events=len(texts) - after),
    ]  # fmt: skip


def cut(rounds: list[list[str]], uid: str = UID, epoch: int = 1, title: str = "hi") -> list[bytes]:
    """The frames of a session that was sent each time that it had gone on."""
    made, texts, after, prev = list[bytes](), list[str](), START, ""
    for each in rounds:
        before, texts = len(texts), texts + each
        lines = exported(texts, before, uid, title)
        made += frames.frames(lines, session=uid, epoch=epoch, after=after, prev=prev, is_redacted=True)
        after, prev = head_of(made[-1]).upto, head_of(made[-1]).chain
    return made


def frames_of_store(store: Store, session: Session) -> list[bytes]:
    """The frames of a session of a store, as if nothing of it were to be masked."""
    export = JsonExport(has_bytes=False, now=NOW, piece_bytes=frames.PIECE_BYTES)
    lines = export.lines([Chosen(store=store, ids=[session.id], is_exact=True)], removed=False)
    inside = [each for each in lines if not each.startswith((b'{"type":"backstory"', b'{"type":"end"'))]
    return [*frames.frames(inside, session=session.uid, is_redacted=True)]
