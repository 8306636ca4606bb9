"""Regular expressions that are compiled when they are first used, because a command uses few of those it imports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing import AnyStr

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
    """What ``re.compile`` returns, except that compiling waits for the first use."""
    return cast("re.Pattern[AnyStr]", LazyRegex(pattern, flags))
