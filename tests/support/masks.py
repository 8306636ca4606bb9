"""Masks whose digits a test can write down."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.derive.secrets import Redactor

if TYPE_CHECKING:
    from backstory.derive.secret_kinds import FoundSecret

_MASK = re.compile(r"\[([a-z0-9]+(?:-[a-z]+)*)-([0-9]{10})(\\?)\]")


class NumberedRedactor(Redactor):
    """Numbers the secrets of a kind in the order in which it meets them."""

    def digits(self, found: FoundSecret) -> str:
        met = self.__dict__.setdefault("met", {}).setdefault(found.name, {})
        return str(met.setdefault(found.secret, len(met) + 1))


def numbered(text: str) -> str:
    """A text whose masks have numbers in place of their digits, of each kind in the order in which they stand in it."""
    met: dict[str, dict[str, int]] = {}

    def number(found: re.Match[str]) -> str:
        of_kind = met.setdefault(found[1], {})
        return f"[{found[1]}-{of_kind.setdefault(found[2], len(of_kind) + 1)}{found[3]}]"

    return _MASK.sub(number, text)
