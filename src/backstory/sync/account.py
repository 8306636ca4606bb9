"""The team server that a machine is logged in to: its address and a token, in a private file of the home."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from backstory.errors import CannotWrite, NotLoggedIn, ServerAddressWrong
from backstory.store.private import make_private_folder, write_private
from backstory.sync.notes import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNT, JOINING = "server.json", "server.joining"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Account(Struct, frozen=True, kw_only=True):
    """A login. ``token`` is a secret: it is sent to ``address`` alone, and printed nowhere.

    ``was_asked``: a reindex offered to send, and was answered.
    """

    address: str
    token: str
    organisation: str
    name: str
    role: str
    was_asked: bool = False


def address_of(typed: str) -> str:
    """A server's address as it was typed. Raises ServerAddressWrong where a token would travel unencrypted."""
    text = typed.strip()
    try:
        found = urlsplit(text if "://" in text else f"https://{text}")
        host, port = found.hostname, found.port
    except ValueError as refused:
        raise ServerAddressWrong(typed, str(refused)) from refused
    if found.scheme not in ("http", "https") or not host or found.query or found.fragment or found.username:
        raise ServerAddressWrong(typed, "it is https://HOST or https://HOST:PORT")
    if found.scheme == "http" and host not in LOOPBACK:
        raise ServerAddressWrong(typed, "what is sent to another machine has to be encrypted: https://")
    named = f"[{host}]" if ":" in host else host
    return f"{found.scheme}://{named}{f':{port}' if port else ''}{found.path.rstrip('/')}"


def path_of(home: Path) -> Path:
    """The file with the login of this home."""
    return home / ACCOUNT


def account(home: Path) -> Account:
    """Return the login of this home. Raises NotLoggedIn."""
    try:
        return msgspec.json.decode((home / ACCOUNT).read_bytes(), type=Account)
    except (OSError, msgspec.MsgspecError) as refused:
        raise NotLoggedIn from refused


def is_kept(home: Path) -> bool:
    """Return True if this home has a login, which may be a broken one."""
    return (home / ACCOUNT).exists()


def keep(home: Path, login: Account) -> None:
    """Keep a login, in place of one before. Raises CannotWrite."""
    path, unfinished = home / ACCOUNT, home / f"{ACCOUNT}.{os.getpid()}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            unfinished.unlink()
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(login))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        with suppress(FileNotFoundError):
            (home / JOINING).unlink()
    except OSError as refused:
        raise CannotWrite(path, refused.strerror or str(refused)) from refused


def secret_to_join(home: Path, code: str) -> str:
    """A secret by which this machine may come in with a code again, when the answer was lost. Raises CannotWrite."""
    path, of = home / JOINING, hashlib.sha256(code.encode()).hexdigest()
    try:
        kept = path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError):
        kept = []
    if len(kept) == 2 and kept[0] == of:
        return kept[1]
    secret = new_secret()
    make_private_folder(home)
    with suppress(FileNotFoundError):
        path.unlink()
    write_private(path, f"{of} {secret}\n".encode(), sync=True)
    return secret


def new_secret() -> str:
    """A secret that becomes part of a token."""
    return secrets.token_urlsafe(32)


def notes_of(home: Path, login: Account) -> Path:
    """The file of the notes on what this server confirmed of this person."""
    return home / FOLDER / f"server-{key_of(login)}.jsonl"


def key_of(login: Account) -> str:
    """The name of this person at this server, for files."""
    return hashlib.sha256(f"{login.address} {login.organisation} {login.name}".encode()).hexdigest()[:24]


def forget(home: Path) -> None:
    """Forget the login of this home."""
    with suppress(FileNotFoundError):
        (home / ACCOUNT).unlink()
