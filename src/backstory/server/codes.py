"""Codes that let people and machines in: made here, kept as hashes, and shown once. Pure but for chance.

A token is ``bks_TENANT-ID_SECRET``, an invitation ``bki_TENANT_SECRET``. The tenant in it says where the hash is kept;
it is a number by chance and tells nothing.
"""

from __future__ import annotations

import hashlib
import secrets

from msgspec import Struct

from backstory.lazy import lazy_regex

TENANT_BITS = 48
_ID_BYTES, _SECRET_BYTES = 8, 32
_TOKEN = lazy_regex(r"bks_([0-9a-f]{1,12})-([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_INVITE = lazy_regex(r"bki_([0-9a-f]{1,12})_([A-Za-z0-9_-]{43})")
_SECRET = lazy_regex(r"[A-Za-z0-9_-]{43}")
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters that are hard to confuse, and make no words."""
_TYPED_CHARS = 8


class LoginToken(Struct, frozen=True):
    """A token in its parts. ``secret`` is what only its owner has."""

    tenant: int
    id: str
    secret: str

    def __str__(self) -> str:
        return f"bks_{self.tenant:x}-{self.id}_{self.secret}"


class Invite(Struct, frozen=True):
    """An invitation in its parts."""

    tenant: int
    secret: str

    def __str__(self) -> str:
        return f"bki_{self.tenant:x}_{self.secret}"


def new_tenant() -> int:
    """Return the number of a new organisation: by chance, so that it tells of no other."""
    return secrets.randbits(TENANT_BITS) or 1


def new_token(tenant: int) -> LoginToken:
    """Return a token that nobody has."""
    return LoginToken(tenant, secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def token_with(tenant: int, secret: str) -> LoginToken | None:
    """The token of a secret that a machine chose: the same each time that it asks; None for what is no secret."""
    if _SECRET.fullmatch(secret) is None:
        return None
    return LoginToken(tenant, hashlib.sha256(f"id {secret}".encode()).hexdigest()[: 2 * _ID_BYTES], secret)


def new_invite(tenant: int) -> Invite:
    """Return an invitation that nobody has."""
    return Invite(tenant, secrets.token_urlsafe(_SECRET_BYTES))


def new_secret() -> str:
    """Return a secret by which a machine that waits asks again."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def new_typed_code() -> str:
    """Return a code that a person can read on one machine and type on another: ``BCDF-GHJK``."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_TYPED_CHARS))
    return f"{letters[:4]}-{letters[4:]}"


def typed_code(text: str) -> str:
    """The code that a person typed, in any form."""
    letters = "".join(each for each in text.upper() if each.isalpha())
    return f"{letters[:4]}-{letters[4:]}"


def token_of(text: str) -> LoginToken | None:
    """Read a token; None if it is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else LoginToken(int(found[1], 16), found[2], found[3])


def invite_of(text: str) -> Invite | None:
    """Read an invitation; None if it is none."""
    found = _INVITE.fullmatch(text.strip())
    return None if found is None else Invite(int(found[1], 16), found[2])


def hashed(secret: str) -> bytes:
    """Return what is kept of a secret. It is long and by chance, so a plain hash cannot be turned back."""
    return hashlib.sha256(secret.encode()).digest()


def is_secret_of(secret: str, kept: bytes) -> bool:
    """Return True if ``kept`` is the hash of this secret; it takes as long whatever is wrong."""
    return secrets.compare_digest(hashed(secret), kept)
