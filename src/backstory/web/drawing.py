"""Templates, and where their links lead: to other pages, or in a file to places in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

    from jinja2.bccache import Bucket

    from backstory.web.reading import PageEntry


class PlaceLinks(Protocol):
    """Addresses for the links of a session's page; one is '' where nothing is to be had."""

    is_file: bool
    layout: str
    """The template around the page."""

    def session(self, uid: str) -> str:
        """The address of a session."""

    def entry(self, uid: str, place: str | int) -> str:
        """The address of an entry."""

    def image(self, uid: str, place: str, number: int) -> str:
        """The address of an image of an event."""

    def whole(self, item: PageEntry) -> Sequence[str]:
        """The texts that a file has in the place of a link to all that a record says."""


class PageLinks:
    """Links between pages that are served. ``acts``: one leads to the field for a new session.

    ``of_team``: they are a server's, to which one logs in; the others: whether it has these pages.
    """

    is_file = False
    layout = "base.html"

    def __init__(
        self, *, acts: bool, of_team: bool = False, searches: bool = True, reports: bool = True, compares: bool = True
    ) -> None:
        self.acts, self.of_team, self.searches, self.reports, self.compares = acts, of_team, searches, reports, compares

    def session(self, uid: str) -> str:
        return f"/s/{uid}"

    def entry(self, uid: str, place: str | int) -> str:
        return f"/s/{uid}/{place}"

    def image(self, uid: str, place: str, number: int) -> str:
        return f"/s/{uid}/{place}/image/{number}"

    def whole(self, item: PageEntry) -> Sequence[str]:
        return ()


class _Compiled(BytecodeCache):
    """The templates as they were compiled first in this process: an export of many sessions has links of each."""

    def __init__(self) -> None:
        self._known: dict[str, CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._known.get(bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._known[bucket.key] = bucket.code


_COMPILED = _Compiled()


def environment(links: PlaceLinks) -> Environment:
    """The templates with these links."""
    found = Environment(
        loader=PackageLoader("backstory.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, bytecode_cache=_COMPILED,
    )  # fmt: skip
    found.globals["links"] = links
    return found
