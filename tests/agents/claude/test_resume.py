"""Where the client looks for a log: its own names of folders, as the real one made them."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from backstory.agents.claude.resume import Resuming, project_folder

WORK = "/tmp/resume/m7/work"
LONG = f"{WORK}/{'d' * 120}/{'é😀 x' * 12}/{'z' * 90}"
MADE = f"-tmp-resume-m7-work-{'d' * 120}-" + "----x" * 11 + "-----293ros"


@pytest.mark.parametrize(("folder", "name"), [(WORK, "-tmp-resume-m7-work"), (LONG, MADE)])
def test_a_folder_is_called_as_the_client_calls_it(folder: str, name: str) -> None:
    assert project_folder(folder) == name


def test_a_log_goes_with_the_folder_and_keeps_what_is_below_it() -> None:
    names = Resuming().log_names(PurePath("projects/-old/x/subagents/agent-1.jsonl"), "/new place")
    assert names == [PurePath("projects/-new-place/x/subagents/agent-1.jsonl")]
    assert Resuming().log_names(PurePath("elsewhere/x.jsonl"), "/new") == []
