"""Finds the pull requests, issues and commits that a text names: by their addresses, by words, by hashes.

Everything here takes time linear in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from backstory.lazy import lazy_regex
from backstory.model import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LISTED_MAX = 9
"""Up to this number, "issue #2" is more often a point in a list than an issue of a repository."""
NAMES_MAX = 10_000
"""The most names of each kind that are looked at in one text: one with more was not written by hand."""


def refs_in_text(text: str, *, repository: str | None = None, host: str | None = None) -> list[Ref]:
    """Return the things that a text names, each once, in order. ``repository``: "owner/repo", or a remote's URL.

    >>> [each.value for each in refs_in_text("PR #12 fixes #30 since commit 1a2b3c4, see #5")]
    ['12', '30', '1a2b3c4']
    """
    found: list[tuple[int, NamedRef]] = []
    if "://" in text:
        found += in_urls(text)
    if "#" in text or "!" in text:
        found += in_numbers(text)
    if "GH-" in text:
        found += [
            (each.start(), NamedRef(ISSUE, each.group(1))) for each in islice(GH_NUMBER.finditer(text), NAMES_MAX)
        ]
    if "ommit" in text:
        found += in_commits(text)
    found += in_keys(text)
    if not found:
        return []
    found.sort(key=lambda each: each[0])
    return refs_of((named for _, named in found), home_of(repository, host))


# URLs -------------------------------------------------------------------------------------------------------

_URL = lazy_regex(r"https?://([^\s/\"'<>()\[\]{}|\\^`,;*]{1,255})/([^\s\"'<>()\[\]{}|\\^`,;*]{1,2000})")
_KIND = lazy_regex(r"/(?:pulls?|issues|commits?|merge_requests|work_items|pullrequest|pull-requests|_workitems)/")
_NUMBER_END = r"([1-9]\d{0,8})(?![\w-])"
_HASH_END = r"([0-9a-f]{7,64})(?![\w-])"
_NAME = r"[\w.~%+-]+"
_AZURE = lazy_regex(
    rf"(?P<repository>(?:{_NAME}/){{0,3}}_git/{_NAME})/(?:pullrequest/(?P<pr>{_NUMBER_END})|commit/(?P<commit>{_HASH_END}))"
    rf"|(?P<project>{_NAME}(?:/{_NAME}){{0,2}})/_workitems/(?:edit/)?(?P<issue>{_NUMBER_END})"
)
_SERVER = lazy_regex(
    rf"(?:{_NAME}/){{0,2}}(?:projects|users)/(?P<owner>{_NAME})/repos/(?P<name>{_NAME})/"
    rf"(?:pull-requests/(?P<pr>{_NUMBER_END})|commits/(?P<commit>{_HASH_END}))"
)
API_PATH = lazy_regex(
    rf"/?(?:api/v\d/)?repos/(?P<repository>[^/\s]+/[^/\s]+)/"
    rf"(?:pulls/(?P<pr>{_NUMBER_END})|issues/(?P<issue>{_NUMBER_END})|(?:git/)?commits/(?P<commit>{_HASH_END}))"
)
_FORGE = lazy_regex(
    rf"(?P<repository>{_NAME}(?:/{_NAME}){{1,20}}?)(?P<dash>/-)?/(?:"
    rf"(?:pulls?|pull-requests)/(?P<pr>{_NUMBER_END})(?:/commits/(?P<picked>{_HASH_END}))?"
    rf"|merge_requests/(?P<mr>{_NUMBER_END})|(?:issues|work_items)/(?P<issue>{_NUMBER_END})"
    rf"|commits?/(?P<commit>{_HASH_END}))"
)
_NO_OWNERS = frozenset({"orgs", "organizations", "users", "settings", "projects", "api", "browse", "search", "groups"})


def in_urls(text: str) -> Iterator[tuple[int, NamedRef]]:
    for found in islice(_URL.finditer(text), NAMES_MAX):
        host, path = found.groups()
        if _KIND.search(path):
            host, path = canonical(host.rpartition("@")[2].lower(), path)
            for named in _in_path(host, path):
                yield found.start(), named


def _in_path(host: str, path: str) -> Iterator[NamedRef]:
    """Yield the things that a forge's page is about."""
    if "/_git/" in f"/{path}" or "/_workitems/" in path:
        yield from _in_azure(host, path)
    elif "/repos/" in f"/{path}":
        found = _SERVER.match(path)
        if found is not None:
            yield from named_in(found, host, f"{found['owner']}/{found['name']}")
        elif (found := API_PATH.match(path)) is not None:
            yield from named_in(found, host.removeprefix("api."), found["repository"])
    elif path.partition("/")[0] not in _NO_OWNERS and (found := _FORGE.match(path)) is not None:
        # Only GitLab nests groups, and marks where they end; its older pages of merge requests did not.
        is_plain = found["repository"].count("/") == 1
        if is_plain or found["dash"] or found["mr"]:
            yield from named_in(found, host, found["repository"])


def _in_azure(host: str, path: str) -> Iterator[NamedRef]:
    found = _AZURE.match(path)
    if found is None:
        return
    if found["project"]:
        yield from named_in(found, host, found["project"])
        return
    above, _, name = found["repository"].rpartition("_git/")
    # A project's first repository has its name, and pages that leave the project out.
    parts = [*above.strip("/").split("/"), name]
    yield from named_in(found, host, "/".join([*parts, name] if len(parts) == 2 else parts))


def named_in(found: re.Match[str], host: str, repository: str) -> Iterator[NamedRef]:
    repository = unquote(repository).removesuffix(".git")
    groups = found.groupdict()
    for group, kind in (("pr", PR), ("mr", PR), ("issue", ISSUE), ("picked", COMMIT), ("commit", COMMIT)):
        value = groups.get(group)
        if value and (kind != COMMIT or not value.isalpha() or len(value) >= _WHOLE_HASH):
            yield NamedRef(kind, value, host, repository)


# words ------------------------------------------------------------------------------------------------------

_NUMBER = lazy_regex(r"#([1-9]\d{0,6})(?!\w|[.,]\d)")
_MERGE_NUMBER = lazy_regex(r"!([1-9]\d{0,6})(?!\w|[.,]\d)")
_BEFORE_MAX = 120
_WORD_MAX = 16
_TELLING = (
    "pr", "prs", "mr", "mrs", "request", "requests", "issue", "issues", "fix", "fixes", "fixed", "fixing", "close",
    "closes", "closed", "closing", "resolve", "resolves", "resolved", "resolving", "refs", "github", "gitlab",
    "upstream",
)  # fmt: skip
_BEFORE = lazy_regex(
    r"(?:(?<![\w-])(?:(?P<pr>PRs?|pull[ -]requests?|MRs?|merge[ -]requests?)"
    r"|(?P<sure>(?:(?:fix|close|resolve)(?:[sd]|es|ed)|refs|git(?:hub|lab)|upstream)(?:[ \t]+issues?)?)"
    r"|(?P<listed>issues?|fix|fixing|close|closing|resolve|resolving))"
    r"[ \t:(\[*_`]{0,4}|(?<![\w./@:#=-]))(?P<repository>[A-Za-z0-9][\w-]{0,38}(?:/[\w.-]{1,100})+)?\Z",
    re.IGNORECASE,
)
_AND = lazy_regex(r"[\])*_`]{0,3}(?:[ \t]*(?:,|/|&|\+)[ \t]*|[ \t]+)(?:(?:and|or)[ \t]+)?[\[(*_`]{0,3}")
_JOINED_MAX = 16
_ENUMERATED = lazy_regex(r"\(#[1-9](?:(?:,? and |, ?| ?& ?|/)#[1-9])+\)")
"""Several points of a list in brackets; after a word for pull requests they are those."""
_SUFFIX = lazy_regex(r"\.(?!(?:js|net|io|com|dev|github|nvim|vim|jl)$)[A-Za-z]\w{0,4}$")
GH_NUMBER = lazy_regex(r"(?<![\w-])GH-([1-9]\d{0,6})(?![\w-]|\.\d)")


def in_numbers(text: str) -> Iterator[tuple[int, NamedRef]]:
    last: NamedRef | None = None
    last_end = 0
    for found in islice(_NUMBER.finditer(text), NAMES_MAX):
        start = found.start()
        joined = last is not None and start - last_end <= _JOINED_MAX and _AND.fullmatch(text, last_end, start)
        named = NamedRef(last.type, found.group(1), None, last.repository) if joined and last else None
        last = named or _numbered(text, start, found.group(1))
        last_end = found.end()
        if last is not None:
            yield start, last
    for found in islice(_MERGE_NUMBER.finditer(text), NAMES_MAX):
        before = _BEFORE.search(text, max(found.start() - _BEFORE_MAX, 0), found.start())
        if before is not None and (before["pr"] or before["repository"]):
            yield found.start(), NamedRef(PR, found.group(1), None, before["repository"])


def _numbered(text: str, start: int, number: str) -> NamedRef | None:
    """Return the kind of ``#12`` by the words before it; None if they do not give it."""
    before = _BEFORE.search(text, max(start - _BEFORE_MAX, 0), start) if _may_name(text, start) else None
    if before is None:
        return None
    repository = before["repository"]
    if repository is None:
        is_listed = int(number) <= LISTED_MAX
        is_sure = before["pr"] or before["sure"] or (before["listed"] and not is_listed)
        if is_listed and not before["pr"] and _ENUMERATED.match(text, start - 1):
            return None
    else:
        is_sure = repository.count("/") == 1 and not _SUFFIX.search(repository)
    return NamedRef(PR if before["pr"] else ISSUE, number, None, repository) if is_sure else None


def _may_name(text: str, start: int) -> bool:
    """A quick look at what stands before a number, since most say nothing."""
    before = text[max(start - _WORD_MAX, 0) : start].lower()
    if before[-1:].isalnum() and "/" in text[max(start - _BEFORE_MAX, 0) : start]:
        return True
    return before.rstrip(" \t:([*_`").endswith(_TELLING)


KEY = lazy_regex(r"(?<![\w.-])([A-Z][A-Z0-9]{1,9})-([1-9]\d{0,5})(?![\w-]|\.\d)")
# It begins with a letter of its own, so that all the text without one is passed over at once.
_DASH_AND_NUMBER = lazy_regex(r"-(?<=[A-Z0-9]-)[1-9]")
_NO_TRACKERS = frozenset(
    {
        "AES", "ANSI", "ARM", "ASCII", "AVX", "BASE", "BLAKE", "BSD", "CC", "CP", "CRC", "CVE", "CWE", "DDR", "DES",
        "DIN", "EC", "ECMA", "EN", "ES", "FIPS", "FP", "GB", "GH", "GHSA", "GPL", "GPT", "HMAC", "HTTP", "HTTPS",
        "IEC", "IEEE", "INT", "IP", "IPV", "ISO", "JDK", "JEP", "JPEG", "JSR", "KOI", "LGPL", "MD", "MIT", "MP", "MPEG",
        "MR", "OAUTH", "PBKDF", "PCI", "PEP", "PKCS", "POSIX", "PR", "PS", "RC", "RFC", "RSA", "SHA", "SHAKE", "SPDX",
        "SSE", "SSL", "TCP", "TLS", "UCS", "UDP", "UINT", "US", "USB", "UTC", "UTF", "UUID", "WIN", "XTERM",
    }
)  # fmt: skip
"""Words before a number in names of standards, encodings and the like."""


def in_keys(text: str) -> Iterator[tuple[int, NamedRef]]:
    """Issues of trackers that call them by a team's letters and a number, such as Jira and Linear."""
    if _DASH_AND_NUMBER.search(text) is None:
        return
    for found in islice(KEY.finditer(text), NAMES_MAX):
        if found.group(1) not in _NO_TRACKERS:
            yield found.start(), NamedRef(ISSUE, found.group())


# hashes -----------------------------------------------------------------------------------------------------

_WHOLE_HASH = 40
_HASH = r"([0-9a-f]{7,64})(?![\w/]|-\w|\.\w)"
_COMMITTED = lazy_regex(
    r"ommit(?:s|ted)?(?:[ \t]+(?:as|in|at|is|like|id|hash(?:es)?|[Ss][Hh][Aa]))?[ \t:=(\[*`'\"]{1,6}" + _HASH
)
_AND_HASH = lazy_regex(r"[`*'\"]{0,3}(?:[ \t]*,[ \t]*(?:and[ \t]+)?|[ \t]+(?:and|or|&)[ \t]+)[`*'\"]{0,3}" + _HASH)
_LOGGED = lazy_regex(r"(?: \([^)\n]{0,500}\))?\r?\n(?:Author|Merge|tree|parent|Reflog)\b")
_EXAMPLES = ("deadbeef", "cafebabe", "badc0de", "c0ffee", "8badf00d", "deadc0de", "feedface", "abcdef", "abc123")
"""Examples that people write for a hash."""


def in_commits(text: str) -> Iterator[tuple[int, NamedRef]]:
    for found in islice(_COMMITTED.finditer(text), NAMES_MAX):
        start = found.start()
        if text[start - 1 : start] not in ("c", "C") or text[start - 2 : start - 1].isalnum() or text[start - 2] == "_":
            continue
        if _LOGGED.match(text, found.end()):
            # A log that was put into the text names them all, and means none.
            continue
        yield from _listed(text, found)


def _listed(text: str, found: re.Match[str]) -> Iterator[tuple[int, NamedRef]]:
    """A hash and those that follow it in a list."""
    each: re.Match[str] | None = found
    for _ in range(NAMES_MAX):
        if each is None:
            return
        if is_hash(each.group(1)) and not _is_example(each.group(1)):
            yield each.start(1), NamedRef(COMMIT, each.group(1))
        each = _AND_HASH.match(text, each.end())


def is_hash(word: str) -> bool:
    """Return True if a word in hex can only be a commit's hash: no number, and no word that is spelled with a to f."""
    return len(word) >= _WHOLE_HASH or not (word.isdigit() or word.isalpha())


def _is_example(word: str) -> bool:
    return word.startswith(_EXAMPLES)


# ref values -----------------------------------------------------------------------------------------------------------
# A number or a hash that was named, made a ref: whose it is, and each once.


PR, ISSUE, COMMIT = "pr", "issue", "commit"
WRITTEN_MAX = 64 * 1024
"""Addresses are looked for in the first so many characters of what a call writes."""


class NamedRef(Struct, frozen=True):
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


def refs_of(named: Iterable[NamedRef], home: Home) -> list[Ref]:
    return unique([_ref(each, home) for each in named])


def _ref(named: NamedRef, home: Home) -> Ref:
    host, repository = named.host or home.host, named.repository
    if repository is None or _is_home(named, home):
        return Ref(named.type, named.value, host, repository or home.repository)
    return Ref(named.type, f"{repository}{'@' if named.type == COMMIT else '#'}{named.value}", host, repository)


def _is_home(named: NamedRef, home: Home) -> bool:
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
