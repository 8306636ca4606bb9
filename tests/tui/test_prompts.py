"""Prompts that are written on the screen: they run in processes of their own, and no text is lost."""

from __future__ import annotations

import subprocess
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from backstory.cli.tui import prompt_box, session_feed
from backstory.cli.tui import sent as sent_prompts
from backstory.cli.tui.prompt_field import Folds
from backstory.cli.tui.sent import TypedText
from backstory.workspace.history.blocks import Content, content_of
from backstory.workspace.runs.sending import RunChoice, Way, words_for
from tests.support.piloted import Piloted, piloted, screen
from tests.support.running import GOOD, until, until_stored

if TYPE_CHECKING:
    from backstory.store import Session
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader
    from tests.support.bench import Bench

pytestmark = pytest.mark.slow


def opened(bench: Bench, *script: dict[str, Any]) -> AbstractAsyncContextManager[Piloted]:
    return screen(bench.project, bench.environ([*script, GOOD]), everywhere=False, size=(90, 30))


async def begin_to_write(seen: Piloted) -> None:
    """Open the session of ``asked``, and the field for its next prompt."""
    await seen.until_seen("S1", "the first prompt")
    await seen.press("enter")
    await seen.opened("the first answer")
    await seen.press("p")


async def write(seen: Piloted, text: str) -> None:
    await seen.type(text)
    await seen.press("enter")


def only_session(bench: Bench) -> Session:
    with bench.store as store:
        (session,) = store.sessions()
    return session


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """A project with a session that was run once."""
    assert bench.run("the first prompt", {"say": "the first answer"}, GOOD).returncode == 0
    return bench


def test_a_prompt_is_answered_on_the_screen_and_stored_once(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked, {"say": "the second answer"}) as seen:
            await begin_to_write(seen)
            await seen.until_seen("to the agent of the last turn")
            await write(seen, "again")
            await seen.until_seen("❯ again", "the second answer", "── turn 2", "2 turns")

    piloted(test)
    until(lambda: not asked.spools())
    with asked.store as store:
        turns = store.turns(only_session(asked))
    assert [(each.prompt, each.outcome) for each in turns] == [
        ("the first prompt", "completed"),
        ("again", "completed"),
    ]


def test_a_prompt_begins_a_session(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked, {"say": "of another kind"}) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("n")
            await seen.until_seen("A new session", "to the agent of the settings")
            await seen.press("f2")
            await seen.until_seen("to claude")
            await write(seen, "something else")
            await seen.until_seen("❯ something else", "of another kind", "S2")

    piloted(test)
    until_stored(asked)
    with asked.store as store:
        assert {each.shown_title for each in store.sessions()} == {"the first prompt", "something else"}


def test_each_press_of_a_choices_key_counts(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("n")
            await seen.until_seen("A new session", "to the agent of the settings")
            seen.keys("f3", "f3", "f3", "f5")
            await seen.until_seen("may do unasked: edit", "in project/")

    piloted(test)


def test_a_prompt_runs_in_the_worktree_that_is_chosen_for_it(asked: Bench) -> None:
    beside = asked.root / "beside"
    git = ["git", "-C", str(asked.project), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "The beginning"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "-b", "beside", str(beside)], check=True)

    async def test() -> None:
        async with opened(asked, {"say": "from beside"}) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("n")
            await seen.until_seen("A new session", "to the agent of the settings")
            await seen.press("f5")
            await seen.until_seen("in project/")
            await seen.press("f5")
            await seen.until_seen("in beside/")
            await write(seen, "something else")
            await seen.until_seen("❯ something else", "from beside")

    piloted(test)
    until_stored(asked)
    with asked.store as store:
        assert {each.cwd for each in store.sessions()} == {str(asked.project), str(beside)}


def test_a_run_goes_on_and_is_recorded_when_the_screen_is_closed(asked: Bench) -> None:
    gate = asked.root / "gate"

    async def test() -> None:
        async with opened(asked, {"wait_for": str(gate)}, {"say": "after the screen"}) as seen:
            await begin_to_write(seen)
            await write(seen, "go on")
            await seen.until_seen("❯ go on")

    piloted(test)
    gate.touch()

    def is_recorded() -> bool:
        with asked.store as store:
            return [each.outcome for each in store.turns(only_session(asked))] == ["completed", "completed"]

    until(is_recorded)


def test_a_prompt_in_one_burst_with_the_key_of_its_field_is_whole(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            await seen.burst("px stops nothing, q neither")
            await seen.until_seen("x stops nothing, q neither")

    piloted(test)


def test_a_refused_prompt_stays_in_its_field_and_on_the_disk(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            (asked.bin / "claude").unlink()
            await seen.press("p")
            await write(seen, "not to be lost")
            await seen.until_seen("It was not sent: claude could not be", "config set agents.claude", "not to be lost")

    piloted(test)
    assert TypedText(asked.home, only_session(asked).uid).read() == "not to be lost"


def test_a_prompt_whose_agent_fails_before_anybody_looks_was_sent(
    asked: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_box, "session_run_by", lambda *_: None)

    async def test() -> None:
        async with screen(asked.project, asked.environ([{"exit": 3}]), everywhere=False, size=(90, 30)) as seen:
            await begin_to_write(seen)
            await write(seen, "fail")
            await seen.until_seen("❯ fail", "failed", "s sessions")

    piloted(test)
    assert TypedText(asked.home, only_session(asked).uid).read() == ""


def test_what_was_typed_is_there_when_the_screen_is_opened_again(asked: Bench) -> None:
    async def test() -> None:
        for typed in ("half a prompt", ""):
            async with opened(asked) as seen:
                await seen.until_seen("the first prompt")
                await seen.press("enter")
                await seen.opened("the first answer")
                await seen.press("p")
                await seen.until_seen("to the agent of the last turn")
                await seen.type(typed)
                await seen.until_seen("half a prompt")
                await seen.until(lambda: TypedText(asked.home, only_session(asked).uid).read() == "half a prompt")

    piloted(test)


class Held:
    """A prompt that is being sent until it gets a code."""

    def __init__(self, prompt: str) -> None:
        self.prompt, self.process = prompt, SimpleNamespace(pid=0)
        self.code: int | None = None

    @property
    def was_taken(self) -> bool:
        return self.code == 0

    def said(self) -> str:
        return "a reason"

    def stop(self) -> None:
        self.code = 1

    def close(self) -> None:
        """There is nothing to let go of."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Held]:
    """The prompts that are sent, by no process."""
    found = list[Held]()

    def send(_words: object, prompt: str, *_where: object) -> Held:
        found.append(Held(prompt))
        return found[-1]

    monkeypatch.setattr(sent_prompts, "SentPrompt", send)
    return found


async def new_prompt(seen: Piloted, text: str) -> None:
    await seen.press("n")
    await seen.until_seen("to the agent of the settings")
    await seen.type(text)


def test_a_second_enter_sends_nothing(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "once")
            await seen.press("enter", "enter", "q", "enter")
            await seen.until_seen("sending …")
            await seen.until(lambda: sent)
            sent[0].code = 0
            await seen.until_gone("A new session")

    piloted(test)
    assert [each.prompt for each in sent] == ["once"]


def test_a_prompt_that_is_sent_while_the_screen_closes_is_not_kept_as_unsent(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "sent")
            await seen.press("enter")
            await seen.until(lambda: TypedText(bench.home, None).read() == "sent" and sent)
            await seen.press("ctrl+q")
            await seen.until(lambda: not seen.app.is_running)
            sent[0].code = 0

    piloted(test)
    until(lambda: TypedText(bench.home, None).read() == "")


def test_a_refused_prompt_is_there_when_its_field_was_left(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "refused")
            await seen.press("enter", "escape")
            await seen.until(lambda: sent)
            sent[0].code = 1
            await seen.press("n")
            await seen.until_seen("▊ refused")

    piloted(test)


def test_what_is_typed_is_kept_when_the_screen_is_left_at_once(bench: Bench) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "half a prompt")
            await seen.press("ctrl+q")
            await seen.until(lambda: not seen.app.is_running)

    piloted(test)
    until(lambda: TypedText(bench.home, None).read() == "half a prompt")


def test_a_run_is_stopped_by_a_key_and_its_output_is_kept(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked, {"say": "as far as this"}, {"wait_for": str(asked.root / "never")}) as seen:
            await begin_to_write(seen)
            await write(seen, "work long")
            # Until the field is gone, its keys count.
            await seen.until_seen("as far as this", "running", "s sessions")
            await seen.press("x")
            await seen.until_seen("Stopped; its output is kept.", "cancelled")

    piloted(test)


def test_a_run_of_another_process_is_seen_and_stopped(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the first answer")
            waits = [{"say": "from afar"}, {"wait_for": str(asked.root / "never")}]
            other = asked.start("run", "-S", only_session(asked).uid, "from elsewhere", script=waits)
            await seen.until_seen("from afar", "running")
            await seen.press("x")
            await seen.until_seen("Stopped; its output is kept.")
            other.communicate()

    piloted(test)


def test_a_turn_that_is_stored_while_its_session_is_read_counts(asked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = list[int]()

    def slowly(reader: Reader, located: LocatedSession) -> Content:
        if not stored:
            stored.append(asked.run("again", {"say": "the second answer"}, GOOD, options=("-S", "S1")).returncode)
        return content_of(reader, located)

    monkeypatch.setattr(session_feed, "content_of", slowly)

    async def test() -> None:
        async with opened(asked) as seen:
            await seen.until_seen("the first prompt")
            await seen.press("enter")
            await seen.opened("the second answer", "2 turns")

    piloted(test)
    assert stored == [0]


def test_a_paste_is_taken_once_and_not_while_the_prompt_is_being_sent(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "")
            await seen.paste("pasted ")
            await seen.until_seen("pasted")
            await seen.press("enter")
            await seen.until(lambda: sent)
            await seen.paste("late")
            await seen.press("escape")

    piloted(test)
    assert [each.prompt for each in sent] == ["pasted "]
    assert TypedText(bench.home, None).read() == "pasted "


LONG = "word " * 50_000 + "\r" + "the last line"
WHOLE, FOLDED = LONG.replace("\r", "\n"), "[pasted 0.3 MB, 2 lines]"


def test_a_long_paste_is_shown_as_a_sign_and_sent_whole(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "")
            await seen.type("see ")
            await seen.paste(LONG)
            await seen.type(" and do it")
            await seen.until_seen(f"see {FOLDED} and do it")
            await seen.press("enter")
            await seen.until(lambda: sent)

    piloted(test)
    assert [each.prompt for each in sent] == [f"see {WHOLE} and do it"]


def test_a_long_text_that_was_not_sent_is_kept_whole_and_shown_as_a_sign_again(bench: Bench) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "")
            await seen.paste(LONG)
            await seen.press("escape")
            await seen.until_gone("[pasted")
            assert TypedText(bench.home, None).read() == WHOLE
            await new_prompt(seen, "")
            await seen.until_seen(FOLDED)
            await seen.press("backspace")
            await seen.until_gone("[pasted")

    piloted(test)
    assert TypedText(bench.home, None).read() == ""


def test_two_long_texts_of_one_size_are_told_apart() -> None:
    folds, other = Folds(), f"{FOLDED}{LONG[len(FOLDED) :]}"
    signs = [folds.fold(each) for each in (LONG, other, LONG)]
    assert signs == [FOLDED, "[pasted 0.3 MB, 2 lines, 2]", FOLDED]
    assert folds.whole("\n".join(signs)) == "\n".join([WHOLE, other.replace("\r", "\n"), WHOLE])


def test_nothing_in_the_field_acts_on_the_terminal(bench: Bench) -> None:
    TypedText(bench.home, None).keep("zz \x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe \ufeff\x08 end")

    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "")
            await seen.until_seen("zz \ufffd]0;owned\ufffd\ufffd[2J", "end")
            assert seen.acting() == ""

    piloted(test)


def test_two_lines_are_one_prompt(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked, {"say": "both"}) as seen:
            await begin_to_write(seen)
            await seen.type("one")
            await seen.press("ctrl+j")
            await write(seen, "two")
            await seen.until_seen("── turn 2", "both")

    piloted(test)
    until_stored(asked)
    with asked.store as store:
        assert store.turns(only_session(asked))[-1].prompt == "one\ntwo"


def test_an_earlier_prompt_comes_back_by_a_key(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked) as seen:
            await begin_to_write(seen)
            await seen.type("new")
            await seen.press("ctrl+up")
            await seen.until_seen("▊ the first prompt")
            await seen.press("ctrl+down")
            await seen.until_seen("▊ new")

    piloted(test)


@pytest.mark.parametrize(
    ("way", "is_running", "words"),
    [
        (Way.STAGE, False, ["run", "-S", "U"]),
        (Way.STAGE, True, ["run", "-S", "U", "--cancel-first"]),
        (Way.QUEUE, True, ["run", "-S", "U"]),
        (Way.STEER, True, ["steer", "-S", "U", "--no-run"]),
        (Way.STEER, False, ["run", "-S", "U"]),
    ],
)
def test_a_key_says_what_happens_to_a_session_that_runs(way: Way, is_running: bool, words: list[str]) -> None:
    assert words_for("U", way, RunChoice(), is_running=is_running) == words


def test_a_choice_is_an_option_of_the_run() -> None:
    words = words_for(None, Way.STAGE, RunChoice(agent="codex", model="o9", permissions="edit"), is_running=False)
    assert words == ["run", "--new", "--agent", "codex", "--model", "o9", "--permissions", "edit"]


def test_two_screens_on_one_session_keep_what_is_typed_in_each(bench: Bench) -> None:
    TypedText(bench.home, "UID").keep("begun")
    one, other = TypedText(bench.home, "UID"), TypedText(bench.home, "UID")
    assert (one.read(), other.read()) == ("begun", "begun")
    one.keep("begun here")
    other.keep("begun there")
    one.keep("begun here, too")
    other.keep("begun there, too")
    assert TypedText(bench.home, "UID").read() == "begun here, too"
    one.keep("")
    assert TypedText(bench.home, "UID").read() == "begun there, too"
    other.keep("")
    assert TypedText(bench.home, "UID").read() == ""


def test_a_text_that_another_screen_has_sent_is_in_no_field_any_more(asked: Bench) -> None:
    uid = only_session(asked).uid
    other = TypedText(asked.home, uid)
    other.keep("half a prompt")

    async def test() -> None:
        async with opened(asked) as seen:
            await begin_to_write(seen)
            await seen.until_seen("▊ half a prompt")
            other.keep("")
            sent = asked.start("run", "-S", uid, "half a prompt", script=[{"say": "from there"}, GOOD])
            await seen.until_seen("Another screen has sent it.")
            await seen.until_gone("▊ half a prompt")
            sent.communicate()

    piloted(test)


def test_a_text_that_was_sent_before_and_is_kept_stays_in_its_field(asked: Bench) -> None:
    TypedText(asked.home, only_session(asked).uid).keep("the first prompt")

    async def test() -> None:
        async with opened(asked) as seen:
            await begin_to_write(seen)
            await seen.until_seen("▊ the first prompt")
            await seen.settled()
            await seen.type("!")
            await seen.until_seen("▊ the first prompt!")

    piloted(test)


def test_a_screen_in_which_nothing_was_typed_leaves_what_another_one_keeps(bench: Bench) -> None:
    one, other = TypedText(bench.home, "UID"), TypedText(bench.home, "UID")
    one.keep("begun")
    other.keep("")
    assert (one.read(), len([*(bench.home / "drafts" / "screen").iterdir()])) == ("begun", 1)


def test_a_draft_is_private_and_goes_when_it_is_empty(bench: Bench) -> None:
    draft = TypedText(bench.home, "UID")
    draft.keep("words\n")
    (file,) = (bench.home / "drafts" / "screen").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777, draft.read()) == (0o600, 0o700, "words\n")
    draft.keep(" \n")
    assert (list(file.parent.iterdir()), draft.read()) == ([], "")


def test_a_prompt_that_waits_is_taken_back_into_the_field(asked: Bench) -> None:
    gate = asked.root / "gate"

    async def test() -> None:
        async with opened(asked, {"say": "at work"}, {"wait_for": str(gate)}) as seen:
            await begin_to_write(seen)
            await write(seen, "work long")
            await seen.until_seen("at work", "running", "s sessions")
            await seen.press("p")
            await seen.until_seen("Ctrl+T queue")
            await seen.type("not now")
            await seen.press("ctrl+t")
            await seen.until_seen("s sessions", "+1]")
            await seen.press("u")
            await seen.until_seen("It waits no more, and is in the field again.", "not now")
            await seen.until_gone("+1]")
            await seen.press("ctrl+r")
            await seen.until_seen("No prompt waits for this session.")
            gate.touch()

    piloted(test)
    uid = only_session(asked).uid
    assert TypedText(asked.home, uid).read() == "not now"
    until(lambda: not asked.spools())
    with asked.store as store:
        assert [each.prompt for each in store.turns(only_session(asked))] == ["the first prompt", "work long"]


def test_a_prompt_that_is_being_sent_is_taken_back(bench: Bench, sent: list[Held]) -> None:
    async def test() -> None:
        async with opened(bench) as seen:
            await new_prompt(seen, "too early")
            await seen.press("enter")
            await seen.until(lambda: sent)
            await seen.until_seen("sending …")
            await seen.press("ctrl+r")
            await seen.until_seen("It was not sent: a reason", "too early")

    piloted(test)
    assert TypedText(bench.home, None).read() == "too early"


def test_a_model_is_asked_for_and_goes_with_the_prompt(asked: Bench) -> None:
    async def test() -> None:
        async with opened(asked, {"say": "of another model"}) as seen:
            await begin_to_write(seen)
            await seen.until_seen("to the agent of the last turn")
            await seen.press("f4")
            await seen.until_seen("Model, as the agent names it:")
            await seen.type("scripted-2")
            await seen.press("enter")
            await seen.until_seen("to the agent of the last turn (scripted-2)")
            await write(seen, "with it")
            await seen.until_seen("of another model", "── turn 2")

    piloted(test)
    assert "scripted-2" in (asked.received.with_name(asked.received.name + ".argv")).read_text()
