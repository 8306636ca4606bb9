"""Conversations that are trees on the screen: what a branch left behind comes last, as with ``show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backstory.cli.tui import blocks
from backstory.cli.tui.blocks import SessionView
from backstory.workspace.history.blocks import content_of
from backstory.workspace.opening import open_workspace
from tests.support.ah_files import FOLDER, AhFile

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow


def test_what_a_branch_left_behind_is_shown_behind_what_goes_on(bare: Shell) -> None:
    file = AhFile(bare.home / FOLDER.name / "alpha.db")
    file.user("one", parent=None)
    first = file.answer("said one")
    file.user("left behind")
    file.answer("said behind")
    file.user("two", parent=first)
    last = file.answer("said two")
    file.know("current_message", last)
    assert bare("ingest").code == 0
    with open_workspace(bare.cwd, bare.environ) as workspace:
        (session,) = workspace.home_store.sessions()
        content = content_of(workspace.reader, workspace.resolve(session.uid))
        view = SessionView(columns=80, now=0)
        lines = [
            line.text for n in range(len(content.blocks)) for line in blocks.drawn(workspace.reader, content, n, view)
        ]
    places = [
        next(n for n, line in enumerate(lines) if said in line) for said in ("said one", "said two", "said behind")
    ]
    assert places == sorted(places)
