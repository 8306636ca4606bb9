"""A whole session from the screen: written to a file, and summarised."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from backstory.cli.tui import sent as sent_prompts
from backstory.cli.tui.session_files import file_name
from tests.support.piloted import Piloted, piloted, screen
from tests.support.running import GOOD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.bench import Bench

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """A project with a session of three exchanges."""
    from backstory.model import AssistantText, UserMessage

    with bench.store as store:
        session = store.create_session(worktree=bench.project)
        for number in ("first", "second", "third"):
            store.append_events(session, [UserMessage(content=f"the {number} prompt"), AssistantText(text=number)])
    bench.note_store()
    return bench


@asynccontextmanager
async def session(bench: Bench) -> AsyncIterator[Piloted]:
    async with screen(bench.project, bench.environ([GOOD]), everywhere=False, size=(120, 30)) as seen:
        await seen.until_seen("the first prompt")
        await seen.press("enter")
        await seen.opened("third")
        yield seen


def printed(bench: Bench) -> str:
    done = bench.backstory("show", "S1", "--md")
    assert done.returncode == 0, done.stderr
    return done.stdout


# a file ---------------------------------------------------------------------------------------------------------------


def test_a_session_is_written_as_show_prints_it(asked: Bench) -> None:
    async def test() -> None:
        async with session(asked) as seen:
            await seen.press("e")
            await seen.until_seen("Write the session to a file:", "the-first-prompt.md", "Secrets are not masked")
            await seen.press("enter")
            await seen.until_seen("Written: ", "the-first-prompt.md, ")

    piloted(test)
    assert (asked.project / "the-first-prompt.md").read_text("utf-8") == printed(asked)


def test_a_file_that_is_there_is_overwritten_only_after_a_yes(asked: Bench) -> None:
    file = asked.project / "mine.md"
    file.write_text("dear")

    async def test() -> None:
        async with session(asked) as seen:
            for answer, said in (("n", "dear"), ("y", "the first prompt")):
                await seen.press("e")
                await seen.until_seen("Write the session")
                await seen.press("ctrl+u")
                await seen.paste("mine")
                await seen.press("enter")
                await seen.until_seen("mine.md is there already. Overwrite it?")
                await seen.press(answer)
                await seen.until_gone("Overwrite it?")
                await seen.until(lambda said=said: said in file.read_text("utf-8"))  # type: ignore[misc]
            await seen.until_seen("Written: ", "mine.md, ")

    piloted(test)


def test_a_file_that_cannot_be_written_is_a_sentence(asked: Bench) -> None:
    async def test() -> None:
        async with session(asked) as seen:
            for name, said in (
                ("a.json", "the screen writes Markdown"),
                ("/dev/null/a.md", "Cannot write /dev/null"),
            ):
                await seen.press("e")
                await seen.until_seen("Write the session")
                await seen.press("ctrl+u")
                await seen.paste(name)
                await seen.press("enter")
                await seen.until_seen(said)

    piloted(test)


@pytest.mark.parametrize(("title", "name"), [
    ("Fix it: now!", "fix-it-now.md"), ("日本 語", "日本-語.md"), ("\x1b[2J \u202e../", "2j.md"), ("", "session.md"),
])  # fmt: skip
def test_the_name_of_a_file_is_made_of_letters(title: str, name: str) -> None:
    assert file_name(title) == name


# a summary ------------------------------------------------------------------------------------------------------------


class Made:
    """A process that makes a summary until it gets a code."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.code: int | None = None
        self.begins = True

    def said(self) -> str:
        return "1 exchange up to @2 became 80 characters."

    def close(self) -> None:
        """There is nothing to let go of."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """The process that makes summaries, which is none."""
    found = Made()

    def begin(words: list[str], *_where: object) -> Made:
        if not found.begins:
            raise OSError("no more processes")
        found.words = words
        return found

    monkeypatch.setattr(sent_prompts, "SentPrompt", begin)
    return found


def test_a_summary_is_made_after_a_question_that_says_what_it_covers(asked: Bench, made: Made) -> None:
    async def test() -> None:
        async with session(asked) as seen:
            await seen.press("C")
            await seen.until_seen("Summarise 1 exchange, up to @2?", "which costs tokens", "Nothing is removed")
            await seen.press("escape", "C")
            await seen.until_seen("Summarise")
            assert made.words == []
            await seen.press("y")
            await seen.until_seen("A summary is being made; it goes on if you leave")
            made.code = 0
            await seen.until_seen("1 exchange up to @2 became 80 characters.")
            for code, begins, said in (
                (1, True, "No summary was made: 1"),
                (None, False, "no more processes"),
            ):
                made.code, made.begins = code, begins
                await seen.press("C")
                await seen.until_seen("Summarise")
                await seen.press("y")
                await seen.until_seen(said)

    piloted(test)
    with asked.store as store:
        assert made.words == ["compact", "--now", "-S", store.session("S1").uid]


def test_the_process_of_a_summary_stores_it(asked: Bench) -> None:
    answer = {"say": "It was about three prompts, one after the other. " * 10}

    async def test() -> None:
        async with screen(asked.project, asked.environ([answer, GOOD]), everywhere=False, size=(120, 30)) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("third")
            await seen.press("C")
            await seen.until_seen("Summarise")
            await seen.press("y")
            await seen.until_seen("≡ 1 exchange summarised")

    piloted(test)
