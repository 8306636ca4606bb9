"""Modules that are imported when they are first used, because a command that reads needs little of what writes.

A module that imports such a module names it twice: to type checkers as it is, and to Python as its stand-in.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


class LazyModule:
    """Stands for a module, and imports it when it is first asked for anything."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module: ModuleType = sys.modules.get(self._name) or import_module(self._name)
        return getattr(module, name)


def lazy_module(name: str) -> Any:
    """A stand-in for the module with this full name: what is asked of it is what the module has then."""
    return LazyModule(name)
