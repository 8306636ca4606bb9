"""What secrets look like: the shapes that ``secrets`` looks for, each with a name. Pure.

A *token* begins with letters that only its issuer uses, so it is known wherever it stands: inside JSON escapes, in a
URL, or cut in two by the width of a terminal. A *named* secret is known by the name before it, such as ``password=``.
Hashes, UUIDs and random letters without such a beginning or name are no secrets.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.lazy_regex import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED_CHARS_MIN, NAMED_CHARS_MAX = 6, 4_096
"""A shorter or longer value is no secret that a name tells."""
KEY_CHARS_MAX = 20_000
"""Between the beginning and the end of a private key stands at most so much."""
BREAKS_MAX = 8
"""A token that is cut more often is none."""
CUT_COLUMN_MIN = 60
"""A line that ends earlier was not cut by the width of a terminal."""


class Finding(Struct, frozen=True):
    """A secret in a text: its shape's name, where it stands, and itself without line breaks."""

    name: str
    start: int
    end: int
    secret: str


class Token(Struct, frozen=True):
    """A shape with a beginning of its own: so many letters of ``body`` come behind it."""

    name: str
    beginnings: tuple[str, ...]
    body: re.Pattern[str]
    least: int
    most: int
    form: re.Pattern[str] | None = None
    """What the whole has to look like, where that says more."""


_LETTERS, _NAME, _DASHED = lazy_regex("[A-Za-z0-9]+"), lazy_regex("[A-Za-z0-9_]+"), lazy_regex("[A-Za-z0-9_-]+")
_CAPITALS, _DOTTED, _PATH = lazy_regex("[A-Z0-9]+"), lazy_regex("[A-Za-z0-9_.-]+"), lazy_regex("[A-Za-z0-9/_-]+")
TOKENS = (
    Token("anthropic-key", ("sk-ant-",), _DASHED, 24, 200),
    Token("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"), _DASHED, 32, 250),
    Token("openai-key", ("sk-",), _LETTERS, 32, 64),
    Token("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _LETTERS, 36, 255),
    Token("github-token", ("github_pat_",), _NAME, 36, 255),
    Token("gitlab-token", ("glpat-",), _DASHED, 20, 60),
    Token("aws-access-key", ("AKIA", "ASIA"), _CAPITALS, 16, 16),
    Token("google-api-key", ("AIza",), _DASHED, 35, 35),
    Token("google-api-key", ("GOCSPX-", "ya29."), _DASHED, 24, 400),
    Token("slack-token", ("xoxb-", "xoxp-", "xoxa-", "xoxs-", "xoxr-", "xoxe-", "xoxe.", "xapp-"), _DASHED, 20, 250,
          lazy_regex(r".*[0-9].*")),
    Token("slack-webhook", ("hooks.slack.com/services/",), _PATH, 30, 100),
    Token("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), _LETTERS, 16, 250),
    Token("npm-token", ("npm_",), _LETTERS, 36, 36),
    Token("pypi-token", ("pypi-Ag",), _DASHED, 50, 400),
    Token("huggingface-token", ("hf_",), _LETTERS, 34, 34),
    Token("jwt", ("eyJ",), _DOTTED, 30, 8_000,
          lazy_regex(r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", re.ASCII)),
)  # fmt: skip
"""The first that finds something at a place names it."""

_BREAK = lazy_regex(r"[ \t]*+(?:[│┃|][ \t]*+)?\\?(?:\r?\n|(?:\\r)?\\n)[ \t]*[│┃|>+]?[ \t]*")
"""Where a terminal, a mail or a person cut a line; in JSON inside JSON the line's end is two letters."""
_ESCAPED = lazy_regex(
    r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,12}m)\Z"
)
"""What stands right before a word although it ends in a letter: an escape, a colour."""
_PLACEHOLDER_LETTERS = frozenset("xX*.-_0…")


def tokens_in(text: str) -> Iterator[Finding]:
    """The secrets that their own beginnings tell, shape by shape."""
    seams = _seams(text)
    for sign, tokens in _SIGNED:
        for token, beginning in tokens if sign in text else ():
            at = text.find(beginning)
            while at >= 0:
                found = _token_at(text, at, at + len(beginning), beginning, token)
                if found is not None:
                    yield found
                at = text.find(beginning, found.end if found else at + 1)
        for token, beginning in tokens if sign[:_SEAM] in seams else ():
            yield from _with_a_cut_beginning(text, beginning, token)


def _by_sign() -> list[tuple[str, list[tuple[Token, str]]]]:
    """The beginnings, grouped by what several have in common, so that a text is searched less often."""
    groups: dict[str, list[tuple[Token, str]]] = {}
    for token in TOKENS:
        for beginning in token.beginnings:
            sign = next((each for each in ("sk-", "xox", "k_live_", "k_test_") if each in beginning), beginning)
            groups.setdefault(sign, []).append((token, beginning))
    return list(groups.items())


_SIGNED = _by_sign()
_SEAM = 11
"""So many letters on each side of a line's end are looked at for a beginning that was cut."""


def _seams(text: str) -> str:
    """What stands around the ends of lines, as if there were none."""
    if "\n" not in text:
        return ""
    lines = text.split("\n")
    return "\0".join([f"{a[-_SEAM:]}{b[:_SEAM]}" for a, b in pairwise(lines)])


def _with_a_cut_beginning(text: str, beginning: str, token: Token) -> Iterator[Finding]:
    """Those whose first letters stand on two lines."""
    for cut in range(1, len(beginning)):
        parts = f"{beginning[:cut]}\n{beginning[cut:]}"
        at = text.find(parts)
        while at >= 0:
            found = _token_at(text, at, at + len(parts), beginning, token)
            if found is not None:
                yield found
            at = text.find(parts, at + 1)


def _token_at(text: str, start: int, at: int, beginning: str, token: Token) -> Finding | None:
    """The token whose beginning stands from ``start`` to ``at``."""
    if not _begins_a_word(text, start):
        return None
    body, at = _body(text, start, at, token)
    whole = beginning + body
    # What ends a sentence is not the token's.
    kept = whole.rstrip(".-_") if token.most != token.least else whole
    at -= len(whole) - len(kept)
    if len(kept) - len(beginning) < token.least or set(body) <= _PLACEHOLDER_LETTERS:
        return None
    if token.least == token.most and at < len(text) and token.body.match(text, at):
        return None
    if token.form is not None and not token.form.fullmatch(kept):
        return None
    return Finding(token.name, start, at, kept)


def _begins_a_word(text: str, start: int) -> bool:
    before = text[max(start - 20, 0) : start]
    return not before[-1:].isalnum() or not before[-1:].isascii() or _ESCAPED.search(before) is not None


def _body(text: str, start: int, at: int, token: Token) -> tuple[str, int]:
    """What stands behind the beginning, without line breaks, and where it ends."""
    pieces: list[str] = []
    count = 0
    for _ in range(BREAKS_MAX):
        piece = token.body.match(text, at, at + token.most - count)
        if piece is not None:
            pieces.append(piece.group())
            count += len(pieces[-1])
            at = piece.end()
        cut = _BREAK.match(text, at) if count < token.most else None
        following = token.body.match(text, cut.end()) if cut is not None else None
        if cut is None or following is None:
            break
        if count >= token.least and not _goes_on(text, start, at, following):
            break
        at = cut.end()
    return "".join(pieces), at


def _goes_on(text: str, start: int, at: int, following: re.Match[str]) -> bool:
    """Whether a line ended in the middle of a token, which might be whole already."""
    column = at - max(text.rfind("\n", 0, start), text.rfind("\n", 0, at)) - 1
    piece = following.group()
    if column < CUT_COLUMN_MIN or text[following.end() : following.end() + 1] in ("=", ":", "("):
        return False
    return any(letter.isdigit() for letter in piece) or not (piece.islower() or piece.istitle())


# named ----------------------------------------------------------------------------------------------------------

_STEMS = ("passw", "passphrase", "pwd", "secret", "token", "apikey", "api_key", "api-key", "accesskey", "access_key",
          "access-key", "private_key", "accountkey", "credential")  # fmt: skip
_PASSWORDS = ("passw", "passphrase", "pwd")
NAME = lazy_regex(
    r"(?:passw(?:or)?d|passwd|passphrase|pwd|secret(?:[_-]?access)?(?:[_-]?key)?|token|"
    r"(?:shared)?access[_-]?key|account[_-]?key|api[_-]?key|private[_-]?key|credentials?)[0-9]?(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
"""The end of a name that says that its value is a secret."""
_BEFORE = lazy_regex(r"[\w.-]*\Z", re.ASCII)
_NO_SECRETS = lazy_regex(
    r"(?:next|page|paging|cursor|continuation|sync|resume|csrf|xsrf|max|min|eos|bos|pad|stop|start|special|unk|mask|sep|"
    r"cls|public|lookup|challenge)[_.-]?(?:page)?[_.-]?\Z", re.IGNORECASE,
)  # fmt: skip
"""What a name begins with that says the opposite, such as ``next_page_token``."""
_EQUALS = lazy_regex(r"""(?P<key>\\*["'`])?[ \t]*(?::=|=>|={1,3}|:|%3[AaDd])[ \t]*(?P<open>\\*["'`]|%2[27])?""")
_SPACE = lazy_regex(r"""(?:\\*["'],[ \t\r\n]*|[ \t]+)(?P<open>\\*["'])?""")
"""Between an option and its value, in a shell or in a list of words."""
_BARE = lazy_regex(r"""[^\s"'`,;&<>()|\\\[\]{}]+""")
_IN_LOGIN = lazy_regex(r"""://[^\s"'@/]*\Z""")
"""Before the name of a user in a URL."""
_PLACEHOLDER = lazy_regex(
    r"""(?:[xX*.\-_0#…•]+|<.*>|\$[A-Za-z_]\w*|\$[{(].*|%.*%|\{.*|\[.*\]|.*\.\.\..*|your[-_ ].*|"""
    r"""(?:.*[-_.])?(?:example|placeholder|dummy|redacted|changeme|change[-_]me)(?:[-_.].*)?|"""
    r"""(?:none|null|true|false|undefined|required|optional|string|password|passwd|secret|token|username|pass|"""
    r"""default|process|environ|getenv)\W*)""",
    re.IGNORECASE | re.DOTALL,
)
_NUMBERS = lazy_regex(r"[\d.,:TZ+-]+")
_CODE = lazy_regex(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+\W*|[A-Za-z_]\w*[(\[{].*", re.DOTALL)
_PLACE = lazy_regex(r"(?:[a-z][a-z0-9+.-]*:/|~|\.{0,2}/|[A-Za-z]:\\)", re.IGNORECASE)
_SIGNS = lazy_regex(r"[^\w\s.:-]")


def kind_of_name(name: str) -> str | None:
    """The shape that the value under this name has: ``password`` or ``secret``; None of other names.

    >>> kind_of_name("DB_PASSWORD"), kind_of_name("accessToken"), kind_of_name("max_tokens")
    ('password', 'secret', None)
    """
    lowered = name.lower()
    if not any(stem in lowered for stem in _STEMS):
        return None
    for stem in _STEMS:
        at = lowered.rfind(stem)
        found = NAME.match(name, at) if at >= 0 else None
        if found is not None and found.end() == len(name) and not _NO_SECRETS.search(name[:at]):
            return "password" if stem in _PASSWORDS else "secret"
    return None


def is_secret(kind: str, value: str, *, quoted: bool) -> bool:
    """Whether what stands under a secret's name is one, and no placeholder, type, variable or path."""
    if (
        not NAMED_CHARS_MIN <= len(value) <= NAMED_CHARS_MAX
        or any(map(str.isspace, value))
        or _PLACEHOLDER.fullmatch(value)
    ):
        return False
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if kind == "password":
        if _PLACE.match(value) and value.count("/") + value.count("\\") > 1:
            return False
        if quoted:
            return has_digit or len(value) >= 8
        is_odd = has_digit or _SIGNS.search(value) is not None
        return is_odd and not _CODE.fullmatch(value) and not _PLACE.match(value)
    if len(value) < 8 or _NUMBERS.fullmatch(value) or _PLACE.match(value) or _CODE.fullmatch(value):
        return False
    return has_letter and (has_digit or (len(value) >= 20 and _bits(value) >= 4))


def _bits(value: str) -> float:
    """How random a text is, in bits a letter."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


def named_in(text: str, lowered: str) -> Iterator[Finding]:
    """The secrets that a name before them tells. ``lowered``: the text in small letters."""
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            name = NAME.match(text, at)
            found = _value_behind(text, at, name.end(), stem) if name is not None else None
            if found is not None:
                yield found
            at = lowered.find(stem, found.end if found is not None else at + len(stem))


def _value_behind(text: str, start: int, at: int, stem: str) -> Finding | None:
    """What stands behind a name that ends at ``at``; most names are followed by nothing that looks like a secret."""
    equals = _EQUALS.match(text, at) or _SPACE.match(text, at)
    if equals is None:
        return None
    kind, opened, value = "password" if stem in _PASSWORDS else "secret", equals["open"], equals.end()
    end = _closing(text, value, opened) if opened else _bare_end(text, value)
    if end is None or end - value < NAMED_CHARS_MIN:
        return None
    before = _BEFORE.search(text[max(start - 60, 0) : start])
    named = before.group() if before is not None else ""
    if _NO_SECRETS.search(named) or (equals.re.groups == 1 and not named.startswith("-")):
        return None
    if opened is None and _IN_LOGIN.search(text[max(start - 200, 0) : start]):
        at_sign = text.find("@", value, end)
        end = at_sign if at_sign >= 0 else end
    # A sign that escapes what comes next stays, so that JSON stays JSON.
    secret = text[value:end].rstrip("\\")
    end = value + len(secret)
    return Finding(kind, value, end, secret) if is_secret(kind, secret, quoted=opened is not None) else None


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


# connections and headers ------------------------------------------------------------------------------------------

_LOGIN = lazy_regex(r"""://[^\s/:@"'<>\\]{0,100}:([^\s/@"'<>\\]{3,200})@[\w\[]""")
_ENCODED_LOGIN = lazy_regex(r"""%3A%2F%2F[^\s/:@"'<>%\\]{0,100}%3A([^\s/:@"'<>\\]{3,200}?)%40[\w\[]""", re.IGNORECASE)
_HEADER = lazy_regex(
    r"""authorization\\*+["']?[ \t]*+[:=,][ \t]*+\\*+["']?[ \t]*+(?:(?:bearer|token|apikey|negotiate)[ \t]++)?"""
    r"""([A-Za-z0-9][A-Za-z0-9+/=._~-]{7,})""",
    re.IGNORECASE,
)
_BASIC = lazy_regex(
    r"""authorization\\*+["']?[ \t]*+[:=,][ \t]*+\\*+["']?[ \t]*+basic[ \t]++"""
    r"""((?:[A-Za-z0-9+/]{4}){2,}[A-Za-z0-9+/=]{0,4})""",
    re.IGNORECASE,
)
_BEARER = lazy_regex(r"bearer(?:[ \t]+|%20|\+)([A-Za-z0-9][A-Za-z0-9+/=._~-]{15,})", re.IGNORECASE)
_CURL = lazy_regex(r"""(?:-u|--user)(?:[ =]|["'],[ \t\n]*)\\*["']?[\w.@+-]+:([^\s"'\\:]{4,})""")


def logins_in(text: str, lowered: str) -> Iterator[Finding]:
    """Passwords in URLs and command lines, and what an Authorization header holds."""
    for sign, shape in (("://", _LOGIN), ("%3a%2f%2f", _ENCODED_LOGIN)):
        yield from _at_signs(text, lowered, sign, shape, "connection-password")
    for sign, shape in (("authorization", _HEADER), ("bearer", _BEARER)):
        for found in _at_signs(text, lowered, sign, shape, "authorization"):
            is_random = any(map(str.isdigit, found.secret)) or _bits(found.secret) >= 4
            if is_random and not _CODE.fullmatch(found.secret):
                yield found
    yield from _at_signs(text, lowered, "authorization", _BASIC, "authorization")
    for sign in ("-u", "--user"):
        for found in _at_signs(text, lowered, sign, _CURL, "password"):
            if not found.secret.isdigit():
                yield found


def _at_signs(text: str, lowered: str, sign: str, shape: re.Pattern[str], name: str) -> Iterator[Finding]:
    at = lowered.find(sign)
    while at >= 0:
        found = shape.match(text, at)
        if found is not None and not _PLACEHOLDER.fullmatch(found.group(1)):
            yield Finding(name, found.start(1), found.end(1), found.group(1))
        # Inside a value none is looked for: a chain of signs would be read again from each of them.
        at = lowered.find(sign, found.end(1) if found is not None else at + len(sign))


# private keys -----------------------------------------------------------------------------------------------------

_KEY = "PRIVATE KEY-----"
_KEY_BEGIN = lazy_regex(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----")
_KEY_END = lazy_regex(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----")
_KEY_BODY = lazy_regex(r"""(?:[\sA-Za-z0-9+/=:,.|→│-]|\\[nrt])*""")
_KEY_LINE = lazy_regex(r"[A-Za-z0-9+/=]{16,}")
_KEY_LINES = lazy_regex(
    r"""(?:(?:\r|\n|\\r|\\n|[ \t"',;|│+→]|\d{1,6}[→:\t|])*[A-Za-z0-9+/=]{16,})+"""
    r"""(?:(?:\r?\n|\\n)[A-Za-z0-9+/=]{1,15}(?=\s|\\n|"|$))?"""
)


def private_keys_in(text: str) -> Iterator[Finding]:
    """Private keys as PEM has them. Of one that stands among quotes or whose end is missing, line by line."""
    for begin in _KEY_BEGIN.finditer(text) if _KEY in text else ():
        end = _KEY_END.search(text, begin.end(), begin.end() + KEY_CHARS_MAX)
        if end is None:
            lines = _KEY_LINES.match(text, begin.end())
            if lines is not None:
                yield from _key_lines(text, begin.end(), lines.end())
            continue
        body = text[begin.end() : end.start()]
        if _KEY_LINE.search(body) is None:
            continue
        if _KEY_BODY.fullmatch(body):
            yield Finding("private-key", begin.start(), end.end(), "".join(_KEY_LINE.findall(body)))
        else:
            yield from _key_lines(text, begin.end(), end.start())


def _key_lines(text: str, start: int, end: int) -> Iterator[Finding]:
    for line in _KEY_LINE.finditer(text, start, end):
        yield Finding("private-key", line.start(), line.end(), line.group())


def lines_of_key(secret: str) -> list[str]:
    """The lines that a key may be printed as."""
    return [secret[at : at + 64] for at in range(0, len(secret), 64)]


# people's folders -------------------------------------------------------------------------------------------------

_HOMES = ("/home/", "/users/", "\\users\\", "%2fhome%2f", "%2fusers%2f")
_ROOT = lazy_regex(r"(?:(?:^|[^\w.~-])(?:/mnt/[a-z]|/[a-z]|/var|/export|/private|/System/Volumes/Data)?|"
                   r"(?:^|[^A-Za-z])[A-Za-z]:|[A-Za-z]:\\{1,3}|\\[nrt]|%[0-9A-Fa-f]{2}|\\|\.\.)\Z")  # fmt: skip
"""What stands before the folder of all people's folders."""
_PERSON = lazy_regex(r"""[\\]{0,3}([A-Za-z0-9_](?:[\w.@+-]{0,62}[A-Za-z0-9_])?)(?![\w@+])""")
_BUCKET = lazy_regex(r"projects/-(?:home|Users)-([A-Za-z0-9_.]{1,64})")
NOBODY = frozenset({"user", "username", "you", "name", "me", "someone", "shared", "public", "default", "runner", "node",
                    "vscode", "ubuntu", "your-name", "yourname", "your-username", "foo", "linuxbrew"})  # fmt: skip
"""Names in paths that are no person's."""


def users_in(text: str, lowered: str) -> Iterator[Finding]:
    """The names of people in the paths of their home folders."""
    for sign in _HOMES:
        at = lowered.find(sign)
        while at >= 0:
            found = _PERSON.match(text, at + len(sign))
            if found is not None and _ROOT.search(text[max(at - 24, 0) : at]):
                yield from _user(found)
            at = lowered.find(sign, at + len(sign))
    for found in _BUCKET.finditer(text) if "projects/-" in text else ():
        yield from _user(found)


def _user(found: re.Match[str]) -> Iterator[Finding]:
    if found.group(1).lower() not in NOBODY:
        yield Finding("user", found.start(1), found.end(1), found.group(1))


def findings_in(text: str, *, people: bool = True) -> Iterator[Finding]:
    """Every secret of a text, by the order of the shapes; two may overlap. ``people``: names of people, too."""
    lowered = _lowered(text)
    yield from private_keys_in(text)
    yield from tokens_in(text)
    yield from logins_in(text, lowered)
    yield from named_in(text, lowered)
    if people:
        yield from users_in(text, lowered)


def _lowered(text: str) -> str:
    """In small letters, each where it was."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
