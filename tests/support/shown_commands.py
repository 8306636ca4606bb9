"""The commands that errors, messages, help and documents show, with values for what they leave open."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from backstory.cli import cli
from backstory.cli.commands.help_command import EXAMPLES
from backstory.errors import Next

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "backstory"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(PACKAGE.rglob("*.md"))]

SESSION, AGENT = "S1", "claude"
OPEN = {
    r"\{[^{}]*(session|label|uid|name|number|owner)[^{}]*\}": SESSION,
    r"\{each\.kind\}": "mcp",
    r"\{agent\}|\{asked\.form\}": AGENT, r"\{model\}": "small", r"\{wanted\}": "edit", r"\{more\}|\{find\}": "",
    r"\{[^{}]*(seq|point)[^{}]*\}": "1",
    r"set \{key\} \{value\}": "set sync.enabled true",
    r"\{address\}|http://127\.0\.0\.1:7421": "http://127.0.0.1:9", r"\{found\['code'\]\}": "CODE",
    r"\{str\(other\)\}": "8765", r"\{drop\}|\{prompt\.short_id\}": "ID", r"\{wanted\.about\}": "words",
    r"\{(path|source|home|to|Path\(folder\))\}": "FILE",
    r"\{their\w*\}": "FILE",
    r"\{shown or [^{}]*\}": "FILE", r"\{'\.' if [^{}]*\}": ".",
    r"@(N|\d+)\b": "@1", r"\b01K\w+|\btalk\b|\bSESSION\b|\bUID\b|\bPOINT\b|\bS[23]\b(?!@)": SESSION, r"\bS2@12": "S2@1",
    r"\bAGENT\b|(?<=--format )NAME|(?<=--agent )NAME|(?<=compaction\.agent )NAME": AGENT,
    r"\bCOMMAND\b": "list",
}  # fmt: skip
"""What is filled in, by the pattern of what is open: ``{expression}`` of an f-string, or a word in capitals."""
TYPED = re.compile(
    r"`(?P<quoted>backstory [^`]+)`"
    r"|(?:^|: |\n\s*| · )(?P<copied>backstory (?!(?:is|cannot|knows|only)\b)[a-z][a-z-]*(?:\{[^{}]*\}|[^`\n])*?)"
    r"(?=[.,;:]? \(| · |[.,;:] |[.,;]?$|\n)"
)
"""A command within text: behind a backtick, or where a person copies it from."""
MAY_SHOW = re.compile(r"\bNext\(|(?<!from )(?<!``)\bbackstory [a-z{]")
"""A module that shows a command; the others need not be parsed."""
SHELL = {"|", ">", "<", ">>", ";", "&&"}


class Shown(Struct, frozen=True, order=True):
    """A command as it is shown: where, its words, and whether a sentence has it between backticks."""

    where: str
    typed: str
    is_quoted: bool = False

    @property
    def words(self) -> list[str]:
        """The words that a shell would pass on, without what is piped in or out."""
        typed = self.typed
        for pattern, value in OPEN.items():
            typed = re.sub(pattern, value, typed)
        lexer = shlex.shlex(typed.replace("\\|", "|"), posix=True, punctuation_chars="|<>;&")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)[1:]
        return words[: next((n for n, word in enumerate(words) if word in SHELL), len(words))]

    @property
    def is_name(self) -> bool:
        """True if a sentence speaks of a command, without a word of what it is to do."""
        return self.is_quoted and command_of(self.words) == " ".join(self.words)


def command_of(words: Sequence[str]) -> str:
    """Return the words that name a command, at the beginning of these."""
    command: click.Command = cli
    for n, word in enumerate(words):
        if not isinstance(command, click.Group) or not (found := command.get_command(click.Context(command), word)):
            return " ".join(words[:n])
        command = found
    return " ".join(words)


def leaves() -> set[str]:
    """Return every command that is no group of others, and the groups that do something themselves."""
    return {
        name for name, command in commands() if not isinstance(command, click.Group) or command.invoke_without_command
    }


def in_source() -> Iterator[Shown]:
    """Yield what each error says to do next, and each command in a text of the package that is no docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        if not MAY_SHOW.search(source):
            continue
        tree = ast.parse(source)
        where = path.relative_to(PACKAGE).as_posix()
        for text in _texts(tree):
            yield from commands_in(where, text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Next":
                yield Shown(where, str(_next(node)))


def in_help() -> Iterator[Shown]:
    """Yield each command in the help of a command or an option, and the examples below it."""
    for example in EXAMPLES.splitlines():
        yield Shown("help", f"backstory {example}")
    for name, command in commands():
        for text in (command.help, *(getattr(each, "help", None) for each in command.params)):
            yield from commands_in(f"{name} --help", " ".join((text or "").split()))


def in_documents() -> Iterator[Shown]:
    """Yield each command in a block or a line of code of a document."""
    for path in DOCUMENTS:
        for block, line in re.findall(r"```(?:sh|console)\n(.*?)```|(`[^`\n]+`)", path.read_text("utf-8"), re.DOTALL):
            if line:
                yield from commands_in(path.name, line)
            for typed in re.findall(r"^(?:\$ )?(?:.*\| )?(backstory .*)$", block, re.MULTILINE):
                yield Shown(path.name, typed)


def commands_in(where: str, text: str) -> Iterator[Shown]:
    """Yield the commands in a text."""
    for found in TYPED.finditer(text):
        yield Shown(where, found["quoted"] or found["copied"], is_quoted=found["quoted"] is not None)


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module; an f-string with its expressions in braces."""
    left_out = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    left_out |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(_filled(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _filled(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return "{" + ast.unparse(part.value).replace("{", "(").replace("}", ")") + "}"


def _next(node: ast.Call) -> Next:
    command, *words = (_word(each) for each in node.args)
    options = {str(each.arg): _word(each.value) for each in node.keywords if each.arg}
    return Next(command, *words, **{name: True if value == "True" else value for name, value in options.items()})


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_filled(part) for part in node.values)
    return "{" + ast.unparse(node) + "}"


def commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from commands(found, (*path, name))


def options() -> set[str]:
    """The options that any command has."""
    return {option for _, command in commands() for each in command.params for option in each.opts}


def arguments() -> set[str]:
    """The arguments that any command has, as its help calls them."""
    found = [each for _, command in commands() for each in command.params if isinstance(each, click.Argument)]
    return {word for each in found for word in re.findall(r"[A-Z]+", each.human_readable_name)}
