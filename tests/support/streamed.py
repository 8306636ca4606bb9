"""A stream of the pages for tests: the events that a browser would take, as they come."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.going import until
from tests.support.pages import Elements

if TYPE_CHECKING:
    from tests.support.pages import Visitor


class Event(NamedTuple):
    """An event: its kind, its value, and the place that a browser has then."""

    kind: str
    value: dict[str, Any]
    place: str

    @property
    def words(self) -> str:
        """What a person reads of it."""
        found = Elements()
        found.feed(self.value.get("html", self.value.get("text", "")))
        return " ".join(" ".join(found.texts).split())


class Streamed:
    """Watches a session. ``last``: the place of a stream before this one."""

    def __init__(self, visitor: Visitor, uid: str, last: str = "") -> None:
        self._open(visitor.host, f"/s/{uid}/live", {"Cookie": visitor.cookie}, last)

    def _open(self, host: str, path: str, headers: dict[str, str], last: str) -> None:
        self.events: list[Event] = []
        self.is_over = False
        self._connection = http.client.HTTPConnection(host)
        self._connection.request("GET", path, headers=headers | ({"Last-Event-ID": last} if last else {}))
        self._socket = self._connection.sock
        self.answer = self._connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        lines: list[str] = []
        try:
            for line in self.answer:
                text = line.decode().removesuffix("\n")
                if text:
                    lines.append(text)
                    continue
                fields = dict(each.split(": ", 1) for each in lines if not each.startswith(":"))
                if fields:
                    self.events.append(Event(fields["event"], json.loads(fields["data"]), fields.get("id", "")))
                lines.clear()
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.is_over = True

    def close(self) -> None:
        """Close it as a browser does whose page is closed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.answer.close()
        self._connection.close()

    def of(self, kind: str) -> list[Event]:
        return [each for each in list(self.events) if each.kind == kind]

    @property
    def words(self) -> list[str]:
        """What a person reads of the entries that came, of one that was drawn again the last."""
        found: dict[int, str] = {}
        for each in list(self.events):
            if each.kind == "base":
                found.clear()
            elif each.kind == "entry":
                found[each.value["number"]] = each.words
        return [*found.values()]

    def until(self, words: str) -> None:
        until(lambda: any(words in each for each in self.words) or self.is_over)
        assert any(words in each for each in self.words), self.events

    @property
    def place(self) -> str:
        """The place of the last event that has one."""
        return next((each.place for each in reversed(list(self.events)) if each.place), "")


class StreamedByTeam(Streamed):
    """Watches a session of a team's server with a token."""

    def __init__(self, address: str, token: str, uid: str, last: str = "") -> None:
        host = address.removeprefix("http://")
        self._open(host, f"/v1/sessions/{uid}/live", {"Authorization": f"Bearer {token}"}, last)
