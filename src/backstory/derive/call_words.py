"""The subject of a tool call in a few words that recur: a command without its arguments, an error without its details.

Pure. Calls with the same words are the same thing done again, for reports that look for what recurs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backstory.derive import shell_parse
from backstory.lazy import lazy_regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.derive.shell_parse import Simple
    from backstory.model import ToolCall

_VERBED = frozenset(
    {
        "git", "go", "cargo", "npm", "yarn", "pnpm", "bun", "gh", "glab", "docker", "kubectl", "make", "mise", "just",
        "uv", "poetry", "pip", "pip3", "swift", "dotnet", "mvn", "gradle", "gradlew", "bundle", "mix", "deno",
        "terraform", "brew", "apt", "apt-get", "systemctl", "task", "hatch", "golangci-lint", "helm", "npx", "uvx",
        "bunx", "rails",
    }
)  # fmt: skip
"""Programs whose first word says what they do."""
_TWO_VERBS = frozenset({"run", "exec", "pr", "issue", "compose", "tool", "workflow", "release", "stash", "worktree"})
"""First words that say it only with the next one."""
_INTERPRETERS = frozenset({"python", "python3", "node", "ruby", "perl", "bash", "sh", "zsh", "php", "tsx", "ts-node"})
"""Programs that do what their script says, or the module behind ``-m``."""
_VERB = lazy_regex(r"[a-z][a-z0-9:_-]*")
_BESIDE = frozenset(
    {"cd", "pushd", "popd", "export", "set", "source", ".", "echo", "printf", "true", "sleep", "test", "["}
)
"""Programs that prepare or report, but are not what a script is for."""
_FILTERS = frozenset(
    {"head", "tail", "grep", "rg", "cat", "wc", "sort", "uniq", "sed", "awk", "tee", "jq", "cut", "tr"}
)
_READING = frozenset(
    {"ls", "cat", "head", "tail", "wc", "grep", "which", "pwd", "stat", "file", "du", "cut", "diff", "jq", "nl"}
)
"""Programs that change nothing, whatever their options are."""
_READING_VERBS = {
    "git": frozenset({"diff", "status", "log", "show", "rev-parse", "ls-files", "blame", "merge-base", "describe"}),
    "go": frozenset({"doc", "version", "list"}),
    "gh": frozenset(
        {"pr view", "pr diff", "pr list", "pr checks", "pr status", "issue view", "issue list", "run view"}
    ),
}
ERROR_CHARS = 80
_DETAIL = lazy_regex(
    r"(?:[~.]{0,2}/|[A-Za-z]:\\)[^\s'\":,;)]+|\d[\d.,:]*\s?(?:[kKMG]i?B)?\b|0x[0-9a-f]+|\b[0-9a-f]{7,40}\b"
)
_PREFIX = lazy_regex(r"(?:<tool_use_error>|Error: |Exit code \d+\s+)+", re.IGNORECASE)


def script_words(call: ToolCall) -> tuple[str, ...]:
    """Return the purpose of a call's script: the first words of its last command, filters left out; () for none.

    >>> from backstory.model import ToolCall
    >>> given = {"command": "cd x && go test ./... 2>&1 | tail -5"}
    >>> script_words(ToolCall(tool_name="Bash", tool="SHELL", input=given))
    ('go', 'test')
    """
    commands = [words for each in _commands(call) if (words := _words(each)) and words[0] not in _BESIDE]
    while len(commands) > 1 and commands[-1][0] in _FILTERS:
        commands.pop()
    return commands[-1] if commands else ()


def reading_words(call: ToolCall) -> tuple[str, ...]:
    """The words that a script begins with which only reads, and is done at once; () for any other.

    >>> from backstory.model import ToolCall
    >>> given = ("cd x && git diff a | head", "git diff > a", "git push", "ls; rm a")
    >>> [reading_words(ToolCall(tool_name="Bash", tool="SHELL", input={"command": each})) for each in given]
    [('git', 'diff'), (), (), ()]
    """
    commands = [(_words(each), each) for each in _commands(call)]
    commands = [(words, each) for words, each in commands if words[:1] not in (("cd",), ("echo",))]
    if not commands or not all(_only_reads(words, each) for words, each in commands):
        return ()
    return commands[0][0]


def _only_reads(words: Sequence[str], command: Simple) -> bool:
    if not words or any(path != "/dev/null" for path in command.writes):
        return False
    verbs = _READING_VERBS.get(words[0])
    return words[0] in _READING if verbs is None else " ".join(words[1:]) in verbs


def error_words(output: str) -> str:
    """The first line of an error without paths, numbers and hashes, so that the same error has the same words.

    >>> error_words("Error: ENOENT: no such file or directory, open '/a/b.py'")
    "ENOENT: no such file or directory, open '…'"
    """
    text = output.strip()
    while (found := _PREFIX.match(text)) is not None and found.end():
        text = text[found.end() :]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    # A line such as "2 issues:" only introduces what follows.
    first = next((line for line in lines if not line.endswith(":")), lines[0])
    return _DETAIL.sub("…", first)[:ERROR_CHARS].strip()


def _commands(call: ToolCall) -> list[Simple]:
    script = shell_parse.script_in(call)
    return [] if script is None else shell_parse.simple_commands(script)


def _words(command: Simple) -> tuple[str, ...]:
    if not command.words or not command.words[0]:
        return ()
    program, *rest = command.words
    name = (program or "").rpartition("/")[2]
    if name in _INTERPRETERS:
        return _script_of(name, rest)
    if name not in _VERBED:
        return (name,)
    verbs = [each for each in rest[:2] if each and _VERB.fullmatch(each)] if rest and rest[0] else []
    if not verbs or verbs[0] != rest[0]:
        return (name,)
    return (name, *verbs) if verbs[0] in _TWO_VERBS else (name, verbs[0])


def _script_of(name: str, rest: Sequence[str | None]) -> tuple[str, ...]:
    """An interpreter with its script; () for one that is given its program as text."""
    given = [each for each in rest[:2] if each]
    if given[:1] == ["-m"] and len(given) == 2:
        return (name, *given)
    return (name, given[0]) if given and rest[0] and not given[0].startswith("-") else ()
