"""Opens the workspace of a folder: finds the home, checks that it was not moved, reads the settings.

A face says where it is; everything that an environment decides is decided here, in the same way for all of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.config import FILE_NAME, Config
from backstory.errors import AgentCannotRun, NoHome, UnknownAgent
from backstory.projects import git
from backstory.store.moves import check_home
from backstory.store.private import make_folder
from backstory.workspace.place import now_ms, project_root
from backstory.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def open_workspace(
    folder: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    store: str | None = None,
    now: Callable[[], int] = now_ms,
    report: Callable[[str], None] = lambda _: None,
) -> Workspace:
    """Open the workspace of a folder: nothing is read before it is asked for, and no file is made.

    ``folder``: None for the current one. ``environ``: None for that of the process; it says where the home is
    (``BACKSTORY_HOME``), where agents' logs are, and what agents that are run inherit. ``store``: a file to use instead
    of the machine's and the project's. ``now``: the clock, in ms since 1970. ``report`` receives sentences for the
    person, such as a setting that is ignored. Raises NoHome, and HomeWasMoved, HomeIsMoving, HomeNotWhole.

    >>> with open_workspace("/home/me/project") as workspace:    # doctest: +SKIP
    ...     workspace.reader.count()
    """
    environ = os.environ if environ is None else environ
    home, where = home_folder(environ), Path.cwd() if folder is None else Path(folder)
    check_home(home)

    def read_config() -> Config:
        found = Config(
            home / FILE_NAME,
            git.store_path(project_root(where)).with_name(FILE_NAME),
            is_installed=lambda agent, program: _is_installed(agent, program, environ),
            agents=_agent_names,
            environ=environ,
            make_folder=make_folder,
        )
        for remark in found.remarks:
            report(remark)
        return found

    return Workspace(read_config, home, where, store=store, now=now, environ=environ, report=report)


def user_home(environ: Mapping[str, str]) -> Path:
    """The user's home folder: HOME, else the system's. Raises NoHome."""
    try:
        return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as refused:
        raise NoHome from refused


def home_folder(environ: Mapping[str, str]) -> Path:
    """BACKSTORY_HOME, else the platform's folder for user data; also one that may not be used now. Raises NoHome."""
    if chosen := environ.get("BACKSTORY_HOME"):
        return Path(chosen).expanduser()
    return default_home()


def default_home() -> Path:
    """The platform's folder for user data. Raises NoHome."""
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir("backstory", appauthor=False))
    except RuntimeError as refused:
        raise NoHome from refused


def _is_installed(agent: str, program: str, environ: Mapping[str, str]) -> bool:
    from backstory.runs.stream import is_installed

    try:
        return is_installed(agent, program or None, environ)
    except (UnknownAgent, AgentCannotRun):
        return False


def _agent_names() -> list[str]:
    from backstory import agents

    return agents.names()
