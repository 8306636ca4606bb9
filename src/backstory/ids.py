"""Identity: ULIDs, and the uids that are the same on every machine because they come from content.

A uid is 26 characters of Crockford's base 32: 10 of time (48 bits, ms since 1970), 16 of identity (80 bits).
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from backstory import bounds
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from hashlib import sha256
else:
    # What is hashed here is short, and OpenSSL, which is in hashlib, takes longer to begin. ``random`` does the same.
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
UID_LENGTH = 26
IDENTITY_LENGTH = 16
"""The last characters of a session uid: its 80 bits of identity. Two uids that share them are one session."""
UID_SHOWN_MIN = 8
LABEL_LENGTH = 12
"""The letters of a uid that are shown of a session without a number."""
RECORD_KEY_BYTES = 8
WRITTEN_NAMESPACE = bytes.fromhex("8d74af3b28b44dfca28c5bd00b0517b6")
"""The namespace of the UUIDs (version 5) that are given to the logs we write for agents, and to turns in them."""
UUID_LENGTH = 36
HEAD_BYTES = 64 * 1024
"""Number of bytes of a log that are searched for its first timestamp."""

_VALUES = {letter: value for value, letter in enumerate(ALPHABET)} | {"O": 0, "I": 1, "L": 1}
_TIMESTAMP = lazy_regex(rb'"timestamp"\s*:\s*"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d))"')
_TOKEN = lazy_regex(rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"?|[][{}\n]')
_UUID = lazy_regex("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MINUTE = lazy_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:")
_LIKE_A_TIME = lazy_regex(r"[+-]?\d{4,}-\d\d-\d\d[Tt ]")
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def encode(number: int, length: int = UID_LENGTH) -> str:
    """Write ``number`` in base 32, zero-padded to ``length`` characters."""
    pairs = []
    for _ in range(0, length, 2):
        number, value = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[value])
    # Of an odd length the first letter is one too many.
    return "".join(reversed(pairs))[-length:]


def decode(text: str) -> int:
    """The number that ``text`` writes in base 32; raises ValueError for a letter outside the alphabet."""
    number = 0
    for letter in text.upper():
        if letter not in _VALUES:
            raise ValueError(f"{letter!r} is not a letter of Crockford's base 32")
        number = number * 32 + _VALUES[letter]
    return number


def new_uid(now_ms: int, randomness: bytes) -> str:
    """A fresh ULID from a time (ms since 1970, UTC) and 10 random bytes."""
    return encode((now_ms << 80) | int.from_bytes(randomness[:10], "big"))


def record_key(native_id: str) -> bytes:
    """By what a record is known again by its agent's own id: 8 bytes, the random end of a UUID, of others a hash.

    >>> record_key("8f0c0b0e-3a3f-4a43-9d5b-5f7f7e1c2a10").hex()
    '9d5b5f7f7e1c2a10'
    """
    try:
        key = bytes.fromhex(native_id[-17:].replace("-", ""))
    except ValueError:
        key = b""
    return (
        key
        if len(key) == RECORD_KEY_BYTES
        else sha256(native_id.encode("utf-8", "surrogatepass")).digest()[:RECORD_KEY_BYTES]
    )


def session_uid(agent: str, native_id: str, created_ms: int) -> str:
    """The uid of a session read from a log: its time, and 80 bits of SHA-256 over agent NUL native id."""
    identity = int.from_bytes(_digest(agent, native_id)[:10], "big")
    return encode((max(created_ms, 0) << 80) | identity)


def session_identity(uid: str) -> str:
    """The part of a session uid that decides whether two uids are one session."""
    return uid[-IDENTITY_LENGTH:]


def turn_uid(agent: str, native_id: str) -> str:
    """The uid of a turn read from a log: 128 bits of SHA-256 over agent NUL the turn's own id.

    An id that may be one of a log that we wrote is the same turn's in the logs of every agent.
    """
    return encode(int.from_bytes(_digest("" if may_be_written(native_id) else agent, native_id)[:16], "big"))


def path_hash(path: str) -> int:
    """A number of 47 bits to find a path by: the whole of it counts, however alike paths begin or end."""
    return int.from_bytes(sha256(path.encode("utf-8", "surrogatepass")).digest()[:6], "big") >> 1


def written_turn_id(turn_uid: str) -> str:
    """The id that a turn is given in every log we write for an agent: a UUID (version 5) of the turn's uid.

    >>> written_turn_id("01JZZZZZZZZZZZZZZZZZZZZZZZ")
    '9b529a41-7098-5c61-b17a-478bc02dc39f'
    """
    return _uuid5(turn_uid)


def written_log_id(session_uid: str, last_turn_uid: str, agent: str) -> str:
    """The id of a log that we write for an agent: a UUID (version 5) of the session, its last turn there and the agent.

    Of the session's uid its identity counts, for its time may be replaced.
    """
    return _uuid5(f"{session_identity(session_uid)} {last_turn_uid} {agent}")


def may_be_written(native_id: str) -> bool:
    """Return True if an id is a UUID of version 5, as those of logs that we wrote are; agents make others."""
    # Most are known by one letter.
    return native_id[14:15] == "5" and len(native_id) == UUID_LENGTH and _UUID.fullmatch(native_id) is not None


def first_timestamp_ms(head: bytes) -> int:
    """The first RFC 3339 ``"timestamp"`` in a log's first 64 KB, in ms since 1970; 0 when there is none.

    One that no clock of an agent has shown, such as of the year 10000, is passed over.
    """
    times = (parse_time_ms(found.group(1).decode()) for found in _TIMESTAMP.finditer(head, 0, HEAD_BYTES))
    return next((at for at in times if at is not None), 0)


def first_own_time_ms(head: bytes) -> int:
    """The first time in a log's first 64 KB that a record gives as its own, in ms since 1970; 0 when there is none.

    One deeper within a record, such as that of a snapshot which it holds, may be later than what was said before it.
    """
    depth = 0
    for token in _TOKEN.finditer(head, 0, HEAD_BYTES):
        match token.group():
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
            case b"\n":
                # A record that is torn does not reach into the next line.
                depth = 0
            case b'"timestamp"' if depth == 1:
                found = _TIMESTAMP.match(head, token.start(), HEAD_BYTES)
                if found and (at := parse_time_ms(found.group(1).decode())) is not None:
                    return at
    return 0


def time_of(uid: str) -> int:
    """The time that a uid holds, in ms since 1970."""
    return decode(uid[: UID_LENGTH - IDENTITY_LENGTH])


def parse_time_ms(text: str | int | float | None) -> int | None:
    """Milliseconds since 1970 from RFC 3339 text, epoch seconds (below 1e11) or epoch milliseconds; else None.

    A time before 1970 or after 9999 (UTC) is none.

    >>> parse_time_ms("1970-01-01T00:00:01.5Z"), parse_time_ms(2), parse_time_ms("soon")
    (1500, 2000, None)
    """
    if text is None or isinstance(text, bool):
        return None
    if not isinstance(text, str):
        if not abs(text) <= 1e15:
            return None
        seconds = float(text)
        return bounds.time_ms(round(seconds if abs(seconds) >= 1e11 else seconds * 1000))
    # Nearly every record has its time in this form, and the minute of the one before.
    if len(text) == 24 and text[19::4] == ".Z" and text.isascii() and (digits := text[17:19] + text[20:23]).isdecimal():
        minute_ms, in_minute_ms = _minute_ms(text[:17]), int(digits)
        if minute_ms is not None and in_minute_ms < 60_000:
            return bounds.time_ms(minute_ms + in_minute_ms)
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    try:
        return bounds.time_ms(round(moment.timestamp() * 1000))
    except (OverflowError, ValueError):
        return None


@lru_cache(maxsize=1024)
def _minute_ms(beginning: str) -> int | None:
    """Milliseconds since 1970 up to a minute, by the beginning of a time in UTC; None where that is none."""
    if not _MINUTE.fullmatch(beginning):
        return None
    try:
        return round(datetime.fromisoformat(f"{beginning}00+00:00").timestamp()) * 1000
    except ValueError:
        return None


def is_out_of_range(value: object) -> bool:
    """Return True if a text that ``parse_time_ms`` cannot parse is a time all the same, or a number in its place."""
    if isinstance(value, str):
        if not _LIKE_A_TIME.match(value):
            return False
        try:
            return datetime.fromisoformat(value.upper()).tzinfo is not None
        except ValueError:
            return True
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(uid: str, others: int = UID_SHOWN_MIN) -> str:
    """The start of a uid that is enough to name it."""
    return uid[: max(UID_SHOWN_MIN, others)]


def _uuid5(name: str) -> str:
    """A UUID of version 5 in ``WRITTEN_NAMESPACE``, as RFC 9562 says; ``uuid`` is slow to import."""
    from hashlib import sha1  # only logs that we write need it

    number = int.from_bytes(sha1(WRITTEN_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16], "big")
    number = number & ~(0xF000 << 64) & ~(0xC000 << 48) | 5 << 76 | 1 << 63
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _digest(agent: str, native_id: str) -> bytes:
    return sha256(f"{agent}\0{native_id}".encode("utf-8", "surrogatepass")).digest()


def session_keys(uid: str, label: str | None = None) -> dict[str, Any]:
    """Return the keys by which all JSON names a session. ``label``: a command takes it; None: the start of ``uid``."""
    return {"uid": uid, "label": label or uid[:LABEL_LENGTH]}
