"""Stand-ins for modules and regular expressions, which are imported and compiled when they are first used.

A command uses few of the expressions that it imports, and one that reads needs little of what writes. A module that
imports another in this way names it twice: to type checkers as it is, and to Python as its stand-in. What other
people's modules import for a rare use is put off by ``import_lean``.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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


class _LeanModule(LazyModule):
    """The same for a module that is imported by ``import_lean``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if self._name not in sys.modules:
            import_lean(self._name)
        return super().__getattr__(name)


def lean_module(name: str) -> Any:
    """A stand-in for another people's module, which is imported by ``import_lean`` when it is asked for anything."""
    return _LeanModule(name)


class _Unasked(LazyModule):
    """Stands in ``sys.modules`` for a module while another one imports it, until it is asked for more than it knows."""

    __slots__ = ("_known",)

    def __init__(self, name: str, known: Mapping[str, Callable[..., str]]) -> None:
        super().__init__(name)
        self._known = known

    def __getattr__(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if name == "__spec__":
            # Python asks whether a module that it finds is still being imported.
            raise AttributeError(name)
        found: object = sys.modules.get(self._name)
        if found is self:
            del sys.modules[self._name]
        return super().__getattr__(name)


def _cleandoc(text: str) -> str:
    """Return what ``inspect.cleandoc`` does, which is imported for texts of several lines only."""
    if "\n" not in text and "\t" not in text:
        return text.lstrip()
    import inspect

    return inspect.cleandoc(text)


def _system() -> str:
    return os.uname().sysname


def _implementation() -> str:
    return "CPython" if sys.implementation.name == "cpython" else sys.implementation.name


_RARELY_USED: dict[str, Mapping[str, Callable[..., str]]] = {
    "inspect": {"cleandoc": _cleandoc},
    "ipaddress": {},
    "msgspec.inspect": {},
    "platform": {"system": _system, "python_implementation": _implementation} if hasattr(os, "uname") else {},
    "textwrap": {},
}
"""Modules that pathlib, click, msgspec and zstandard import, with the functions that these call at once: 15 ms."""
_UNNEEDED = "typing_extensions"
"""msgspec takes what it needs of it from ``typing`` where it is not installed."""


def import_lean(*names: str) -> None:
    """Import other people's modules, and what they rarely use of the standard library only when they use it."""
    every: dict[str, Any] = {name: _Unasked(name, known) for name, known in _RARELY_USED.items()} | {_UNNEEDED: None}
    stand_ins = {name: each for name, each in every.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        for name in names:
            import_module(name)
    finally:
        for name, stand_in in stand_ins.items():
            if name in sys.modules and sys.modules[name] is stand_in:
                del sys.modules[name]


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
