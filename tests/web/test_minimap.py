"""What is beside a session: a map of it, and the last of its prompts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from backstory import AssistantText, ToolCall, UserMessage, open_store
from backstory.model import Error
from backstory.web import minimap, reading
from tests.support.pages import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.model import Event
    from tests.support.pages import Answer, Visitor
    from tests.support.shell import Shell

TURNS = 100
FAILS_AT = 40
MARK = re.compile(r'<a href="/s/\w+/(\d+)" data-seq="\d+" tabindex="-1"><title>([^<]*)</title>(.*?)</a>', re.DOTALL)


@pytest.fixture
def paths(empty: Shell) -> Iterator[tuple[Visitor, str, str]]:
    """The pages, with a session of many turns, one of which failed, and one of a single turn."""
    empty.store.parent.mkdir(parents=True)
    with open_store(empty.store) as store:
        long, short = store.create_session("long"), store.create_session("short")
        for n in range(TURNS):
            said: list[Event] = [UserMessage(content=f"prompt {n}"), AssistantText(text="words " * n)]
            said += [Error(message="no")] if n == FAILS_AT else []
            store.append_events(long, [*said, ToolCall(tool_name="Bash", tool_use_id=f"{n}", input={"command": "ls"})])
        store.append_events(short, [UserMessage(content="one")])
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        yield visitor, f"/s/{long.uid}", f"/s/{short.uid}"


def marks(answer: Answer) -> list[tuple[str, str, str]]:
    return MARK.findall(answer.text.partition('class="map"')[2].partition("</svg>")[0])


def test_a_map_has_all_of_a_session_in_order_and_each_part_leads_to_its_first_entry(
    paths: tuple[Visitor, str, str],
) -> None:
    visitor, long, _ = paths
    found = marks(visitor.get(long))
    seqs = [int(seq) for seq, _, _ in found]
    assert 1 < len(found) <= minimap.PARTS_MOST
    assert seqs == sorted(seqs) and seqs[0] == 1
    counted = [dict(re.findall(r"(\w+) (\d+)", words)) for _, words, _ in found]
    assert sum(int(each.get("prompts", 0)) for each in counted) == TURNS
    assert sum(int(each.get("calls", 0)) for each in counted) == TURNS
    assert visitor.get(f"{long}/{seqs[-1]}").status == 200


def test_a_failure_is_marked_in_its_part_by_a_sign_besides_its_colour(paths: tuple[Visitor, str, str]) -> None:
    visitor, long, _ = paths
    (only,) = [each for each in marks(visitor.get(long)) if 'class="fails"' in each[2]]
    assert "failures 1" in only[1]
    assert only[2].count('<path class="fails"') == 1


def test_a_session_that_is_seen_at_once_has_no_map(paths: tuple[Visitor, str, str]) -> None:
    visitor, _, short = paths
    assert 'class="map"' not in visitor.get(short).text


def test_an_outline_without_the_first_prompts_says_so_and_counts_on(
    paths: tuple[Visitor, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PROMPTS_MOST", 30)
    visitor, long, short = paths
    page = visitor.get(long)
    assert "The last 30. 70 earlier ones are in the session alone." in page.words
    assert '<ol class="outline" start="71">' in page.text
    assert "earlier ones" not in visitor.get(short).words
