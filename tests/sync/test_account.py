"""The login of a machine: kept for its owner alone, and sent nowhere unencrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.errors import NotLoggedIn, ServerAddressWrong
from backstory.sync.account import ACCOUNT, Account, account, address_of, forget, keep
from tests.support.every import every

if TYPE_CHECKING:
    from pathlib import Path

LOGIN = Account(address="https://x", token="bks_secret", organisation="o", name="n", role="member")


@every("typed, address", [
    ("https://team.example.com", "https://team.example.com"), ("team.example.com:8443/", "https://team.example.com:8443"),
    ("http://127.0.0.1:7421", "http://127.0.0.1:7421"), ("http://localhost:1", "http://localhost:1"),
    ("http://[::1]:7421", "http://[::1]:7421"), (" https://a.b/team/ ", "https://a.b/team"),
])  # fmt: skip
def test_an_address_is_read_as_it_is_typed(typed: str, address: str) -> None:
    assert address_of(typed) == address


@every("typed", [
    "http://team.example.com", "http://127.0.0.1.example.com", "http://192.168.1.5:80", "ftp://x", "file:///x", "",
    "https://", "https://me:secret@x", "https://x?token=1", "https://x#y", "https://x:99999", "https://[x",
    "http://localhost@evil.example",
])  # fmt: skip
def test_an_address_to_which_a_token_may_not_go_is_refused(typed: str) -> None:
    with pytest.raises(ServerAddressWrong):
        address_of(typed)


def test_a_login_is_private_and_replaces_the_one_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    keep(home, LOGIN)
    keep(home, Account(address="https://y", token="t", organisation="o", name="n", role="reader"))
    assert account(home).address == "https://y"
    assert [(each.name, each.stat().st_mode & 0o777) for each in home.iterdir()] == [(ACCOUNT, 0o600)]


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"address": 1}'])
def test_without_a_login_a_person_is_told_to_log_in(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / ACCOUNT).write_bytes(content)
    with pytest.raises(NotLoggedIn, match="backstory login"):
        account(tmp_path)


def test_a_login_is_forgotten_twice_without_harm(tmp_path: Path) -> None:
    keep(tmp_path, LOGIN)
    forget(tmp_path)
    forget(tmp_path)
    assert list(tmp_path.iterdir()) == []
