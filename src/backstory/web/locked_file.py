"""A session as an HTML file that opens only with a password, in the browser, without a request.

In clear are the form, the style, the scripts, and how the key is made. Everything of the session is in sealed pieces:
each is compressed and encrypted by AES-256-GCM with a key that PBKDF2 makes of the password and a salt of this file.
A piece is sealed with its number, and the last one as the last, so that none can be changed, moved or left out.
"""

from __future__ import annotations

import gzip
import secrets
import unicodedata
from base64 import b64encode
from hashlib import pbkdf2_hmac
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from backstory.web.drawing import environment
from backstory.web.session_file import FileLinks, joined, session_page

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from backstory.model import Event
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.shared_reader import SharedReader

ROUNDS = 1_000_000
"""The rounds of PBKDF2-SHA256, which each guess costs, too."""
SALT_BYTES, KEY_BYTES, NONCE_BYTES = 16, 32, 12
FORM = "backstory-html-1"
"""The name of this form of sealing; it is sealed along with each piece."""
LOCK_SCRIPTS = ("lock.js",)


def locked_file(
    reader: SharedReader, located: LocatedSession, now: int, password: str, *, beside: Collection[str] = (),
    see: Callable[[Event], None] = lambda event: None,
) -> Iterator[str]:  # fmt: skip
    """The text of the file. For ``beside`` and ``see`` look at ``session_file``."""
    links = FileLinks(reader, located, beside, layout="sealed.html")
    lock, salt = joined(LOCK_SCRIPTS), secrets.token_bytes(SALT_BYTES)
    pieces = sealed(session_page(links, reader, located, now, see), password, salt)
    template = environment(links).get_template("locked.html")
    return template.generate(
        pieces=pieces, lock=lock, policy=links.policy_with(lock), form=FORM, rounds=ROUNDS,
        salt=b64encode(salt).decode(),
    )  # fmt: skip


def sealed(pieces: Iterable[str], password: str, salt: bytes) -> Iterator[str]:
    """Each piece of a text, sealed, as base64."""
    cipher = AESGCM(key_of(password, salt))
    marked = pairwise(chain[str | None](pieces, [None]))
    for number, (piece, behind) in enumerate(marked):
        # The key is of this file alone, so the number of a piece is a nonce that no other piece has.
        nonce = number.to_bytes(NONCE_BYTES, "big")
        about = f"{FORM} {number} {'last' if behind is None else 'more'}"
        packed = gzip.compress((piece or "").encode("utf-8", "replace"), mtime=0)
        yield b64encode(cipher.encrypt(nonce, packed, about.encode())).decode()


def key_of(password: str, salt: bytes) -> bytes:
    """The key that a password has with a salt; the same letters are the same password, however they are composed."""
    letters = unicodedata.normalize("NFC", password).encode()
    return pbkdf2_hmac("sha256", letters, salt, ROUNDS, KEY_BYTES)
