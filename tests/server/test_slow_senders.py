"""Who sends slowly, or opens connections and says nothing, takes nobody else's turn."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from backstory.server import bodies
from backstory.sync.remote import Remote
from tests.support.senders import Sender, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.team import Team


@pytest.fixture
def address(team: Team) -> Iterator[str]:
    with team.served() as found:
        yield found


def opened(stack: ExitStack, address: str, *parts: bytes) -> socket.socket:
    """A connection to the server that said this much."""
    found = urlsplit(address)
    made = stack.enter_context(socket.create_connection((found.hostname, found.port), 30))
    made.sendall(b"".join(parts))
    return made


def begun(token: str, size: int, sent: bytes = b"") -> bytes:
    """The beginning of a request with history."""
    return (
        f"POST /v1/sync HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n".encode()
        + sent
    )


def status(connection: socket.socket) -> int:
    return int(connection.recv(4_096).split()[1])


def test_while_one_person_sends_slowly_and_others_say_nothing_all_others_are_served(team: Team, address: str) -> None:
    anna = team.founded()
    eve = Sender(team, team.joined(anna, "eve"))
    ben = Sender(team, team.joined(anna, "ben"))
    with ExitStack() as stack:
        for _ in range(200):
            opened(stack, address)
        for _ in range(30):
            opened(stack, address, begun(eve.token, 4_000_000, b"x" * 100))
        with Remote(address, ben.token, ben.machine) as remote:
            assert [each["word"] for each in remote.send("/v1/sync", b"".join(cut([["a"], ["b"]])))["confirmed"]] == [
                "ok", "ok",
            ]  # fmt: skip


def test_of_who_may_not_send_no_body_is_read(team: Team, address: str) -> None:
    ben = Sender(team, team.joined(team.founded(), "ben", "reader"))
    with ExitStack() as stack:
        assert status(opened(stack, address, begun("nobody", 4_000_000))) == 401
        assert status(opened(stack, address, begun(ben.token, 4_000_000))) == 403


def test_a_body_that_is_announced_too_long_is_not_read(team: Team, address: str) -> None:
    anna = team.founded()
    with ExitStack() as stack:
        assert status(opened(stack, address, begun(anna.token, 10**12))) == 413


def test_a_body_that_comes_too_slowly_ends(team: Team, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PAUSE_S", 0.1)
    anna = team.founded()
    with ExitStack() as stack:
        assert status(opened(stack, address, begun(anna.token, 4_000_000, b"x"))) == 408
        short = b"POST /v1/login HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
        assert status(opened(stack, address, short)) == 408


def test_who_finds_no_room_is_told_to_try_again(team: Team, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "WAIT_S", 0.1)
    anna = team.founded()
    with ExitStack() as stack:
        waiting = [opened(stack, address, begun(anna.token, 4_000_000)) for _ in range(bodies.OF_ONE_PERSON + 2)]
        answered = list[int]()
        while len(answered) < 2:
            ready, _, _ = select.select(waiting, [], [], 30)
            answered += [status(each) for each in ready]
            waiting = [each for each in waiting if each not in ready]
    assert answered == [503, 503]
