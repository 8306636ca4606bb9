"""Secrets that a name before them tells: ``password=``, ``DB_PASS=``, ``{"apiKey": …}``. Pure.

A name in capitals with a secret's word in it (``PGPASSWORD``, ``GITHUB_TOKEN``) and ``password=`` without a space are
believed: every value of six letters or more is one that is no variable, path or placeholder. Behind other names, and
in prose, a value also has to look like a secret.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import TYPE_CHECKING

from backstory.derive.secret_kinds import FoundSecret, bits, is_mixed
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED_CHARS_MIN, NAMED_CHARS_MAX = 6, 4_096
"""A shorter or longer value is no secret that a name tells."""
NAMES_MAX = 2_000
"""Names whose kind is remembered: most values have one of few."""
PHRASE_CHARS_MAX = 100
CALL_CHARS = 400
"""Within so many letters the bracket of a call is looked for."""

_STEMS = ("passw", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "accesskey", "access_key",
          "access-key", "private_key", "privatekey", "accountkey", "credential", "_pass")  # fmt: skip
_PASSWORDS = ("passw", "passphrase", "pwd", "_pass")
NAME = lazy_regex(
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret(?:[_-]?access)?(?:[_-]?key)?|token|"
    r"(?:shared)?access[_-]?key|account[_-]?key|api[_-]?key|private[_-]?key|credentials?|"
    r"(?<=user|dmin|root|smtp|mail|come|sudo|ysql|edis|ongo|ldap|auth|ogin|imap|tore)_pass|"
    r"(?<=ftp|ssh|app|key|vpn)_pass|(?<=db|pg)_pass)[0-9]?(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
"""The end of a name that says that its value is a secret."""
_NAME_LETTERS = string.ascii_letters + string.digits + "_.-"
_NO_SECRETS = lazy_regex(
    r"(?:next|page|paging|cursor|continuation|sync|resume|csrf|xsrf|max|min|eos|bos|pad|stop|start|special|unk|mask|sep|"
    r"cls|public|lookup|challenge|idempotency)[_.-]?(?:page)?[_.-]?\Z", re.IGNORECASE,
)  # fmt: skip
"""A beginning of a name that says the opposite, such as ``next_page_token``."""
_EQUALS = lazy_regex(r"""(?P<key>\\*["'`])?[ \t]*(?::=|=>|={1,3}|:|%3[AaDd])[ \t]*(?P<open>\\*["'`]|%2[27])?""")
_SPACE = lazy_regex(r"""(?:\\*["'],[ \t\r\n]*|[ \t]+)(?P<open>\\*["'])?""")
"""Between an option and its value, in a shell or in a list of words."""
_IS_FOLLOWED = lazy_regex(r"""[\\"'`=:%\s]|\Z""")
"""Letters that may stand right behind a name that has a value."""
_BARE = lazy_regex(r"""(?:[^\s"'`,;&<>()|\\\[\]{}\x1b]|&(?!&|[\w.%-]*=|\s|\Z))+""")
"""A value without quotes; an ``&`` is part of it where no other name or command follows."""
_IN_LOGIN = lazy_regex(r"""://[^\s"'@/]*\Z""")
"""Before the name of a user in a URL."""
PLACEHOLDER = lazy_regex(
    r"""(?:[xX*.\-_0#…•]+|<.*>|\$[A-Za-z_]\w*|\$[{(].*|%[^%]*%|\{.*|\[.*\]|.*\.\.\..*|.*…|your[-_ ].*|"""
    r"""(?:.*[-_.])?(?:example|placeholder|dummy|redacted|changeme|change[-_]me)(?:[-_.].*)?|"""
    r"""(?:none|null|nil|true|false|undefined|required|optional|string|password|passwd|secret|token|username|pass|"""
    r"""default|process|environ|getenv|credentials?|enabled|disabled|unknown|missing|invalid|hidden|masked|boolean|"""
    r"""passphrase|apikey|api[-_]key|inherit|function|include|same-origin)\W*)""",
    re.IGNORECASE | re.DOTALL,
)
_NUMBERS = lazy_regex(r"[\d.,:TZ+-]+")
CODE = lazy_regex(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+\W*|[A-Za-z_]\w*[(\[{].*", re.DOTALL)
_OBJECT = lazy_regex(
    r"(?:[a-z]|os|process|self|cls|this|conf(?:ig)?|settings|env(?:iron)?|secrets|vars?|import|module|window|app|ctx|"
    r"context|args|opt(?:ion)?s|params|req(?:uest)?|local|data|options|user|form|credentials?|session|state|props)"
    r"(?:(?:\.|::|->|\?\.)[A-Za-z_$]\w*)+\W*|[A-Z]+(?:_[A-Z]+)+", re.IGNORECASE | re.ASCII,
)  # fmt: skip
"""An attribute of something that programs name so, or a constant."""
_VARIABLE = lazy_regex(r"[a-z]+(?:_[a-z]+)*_(?:passw(?:or)?d|passphrase|pass|pwd|secret|token|key)")
_IDENTIFIER = lazy_regex(r"[A-Za-z_]\w*")
_PLACE = lazy_regex(r"(?:[a-z][a-z0-9+.-]*:/|~|\.{0,2}/|[A-Za-z]:\\)", re.IGNORECASE)
_SIGNS = lazy_regex(r"[^\w\s.:-]")
_DASHED_WORDS = lazy_regex(r"[a-z0-9]+(?:-[a-z0-9]+){2,}", re.IGNORECASE)

# names in capitals ------------------------------------------------------------------------------------------------

_CAPITALS = lazy_regex(
    r"""(?P<name>[A-Z_](?<![A-Z_][A-Z_])[A-Z0-9_]{1,80}+)(?P<key>\\*+["'])?"""
    r"""(?:(?P<is>=|%3[Dd])(?![=>~])|(?P<colon>:[ \t]{1,8})|(?P<comma>,[ \t]{0,8})(?=\\*["']))"""
    r"""(?P<open>\\*+["'`]|%2[27])?"""
)
_SETTING = lazy_regex(
    r"""(?P<name>[A-Z_](?<![A-Z_][A-Z_])[A-Z0-9_]{1,80}+)(?:\\*+["'])?(?:=|%3[Dd]|:(?!\S)|,(?=\s|\\|["'])|:\Z)"""
)
"""The same as far as one word has it."""
_WORDS = frozenset({
    "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW", "SECRET", "SECRETS", "TOKEN", "KEY", "APIKEY",
    "CREDENTIAL", "CREDENTIALS", "CREDS", "AUTH", "DSN", "PAT", "MNEMONIC",
})  # fmt: skip
_PARTS = ("PASS", "PW", "SECRET", "TOKEN", "KEY", "CRED", "AUTH", "DSN", "PAT", "MNEMO")
"""One of these is in each of the words above."""
_ENDINGS = ("PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "SECRET", "TOKEN", "APIKEY", "ACCESSKEY", "SECRETKEY",
            "PRIVATEKEY", "CREDENTIALS")  # fmt: skip
_ABOUT = frozenset({
    "ID", "NAME", "TYPE", "MODE", "URL", "URI", "ENDPOINT", "HOST", "PORT", "PATH", "FILE", "DIR", "TTL", "LENGTH",
    "LEN", "SIZE", "COUNT", "LIMIT", "MAX", "MIN", "EXPIRY", "EXPIRES", "EXPIRATION", "TIMEOUT", "ALGORITHM", "ALG",
    "METHOD", "PROVIDER", "PREFIX", "SUFFIX", "FORMAT", "HEADER", "FIELD", "ENABLED", "DISABLED", "REQUIRED",
    "VERSION", "USER", "USERNAME", "EMAIL", "REGION", "ISSUER", "AUDIENCE", "DOMAIN", "SCOPE", "SCOPES", "STATUS",
    "STRATEGY", "BACKEND", "BACKENDS", "SCHEME", "CLASS", "LEVEL", "POLICY", "INTERVAL", "DAYS", "HOURS", "SECONDS",
    "MS", "PROMPT", "ERROR", "SOCK", "MODEL", "MODULE", "LABEL", "STORE", "MANAGER", "SERVER", "SERVICE", "CLIENT",
    "ROUNDS", "BITS", "RESET", "ROLE", "GROUP", "PARALLELISM", "COOKIE",
})  # fmt: skip
"""Last words of names whose value tells of a secret, and is none."""
_OTHERWISE = frozenset({
    "PUBLIC", "PUB", "PRIMARY", "FOREIGN", "CACHE", "SORT", "PARTITION", "IDEMPOTENCY", "DEDUP", "CSRF", "XSRF", "MAX",
    "MIN", "NEXT", "NUM", "TOTAL", "BYPASS", "COMPASS", "SPECIAL", "EOS", "BOS", "PAD", "STOP", "HOT",
})  # fmt: skip
"""Words of names that say that a key or token is no secret."""
_PHRASES = frozenset({"MNEMONIC", "PASSPHRASE"})


def _words_of(name: str) -> tuple[bool, bool] | None:
    """Tell whether the last word of a name in capitals is a secret's, and any is; None where it names no secret."""
    if not any(word in name for word in _PARTS):
        return None
    parts = name.rstrip("0123456789_").split("_")
    if parts[-1] in _ABOUT or not _OTHERWISE.isdisjoint(parts):
        return None
    is_last = parts[-1] in _WORDS or parts[-1].endswith(_ENDINGS)
    return (is_last, True) if is_last or not _WORDS.isdisjoint(parts) else None


def capitals_in(text: str) -> Iterator[FoundSecret]:
    """The values of names in capitals, as the environment of a process has them, or a call that asks for one."""
    at = 0
    while (found := _CAPITALS.search(text, at)) is not None:
        at = found.end()
        words = _words_of(found["name"])
        if words is not None and (secret := _behind_capitals(text, found, is_last=words[0])) is not None:
            yield secret
            at = secret.end


def _behind_capitals(text: str, found: re.Match[str], *, is_last: bool) -> FoundSecret | None:
    name, opened, start = found["name"], found["open"], found.end()
    if not found["is"] and not (is_last and _may_have_a_value(text, found, name)):
        return None
    end = _closing(text, start, opened) if opened else _bare_end(text, start)
    if end is None:
        return None
    secret = text[start:end].rstrip("\\")
    if not opened:
        if PLACEHOLDER.fullmatch(secret):
            return None
        secret = secret[:-1] if secret[-1:] == "." else secret
        if not found["is"] and (text[end : end + 1] not in ("", "\n", "\r", "\\", "`") or _NUMBERS.fullmatch(secret)):
            return None
    is_phrase = bool(opened) and (
        any(map(name.endswith, _PHRASES)) or bool(found["is"] and is_last and _is_phrase(secret))
    )
    if not is_value(name, secret, is_phrase=is_phrase):
        return None
    if not opened and CODE.fullmatch(secret) and _is_in_call(text, found.start(), end):
        return None
    return FoundSecret(_kind_of_capitals(name), start, start + len(secret), secret)


def _is_phrase(value: str) -> bool:
    """Tell words in quotes from what stands between two quoted texts of a program."""
    return value == value.strip() and len(value) <= PHRASE_CHARS_MAX and "\\" not in value


def _may_have_a_value(text: str, found: re.Match[str], name: str) -> bool:
    """Tell whether a colon or comma behind a name is that of a setting, and not of prose or a list."""
    if found["comma"]:
        before = text[max(found.start() - 6, 0) : found.start()].rstrip("\"'\\")
        return found["key"] is not None and before.endswith("(") and before[-2:-1].isalnum()
    return "_" in name or found["key"] is not None


def _kind_of_capitals(name: str) -> str:
    return "password" if any(word in name for word in ("PASS", "PWD", "PW", "MNEMONIC")) else "secret"


def is_value(name: str, value: str, *, is_phrase: bool = False) -> bool:
    """Tell a secret under a name that is believed from a variable, a path or a placeholder."""
    if not NAMED_CHARS_MIN <= len(value) <= NAMED_CHARS_MAX or PLACEHOLDER.fullmatch(value):
        return False
    if any(map(str.isspace, value)) and not is_phrase:
        return False
    if _OBJECT.fullmatch(value) or _is_place(value):
        return False
    plain = _plain(value)
    return not plain or not _plain(name).endswith(plain)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _is_place(value: str) -> bool:
    """Tell a path or a URL from a random text that begins like one, as one of 64 keys in base64 does."""
    if _PLACE.match(value) is None:
        return False
    return "." in value or ":" in value or len(value) < 32 or not any(map(str.isdigit, value)) or bits(value) < 4.3


# other names ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=NAMES_MAX)
def kind_of_name(name: str) -> str | None:
    """The shape that the value under this name has: ``password`` or ``secret``; None of other names.

    >>> kind_of_name("DB_PASSWORD"), kind_of_name("accessToken"), kind_of_name("max_tokens")
    ('password', 'secret', None)
    """
    if name.isupper() and (words := _words_of(name)) is not None and words[0]:
        return _kind_of_capitals(name)
    lowered = name.lower()
    if not any(stem in lowered for stem in _STEMS):
        return None
    for stem in _STEMS:
        at = lowered.rfind(stem)
        found = NAME.match(name, at) if at >= 0 else None
        if found is not None and found.end() == len(name) and not _NO_SECRETS.search(name[:at]):
            return "password" if stem in _PASSWORDS else "secret"
    return None


def is_secret_under(name: str, kind: str, value: str) -> bool:
    """Tell whether the value that JSON has under a name is a secret. ``kind``: see ``kind_of_name``."""
    if name.isupper() and "_" in name and is_value(name, value):
        return not _NUMBERS.fullmatch(value) or kind == "password"
    return is_secret(kind, value, quoted=True)


def is_secret(kind: str, value: str, *, quoted: bool) -> bool:
    """Tell a secret under a secret's name from a placeholder, type, variable or path."""
    if not NAMED_CHARS_MIN <= len(value) <= NAMED_CHARS_MAX or value.split() != [value] or PLACEHOLDER.fullmatch(value):
        return False
    if kind == "password":
        is_place, has_digit = _PLACE.match(value) is not None, any(map(str.isdigit, value))
        if quoted:
            return (has_digit or len(value) >= 8) and not (is_place and value.count("/") + value.count("\\") > 1)
        if is_place or CODE.fullmatch(value):
            return False
        return has_digit or bool(_SIGNS.search(value) or (len(value) >= 16 and _DASHED_WORDS.fullmatch(value)))
    if len(value) < 8 or _NUMBERS.fullmatch(value) or _is_place(value) or CODE.fullmatch(value):
        return False
    return is_mixed(value)


def names_in(words: str, lowered: str) -> Iterator[int]:
    """The places of words that may be a secret's name. ``lowered``: the words in small letters."""
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            name = NAME.match(words, at)
            if name is not None and _IS_FOLLOWED.match(words, name.end()):
                yield at
            at = lowered.find(stem, at + len(stem))
    for found in _SETTING.finditer(words):
        if _words_of(found["name"]) is not None:
            yield found.start()


def named_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The secrets that a name before them tells. ``lowered``: the text in small letters."""
    yield from capitals_in(text)
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            name = NAME.match(text, at)
            found = _value_behind(text, at, name.end(), stem) if name is not None else None
            if found is not None:
                yield found
            at = lowered.find(stem, found.end if found is not None else at + len(stem))


def _value_behind(text: str, start: int, at: int, stem: str) -> FoundSecret | None:
    """The value of a name that ends at ``at``; most names are followed by nothing that looks like a secret."""
    equals = _EQUALS.match(text, at) or _SPACE.match(text, at)
    if equals is None:
        return None
    kind, opened, value = "password" if stem in _PASSWORDS else "secret", equals["open"], equals.end()
    end = _closing(text, value, opened) if opened else _bare_end(text, value)
    if end is None or end - value < NAMED_CHARS_MIN:
        return None
    before = text[max(start - 60, 0) : start]
    named = before[len(before.rstrip(_NAME_LETTERS)) :]
    if (named and _NO_SECRETS.search(named)) or (equals.re.groups == 1 and not named.startswith("-")):
        return None
    if opened is None and _IN_LOGIN.search(text[max(start - 200, 0) : start]):
        at_sign = text.find("@", value, end)
        end = at_sign if at_sign >= 0 else end
    # A sign that escapes what comes next stays, so that JSON stays JSON.
    secret = text[value:end].rstrip("\\")
    end = value + len(secret)
    if is_secret(kind, secret, quoted=opened is not None) or _is_said(text, start, at, equals, secret, stem):
        return FoundSecret(kind, value, end, secret)
    return None


def _is_said(text: str, start: int, at: int, equals: re.Match[str], value: str, stem: str) -> bool:
    """Tell whether ``password=`` or ``secret=``, with no space in it, has a word as its value, and no variable."""
    if text[at : at + 1] != "=" or equals.end() - at > 1 + len(equals["open"] or ""):
        return False
    if stem not in (*_PASSWORDS, "secret") or not is_value(text[start:at], value):
        return False
    return bool(equals["open"]) or not (
        _VARIABLE.fullmatch(value)
        or (
            (_IDENTIFIER.fullmatch(value) or CODE.fullmatch(value))
            and _is_in_call(text, start, equals.end() + len(value))
        )
    )


def _is_in_call(text: str, start: int, end: int) -> bool:
    """Tell whether this is an argument of a call, where a word without quotes is a variable."""
    if text[end : end + 1] not in (",", ")"):
        return False
    since = max(start - CALL_CHARS, 0)
    return text.rfind("(", since, start) > text.rfind(")", since, start)


def _closing(text: str, start: int, opened: str) -> int | None:
    end = text.find(opened, start, start + NAMED_CHARS_MAX)
    # A quoted sign inside the value is not its end.
    while end > start and opened in ('"', "'") and text[end - 1] == "\\":
        end = text.find(opened, end + 1, start + NAMED_CHARS_MAX)
    return end if end > start and "\n" not in text[start:end] else None


def _bare_end(text: str, start: int) -> int | None:
    found = _BARE.match(text, start, start + NAMED_CHARS_MAX)
    if found is None or text[found.end() : found.end() + 1] in ("(", "[", "{"):
        return None
    return found.end()
