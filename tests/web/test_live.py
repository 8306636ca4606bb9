"""A page of a session that runs gets every entry once, whoever else looks, and leaves nothing when it is closed."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bench import Bench
from tests.support.going import GOOD, Going, delta, until
from tests.support.pages import served
from tests.support.streamed import Streamed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.pages import Visitor

ATTACK = "<img src=x onerror=fired()></pre><script>fired()</script>\u202e\x1b[2J"


class Watched:
    """A machine with a run and its pages."""

    def __init__(self, bench: Bench, visitor: Visitor) -> None:
        self.bench, self.visitor = bench, visitor
        self._streams: list[Streamed] = []

    def go(self, *script: dict[str, Any], then: tuple[dict[str, Any], ...] = (GOOD,)) -> Going:
        return Going(self.bench, *script, then=then)

    @property
    def uid(self) -> str:
        with self.bench.store as store:
            return store.uids()[0]

    def watch(self, last: str = "") -> Streamed:
        found = Streamed(self.visitor, self.uid, last)
        self._streams.append(found)
        return found

    def close(self) -> None:
        for each in self._streams:
            each.close()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with watching(Bench(tmp_path)) as found:
        yield found


@contextmanager
def watching(bench: Bench) -> Iterator[Watched]:
    with served(bench.environ([]), bench.project) as visitor:
        visitor.enter()
        found = Watched(bench, visitor)
        try:
            yield found
        finally:
            found.close()
    assert following() == []


def following() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("follows ")]


def test_what_a_run_writes_comes_as_it_is_written_and_is_in_the_store_then(watched: Watched) -> None:
    going = watched.go({"say": "first"}, {"tool": "ls"}, then=({"say": "second"}, GOOD))
    stream = watched.watch()
    stream.until("Bash")
    assert [each.split()[0] for each in stream.words] == ["turn", "Where", "first", "Bash"]
    assert stream.of("base")[0].value == {"seq": 0, "turn": 0}
    going.go.touch()
    stream.until("second")
    assert going.process.wait() == 0
    until(lambda: len(stream.of("base")) == 2)
    page = watched.visitor.get(f"/s/{watched.uid}").text
    last = stream.of("base")[1].value
    assert f'data-seq="{last["seq"]}" data-turn="1"' in page
    assert stream.words == []


def test_a_call_is_drawn_again_with_its_result(watched: Watched) -> None:
    call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "a\nb\nthe end", "is_error": True}
    lines = [
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [call]}},
        {"type": "user", "message": {"role": "user", "content": [result]}},
    ]
    going = watched.go({"raw": json.dumps(lines[0]) + "\n"}, then=({"raw": json.dumps(lines[1]) + "\n"}, GOOD))
    stream = watched.watch()
    stream.until("make")
    assert "the end" not in stream.words[-1]
    number = stream.of("entry")[-1].value["number"]
    going.go.touch()
    stream.until("the end")
    again = next(each for each in stream.of("entry") if "the end" in each.words)
    assert again.value["number"] == number
    assert "make" in again.words
    assert going.process.wait() == 0


def test_an_answer_comes_while_it_is_written(watched: Watched) -> None:
    going = watched.go(delta("Hel"), then=(delta("lo"), {"say": "Hello"}, GOOD))
    stream = watched.watch()
    until(lambda: [each.value for each in stream.of("writing")] == [{"text": "Hel"}])
    going.go.touch()
    stream.until("Hello")
    assert going.process.wait() == 0
    written = [each for each in stream.events if each.kind in ("writing", "more", "entry")]
    assert [each.value["text"] for each in written if each.kind == "more"] in (["lo"], [])
    until(lambda: stream.of("writing")[-1].value == {"text": ""})


def test_all_who_look_share_one_reading(watched: Watched) -> None:
    going = watched.go({"say": "first"}, then=({"say": "second"}, GOOD))
    streams = [watched.watch() for _ in range(5)]
    for each in streams:
        each.until("first")
    assert len(following()) == 1
    going.go.touch()
    for each in streams:
        each.until("second")
    assert going.process.wait() == 0


def test_who_comes_again_gets_what_came_meanwhile_and_nothing_twice(watched: Watched) -> None:
    going = watched.go({"say": "first"}, then=({"say": "second"}, {"wait_for": str(watched.bench.root / "end")}, GOOD))
    other, stream = watched.watch(), watched.watch()
    stream.until("first")
    last = stream.place
    stream.close()
    going.go.touch()
    other.until("second")
    again = watched.watch(last)
    again.until("second")
    assert again.of("base") == []
    assert len(again.of("entry")) == 1
    # Nobody looked: what is followed now is another reading, and the page begins anew.
    for each in (other, again):
        each.close()
    until(lambda: following() == [])
    anew = watched.watch(again.place)
    anew.until("second")
    assert len(anew.of("base")) == 1
    assert sum("first" in each for each in anew.words) == 1
    (watched.bench.root / "end").touch()
    assert going.process.wait() == 0


@pytest.mark.parametrize("place", ["", "x", ".", "x.1", "x.-1", "x.999999999999999999", "é.²", "a" * 5_000])
def test_a_place_that_is_none_is_the_beginning(watched: Watched, place: str) -> None:
    going = watched.go({"say": "first"})
    stream = watched.watch(place.encode("ascii", "replace").decode())
    stream.until("first")
    assert stream.events[0].kind == "base"
    going.go.touch()
    assert going.process.wait() == 0


def test_a_page_that_is_closed_leaves_nothing(watched: Watched) -> None:
    going = watched.go({"say": "first"})
    streams = [watched.watch() for _ in range(3)]
    for each in streams:
        each.until("first")
        each.close()
    until(lambda: following() == [])
    going.go.touch()
    assert going.process.wait() == 0


def test_what_an_agent_writes_is_only_text(watched: Watched) -> None:
    going = watched.go({"say": ATTACK}, {"tool": ATTACK}, delta(ATTACK))
    stream = watched.watch()
    until(lambda: stream.of("writing"))
    stream.until("Bash")
    html = "".join(each.value["html"] for each in stream.of("entry"))
    assert "fired()" in html
    assert "<script" not in html and "<img" not in html
    assert "\u202e" not in html and "\x1b" not in html
    assert "\\u202e" in stream.of("writing")[-1].value["text"]
    going.go.touch()
    assert going.process.wait() == 0


def test_the_end_of_the_pages_is_said_and_waits_for_nobody(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with served(bench.environ([]), bench.project) as visitor:
        visitor.enter()
        watched = Watched(bench, visitor)
        going = watched.go({"say": "first"})
        streams = [watched.watch() for _ in range(3)]
        for each in streams:
            each.until("first")
    until(lambda: all(each.is_over for each in streams))
    for each in streams:
        each.close()
        assert each.events[-1].kind == "ended"
    until(lambda: following() == [])
    going.go.touch()
    assert going.process.wait() == 0


def test_a_session_that_is_not_there_has_no_stream(watched: Watched) -> None:
    answer = watched.visitor.get("/s/NOTHING/live")
    assert answer.status == 404


def test_a_store_that_goes_is_said_and_followed_again_when_it_is_back(watched: Watched) -> None:
    going = watched.go({"say": "first"})
    stream = watched.watch()
    stream.until("first")
    going.go.touch()
    assert going.process.wait() == 0
    until(lambda: len(stream.of("base")) == 2)
    folder = watched.bench.project / ".backstory"
    home = watched.bench.home
    folder.rename(folder.with_name("away"))
    home.rename(home.with_name("home-away"))
    until(lambda: stream.of("trouble"))
    assert stream.of("trouble")[-1].value["text"]
    home.with_name("home-away").rename(home)
    folder.with_name("away").rename(folder)
    until(lambda: stream.of("trouble")[-1].value["text"] == "")
    assert len(stream.of("base")) >= 3


def test_the_word_of_the_list_changes_when_a_session_does(watched: Watched) -> None:
    before = watched.visitor.get("/changes").text
    assert watched.visitor.get("/changes").text == before
    going = watched.go({"say": "first"})
    page = watched.visitor.get("/sessions")
    assert "running" in page.words
    running = page.text.partition('data-changes="')[2].partition('"')[0]
    going.go.touch()
    assert going.process.wait() == 0
    assert len({before, running, watched.visitor.get("/changes").text}) == 3
