"""The secrets of a record or a file, each as the kind and the digits in its mask, and never itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.derive.secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from backstory.derive.secret_kinds import FoundSecret

SHAPES_VERSION = 4
"""Raised when the shapes change, so that what was looked through by earlier ones is looked through again."""
KEY = "private-key"
KEY_SIGNS = ("-----BEGIN ", "-----END ", "Private-Lines:")
"""One of these stands between the lines of two keys."""


class NamedSecret(msgspec.Struct, frozen=True, array_like=True):
    """A secret without itself: what is in its mask."""

    kind: str
    digits: str
    """Made with the machine's key: of the same secret the same, and of no use to anybody else."""

    @property
    def name(self) -> str:
        """The mask without its brackets: ``github-token-3141592653``."""
        return f"{self.kind}-{self.digits}"


class SecretFinder:
    """Finds the secrets of records as masks find them. What one record tells is not looked for in the next."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key
        self._words = Redactor(people=False, key=key)

    def found_in(self, data: bytes) -> list[NamedSecret]:
        """Return the secrets of a record or a file: JSON, or a text. Raises nothing that names a value."""
        redactor = _Listing(self._key)
        redactor.share_words(self._words)
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            value = data.decode("utf-8", "surrogateescape")
        redactor.foresee(value)
        redactor.learn(value)
        return redactor.listed()


class _Listing(Redactor):
    """Lists what it was told of."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        super().__init__(people=False, key=key)
        self._named_by = dict[str, str]()
        """For a line of a private key, and for a whole one, the line that names it, or the whole."""

    def _with_masks(self, text: str, found: list[FoundSecret]) -> str:
        lines, begin = list[str](), 0
        for each in [each for each in found if each.name == KEY]:
            if text.startswith(KEY_SIGNS, each.start) or any(text.find(s, begin, each.start) >= 0 for s in KEY_SIGNS):
                self._name(lines)
                lines = []
            lines.append(each.secret)
            begin = each.start
        self._name(lines)
        return super()._with_masks(text, found)

    def _name(self, lines: list[str]) -> None:
        """Name a key by its second line: the first one is the same in all keys of a kind."""
        if lines:
            name = lines[min(1, len(lines) - 1)]
            name = next((known for known in self._named_by.values() if name in known or known in name), name)
            for line in lines:
                self._named_by.setdefault(line, name)

    def listed(self) -> list[NamedSecret]:
        """Return each secret once, in the order in which they stand there; the lines of a key are one."""
        found = dict[NamedSecret, None]()
        for key in self._told:
            name = self._masks[False, self._named_by[key[1]]] if key[1] in self._named_by else self._masks[key]
            kind, _, digits = name[1:-1].rpartition("-")
            found[NamedSecret(kind, digits)] = None
        return list(found)
