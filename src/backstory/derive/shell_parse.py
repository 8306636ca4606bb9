"""Reads the certain parts of a shell command: its simple commands, words and redirections. Runs and expands nothing.

A word that only a shell could know (a variable, a glob, a command's output) is None. Text that is not understood
yields fewer commands, never wrong ones. Time is linear in the length of the text.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from backstory.lazy import lazy_regex
from backstory.model import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import ToolCall

COMMAND_CHARS_MAX = 64_000
"""A longer command, its here-documents left out, is not taken apart."""

_DELIMITERS = frozenset(" \t\r\n|&;()<>")
_HEREDOC = lazy_regex(r"(?<!<)<<(?!<)(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_][\w.-]*))")
_NEXT = lazy_regex(
    r"(?P<blank>(?:[ \t\r]|\\\r?\n)+|\#[^\n]*)"
    r"|(?P<redirection>\d*(?:<<<|<<-?|>>|>\||>&|<&|<>|[<>])|&>>?)"
    r"|(?P<operator>\|\||&&|;;|\|&|[|&;()\n])"
    r"|(?P<word>[^\s'\"\\$`|&;()<>*?\[{]+(?=[\s|&;()<>]|\Z))"
)
_PLAIN = lazy_regex(r"[^\s'\"\\$`|&;()<>*?\[{]+")
_QUOTED = lazy_regex(r'[^"\\$`]+')
_NESTING = lazy_regex(r"""\\.|\$\(|[()'"]""", re.DOTALL)
_ANSI_QUOTED = lazy_regex(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_NAME = lazy_regex(r"\$\w*")
_BRACES = lazy_regex(r"\{[^{}\s]{0,1000}(?:,|\.\.)[^{}\s]{0,1000}\}")
_ASSIGNMENT = lazy_regex(r"[A-Za-z_]\w*\+?=")

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>"})
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_NAMING = frozenset({"for", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_BETWEEN = frozenset({"then", "do", "else", "elif", "!", "time"})
_KEYWORDS = _OPENING | _CLOSING | _BETWEEN | {"{", "}"}
_WRAPPERS = frozenset({"sudo", "command", "builtin", "exec", "nohup", "env"})
_TIMEOUT_VALUED = frozenset({"-s", "--signal", "-k", "--kill-after"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_TOOLS = frozenset({"bash", "shell", "sh", "zsh", "executecommand", "runcommand", "runshellcommand", "terminal"})
_FOREIGN = lazy_regex(r"power_?shell|pwsh|cmd\.exe", re.IGNORECASE)
_SHELLS_INSIDE_MAX = 3


class Simple(Struct, frozen=True, kw_only=True):
    """One program with its words. ``folder`` is where a ``cd`` led, "" where there was none, None if unknown.

    ``then``: the operator behind it, "" at the end of the script.
    """

    words: list[str | None]
    reads: list[str | None] = field(default_factory=list)
    writes: list[str | None] = field(default_factory=list)
    folder: str | None = ""
    conditional: bool = False
    then: str = ""


def simple_commands(script: str) -> list[Simple]:
    """The simple commands of a script in order, those inside ``bash -c`` too.

    >>> [each.words for each in simple_commands("cd src && cat 'a b' $X | wc -l > n")]
    [['cat', 'a b', None], ['wc', '-l']]
    """
    return list(_commands(script, "", 0))


@lru_cache(maxsize=1024)
def is_shell(tool_name: str, tool: str) -> bool:
    """Return True if a tool runs commands of a POSIX shell. In others a backslash is part of a path."""
    if tool != Tool.SHELL and tool_name.lower().replace("_", "") not in _TOOLS:
        return False
    return not _FOREIGN.search(tool_name)


def script_of(given: dict[str, Any]) -> str | None:
    """The script in a shell tool's input, which some agents give as a list of words."""
    command = given.get("command") or given.get("cmd")
    if command is None and isinstance(commands := given.get("commands"), list):
        # Several scripts, which run one after the other.
        return "\n".join(each for each in commands if isinstance(each, str)) or None
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else None


def script_in(call: ToolCall) -> str | None:
    """The script that a call has a POSIX shell run; None of any other call."""
    given = call.input
    return script_of(given) if isinstance(given, dict) and is_shell(call.tool_name, call.tool) else None


def without_heredocs(script: str) -> str:
    """The script without the bodies of its here-documents; one that does not end takes all that follows."""
    kept, at = [], 0
    while (found := _HEREDOC.search(script, at)) is not None:
        line_end = script.find("\n", found.end())
        if line_end < 0:
            break
        kept.append(script[at : line_end + 1])
        at = line_end + 1
        for each in _HEREDOC.finditer(script, found.start(), line_end):
            at = _heredoc_end(script, at, each)
    return "".join([*kept, script[at:]])


def _heredoc_end(script: str, start: int, found: re.Match[str]) -> int:
    """Return the start of the line after the one that holds nothing but the end word."""
    word = found.group(2) or found.group(3) or found.group(4)
    at = script.find(word, start)
    while at >= 0:
        end = at + len(word)
        line = at
        while found.group(1) and line > start and script[line - 1] == "\t":
            line -= 1
        is_whole = script.startswith(("\n", "\r\n"), end) or end == len(script)
        if is_whole and (line == start or script[line - 1] == "\n"):
            return script.find("\n", end) + 1 or len(script)
        at = script.find(word, end)
    return len(script)


def _commands(script: str, folder: str | None, inside: int) -> Iterator[Simple]:
    if "<<" in script:
        script = without_heredocs(script)
    if len(script) > COMMAND_CHARS_MAX:
        return
    for each in _Walk(folder).commands(script):
        inner = _inner_script(each.words) if inside < _SHELLS_INSIDE_MAX else None
        if inner is None:
            yield each
            continue
        for nested in _commands(inner, each.folder, inside + 1):
            conditional = nested.conditional or each.conditional
            yield Simple(
                words=nested.words,
                reads=nested.reads,
                writes=nested.writes,
                folder=nested.folder,
                conditional=conditional,
                then=nested.then or each.then,
            )
        if each.reads or each.writes:
            yield each


def _inner_script(words: list[str | None]) -> str | None:
    """Return the script of ``bash -c``."""
    if len(words) < 3 or (words[0] or "").rpartition("/")[2] not in _SHELLS:
        return None
    flag = words[1] or ""
    return words[2] if flag.startswith("-") and not flag.startswith("--") and flag.endswith("c") else None


class _Walk:
    """Gathers tokens to simple commands, and knows which of them run whatever happens, and where."""

    def __init__(self, folder: str | None) -> None:
        self._words: list[str | None] = []
        self._reads: list[str | None] = []
        self._writes: list[str | None] = []
        self._folders = [folder]
        self._after_or = False
        self._compounds = 0
        self._braces: list[bool] = []
        self._defines = False

    def commands(self, script: str) -> Iterator[Simple]:
        redirection = ""
        for kind, value in _tokens(script):
            if kind == "redirection":
                redirection = value or ""
            elif kind == "word" and redirection:
                self._redirected(redirection, value)
                redirection = ""
            elif kind == "word":
                self._words.append(value)
            else:
                redirection = ""
                yield from self._operator(value or "")
        yield from self._flush()

    def _redirected(self, redirection: str, target: str | None) -> None:
        sign = redirection.lstrip("0123456789")
        if sign == "<":
            self._reads.append(target)
        elif sign in _WRITING or (sign == ">&" and target is not None and not target.isdigit() and target != "-"):
            self._writes.append(target)

    def _operator(self, operator: str) -> Iterator[Simple]:
        if operator == "(" and len(self._words) == 1 and self._words[0] not in _KEYWORDS:
            # A function's name: what its body holds runs only when it is called.
            self._defines, self._words = True, []
            return
        if operator == "&&" or operator == ";" or operator == "\n" or operator == "&":
            yield from self._flush(operator)
            self._after_or = False
        elif operator == "||":
            yield from self._flush(operator)
            self._after_or = True
        elif operator == "(":
            yield from self._flush(operator)
            self._folders.append(self._folders[-1])
        elif operator == ")":
            yield from self._flush(operator)
            if len(self._folders) > 1:
                self._folders.pop()
        else:
            yield from self._flush(operator)

    def _flush(self, then: str = "") -> Iterator[Simple]:
        words, reads, writes = self._words, self._reads, self._writes
        if not (words or reads or writes):
            return
        self._words, self._reads, self._writes = [], [], []
        words = self._without_keywords(words)
        words = _without_wrappers(words)
        conditional = self._after_or or self._compounds > 0
        if words and words[0] in ("cd", "pushd", "popd"):
            self._folders[-1] = None if conditional else _moved(self._folders[-1], words)
        elif words or reads or writes:
            folder = self._folders[-1]
            yield Simple(
                words=words, reads=reads, writes=writes, folder=folder, conditional=conditional, then=then
            )  # fmt: skip

    def _without_keywords(self, words: list[str | None]) -> list[str | None]:
        at = 0
        while at < len(words):
            word = words[at]
            if word in _OPENING:
                self._compounds += 1
                if word in _NAMING:
                    return []
            elif word in _CLOSING:
                self._compounds = max(self._compounds - 1, 0)
            elif word == "{":
                self._braces.append(self._defines)
                self._compounds += self._defines
                self._defines = False
            elif word == "}":
                self._compounds -= bool(self._braces) and self._braces.pop()
            elif word == "function":
                self._defines = True
                at += 1
            elif word not in _BETWEEN:
                break
            at += 1
        return words[at:]


def _without_wrappers(words: list[str | None]) -> list[str | None]:
    """A command without what only sets the scene for it: assignments, ``sudo``, ``env``, ``timeout``."""
    at = 0
    while at < len(words):
        word = words[at]
        if word is None:
            # An assignment of something unknown is unknown itself, and so is all that follows.
            break
        if word == "timeout":
            at += 1
            while at < len(words) and (words[at] or "").startswith("-"):
                at += 2 if words[at] in _TIMEOUT_VALUED else 1
        elif word not in _WRAPPERS and not _ASSIGNMENT.match(word):
            break
        at += 1
    return words[at:] if at else words


def _moved(folder: str | None, words: list[str | None]) -> str | None:
    """Return the folder that ``cd`` leads to from a folder; None if only a shell would know."""
    targets = [word for word in words[1:] if word is None or not word.startswith("-")]
    if words[0] == "popd" or len(targets) != len(words) - 1 or len(targets) > 1:
        return None
    target = targets[0] if targets else "~"
    if target is None or folder is None:
        return target if target is not None and is_rooted(target) else None
    return join(folder, target)


def operands(
    words: list[str | None], valued: frozenset[str] = frozenset()
) -> tuple[list[str | None], dict[str, str | None]]:
    """The words that are no options, and the options with their values; those ``valued`` take the next word."""
    plain: list[str | None] = []
    options: dict[str, str | None] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            plain += rest
        elif word is None or not word.startswith("-") or word == "-":
            plain.append(word)
        elif word in valued:
            options[word] = next(rest, None)
        else:
            name, _, value = word.partition("=")
            options[name] = value
    return plain, options


def git_words(words: list[str | None]) -> tuple[str | None, str, list[str | None]]:
    """Return the words after ``git``: the folder of ``-C`` ("": none, None: unknown), its verb, the verb's words."""
    folder: str | None = ""
    rest = iter(words)
    for word in rest:
        if word is None:
            break
        if word in ("-C", "-c", "--git-dir", "--work-tree", "--namespace"):
            value = next(rest, None)
            if word == "-C":
                folder = None if folder is None or value is None else join(folder, value)
        elif not word.startswith("-"):
            return folder, word, list(rest)
    return folder, "", []


def is_rooted(path: str) -> bool:
    """Return True if a path means the same from everywhere."""
    return path.startswith(("/", "~", "\\", "file:")) or path[1:3] in (":/", ":\\")


def join(folder: str, path: str) -> str:
    """``path`` as seen from where ``folder`` is; either may be empty."""
    if not folder or not path:
        return path or folder
    return path if is_rooted(path) else posixpath.join(folder, path)


def _tokens(script: str) -> Iterator[tuple[str, str | None]]:
    at, end = 0, len(script)
    while at < end:
        found = _NEXT.match(script, at)
        if found is None:
            word, at = _word(script, at)
            yield "word", word
            continue
        at = found.end()
        kind = found.lastgroup
        if kind is not None and kind != "blank":
            yield kind, found.group()


def _word(text: str, at: int) -> tuple[str | None, int]:
    """The word that begins at ``at``, quotes taken off, and where it ends."""
    pieces: list[str] = []
    sure = True
    while at < len(text) and (char := text[at]) not in _DELIMITERS:
        if plain := _PLAIN.match(text, at):
            pieces.append(plain.group())
            at = plain.end()
        elif char == "'":
            close = text.find("'", at + 1)
            sure = sure and close >= 0
            pieces.append(text[at + 1 : close if close >= 0 else None])
            at = close + 1 if close >= 0 else len(text)
        elif char == '"':
            piece, at = _double_quoted(text, at + 1)
            sure = sure and piece is not None
            pieces.append(piece or "")
        elif char == "\\":
            pieces.append("" if text[at + 1 : at + 2] == "\n" else text[at + 1 : at + 2])
            at += 2
        elif char in "$`":
            sure, at = False, _past_expansion(text, at)
        else:
            sure = sure and char not in "*?[" and not _BRACES.match(text, at)
            pieces.append(char)
            at += 1
    return ("".join(pieces) if sure else None), at


def _double_quoted(text: str, at: int) -> tuple[str | None, int]:
    """Return the text between double quotes from ``at`` on, and its end, past the quote."""
    pieces: list[str] = []
    sure = True
    while at < len(text) and (char := text[at]) != '"':
        if plain := _QUOTED.match(text, at):
            pieces.append(plain.group())
            at = plain.end()
        elif char == "\\":
            escaped = text[at + 1 : at + 2]
            pieces.append("" if escaped == "\n" else escaped if escaped in '"\\$`' else "\\" + escaped)
            at += 2
        else:
            sure = False
            at = at + 1 if text.startswith("$'", at) else _past_expansion(text, at)
    return ("".join(pieces) if sure and at < len(text) else None), at + 1


def _past_expansion(text: str, at: int) -> int:
    """Return the end of a ``$…`` or a backquoted command; the text's end for one without."""
    if text.startswith("$(", at):
        return _past_substitution(text, at + 2)
    if text.startswith("$'", at):
        found = _ANSI_QUOTED.match(text, at)
        return found.end() if found else len(text)
    if text.startswith(("${", "`"), at):
        close = text.find("}" if text[at] == "$" else "`", at + 1)
        return close + 1 if close >= 0 else len(text)
    found = _NAME.match(text, at)
    return found.end() if found else at + 1


def _past_substitution(text: str, at: int) -> int:
    """Return the end of ``$(…)``, quotes and commands inside it counted."""
    open_marks = [")"]
    while open_marks and (found := _NESTING.search(text, at)) is not None:
        mark, at = found.group(), found.end()
        if mark == "$(":
            open_marks.append(")")
        elif open_marks[-1] == '"':
            if mark == '"':
                open_marks.pop()
        elif mark == "(":
            open_marks.append(")")
        elif mark == ")":
            open_marks.pop()
        elif mark == '"':
            open_marks.append('"')
        elif mark == "'":
            close = text.find("'", at)
            at = close + 1 if close >= 0 else len(text)
    return len(text) if open_marks else at
