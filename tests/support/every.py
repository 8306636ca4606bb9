"""One test of many cases that need nothing: it runs each, and fails with every case that does.

A case of its own costs pytest more than most of these cases take, in each process that runs tests.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def every(
    names: str | Sequence[str], cases: Iterable[Any], ids: Callable[[Any], object] | Sequence[object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like ``pytest.mark.parametrize``, as one test. A message names a case by its id, or by its values.

    Several of them over a test run each case of one with each of the others.
    """
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [(case,) if len(named) == 1 else tuple(case) for case in cases]
    assert values, "there are no cases"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def of_all(**others: Any) -> None:
            failed = {}
            for number, case in enumerate(values):
                try:
                    test(**dict(zip(named, case, strict=True)), **others)
                except Exception as error:
                    failed[_id(ids, number, case)] = "".join(traceback.format_exception(error)[-3:])
            assert not failed, f"{len(failed)} of {len(values)}: " + "\n\n".join(
                f"{name}\n{why}" for name, why in failed.items()
            )

        of_all.__name__, of_all.__qualname__ = test.__name__, test.__qualname__
        of_all.__doc__, of_all.__module__ = test.__doc__, test.__module__
        return of_all

    return decorate


def _id(ids: Callable[[Any], object] | Sequence[object] | None, number: int, case: tuple[Any, ...]) -> str:
    if ids is None:
        return f"case {number}: {case!r:.300}"
    return str(ids[number]) if not callable(ids) else "-".join(str(ids(each)) for each in case)
