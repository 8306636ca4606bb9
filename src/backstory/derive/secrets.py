"""Secrets and people's names, replaced by masks. Pure; the shapes are in ``secret_shapes``.

A mask says what was there and which one it was, such as ``[github-token-3141592653]``. Its digits are made of the
secret and a key: with one key the same secret has the same digits in every file, without it they tell nothing.
What is masked already stays as it is, and JSON stays JSON. A secret that only a name tells (``password=``) is masked
without the name, too, once it is known: so ``learn`` everything that is shown before.
"""

from __future__ import annotations

import binascii
import operator
import re
from bisect import bisect_left, insort
from enum import Enum
from functools import cache
from itertools import filterfalse, islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from backstory.derive.packed import Packed
from backstory.derive.secret_kinds import FoundSecret
from backstory.derive.secret_names import NAMED_CHARS_MAX, is_secret_under, kind_of_name
from backstory.derive.secret_shapes import ALL, NAMES, findings_in, lines_of_key, users_in
from backstory.lazy import lazy_regex
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from backstory.derive.secret_anchors import Anchors

DEPTH_MAX = 50
"""A value that is nested deeper is masked as its JSON."""
KNOWN_CHARS_MIN = 6
"""A shorter secret is masked only where its name tells it."""
BEGUN_CHARS_MIN = 12
"""The most letters of a known secret that are masked where the rest is cut off, as in a title."""
MASK_CHARS_MAX = 60
DIGITS = 10
"""The digits of a mask: two of a thousand secrets of a kind have the same in one file of 20,000."""
KEY_BYTES = 32
ROUNDS_MAX = 8
_BASE64 = lazy_regex(r"[A-Za-z0-9+/]{14,}={0,2}")
_ENDS = lazy_regex(r"""\Z|[\s"'`,;|)\]}>]|/(?!home/|users/|var/|export/|mnt/|system/|private/|[a-z]/)""", re.IGNORECASE)
"""Characters that may follow a secret without beginning another one."""
_OPTION = lazy_regex(r"--?[A-Za-z][\w.-]*")
_UNSAFE = lazy_regex(r"[^A-Za-z0-9_.~-]")
_WITHOUT_TEXT = (type(None), bool, int, float, Enum)
"""Types of values that hold no text but perhaps the program's own."""
_SEPARATORS = {ord(sign): None for sign in "-_. "}
HEADS_SOUGHT_MAX = 24
"""The most beginnings that are sought one by one, which is faster than to look at each place of a text."""
TEXTS_MAX = 50_000
WORDS_MAX, WORD_CHARS_MAX = 300_000, 100
"""The words that are remembered at most, and the longest of them: 30 MB."""
SecretKey = tuple[bool, str]
"""A person's name or not, and the secret."""
SHORT_CHARS, SHORT_TEXTS_MAX = 1_000, 10_000
LINES_AT_ONCE = 500
STRUCTS_AT_ONCE = 500


class Redactor:
    """Masks the secrets of what it is given; remembers which it met. One report or file uses one of these.

    ``home``: the path of a home folder, which is masked; ``people``: mask people's names in such paths, too.
    ``report`` receives how many values were looked at, every ``STRUCTS_AT_ONCE``. ``key`` is asked for once there is
    something to mask; without it the digits are those of this object alone.
    """

    def __init__(
        self,
        home: str = "",
        *,
        people: bool = True,
        report: Callable[[int], None] = lambda done: None,
        key: Callable[[], bytes] | None = None,
    ) -> None:
        self._people, self._report, self._met = people, report, 0
        self._ask_key, self._key = key, b""
        self.counts: dict[str, int] = {}
        """The number of masked places, by the name of the secret's shape."""
        self._masks: dict[SecretKey, str] = {}
        self._told: list[SecretKey] = []
        self._given: set[str] = set()
        self._known = KnownSecrets()
        self._anchors: Anchors | None = None
        """Made by the first ``foresee``; without them a text is looked through for every kind."""
        self._kinds: dict[int, int] = {}
        """The kinds of secrets that may be in texts, by their hashes."""
        self._done: dict[str, tuple[str, list[str], list[SecretKey]]] = {}
        """Short texts, masked, with the names of their secrets, and those that they tell: a path is in many events."""
        self._clean: set[int] = set()
        """Hashes of texts that have no secret, and none of those that are known."""
        self._is_learning = False
        if "/" in home[1:] and not any(users_in(home, home.lower())):
            self._remember(home, FoundSecret("home", 0, 0, home))

    @property
    def known(self) -> int:
        """The number of forms of secrets that are known."""
        return len(self._known)

    def take_told(self) -> set[str]:
        """Return the masks of the secrets that were told since this was asked last.

        Not of those that only stand again where one that was told before is known by itself.
        """
        told, self._told = self._told, []
        return {self._masks[each] for each in told}

    def known_since(self, number: int) -> KnownSecrets | None:
        """The forms that came to be known after so many were; None if there are none."""
        late = KnownSecrets()
        for secret, found in islice(self._known.found.items(), number, None):
            late.add(secret, found)
        return late if late else None

    def learn(self, value: Any) -> bool:
        """Remember the secrets of a text, or of a value as JSON or an event has it; whether it has any."""
        before, self._is_learning = dict(self.counts), True
        self.value(value)
        self._is_learning = False
        has_any, self.counts = self.counts != before, before
        return has_any

    def foresee(self, value: Any) -> None:
        """Look through all texts of a value at once for what may tell a secret, which is faster than one by one."""
        if self._anchors is None:
            self._anchors = self._new_anchors()
        texts = {hash(text): text for text in texts_in(value)}
        new = [text for key, text in texts.items() if key not in self._kinds and len(text) >= KNOWN_CHARS_MIN]
        if len(self._kinds) > TEXTS_MAX:
            self._kinds.clear()
        self._kinds.update(zip(map(hash, new), self._anchors.kinds(new), strict=True))

    def share_words(self, other: Redactor) -> None:
        """Remember the words without a secret together with another one that masks the same kinds; no secrets."""
        if other._people == self._people:
            other._anchors = self._anchors = other._anchors or self._new_anchors()

    def _new_anchors(self) -> Anchors:
        from backstory.derive.secret_anchors import Anchors  # a short answer is masked sooner without it

        return Anchors(people=self._people)

    def _kinds_in(self, text: str) -> int:
        if (kinds := self._kinds.get(hash(text))) is not None or self._anchors is None:
            return ALL if kinds is None else kinds
        self._note_kinds(text, kinds := self._anchors.kinds([text])[0])
        return kinds

    def _note_kinds(self, text: str, kinds: int) -> None:
        if len(self._kinds) > TEXTS_MAX:
            self._kinds.clear()
        self._kinds[hash(text)] = kinds

    def text(self, text: str) -> str:
        """The text with its secrets masked."""
        if len(text) < KNOWN_CHARS_MIN or hash(text) in self._clean:
            return text
        if (done := self._done.get(text)) is not None:
            for name in done[1]:
                self.counts[name] = self.counts.get(name, 0) + 1
            self._told += done[2]
            return done[0]
        told = len(self._told)
        masked, names = self._masked(text)
        if names and len(text) < SHORT_CHARS and len(self._done) < SHORT_TEXTS_MAX:
            self._done[text] = masked, names, self._told[told:]
        return masked

    def _masked(self, text: str) -> tuple[str, list[str]]:
        """The text with its secrets masked, and the names of these."""
        is_whole, names, is_named = False, list[str](), False
        for _ in range(ROUNDS_MAX):
            kinds = 0 if is_whole else self._kinds_in(text)
            is_named = is_named or bool(kinds & NAMES and text.lstrip()[:1] in ("{", "["))
            shaped = list(findings_in(text, people=self._people, kinds=kinds)) if kinds else []
            if kinds and not shaped and not is_named:
                self._note_kinds(text, 0)
            found = _apart([*shaped, *self._known_in(text)]) if shaped or self._known else shaped
            if not found:
                break
            known = len(self._known)
            # Where one that stood before it is masked, another one may be seen to begin; a new one may stand twice.
            is_whole = all(_stands_apart(text, each) for each in found)
            names += [each.name for each in found]
            text = self._with_masks(text, found)
            if shaped:
                told = {_key(each) for each in shaped}
                self._told += [key for each in found if (key := _key(each)) in told]
            if is_whole and len(self._known) == known:
                break
        known = len(self._known)
        if is_named and (within := self._masked_within(text)) is not None:
            # What a name tells may stand before it without one.
            text, more = self._masked(within[0]) if len(self._known) > known else (within[0], [])
            return text, [*names, *within[1], *more]
        if not found and not is_whole:
            if is_named:
                self._note_kinds(text, 0)
            _note(hash(text), self._clean)
        return text, names

    def _masked_within(self, text: str) -> tuple[str, list[str]] | None:
        """A text that is JSON, with its values masked by their names, and the names of what was found; None if nothing.

        As a text it does not show all of them: a name may be apart from its value, and JSON in JSON quotes quotes.
        """
        try:
            decoded = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        before = dict(self.counts)
        masked = self.value(decoded)
        if masked == decoded:
            return None
        found = [name for name, count in self.counts.items() for _ in range(count - before.get(name, 0))]
        # As it was written: in lines, in one with blanks, or without.
        indent = 2 if "\n" in text.strip() else 0 if '": ' in text else -1
        return msgspec.json.format(encoded(masked), indent=indent).decode(), found

    def _with_masks(self, text: str, found: list[FoundSecret]) -> str:
        pieces, at = list[str](), 0
        for each in found:
            pieces += text[at : each.start], self._mask(text, each)
            at = each.end
        return "".join((*pieces, text[at:]))

    def value(self, value: Any) -> Any:
        """A value with its secrets masked in every text and key: what JSON has, or a Struct."""
        return self._value(value, 0)

    def json(self, text: str) -> str:
        """A text that may be JSON, and stays it: as it was, letter by letter, where it has no secret."""
        if text.lstrip()[:1] not in ("{", "["):
            return self.text(text)
        try:
            decoded = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return self.text(text)
        masked = self.value(decoded)
        return text if masked == decoded else encoded(masked).decode()

    def bytes(self, data: bytes) -> bytes:
        """The bytes of a file, or of a line of a log, likewise."""
        return self.json(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return value if _is_textless(value.__class__) else self.text(value)
        if isinstance(value, Struct):
            return self._struct(value, depth)
        if isinstance(value, Packed):
            return self._packed(value, depth)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth > DEPTH_MAX:
            return msgspec.json.decode(self.text(msgspec.json.encode(value).decode()))
        if isinstance(value, dict):
            return self._dict(value, depth)
        items = list(self._items(value, depth))
        if isinstance(value, tuple) and all(map(operator.is_, items, value)):
            return value
        # A NamedTuple takes its items apart.
        return getattr(type(value), "_make", type(value))(items)

    def _packed(self, values: Packed[Any], depth: int) -> Packed[Any]:
        if not self._is_learning:
            return values.changed(lambda each: self._value(each, depth + 1))
        for each in values:
            self._value(each, depth + 1)
        return values

    def _struct(self, value: Struct, depth: int) -> Struct:
        """A Struct with its secrets masked; itself where it has none."""
        masked = dict[str, Any]()
        self._met += 1
        if not self._met % STRUCTS_AT_ONCE:
            self._report(self._met)
        for number, field in enumerate(msgspec.structs.astuple(value)):
            # Most fields of very many values are these: it is decided here, without a call for each.
            if not field or _is_textless(kind := field.__class__):
                continue
            if kind is not str:
                shown = self._value(field, depth + 1)
            elif len(field) < KNOWN_CHARS_MIN or hash(field) in self._clean:
                continue
            else:
                shown = self.text(field)
            if shown is not field:
                masked[value.__struct_fields__[number]] = shown
        return msgspec.structs.replace(value, **masked) if masked else value

    def _dict(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        if len(value) == 1 and (masked_bytes := self._base64(value)) is not None:
            return masked_bytes
        # {"name": "DB_PASSWORD", "value": "…"}, as settings of containers have it.
        about = next((value[key] for key in ("name", "key", "Name", "Key") if isinstance(value.get(key), str)), "")
        masked: dict[Any, Any] = {}
        for key, each in value.items():
            named = about if key in ("value", "Value") else key
            shown = self.text(key) if isinstance(key, str) else key
            masked[shown] = self._named(named, each, depth) if isinstance(named, str) else self._value(each, depth + 1)
        return masked

    def _base64(self, value: dict[Any, Any]) -> dict[Any, Any] | None:
        """A value that stands for bytes, which hold a secret; None of all others."""
        ((key, each),) = value.items()
        if not isinstance(each, str) or len(each) % 4 or not _BASE64.fullmatch(each):
            return None
        text = binascii.a2b_base64(each).decode("utf-8", "surrogateescape")
        masked = self.text(text)
        if masked == text:
            return None
        return {key: binascii.b2a_base64(masked.encode("utf-8", "surrogateescape"), newline=False).decode()}

    def _items(self, items: Iterable[Any], depth: int) -> Iterator[Any]:
        """The items of a list; in a command line a word may name the next one."""
        option = ""
        for each in items:
            yield self._named(option, each, depth) if option else self._value(each, depth + 1)
            is_option = isinstance(each, str) and each[:1] == "-" and len(each) < 60 and _OPTION.fullmatch(each)
            option = each if is_option else ""

    def _named(self, name: str, value: Any, depth: int) -> Any:
        """The value under a name, which may tell that it is a secret."""
        kind = kind_of_name(name) if isinstance(value, str | int) and len(name) < 200 else None
        if kind is None or isinstance(value, bool):
            return self._value(value, depth + 1)
        text = str(value)
        if (isinstance(value, int) and kind != "password") or not is_secret_under(name, kind, text):
            return self._value(value, depth + 1)
        found = _apart([*findings_in(text, people=self._people), FoundSecret(kind, 0, len(text), text)])
        self._told.append(_key(found[0]))
        return self._mask(text, found[0])

    def _mask(self, text: str, found: FoundSecret) -> str:
        """The mask of a finding; a number between quotes of a JSON text becomes a text."""
        self.counts[found.name] = self.counts.get(found.name, 0) + 1
        mask = self._mask_of(found)
        if found.name in ("password", "secret") and text[found.start : found.end].isdigit():
            quote = text[: found.start].rstrip(" \t\r\n")[:-1].rstrip(" \t\r\n")[-2:]
            if quote.endswith('"') and text[found.start - 1 : found.start] != '"':
                mark = '\\"' if quote == '\\"' else '"'
                return f"{mark}{mask}{mark}"
        return mask

    def _mask_of(self, found: FoundSecret) -> str:
        # A secret has one mask, whatever tells it; a person may have the name of one.
        if (key := _key(found)) not in self._masks:
            self._masks[key] = f"[{found.name}-{self.digits(found)}]"
            self._given.add(self._masks[key])
            if found.name == "user":
                for folder in ("home", "Users"):
                    self._remember(f"-{folder}-{found.secret.replace('.', '-')}-", found)
            elif found.name == "private-key":
                for line in lines_of_key(found.secret):
                    self._remember(line, found)
            else:
                self._remember(found.secret, found)
        return self._masks[key]

    def mask(self, name: str, text: str) -> str:
        """A mask for what is no secret and shall not be read all the same; it is masked nowhere else for that."""
        return f"[{name}-{self.digits(FoundSecret(name, 0, len(text), text))}]"

    def digits(self, found: FoundSecret) -> str:
        """The digits in the mask of a secret, whatever its kind; those of a person's name are others."""
        from hmac import digest  # most texts have nothing to mask
        from secrets import token_bytes

        self._key = self._key or (token_bytes(KEY_BYTES) if self._ask_key is None else self._ask_key())
        said = digest(self._key, (b"user " if found.name == "user" else b"secret ") + _bytes(found.secret), "sha256")
        return f"{int.from_bytes(said[:8], 'big') % 10**DIGITS:0{DIGITS}}"

    def _remember(self, secret: str, found: FoundSecret) -> None:
        """Mask this wherever it stands, also as JSON or a URL writes it."""
        if len(secret) < KNOWN_CHARS_MIN or (_is_plain(secret) and len(secret) < BEGUN_CHARS_MIN):
            return
        self._clean, self._done = set(), {}
        self._known.add(secret, found)
        if secret.isascii() and secret.isalnum():
            return
        in_url = _UNSAFE.sub(lambda sign: "".join(f"%{byte:02X}" for byte in _bytes(sign.group())), secret)
        for each in (_bare_json(secret), in_url):
            self._known.add(each, found)

    def _known_in(self, text: str) -> Iterator[FoundSecret]:
        for at, end, secret, found in self._known.places_in(text):
            start, stop = (secret.rindex("-", 0, -1) + 1, -1) if found.name == "user" else (0, 0)
            end -= (end - at - len(text[at:end].rstrip("\\"))) % 2  # What escapes the next sign stays.
            if not self._is_in_mask(text, at, end):
                yield FoundSecret(found.name, at + start, end + stop, found.secret)

    def _is_in_mask(self, text: str, start: int, end: int) -> bool:
        """Return True if this is a part of a mask of ours: a secret may begin like the name of a shape."""
        opened = text.rfind("[", max(start - MASK_CHARS_MAX, 0), start)
        closed = text.find("]", end, end + MASK_CHARS_MAX)
        return opened >= 0 and closed >= 0 and text[opened : closed + 1] in self._given


class SecretCount:
    """Counts the different secrets of texts that are written as they are."""

    def __init__(self) -> None:
        self._met: set[str] = set()

    def __len__(self) -> int:
        return len(self._met)

    def add(self, text: str) -> None:
        """Count those of one more text."""
        self._met |= {each.secret for each in findings_in(text, people=False)}

    def counting(self, lines: Iterable[str]) -> Iterator[str]:
        """The same lines, counted as they are passed on; a secret may be in several of them."""
        held = list[str]()
        for line in lines:
            yield line
            held.append(line)
            if len(held) == LINES_AT_ONCE:
                self.add("\n".join(held))
                held.clear()
        self.add("\n".join(held))


class KnownSecrets:
    """Secrets as they may be written, by their first letters: a text is read once, however many there are."""

    def __init__(self) -> None:
        self.found: dict[str, FoundSecret] = {}
        self._begun: dict[str, list[str]] = {}
        """Secrets in order, by as many of their letters as are masked where the rest is cut off."""
        self._lengths: dict[str, set[int]] = {}
        """The lengths of those beginnings, by their first letters."""
        self._firsts = set[str]()
        """The first letter of each, as there may be too many secrets to look through them for each text."""
        self._spaced = list[str]()
        """The first letters of those with a blank in them: of all others they lie in one word."""
        self._plain, self._telling = set[str](), set[str]()
        """Words of texts without the first letters of any secret, and with some: most words were in other texts."""

    def __len__(self) -> int:
        return len(self.found)

    @property
    def has_escaped(self) -> bool:
        """True if JSON writes one of them otherwise than it is."""
        return any(_bare_json(each.secret) != each.secret for each in self.found.values())

    def add(self, secret: str, found: FoundSecret) -> None:
        """Know a secret; of one that is known already, what was known first counts."""
        if secret in self.found:
            return
        self.found[secret] = found
        begun = secret if found.name in ("home", "user") else secret[:BEGUN_CHARS_MIN]
        insort(self._begun.setdefault(begun, []), secret)
        self._firsts.add(begun[0])
        head = begun[:KNOWN_CHARS_MIN]
        if head not in self._lengths:
            self._lengths[head] = set()
            self._spaced += [head] if head.split() != [head] else []
            self._plain.clear()
        self._lengths[head].add(len(begun))

    def places_in(self, text: str) -> Iterator[tuple[int, int, str, FoundSecret]]:
        """Yield the start and end of each known secret, the longest that the text agrees with, and its finding."""
        behind = 0
        for at in self._heads_in(text):
            if at < behind:
                continue
            for length in self._lengths[text[at : at + KNOWN_CHARS_MIN]]:
                alike = self._begun.get(text[at : at + length])
                if alike is not None:
                    same, secret = _longest(alike, text, at)
                    behind = max(behind, at + same)
                    yield at, at + same, secret, self.found[secret]

    def _heads_in(self, text: str) -> Iterable[int]:
        """Yield the places of the first letters of any known secret."""
        if len(heads := self._lengths) > HEADS_SOUGHT_MAX:
            if (firsts := self._firsts).isdisjoint(text) or not self._has_head(text):
                return ()
            return [at for at, sign in enumerate(text) if sign in firsts and text[at : at + KNOWN_CHARS_MIN] in heads]
        return sorted(at for head in heads if head in text for at in _all_of(head, text))

    def _has_head(self, text: str) -> bool:
        """Return True if the first letters of any secret are in a text, by its words."""
        words = list(filterfalse(self._plain.__contains__, text.split()))
        if not self._telling.isdisjoint(words) or any(head in text for head in self._spaced):
            return True
        heads = self._lengths
        for word in words:
            if any(word[at : at + KNOWN_CHARS_MIN] in heads for at in range(len(word) - KNOWN_CHARS_MIN + 1)):
                self._note(self._telling, word)
                return True
            self._note(self._plain, word)
        return False

    def _note(self, words: set[str], word: str) -> None:
        if len(word) <= WORD_CHARS_MAX:
            if len(words) >= WORDS_MAX:
                words.clear()
            words.add(word)


@cache
def _is_textless(kind: type) -> bool:
    return issubclass(kind, _WITHOUT_TEXT)


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text of a value, and every key."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if each.__class__ is str:
            yield each
        elif isinstance(each, dict):
            waiting += each
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Struct):
            waiting += msgspec.structs.astuple(each)


def _note(key: int, met: set[int]) -> None:
    if len(met) == TEXTS_MAX:
        met.clear()
    met.add(key)


def _all_of(head: str, text: str) -> Iterator[int]:
    at = text.find(head)
    while at >= 0:
        yield at
        at = text.find(head, at + 1)


def _longest(alike: list[str], text: str, at: int) -> tuple[int, str]:
    """Return how far a text agrees with secrets that begin alike, and with which one (they are in order)."""
    near = bisect_left(alike, text[at : at + NAMED_CHARS_MAX]) if len(alike) > 1 else 0
    return max((_same(text, at, each), each) for each in alike[max(near - 1, 0) : near + 1])


def _is_plain(secret: str) -> bool:
    """Tell a word, words or a number, which may stand in a text without being meant, from a secret that cannot."""
    bare = secret.translate(_SEPARATORS)
    return bare.isalpha() or bare.isdigit()


def _same(text: str, at: int, secret: str) -> int:
    """Return the number of letters of a secret at this place."""
    part = text[at : at + len(secret)]
    if part == secret:
        return len(secret)
    return next((n for n, (a, b) in enumerate(zip(part, secret, strict=False)) if a != b), len(part))


def _stands_apart(text: str, found: FoundSecret) -> bool:
    """Return True if no other secret can be seen to begin or end beside this one once it is masked."""
    before = text[found.start - 1 : found.start] if found.start else ""
    return _ENDS.match(text, found.end) is not None and not before.isalnum() and before not in ("_", "-")


def _apart(findings: list[FoundSecret]) -> list[FoundSecret]:
    """Findings in order; those that overlap become one, of the shape that was looked for first."""
    apart: list[tuple[int, FoundSecret]] = []
    for rank, each in sorted(enumerate(findings), key=lambda ranked: ranked[1].start):
        if apart and each.start < apart[-1][1].end:
            last_rank, last = apart[-1]
            first = last if last_rank < rank else each
            united = FoundSecret(first.name, last.start, max(last.end, each.end), first.secret)
            apart[-1] = min(last_rank, rank), united
        else:
            apart.append((rank, each))
    return [each for _, each in apart]


def _key(found: FoundSecret) -> SecretKey:
    return found.name == "user", found.secret


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _bare_json(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    try:
        return msgspec.json.encode(text).decode()[1:-1]
    except UnicodeEncodeError:
        return text
