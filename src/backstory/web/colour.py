"""Code with the colours of its language, as spans whose classes the style sheet knows.

Made for text of others: whatever is in it, it is read once from its beginning to its end. (Pygments takes 12 seconds
for 12,000 line ends in C.) Words, strings, numbers and comments are known; no language is understood.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterator

CHARS_MOST = 60_000
"""A longer piece of code stays plain."""
BLOCK_CHARS_MOST = 100_000
"""The most characters that are coloured of entries that are read together."""

SLASHES, HASH, DASHES, ANGLES = r"//[^\n]*|/\*.*?(?:\*/|\Z)", r"(?<!\S)\#[^\n]*", r"--[^\n]*", r"<!--.*?(?:-->|\Z)"
QUOTES, CHAR = r'"(?:[^"\\\n]|\\.)*"?|' + r"'(?:[^'\\\n]|\\.)*'?", r'"(?:[^"\\\n]|\\.)*"?|' + r"'(?:\\.|[^'\\\n])'"
TICKS = r"`(?:[^`\\]|\\.)*`?"
WORD, TAG = (
    r"(?P<word>[A-Za-z_][\w$]*)(?P<call>(?=\())?",
    r"(?P<f></?[A-Za-z][\w:.-]*|/?>)|(?P<t>(?<![\w:.@-])[A-Za-z_:@][\w:.-]*+(?==))",
)
KEY = r"(?P<f>^[ \t]*+(?:-[ ])?[\w.\"'/-]++(?=[ \t]?[:=]))|(?P<k>^\[[^\]\n]*\]?)"
NUMBER = r"(?P<n>(?<![\w.])\d[\w.]*)"
_C = "if else for while do switch case default break continue return goto sizeof static const struct enum union typedef"
_OO = "class public private protected new this try catch finally throw import package interface extends implements"
_JS = (
    "async await break case catch class const continue default delete do else export extends finally for from if import"
    " function in instanceof let new of return static super switch this throw try typeof var void while yield null true"
    " false undefined"
)


class Grammar(NamedTuple):
    """Patterns of a language. ``rest``: those of other things, by their class."""

    names: str
    """The ends of its files, and its names in fences."""
    comment: str
    string: str
    words: str = ""
    rest: str = ""
    is_caseless: bool = False
    """True if its words may be in capitals."""


GRAMMARS = (
    Grammar(
        "py pyi pyw python python3", r"\#[^\n]*", r'"""(?:.*?)(?:"""|\Z)|' + rf"'''(?:.*?)(?:'''|\Z)|{QUOTES}",
        "and as assert async await break case class continue def del elif else except finally for from global if import"
        " in is lambda match nonlocal not or pass raise return try while with yield None True False self",
        r"(?P<t>@[\w.]+)",
    ),
    Grammar("js mjs cjs jsx javascript", SLASHES, f"{TICKS}|{QUOTES}", _JS),
    Grammar(
        "ts tsx mts cts typescript", SLASHES, f"{TICKS}|{QUOTES}",
        f"{_JS} type interface enum implements declare namespace readonly keyof infer is as satisfies abstract private"
        " protected public string number boolean unknown any never",
    ),
    Grammar(
        "go golang", SLASHES, f"{TICKS}|{CHAR}",
        "break case chan const continue default defer else fallthrough for func go goto if import interface map package"
        " range return select struct switch type var nil true false string int int64 error bool byte any",
    ),
    Grammar(
        "rs rust", SLASHES, CHAR,
        "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut"
        " pub ref return self Self static struct super trait type unsafe use where while true false",
        r"(?P<t>\#!?\[[^\]\n]*\]?)",
    ),
    Grammar("c h", SLASHES, CHAR, f"{_C} void int char long short unsigned float double", r"(?P<t>^\#[ ]*\w+)"),
    Grammar(
        "cpp cc cxx hpp hh c++", SLASHES, CHAR,
        f"{_C} {_OO} void int char long short unsigned float double bool auto namespace template typename using virtual"
        " override nullptr true false",
        r"(?P<t>^\#[ ]*\w+)",
    ),
    Grammar(
        "java", SLASHES, CHAR, f"{_C} {_OO} void int long boolean final abstract null true false super throws record"
    ),
    Grammar(
        "cs csharp c#", SLASHES, CHAR,
        f"{_C} {_OO} using namespace void int long bool string var async await null true false base override get set",
    ),
    Grammar(
        "kt kts kotlin", SLASHES, QUOTES,
        f"{_OO} fun val var when is in object override data sealed companion if else for while return null true false",
    ),
    Grammar(
        "swift", SLASHES, QUOTES,
        "func let var if else guard for in while return switch case default class struct enum protocol extension import"
        " self Self init nil true false try catch throw throws async await public private static override",
    ),
    Grammar(
        "php", f"{SLASHES}|{HASH}", QUOTES, f"{_C} {_OO} function echo use namespace as null true false fn",
        r"(?P<t>\$\w+)",
    ),
    Grammar("dart scala groovy", SLASHES, QUOTES, f"{_C} {_OO} void int bool var val def final null true false"),
    Grammar(
        "rb ruby gemfile rakefile", HASH, QUOTES,
        "def end class module if elsif else unless case when while until for in do begin rescue ensure return yield"
        " self nil true false and or not require attr_accessor puts",
        r"(?P<t>(?<!:):\w+|@\w+)",
    ),
    Grammar(
        "sh bash zsh shell ksh console bashrc zshrc profile", HASH, r'"(?:[^"\\]|\\.)*"?|' + "'[^']*'?",
        "if then else elif fi for in do done while until case esac function return export local set exit cd echo",
        r"(?P<t>\$\w+|\$\{[^}\n]*\}?)",
    ),
    Grammar(
        "dockerfile docker containerfile", HASH, QUOTES,
        "from run copy add cmd entrypoint env arg workdir expose user volume", is_caseless=True,
    ),
    Grammar(
        "makefile make mk", HASH, QUOTES, "ifeq ifneq ifdef ifndef else endif include define endef export",
        r"(?P<t>\$\([^)\n]*\)?)",
    ),
    Grammar(
        "sql", rf"{DASHES}|/\*.*?(?:\*/|\Z)", QUOTES,
        "select from where and or not in is null as on join left right inner outer cross group by order having limit"
        " offset insert into values update set delete create table index view trigger drop alter add primary key"
        " unique references default case when then else end distinct union all exists with returning begin commit",
        is_caseless=True,
    ),
    Grammar(
        "lua", DASHES, QUOTES,
        "and break do else elseif end for function if in local nil not or repeat return then true until while false",
    ),
    Grammar(
        "css scss less", r"/\*.*?(?:\*/|\Z)", QUOTES, "",
        r"(?P<k>@[\w-]+)|(?P<t>(?<![\w-])[\w-]++(?=:[ ]))|(?P<f>[.\#][A-Za-z][\w-]*)",
    ),
    Grammar("json jsonc jsonl webmanifest", SLASHES, QUOTES, "true false null", r'(?P<f>"(?:[^"\\\n]|\\.)*+"(?=:))'),
    Grammar("yaml yml", HASH, QUOTES, "true false null yes no", KEY),
    Grammar("toml ini cfg conf editorconfig properties env", rf"{HASH}|^;[^\n]*", QUOTES, "true false", KEY),
    Grammar("html htm xml svg xsd plist vue svelte", ANGLES, QUOTES, "", TAG),
    Grammar("diff patch", r"(?!)", r"^\+[^\n]*", "", r"(?P<d>^-[^\n]*)|(?P<k>^@@[^\n]*)"),
)  # fmt: skip
_BY_NAME = {name: grammar for grammar in GRAMMARS for name in grammar.names.split()}


class Palette:
    """Colours code until so many characters were coloured."""

    def __init__(self, chars: int = BLOCK_CHARS_MOST) -> None:
        self._left = chars

    def lines(self, text: str, grammar: Grammar | None) -> list[Markup]:
        """The lines of a text, each coloured for itself; without a grammar, or beyond the bounds, plain."""
        if grammar is None or len(text) > min(CHARS_MOST, self._left):
            return [escape(line) for line in text.split("\n")]
        self._left -= len(text)
        found, line = list[Markup](), list[str]()
        for tone, value in _pieces(text, grammar):
            for n, piece in enumerate(value.split("\n")):
                if n:
                    found.append(Markup("".join(line)))
                    line = []
                if piece:
                    line.append(f'<span class="{tone}">{escape(piece)}</span>' if tone else escape(piece))
        return [*found, Markup("".join(line))]


def grammar_of(name: str) -> Grammar | None:
    """The language of a file by its path, or of a fence by what it says; None if that is not known."""
    last = name.replace("\\", "/").rpartition("/")[2].lower()
    return _BY_NAME.get(last.rpartition(".")[2])


def _pieces(text: str, grammar: Grammar) -> Iterator[tuple[str, str]]:
    """The text in pieces, each with its class: ``c`` a comment, ``s`` a string, ``k`` a word of the language; ''."""
    pattern, words = _pattern(grammar)
    end = 0
    for found in pattern.finditer(text):
        tone = found.lastgroup or ""
        if tone in ("word", "call"):
            word = found["word"].lower() if grammar.is_caseless else found["word"]
            is_type = word[:1].isupper() and not word.isupper()
            tone = "k" if word in words else "f" if found["call"] is not None else "t" if is_type else ""
        if tone:
            yield "", text[end : found.start()]
            yield tone, found.group()
            end = found.end()
    yield "", text[end:]


@cache
def _pattern(grammar: Grammar) -> tuple[re.Pattern[str], frozenset[str]]:
    parts = [
        f"(?P<c>{grammar.comment})",
        grammar.rest,
        f"(?P<s>{grammar.string})",
        NUMBER,
        WORD if grammar.words else "",
    ]
    return re.compile("|".join(filter(None, parts)), re.DOTALL | re.MULTILINE), frozenset(grammar.words.split())
