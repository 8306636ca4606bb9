"""Texts as they may leave the machine: without folders of it, its name and the account's.

A path in the repository is relative to it, the home folder is ``~``, and any other path is a mask that is the same for
the same path. Known folders are found in any form; others by how a path begins, so a folder of a strange name that no
session was ever in stays, and so does ``../other``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory.ask import origins
from backstory.lazy import lazy_regex
from backstory.model import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backstory.store import Store

PATH, HOST, ACCOUNT = "path", "host", "account"
"""The names of the masks."""
TOPS = frozenset(
    {
        "Applications", "Users", "Volumes", "cygdrive", "data", "export", "home", "media", "mnt", "nix", "opt",
        "private", "root", "run", "srv", "tmp", "var", "work", "workspace", "workspaces",
    }
)  # fmt: skip
"""The folders at the top of a machine in which people keep their own."""
COMMON = frozenset(
    {
        "admin", "agent", "app", "build", "code", "coder", "dev", "developer", "docker", "git", "guest", "home",
        "linux", "local", "localhost", "me", "node", "postgres", "root", "runner", "server", "system", "test",
        "ubuntu", "user", "vscode", "web", "work", "www",
    }
)  # fmt: skip
"""Names of accounts and machines that are words: by themselves they tell nobody."""
NAME_CHARS_MIN = 3
_REST = r"""(?:\\ |\[[a-z0-9-]+-\d{8}\]|[^\s"'`<>|;:,()\[\]{}\\*?“”‘’«»])*"""
"""The rest of a path behind its beginning; a space stands behind a backslash, and a secret may be masked in it."""
_AT = r"""(?:(?<![\w./~\\-]{0})|(?<=file://{0})|(?<=\s-[A-Za-z]{0})|(?<=\\[nrt"]{0}))"""
"""Behind the first letter of a path: one begins there. A pattern that begins with a letter is found much faster."""
_TILDE = lazy_regex(rf"~{_AT.format('~')}/(?!\[){_REST}")
_DRIVE = lazy_regex(rf"\b[A-Za-z]:(?:\\\\?|/(?!/)){_REST}(?:\\\\?{_REST})*")
_HAS_DRIVE = lazy_regex(r":(?:\\|/(?!/))")
_DRIVE_THERE = lazy_regex(rb":(?<=[A-Za-z]:)(?:\\\\|/(?!/))")
_STRANGE = lazy_regex(r"[^\w./@+=%~-]")


class MachineNames(Struct, frozen=True, kw_only=True):
    """The names of a machine: its own, the account, the home folder, and all folders that sessions were in."""

    name: str
    account: str
    home: str
    folders: frozenset[str]


class Outward:
    """Rewrites texts. ``roots``: the folders of the repository; ``mask`` gives the mask of a path or a name.

    ``counts``: the number of what was masked, by the names of masks.
    """

    def __init__(self, machine: MachineNames, roots: Iterable[str], mask: Callable[[str, str], str]) -> None:
        self._mask, self._home = mask, machine.home.rstrip("/")
        self._roots = sorted({each.rstrip("/") for each in roots} - {""}, key=len, reverse=True)
        folders = [each.rstrip("/") for each in (*machine.folders, *self._roots, self._home) if each.startswith("/")]
        all_tops = TOPS | {each.split("/")[1] for each in folders} - {""}
        all_strange = [each[1:] for each in folders if _STRANGE.search(each)]
        tops, strange = _any(all_tops), _any(all_strange)
        self._paths = re.compile(rf"/{_AT.format('/')}(?:{strange}(?:/{_REST})?|{tops}/{_REST})")
        self._slugs = re.compile(rf"-(?<![\w-]-){tops}-[\w-]+")
        self._names, self._words = _names(machine)
        tops_there, strange_there = _any(map(_in_json, all_tops)), _any(map(_in_json, all_strange))
        self._path_there = re.compile(rf"/(?:{strange_there}|{tops_there}/)".encode())
        self._slug_there = re.compile(rf"-{tops_there}-".encode())
        self._words_there = [_in_json(each).encode() for each in self._words]
        self.counts = Counter[str]()

    def may_change(self, line: bytes) -> bool:
        """Return False if no text of this line of JSON would be another one: that is quicker than to ask each."""
        return (
            self._path_there.search(line) is not None
            or b"~/" in line
            or self._slug_there.search(line) is not None
            or _DRIVE_THERE.search(line) is not None
            or any(word in line for word in self._words_there)
        )

    def text(self, text: str) -> str:
        """Return a text as it may leave."""
        if "/" in text:
            text = self._paths.sub(self._path, text)
            text = _TILDE.sub(self._path, text)
        if "-" in text:
            text = self._slugs.sub(self._slug, text)
        if ":" in text and _HAS_DRIVE.search(text):
            text = _DRIVE.sub(self._slug, text)
        for word in self._words:
            if word in text:
                return self._names.sub(self._name, text)
        return text

    def _path(self, found: re.Match[str]) -> str:
        path = found[0].rstrip(".")
        whole = f"{self._home}{path[1:]}" if path.startswith("~") else path
        return f"{self._of_folder(whole)}{found[0][len(path) :]}"

    def _of_folder(self, path: str) -> str:
        """A path with nothing of this machine in it."""
        for root in self._roots:
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) :].strip("/") or "."
        if path.rstrip("/") == self._home:
            return "~"
        return f"{'~/' if path.startswith(f'{self._home}/') else ''}{self._masked(PATH, path)}"

    def _slug(self, found: re.Match[str]) -> str:
        return self._masked(PATH, found[0])

    def _name(self, found: re.Match[str]) -> str:
        return self._masked(HOST if found.lastgroup == "host" else ACCOUNT, found[0])

    def _masked(self, kind: str, text: str) -> str:
        self.counts[kind] += 1
        return self._mask(kind, text)


def _names(machine: MachineNames) -> tuple[re.Pattern[str], list[str]]:
    """Matches the name of the machine, and of the account: one that is a word only before ``@``; with these names."""
    hosts = {each for each in (machine.name, machine.name.partition(".")[0]) if _tells(each)}
    accounts = {machine.account} - {""}
    after = "" if _tells(machine.account) else r"(?=@[A-Za-z0-9])"
    pattern = rf"(?<!\w)(?:(?P<host>{_any(hosts)})|(?P<account>{_any(accounts)}{after}))(?!\w)"
    return re.compile(pattern), sorted(hosts | accounts)


def _tells(name: str) -> bool:
    return len(name) >= NAME_CHARS_MIN and name.lower() not in COMMON


def _any(texts: Iterable[str]) -> str:
    """Matches any of these, the longest first; without any it matches nothing."""
    return f"(?:{'|'.join(map(re.escape, sorted(texts, key=lambda each: (-len(each), each)))) or '(?!)'})"


def _in_json(text: str) -> str:
    """A text as it stands between the quotes of JSON."""
    return encoded(text)[1:-1].decode()


def machine_of(stores: Iterable[Store], user_home: str) -> MachineNames:
    """Return the names of this machine, and the folders that the sessions of these stores were in."""
    import getpass
    import socket

    folders = set[str]()
    for store in stores:
        for each in store.ask(origins.origins):
            folders.update(filter(None, (each.root, each.cwd)))
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = user_home.rstrip("/").rpartition("/")[2]
    return MachineNames(name=socket.gethostname(), account=account, home=user_home, folders=frozenset(folders))
