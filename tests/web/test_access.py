"""Only the browser that opened the printed address sees pages; nothing else of the machine or the web does."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from backstory.web.access import HEADERS, ONLY_READS
from backstory.web.serving import listening
from tests.support.pages import Visitor, served

if TYPE_CHECKING:
    from tests.support.shell import Shell

PATHS = ("/", "/sessions", "/search?q=a", "/reports/costs", "/s/ABC", "/s/ABC/1/block", "/static/page.js", "/nothing")


@pytest.fixture
def stranger(pages: Visitor) -> Visitor:
    """Somebody at the same port who was not given the address."""
    return Visitor(pages.address)


@pytest.mark.parametrize("path", PATHS)
def test_a_stranger_is_refused_everywhere_and_told_how_it_opens(stranger: Visitor, path: str) -> None:
    answer = stranger.get(path)
    assert (answer.status, "backstory web" in answer.text) == (403, True)


@pytest.mark.parametrize("token", ["", "x", "%C3%A9", "A" * 10_000])
def test_another_token_opens_nothing(stranger: Visitor, token: str) -> None:
    answer = stranger.get(f"/?token={token}")
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


def test_the_token_leaves_the_address_and_becomes_a_cookie_of_this_process(stranger: Visitor) -> None:
    answer = stranger.enter()
    cookie = answer.headers["set-cookie"].lower()
    token = stranger.opening.partition("token=")[2]
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/"))
    assert "expires" not in cookie and "max-age" not in cookie
    assert token.lower() not in cookie
    assert stranger.get("/sessions").status == 200


def test_a_cookie_of_other_pages_opens_nothing(pages: Visitor, month: Shell) -> None:
    with served(month.environ, month.cwd) as other:
        other.enter()
        name, _, value = other.cookie.partition("=")
        own_name = pages.cookie.partition("=")[0]
        assert name != own_name
        for cookie in (f"{name}={value}", f"{own_name}={value}", f"{own_name}=", own_name):
            assert Visitor(pages.address).get("/sessions", headers={"Cookie": cookie}).status == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "[::1]:{port}", ""])
def test_another_host_is_refused_also_with_the_cookie(pages: Visitor, host: str) -> None:
    asked = host.replace("{port}", pages.host.partition(":")[2])
    assert pages.get("/sessions", headers={"Host": asked}).status in (400, 421)


def test_a_host_that_resolves_here_is_refused_with_the_right_token(pages: Visitor) -> None:
    answer = Visitor(pages.address).get(pages.opening, headers={"Host": f"evil.example:{pages.host.partition(':')[2]}"})
    assert (answer.status, "set-cookie" in answer.headers) == (421, False)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_page_of_another_origin_is_refused_also_with_the_cookie(pages: Visitor, origin: str) -> None:
    assert pages.get("/sessions", headers={"Origin": origin}).status == 403


def test_the_own_origin_is_let_in(pages: Visitor) -> None:
    assert pages.get("/sessions", headers={"Origin": f"http://{pages.host}"}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/sessions", "/s/ABC", "/search?q=a"])
def test_nothing_can_be_changed(pages: Visitor, method: str, path: str) -> None:
    answer = pages.get(path, method=method)
    assert (answer.status, answer.text) == (405, ONLY_READS)


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_says_what_the_browser_must_not_do(pages: Visitor, path: str) -> None:
    for visitor in (pages, Visitor(pages.address)):
        answer = visitor.get(path)
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS


def test_no_page_may_run_what_is_written_in_it_or_load_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert {word for word in policy.replace(";", "").split() if ":" in word} == {"data:"}


@pytest.mark.parametrize(
    "path",
    [
        "/static/../site.py", "/static/%2e%2e/site.py", "/static/..%2fsite.py", "/static//etc/passwd",
        "/static/%2fetc%2fpasswd", "/static/", "/static/site.py", "/static/page.js%00.css", "/s/..%2f..%2fetc/1",
    ],
)  # fmt: skip
def test_no_path_reaches_a_file(pages: Visitor, path: str) -> None:
    answer = pages.get(path)
    assert (answer.status, "import" in answer.text, "root:" in answer.text) == (404, False, False)


def test_a_path_with_two_slashes_leads_to_no_other_host(pages: Visitor) -> None:
    token = pages.opening.partition("?")[2]
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        assert Visitor(pages.address).get(f"{path}?{token}").headers["location"].startswith(("/evil", "/%5C", "/?")), (
            path
        )


def test_the_pages_are_at_this_machine_alone() -> None:
    with listening(0, 1) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
        assert sock.family is socket.AF_INET
