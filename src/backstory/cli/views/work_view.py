"""Results of work, in words that reports share: files, checks, references."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.chronicle.progress import Status
from backstory.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.chronicle.progress import LastCheck, Results
    from backstory.store.intake.derived_tables import StoredRef

FILES_SHOWN = 5
REFS_SHOWN = 6
MARKS = {Status.DONE: ("✓", "green"), Status.IN_PROGRESS: ("…", "yellow"), Status.STUCK: ("✗", "red")}
_REFS = {"pr": "PR", "issue": "issue", "commit": "commit"}
_HOW = {True: "passed", False: "failed", None: "ended unknown"}


def came_lines(results: Results) -> Iterator[str]:
    """Yield the results of work, a few words each: files, commits, checks."""
    if results.files:
        yield f"Files: {names(results.files, FILES_SHOWN)}"
    if results.elsewhere:
        yield output.counted(len(results.elsewhere), "file") + " elsewhere"
    if results.commits:
        yield output.counted(results.commits, "commit")
    yield from map(check_line, results.checks)


def names(shown: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def check_line(check: LastCheck) -> str:
    """Return the outcome of the last tests or the last build, and its record."""
    return f"{check.kind} {_HOW[check.ok]} (@{check.seq})"


def ref_words(each: StoredRef) -> str:
    """A pull request, issue or commit, with the day of which its state is."""
    name = f"#{each.value}" if each.value.isdecimal() and each.type != "commit" else each.value[:40]
    as_of = f" (as of {output.local(each.created_at)[:10]})" if each.created_at and each.type != "commit" else ""
    return f"{_REFS.get(each.type, each.type)} {name}{as_of}"
