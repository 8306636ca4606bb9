"""A session of this machine's stores, followed for pages: its log, its runs, and what is stored meanwhile."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from backstory.web.growing import Growing
from backstory.web.live import Settled, stored_place
from backstory.workspace.history.blocks import content_of
from backstory.workspace.history.following import Following
from backstory.workspace.stores.importing import Machine
from backstory.workspace.stores.up_to_date import is_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backstory.web.live import Channel
    from backstory.workspace.workspace import Workspace


class LocalSource:
    """Follows sessions of stores. ``open_workspace`` opens these; ``user_home``: where agents' logs are."""

    def __init__(self, open_workspace: Callable[[], Workspace], user_home: Path) -> None:
        self._open_workspace, self._user_home = open_workspace, user_home

    def follow(self, channel: Channel) -> None:
        """Follow the session until what was shown of it is stored. Raises Settled then, and Unwanted."""
        with self._open_workspace() as workspace:
            self._follow(workspace, channel)

    def _follow(self, workspace: Workspace, channel: Channel) -> None:
        located, ended = workspace.resolve(channel.uid), set[str]()

        def wait(seconds: float) -> None:
            channel.wait(seconds)
            if following.is_due:
                return
            if following.is_storing and channel.has_much:
                raise Settled
            if ended:
                if ended <= {each.uid for each in located.store.turns(located.session) if each.outcome}:
                    raise Settled
                # It is not stored from here: what is shown of it stays.
                ended.clear()

        may_store = not workspace.named and is_on(workspace)
        machine = Machine(user_home=self._user_home) if may_store else None
        # Made before what is stored is read, so that nothing falls between the two.
        following = Following(workspace, located, machine=machine, report=channel.note, wait=wait)
        # What follows lets go of its store between two looks.
        with self._open_workspace() as other:
            content = content_of(other.reader, other.resolve(channel.uid))
        turns = {number: each for number, each in content.turns.items() if each.live is None}
        stored = stored_place(content)
        channel.begin(stored)
        drawing = Growing(turns, content.order.turns[-1] if len(content.order) else None, content.folder)
        with closing(following.grown(stored[0], {each.turn.uid for each in turns.values()})) as grown:
            for each in grown:
                channel.take(drawing, each, workspace.now())
                ended.update(turn.turn.uid for turn in each.ended)
