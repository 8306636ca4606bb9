"""The two faces on a small store."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from backstory.workspace.opening import open_workspace
from tests.faces import page, screen
from tests.faces.page import respond
from tests.faces.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.store import Store
    from backstory.workspace.workspace import Workspace
    from tests.support.clock import Clock

SESSIONS = 7


def talk(store: Store, clock: Clock, prompt: str) -> str:
    clock.ms += 1_000
    session = store.create_session("")
    store.append_events(session, [UserMessage(content=prompt), AssistantText(text="done")])
    store.mark_completed(session, duration_ms=1, cost_usd=int(prompt[-1]) / 4)
    return session.uid


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path / "home" / "store.db", shared=True, now=clock) as made:
        for n in range(SESSIONS):
            talk(made, clock, f"Mend <b>{'odd' if n % 2 else 'even'}</b> \x1b[31m number {n}")
        yield made


@pytest.fixture
def workspace(store: Store, tmp_path: Path, clock: Clock) -> Iterator[Workspace]:
    environ = {"BACKSTORY_HOME": str(store.path.parent), "HOME": str(tmp_path)}
    (tmp_path / "folder").mkdir()
    with open_workspace(tmp_path / "folder", environ, now=clock) as opened:
        yield opened


def numbers(lines: list[str]) -> str:
    """The last digit of each session's heading."""
    return "".join(re.findall(r"number (\d)", "\n".join(lines)))


def press(shown: Screen, *keys: str) -> str:
    for key in keys:
        shown.key(key)
    return numbers(shown.lines())


def test_keys_lead_through_the_pages_of_a_screen(workspace: Workspace) -> None:
    shown = Screen(workspace, rows=3)
    assert press(shown) == "654"
    assert [press(shown, "pagedown"), press(shown, "pagedown"), press(shown, "pagedown")] == ["321", "0", "0"]
    assert [press(shown, "pageup"), press(shown, "pageup"), press(shown, "pageup")] == ["321", "654", "654"]
    assert [press(shown, "end"), press(shown, "home")] == ["210", "654"]


def test_a_screen_filters_while_one_types_and_sorts(workspace: Workspace) -> None:
    shown = Screen(workspace, rows=3)
    assert press(shown, "/", *"ODD", "enter") == "531"
    assert shown.lines()[0] == "3 sessions by last activity /ODD"
    assert press(shown, "s", "/", *["backspace"] * 3, "enter", "pagedown") == "321"


def test_a_screen_opens_the_chosen_session_and_nothing_in_it_acts(workspace: Workspace) -> None:
    shown = Screen(workspace, rows=3)
    assert press(shown, "down", "down", "down", "up", "enter") == "55"
    assert shown.lines()[1] == r"1. Mend <b>odd</b> \x1b[31m number 5 [$1.25]"
    assert press(shown, "escape") == "654"


def test_a_screen_sees_what_others_write_and_keeps_its_place(workspace: Workspace, store: Store, clock: Clock) -> None:
    shown = Screen(workspace, rows=3)
    press(shown, "down")
    assert not shown.tick()
    talk(store, clock, "Mend number 7")
    assert (shown.tick(), press(shown), shown.lines()[3][0]) == (True, "765", ">")


def links(html: str) -> dict[str, str]:
    found = [(name, unescape(target)) for target, name in re.findall(r'<a href="([^"]*)">(\w+)</a>', html)]
    # The last one leads to the end of the list.
    return dict(found[:-1])


def test_links_lead_through_the_pages_of_a_list_in_any_thread(workspace: Workspace) -> None:
    def read(way: str) -> list[str]:
        target, seen = "/?grep=mend" if way == "after" else "/?before=end", list[str]()
        while target:
            status, html = respond(workspace, target)
            assert status == 200
            seen.append(numbers(html.split("\n")))
            target = links(html).get(way, "")
        return seen

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, ["after", "before"] * 4))
    assert found == [["654", "321", "0"], ["210", "543", "6"]] * 4


def test_a_page_of_a_session_and_of_a_search(workspace: Workspace, store: Store, clock: Clock) -> None:
    uid = talk(store, clock, "Look for the heron & the tide 4")
    assert respond(workspace, f"/{uid}")[1].split("\n")[1] == "<h2>Look for the heron &amp; the tide 4</h2><p>$1.00</p>"
    assert f'<a href="/{uid}">' in respond(workspace, "/search?q=heron")[1]


def test_what_is_refused_is_a_page(workspace: Workspace) -> None:
    assert [respond(workspace, target)[0] for target in ("/nobody", "/?after=<b>")] == [404, 404]
    assert "<b>" not in respond(workspace, "/?after=<b>")[1]


def test_the_faces_are_small_and_know_no_store() -> None:
    for face, most in ((screen, 100), (page, 60)):
        source = Path(face.__file__ or "").read_text("utf-8")
        assert len(source.splitlines()) <= most
        assert not re.search(r"select |sqlite|apsw|\.ask\(|usd|backstory\.cli", source)
