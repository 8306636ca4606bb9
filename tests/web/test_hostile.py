"""History is made by others: nothing of it becomes a part of the page but text, and links that a person may follow."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.web.markup import markdown, marked, plain
from tests.support.attacks import ATTACKS, MARK, put
from tests.support.harmless_pages import wrong
from tests.support.pages import Elements, Visitor, served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine on which every text attacks."""
    home = tmp_path_factory.mktemp("hostile") / "home"
    home.mkdir()
    shell = Shell(home)
    put(shell, ([attack] for attack in ATTACKS))
    return shell


@pytest.fixture(scope="module")
def hostile(machine: Shell) -> Iterator[Visitor]:
    """The pages of that machine."""
    with served(machine.environ, machine.cwd) as visitor:
        visitor.enter()
        yield visitor


def test_no_attack_is_more_than_text_on_a_session(hostile: Visitor) -> None:
    found = dict.fromkeys(re.findall(r'href="(/s/\w+)"', whole_list(hostile)))
    assert len(found) == len(ATTACKS)
    for path in found:
        page = hostile.get(path).text
        assert MARK in page or "passwd" in page
        assert wrong(page) == [], path
        places = re.findall(r'href="(/s/\w+/[\d.]+/whole)"', page)
        for each in dict.fromkeys(places):
            assert wrong(hostile.get(each).text) == []
        for each in ("inside", "tree", "print"):
            assert wrong(hostile.get(f"{path}/{each}").text) == []


def test_no_attack_is_more_than_text_in_a_file(machine: Shell, tmp_path: Path) -> None:
    done = machine("export", "--all", "--format", "html", "-o", tmp_path / "out", "--no-redact")
    assert done.code == 0, done.err
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == len(ATTACKS)
    for file in files:
        page = file.read_text()
        assert MARK in page or "passwd" in page
        assert wrong(page, is_file=True) == [], file
        assert page.count("<script>") == page.count("<style>") == 1


def whole_list(visitor: Visitor) -> str:
    text, path = "", "/sessions"
    while path:
        part = visitor.get(path).text
        text += part
        more = re.search(r'href="([^"]+)" data-more', part)
        path = more[1].replace("&amp;", "&") if more else ""
    return text


def test_no_attack_is_more_than_text_in_lists_and_hits(hostile: Visitor) -> None:
    assert wrong(whole_list(hostile)) == []
    found = hostile.get(f"/search?q={MARK}").text
    assert "<mark>" in found
    assert wrong(found) == []


@pytest.mark.parametrize("report", ["standup", "costs", "activity", "tools", "tips"])
def test_no_attack_is_more_than_text_in_a_report_and_behind_its_numbers(hostile: Visitor, report: str) -> None:
    text = hostile.get(f"/reports/{report}?period=3").text
    assert wrong(text) == []
    for where in [*dict.fromkeys(re.findall(r'href="(/reports/behind[^"]*)"', text))][::5]:
        assert wrong(hostile.get(html.unescape(where)).text) == [], where


def test_no_attack_is_more_than_text_in_what_is_typed(hostile: Visitor) -> None:
    for attack in ATTACKS:
        for path in ("/search", "/sessions"):
            asked = urlencode({"q": attack, "grep": attack, "branch": attack})
            assert wrong(hostile.get(f"{path}?{asked}").text) == []


@given(st.text(max_size=200))
def test_markdown_of_any_text_has_only_elements_that_do_nothing(text: str) -> None:
    assert wrong(str(markdown(text))) == []


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5))
def test_marks_anywhere_lose_and_add_nothing(text: str, marks: list[tuple[int, int]]) -> None:
    found = Elements()
    found.feed(str(marked(text, [(start, max(start, end)) for start, end in marks])))
    assert {tag for tag, _ in found.found} <= {"mark"}
    assert "".join(found.texts).replace("\r", "") == plain(text).replace("\r", "")


def test_a_deep_text_is_drawn_in_bounds() -> None:
    assert wrong(str(markdown(">" * 5_000 + "x" + "[" * 5_000 + "](" * 5_000))) == []


def test_letters_that_turn_the_reading_are_shown_as_escapes() -> None:
    assert str(markdown("a\u202eb")) == "<p>a\\u202eb</p>\n"


def test_a_table_is_aligned_without_a_style_that_the_policy_forbids() -> None:
    html = str(markdown("|a|b|c|\n|-|:-:|-:|\n|1|2|3|"))
    assert '<th>a</th>\n<th class="to-center">b</th>\n<th class="to-right">c</th>' in html
    assert "style" not in html
