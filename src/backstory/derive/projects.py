"""One key and one name for each project, from what is known of all sessions; for showing only.

Sessions are of one project if their remotes are the same, else if the repositories of their folders begin with the same
commits, else if they lie in one folder. Where it cannot be decided they stay apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from backstory.derive.naming import (
    ProjectNames,
    ShownProject,
    folder_above_hidden,
    is_of_remote,
    main_folder,
    parts_of,
    place_key,
    project_name,
    repository_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    _Id: TypeAlias = tuple[str, ...]

FORGES = frozenset({"github", "gitlab", "bitbucket", "codeberg", "gitea", "forgejo", "azure", "visualstudio"})
"""The words in a host's name whose forge takes upper and lower case in a path for one."""
SECOND_HOSTS = ("ssh.", "altssh.", "www.")
"""Hosts of a forge beside its own begin with one of these."""
HOMES = ("Users", "home")


class Repository(Struct, frozen=True):
    """The repository at a folder. ``commits``: those it begins with, the oldest first; none: that is not known.

    ``inode``: of its ``.git``, by which another repository at the same place is noticed.
    """

    commits: tuple[str, ...]
    inode: int


class SeenPlace(NamedTuple):
    """The facts that some sessions have in common, their folders as they lie now. ``counts``: others may follow them.

    Sessions of a store that came from elsewhere, and imported ones, are named by others and name none.
    """

    project: str | None
    repository: str | None
    root: str | None
    cwd: str | None
    sessions: int = 1
    last_active: int = 0
    counts: bool = True

    @property
    def remote(self) -> str | None:
        """Its remote; None where it is known by its folder."""
        return self.project if is_of_remote(self.project) else None

    @property
    def folder(self) -> str:
        """The main folder of its project, as far as it is known."""
        return main_folder((self.root if self.remote else self.project) or self.cwd or "")


def canonical(remote: str) -> str:
    """Return a normalised remote such that two spellings of one repository are the same.

    >>> canonical("ssh.GitHub.com/Me/Tool"), canonical("git.example.org/Me/Tool")
    ('github.com/me/tool', 'git.example.org/Me/Tool')
    """
    host, slash, path = remote.partition("/")
    host = host.lower()
    if FORGES.isdisjoint(host.split(".")):
        return f"{host}{slash}{path}"
    for prefix in SECOND_HOSTS:
        host = host.removeprefix(prefix)
    return f"{host}{slash}{path.lower()}"


def names_of(places: Sequence[SeenPlace], commits: Mapping[str, Sequence[str]]) -> dict[str, ShownProject]:
    """Return the projects that are shown otherwise than their own facts say, as ``ProjectNames.known`` has them.

    ``commits``: the commits that the repository at a root begins with.
    """
    ids = _Ids(places, commits)
    members = defaultdict[tuple[str, ...], list[SeenPlace]](list)
    for each in places:
        members[ids.of(each)].append(each)
    shown = _unique({id_: _shown(id_, some) for id_, some in members.items()})
    known: dict[str, ShownProject] = {}
    names = ProjectNames(known=known)
    for each, id_ in ((each, id_) for id_, some in members.items() for each in some):
        if names.of(*each[:4]) != shown[id_]:
            known[ids.shared_key(each)] = shown[id_]
        if names.of(*each[:4]) != shown[id_]:
            known[place_key(each.project, each.repository, each.cwd)] = shown[id_]
    return known


class _Ids:
    """The identity of each place's project."""

    def __init__(self, places: Sequence[SeenPlace], commits: Mapping[str, Sequence[str]]) -> None:
        self._begun: dict[str, frozenset[str]] = {}
        for each in places:
            if begun := commits.get(each.root or "") or commits.get(each.folder):
                self._begun[each.folder] = frozenset(begun)
        self._named: dict[str, set[_Id]] = defaultdict(set)
        self._remotes_with: dict[frozenset[str], set[_Id]] = defaultdict(set)
        self.by_folder: dict[str, _Id] = {}
        """The repositories that lie, or lay last, in a folder."""
        counting = sorted((each for each in places if each.counts), key=lambda each: each.last_active)
        for each in counting:
            if each.remote:
                self._note_remote(each, each.remote)
        for each in counting:
            if each.folder and (each.remote or each.repository):
                self.by_folder[each.folder] = self.of(each)

    def of(self, place: SeenPlace) -> _Id:
        """Return the identity of a place's project."""
        if place.remote:
            return "remote", canonical(place.remote)
        if place.repository:
            return self._of_name(place, place.repository)
        found = self.by_folder.get(self._repository_folder(place))
        if found is not None:
            return found
        if begun := self._begun.get(place.folder):
            remotes = self._remotes_with[begun]
            return next(iter(remotes)) if len(remotes) == 1 else ("commits", *sorted(begun))
        return "folder", place.folder

    def _of_name(self, place: SeenPlace, repository: str) -> _Id:
        remotes, here = self._named.get(repository.lower(), ()), self.by_folder.get(place.folder)
        if len(remotes) == 1:
            return next(iter(remotes))
        return here if here is not None and here in remotes else ("name", repository.lower())

    def _note_remote(self, place: SeenPlace, remote: str) -> None:
        id_ = ("remote", canonical(remote))
        if name := repository_name(remote) or place.repository:
            self._named[name.lower()].add(id_)
        if begun := self._begun.get(place.folder):
            self._remotes_with[begun].add(id_)

    def shared_key(self, place: SeenPlace) -> str:
        """The key by which places of the same project are known that are like this one."""
        if place.repository and not place.remote and len(self._named.get(place.repository.lower(), ())) < 2:
            return place.repository
        return self._repository_folder(place) if not place.remote else place.remote

    def _repository_folder(self, place: SeenPlace) -> str:
        """The folder that a place is in, or the one above a hidden part of it that is a repository's."""
        above = folder_above_hidden(place.folder) if place.root is None else None
        is_below = above is not None and above in self.by_folder and place.folder not in self.by_folder
        return above if above is not None and is_below else place.folder


class _Project(NamedTuple):
    """A project with its names, the shortest first."""

    key: str
    names: Sequence[str]
    owner: str | None = None
    """The person whose home it lies in."""


def _shown(id_: tuple[str, ...], places: Sequence[SeenPlace]) -> _Project:
    kind = id_[0]
    if kind in ("remote", "name"):
        spelled = Counter[str]()
        for each in places:
            own = each.remote if kind == "remote" else each.repository
            spelled[own or ""] += each.sessions if own else 0
        key = max(spelled, key=lambda each: (bool(each), spelled[each], each))
        if kind == "name":
            return _Project(key, [key])
        name = repository_name(key) or project_name(key, None, None, None)
        return _Project(key, [name, f"{name} ({key.partition('/')[0]})", key])
    last = max(places, key=lambda each: (each.root is not None, each.last_active, each.folder))
    name, parts = project_name(last.project, None, last.root, last.cwd), parts_of(last.folder)
    longer = ["/".join(parts[-n:]) for n in range(name.count("/") + 2, len(parts) + 1)]
    owner = parts[1] if len(parts) > 2 and parts[0] in HOMES else None
    return _Project(last.folder, [name, *longer, last.folder], owner)


def _unique(projects: Mapping[tuple[str, ...], _Project]) -> dict[tuple[str, ...], ShownProject]:
    """Give every project a name of its own: its shortest, if no other has that."""
    alike = defaultdict[str, list[tuple[str, ...]]](list)
    for id_, each in projects.items():
        alike[each.names[0]].append(id_)
    shown, taken = dict[tuple[str, ...], ShownProject](), {*alike}
    for name, ids in alike.items():
        if len(ids) == 1:
            shown[ids[0]] = ShownProject(projects[ids[0]].key, name)
            continue
        owners = [projects[id_].owner for id_ in ids]
        if None not in owners and len({*owners}) == len(owners):
            shown |= {id_: ShownProject(projects[id_].key, f"{name} ({projects[id_].owner})") for id_ in ids}
            continue
        count = Counter(each for id_ in ids for each in {*projects[id_].names})
        for id_ in ids:
            names = projects[id_].names
            own = next((each for each in names if count[each] == 1 and each not in taken), names[-1])
            shown[id_] = ShownProject(projects[id_].key, own)
            taken.add(own)
    return shown
