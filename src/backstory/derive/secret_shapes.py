"""Shapes of secrets that ``secrets`` looks for, each with a name. Pure.

A *token* begins with letters that only its issuer uses, so it is known wherever it stands: inside JSON escapes, in a
URL, or cut in two by the width of a terminal. A *named* secret is known by the name before it, such as ``password=``.
Hashes, UUIDs and random letters without such a beginning or name are no secrets.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from backstory.derive.secret_kinds import (
    FORMS,
    LETTERS,
    SURE,
    FoundSecret,
    Token,
    any_beginning,
    beginnings_of,
    tokens_by_beginning,
)
from backstory.derive.secret_names import named_in
from backstory.derive.secret_places import placed_in
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


KEY_LINE_CHARS_MIN = 16
KEY_CHARS_MAX = 20_000
"""Between the beginning and the end of a private key stands at most so much."""
BREAKS_MAX = 8
"""A token that is cut more often is none."""
_BREAK = lazy_regex(r"[ \t]*+(?:[│┃|][ \t]*+)?\\?(?:\r?\n|(?:\\r)?\\n)[ \t]*[│┃|>+]?[ \t]*")
"""A cut of a line by a terminal, a mail or a person; in JSON inside JSON the line's end is two letters."""
_BREAKS = frozenset(" \t\r\n\\│┃|")
_ESCAPED = lazy_regex(
    r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,12}m)\Z"
)
"""Characters right before a word although they end in a letter: an escape, a colour."""
_ESCAPE_ENDS = frozenset("nrtbfm0123456789abcdefABCDEF")
_PLACEHOLDER_LETTERS = frozenset("xX*.-_0…")
FORM_CHARS_MIN = 26
"""No text with a secret that only its whole form tells is shorter."""
SHORT_FORM = "@tcp("
"""The sign of the only form whose secret may be in a word shorter than ``TOKEN_CHARS_MIN``."""
_SEAM = 11
"""The most letters on each side of a line's end that are looked at for a beginning that was cut."""


def tokens_in(text: str) -> Iterator[FoundSecret]:
    """The secrets that their own beginnings or forms tell."""
    begins, by_beginning = any_beginning(), tokens_by_beginning()
    read: dict[tuple[str, ...], int] = {}
    at = 0
    while (found := begins.search(text, at)) is not None:
        start = found.start()
        at = start + 1
        for beginning, token in by_beginning[found.group()] if _begins_a_word(text, start) else ():
            # In letters that were no such token none is looked for again: a chain of beginnings would take long.
            if start < read.get(token.beginnings, 0):
                continue
            token_found, end = _token_at(text, start, start + len(beginning), beginning, token)
            if token_found is not None:
                yield token_found
                at = token_found.end
                break
            read[token.beginnings] = end
    seams = _seams(text)
    for beginning in sorted(set(begins.findall(seams))) if seams else ():
        yield from _with_a_cut_beginning(text, beginning, by_beginning)
    if len(text) >= FORM_CHARS_MIN:
        yield from forms_in(text)


class _Form(NamedTuple):
    name: str
    sign: str
    before: tuple[int, ...] | None
    shape: re.Pattern[str]


@cache
def _forms() -> list[_Form]:
    return [_Form(name, sign, before, lazy_regex(shape)) for name, sign, before, shape in FORMS]


def forms_in(text: str) -> Iterator[FoundSecret]:
    """The secrets that only their whole forms tell."""
    for form in _forms():
        if form.sign in text:
            yield from _of_form(text, form)


def _of_form(text: str, form: _Form) -> Iterator[FoundSecret]:
    behind = 0
    for found in _at_each_sign(text, form) if form.before is not None else form.shape.finditer(text):
        start, end = found.span(1) if found.re.groups else found.span()
        is_digit = any(map(str.isdigit, text[start:end]))
        if start >= behind and is_digit and (found.group()[0] in "$:" or _begins_a_name(text, start)):
            yield FoundSecret(form.name, start, end, text[start:end])
            behind = end


def _at_each_sign(text: str, form: _Form) -> Iterator[re.Match[str]]:
    if form.before == (0,) and form.shape.pattern.replace("\\", "").startswith(form.sign):
        # The expression itself seeks its first letters, and faster than this does.
        match = form.shape.search(text)
        while match is not None:
            yield match
            match = form.shape.search(text, match.start() + 1)
        return
    at = text.find(form.sign)
    while at >= 0:
        for before in form.before or ():
            found = form.shape.match(text, at - before) if at >= before else None
            if found is not None:
                yield found
                break
        at = text.find(form.sign, at + 1)


def _begins_a_name(text: str, start: int) -> bool:
    return text[start - 1 : start] not in (".", "_") and _begins_a_word(text, start)


def _seams(text: str) -> str:
    """The letters around the ends of lines, as if there were none."""
    if "\n" not in text:
        return ""
    lines = text.split("\n")
    return "\0".join([f"{a[-_SEAM:]}{b[:_SEAM]}" for a, b in pairwise(lines)])


def _with_a_cut_beginning(
    text: str, beginning: str, known: dict[str, list[tuple[str, Token]]]
) -> Iterator[FoundSecret]:
    """Those whose first letters stand on two lines."""
    for cut in range(1, len(beginning)):
        parts = f"{beginning[:cut]}\n{beginning[cut:]}"
        at = text.find(parts)
        while at >= 0:
            for begun, token in known[beginning] if _begins_a_word(text, at) else ():
                if begun == beginning:
                    found, _ = _token_at(text, at, at + len(parts), beginning, token)
                    yield from () if found is None else (found,)
            at = text.find(parts, at + 1)


def _token_at(text: str, start: int, at: int, beginning: str, token: Token) -> tuple[FoundSecret | None, int]:
    """The token whose beginning is between ``start`` and ``at``, and the end of what was read."""
    body, end = _body(text, start, at, token)
    whole = beginning + body
    # What ends a sentence is not the token's.
    kept = whole.rstrip(".-_") if token.most != token.least else whole
    stop = end - len(whole) + len(kept)
    if len(kept) - len(beginning) < token.least or set(body) <= _PLACEHOLDER_LETTERS:
        return None, end
    if token.least == token.most and stop < len(text) and token.body.match(text, stop):
        return None, end
    if body.isalpha() and (body.islower() or (token.body is not LETTERS["capitals"] and body.isupper())):
        return None, end
    if (form := SURE.get(token.name)) is not None and not form.fullmatch(kept):
        return None, end
    return FoundSecret(token.name, start, stop, kept), end


def _begins_a_word(text: str, start: int) -> bool:
    before = text[start - 1] if start else " "
    if not (before.isalnum() and before.isascii()):
        return True
    # Most escapes end in one of these.
    return before in _ESCAPE_ENDS and _ESCAPED.search(text[max(start - 20, 0) : start]) is not None


def _body(text: str, start: int, at: int, token: Token) -> tuple[str, int]:
    """Return the characters behind the beginning, without line breaks, and their end."""
    pieces: list[str] = []
    count = 0
    for _ in range(BREAKS_MAX):
        piece = token.body.match(text, at, at + token.most - count)
        if piece is not None:
            pieces.append(piece.group())
            count += len(pieces[-1])
            at = piece.end()
        cut = _BREAK.match(text, at) if count < token.most and text[at : at + 1] in _BREAKS else None
        following = token.body.match(text, cut.end()) if cut is not None else None
        if cut is None or following is None:
            break
        if count >= token.least and not _goes_on(text, start, at, following):
            break
        at = cut.end()
    return "".join(pieces), at


def _goes_on(text: str, start: int, at: int, following: re.Match[str]) -> bool:
    """Return True if a line ended in the middle of a token, which might be whole already."""
    column = at - max(text.rfind("\n", 0, start), text.rfind("\n", 0, at)) - 1
    piece = following.group()
    if column < COLUMN_MIN or text[following.end() : following.end() + 1] in ("=", ":", "("):
        return False
    return any(letter.isdigit() for letter in piece) or not (piece.islower() or piece.istitle())


# private keys -----------------------------------------------------------------------------------------------------


def _cut(text: str) -> str:
    """A pattern of letters that a line's end may cut."""
    return r"\n?".join(text)


_KEY_SIGN = rf"[A-Z0-9 \n]{{0,40}}{_cut('PRIVATE KEY')}(?:{_cut(' BLOCK')})?{_cut('-----')}"
_KEY_BEGIN = lazy_regex(rf"{_cut('-----BEGIN ')}{_KEY_SIGN}")
_KEY_END = lazy_regex(rf"{_cut('-----END ')}{_KEY_SIGN}")
_PUTTY_KEY = lazy_regex(r"Private-Lines:[ \t]{0,8}[0-9]{1,4}")
_KEY_BODY = lazy_regex(r"""(?:[\sA-Za-z0-9+/=:,.|→│-]|\\[nrt])*""")
_KEY_LINE = lazy_regex(r"[A-Za-z0-9+/=]{16,}")
_KEY_LINES = lazy_regex(
    r"""(?:(?:\r|\n|\\r|\\n|[ \t"',;|│+→]|\d{1,6}[→:\t|])*[A-Za-z0-9+/=]{16,})+"""
    r"""(?:(?:\r?\n|\\n)[A-Za-z0-9+/=]{1,15}(?=\s|\\n|"|$))?"""
)
_BETWEEN_LINES = lazy_regex(r"""(?:\r|\n|\\[rn]|[ \t"',;|│+→]|\d{1,6}[→:\t|])*""")
_KEY_WORD = lazy_regex(r"[A-Za-z0-9+/=]{4,}")


def private_keys_in(text: str) -> Iterator[FoundSecret]:
    """Private keys as PEM, PGP and PuTTY have them. One among quotes, or without its end, is found line by line."""
    begins = list(_KEY_BEGIN.finditer(text)) if "-----" in text else []
    ends = list(_KEY_END.finditer(text)) if "-----" in text else []
    starts, begun = [end.start() for end in ends], set[int]()
    for number, begin in enumerate(begins):
        nearest = bisect_left(starts, begin.end())
        most = min(begin.end() + KEY_CHARS_MAX, begins[number + 1].start() if number + 1 < len(begins) else len(text))
        if nearest == len(ends) or starts[nearest] > most:
            yield from _lines_behind(text, begin.end())
        else:
            yield from _whole_key(text, begin, ends[nearest])
            begun.add(nearest)
    for number, end in enumerate(ends):
        if number not in begun:
            # Its beginning may be cut off, where only the last lines are kept of what a command printed.
            yield from _lines_before(text, ends[number - 1].end() if number else 0, end.start())
    for begin in _PUTTY_KEY.finditer(text) if "Private-Lines:" in text else ():
        yield from _lines_behind(text, begin.end())


def _whole_key(text: str, begin: re.Match[str], end: re.Match[str]) -> Iterator[FoundSecret]:
    body = text[begin.end() : end.start()]
    if _KEY_LINE.search(body) is None:
        return
    if _KEY_BODY.fullmatch(body):
        yield FoundSecret("private-key", begin.start(), end.end(), "".join(_KEY_LINE.findall(body)))
    else:
        yield from _key_lines(text, begin.end(), end.start())


def _lines_behind(text: str, at: int) -> Iterator[FoundSecret]:
    lines = _KEY_LINES.match(text, at, at + KEY_CHARS_MAX)
    if lines is not None:
        yield from _key_lines(text, at, lines.end())


def _lines_before(text: str, start: int, end: int) -> Iterator[FoundSecret]:
    """The lines of a key above its end; the last one may be short, if a whole one is above it."""
    found, at = list[re.Match[str]](), end
    for line in reversed(list(_KEY_WORD.finditer(text, max(start, end - KEY_CHARS_MAX), end))):
        is_short = len(line.group()) < KEY_LINE_CHARS_MIN
        if (is_short and found) or not _BETWEEN_LINES.fullmatch(text, line.end(), at):
            break
        found.append(line)
        at = line.start()
    for line in found if found and len(found[-1].group()) >= KEY_LINE_CHARS_MIN else ():
        yield FoundSecret("private-key", line.start(), line.end(), line.group())


def _key_lines(text: str, start: int, end: int) -> Iterator[FoundSecret]:
    for line in _KEY_LINE.finditer(text, start, end):
        yield FoundSecret("private-key", line.start(), line.end(), line.group())


def lines_of_key(secret: str) -> list[str]:
    """The lines that a key may be printed as."""
    return [secret[at : at + 64] for at in range(0, len(secret), 64)]


# people's folders -------------------------------------------------------------------------------------------------

_HOMES = ("/home/", "/users/", "\\users\\", "%2fhome%2f", "%2fusers%2f")
_ROOT = lazy_regex(r"(?:(?:^|[^\w.~-])(?:/mnt/[a-z]|/[a-z]|/var|/export|/private|/System/Volumes/Data)?|"
                   r"(?:^|[^A-Za-z])[A-Za-z]:|[A-Za-z]:\\{1,3}|\\[nrt]|%[0-9A-Fa-f]{2}|\\|\.\.)\Z")  # fmt: skip
"""The path before the folder of all people's folders."""
_PERSON = lazy_regex(r"""[\\]{0,3}([A-Za-z0-9_](?:[\w.@+-]{0,62}[A-Za-z0-9_])?)(?![\w@+])""")
_BUCKET = lazy_regex(r"projects/-(?:home|Users)-([A-Za-z0-9_.]{1,64})")
NOBODY = frozenset({"user", "username", "you", "name", "me", "someone", "shared", "public", "default", "runner", "node",
                    "vscode", "ubuntu", "your-name", "yourname", "your-username", "foo", "linuxbrew"})  # fmt: skip
"""Names in paths that are no person's."""


def users_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The names of people in the paths of their home folders."""
    for sign in _HOMES:
        at = lowered.find(sign)
        while at >= 0:
            if _may_be_a_root(text, at):
                found = _PERSON.match(text, at + len(sign))
                if found is not None and _ROOT.search(text[max(at - 24, 0) : at]):
                    yield from _user(found)
            at = lowered.find(sign, at + len(sign))
    for found in _BUCKET.finditer(text) if "projects/-" in text else ():
        yield from _user(found)


def _may_be_a_root(text: str, at: int) -> bool:
    """Tell most folders in the middle of a path, quickly, from those that ``_ROOT`` knows."""
    before = text[max(at - 3, 0) : at]
    return not before[-2:].isalnum() or before[-1] in "rtea" or before[0] == "%" or len(before) < 3


def _user(found: re.Match[str]) -> Iterator[FoundSecret]:
    if found.group(1).lower() not in NOBODY:
        yield FoundSecret("user", found.start(1), found.end(1), found.group(1))


# the whole --------------------------------------------------------------------------------------------------------


TOKEN_CHARS_MIN = 18
"""No token and no private key is shorter."""
_TELLING_SIGNS = ("=", ":", ">", "(", ",", "%3", " -", "--")
_TELLING_WORDS = ("login", "pass", "phrase", "mnemonic")
"""A place or a name needs one of these before a secret."""
_ANY_TELLING_WORD = lazy_regex("|".join(_TELLING_WORDS), re.IGNORECASE)
_PLAIN = lazy_regex(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?Z?", re.ASCII
)
"""A UUID, and a moment."""


KEYS, TOKENS, NAMES, USERS, CUT, PLACES_FROM = 1, 2, 4, 8, 16, 32
"""Kinds of secrets, as bits: what lines that a terminal cut hide, and from the last one on a bit for each place."""
ALL = -1


def findings_in(text: str, *, people: bool = True, kinds: int = ALL) -> Iterator[FoundSecret]:
    """Every secret of a text, by the order of the shapes; two may overlap. ``people``: names of people, too.

    ``kinds``: those that may be in it; others are not looked for. A text with colours is looked at once more without
    them, and where a line's end cuts it, without that.
    """
    # Of what reports hold many are such: uids, labels, times.
    if text.isascii() and (_word_begins().match(text) is None if text.isalnum() else _PLAIN.fullmatch(text)):
        return
    yield from _findings_in(text, people=people, kinds=kinds)
    if kinds != ALL and not kinds & CUT:
        return
    plain = Pieces.uncoloured(text)
    if plain is not None:
        yield from map(plain.place, _findings_in(plain.text, people=people))
    for whole in Pieces.of_cut_lines(text if plain is None else plain.text):
        for found in whole.crossing(_findings_in(whole.text, people=False)):
            yield found if plain is None else plain.place(found)


def _findings_in(text: str, *, people: bool, kinds: int = ALL) -> Iterator[FoundSecret]:
    if len(text) >= TOKEN_CHARS_MIN:
        if kinds & KEYS:
            yield from private_keys_in(text)
        if kinds & TOKENS and _has_long_word(text):
            yield from tokens_in(text)
    tells = (kinds & NAMES or kinds >= PLACES_FROM or kinds == ALL) and _tells(text)
    has_paths = people and kinds & USERS and ("/" in text or "\\" in text or "%" in text)
    if tells or has_paths:
        lowered = _lowered(text)
        if tells:
            yield from placed_in(text, lowered, kinds // PLACES_FROM)
            if kinds & NAMES:
                yield from named_in(text, lowered)
        if has_paths:
            yield from users_in(text, lowered)


@cache
def _word_begins() -> re.Pattern[str]:
    """A pattern of what a single word of letters and digits begins with if it is a secret."""
    return beginnings_of(*(sign for _, sign, before, _ in FORMS if before == (0,)))


def _has_long_word(text: str) -> bool:
    """Return True if a word is as long as a token; where a token may be cut or shorter, always."""
    if "\n" in text or "\\" in text or SHORT_FORM in text:
        return True
    return max(map(len, text.split()), default=0) >= TOKEN_CHARS_MIN


def _tells(text: str) -> bool:
    """Return True if something in a text may say that a secret follows."""
    for sign in _TELLING_SIGNS:
        if sign in text:
            return True
    if not text.isascii():
        return _ANY_TELLING_WORD.search(text) is not None
    lowered = text.lower()
    return any(word in lowered for word in _TELLING_WORDS)


def _lowered(text: str) -> str:
    """In small letters, each where it was."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


# a text as it was before a terminal coloured and cut it ---------------------------------------------------------------


COLUMN_MIN = 60
"""A line that ends earlier was not cut by the width of a terminal."""
COLUMNS = 80
"""The usual width; another one is believed where two lines have it, and none is longer."""
_COLOUR = lazy_regex(r"(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[[0-9;:]{0,40}[mK]")
"""A terminal's colours, as they are or as a program writes them."""


def colours_in(text: str) -> list[int]:
    """The places of a terminal's colours."""
    if "[" not in text or not any(sign in text for sign in ("\x1b", "1b[", "1B[", "033[", "\\e[")):
        return []
    return [found.start() for found in _COLOUR.finditer(text)]


class Pieces(Struct, frozen=True):
    """Pieces of a text put together, with the place of each in the whole and in the text."""

    text: str
    starts: list[int]
    places: list[int]

    @classmethod
    def joined(cls, text: str, pieces: Iterable[tuple[int, int]]) -> Pieces:
        starts, places, parts, at = list[int](), list[int](), list[str](), 0
        for start, end in pieces:
            if start < end:
                starts.append(at)
                places.append(start)
                parts.append(text[start:end])
                at += end - start
        return cls("".join(parts), starts, places)

    @classmethod
    def uncoloured(cls, text: str) -> Pieces | None:
        """A text without its colours; None where it has none."""
        if not colours_in(text):
            return None
        colours = [found.span() for found in _COLOUR.finditer(text)]
        edges = [0, *(edge for colour in colours for edge in colour), len(text)]
        return cls.joined(text, zip(edges[::2], edges[1::2], strict=True))

    @classmethod
    def of_cut_lines(cls, text: str) -> Iterator[Pieces]:
        """The lines that a terminal's width cut, each put together again."""
        if len(text) <= COLUMN_MIN or "\n" not in text:
            return
        widths = [*map(len, text.split("\n"))]
        most = max(widths)
        # Most texts have no such line. Where lines end in two letters their widths are counted anew below.
        if most < COLUMN_MIN or ("\r" not in text and COLUMNS not in widths and widths.count(most) < 2):
            return
        starts = [0, *accumulate(width + 1 for width in widths)]
        if "\r" in text:
            widths = [
                width - (text[at + width - 1 : at + width] == "\r") for at, width in zip(starts, widths, strict=False)
            ]
            most = max(widths)
        cut = {COLUMNS, most} if widths.count(most) > 1 else {COLUMNS}
        if most < COLUMN_MIN or cut.isdisjoint(widths):
            return
        lines = [(at, at + width) for at, width in zip(starts, widths, strict=False)]
        first = 0
        for number in range(len(lines)):
            if (
                widths[number] in cut
                and number + 1 < len(lines)
                and _may_go_on(text, lines[number][1], lines[number + 1])
            ):
                continue
            if number > first:
                yield cls.joined(text, lines[first : number + 1])
            first = number + 1

    def place(self, found: FoundSecret) -> FoundSecret:
        """A finding in this, at its place in the text that this was made of."""
        return FoundSecret(found.name, self._place(found.start), self._place(found.end - 1) + 1, found.secret)

    def crossing(self, findings: Iterable[FoundSecret]) -> Iterator[FoundSecret]:
        """Those findings that go over a line's end, and go on in the next line's first word."""
        for found in findings:
            piece = self._piece(found.end - 1)
            if self._piece(found.start) < piece and self._goes_on(self.starts[piece], found.end):
                yield self.place(found)

    def _goes_on(self, start: int, end: int) -> bool:
        """Tell the rest of a secret from the next line's own word, or the name of a setting."""
        rest = self.text[start:end]
        if self.text[end : end + 1] in ("=", ":", "("):
            return False
        return not (rest.isalpha() and (rest.islower() or rest.istitle()))

    def _piece(self, at: int) -> int:
        return bisect_right(self.starts, at) - 1

    def _place(self, at: int) -> int:
        piece = self._piece(at)
        return self.places[piece] + at - self.starts[piece]


def _may_go_on(text: str, end: int, following: tuple[int, int]) -> bool:
    """Tell a line that was cut in a word from one that ended there."""
    start, stop = following
    return start < stop and not text[start].isspace() and text[start] not in "{}#" and text[end - 1] not in " ,;{})>."
