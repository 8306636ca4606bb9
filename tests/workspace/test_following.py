"""Runs that are followed and are stored between two looks: everything is shown, once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.config import Config
from backstory.model import AssistantText, UserMessage
from backstory.runs.spool import Spool
from backstory.store import Workplace
from backstory.workspace.history.following import Following
from backstory.workspace.located import LocatedSession
from backstory.workspace.workspace import Workspace
from tests.support.spooled import TURN, spooled, told, write

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def begin(self) -> Spool:
        (self.home / "spool").mkdir(parents=True, exist_ok=True)
        return spooled(self.home, self.session, megabytes=3)

    def end(self, spool: Spool) -> None:
        """Store a run and remove its spool, as its runner does."""
        write(self.store, told(spool))
        shutil.rmtree(spool.folder)

    def shown(self, *steps: Callable[[], object]) -> tuple[list[str], int]:
        """The prompts that are shown, and how many answers, until the last step was looked at."""
        left: list[Callable[[], object]] = [*steps, lambda: None]

        def wait(_seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        located = LocatedSession(store=self.store, session=self.session)
        following = Following(self.workspace, located, wait=wait)
        prompts, answers = list[str](), 0
        with pytest.raises(KeyboardInterrupt):
            for grown in following.grown(0, ()):
                prompts += (each.event.content for each in grown.events if isinstance(each.event, UserMessage))
                answers += sum(isinstance(each.event, AssistantText) for each in grown.events)
        return prompts, answers


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
