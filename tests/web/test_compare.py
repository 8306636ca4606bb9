"""Two branches or two sessions on a page: what ``backstory diff`` says of them, and their edits."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import rewound
from tests.support.pages import served
from tests.support.shell import Shell
from tests.support.work_habits import TimedLog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.pages import Answer, Visitor


def sides(answer: Answer) -> list[dict[str, str]]:
    """The facts of each side."""
    parts = re.findall(r'<section class="side".*?</section>', answer.text, re.DOTALL)
    return [
        {name: html.unescape(value) for name, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part)}
        for part in parts
    ]


def of_diff(side: dict[str, Any]) -> dict[str, str]:
    return {"Up to": f"@{side['seq']}", "Turns": str(len(side["turn_uids"])), "Files": str(len(side["files"]))}


@pytest.fixture(scope="module")
def rewound_shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine with a session that has two branches."""
    home = tmp_path_factory.mktemp("rewound") / "home"
    home.mkdir()
    return rewound.put(Shell(home))


@pytest.fixture(scope="module")
def rewound_pages(rewound_shell: Shell) -> Iterator[Visitor]:
    with served(rewound_shell.environ, rewound_shell.cwd) as visitor:
        visitor.enter()
        yield visitor


def branching(shell: Shell) -> tuple[str, list[int]]:
    """The session, and the last record of each branch."""
    (only,) = shell("list", "--all", "--json").json()["sessions"]
    found = shell("branches", "-S", only["uid"], "--json").json()["branches"]
    assert len(found) > 1
    return only["uid"], [branch["seq"] for branch in found]


def test_two_branches_are_what_the_command_says_of_them(rewound_pages: Visitor, rewound_shell: Shell) -> None:
    uid, (left, right, *_) = branching(rewound_shell)
    said = rewound_shell("diff", f"@{left}", f"@{right}", "-S", uid, "--json").json()
    answer = rewound_pages.get(f"/compare?a={uid}@{left}&b={uid}@{right}")
    assert answer.status == 200
    for shown, side in zip(sides(answer), (said["left"], said["right"]), strict=True):
        assert of_diff(side).items() <= shown.items()
    fork = said["fork"]
    assert (f'href="/s/{uid}/{fork["seq"]}"' in answer.text) if fork else "They share no turn" in answer.words


def test_two_sessions_of_the_list_are_compared_with_costs_and_time(visitor: Visitor, recorded: Shell) -> None:
    listed = recorded("list", "--all", "--json").json()["sessions"]
    chosen = [each["uid"] for each in listed if each["turn_count"] > 1][:2]
    said = recorded("diff", *chosen, "--json").json()
    answer = visitor.get("/compare?" + "&".join(f"s={uid}" for uid in chosen))
    shown = sides(answer)
    for facts, side in zip(shown, (said["left"], said["right"]), strict=True):
        assert of_diff(side).items() <= facts.items()
        low = side["low_usd"]
        assert (facts["Cost"] == "–") == (low is None)
        assert low is None or f"{low:.2f}" in facts["Cost"]
    text = visitor.get("/sessions").text
    assert text.count('name="s"') >= 2
    assert 'form="compare"' in text


@pytest.fixture
def edited(empty: Shell) -> Shell:
    """Two sessions that edited a file in the same way, and another one each in its own."""
    for number, line in enumerate(("left", "right"), 1):
        log = TimedLog(number).prompt(f"Change it to the {line}")
        for path, new in (("/w/tool/same.py", "both = 1"), ("/w/tool/own.py", f"{line} = 1")):
            given = {"file_path": path, "old_string": "old = 0", "new_string": new}
            log.call("Edit", given, "The file has been updated.")
        log.answer().put(empty.home)
    assert empty("ingest").code == 0
    return empty


def test_edits_of_both_are_side_by_side_and_equal_ones_are_said_to_be(edited: Shell) -> None:
    with served(edited.environ, edited.cwd) as visitor:
        visitor.enter()
        uids = [each["uid"] for each in edited("list", "--all", "--json").json()["sessions"]]
        answer = visitor.get(f"/compare?a={uids[0]}&b={uids[1]}")
        rows = dict(re.findall(r"<code>([^<]*)</code></a></th>.*?<td>([^<]*)</td></tr>", answer.text))
        assert rows == {"own.py": "differ", "same.py": "the same"}
        added = re.findall(r'<span class="added">\+ (.*?)</span>', answer.text)
        assert sorted(added) == ["both = 1", "both = 1", "left = 1", "right = 1"]
        assert [each for each in added if "both" not in each] == ["right = 1", "left = 1"]


def test_one_side_leads_to_its_branches_and_none_to_the_list(rewound_pages: Visitor, rewound_shell: Shell) -> None:
    uid, seqs = branching(rewound_shell)
    answer = rewound_pages.get(f"/compare?a={uid}")
    links = {html.unescape(each) for each in re.findall(r'href="(/compare[^"]*)"', answer.text)}
    assert {f"/compare?a={uid}&b={uid}%40{seq}" for seq in seqs} <= links
    assert all(rewound_pages.get(each).status == 200 for each in links)
    assert 'href="/sessions"' in rewound_pages.get("/compare").text


@pytest.mark.parametrize(
    "asked", ["a=none&b=none", "a=x@1&b=y", "s=a&s=b&s=c", "a={uid}&b={uid}@999999", "a={uid}@x&b={uid}"]
)
def test_what_cannot_be_compared_is_a_page_that_says_so(
    rewound_pages: Visitor, rewound_shell: Shell, asked: str
) -> None:
    uid, _ = branching(rewound_shell)
    answer = rewound_pages.get(f"/compare?{asked.replace('{uid}', uid)}")
    assert answer.status in (400, 404)
    assert "Traceback" not in answer.text
