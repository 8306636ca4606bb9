"""Values that stored sessions have, for a filter whose value none of them has. Functions take the connection."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from backstory.store import codec, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import apsw

    from backstory.store.codec import EventCodec

PATHS_MAX = 20_000
"""The most files whose names are compared with a misspelt one."""


class _Called(Struct):
    tool_name: str = ""
    tool: str = ""


class _Call(Struct):
    call: _Called = field(default_factory=_Called, name="ToolCall")


def agents(db: apsw.Connection) -> set[str]:
    """The agents that answered in a session, or whose log one was read from."""
    return {str(name) for (name,) in db.execute("select agent from turns union select agent from logs")}


def tools(db: apsw.Connection) -> set[str]:
    """The tools that were called, by their agents' names and by ours of their kinds; all calls are read."""
    return {name for _, names in called(db) for name in names if name}


def called(db: apsw.Connection) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the session of each call, and its tool: the agent's name for it, and ours of its kind."""
    decoder, codecs = msgspec.json.Decoder(_Call), dict[int, "EventCodec"]()
    for session_id, data in db.execute(f"select session_id, data from events where kind in {schema.CALLS}"):
        call = decoder.decode(codec.unpack_event(db, codecs, data)).call
        yield session_id, (call.tool_name, call.tool)


def _repositories(db: apsw.Connection) -> set[str]:
    return _texts(db, "select distinct repository from sessions where repository is not null")


def _branches(db: apsw.Connection) -> set[str]:
    return _texts(db, "select branch from sessions where branch is not null union select branch from session_branches")


def _files(db: apsw.Connection) -> set[str]:
    paths = _texts(db, f"select file_path from session_files order by id desc limit {PATHS_MAX}")
    return {PurePosixPath(path).name for path in paths}


def projects(db: apsw.Connection) -> set[str]:
    """The last part of the name of each project."""
    return {each.strip("/").rpartition("/")[2] for each in _texts(db, "select distinct project from sessions")}


def models(db: apsw.Connection) -> set[str]:
    """The models that answered."""
    return _texts(db, "select distinct model from turns where model is not null")


def _texts(db: apsw.Connection, sql: str) -> set[str]:
    return {str(text) for (text,) in db.execute(sql)}


OPEN: Mapping[str, tuple[str, Callable[[apsw.Connection], set[str]] | None]] = {
    "repository": ("is of repository", _repositories),
    "branch": ("was on branch", _branches),
    "path": ("touched", _files),
    "ref": ("names", None),
    "in_project": ("is of project", projects),
    "model": ("has an answer of model", models),
    "title": ("has a title with", None),
}
"""The filters that take any value: in words, and the values that are near one that nobody has."""
