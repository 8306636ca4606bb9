"""What is on the pages: the same sessions, hits, records and sums as commands print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from backstory.ask import query, ranking
from backstory.chronicle.tabs import ON_PAGES
from backstory.web import finding
from backstory.web.reporting import slug
from backstory.web.site import today
from backstory.workspace.opening import open_workspace
from tests.support.pages import Elements, served

if TYPE_CHECKING:
    from tests.support.pages import Answer, Visitor
    from tests.support.shell import Shell


def places(answer: Answer) -> list[tuple[str, dict[str, str | None]]]:
    found = Elements()
    found.feed(answer.text)
    return found.found


def links(answer: Answer, begins: str) -> list[str]:
    return [href for tag, each in places(answer) if tag == "a" and (href := each.get("href") or "").startswith(begins)]


def sessions_of(pages: Visitor, path: str) -> list[str]:
    """The sessions of a list, part by part as a browser loads them."""
    found = []
    while path:
        answer = pages.get(path)
        assert answer.status == 200
        found += [href.removeprefix("/s/") for href in links(answer, "/s/")]
        path = next((each["href"] or "" for tag, each in places(answer) if tag == "a" and "data-more" in each), "")
    return found


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("", []), ("?agent=codex", ["--agent", "codex"]), ("?status=failed", ["--status", "failed"]),
        ("?grep=a&agent=claude", ["--grep", "a", "--agent", "claude"]),
        ("?since=2020-01-01&until=2026-11-01", ["--since", "2020-01-01", "--until", "2026-11-01"]),
    ],
)  # fmt: skip
def test_the_list_has_each_session_of_the_command_once_and_in_its_order(
    pages: Visitor, month: Shell, asked: str, options: list[str]
) -> None:
    listed = month("list", "--all", "--json", "--limit", "0", *options).json()["sessions"]
    assert sessions_of(pages, f"/sessions{asked}") == [each["uid"] for each in listed]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/sessions?status=asleep", "asleep"), ("/sessions?since=sometime", "sometime"),
        ("/sessions?after=nonsense", "nonsense"), ("/search?q=a&role=cat", "cat"), ("/sessions?agent=nobody", "nobody"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_a_page_that_says_so(pages: Visitor, path: str, why: str) -> None:
    answer = pages.get(path)
    assert (answer.status, why in answer.words) == (400, True)


def test_what_was_typed_stays_in_the_form_and_can_be_taken_out(pages: Visitor) -> None:
    answer = pages.get("/sessions?agent=codex&grep=a")
    values = {each.get("name"): each.get("value") for tag, each in places(answer) if tag == "input"}
    assert (values["agent"], values["grep"]) == ("codex", "a")
    assert {"/sessions?grep=a", "/sessions?agent=codex"} <= {*links(answer, "/sessions?")}


def test_a_session_shows_every_record_that_the_command_shows(pages: Visitor, month: Shell) -> None:
    listed = month("list", "--all", "--json").json()["sessions"]
    longest = max(listed, key=lambda each: each["event_count"])["uid"]
    answer = pages.get(f"/s/{longest}")
    blocks = [each["data-block"] or "" for tag, each in places(answer) if "data-block" in each]
    texts = [answer.text, *(pages.get(each).text for each in blocks)]
    shown = {int(found) for text in texts for found in re.findall(r'id="r(\d+)', text)}
    lines = month("show", longest, "--thinking").out
    assert {int(found) for found in re.findall(r"^@(\d+)", lines, re.MULTILINE)} <= shown


def test_a_record_has_an_address_of_its_own_and_all_that_it_says(pages: Visitor, month: Shell) -> None:
    (hit,) = month("search", "--all", "--json", "--limit", "1", "test").json()["hits"]
    place = f"/s/{hit['uid']}/{hit['seq']}"
    answer = pages.get(place)
    assert f'id="r{hit["seq"]}' in answer.text
    assert pages.get(f"{place}/whole").status == 200


def test_hits_in_very_many_sessions_are_counted_once_nobody_types(
    month: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in (
        (finding, "SESSIONS", 1), (finding, "OF_EACH", 1), (ranking, "RANKED_HITS_MAX", 1),
        (query, "GROUPED_SESSIONS_MAX", 0), (query, "NEWEST_SESSIONS", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    with open_workspace(month.cwd, month.environ) as workspace:
        now = workspace.now()
        said = [
            finding.found(workspace.reader, {"q": "test", **part}, month.home, now, today(workspace)).said
            for part in ({}, {"part": "1"})
        ]
    assert [each.startswith("at least") for each in said] == [False, True]


@pytest.mark.parametrize(
    "path",
    ["/s/01ZZZZZZZZZZZZZZZZZZZZZZZZ", "/s/nothing/1", "/s/{uid}/x", "/s/{uid}/999999999/whole", "/s/{uid}/1.x/whole",
     "/s/{uid}/-1/block", "/s/{uid}/٣/whole", "/reports/none"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(pages: Visitor, month: Shell, path: str) -> None:
    uid = month("list", "--all", "--json").json()["sessions"][0]["uid"]
    answer = pages.get(quote(path.replace("{uid}", uid)))
    assert (answer.status, "Traceback" in answer.text) == (404, False)


def test_a_block_of_a_session_that_changed_says_to_load_it_again(pages: Visitor, month: Shell) -> None:
    uid = month("list", "--all", "--json").json()["sessions"][0]["uid"]
    assert pages.get(f"/s/{uid}/1.7/block").status == 409


def test_a_search_has_the_hits_of_the_command(pages: Visitor, month: Shell) -> None:
    found = month("search", "--all", "--json", "test").json()["hits"]
    answer = pages.get("/search?q=test")
    places = [href.removeprefix("/s/").split("/") for href in links(answer, "/s/")]
    assert [*dict.fromkeys(uid for uid, _ in places)] == [each["uid"] for each in found]
    assert {(each["uid"], str(each["seq"])) for each in found} <= {
        (uid, place.partition(".")[0]) for uid, place in places
    }
    assert "<mark>" in answer.text


def test_only_the_hits_are_sent_while_a_person_types(pages: Visitor) -> None:
    answer = pages.get("/search?q=test&part=1")
    assert (answer.status, "<html" in answer.text, "<mark>" in answer.text) == (200, False, True)


def test_a_search_without_a_hit_says_what_to_try(pages: Visitor) -> None:
    assert "Nothing found for 'quetzalcoatlus'" in pages.get("/search?q=quetzalcoatlus").words


@pytest.mark.parametrize("tab", range(len(ON_PAGES)))
def test_a_report_has_the_numbers_of_the_command(pages: Visitor, month: Shell, tab: int) -> None:
    name = slug(ON_PAGES[tab].name)
    words = pages.get(f"/reports/{name}?period=3").words
    command = {"standup": "standup", "costs": "cost", "tips": "tips"}.get(name)
    if command is None:
        lines = month("stats", "--all", "--by", "tool" if name == "tools" else "hour").out
    else:
        # Into a pipe a command writes all tips; a page has the five that cost most.
        lines = month("report", command, "--all", "--since", "2020-01-01").out.partition("\n6. ")[0]
    numbers = re.findall(r"\b\d+\b" if name == "tools" else r"(?<![\w.,])\$?\d+(?:[.,]\d+)+", lines)
    assert numbers
    assert [each for each in numbers if each not in words] == []


def test_pages_without_a_store_say_how_one_is_made(empty: Shell) -> None:
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        assert "backstory ingest" in visitor.get("/sessions").words
        assert visitor.get("/search?q=a").status == 200
        assert visitor.get("/reports/costs").status == 200


def test_a_store_that_comes_goes_and_comes_back_is_met_by_the_next_page(empty: Shell) -> None:
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        empty.put("claude/tools")
        assert empty("ingest").code == 0
        (uid,) = sessions_of(visitor, "/sessions")
        away = empty.store.with_name("away.db")
        empty.store.rename(away)
        assert sessions_of(visitor, "/sessions") == []
        assert visitor.get(f"/s/{uid}").status == 404
        away.rename(empty.store)
        assert visitor.get(f"/s/{uid}").status == 200


def test_a_damaged_store_is_a_page_that_says_so(empty: Shell) -> None:
    empty.store.parent.mkdir(parents=True)
    empty.store.write_bytes(b"no store at all" * 1000)
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        answer = visitor.get("/sessions")
        assert (answer.status, "Traceback" in answer.text, "store" in answer.words) == (400, False, True)
