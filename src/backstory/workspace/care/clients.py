"""Findings about agents: when they delete logs, formats that are newer than known, our entries in their settings."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from backstory import agents
from backstory.agents.entries import entry_in
from backstory.agents.formats import format_of, newest_known, version_order, versions_in
from backstory.agents.text_edit import NotEditable
from backstory.bounds import counted
from backstory.errors import AgentUnusable, BackstoryError, UnknownAgent
from backstory.export.installed import SERVER, SKILL, TIMER, InstallNotes
from backstory.export.rewriting import found_file
from backstory.ingest import news
from backstory.workspace.care.findings import US, Finding
from backstory.workspace.care.machine import home_of
from backstory.workspace.clients.agent_servers import NAME
from backstory.workspace.clients.agent_skills import skill_text
from backstory.workspace.clients.settings_change import sha256_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backstory.agents.contract import Agent
    from backstory.export.installed import InstallNote
    from backstory.workspace.care.case import Case

DAY_S = 86_400
END_BYTES = 64 * 1024
"""The most bytes at either end of an agent's newest log that are read for its version."""


class AgentSeen(Struct, frozen=True, kw_only=True):
    """An agent with logs in the home store. ``known``: the newest version of which a case was recorded."""

    agent: str
    logs: int
    version: str | None
    known: str | None
    unknown: int
    """The records of its newest session that no adapter knows."""
    deletes_after_days: int | None


def agents_seen(case: Case) -> list[AgentSeen]:
    """The agents whose logs are in the home store, as far as known without running them."""
    found = []
    for each in case.look(case.store).logs:
        agent, known, version, days = _loaded(each.agent), None, None, None
        with suppress(BackstoryError):
            form = format_of(each.agent) if agent is not None else None
            if form is not None:
                known = newest_known(form)
                version = max(versions_in(form, _ends(Path(each.newest_path))), key=version_order, default=None)
        if agent is not None and agent.retention is not None:
            days = agent.retention.days(case.environ, case.user_home)
        found.append(
            AgentSeen(
                agent=each.agent,
                logs=each.count,
                version=version,
                known=known,
                unknown=each.unknown,
                deletes_after_days=days,
            )
        )
    return found


def of_agents(case: Case) -> Iterator[Finding]:
    """Agents that will delete what is not imported, and logs that are newer than what is known."""
    noted_s = news.noted_s(case.home)
    for each in agents_seen(case):
        days = each.deletes_after_days
        # Where the home store is off, nobody waits for an import.
        if (
            days is not None
            and not case.is_home_off
            and noted_s is not None
            and case.now / 1000 - noted_s > days * DAY_S / 2
        ):
            yield Finding(
                name="logs-deleted-soon", about=each.agent, command=(US, "ingest"), is_safe=True,
                detail=f"after {counted(days, 'day')}; the last import was on "
                f"{time.strftime('%Y-%m-%d', time.gmtime(noted_s))}",
            )  # fmt: skip
        is_newer = each.version and each.known and version_order(each.version) > version_order(each.known)
        if each.unknown or is_newer:
            told = [
                *([f"version {each.version}, and {each.known} is known"] if is_newer else []),
                *([f"{counted(each.unknown, 'record')} of a type that is not known"] if each.unknown else []),
            ]
            yield Finding(
                name="format-newer", about=each.agent, detail="; ".join(told),
                command=(US, "doctor", "formats", "--agent", each.agent, *case.named_words),
            )  # fmt: skip


def of_entries(case: Case) -> Iterator[Finding]:
    """Our entries in agents' settings that no longer fit: where a file or an entry is gone, a person took it out."""
    notes = InstallNotes(case.home)
    for note in notes.all(SERVER):
        yield from _of_server(case, note)
    for note in notes.all(SKILL):
        with suppress(BackstoryError):
            data, ours = found_file(Path(note.path)).data, skill_text().encode()
            # One that a person changed is theirs.
            if data is not None and data != ours and sha256_of(data) == note.sha256:
                yield _to_install(case, note, "skill-outdated", "skill")


def of_timers(case: Case) -> Iterator[Finding]:
    """A timer of ours that is switched off, or whose program is gone."""
    if not InstallNotes(case.home).all(TIMER):
        return
    from backstory.workspace.clients.timers import UserTimers  # few have one

    for each in UserTimers(case.home, case.environ, case.user_home, case.platform).states():
        if each.why:
            # Not safe: a person may have taken it out, and says so with --unschedule.
            command = (US, "ingest", "--schedule")
            yield Finding(name="timer-dead", about=str(each.path), detail=each.why, command=command)


def _of_server(case: Case, note: InstallNote) -> Iterator[Finding]:
    part = getattr(_loaded(note.agent), "servers", None)
    if part is None:
        return
    path = Path(note.path)
    with suppress(BackstoryError, NotEditable):
        file = part.file(case.environ, case.user_home, None)
        present = entry_in(text_of(found_file(path), path), file, NAME)
        entry = present[0] if present else None
        if not isinstance(entry, dict) or entry.get("command") != note.entry.get("command"):
            return
        if not Path(str(entry["command"])).exists():
            yield _to_install(case, note, "server-gone", "mcp")
        elif home_of(entry) not in ("", str(case.home)) or (not home_of(entry) and case.home != case.default_home):
            yield _to_install(case, note, "server-elsewhere", "mcp")


def _to_install(case: Case, note: InstallNote, name: str, what: str) -> Finding:
    """A finding that the same command mends that put the entry there."""
    agent = agents.load(note.agent)
    path, folder = Path(note.path), None
    own = (
        agent.servers.file(case.environ, case.user_home, None).path if what == "mcp" and agent.servers
        else agent.skills.folder(case.environ, case.user_home, None) if agent.skills else path
    )  # fmt: skip
    if not path.is_relative_to(own.resolve()) and not path.is_relative_to(own):
        folder = next((each for each in path.parents if (each / ".git").exists()), path.parent)
    scope = () if folder is None else ("--scope", "project")
    return Finding(
        name=name, about=str(path), detail=agent.title, command=(US, what, "install", note.agent, *scope),
        folder=folder, is_safe=True,
    )  # fmt: skip


def _loaded(name: str) -> Agent | None:
    try:
        return agents.load(name)
    except (UnknownAgent, AgentUnusable):
        return None


def _ends(path: Path) -> bytes:
    """The first and the last bytes of a log that is still there: one names its version once, another in each record."""
    try:
        with path.open("rb") as file:
            head = file.read(END_BYTES)
            if (size := path.stat().st_size) > 2 * END_BYTES:
                file.seek(size - END_BYTES)
            return head + b"\n" + file.read(END_BYTES)
    except (OSError, ValueError):
        return b""
