"""A server that is busy or away: it is waited for as long as it asks, and no longer than makes sense."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from backstory.errors import LoginRefused, ServerBusy, ServerUnreachable
from backstory.sync.remote import TRIES, WAIT_S, Remote

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = (200, "")


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[str]:
    """The address of a server that gives these statuses, each with its Retry-After, and the last one from then on."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, after = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            if after:
                self.send_header("Retry-After", after)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_it_is_not_asked_again_before_the_time_that_it_names() -> None:
    waits = list[float]()
    with answering((503, "30"), (429, "7"), GOOD) as address, Remote(address, wait=waits.append) as remote:
        assert remote.ask("GET", "/") == {}
    assert [waits[0] >= 30, waits[1] >= 7, waits[1] < 30] == [True, True, True]


def test_an_answer_that_cannot_be_unpacked_is_no_servers_of_ours() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        with Remote(address, is_patient=False) as remote, pytest.raises(ServerUnreachable):
            remote.ask("GET", "/")
        server.shutdown()
        thread.join()


def test_an_address_that_is_none_is_said_to_be_away() -> None:
    with pytest.raises(ServerUnreachable):
        Remote("https://exa\x00mple.com")


def test_what_goes_to_this_machine_goes_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with answering(GOOD) as address, Remote(address, is_patient=False) as remote:
        assert remote.ask("GET", "/") == {}


def test_one_that_asks_for_an_hour_is_left_alone() -> None:
    waits = list[float]()
    with (
        answering((503, "3600")) as address,
        Remote(address, wait=waits.append) as remote,
        pytest.raises(ServerBusy) as refused,
    ):
        remote.ask("GET", "/")
    assert (waits, refused.value.retry_s, remote.requests) == ([], 3600, 1)


@pytest.mark.parametrize("after", ["", "soon", "-3", "nan"])
def test_without_a_time_that_makes_sense_the_waits_grow(after: str) -> None:
    waits = list[float]()
    with (
        answering((503, after)) as address,
        Remote(address, wait=waits.append) as remote,
        pytest.raises(ServerBusy) as refused,
    ):
        remote.ask("GET", "/")
    assert (len(waits), refused.value.retry_s) == (TRIES - 1, 0)
    assert all(WAIT_S * 2**n / 2 <= wait <= WAIT_S * 2**n for n, wait in enumerate(waits))


def test_a_server_that_is_away_is_tried_a_few_times_in_one_run() -> None:
    with answering(GOOD) as address:
        pass
    waits = list[float]()
    with Remote(address, wait=waits.append) as remote:
        for _ in range(3):
            with pytest.raises(ServerUnreachable):
                remote.ask("GET", "/")
        # The first of them has shown that it is away.
        assert remote.requests == TRIES + 2


def test_one_that_came_back_is_waited_for_again() -> None:
    waits = list[float]()
    with (
        answering(*[(503, "")] * TRIES, GOOD, (503, ""), GOOD) as address,
        Remote(address, wait=waits.append) as remote,
    ):
        with pytest.raises(ServerBusy):
            remote.ask("GET", "/")
        assert [remote.ask("GET", "/"), remote.ask("GET", "/")] == [{}, {}]


def test_a_login_that_is_refused_is_not_tried_again() -> None:
    with answering((401, "")) as address, Remote(address) as remote:
        with pytest.raises(LoginRefused):
            remote.ask("GET", "/")
        assert remote.requests == 1
