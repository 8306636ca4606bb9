"""A page runs, continues, steers and stops as commands do; what it must not do, it answers with the command for it."""

from __future__ import annotations

import html
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from tests.support.bench import Bench
from tests.support.going import GOOD, Going, until
from tests.support.pages import served
from tests.support.streamed import Streamed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.model import Turn
    from tests.support.pages import Answer, Visitor


class Desk:
    """A project with a session that was run once, and its pages."""

    def __init__(self, bench: Bench, visitor: Visitor) -> None:
        self.bench, self.visitor = bench, visitor

    @property
    def uid(self) -> str:
        with self.bench.store as store:
            return store.uids()[0]

    def turns(self) -> list[Turn]:
        """The turns of every session of the project, once no run is left to be stored."""
        until(lambda: not self.bench.spools())
        with self.bench.store as store:
            return [turn for session in store.sessions() for turn in store.turns(session)]

    def send(self, prompt: str, path: str = "", **fields: str) -> Answer:
        """Type a prompt on the page of the session, or on another one, and send it."""
        page = path or f"/s/{self.uid}"
        to = "/act/run" if page == "/new" else f"/act/{self.uid}/prompt"
        return self.visitor.post(to, self.visitor.fields(page) | {"prompt": prompt} | fields)


@contextmanager
def desk_of(root: Path, *script: dict[str, Any], acts: bool = True) -> Iterator[Desk]:
    bench = Bench(root)
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    with served(bench.environ([*script, GOOD]), bench.project, acts=acts) as visitor:
        visitor.enter()
        yield Desk(bench, visitor)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_of(tmp_path, {"say": "the next answer"}) as found:
        yield found


def commands(answer: Answer) -> list[str]:
    """The commands that a page has to be typed."""
    return [html.unescape(each.partition("</pre>")[0]) for each in answer.text.split('<pre class="typed">')[1:]]


def typed(answer: Answer) -> str:
    """The text in the field of a page."""
    return html.unescape(answer.text.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])


# what is done ---------------------------------------------------------------------------------------------------------


def test_a_prompt_continues_a_session_and_is_stored_once(desk: Desk) -> None:
    answer = desk.send("again\r\nand again")
    assert (answer.status, answer.headers["location"]) == (303, f"/s/{desk.uid}#prompt")
    assert [(each.prompt, each.outcome) for each in desk.turns()] == [
        ("the first prompt", "completed"), ("again\nand again", "completed"),
    ]  # fmt: skip


def test_a_prompt_begins_a_session_and_leads_to_it(desk: Desk) -> None:
    answer = desk.send("something else", "/new")
    turns = desk.turns()
    assert answer.status == 303
    with desk.bench.store as store:
        uids = store.uids()
    assert answer.headers["location"] in ("/sessions", *(f"/s/{uid}#prompt" for uid in uids))
    assert (len(uids), {each.prompt for each in turns}) == (2, {"the first prompt", "something else"})


def test_a_script_gets_the_field_alone_and_where_a_new_session_is(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with desk_of(tmp_path, {"wait_for": str(gate)}) as desk:
        answer = desk.send("something else", "/new", part="1")
        assert (answer.status, "<html" in answer.text, typed(answer)) == (200, False, "")
        assert answer.headers["location"].startswith("/s/")
        gate.touch()
        assert len(desk.turns()) == 2


def test_a_run_goes_on_and_is_recorded_once_when_the_pages_end(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with desk_of(tmp_path, {"wait_for": str(gate)}, {"say": "after the pages"}) as desk:
        assert desk.send("go on").status == 303
    gate.touch()
    assert [(each.prompt, each.outcome) for each in desk.turns()][1:] == [("go on", "completed")]


def test_what_is_sent_comes_on_the_page_that_watches(desk: Desk) -> None:
    stream = Streamed(desk.visitor, desk.uid)
    until(lambda: stream.of("base"))
    assert desk.send("again").status == 303
    stream.until("again") if stream.words else None
    until(lambda: len(stream.of("base")) == 2 or any("the next answer" in each for each in stream.words))
    stream.close()
    assert len(desk.turns()) == 2


def test_a_prompt_follows_the_record_that_is_named(desk: Desk) -> None:
    assert desk.send("another way", after="@1").status == 303
    second = desk.turns()[1]
    assert (second.prompt, second.parent_seq) == ("another way", 1)


def test_an_agent_that_works_is_steered(desk: Desk) -> None:
    going = Going(desk.bench, {"listens": True}, then=({"hear": 1}, GOOD))
    assert desk.send("look here", way="steer").status == 303
    going.go.touch()
    assert going.process.wait() == 0
    assert desk.bench.received.with_suffix(".heard").read_text() == '"look here"\n'
    assert len(desk.turns()) == 2


def test_a_prompt_waits_for_the_end_of_a_run(desk: Desk) -> None:
    going = Going(desk.bench)
    assert desk.send("and then", way="queue").status == 303
    page = desk.visitor.get(f"/s/{desk.uid}").words
    assert "Waits for the end of the run: and then" in page and "Stop the run" in page
    going.go.touch()
    assert going.process.wait() == 0
    assert [each.prompt for each in desk.turns()] == ["the first prompt", "Where now?", "and then"]


def test_a_run_is_stopped_and_its_output_kept(desk: Desk) -> None:
    going = Going(desk.bench, {"say": "so far"})
    fields = desk.visitor.fields(f"/s/{desk.uid}")
    answer = desk.visitor.post(f"/act/{desk.uid}/cancel", fields)
    assert (answer.status, answer.headers["location"]) == (303, f"/s/{desk.uid}#prompt")
    assert going.process.wait() == 130
    assert desk.turns()[-1].outcome == "cancelled"
    again = desk.visitor.post(f"/act/{desk.uid}/cancel", fields)
    assert (again.status, '<p class="refused"' in again.text) == (409, True)


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "fields"),
    [
        ("  \n", {}), ("text", {"agent": "nobody"}), ("text", {"way": "never"}), ("text", {"after": "@x"}),
        ("text", {"after": "999999"}), ("text", {"folder": "/"}), ("text", {"folder": "../.."}),
        ("text", {"model": "a\0b"}),
        ("text", {"permissions": "root"}), ("text", {"agent": "codex"}),
    ],
)  # fmt: skip
def test_what_was_typed_survives_a_prompt_that_was_refused(desk: Desk, prompt: str, fields: dict[str, str]) -> None:
    answer = desk.send(prompt, **fields)
    assert answer.status == 409
    assert typed(answer) == prompt
    assert '<p class="refused"' in answer.text
    assert len(desk.turns()) == 1


@pytest.mark.parametrize("permissions", ["ask", "edit", "all"])
def test_more_than_the_settings_allow_is_a_command_to_type(desk: Desk, permissions: str) -> None:
    answer = desk.send("it's time", permissions=permissions)
    assert (answer.status, typed(answer)) == (409, "it's time")
    words = f"""backstory run -S {desk.uid} --permissions {permissions} -- 'it'"'"'s time'"""
    assert commands(answer) == [f"cd {desk.bench.project} && {words}"]
    assert len(desk.turns()) == 1


def test_less_than_the_settings_allow_is_done(tmp_path: Path) -> None:
    with desk_of(tmp_path) as desk:
        (desk.bench.home / "config.toml").write_text('[run]\npermissions = "edit"\n')
        assert desk.send("carefully", permissions="ask").status == 303
        assert len(desk.turns()) == 2
        assert desk.send("boldly", permissions="all").status == 409
        assert len(desk.turns()) == 2


def test_a_store_from_elsewhere_is_trusted_by_a_command_alone(desk: Desk) -> None:
    other = desk.bench.root / "clone"
    (other / ".backstory").mkdir(parents=True)
    with open_store(other / ".backstory" / "sessions.bks") as store:
        store.create_session("theirs")
    with served(desk.bench.environ([GOOD]), other) as visitor:
        visitor.enter()
        before = (other / ".backstory" / "sessions.bks").read_bytes()
        answer = visitor.post("/act/run", visitor.fields("/new") | {"prompt": "do it"})
        assert (answer.status, typed(answer)) == (409, "do it")
        assert "nobody has trusted it" in answer.words
        assert commands(answer) == [f"cd {other} && backstory run --trust --new -- 'do it'"]
        assert (other / ".backstory" / "sessions.bks").read_bytes() == before
        # No field of the form trusts it either.
        assert visitor.post("/act/run", visitor.fields("/new") | {"prompt": "x", "trust": "1"}).status == 409


def test_a_held_prompt_is_shown_with_the_command_that_runs_it(desk: Desk) -> None:
    from backstory.store.tables.queue import Queue, QueuedKind

    going = Going(desk.bench)
    assert desk.send("and then", way="queue").status == 303
    with Queue(desk.bench.project / ".backstory" / "sessions.bks") as queue:
        queue.hold_all()
        (held,) = queue.prompts(kind=QueuedKind.HELD)
    page = desk.visitor.get(f"/s/{desk.uid}")
    assert "is held, until you run it yourself: and then" in page.words
    assert commands(page) == [f"backstory queue run {held.uid}"]
    going.go.touch()
    assert going.process.wait() == 0
    assert "and then" not in [each.prompt for each in desk.turns()]


# who may ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("csrf", [None, "", "x", "é"])
def test_a_form_without_the_token_of_these_pages_does_nothing(desk: Desk, csrf: str | None) -> None:
    fields = desk.visitor.fields(f"/s/{desk.uid}") | {"prompt": "again"}
    del fields["csrf"]
    fields |= {} if csrf is None else {"csrf": csrf}
    assert desk.visitor.post(f"/act/{desk.uid}/prompt", fields).status == 403
    assert len(desk.turns()) == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "", None])
def test_a_form_of_another_origin_or_of_none_does_nothing(desk: Desk, origin: str | None) -> None:
    fields = desk.visitor.fields(f"/s/{desk.uid}") | {"prompt": "again"}
    answer = desk.visitor.get(
        f"/act/{desk.uid}/prompt", method="POST", body=b"&".join(f"{a}={b}".encode() for a, b in fields.items()),
        headers={"Content-Type": "application/x-www-form-urlencoded"} | ({} if origin is None else {"Origin": origin}),
    )  # fmt: skip
    assert answer.status == 403
    assert len(desk.turns()) == 1


def test_a_stranger_does_nothing(desk: Desk) -> None:
    fields = desk.visitor.fields(f"/s/{desk.uid}") | {"prompt": "again"}
    assert desk.visitor.post(f"/act/{desk.uid}/prompt", fields, {"Cookie": ""}).status == 403
    assert desk.visitor.post(f"/act/{desk.uid}/prompt", fields, {"Host": "evil.example"}).status == 421
    assert desk.visitor.post(f"/act/{desk.uid}/prompt", fields, {"Content-Type": "text/plain"}).status == 415
    assert len(desk.turns()) == 1


def test_nothing_is_changed_by_asking(desk: Desk) -> None:
    fields = desk.visitor.fields(f"/s/{desk.uid}")
    for path in ("/act/run", f"/act/{desk.uid}/prompt", f"/act/{desk.uid}/cancel"):
        assert desk.visitor.get(f"{path}?prompt=again&csrf={fields['csrf']}").status == 405
    for method in ("PUT", "DELETE", "PATCH"):
        assert desk.visitor.get(f"/act/{desk.uid}/prompt", method=method).status == 405
    assert len(desk.turns()) == 1


def test_pages_that_only_read_have_no_form_and_no_address_that_acts(tmp_path: Path) -> None:
    with desk_of(tmp_path, acts=False) as desk:
        for path in ("/sessions", f"/s/{desk.uid}", f"/s/{desk.uid}/1"):
            page = desk.visitor.get(path)
            assert (page.status, 'method="post"' in page.text, "/new" in page.text) == (200, False, False)
        assert desk.visitor.get("/new").status == 404
        for path in ("/act/run", f"/act/{desk.uid}/prompt", f"/act/{desk.uid}/cancel"):
            assert desk.visitor.post(path, {"prompt": "again"}).status == 405
            assert desk.visitor.get(path).status == 404
        assert len(desk.turns()) == 1
