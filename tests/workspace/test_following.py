"""Runs that are followed: what comes is shown, once, also if a run is stored between two looks."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.config import Config
from backstory.errors import HomeWasMoved, StoreNotFound
from backstory.model import AssistantText, UserMessage
from backstory.runs.live import LiveRun
from backstory.runs.spool import Spool
from backstory.runs.steering import word_line
from backstory.store import Workplace
from backstory.store.tables.queue import QueuedKind, QueuedPrompt
from backstory.workspace.history.following import Following
from backstory.workspace.located import LocatedSession
from backstory.workspace.stores.home_moving import move_home
from backstory.workspace.workspace import Workspace
from tests.support.spooled import NOW, TURN, spooled, told, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from backstory.model import Event
    from backstory.workspace.history.following import Grown
    from tests.support.clock import Clock


class Followed:
    """A session that is followed, and a run in it. Each ``step`` happens between two looks."""

    def __init__(self, root: Path, clock: Clock) -> None:
        home, folder = root / "home", root / "project"
        settings = home / "config.toml"
        folder.mkdir()
        self.workspace = Workspace(
            lambda: Config(settings, None, is_installed=lambda *_: True, agents=list, make_folder=Path.mkdir),
            home, folder, now=clock,
        )  # fmt: skip
        self.home, self.store = home, self.workspace.project_store
        self.session = self.store.create_session("", folder, at=Workplace(project=str(folder)))

    def begin(self, *, megabytes: int = 3) -> Spool:
        (self.home / "spool").mkdir(parents=True, exist_ok=True)
        return spooled(self.home, self.session, megabytes=megabytes)

    def end(self, spool: Spool) -> None:
        """Store a run and remove its spool, as its runner does."""
        write(self.store, told(spool))
        shutil.rmtree(spool.folder)

    def looks(self, *steps: Callable[[], object]) -> list[Grown]:
        """Everything that was new until the last step was looked at."""
        left: list[Callable[[], object]] = [*steps, lambda: None]

        def wait(_seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        located = LocatedSession(store=self.store, session=self.session)
        following = Following(self.workspace, located, wait=wait)
        found: list[Grown] = []
        with pytest.raises(KeyboardInterrupt):
            found.extend(following.grown(0, ()))
        return found

    def shown(self, *steps: Callable[[], object]) -> tuple[list[str], int]:
        """The prompts that are shown, and how many answers, until the last step was looked at."""
        events = [each.event for grown in self.looks(*steps) for each in grown.events]
        prompts = [each.content for each in events if isinstance(each, UserMessage)]
        return prompts, sum(isinstance(each, AssistantText) for each in events)


@pytest.fixture
def followed(tmp_path: Path, clock: Clock) -> Followed:
    return Followed(tmp_path, clock)


def stored_answers(followed: Followed) -> int:
    assert [each.uid for each in followed.store.turns(followed.session)] == [TURN]
    return sum(isinstance(each.event, AssistantText) for each in followed.store.events(followed.session))


def test_a_run_whose_output_nobody_saw_before_it_was_stored_is_shown_whole(followed: Followed) -> None:
    aside = followed.home.parent / "aside"
    spools = list[Spool]()

    def begin() -> None:
        spool = followed.begin()
        # The agent is being started: there is no output yet.
        aside.mkdir()
        for each in (spool.stdout, spool.stderr):
            each.rename(aside / each.name)
        spools.append(spool)

    def end() -> None:
        for each in aside.iterdir():
            each.rename(spools[0].folder / each.name)
        followed.end(spools[0])

    prompts, answers = followed.shown(begin, end)
    assert (prompts, answers) == (["Where?"], stored_answers(followed))


def test_a_run_that_was_stored_before_anybody_looked_is_shown_whole(followed: Followed) -> None:
    prompts, answers = followed.shown(lambda: followed.end(followed.begin()))
    assert (prompts, answers) == (["Where?"], stored_answers(followed))


def test_a_run_that_ended_is_shown_once_when_it_is_stored(followed: Followed) -> None:
    spools = list[Spool]()
    prompts, answers = followed.shown(lambda: spools.append(followed.begin()), lambda: followed.end(spools[0]))
    assert (prompts, answers) == (["Where?"], stored_answers(followed))


def test_a_home_that_is_moved_while_a_session_is_followed_is_named(followed: Followed, tmp_path: Path) -> None:
    new = tmp_path / "new"
    followed.begin()
    followed.workspace.machine_store.create_session("", tmp_path)
    followed.workspace.machine_store.close()

    def move() -> None:
        shutil.rmtree(followed.home / "spool")
        move_home(followed.home, new, current=followed.home)

    with pytest.raises(HomeWasMoved, match=str(new)):
        followed.shown(move)


def test_a_store_that_went_while_who_waits_had_it_open_is_missed(followed: Followed) -> None:
    def go() -> None:
        assert followed.store.turns(followed.session) == []
        followed.store.path.parent.rename(followed.home.parent / "away")

    with pytest.raises(StoreNotFound):
        followed.shown(go)


# what is said to an agent while it works, and what it is about to say -------------------------------------------------


def record(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields}) + "\n"


def say(text: str) -> str:
    return record("assistant", message={"id": "m", "content": [{"type": "text", "text": text}]})


def send(spool: Spool, text: str) -> str:
    """Note a message as its runner does before it sends it; returns the record of the agent that has it."""
    queued = QueuedPrompt(
        uid="01JXYZ00000000000000000009", session_uid="s", kind=QueuedKind.STEER, content=text, queued=NOW
    )
    spool.note_word(word_line(queued, TURN, NOW))
    steer = agents.load("claude").steer
    assert steer is not None
    return record("command_lifecycle", command_uuid=steer.message_id(queued.uid), state="started")


class Agent:
    """An agent that writes into a spool, in which nothing was written before."""

    def __init__(self, followed: Followed) -> None:
        self.spool = followed.begin(megabytes=0)
        for each in (self.spool.stdout, self.spool.stderr):
            each.unlink()
        self._outputs = self.spool.open_output()

    def writes(self, *records: str) -> None:
        os.write(self._outputs[0], "".join(records).encode())

    def ends(self) -> None:
        for each in self._outputs:
            os.close(each)


def texts(events: Iterable[Event]) -> list[str]:
    """What a person and an agent said, in order."""
    return [
        each.content if isinstance(each, UserMessage) else each.text
        for each in events
        if isinstance(each, UserMessage | AssistantText)
    ]


def test_a_message_to_a_running_agent_is_shown_where_the_agent_took_it_up(followed: Followed) -> None:
    agent = Agent(followed)
    agent.writes(say("one"), send(agent.spool, "Only even numbers"), say("two"))
    agent.ends()
    run = agent.spool.run
    assert run is not None
    assert texts(LiveRun(agent.spool, run, NOW).events()) == ["Where?", "one", "Only even numbers", "two"]


def test_a_message_to_a_running_agent_is_followed(followed: Followed) -> None:
    agent = Agent(followed)

    def steer() -> None:
        agent.writes(send(agent.spool, "Only even numbers"), say("two"))

    def end() -> None:
        agent.ends()
        followed.end(agent.spool)

    grown = followed.looks(lambda: agent.writes(say("one")), steer, end)
    assert texts(each.event for looked in grown for each in looked.events) == [
        "Where?", "one", "Only even numbers", "two",
    ]  # fmt: skip


def piece(text: str) -> str:
    """A piece of an answer, as it is streamed."""
    return record("stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}})


def test_the_words_of_an_answer_are_followed_before_it_is_whole(followed: Followed) -> None:
    agent = Agent(followed)

    def end() -> None:
        agent.ends()
        followed.end(agent.spool)

    grown = followed.looks(
        lambda: agent.writes(piece("The heron ")), lambda: agent.writes(piece("nests in")),
        lambda: agent.writes(piece(" reeds."), say("The heron nests in reeds.")), end,
    )  # fmt: skip
    assert [each.writing for each in grown if each.writing] == ["The heron ", "The heron nests in"]
    assert texts(each.event for looked in grown for each in looked.events) == ["Where?", "The heron nests in reeds."]


def test_an_answer_that_was_cut_off_is_followed_to_its_last_word(followed: Followed) -> None:
    agent = Agent(followed)

    def end() -> None:
        agent.ends()
        followed.end(agent.spool)

    grown = followed.looks(lambda: agent.writes(piece("The heron nests")), end)
    assert texts(each.event for looked in grown for each in looked.events) == ["Where?", "The heron nests"]
