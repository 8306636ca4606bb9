"""Acts of a tool call that a person would report: an edit, a commit, a pull request, a run of tests. Pure.

Only what a command's words surely say counts. Where a script of several commands fails, nobody says which of them did:
a commit is then known by what git prints for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.derive import check_programs as programs
from backstory.derive import shell_parse
from backstory.derive.check_programs import DeedKind
from backstory.derive.essence import is_refusal
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from backstory.model import ToolCall


CHECKS = (DeedKind.TEST, DeedKind.BUILD)
"""The acts that succeed or fail."""


class Deed(Struct, frozen=True, kw_only=True):
    """One thing done. ``text``: the command's words, or the path of a file. ``folder``: where; '' where nothing says.

    ``is_told``: it went well if its script did; ``is_blamed``: it failed if its script did.
    """

    kind: DeedKind
    text: str
    folder: str = ""
    is_told: bool = False
    is_blamed: bool = False


_WORDS_OF_DEEDS = lazy_regex(
    r"test|spec|check|build|compil|package|assemble|commit|merge|cherry-pick|revert|rebase|\bpr\b|\bmr\b|make|\bam\b"
    r"|tox|nox|jest|mocha|\bava\b|bats|prove|pest|tsc|msbuild|webpack|rollup|tsup|run|verify|install|just|ninja|\bt\b"
    r"|all|create|modify|submit|cypress|phpunit|coverage"
)
_ASKS_FOR_ONE = lazy_regex(r"(?:^|_)create_(?:pull|merge)_request$")


def may_do(script: str) -> bool:
    """Return True if a script has a word without which nothing in it counts: most commands only look at something."""
    return _WORDS_OF_DEEDS.search(script) is not None


def commands_of(call: ToolCall) -> list[Deed]:
    """Return the acts of a call besides its edits: of a shell command all that count, in order.

    >>> from backstory.model import ToolCall
    >>> call = ToolCall(tool_name="Bash", tool="SHELL", input={"command": "uv run tox; ls"})
    >>> [each.text for each in commands_of(call)]
    ['uv run tox']
    """
    given: dict[str, Any] = call.input if isinstance(call.input, dict) else {}
    if _ASKS_FOR_ONE.search(call.tool_name):
        return [Deed(kind=DeedKind.PULL_REQUEST, text=call.tool_name, is_told=True, is_blamed=True)]
    script = shell_parse.script_in(call)
    if script is None or not may_do(script):
        return []
    found, simple = [], shell_parse.simple_commands(script)
    begun = given.get("workdir") or given.get("cwd") or ""
    for number, each in enumerate(simple):
        kind = kind_of(each.words)
        if kind is not None:
            text = " ".join(word or "…" for word in each.words)
            folder = _folder(begun if isinstance(begun, str) else "", each)
            told, blamed = _exit_code_of(simple[number:])
            found.append(Deed(kind=kind, text=text, folder=folder, is_told=told, is_blamed=blamed))
    return found


_SAYING = frozenset({"echo", "printf"})


def _exit_code_of(commands: Sequence[shell_parse.Simple]) -> tuple[bool, bool]:
    """Return True if the exit code of a script tells how the first of its last commands ended, 0 or not."""
    ends = [each.then if each is not commands[-1] else "" for each in commands]
    told = ends[0] in ("&&", "") and all(each in ("&&", "|", "|&", "") for each in ends)
    return told, told and all(each.words[:1] and each.words[0] in _SAYING for each in commands[1:])


def _folder(begun: str, simple: shell_parse.Simple) -> str:
    """Return the folder that a command runs in, as far as its script says; '' if unknown."""
    folder = simple.folder
    if simple.words[:1] == ["git"]:
        there, _, _ = shell_parse.git_words(simple.words[1:])
        folder = None if there is None or folder is None else shell_parse.join(folder, there)
    return "" if folder is None else shell_parse.join(begun, folder)


_SCRATCH = lazy_regex(
    r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)(?:/|$)|[A-Za-z]:[\\/].*[\\/]Temp(?:[\\/]|$)"
    r"|(?:/Users/[^/]+|/home/[^/]+|/root)/\.[^/]+(?:/|$)|~/\."
)
"""Temporary folders, and what programs keep in hidden folders of a home."""


def is_aside(path: str, roots: Collection[str]) -> bool:
    """Return True if what is done at a path is no work on a project: in a temporary folder, or a hidden one of a home.

    Not if the project itself lies there. ``roots``: its folders.

    >>> [is_aside(each, ["/home/a/p"]) for each in ("/tmp/x.py", "/home/a/.agent/plan.md", "/home/a/p/.ci/a", "b.py")]
    [True, True, False, False]
    """
    return _SCRATCH.match(path) is not None and not any(is_below(path, each) for each in roots)


def is_below(path: str, root: str) -> bool:
    """Return True if a path is a folder, or lies in it."""
    return f"{path.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")


_FAILURES = lazy_regex(
    r"(?<![\d.,])[1-9][\d,]* (?:tests? |specs? |checks? )?(?:failed|failing|failures?|errors?)\b"
    r"|\b(?:failures|errors)=[1-9]|^(?:--- )?FAIL\b|^FAILED\b|^BUILD FAILED|\*\* BUILD FAILED|^panic:|^make: \*\*\*"
    r"|^npm ERR!|\berror(?: TS\d+|\[E\d+\]):|^\S+:\d+:\d+: error:|^error: (?:could not compile|aborting)"
    r"|^\[(?:test|build|check)[^\]]*\] ERROR task failed",
    re.MULTILINE,
)
_COMMITTED = lazy_regex(r"^\[\S+(?: [^\]\n]*)? [0-9a-f]{7,40}\] |^Merge made by ", re.MULTILINE)
"""The line that git prints for a commit."""
_COMMITTED_AS = lazy_regex(r"^\[\S+(?: [^\]\n]*)? ([0-9a-f]{7,40})\] (.*)$", re.MULTILINE)
_PROPOSED = lazy_regex(r"^https://\S+/(?:pull|merge_requests)/\d+", re.MULTILINE)
_NOT_COMMITTED = lazy_regex(
    r"^(?:nothing to commit|nothing added to commit|no changes added to commit|Already up to date\.|Fast-forward"
    r"|Automatic merge failed|Aborting commit|error: |fatal: )",
    re.MULTILINE,
)
_IN_BACKGROUND = lazy_regex(r"running in background|Process running with session ID|started in (?:the )?background")
HEAD_CHARS = 400
"""The first characters of a result in which it says that the command still runs."""
TAIL_CHARS = 4_000
"""The most of the end of an output that is looked at for its verdict."""


def was_refused(failed: bool | None, output: str | None) -> bool:
    """Return True if a person did not let a call happen, so that nothing was done."""
    return bool(failed) and output is not None and is_refusal(output)


def succeeded(deed: Deed, failed: bool | None, output: str | None) -> bool | None:
    """Return True if a step of a script went well; None where unknown. ``failed``: whether the script did.

    A pipe such as ``pytest | tail`` hides how the program ended, so that its last words count, too. A script fails by
    any of its commands: a commit was made if git says so.

    >>> test = Deed(kind=DeedKind.TEST, text="pytest")
    >>> [succeeded(test, False, each) for each in ("2 failed, 30 passed", "30 passed, 0 failed")]
    [False, True]
    """
    said = output or ""
    if deed.kind == DeedKind.COMMIT:
        return _was_committed(failed, said)
    if deed.kind == DeedKind.PULL_REQUEST:
        return "already exists" not in said if _PROPOSED.search(said) else None if failed is None else not failed
    if failed and deed.is_blamed:
        return False
    if _IN_BACKGROUND.search(said, 0, HEAD_CHARS):
        return None
    if failed is False and deed.is_told:
        return True
    if _FAILURES.search(said, max(0, len(said) - TAIL_CHARS)):
        return False
    if failed:
        # What failed may be something else. A check that fails stops what would have followed it, such as a commit.
        return True if _COMMITTED.search(said) else None
    return None if failed is None else True


def made(kind: DeedKind, output: str | None) -> str:
    """Return the thing made, from the output: a commit's hash and subject, a pull request's address; '' for none.

    >>> made(DeedKind.COMMIT, "[main (root-commit) 1a2b3c4] Fix it\\n 1 file changed")
    '1a2b3c4 Fix it'
    """
    if kind == DeedKind.COMMIT and (found := _COMMITTED_AS.search(output or "")):
        return f"{found.group(1)} {found.group(2).strip()}".strip()
    found = _PROPOSED.search(output or "") if kind == DeedKind.PULL_REQUEST else None
    return found.group().strip() if found else ""


def _was_committed(failed: bool | None, said: str) -> bool | None:
    if _COMMITTED.search(said):
        return True
    return None if failed is None else not failed and _NOT_COMMITTED.search(said) is None


def kind_of(words: Sequence[str | None]) -> DeedKind | None:
    """Return the act of a simple command; None if it is none that a person would report."""
    program, *rest = run_by(words) or [None]
    if program is None or not programs.ASKING.isdisjoint(rest):
        return None
    name = program.rpartition("/")[2]
    if name in _TOOLS_THAT_KEEP:
        return _kept_by(name, rest)
    plain = list(_plain(rest))
    if name in programs.TESTERS or _is_test_file(name):
        return DeedKind.TEST
    if name in programs.COMPILERS or programs.BUILD_FILE.fullmatch(name):
        return DeedKind.TEST if "test" in plain else DeedKind.BUILD
    if name == "cmake":
        return DeedKind.BUILD if "--build" in rest else None
    if name in programs.SCRIPT_RUNNERS:
        return _of_script(rest)
    if name in programs.TASK_RUNNERS:
        return _of_tasks(name, rest)
    verbs = programs.VERBS.get(name)
    if verbs is None:
        return None
    # A task of a part of the project is named behind a colon.
    goals = [each.rpartition(":")[2] for each in plain] if name in programs.SEVERAL_GOALS else plain[:1]
    found = next((verbs[word] for word in goals if word in verbs), None)
    # ``go test -c`` only compiles.
    return DeedKind.BUILD if found == DeedKind.TEST and name == "go" and "-c" in rest else found


def _is_test_file(name: str) -> bool:
    is_named_so = programs.TEST_FILE.fullmatch(name) is not None
    return is_named_so and programs.NO_CHECKS.isdisjoint(re.split("[-_.]", name))


_TOOLS_THAT_KEEP = frozenset({"git", "gh", "glab", "hg", "sl", "jj", "gt"})
_PROPOSING = {"gh": ("pr", "create"), "glab": ("mr", "create"), "gt": ("submit",)}
_KEEPING_VERBS = {"hg": {"commit"}, "sl": {"commit", "amend"}, "jj": {"commit"}, "gt": {"create", "modify"}}
_COMMITTING = frozenset({"commit", "cherry-pick", "revert", "merge", "am"})


def _kept_by(name: str, rest: list[str | None]) -> DeedKind | None:
    plain = list(_plain(rest))
    if name == "git":
        return DeedKind.COMMIT if _commits(rest) else None
    if tuple(plain[: len(_PROPOSING.get(name, ("",)))]) == _PROPOSING.get(name):
        return DeedKind.PULL_REQUEST
    return DeedKind.COMMIT if not _KEEPING_VERBS.get(name, set()).isdisjoint(plain[:1]) else None


def _commits(words: list[str | None]) -> bool:
    _, verb, rest = shell_parse.git_words(words)
    if verb == "rebase":
        return "--continue" in rest
    return verb in _COMMITTING and {"--abort", "--quit", "-n", "--no-commit"}.isdisjoint(
        rest if verb != "commit" else ()
    )


def run_by(words: Sequence[str | None]) -> list[str | None]:
    """The words of the program that really runs: behind ``uv run``, ``python -m`` or ``npx``."""
    left = list(words)
    while left and left[0] is not None:
        name = left[0].rpartition("/")[2]
        if name.startswith("python") or name in programs.INTERPRETERS:
            behind = _behind(left[1:], programs.PYTHON_OPTIONS, ())
            is_run = behind and (left[-len(behind) - 1] == "-m" or (behind[0] or "").endswith(_SCRIPT_ENDINGS))
            if not is_run:
                break
            left = behind
        elif name == "mise" and left[1:2] in (["exec"], ["x"]):
            left = left[left.index("--") + 1 :] if "--" in left else []
        elif name in programs.RUNNERS and not _does_itself(name, left[1:]):
            left = _behind(left[1:], programs.RUNNERS[name])
            left = left[1:] if name == "timeout" else left
            if name in programs.RUNNERS_OF_SCRIPTS and left[:1] and left[0] in programs.SCRIPTS:
                return ["npm", *left]
        else:
            break
    return left


_SCRIPT_ENDINGS = (".py", ".sh", ".bash", ".js", ".mjs", ".ts")


def _does_itself(name: str, rest: list[str | None]) -> bool:
    """Return True if a program that runs others does something by a verb of its own, as ``uv build`` does."""
    first = next(_plain(rest), "")
    return first in programs.VERBS.get(name, ())


def _behind(
    words: list[str | None], valued: Collection[str], verbs: Collection[str] = ("run", "exec")
) -> list[str | None]:
    """The words behind options, with the words of those that take one, and behind a verb such as ``run``."""
    while words and (words[0] in verbs or (words[0] or "").startswith("-")):
        words = words[2:] if words[0] in valued else words[1:]
    return words


def _plain(words: Sequence[str | None]) -> Iterator[str]:
    return (word for word in words if word is not None and not word.startswith("-"))


def _of_script(rest: list[str | None]) -> DeedKind | None:
    """Return the act of a package's script, by its name: ``test``, ``test:unit``, ``run build``; or by its program."""
    left = _behind(rest, programs.SCRIPT_OPTIONS, ("run", "run-script", "exec", "x", "dlx", "recursive"))
    if left[:1] == ["workspace"]:
        left = left[2:]
    elif left[:1] == ["workspaces"]:
        left = _behind(left[1:], programs.SCRIPT_OPTIONS, ("run", "foreach"))
    left = _behind(left, programs.SCRIPT_OPTIONS, ("run",))
    first = left[0] if left else None
    if first is None:
        return None
    return _named(first, programs.SCRIPTS) or (None if first in programs.SCRIPT_RUNNERS else kind_of(left))


def _of_tasks(name: str, rest: list[str | None]) -> DeedKind | None:
    plain, options = shell_parse.operands(rest, programs.MAKE_OPTIONS)
    goals = [word for word in plain if word and "=" not in word and not word.isdecimal() and word not in ("run", "r")]
    if "make" not in name:
        most = 2 if len(goals) < len(plain) else 1
        return next((kind for word in goals[:most] if (kind := _named(word, programs.TASKS))), None)
    if not {"-n", "--just-print", "-q"}.isdisjoint(options):
        return None
    # Without a goal it makes what stands first.
    return next((kind for word in goals if (kind := _named(word, programs.TASKS))), None) if goals else DeedKind.BUILD


def _named(name: str, kinds: dict[str, DeedKind]) -> DeedKind | None:
    """Return the act of a task, by the first part of its name, if the second says nothing else."""
    first, *more = re.split(r"[:_-]", name)
    return kinds.get(first) if programs.NO_CHECKS.isdisjoint(more) else None
