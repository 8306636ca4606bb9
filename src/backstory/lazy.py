"""Stand-ins for modules and regular expressions, which are imported and compiled when they are first used.

A command uses few of the expressions that it imports, and one that reads needs little of what writes. A module that
imports another in this way names it twice: to type checkers as it is, and to Python as its stand-in.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from types import ModuleType
    from typing import AnyStr


class LazyModule:
    """Stands for a module, and imports it when it is first asked for anything."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module: ModuleType | None = sys.modules.get(self._name)
        try:
            return getattr(module, name)
        except AttributeError:
            # Not imported, or another thread is just importing it, which is waited for.
            return getattr(import_module(self._name), name)


def lazy_module(name: str) -> Any:
    """A stand-in for the module with this full name: what is asked of it is what the module has then."""
    return LazyModule(name)


_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class LazyRegex:
    """Stands for a ``re.Pattern``, and becomes one when it is first asked for anything."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled: re.Pattern[Any] = re.compile(self._pattern, self._flags)
        # From now on these are found before this method is asked.
        self.__dict__.update((each, getattr(compiled, each)) for each in _METHODS)
        return getattr(compiled, name)


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern like ``re.compile``, but compile it on its first use."""
    return cast("re.Pattern[AnyStr]", LazyRegex(pattern, flags))
