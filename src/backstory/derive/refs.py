"""Which pull requests, issues and commits an event names: only where its words leave no doubt.

A tool's output may hold hundreds of them that the session has nothing to do with, so of a call only its arguments
count, and those lines of output that tell what it made. Everything here takes time linear in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from backstory.derive import shell_parse
from backstory.derive.facts import Ref
from backstory.model import Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PR, ISSUE, COMMIT = "pr", "issue", "commit"
LISTED_MAX = 9
"""Up to this number, "issue #2" is more often a point in a list than an issue of a repository."""
WRITTEN_MAX = 64 * 1024
"""Addresses are looked for in the first so many characters of what a call writes."""
NAMES_MAX = 10_000
"""Of each way to name something, at most this many are looked at in one text: one with more was not written."""


def refs_in_text(text: str, *, repository: str | None = None, host: str | None = None) -> list[Ref]:
    """What a text names, each once, in order. ``repository`` is the session's: "owner/repo", or a remote's URL.

    >>> [each.value for each in refs_in_text("PR #12 fixes #30 since commit 1a2b3c4, see #5")]
    ['12', '30', '1a2b3c4']
    """
    found: list[tuple[int, _Named]] = []
    if "://" in text:
        found += _in_urls(text)
    if "#" in text or "!" in text:
        found += _in_numbers(text)
    if "GH-" in text:
        found += [(each.start(), _Named(ISSUE, each.group(1))) for each in islice(_GH.finditer(text), NAMES_MAX)]
    if "ommit" in text:
        found += _in_commits(text)
    found += _in_keys(text)
    if not found:
        return []
    found.sort(key=lambda each: each[0])
    return _refs((named for _, named in found), _home(repository, host))


def refs_in_command(command: str, output: str, *, repository: str | None = None, host: str | None = None) -> list[Ref]:
    """What a shell command of git or of a forge names, and what its output says that it made.

    >>> refs_in_command("git commit -qam x; git commit -m y", "[main 1a2b3c4] y")
    [Ref(type='commit', value='1a2b3c4', host=None, repository=None)]
    """
    if not _may_name(command):
        return []
    made = _Made()
    named = [each for simple in shell_parse.simple_commands(command) for each in _by_program(simple.words, made)]
    home = _home(repository, host)
    said = refs_in_text(command, repository=repository, host=host) if made.speaks else []
    return _unique([*_refs(named, home), *said, *_refs(_in_output(output, made), home)])


def refs_in_call(
    call: ToolCall, result: ToolResult | None, *, repository: str | None = None, host: str | None = None
) -> list[Ref]:
    """What a tool call names: a shell command, a page it fetches, an address it writes, or a forge's tool with its
    arguments."""
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    script = shell_parse.script_of(given)
    if script is not None and shell_parse.is_shell(call.tool_name, call.tool):
        return refs_in_command(script, result.content if result else "", repository=repository, host=host)
    home = _home(repository, host)
    url = given.get("url")
    in_url = [named for _, named in _in_urls(url)] if isinstance(url, str) else []
    return _refs([*in_url, *_in_arguments(call.tool_name.lower(), given), *_in_written(call, given)], home)


# what is named, and whose it is -----------------------------------------------------------------------------


class _Named(Struct, frozen=True):
    """A number or hash with what its surroundings say; ``repository`` is None for the session's own."""

    type: str
    value: str
    host: str | None = None
    repository: str | None = None


class _Home(Struct, frozen=True):
    host: str | None = None
    repository: str | None = None


_REMOTE = re.compile(r"(?:[a-z+]+://(?:[^@/]*@)?([^/:]+(?::\d+)?)/|(?:[^@/:]+@)?([^/:]+\.[^/:]+):(?!//))(.+)", re.I)


@lru_cache(maxsize=256)
def _home(repository: str | None, host: str | None) -> _Home:
    """The session's repository; a remote's URL tells its host too."""
    if not repository:
        return _Home(host, None)
    found = _REMOTE.fullmatch(repository)
    if found is not None:
        host, repository = found.group(1) or found.group(2), found.group(3)
    elif repository.count("/") > 1 and "." in repository.partition("/")[0]:
        host, _, repository = repository.partition("/")
    name = repository.strip("/").removesuffix(".git")
    if host is not None:
        host, name = _canonical(host.lower(), name)
    return _Home(host, name.replace("/_git/", "/"))


def _canonical(host: str, path: str) -> tuple[str, str]:
    """Azure DevOps under its newer name, and without the names that only its clones and older pages have."""
    if host.endswith(".visualstudio.com"):
        path = f"{host.partition('.')[0]}/{path.removeprefix('DefaultCollection/')}"
        return "dev.azure.com", path
    if host in ("ssh.dev.azure.com", "vs-ssh.visualstudio.com"):
        return "dev.azure.com", path.removeprefix("v3/")
    return host.removeprefix("www."), path


def _refs(named: Iterable[_Named], home: _Home) -> list[Ref]:
    return _unique([_ref(each, home) for each in named])


def _ref(named: _Named, home: _Home) -> Ref:
    host, repository = named.host or home.host, named.repository
    if repository is None or _is_home(named, home):
        return Ref(named.type, named.value, host, repository or home.repository)
    return Ref(named.type, f"{repository}{'@' if named.type == COMMIT else '#'}{named.value}", host, repository)


def _is_home(named: _Named, home: _Home) -> bool:
    if home.repository is None or (named.host and home.host and named.host != home.host):
        return False
    ours, theirs = home.repository.lower(), (named.repository or "").lower()
    # A work item of Azure DevOps belongs to the project that its repositories belong to.
    return ours == theirs or (named.type == ISSUE and named.host == "dev.azure.com" and ours.startswith(f"{theirs}/"))


def _unique(refs: list[Ref]) -> list[Ref]:
    """Each once: a commit also if it is told in two lengths, and a bare number also if its URL stands beside it."""
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


# URLs -------------------------------------------------------------------------------------------------------

_URL = re.compile(r"https?://([^\s/\"'<>()\[\]{}|\\^`,;*]{1,255})/([^\s\"'<>()\[\]{}|\\^`,;*]{1,2000})")
_KIND = re.compile(r"/(?:pulls?|issues|commits?|merge_requests|work_items|pullrequest|pull-requests|_workitems)/")
_NUMBER_END = r"([1-9]\d{0,8})(?![\w-])"
_HASH_END = r"([0-9a-f]{7,64})(?![\w-])"
_NAME = r"[\w.~%+-]+"
_AZURE = re.compile(
    rf"(?P<repository>(?:{_NAME}/){{0,3}}_git/{_NAME})/(?:pullrequest/(?P<pr>{_NUMBER_END})|commit/(?P<commit>{_HASH_END}))"
    rf"|(?P<project>{_NAME}(?:/{_NAME}){{0,2}})/_workitems/(?:edit/)?(?P<issue>{_NUMBER_END})"
)
_SERVER = re.compile(
    rf"(?:{_NAME}/){{0,2}}(?:projects|users)/(?P<owner>{_NAME})/repos/(?P<name>{_NAME})/"
    rf"(?:pull-requests/(?P<pr>{_NUMBER_END})|commits/(?P<commit>{_HASH_END}))"
)
_API = re.compile(
    rf"/?(?:api/v\d/)?repos/(?P<repository>[^/\s]+/[^/\s]+)/"
    rf"(?:pulls/(?P<pr>{_NUMBER_END})|issues/(?P<issue>{_NUMBER_END})|(?:git/)?commits/(?P<commit>{_HASH_END}))"
)
_FORGE = re.compile(
    rf"(?P<repository>{_NAME}(?:/{_NAME}){{1,20}}?)(?P<dash>/-)?/(?:"
    rf"(?:pulls?|pull-requests)/(?P<pr>{_NUMBER_END})(?:/commits/(?P<picked>{_HASH_END}))?"
    rf"|merge_requests/(?P<mr>{_NUMBER_END})|(?:issues|work_items)/(?P<issue>{_NUMBER_END})"
    rf"|commits?/(?P<commit>{_HASH_END}))"
)
_NO_OWNERS = frozenset({"orgs", "organizations", "users", "settings", "projects", "api", "browse", "search", "groups"})


def _in_urls(text: str) -> Iterator[tuple[int, _Named]]:
    for found in islice(_URL.finditer(text), NAMES_MAX):
        host, path = found.groups()
        if _KIND.search(path):
            host, path = _canonical(host.rpartition("@")[2].lower(), path)
            for named in _in_path(host, path):
                yield found.start(), named


def _in_path(host: str, path: str) -> Iterator[_Named]:
    """What a forge's page is about."""
    if "/_git/" in f"/{path}" or "/_workitems/" in path:
        yield from _in_azure(host, path)
    elif "/repos/" in f"/{path}":
        found = _SERVER.match(path)
        if found is not None:
            yield from _told(found, host, f"{found['owner']}/{found['name']}")
        elif (found := _API.match(path)) is not None:
            yield from _told(found, host.removeprefix("api."), found["repository"])
    elif path.partition("/")[0] not in _NO_OWNERS and (found := _FORGE.match(path)) is not None:
        # Only GitLab nests groups, and marks where they end; its older pages of merge requests did not.
        is_plain = found["repository"].count("/") == 1
        if is_plain or found["dash"] or found["mr"]:
            yield from _told(found, host, found["repository"])


def _in_azure(host: str, path: str) -> Iterator[_Named]:
    found = _AZURE.match(path)
    if found is None:
        return
    if found["project"]:
        yield from _told(found, host, found["project"])
        return
    above, _, name = found["repository"].rpartition("_git/")
    # A project's first repository has its name, and pages that leave the project out.
    parts = [*above.strip("/").split("/"), name]
    yield from _told(found, host, "/".join([*parts, name] if len(parts) == 2 else parts))


def _told(found: re.Match[str], host: str, repository: str) -> Iterator[_Named]:
    repository = unquote(repository).removesuffix(".git")
    groups = found.groupdict()
    for group, kind in (("pr", PR), ("mr", PR), ("issue", ISSUE), ("picked", COMMIT), ("commit", COMMIT)):
        value = groups.get(group)
        if value and (kind != COMMIT or not value.isalpha() or len(value) >= _WHOLE_HASH):
            yield _Named(kind, value, host, repository)


# words ------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"#([1-9]\d{0,6})(?!\w|[.,]\d)")
_MERGE_NUMBER = re.compile(r"!([1-9]\d{0,6})(?!\w|[.,]\d)")
_BEFORE_MAX = 120
_WORD_MAX = 16
_TELLING = (
    "pr", "prs", "mr", "mrs", "request", "requests", "issue", "issues", "fix", "fixes", "fixed", "fixing", "close",
    "closes", "closed", "closing", "resolve", "resolves", "resolved", "resolving", "refs", "github", "gitlab",
    "upstream",
)  # fmt: skip
_BEFORE = re.compile(
    r"(?:(?<![\w-])(?:(?P<pr>PRs?|pull[ -]requests?|MRs?|merge[ -]requests?)"
    r"|(?P<sure>(?:(?:fix|close|resolve)(?:[sd]|es|ed)|refs|git(?:hub|lab)|upstream)(?:[ \t]+issues?)?)"
    r"|(?P<listed>issues?|fix|fixing|close|closing|resolve|resolving))"
    r"[ \t:(\[*_`]{0,4}|(?<![\w./@:#=-]))(?P<repository>[A-Za-z0-9][\w-]{0,38}(?:/[\w.-]{1,100})+)?\Z",
    re.IGNORECASE,
)
_AND = re.compile(r"[\])*_`]{0,3}(?:[ \t]*(?:,|/|&|\+)[ \t]*|[ \t]+)(?:(?:and|or)[ \t]+)?[\[(*_`]{0,3}")
_JOINED_MAX = 16
_SUFFIX = re.compile(r"\.(?!(?:js|net|io|com|dev|github|nvim|vim|jl)$)[A-Za-z]\w{0,4}$")
_GH = re.compile(r"(?<![\w-])GH-([1-9]\d{0,6})(?![\w-]|\.\d)")


def _in_numbers(text: str) -> Iterator[tuple[int, _Named]]:
    last: _Named | None = None
    last_end = 0
    for found in islice(_NUMBER.finditer(text), NAMES_MAX):
        start = found.start()
        joined = last is not None and start - last_end <= _JOINED_MAX and _AND.fullmatch(text, last_end, start)
        named = _Named(last.type, found.group(1), None, last.repository) if joined and last else None
        last = named or _numbered(text, start, found.group(1))
        last_end = found.end()
        if last is not None:
            yield start, last
    for found in islice(_MERGE_NUMBER.finditer(text), NAMES_MAX):
        before = _BEFORE.search(text, max(found.start() - _BEFORE_MAX, 0), found.start())
        if before is not None and (before["pr"] or before["repository"]):
            yield found.start(), _Named(PR, found.group(1), None, before["repository"])


def _numbered(text: str, start: int, number: str) -> _Named | None:
    """What ``#12`` is after the words before it; None where they do not tell."""
    before = _BEFORE.search(text, max(start - _BEFORE_MAX, 0), start) if _may_tell(text, start) else None
    if before is None:
        return None
    repository = before["repository"]
    if repository is None:
        is_told = before["pr"] or before["sure"] or (before["listed"] and int(number) > LISTED_MAX)
    else:
        is_told = repository.count("/") == 1 and not _SUFFIX.search(repository)
    return _Named(PR if before["pr"] else ISSUE, number, None, repository) if is_told else None


def _may_tell(text: str, start: int) -> bool:
    """A quick look at what stands before a number, since most say nothing."""
    before = text[max(start - _WORD_MAX, 0) : start].lower()
    if before[-1:].isalnum() and "/" in text[max(start - _BEFORE_MAX, 0) : start]:
        return True
    return before.rstrip(" \t:([*_`").endswith(_TELLING)


_KEY = re.compile(r"(?<![\w.-])([A-Z][A-Z0-9]{1,9})-([1-9]\d{0,5})(?![\w-]|\.\d)")
_NO_TRACKERS = frozenset(
    {
        "AES", "ANSI", "ARM", "ASCII", "AVX", "BASE", "BLAKE", "BSD", "CC", "CP", "CRC", "CVE", "CWE", "DDR", "DES",
        "DIN", "EC", "ECMA", "EN", "ES", "FIPS", "FP", "GB", "GH", "GHSA", "GPL", "GPT", "HMAC", "HTTP", "HTTPS",
        "IEC", "IEEE", "INT", "IP", "IPV", "ISO", "JDK", "JEP", "JPEG", "JSR", "KOI", "LGPL", "MD", "MIT", "MP", "MPEG",
        "MR", "OAUTH", "PBKDF", "PCI", "PEP", "PKCS", "POSIX", "PR", "PS", "RC", "RFC", "RSA", "SHA", "SHAKE", "SPDX",
        "SSE", "SSL", "TCP", "TLS", "UCS", "UDP", "UINT", "US", "USB", "UTC", "UTF", "UUID", "WIN", "XTERM",
    }
)  # fmt: skip
"""What stands before a number in names of standards, encodings and the like."""


def _in_keys(text: str) -> Iterator[tuple[int, _Named]]:
    """Issues of trackers that call them by a team's letters and a number, such as Jira and Linear."""
    for found in islice(_KEY.finditer(text), NAMES_MAX):
        if found.group(1) not in _NO_TRACKERS:
            yield found.start(), _Named(ISSUE, found.group())


# hashes -----------------------------------------------------------------------------------------------------

_WHOLE_HASH = 40
_HASH = r"([0-9a-f]{7,64})(?![\w/]|-\w|\.\w)"
_COMMITTED = re.compile(
    r"ommit(?:s|ted)?(?:[ \t]+(?:as|in|at|is|like|id|hash(?:es)?|[Ss][Hh][Aa]))?[ \t:=(\[*`'\"]{1,6}" + _HASH
)
_AND_HASH = re.compile(r"[`*'\"]{0,3}(?:[ \t]*,[ \t]*(?:and[ \t]+)?|[ \t]+(?:and|or|&)[ \t]+)[`*'\"]{0,3}" + _HASH)
_LOGGED = re.compile(r"(?: \([^)\n]{0,500}\))?\r?\n(?:Author|Merge|tree|parent|Reflog)\b")
_EXAMPLES = ("deadbeef", "cafebabe", "badc0de", "c0ffee", "8badf00d", "deadc0de", "feedface", "abcdef", "abc123")
"""What people write for a hash that is none."""


def _in_commits(text: str) -> Iterator[tuple[int, _Named]]:
    for found in islice(_COMMITTED.finditer(text), NAMES_MAX):
        start = found.start()
        if text[start - 1 : start] not in ("c", "C") or text[start - 2 : start - 1].isalnum() or text[start - 2] == "_":
            continue
        if _LOGGED.match(text, found.end()):
            # A log that was put into the text names them all, and means none.
            continue
        yield from _listed(text, found)


def _listed(text: str, found: re.Match[str]) -> Iterator[tuple[int, _Named]]:
    """A hash and those that follow it in a list."""
    each: re.Match[str] | None = found
    for _ in range(NAMES_MAX):
        if each is None:
            return
        if _is_hash(each.group(1)) and not _is_example(each.group(1)):
            yield each.start(1), _Named(COMMIT, each.group(1))
        each = _AND_HASH.match(text, each.end())


def _is_hash(word: str) -> bool:
    """Whether a word in hex can only be a commit's hash: no number, and no word that is spelled with a to f."""
    return len(word) >= _WHOLE_HASH or not (word.isdigit() or word.isalpha())


def _is_example(word: str) -> bool:
    return word.startswith(_EXAMPLES)


# commands ---------------------------------------------------------------------------------------------------

_CLIENTS = ("gh ", "glab ", "az ")
_GIT_VERBS = ("commit", "push", "show", "cherry-pick", "revert", "checkout", "reset", "merge", "switch")
_Words = list[str | None]


def _may_name(command: str) -> bool:
    """A quick look, since most commands name nothing."""
    if any(client in command for client in _CLIENTS):
        return True
    return "git" in command and any(verb in command for verb in _GIT_VERBS)


class _Made(Struct):
    """What to look for in the output of a command."""

    commits: bool = False
    pushes: bool = False
    speaks: bool = False
    doubted: list[str] = []
    pages: dict[str, int] = {}
    azure: str | None = None


def _by_program(words: _Words, made: _Made) -> Iterator[_Named]:
    program = (words[0] or "").rpartition("/")[2] if words else ""
    if program == "git":
        yield from _by_git(words[1:], made)
    elif program in ("gh", "glab"):
        made.speaks = True
        yield from _by_forge(words[1:], made)
    elif program == "az":
        made.speaks = True
        yield from _by_azure(words[1:], made)


_NAMING_VERBS = frozenset({"show", "cherry-pick", "revert", "checkout", "reset", "merge", "switch"})
_MAKING_VERBS = frozenset({"commit", "cherry-pick", "revert"})
_REVISION = re.compile(r"([0-9a-f]{7,64})(?::.*)?")


def _by_git(words: _Words, made: _Made) -> Iterator[_Named]:
    _, verb, rest = shell_parse.git_words(words)
    made.commits = made.commits or verb in _MAKING_VERBS
    made.pushes = made.pushes or verb == "push"
    made.speaks = made.speaks or verb in ("commit", "merge")
    if verb not in _NAMING_VERBS:
        return
    for word in rest:
        if word == "--":
            break
        found = _REVISION.fullmatch(word or "")
        if found is not None and _is_hash(found.group(1)):
            yield _Named(COMMIT, found.group(1))
        elif found is not None and verb == "show":
            made.doubted = [*made.doubted, found.group(1)]


_VALUED = frozenset(
    {
        "-R", "--repo", "-b", "--body", "-t", "--title", "-F", "--body-file", "-B", "--base", "-H", "--head", "-q",
        "--jq", "--json", "-l", "--label", "--milestone", "-a", "--assignee", "--reviewer", "-T", "--template", "-L",
        "--limit", "--subject", "--match-head-commit", "--interval", "--color", "--add-label", "--remove-label",
        "--add-assignee", "--add-reviewer", "--reason", "--message", "--description", "-d", "--target-branch",
        "--source-branch", "--hostname", "-X", "--method", "-f", "--field", "--raw-field", "--header", "--input", "-O",
        "--output", "--per-page", "-P", "--page", "--sha", "--add-project", "--branch", "--name",
    }
)  # fmt: skip
_KINDS = {"pr": PR, "mr": PR, "issue": ISSUE}
_MAKES = frozenset({"create", "new"})
_LISTS = frozenset({"list", "ls", "status", "for"})
_OPERAND = re.compile(r"[#!]?([1-9]\d{0,8})")


def _by_forge(words: _Words, made: _Made) -> Iterator[_Named]:
    operands, options = shell_parse.operands(words, _VALUED)
    host, repository = _repository_of(options.get("-R") or options.get("--repo"))
    if len(operands) < 2 or operands[0] is None:
        return
    if operands[0] == "api":
        yield from _by_api(operands[1] or "")
        return
    kind, verb = _KINDS.get(operands[0]), operands[1]
    if kind is None or verb is None or verb in _LISTS:
        return
    named = [] if verb in _MAKES else list(_operands_named(operands[2:], kind, host, repository))
    if not named and None not in operands[2:3]:
        made.pages = {**made.pages, kind: made.pages.get(kind, 0) + 1}
    yield from named


def _operands_named(words: _Words, kind: str, host: str | None, repository: str | None) -> Iterator[_Named]:
    for word in words:
        if word is None:
            continue
        if found := _OPERAND.fullmatch(word):
            yield _Named(kind, found.group(1), host, repository)
        elif "://" in word:
            yield from (named for _, named in _in_urls(word) if named.type == kind)


def _repository_of(option: str | None) -> tuple[str | None, str | None]:
    """Host and name in the value of ``--repo``."""
    if not option:
        return None, None
    home = _home(option, None)
    return home.host, home.repository


def _by_api(path: str) -> Iterator[_Named]:
    found = _API.match(path)
    if found is None:
        return
    repository = found["repository"]
    placeholder = "{" in repository or repository.startswith(":")
    for named in _told(found, "", repository):
        yield _Named(named.type, named.value, None, None if placeholder else named.repository)


def _by_azure(words: _Words, made: _Made) -> Iterator[_Named]:
    operands, options = shell_parse.operands(
        words, frozenset({"--id", "--repository", "-r", "--project", "-p", "--org"})
    )
    kind = (
        {("repos", "pr"): PR, ("boards", "work-item"): ISSUE}.get((operands[0] or "", operands[1] or ""))
        if (len(operands) > 2)
        else None
    )
    if kind is None or operands[2] in _LISTS:
        return
    found = _OPERAND.fullmatch(options.get("--id") or "")
    if found is not None:
        yield _Named(kind, found.group(1))
    elif operands[2] in _MAKES:
        made.azure = kind


# what a command's output says that it made ------------------------------------------------------------------

_COMMIT_LINE = re.compile(r"^\[[^\[\]\n]{1,300} ([0-9a-f]{7,64})\] ", re.MULTILINE)
_PUSH_LINE = re.compile(r"[ +]{1,9}[0-9a-f]{7,64}\.{2,3}([0-9a-f]{7,64})\s+\S+ -> \S+")
_PAGE_LINE = re.compile(r"^[ \t]{0,9}(?:url:[ \t]*)?(https?://\S{1,2000})[ \t]*\r?$", re.MULTILINE)
_PAGE_FIELD = re.compile(r'"url": ?"(https?://[^"\s]{1,2000})"')
_PR_LINE = re.compile(r"\b([Pp]ull request|[Mm]erge request|[Ii]ssue) ([\w.-]+/[\w.-]+)?[#!]([1-9]\d{0,8})\b")
_NUMBER_FIELD = re.compile(r'"number": ?([1-9]\d{0,8})\b')
_AZURE_FIELD = {
    PR: re.compile(r'^\s{0,4}"pullRequestId": ([1-9]\d{0,8})\b', re.MULTILINE),
    ISSUE: re.compile(r'^\s{0,4}"id": ([1-9]\d{0,8})\b', re.MULTILINE),
}


def _in_output(output: str, made: _Made) -> Iterator[_Named]:
    if made.commits:
        yield from (_Named(COMMIT, found.group(1)) for found in _COMMIT_LINE.finditer(output))
    # One hash in thirty is all digits; it is one if git has shown it.
    yield from (_Named(COMMIT, each) for each in made.doubted if f"\ncommit {each}" in f"\n{output}")
    if made.pushes:
        yield from _in_push(output)
    for kind, count in made.pages.items():
        yield from _in_pages(output, kind, count)
    if made.azure is not None and (field := _AZURE_FIELD[made.azure].search(output)) is not None:
        yield _Named(made.azure, field.group(1))


def _in_push(output: str) -> Iterator[_Named]:
    """The commits that branches were moved to, and the merge request that the other side tells of."""
    sending = False
    for line in output.splitlines():
        if line.startswith(("To ", "From ")):
            sending = line.startswith("To ")
        elif line.startswith("remote:"):
            yield from (named for _, named in _in_urls(line) if named.type == PR)
        elif sending and (found := _PUSH_LINE.match(line)) is not None:
            yield _Named(COMMIT, found.group(1))


def _in_pages(output: str, kind: str, count: int) -> Iterator[_Named]:
    """The pages that a forge's client tells of: of one that was viewed, its own address and no other in its text."""
    for pattern in (_PAGE_FIELD, _PAGE_LINE):
        pages = [
            named for found in pattern.finditer(output) for _, named in _in_urls(found.group(1)) if named.type == kind
        ]
        if pages:
            yield from list(dict.fromkeys(pages))[:count]
            return
    if (field := _NUMBER_FIELD.search(output)) is not None:
        yield _Named(kind, field.group(1))
        return
    for found in _PR_LINE.finditer(output):
        if (found.group(1).lower() == "issue") == (kind == ISSUE):
            yield _Named(kind, found.group(3), None, found.group(2))
            return


# a forge's tools --------------------------------------------------------------------------------------------

_OLD = re.compile(r"old_?(?:str|text|content|source|lines)", re.I)
"""Names of arguments that hold what an edit takes away."""


def _in_written(call: ToolCall, given: dict[str, Any]) -> Iterator[_Named]:
    """The pages whose addresses stand in what an edit or a write puts into a file."""
    if call.tool not in (Tool.EDIT, Tool.WRITE):
        return
    edits = given.get("edits")
    for arguments in (given, *(each for each in (edits if isinstance(edits, list) else ()) if isinstance(each, dict))):
        for key, text in arguments.items():
            if isinstance(text, str) and "://" in text and not _OLD.match(key):
                # A call that waits for its result is kept with no more of a text than this.
                yield from (named for _, named in _in_urls(text[:WRITTEN_MAX]))


_ARGUMENTS = {
    PR: ("pullNumber", "pull_number", "pullRequestNumber", "pull_request_number", "pullRequestId", "merge_request_iid"),
    ISSUE: ("issue_number", "issueNumber", "issue_iid", "workItemId"),
}
_KEY_ARGUMENTS = ("id", "key", "issueId", "issueKey", "issueIdOrKey", "issue_key", "issue_id", "identifier")
_SHA = re.compile(r"[0-9a-f]{7,64}")


def _in_arguments(name: str, given: dict[str, Any]) -> Iterator[_Named]:
    owner, project = given.get("owner"), given.get("repo") or given.get("project_id")
    repository = f"{owner}/{project}" if isinstance(owner, str) and isinstance(project, str) else None
    if repository is None and isinstance(project, str) and "/" in project:
        repository = unquote(project)
    for kind, keys in _ARGUMENTS.items():
        number = next((given[key] for key in keys if key in given), None)
        if isinstance(number, int | str) and _OPERAND.fullmatch(str(number)):
            yield _Named(kind, str(number), None, repository)
    for key in _KEY_ARGUMENTS:
        told = given.get(key)
        is_tracker = "issue" in name or "linear" in name or "jira" in name
        if is_tracker and isinstance(told, str) and (found := _KEY.fullmatch(told)) is not None:
            yield _Named(ISSUE, found.group())
    sha = given.get("sha")
    if "commit" in name and isinstance(sha, str) and _SHA.fullmatch(sha) and _is_hash(sha):
        yield _Named(COMMIT, sha, None, repository)
