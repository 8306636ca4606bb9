"""``backstory ingest``: logs into the store."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import click

from backstory import agents
from backstory.cli import output
from backstory.cli.app import App, now_ms
from backstory.cli.options import json_option, store_option
from backstory.ingest import Problem, Report, ingest
from backstory.reindex import reindex
from backstory.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

REASONS_SHOWN_MAX = 20


@click.command("ingest")
@click.option("--agent", "-a", "only", multiple=True, metavar="NAME", help="Read only this agent's logs (repeatable).")
@click.option("--explain", is_flag=True, help="Say what was looked at, and why it gave nothing.")
@click.option("--forgotten", is_flag=True, help="Also bring back sessions that you removed.")
@json_option
@store_option
@click.pass_obj
def command(app: App, only: tuple[str, ...], explain: bool, forgotten: bool, as_json: bool) -> None:
    """Read every agent's logs on this machine into the store. What is there already is not read again."""
    if forgotten and app.home_store.exists:
        app.home_store.unforget()
    report = read_logs(app, only)
    if as_json:
        output.json(_as_json(report) | ({"explained": _explained(report)} if explain else {}))
    else:
        _tell(report, str(app.home_store.path))
    if explain and not as_json:
        for line in _explained(report):
            output.data(line)


def read_logs(app: App, only: Sequence[str] = ()) -> Report:
    """Read what is new of these agents' logs, and of known projects; first what killed runs left."""
    chosen = [_Filtered(agents.load(name), app.config.get("ingest.exclude")) for name in only or _chosen(app)]
    runner = Runner(app.home, app.machine_store, app.environ, now_ms)
    if app.home_store is app.machine_store:
        runner.take_up(output.talk)
    with app.home_store as store, output.progress("Reading logs") as progress:
        report = ingest(
            store,
            chosen,
            environ=app.environ,
            home=app.user_home,
            now=now_ms(),
            running=runner.running(),
            progress=progress,
        )
        if app.home_store is app.machine_store:
            runner.projects.exchange(output.talk)
    with app.home_store as store, output.progress("Deriving") as progress:
        for each in reindex(store, now=now_ms(), only_stale=True, progress=progress).failed:
            report.errors.append(Problem(each.session, each.reason))
    return report


class _Filtered:
    """An agent, without the logs that the settings leave out."""

    def __init__(self, agent: agents.Agent, exclude: list[str]) -> None:
        self._agent, self._exclude = agent, exclude

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def is_log(self, path: Path) -> bool:
        return self._agent.is_log(path) and not any(fnmatch(str(path), pattern) for pattern in self._exclude)


def _chosen(app: App) -> list[str]:
    return app.config.get("ingest.agents") or agents.names()


def _as_json(report: Report) -> dict[str, Any]:
    figures = ("logs_seen", "logs_read", "bytes_read", "sessions_new", "sessions_updated", "events_new")
    return {
        **{name: report.total(name) for name in figures},
        "unknown_records": report.unknown_records,
        "by_agent": report.by_agent,
        "errors": report.errors,
    }


def _tell(report: Report, store_path: str) -> None:
    read, seen = report.total("logs_read"), report.total("logs_seen")
    output.data(
        f"{seen} logs seen, {read} read ({output.size(report.total('bytes_read'))}): "
        f"{report.total('sessions_new')} new sessions, {report.total('sessions_updated')} updated, "
        f"{report.total('events_new')} new events. Store: {store_path}"
    )
    if not seen:
        output.talk("No logs were found. These places were looked at:")
        for each in report.looked:
            output.talk(f"  {each.agent}: {each.folder}: {each.note or f'{each.found} logs'}")
    if report.unknown_records:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(report.unknown_records.items()))
        output.talk(f"Kept, but not understood: {kinds}. A newer backstory may know them.")
    for problem in report.errors[:REASONS_SHOWN_MAX]:
        output.talk(f"Not read: {problem.path}: {problem.reason}")
    if len(report.errors) > REASONS_SHOWN_MAX:
        output.talk(f"… and {len(report.errors) - REASONS_SHOWN_MAX} more; --json lists all.")


def _explained(report: Report) -> list[str]:
    lines = [f"{each.agent}: {each.folder}: {each.note or f'{each.found} logs'}" for each in report.looked]
    return lines + [f"  gave nothing: {each.path}: {each.reason}" for each in report.gave_nothing]
