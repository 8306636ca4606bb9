"""A number or a hash that was named, made a ref: whose it is, and each once."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from backstory.lazy import lazy_regex
from backstory.model import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable

PR, ISSUE, COMMIT = "pr", "issue", "commit"
WRITTEN_MAX = 64 * 1024
"""Addresses are looked for in the first so many characters of what a call writes."""


class Named(Struct, frozen=True):
    """A number or hash with what its surroundings say; ``repository`` is None for the session's own."""

    type: str
    value: str
    host: str | None = None
    repository: str | None = None


class Home(Struct, frozen=True):
    host: str | None = None
    repository: str | None = None


_REMOTE = lazy_regex(r"(?:[a-z+]+://(?:[^@/]*@)?([^/:]+(?::\d+)?)/|(?:[^@/:]+@)?([^/:]+\.[^/:]+):(?!//))(.+)", re.I)


@lru_cache(maxsize=256)
def home_of(repository: str | None, host: str | None) -> Home:
    """The session's repository; a remote's URL holds its host too."""
    if not repository:
        return Home(host, None)
    found = _REMOTE.fullmatch(repository)
    if found is not None:
        host, repository = found.group(1) or found.group(2), found.group(3)
    elif repository.count("/") > 1 and "." in repository.partition("/")[0]:
        host, _, repository = repository.partition("/")
    name = repository.strip("/").removesuffix(".git")
    if host is not None:
        host, name = canonical(host.lower(), name)
    return Home(host, name.replace("/_git/", "/"))


def canonical(host: str, path: str) -> tuple[str, str]:
    """Azure DevOps under its newer name, and without the names that only its clones and older pages have."""
    if host.endswith(".visualstudio.com"):
        path = f"{host.partition('.')[0]}/{path.removeprefix('DefaultCollection/')}"
        return "dev.azure.com", path
    if host in ("ssh.dev.azure.com", "vs-ssh.visualstudio.com"):
        return "dev.azure.com", path.removeprefix("v3/")
    return host.removeprefix("www."), path


def refs_of(named: Iterable[Named], home: Home) -> list[Ref]:
    return unique([_ref(each, home) for each in named])


def _ref(named: Named, home: Home) -> Ref:
    host, repository = named.host or home.host, named.repository
    if repository is None or _is_home(named, home):
        return Ref(named.type, named.value, host, repository or home.repository)
    return Ref(named.type, f"{repository}{'@' if named.type == COMMIT else '#'}{named.value}", host, repository)


def _is_home(named: Named, home: Home) -> bool:
    if home.repository is None or (named.host and home.host and named.host != home.host):
        return False
    ours, theirs = home.repository.lower(), (named.repository or "").lower()
    # A work item of Azure DevOps belongs to the project that its repositories belong to.
    return ours == theirs or (named.type == ISSUE and named.host == "dev.azure.com" and ours.startswith(f"{theirs}/"))


def unique(refs: list[Ref]) -> list[Ref]:
    """Each once: a commit also if it is written in two lengths, and a bare number also if its URL stands beside it."""
    if len(refs) < 2:
        return refs
    placed = {(each.type, each.value.rpartition("#")[2]) for each in refs if each.repository is not None}
    kept: dict[tuple[str, ...], Ref] = {}
    for each in refs:
        if each.repository is None and (each.type, each.value) in placed:
            continue
        key = (each.type, each.value, "") if each.type != COMMIT else (COMMIT, _start_of_hash(each.value), "")
        known = kept.get(key)
        if known is not None and known.host and each.host and known.host != each.host:
            key = (*key[:2], each.host)
            known = kept.get(key)
        if known is None:
            kept[key] = each
        elif known.host is None and each.host is not None:
            kept[key] = msgspec.structs.replace(known, host=each.host)
    return list(kept.values())


def _start_of_hash(value: str) -> str:
    return value.rpartition("@")[2][:_SHORT_HASH]


_SHORT_HASH = 7
