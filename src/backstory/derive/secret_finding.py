"""The secrets of a record or a file, each as the kind and the digits in its mask, and never itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from backstory.derive.secrets import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES_VERSION = 1
"""Raised when the shapes change, so that what was looked through by earlier ones is looked through again."""
KEY = "private-key"


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
        redactor = _Listing(people=False, key=self._key)
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

    def listed(self) -> list[NamedSecret]:
        """Return each secret once, in the order in which they stand there; the lines of a key are one."""
        found = dict[NamedSecret, None]()
        for key in self._told:
            kind, _, digits = self._masks[key][1:-1].rpartition("-")
            if kind != KEY or not any(each.kind == KEY for each in found):
                found[NamedSecret(kind, digits)] = None
        return list(found)
