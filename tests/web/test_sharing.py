"""What a person takes from a session on the pages: masked, with how much was masked; and its branches as a tree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support import claude_records as claude
from tests.support.machines import claude_log, lines
from tests.support.pages import Elements, served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.pages import Visitor

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
TOKEN = TOKEN[:40]


def call(name: str, call_id: str, **given: str) -> bytes:
    return claude.assistant({"type": "tool_use", "id": call_id, "name": name, "input": given})


def log() -> bytes:
    return lines(
        claude.user(f"Use {TOKEN} for the lake.", "a1"),
        call("Bash", "c1", command="ls lake"),
        claude.result("pelican.md", "c1"),
        claude.answer("There is one pelican.", "b1"),
        claude.user(f"And {TOKEN} for the river?", "a2", "b1"),
        claude.answer("No heron.", "b2", "a2"),
        claude.user("Look at the sea instead.", "a3", "b1"),
        claude.answer("A gull.", "b3", "a3"),
    )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("sharing") / "home"
    home.mkdir()
    path = home / claude_log(claude.SESSION)
    path.parent.mkdir(parents=True)
    path.write_bytes(log())
    shell = Shell(home)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture(scope="module")
def uid(shell: Shell) -> str:
    return str(shell("list", "--all", "--json").json()["sessions"][0]["uid"])


@pytest.fixture(scope="module")
def pages(shell: Shell) -> Iterator[Visitor]:
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor


def test_a_session_is_copied_as_the_command_writes_it_and_says_how_much_was_masked(
    pages: Visitor, shell: Shell, uid: str
) -> None:
    answer = pages.get(f"/s/{uid}/markdown")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert (TOKEN in answer.text, "pelican.md" in answer.text) == (False, True)
    written = shell("show", uid, "--md", "--redact")
    assert answer.text.startswith(written.out.rstrip("\n"))
    assert answer.headers["masked"] == written.err.strip()
    assert answer.text.endswith(f"*{answer.headers['masked']}*\n")
    assert re.search(r"Masked: .*[1-9]", answer.headers["masked"])


def test_a_download_is_a_file_of_its_own_name(pages: Visitor, uid: str) -> None:
    headers = pages.get(f"/s/{uid}/markdown?download=1").headers
    assert headers["content-disposition"] == f'attachment; filename="{uid}.md"'
    assert "content-disposition" not in pages.get(f"/s/{uid}/markdown").headers


def test_an_entry_is_copied_with_the_result_of_its_call_and_nothing_else(pages: Visitor, uid: str) -> None:
    answer = pages.get(f"/s/{uid}/2/markdown")
    assert ("ls lake" in answer.text, "pelican.md" in answer.text) == (True, True)
    assert ("one pelican" in answer.text, "# " in answer.text) == (False, False)
    assert answer.headers["masked"] == "Nothing had to be masked."


def test_a_turn_is_copied_with_its_masks_alone_counted(pages: Visitor, uid: str) -> None:
    answer = pages.get(f"/s/{uid}/2/markdown?of=turn")
    assert all(each in answer.text for each in ("for the lake", "ls lake", "one pelican"))
    assert ("heron" in answer.text, TOKEN in answer.text) == (False, False)
    whole, part = (
        sum(map(int, re.findall(r"\d+ (?=github)", pages.get(f"/s/{uid}{each}").headers["masked"])))
        for each in ("/markdown", "/2/markdown?of=turn")
    )
    assert (part, whole > part) == (1, True)


@pytest.mark.parametrize("path", ["999/markdown", "x/markdown", "999/markdown?of=turn"])
def test_what_is_not_there_is_not_copied(pages: Visitor, uid: str, path: str) -> None:
    assert pages.get(f"/s/{uid}/{path}").status == 404


def test_a_page_to_print_has_every_entry_masked_and_no_image(pages: Visitor, uid: str) -> None:
    answer = pages.get(f"/s/{uid}/print")
    assert all(each in answer.words for each in ("for the lake", "pelican.md", "A gull", "Masked: "))
    assert (TOKEN in answer.text, "<img" in answer.text) == (False, False)


def test_a_session_that_is_too_long_to_print_says_what_to_do(
    pages: Visitor, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.web.sharing.PRINTED_MOST", 3)
    answer = pages.get(f"/s/{uid}/print")
    assert (answer.status, "Download it instead" in answer.words) == (400, True)


def test_branches_are_a_tree_with_the_current_path_marked(pages: Visitor, shell: Shell, uid: str) -> None:
    assert f"/s/{uid}/tree" in pages.get(f"/s/{uid}").text
    page = pages.get(f"/s/{uid}/tree")
    rows = [" ".join(re.sub(r"<[^>]*>", "", each).split()) for each in re.findall(r"<li.*?</li>", page.text)]
    drawn = [" ".join(each.split()) for each in shell("tree", uid).out.splitlines()]
    assert [each.replace("&gt;", ">").partition(" →")[0] for each in rows] == [
        each.partition(" →")[0] for each in drawn if "@" in each
    ]
    elements = Elements()
    elements.feed(page.text)
    assert f"/s/{uid}/5" in [each.get("href") for _, each in elements.found]
    assert page.text.count('aria-current="true"') == 1
