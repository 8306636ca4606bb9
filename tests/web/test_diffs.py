"""Edits and code on the pages: which lines, in which colours, and that neither is more than text or takes long."""

from __future__ import annotations

import re
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.essence import changed_lines
from backstory.model import Tool, ToolCall
from backstory.web.colour import CHARS_MOST, GRAMMARS, Palette, grammar_of
from backstory.web.diffs import changes_of
from backstory.web.markup import markdown
from tests.support.clock import least_cpu_seconds
from tests.support.pages import Elements

if TYPE_CHECKING:
    from backstory.web.colour import Grammar

STYLE = files("backstory.web").joinpath("static/style.css").read_text()
READABLE = 4.5
"""The least contrast of a text with what is behind it."""
PALETTES = [
    dict(re.findall(r"--([\w-]+):\s*(#\w{6})", "".join(each)))
    for each in (
        re.findall(r"^:root \{.*?\}", STYLE, re.DOTALL | re.MULTILINE),
        re.findall(r"dark\) \{\s*:root \{(.*?)\}", STYLE, re.DOTALL),
    )
]


def edit(old: str, new: str, path: str = "a.py") -> ToolCall:
    given = {"file_path": path, "old_string": old, "new_string": new}
    return ToolCall(tool_name="Edit", tool_use_id="1", tool=Tool.EDIT, file_path=path, input=given)


def words(html: str) -> str:
    found = Elements()
    found.feed(html)
    return "".join(found.texts)


def classes(html: str) -> dict[str | None, str]:
    return dict(re.findall(r'<span class="(\w)">([^<]*)', html))


def test_lines_that_took_the_place_of_others_are_beside_them() -> None:
    (file,), has_more = changes_of(edit("a\nb\nc\nd", "A\nb\nc\nD\ne"), Palette(), 100)
    assert [(["".join(each.removed)], ["".join(each.added)]) for each in file.hunks] == [
        (["a"], ["A"]),
        (["d"], ["De"]),
    ]
    assert not has_more


def test_an_edit_of_several_files_names_each() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n-x = 1\n+x = 2\n*** Add File: b.md\n+# B\n*** End Patch"
    call = ToolCall(tool_name="apply_patch", tool_use_id="1", tool=Tool.EDIT, input={"patch": patch})
    found, _ = changes_of(call, Palette(), 100)
    assert [(each.path, len(each.hunks)) for each in found] == [("a.py", 1), ("b.md", 1)]
    assert 'class="n">2<' in str(found[0].hunks[0].added[0])


def test_a_file_that_is_written_is_all_added() -> None:
    given = {"file_path": "a.py", "content": "import os\nprint(1)\n"}
    call = ToolCall(tool_name="Write", tool_use_id="1", tool=Tool.WRITE, file_path="a.py", input=given)
    (file,), _ = changes_of(call, Palette(), 100)
    assert [words(str(each)) for each in file.hunks[0].added] == ["import os", "print(1)"]


def test_a_long_edit_says_that_there_is_more() -> None:
    (file,), has_more = changes_of(edit("", "\n".join(map(str, range(50)))), Palette(), 10)
    assert (len(file.hunks[0].added), has_more) == (10, True)


@given(st.text(max_size=80), st.text(max_size=80), st.sampled_from(["a.py", "a.html", "a.css", "a.yml", "a.sh", "a"]))
def test_no_line_of_any_edit_is_lost_or_moved(old: str, new: str, path: str) -> None:
    call = edit(old, new, path)
    found, _ = changes_of(call, Palette(), 1_000)
    hunks = [each for file in found for each in file.hunks]
    for sign, name in (("-", "removed"), ("+", "added")):
        shown = [words(str(line)) for each in hunks for line in getattr(each, name)]
        told = [text for each, text in changed_lines(call) if each == sign]
        assert len(shown) == len(told)


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("x/a.py", 'def f():  # why\n    return "s", 12', {"k": "return", "f": "f", "c": "# why", "n": "12"}),
        ("a.ts", "const x: Promise = g(`t`)", {"k": "const", "t": "Promise", "f": "g", "s": "`t`"}),
        ("a.rs", "fn main() { 'a' }", {"k": "fn", "f": "main"}),
        ("q.sql", "SELECT a -- b", {"k": "SELECT", "c": "-- b"}),
        ("a.json", '{"k": true, "v": 1}', {"f": "&#34;v&#34;", "k": "true", "n": "1"}),
        ("a.yml", "on: push # x", {"f": "on", "c": "# x"}), ("Dockerfile", "FROM a", {"k": "FROM"}),
        ("a.html", "<b id='x'>", {"f": "&gt;", "t": "id"}),
        ("diff", "-a\n+b\n@@ c", {"d": "-a", "s": "+b", "k": "@@ c"}),
        ("a.css", ".a { color: red }", {"f": ".a", "t": "color"}),
        ("a.sh", "echo $HOME", {"k": "echo", "t": "$HOME"}),
    ],
)  # fmt: skip
def test_code_has_the_colours_of_its_language(name: str, code: str, expected: dict[str, str]) -> None:
    html = "\n".join(Palette().lines(code, grammar_of(name)))
    assert words(html) == code
    assert expected.items() <= classes(html).items()


def test_a_fence_is_coloured_by_what_it_says() -> None:
    assert classes(str(markdown("```py title=x\nimport os\n```", Palette()))) == {"k": "import"}
    assert classes(str(markdown("```nothing\nimport os\n```", Palette()))) == {}


def test_what_is_too_long_stays_plain() -> None:
    assert classes("".join(Palette().lines("if " * CHARS_MOST, grammar_of("a.py")))) == {}
    palette = Palette(chars=5)
    assert [bool(classes("".join(palette.lines("if x", grammar_of("a.py"))))) for _ in range(2)] == [True, False]


PIECES = (
    *"([{<'\"`\\\n\t =:;-.#@$&%|/*0a", '"""', "//", "/*", "<!--", "--", "a(", "a.", "@a", "0x", "${", "<a ", "a-", "- ",
    "\n\n", " \n", "a\n", "\\\\", "a:", "[[", "''", "&a(", "{{\n", "a=", ".a", "</a",
)  # fmt: skip
CHARS, SLOW_S = 12_000, 0.6
"""Of a text that is read anew from each of its characters the time is longer, of others a hundredth of a second."""


def coloured_anew(text: str, grammar: Grammar) -> None:
    Palette().lines(text, grammar)


@pytest.mark.parametrize("grammar", GRAMMARS, ids=[each.names.split()[0] for each in GRAMMARS])
def test_no_text_takes_long_to_colour(grammar: Grammar) -> None:
    for piece in PIECES:
        # A palette of its own each time: one colours only so much.
        colour = partial(coloured_anew, (piece * CHARS)[:CHARS], grammar)
        assert least_cpu_seconds(colour, SLOW_S) < SLOW_S, piece


@given(st.text(max_size=120), st.sampled_from(GRAMMARS))
def test_coloured_text_is_the_text(text: str, grammar: Grammar) -> None:
    html = "\n".join(Palette().lines(text, grammar))
    assert words(html).replace("\r", "") == text.replace("\r", "")
    assert set(re.findall(r"<[^>]*>", html)) <= {"</span>", *(f'<span class="{each}">' for each in "ckstnfd")}


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        lit = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", PALETTES, ids=["light", "dark"])
def test_code_can_be_read_on_all_that_is_behind_it(palette: dict[str, str]) -> None:
    texts, behind = ["ink", "soft", *"cksnftd"], ["page", "sheet", "added", "removed"]
    found = {(text, back): contrast(palette[text], palette[back]) for text in texts for back in behind}
    assert {pair: round(each, 2) for pair, each in found.items() if each < READABLE} == {}
