"""The pages of a team's server for tests: a visitor whom a person lets in as a browser."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from backstory.store import open_store
from tests.support.pages import Visitor
from tests.support.senders import frames_of_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.server.people import LetIn
    from tests.support.pages import Answer
    from tests.support.senders import Sender
    from tests.support.team import Team

CODE = re.compile(r"--approve ([A-Z]{4}-[A-Z]{4})")


class TeamVisitor(Visitor):
    """A browser at a server's pages, which keeps the cookies that it is given."""

    def __init__(self, team: Team, address: str) -> None:
        super().__init__(f"{address}/")
        self.team = team
        self.cookies: dict[str, str] = {}

    def keep(self, answer: Answer) -> Answer:
        """Do with the cookies of an answer what a browser does."""
        for line in answer.cookies:
            pair, *rules = line.split(";")
            name, _, value = pair.partition("=")
            self.cookies.pop(name, None)
            if not any(each.strip().lower() == "max-age=0" for each in rules):
                self.cookies[name] = value
        self.cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return answer

    def code(self, wanted: str = "") -> str:
        """The code that the login shows."""
        found = CODE.search(self.keep(self.get(f"/login{wanted}")).text)
        assert found is not None
        return found[1]

    @contextmanager
    def streamed(self, path: str) -> Iterator[httpx.Response]:
        """An answer that goes on, while it is read."""
        address = f"http://{self.host}{path}"
        with httpx.stream("GET", address, headers={"Cookie": self.cookie}, timeout=20, trust_env=False) as answer:
            yield answer

    def come_in(self, who: LetIn, *, steer: bool = False, wanted: str = "") -> Answer:
        """Have a person let this browser in; return the answer that leads on."""
        code = self.code(wanted)
        body = {"code": code, "steer": True} if steer else {"code": code}
        assert self.team.ask("POST", "/v1/login/approve", who.token, body)[0] == 200
        return self.keep(self.get(f"/login{wanted}"))


def send_all(sender: Sender, path: Path) -> None:
    """Send every session of a store, as if nothing of it were to be masked."""
    with open_store(path) as store:
        for uid in store.uids():
            sender.send(*frames_of_store(store, store.session(uid)))
    sender.team.derive(sender.who)
