"""A machine's home store, and projects with stores of their own, as a Reader sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backstory.config import Config
from backstory.model import AssistantText, Complete, UserMessage
from backstory.store import Store, Workplace, open_store
from backstory.workspace import place

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock


class Place(place.Place):
    """A machine's home store, and a project with a store of its own, seen from the project's folder."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.clock = clock
        super().__init__(lambda: Config(root / "config.toml"), root / "home", root / "project", now=clock)
        self.project_folder = self.folder
        self.home_store = self.machine_store = open_store(self.home / "store.db", shared=True, now=clock)
        self.project_store = self.store_of("project")
        self.project_key = str(self.folder)

    def store_of(self, project: str) -> Store:
        return open_store(self.folder.with_name(project) / ".backstory" / "sessions.bks", now=self.clock)

    def talk(self, store: Store, *prompts: str, name: str = "") -> str:
        """A new session with these prompts, of which each was answered a second later than the one before."""
        session = store.create_session(
            name, store.path.parent.parent, at=Workplace(project=str(store.path.parent.parent))
        )
        for prompt in prompts:
            self.go_on(store, session.uid, prompt)
        return session.uid

    def go_on(self, store: Store, uid: str, prompt: str) -> None:
        self.clock.ms += 1_000
        answered = [UserMessage(content=prompt), AssistantText(text="done"), Complete(success=True)]
        store.append_events(store.session(uid), answered)

    def replicate(self, *stores: Store) -> None:
        for store in stores:
            self.known_projects.remember(store)
        self.known_projects.replicate()
