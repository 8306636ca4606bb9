"""Facts that a session's events add up to: files touched, refs named, results of calls, checkpoints.

Events come in the order of their log. A call counts when its result is there: only then is it known what it did. Calls
that still wait are few, and are kept with the log's state, so that it makes no difference in how many pieces a log is
read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from backstory.derive import shell_parse
from backstory.derive.essence import exit_code
from backstory.derive.facts import DerivedFacts, FoundCheckpoint, FoundResult, FoundTouch
from backstory.derive.text_refs import (
    API_PATH,
    COMMIT,
    ISSUE,
    KEY,
    PR,
    WRITTEN_MAX,
    NamedRef,
    home_of,
    in_urls,
    is_hash,
    named_in,
    refs_in_text,
    refs_of,
    unique,
)
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    At,
    Compacted,
    FoundRef,
    Ref,
    Tool,
    ToolCall,
    ToolResult,
    UserMessage,
    encoded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event, Ref


WAITING_MAX = 200
"""The most calls that may wait for their results; the oldest give way."""
WAITING_INPUT_MAX = WRITTEN_MAX
"""A waiting call's input is kept up to about so many characters for each of its texts."""


class _Waiting(Struct, frozen=True):
    where: At
    call: ToolCall


_pending = msgspec.json.Decoder(dict[str, _Waiting])


class Deriver:
    """Takes a log's events one by one. ``state`` is what an earlier one left."""

    def __init__(self, state: bytes | None = None) -> None:
        self._waiting: dict[str, _Waiting] = _pending.decode(state) if state else {}
        self._found = DerivedFacts()

    def take(self, event: Event, where: At, cwd: str | None) -> None:
        """Note what an event says. ``cwd`` is the session's folder."""
        match event:
            case UserMessage(content=text) | AssistantText(text=text):
                self._note(refs_in_text(text), where)
            case ToolCall():
                self._waiting[event.tool_use_id or f"{where.seq}.{where.part}"] = _Waiting(where, event)
                if len(self._waiting) > WAITING_MAX:
                    self._waiting.pop(next(iter(self._waiting)))
            case ToolResult():
                self._result(event, where, cwd)
            case Compacted() if event.summary.strip():
                self._found.checkpoints.append(FoundCheckpoint(where, event.summary))

    def cut(self, cwd: str | None) -> DerivedFacts:
        """Return the facts found since the last cut; relative paths begin in ``cwd``."""
        found, self._found = self._found, DerivedFacts()
        if not found.touches:
            return found
        from backstory.derive.file_touches import place

        found.touches = [
            replace(each, path=place(each.path, cwd, None)[0], to=each.to and place(each.to, cwd, None)[0])
            for each in found.touches
        ]
        return found

    def state(self) -> bytes | None:
        """The calls that wait for their results; None when there are none."""
        if not self._waiting:
            return None
        return encoded({key: _shortened(waiting) for key, waiting in self._waiting.items()})

    def _result(self, result: ToolResult, where: At, cwd: str | None) -> None:
        waiting = self._waiting.pop(result.tool_use_id, None)
        if waiting is None:
            return
        # What shell commands touch and name is parsed where there are calls.
        from backstory.derive.file_touches import resolve_touches

        call, at = waiting.call, waiting.where
        code = exit_code(result.content, is_error=result.is_error)
        is_error = result.is_error or bool(code)
        self._found.results.append(FoundResult((at.seq, at.part), (where.seq, where.part), is_error, code))
        for each in resolve_touches(call, result, cwd):
            self._found.touches.append(FoundTouch(at, each.path, each.action, each.tool, each.to))
        self._note(refs_in_call(call, result), at)

    def _note(self, refs: list[Ref], where: At) -> None:
        self._found.refs += [FoundRef(where, ref) for ref in refs]


def _shortened(waiting: _Waiting) -> _Waiting:
    """A waiting call without what a long text in its input holds: the state of a log stays small."""
    given = waiting.call.input
    if not isinstance(given, dict):
        return waiting
    short = {key: value[:WAITING_INPUT_MAX] if isinstance(value, str) else value for key, value in given.items()}
    return _Waiting(waiting.where, replace(waiting.call, input=short))


# references -----------------------------------------------------------------------------------------------------------


def refs_in_command(command: str, output: str, *, repository: str | None = None, host: str | None = None) -> list[Ref]:
    """Return the things that a shell command of git or of a forge names, and those that its output says it made.

    >>> refs_in_command("git commit -qam x; git commit -m y", "[main 1a2b3c4] y")
    [Ref(type='commit', value='1a2b3c4', host=None, repository=None)]
    """
    if not _may_name(command):
        return []
    made = _Made()
    named = [each for simple in shell_parse.simple_commands(command) for each in _by_program(simple.words, made)]
    home = home_of(repository, host)
    said = refs_in_text(command, repository=repository, host=host) if made.speaks else []
    return unique([*refs_of(named, home), *said, *refs_of(_in_output(output, made), home)])


def refs_in_call(
    call: ToolCall, result: ToolResult | None, *, repository: str | None = None, host: str | None = None
) -> list[Ref]:
    """Return the things that a tool call names: in a shell command, in the address of a page, in an address that
    it writes, or in the arguments of a forge's tool."""
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    script = shell_parse.script_of(given)
    if script is not None and shell_parse.is_shell(call.tool_name, call.tool):
        return refs_in_command(script, result.content if result else "", repository=repository, host=host)
    home = home_of(repository, host)
    url = given.get("url")
    in_url = [named for _, named in in_urls(url)] if isinstance(url, str) else []
    return refs_of([*in_url, *_in_arguments(call.tool_name.lower(), given), *_in_written(call, given)], home)


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
    """The things to look for in the output of a command."""

    commits: bool = False
    pushes: bool = False
    speaks: bool = False
    doubted: list[str] = []
    pages: dict[str, int] = {}
    azure: str | None = None


def _by_program(words: _Words, made: _Made) -> Iterator[NamedRef]:
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
_REVISION = lazy_regex(r"([0-9a-f]{7,64})(?::.*)?")


def _by_git(words: _Words, made: _Made) -> Iterator[NamedRef]:
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
        if found is not None and is_hash(found.group(1)):
            yield NamedRef(COMMIT, found.group(1))
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
_OPERAND = lazy_regex(r"[#!]?([1-9]\d{0,8})")


def _by_forge(words: _Words, made: _Made) -> Iterator[NamedRef]:
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


def _operands_named(words: _Words, kind: str, host: str | None, repository: str | None) -> Iterator[NamedRef]:
    for word in words:
        if word is None:
            continue
        if found := _OPERAND.fullmatch(word):
            yield NamedRef(kind, found.group(1), host, repository)
        elif "://" in word:
            yield from (named for _, named in in_urls(word) if named.type == kind)


def _repository_of(option: str | None) -> tuple[str | None, str | None]:
    """Host and name in the value of ``--repo``."""
    if not option:
        return None, None
    home = home_of(option, None)
    return home.host, home.repository


def _by_api(path: str) -> Iterator[NamedRef]:
    found = API_PATH.match(path)
    if found is None:
        return
    repository = found["repository"]
    placeholder = "{" in repository or repository.startswith(":")
    for named in named_in(found, "", repository):
        yield NamedRef(named.type, named.value, None, None if placeholder else named.repository)


def _by_azure(words: _Words, made: _Made) -> Iterator[NamedRef]:
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
        yield NamedRef(kind, found.group(1))
    elif operands[2] in _MAKES:
        made.azure = kind


# what a command's output says that it made ------------------------------------------------------------------

_COMMIT_LINE = lazy_regex(r"^\[[^\[\]\n]{1,300} ([0-9a-f]{7,64})\] ", re.MULTILINE)
_PUSH_LINE = lazy_regex(r"[ +]{1,9}[0-9a-f]{7,64}\.{2,3}([0-9a-f]{7,64})\s+\S+ -> \S+")
_PAGE_LINE = lazy_regex(r"^[ \t]{0,9}(?:url:[ \t]*)?(https?://\S{1,2000})[ \t]*\r?$", re.MULTILINE)
_PAGE_FIELD = lazy_regex(r'"url": ?"(https?://[^"\s]{1,2000})"')
_PR_LINE = lazy_regex(r"\b([Pp]ull request|[Mm]erge request|[Ii]ssue) ([\w.-]+/[\w.-]+)?[#!]([1-9]\d{0,8})\b")
_NUMBER_FIELD = lazy_regex(r'"number": ?([1-9]\d{0,8})\b')
_AZURE_FIELD = {
    PR: lazy_regex(r'^\s{0,4}"pullRequestId": ([1-9]\d{0,8})\b', re.MULTILINE),
    ISSUE: lazy_regex(r'^\s{0,4}"id": ([1-9]\d{0,8})\b', re.MULTILINE),
}


def _in_output(output: str, made: _Made) -> Iterator[NamedRef]:
    if made.commits:
        yield from (NamedRef(COMMIT, found.group(1)) for found in _COMMIT_LINE.finditer(output))
    # One hash in thirty is all digits; it is one if git has shown it.
    yield from (NamedRef(COMMIT, each) for each in made.doubted if f"\ncommit {each}" in f"\n{output}")
    if made.pushes:
        yield from _in_push(output)
    for kind, count in made.pages.items():
        yield from _in_pages(output, kind, count)
    if made.azure is not None and (field := _AZURE_FIELD[made.azure].search(output)) is not None:
        yield NamedRef(made.azure, field.group(1))


def _in_push(output: str) -> Iterator[NamedRef]:
    """The commits that branches were moved to, and the merge request that the other side names."""
    sending = False
    for line in output.splitlines():
        if line.startswith(("To ", "From ")):
            sending = line.startswith("To ")
        elif line.startswith("remote:"):
            yield from (named for _, named in in_urls(line) if named.type == PR)
        elif sending and (found := _PUSH_LINE.match(line)) is not None:
            yield NamedRef(COMMIT, found.group(1))


def _in_pages(output: str, kind: str, count: int) -> Iterator[NamedRef]:
    """The pages that a forge's client names: of one that was viewed, its own address and no other in its text."""
    for pattern in (_PAGE_FIELD, _PAGE_LINE):
        pages = [
            named for found in pattern.finditer(output) for _, named in in_urls(found.group(1)) if named.type == kind
        ]
        if pages:
            yield from list(dict.fromkeys(pages))[:count]
            return
    if (field := _NUMBER_FIELD.search(output)) is not None:
        yield NamedRef(kind, field.group(1))
        return
    for found in _PR_LINE.finditer(output):
        if (found.group(1).lower() == "issue") == (kind == ISSUE):
            yield NamedRef(kind, found.group(3), None, found.group(2))
            return


# a forge's tools --------------------------------------------------------------------------------------------

_OLD = lazy_regex(r"old_?(?:str|text|content|source|lines)", re.I)
"""Names of arguments that hold what an edit takes away."""


def _in_written(call: ToolCall, given: dict[str, Any]) -> Iterator[NamedRef]:
    """The pages whose addresses stand in what an edit or a write puts into a file."""
    if call.tool not in (Tool.EDIT, Tool.WRITE):
        return
    edits = given.get("edits")
    for arguments in (given, *(each for each in (edits if isinstance(edits, list) else ()) if isinstance(each, dict))):
        for key, text in arguments.items():
            if isinstance(text, str) and "://" in text and not _OLD.match(key):
                # A call that waits for its result is kept with no more of a text than this.
                yield from (named for _, named in in_urls(text[:WRITTEN_MAX]))


_ARGUMENTS = {
    PR: ("pullNumber", "pull_number", "pullRequestNumber", "pull_request_number", "pullRequestId", "merge_request_iid"),
    ISSUE: ("issue_number", "issueNumber", "issue_iid", "workItemId"),
}
_KEY_ARGUMENTS = ("id", "key", "issueId", "issueKey", "issueIdOrKey", "issue_key", "issue_id", "identifier")
_SHA = lazy_regex(r"[0-9a-f]{7,64}")


def _in_arguments(name: str, given: dict[str, Any]) -> Iterator[NamedRef]:
    owner, project = given.get("owner"), given.get("repo") or given.get("project_id")
    repository = f"{owner}/{project}" if isinstance(owner, str) and isinstance(project, str) else None
    if repository is None and isinstance(project, str) and "/" in project:
        repository = unquote(project)
    for kind, keys in _ARGUMENTS.items():
        number = next((given[key] for key in keys if key in given), None)
        if isinstance(number, int | str) and _OPERAND.fullmatch(str(number)):
            yield NamedRef(kind, str(number), None, repository)
    for key in _KEY_ARGUMENTS:
        value = given.get(key)
        is_tracker = "issue" in name or "linear" in name or "jira" in name
        if is_tracker and isinstance(value, str) and (found := KEY.fullmatch(value)) is not None:
            yield NamedRef(ISSUE, found.group())
    sha = given.get("sha")
    if "commit" in name and isinstance(sha, str) and _SHA.fullmatch(sha) and is_hash(sha):
        yield NamedRef(COMMIT, sha, None, repository)
