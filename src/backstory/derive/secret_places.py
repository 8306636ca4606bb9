"""Secrets that their place tells: in a URL, header, cookie, command, file of logins, element of XML. Pure."""

from __future__ import annotations

import binascii
import re
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.derive.secret_kinds import FoundSecret, bits, is_mixed
from backstory.derive.secret_names import CODE, PLACEHOLDER, is_secret
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SecretPlace(Struct, frozen=True):
    """A place: ``shape`` begins at one of ``signs`` (in small letters), and its first group is the secret."""

    name: str
    signs: tuple[str, ...]
    shape: re.Pattern[str]
    holds: Callable[[str], bool] = bool
    """True if the group is a secret; placeholders never are."""
    follows: re.Pattern[str] | None = None
    """Letters that follow a sign in its word; None: not known of all."""


def _any(value: str) -> bool:
    return not CODE.fullmatch(value)


def _number_or_code(value: str) -> bool:
    return not value.isdigit() and not CODE.fullmatch(value)


def _random(value: str) -> bool:
    """Tell a random text, with letters and digits, from a word, a version or the name of a host."""
    return is_mixed(value) and bits(value) >= 3 and not CODE.fullmatch(value)


def _header(value: str) -> bool:
    return (any(map(str.isdigit, value)) or bits(value) >= 4) and not CODE.fullmatch(value)


def _login_in_base64(value: str) -> bool:
    """Tell the base64 of a name, a colon and a password, or of a file of logins."""
    try:
        whole = binascii.a2b_base64(value + "=" * (-len(value) % 4))
    except binascii.Error:
        return False
    return b":" in whole and whole.isascii()


def _believed(value: str) -> bool:
    return is_secret("password", value, quoted=True)


_QUOTE = r"""\\*+["']?"""
_IS = rf"{_QUOTE}[ \t]*+[:=,][ \t]*+{_QUOTE}"
_WORDS = r"""(?:[ \t]+(?!-{})[^\s|;&"'`\\]{{1,60}}){{0,10}}+[ \t]+-{}"""
"""Words of a command up to one of its options."""
_QUOTED = lazy_regex(r"""\\*["']""")
PLACES = (
    SecretPlace("connection-password", ("://",), lazy_regex(r"""://[^\s/:@"'<>\\]{0,100}:([^\s/@"'<>\\]{3,200})@[\w\[]""")),
    SecretPlace("url-token", ("://",), lazy_regex(r"""://([^\s/:@"'<>\\%]{16,200})(?::[^\s/@"'<>\\]{0,200})?@[\w\[]"""),
        _random),
    SecretPlace("connection-password", ("%3a%2f%2f",), lazy_regex(
        r"""%3A%2F%2F[^\s/:@"'<>%\\]{0,100}%3A([^\s/:@"'<>\\]{3,200}?)%40[\w\[]""", re.IGNORECASE)),
    SecretPlace("url-token", ("%3a%2f%2f",), lazy_regex(r"%3A%2F%2F([A-Za-z0-9_.~-]{16,200})%40[\w\[]", re.IGNORECASE),
        _random),
    SecretPlace("authorization", ("authorization",), lazy_regex(
        rf"""authorization{_IS}(?:(?:bearer|token|apikey|negotiate|bot|key|aws4-hmac-sha256)[ \t]++)?"""
        r"""([A-Za-z0-9][A-Za-z0-9+/=._~-]{7,})""", re.IGNORECASE), _header),
    SecretPlace("authorization", ("bearer",), lazy_regex(
        r"bearer(?:[ \t]+|%20|\+)([A-Za-z0-9][A-Za-z0-9+/=._~-]{15,})", re.IGNORECASE), _header),
    SecretPlace("authorization", ("authorization",), lazy_regex(
        rf"authorization{_IS}basic[ \t]++((?:[A-Za-z0-9+/]{{4}}){{2,}}[A-Za-z0-9+/=]{{0,4}})", re.IGNORECASE)),
    SecretPlace("password", ("-u", "--user"), lazy_regex(
        r"""(?:-u|--user)(?:[ =]|["'],[ \t\n]*)\\*["']?[\w.@+-]+:([^\s"'\\:]{4,})"""),
        lambda value: not value.isdigit()),
    SecretPlace("secret", ("key=", "sig=", "signature=", "code=", "auth=", "hmac="), lazy_regex(
        r"""(?<=[?&;-])(?:key|sig|signature|code|auth|hmac)=([A-Za-z0-9+/=_.~%-]{16,300})""", re.IGNORECASE), _random),
    SecretPlace("secret", ("auth-key", "functions-key", "subscription-key"), lazy_regex(
        rf"""(?:auth|functions|subscription)-key{_IS}([A-Za-z0-9+/=_.~-]{{16,300}})""", re.IGNORECASE), _random),
    SecretPlace("webhook", ("/trigger/",), lazy_regex(r"/trigger/[\w-]{1,80}/with/key/([A-Za-z0-9_-]{16,80})")),
    SecretPlace("password", ("login ", "login\t"), lazy_regex(
        r"""login[ \t]+[^\s"'\\]{1,100}(?:[ \t]+|[ \t]*\n[ \t]*)password[ \t]+([^\s"'`\\]{3,200})"""), _number_or_code),
    SecretPlace("password", (":543", ":6432:", ":*:"), lazy_regex(
        r""":(?:543[0-9]|6432|\*):[^\s:"'/\\]{1,63}:[^\s:"'/\\]{1,63}:([^\s"'`\\:,)]{6,200})"""), _any),
    SecretPlace("secret", ("_auth", "_password"), lazy_regex(
        r"""(?<![A-Za-z0-9])_(?:auth|password)[ \t]*=[ \t]*\\*"?([A-Za-z0-9+/]{8,400}={0,2})"""), _login_in_base64),
    SecretPlace("secret", ("auth",), lazy_regex(
        r"""auth\\*["'][ \t]*:[ \t]*\\*["']([A-Za-z0-9+/]{8,2000}={0,2})(?=\\*["'])"""), _login_in_base64,
        _QUOTED),
    SecretPlace("secret", ("dockerconfigjson", ".dockercfg"), lazy_regex(
        r"""docker(?:configjson|cfg)\\*["']?[ \t]*[:=][ \t]*\\*["']?([A-Za-z0-9+/]{20,8000}={0,2})""")),
    SecretPlace("password", ("mysql", "mariadb"), lazy_regex(
        r"""(?:mysql|mariadb)(?:dump|admin|check|import|-dump)?"""
        rf"""{_WORDS.format("p", "p")}['"]?([^\s"'`\\|;&]{{4,200}})"""),
        _number_or_code),
    SecretPlace("password", ("sshpass",), lazy_regex(r"""sshpass[ \t]+-p[ \t]*\\*['"]?([^\s"'`\\|;]{4,200})"""), _any),
    SecretPlace("password", (" login",), lazy_regex(
        rf"""[ ]login{_WORDS.format("p", "p")}[ \t=]+\\*['"]?([^\s"'`\\|;]{{6,200}})"""), _number_or_code),
    SecretPlace("password", ("redis-cli",), lazy_regex(
        rf"""redis-cli{_WORDS.format("a", "a")}[ \t]+\\*['"]?([^\s"'`\\|;]{{6,200}})"""), _any),
    SecretPlace("password", ("ldap",), lazy_regex(
        rf"""ldap[a-z]{{3,8}}{_WORDS.format("w", "w")}[ \t]*\\*['"]?([^\s"'`\\|;]{{6,200}})"""), _any),
    SecretPlace("password", ("-passin", "-passout", "-pass "), lazy_regex(
        r"""-pass(?:in|out)?[ \t]+\\*["']?pass:([^\s"'`\\|;]{4,200})""")),
    SecretPlace("password", (
        "password>", "passwd>", "passphrase>", "secret>", "token>", "apikey>", "api_key>", "api-key>", "accesskey>",
        "access_key>", "secretkey>", "privatekey>", "accountkey>"), lazy_regex(
        r"""(?:passw(?:or)?d|passphrase|secret|token|(?:api|access|private|secret|account)[_-]?key)>[ \t]*"""
        r"""([^<\s"'\\]{6,400})[ \t]*</""", re.IGNORECASE), _believed),
    SecretPlace("password", ("password", "secret", "token", "apikey"), lazy_regex(
        r"""(?:password|secret|token|apikey)\\*["'][ \t]+value=\\*["']([^\s"'\\<]{6,400})""", re.IGNORECASE),
        _believed, _QUOTED),
    SecretPlace("password", ("password is", "password was", "passphrase is", "passwort ist"), lazy_regex(
        r"""(?:password|passphrase|passwort)[ ](?:is|was|ist)[ ]['"`]?((?=[^\s"'`\\]*[0-9])(?=[^\s"'`\\]*[A-Za-z])"""
        r"""[^\s"'`\\,;]{5,200}[^\s"'`\\,;.:!?)])""", re.IGNORECASE), _any),
    SecretPlace("mnemonic", ("mnemonic", "phrase"), lazy_regex(
        r"""(?:mnemonic|phrase)\W{1,6}((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z ])""", re.IGNORECASE)),
)  # fmt: skip
COOKIES = len(PLACES)
"""The number of the place behind the others."""
_COOKIES = lazy_regex(rf"""cookie{_IS}([^\n"'\\\x1b]{{16,8000}})""", re.IGNORECASE)
_COOKIE = lazy_regex(r"""[\w.-]{1,80}=\\?"?([^;\s"'\\,\x1b]{16,4000})""")


def placed_in(text: str, lowered: str, wanted: int = -1) -> Iterator[FoundSecret]:
    """The secrets that their place tells. ``lowered``: the text in small letters. ``wanted``: bits, a place each."""
    for number, place in enumerate(PLACES):
        for sign in place.signs if wanted >> number & 1 else ():
            if sign in lowered:
                yield from _at_signs(text, lowered, sign, place)
    if wanted >> COOKIES & 1 and "cookie" in lowered:
        yield from _cookies_in(text)


def signs_in(words: str, lowered: str) -> Iterator[tuple[int, int]]:
    """The places of words that may tell a secret, each with a place's number. ``lowered``: the words in small letters.

    Where the sign and the secret stand in one word, only a word with both.
    """
    for sign, numbers in _signs().items():
        at = lowered.find(sign)
        while at >= 0:
            for number in numbers:
                if number == COOKIES or _may_be_placed(words, at, at + len(sign), number):
                    yield at, number
            at = lowered.find(sign, at + len(sign))


def _may_be_placed(words: str, at: int, end: int, number: int) -> bool:
    follows = PLACES[number].follows
    if follows is not None and follows.match(words, end) is None:
        return False
    return _has_blanks(number) or _is_placed(words, at, PLACES[number])


@cache
def _signs() -> dict[str, list[int]]:
    """The signs as far as one word has them, with the numbers of their places."""
    signs: dict[str, list[int]] = {"cookie": [COOKIES]}
    for number, place in enumerate(PLACES):
        for sign in place.signs:
            signs.setdefault(sign.split()[0], []).append(number)
    return signs


@cache
def _has_blanks(number: int) -> bool:
    """Return True if words may stand between the sign of a place and its secret."""
    return any(sign in PLACES[number].shape.pattern for sign in ("[ ", r"\t", " ", r"\W", _IS))


def _is_placed(text: str, at: int, place: SecretPlace) -> bool:
    found = place.shape.match(text, at)
    return found is not None and not PLACEHOLDER.fullmatch(found.group(1)) and place.holds(found.group(1))


def _at_signs(text: str, lowered: str, sign: str, place: SecretPlace) -> Iterator[FoundSecret]:
    at = lowered.find(sign)
    while at >= 0:
        found = place.shape.match(text, at)
        secret = found.group(1) if found is not None else ""
        if found is not None and not PLACEHOLDER.fullmatch(secret) and place.holds(secret):
            yield FoundSecret(place.name, found.start(1), found.end(1), secret)
        # Inside a value none is looked for: a chain of signs would be read again from each of them.
        at = lowered.find(sign, found.end(1) if found is not None else at + len(sign))


def _cookies_in(text: str) -> Iterator[FoundSecret]:
    """The long random values of cookies, in a line that gives or sets them."""
    for jar in _COOKIES.finditer(text):
        for cookie in _COOKIE.finditer(text, jar.start(1), jar.end(1)):
            secret = cookie.group(1)
            if _random(secret) and not PLACEHOLDER.fullmatch(secret):
                yield FoundSecret("cookie", cookie.start(1), cookie.end(1), secret)
