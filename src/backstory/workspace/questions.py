"""The filter of a question: its fields, once for the options of commands, the arguments of tools, the URLs of pages.

A face shows a field by its ``name`` and ``about``, and hands on what was typed to ``read``.
"""

from __future__ import annotations

from datetime import datetime
from posixpath import normpath
from typing import TYPE_CHECKING, Any, NamedTuple

from backstory.errors import UnknownValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

TEXT, PATH, SINCE, UNTIL, CHOICE = "text", "path", "since", "until", "choice"


class Field(NamedTuple):
    """A field of the filter. ``key``: the field of ``Selection`` that it fills; ``kind``: how its text is read.

    ``of_events``: it chooses events, so only a search has it.
    """

    name: str
    key: str
    about: str
    kind: str = TEXT
    choices: tuple[str, ...] = ()
    of_events: bool = False

    @property
    def hint(self) -> str:
        """The same in fewer words."""
        return self.about.removeprefix("Only sessions ").removeprefix("Only ").rstrip(".")


FILTER = (
    Field("agent", "agent", "Only sessions of this agent."),
    Field("repo", "repository", "Only sessions in this repository: owner/name, or name."),
    Field("project", "in_project", "Only sessions of this project: its name, the end of it, or its folder.", PATH),
    Field("branch", "branch", "Only sessions that were on this git branch; * stands for anything."),
    Field("path", "path", "Only sessions that touched this file or folder, or a path that ends so.", PATH),
    Field("ref", "ref", "Only sessions that name this: 12, 1a2b3c4, ABC-12, a URL."),
    Field("tool", "tool", "Only sessions that called this tool; in a search only its calls, and what came back."),
    Field("model", "model", "Only sessions that this model answered in; a part of its name is enough."),
    Field(
        "status", "status", "Only sessions whose last turn ended so, or that are running.", CHOICE,
        ("completed", "failed", "cancelled", "crashed", "running"),
    ),
    Field("grep", "title", "Only sessions with this text in their title."),
    Field(
        "role", "role", "Only what the user, the assistant, a tool, … said.", CHOICE,
        ("assistant", "system", "tool", "user"), of_events=True,
    ),
    Field("since", "since", "Only from this time on: 2026-11-01, yesterday, monday, 'last week', '3 days', 2h.", SINCE),
    Field("until", "until", "Only up to this time; a day, week or month to its end.", UNTIL),
)  # fmt: skip
"""The fields in the order in which help lists them."""


def fields(*, of_events: bool = False) -> Iterator[Field]:
    """Yield the fields that choose sessions; for a search also those that choose events."""
    return (each for each in FILTER if of_events or not each.of_events)


def read(
    typed: Mapping[str, str | None],
    folder: Path | None = None,
    home: Path | None = None,
    *,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return what was typed for fields as keywords of a ``Selection``; '' and None are left out.

    ``folder`` and ``home``: where a path that begins with ``./`` or ``~/`` begins; None: such a path is taken as it is.
    ``now``: None is now, without a zone, so that it is in the system's, whose summer time it then knows. Names that no
    field has are passed over. Raises BadTime, UnknownValue.
    """
    now = now or datetime.now()
    return {each.key: _read(each, text, now, folder, home) for each in FILTER if (text := typed.get(each.name))}


def _read(field: Field, text: str, now: datetime, folder: Path | None, home: Path | None) -> Any:
    if field.kind in (SINCE, UNTIL):
        from backstory import times  # few questions have a time

        return (times.since if field.kind == SINCE else times.until)(text, now)
    if field.kind == CHOICE and text not in field.choices:
        raise UnknownValue(field.name, text, field.choices)
    if field.kind == PATH:
        # One that is no more than a name is the end of it, wherever that lies.
        if home is not None and text.startswith("~/"):
            text = str(home / text[2:])
        elif folder is not None and (text in (".", "..") or text.startswith(("./", "../"))):
            text = normpath(folder / text)
    # Invalid bytes of an argument become replacement characters.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
