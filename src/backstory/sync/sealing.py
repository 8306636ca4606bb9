"""Bytes in a folder that others may see: sealed in pieces by AES-256-GCM, with a key that scrypt makes of a passphrase.

Each file has a key of its own, made of the folder's key and of random bytes in its head, so that the number of a piece
is a nonce that no other piece has. A piece is sealed with its number, and the last one as the last.
"""

from __future__ import annotations

import io
import secrets
import unicodedata
from itertools import chain, pairwise
from typing import IO, TYPE_CHECKING

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Struct

from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORM = "backstory-sealed-1"
"""The name of this form of sealing; it is sealed along with each piece."""
COST, BLOCK, LANES = 2**16, 8, 1
"""The cost of a passphrase, and of each guess at it, as scrypt has it: 64 MB, and some tenths of a second."""
COST_MAX = 2**18
"""A foreign key file may ask for no more: 256 MB."""
SALT_BYTES, KEY_BYTES, NONCE_BYTES, TAG_BYTES = 16, 32, 12, 16
PIECE_BYTES = 1024 * 1024
CHECK = b"backstory"


class SealDamaged(ValueError):
    """Bytes that no such file has, or that were sealed with another key."""


class FolderKeyFile(Struct, frozen=True, kw_only=True):
    """The file that says how a passphrase becomes a key. ``check``: a known word, sealed: it tells a wrong one."""

    form: str
    salt: bytes
    cost: int
    check: bytes


def new_key_file(passphrase: str) -> tuple[FolderKeyFile, bytes]:
    """Return such a file, and the key."""
    salt = secrets.token_bytes(SALT_BYTES)
    key = _key(passphrase, salt, COST)
    check = AESGCM(_file_key(key, salt)).encrypt(bytes(NONCE_BYTES), CHECK, FORM.encode())
    return FolderKeyFile(form=FORM, salt=salt, cost=COST, check=check), key


def key_of(file: FolderKeyFile, passphrase: str) -> bytes | None:
    """Return the key; None for another passphrase. Raises SealDamaged for a file that is none of ours."""
    is_power = file.cost > 1 and not file.cost & (file.cost - 1)
    if file.form != FORM or len(file.salt) != SALT_BYTES or not is_power or file.cost > COST_MAX:
        raise SealDamaged("it is no key file of backstory, or one of a later version")
    key = _key(passphrase, file.salt, file.cost)
    try:
        found = AESGCM(_file_key(key, file.salt)).decrypt(bytes(NONCE_BYTES), file.check, FORM.encode())
    except InvalidTag:
        return None
    return key if found == CHECK else None


def key_file_of(data: bytes) -> FolderKeyFile:
    """Read the bytes of such a file. Raises SealDamaged."""
    try:
        return msgspec.json.decode(data, type=FolderKeyFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as refused:
        raise SealDamaged(str(refused)) from refused


def sealed(pieces: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    """Yield the bytes of a sealed file, of pieces of at most ``PIECE_BYTES``."""
    salt = secrets.token_bytes(SALT_BYTES)
    yield encoded({"form": FORM, "salt": salt}) + b"\n"
    cipher = AESGCM(_file_key(key, salt))
    for number, (piece, behind) in enumerate(pairwise(chain[bytes | None](pieces, [None]))):
        made = cipher.encrypt(number.to_bytes(NONCE_BYTES, "big"), piece or b"", _about(number, is_last=behind is None))
        yield len(made).to_bytes(4, "big") + made


def opened(file: IO[bytes], key: bytes) -> Iterator[bytes]:
    """Yield the pieces of a sealed file. Raises SealDamaged, also where it ends too early or goes on."""
    try:
        head = msgspec.json.decode(file.readline(1_000))
        salt = msgspec.convert(head["salt"], bytes) if head["form"] == FORM else b""
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as refused:
        raise SealDamaged("its first line is none of a sealed file") from refused
    if len(salt) != SALT_BYTES:
        raise SealDamaged("its first line is none of a sealed file")
    cipher, number = AESGCM(_file_key(key, salt)), 0
    made = _piece(file)
    while made is not None:
        behind = _piece(file)
        about = _about(number, is_last=behind is None)
        try:
            yield cipher.decrypt(number.to_bytes(NONCE_BYTES, "big"), made, about)
        except InvalidTag as refused:
            raise SealDamaged("it was changed, or is not whole") from refused
        made, number = behind, number + 1
    if not number:
        raise SealDamaged("it is not whole")


def _piece(file: IO[bytes]) -> bytes | None:
    """The next piece, still sealed; None at the end."""
    said = file.read(4)
    if not said:
        return None
    size = int.from_bytes(said, "big")
    made = file.read(size) if TAG_BYTES <= size <= PIECE_BYTES + TAG_BYTES else b""
    if len(made) != size or len(said) < 4:
        raise SealDamaged("it is not whole")
    return made


def _about(number: int, *, is_last: bool) -> bytes:
    return f"{FORM} {number} {'last' if is_last else 'more'}".encode()


def _key(passphrase: str, salt: bytes, cost: int) -> bytes:
    # The same letters are the same passphrase, however they are composed.
    letters = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    return Scrypt(salt=salt, length=KEY_BYTES, n=cost, r=BLOCK, p=LANES).derive(letters)


def _file_key(key: bytes, salt: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=FORM.encode()).derive(key)


class OpenedFile(io.RawIOBase):
    """The content of a sealed file as a stream. Reading raises SealDamaged."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of ``into``."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(into), len(self._rest))
        into[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
