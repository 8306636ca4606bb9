"""The files of a repository that tell agents what to do there: which there are, and which one is added to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.errors import (
    AgentUnusable,
    InstructionsNotText,
    InstructionsUnreadable,
    NoRepository,
    OutsideRepository,
    UnknownAgent,
)
from backstory.projects import git, instruction_file
from backstory.projects.git_status import uncommitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backstory.agents.contract import Agent
    from backstory.projects.instruction_file import InstructionFile


class Instructions(Struct, frozen=True, kw_only=True):
    """The instructions for agents in a repository. ``file``: the one that is added to, and ``why`` that one.

    ``texts``: what stands in all of them, so that nothing is said twice.
    """

    root: Path
    file: InstructionFile
    why: str
    texts: tuple[str, ...]

    def has(self, below: str) -> bool:
        """Return True if a path below the root is there."""
        return (self.root / below).exists()

    def uncommitted(self, environ: Mapping[str, str]) -> str | None:
        """Return the reason why git could not bring the file back as it is, as a clause; None if it could."""
        return uncommitted(self.root, self.file.target, environ)


def instructions_of(folder: Path, used: Iterable[Sequence[str]], name: str | None = None) -> Instructions:
    """The instructions of the repository that holds a folder. ``used``: the agents of each session of it.

    ``name``: the file to add to, from ``folder``. Without it that is the first one that is there, those of the agent
    that is used most here first; if there is none, that agent's. Raises NoRepository, OutsideRepository,
    InstructionsUnreadable, InstructionsNotText.
    """
    root = git.repository_root(folder)
    if root is None:
        raise NoRepository(folder)
    counts = Counter(agent for each in used for agent in each)
    known = sorted(_with_instructions(), key=lambda agent: (-counts[agent.name], agent.name))
    candidates = [(agent, each) for agent in known for each in agent.instruction_files]
    if name is not None:
        file, why = instruction_file.read(root, folder / name), "you named it"
    else:
        file, why = _chosen(root, candidates, counts)
    file.text  # noqa: B018  # raises for what is no text
    return Instructions(root=root, file=file, why=why, texts=(file.text, *_texts(root, candidates)))


def _with_instructions() -> list[Agent]:
    found = []
    for name in agents.names():
        try:
            agent = agents.load(name)
        except (UnknownAgent, AgentUnusable):
            continue
        if agent.instruction_files:
            found.append(agent)
    return found


def _chosen(
    root: Path, candidates: Sequence[tuple[Agent, str]], counts: Mapping[str, int]
) -> tuple[InstructionFile, str]:
    for agent, each in candidates:
        file = instruction_file.read(root, Path(each))
        if file.content is not None:
            return file, f"it is there, and {agent.title} reads it"
    agent, each = candidates[0]
    most = "which is used most here" if counts.get(agent.name) else "which no session here is of"
    return instruction_file.read(root, Path(each)), f"none is there yet, and {agent.title}, {most}, reads it"


def _texts(root: Path, candidates: Iterable[tuple[Agent, str]]) -> list[str]:
    """The texts of all such files; what cannot be read says nothing."""
    found = []
    for each in dict.fromkeys(name for _, name in candidates):
        try:
            found.append(instruction_file.read(root, Path(each)).text)
        except (InstructionsNotText, InstructionsUnreadable, OutsideRepository):
            continue
    return found
