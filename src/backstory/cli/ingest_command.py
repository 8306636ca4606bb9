"""``backstory ingest``: logs into the store."""

from __future__ import annotations

import signal
from contextlib import closing, nullcontext
from datetime import datetime
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory import agents
from backstory.agents import not_read
from backstory.bounds import OUT_OF_RANGE
from backstory.cli import output
from backstory.cli.app import App, now_ms
from backstory.cli.options import AGENT, json_option, store_option
from backstory.cli.trusting import take_elsewhere
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.ingest.report import Problem, Report, Tally
from backstory.runs.runner import Runner, Unstored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from backstory.agents.contract import Agent, LogPart
    from backstory.ingest.discover import Looked

REASONS_SHOWN_MAX = 20


@click.command("ingest")
@click.option("--agent", "-a", "only", multiple=True, type=AGENT, help="Read only this agent's logs (repeatable).")
@click.option("--explain", is_flag=True, help="Say what was looked at, and why it gave nothing.")
@click.option("--forgotten", is_flag=True, help="Also bring back sessions that you removed.")
@click.option("--watch", "-w", is_flag=True, help="Then go on reading what is added, until stopped with Ctrl-C.")
@json_option
@store_option
@click.pass_obj
def command(app: App, only: tuple[str, ...], explain: bool, forgotten: bool, watch: bool, as_json: bool) -> None:
    """Read every agent's logs on this machine into the store. What is there already is not read again.

    With --watch a line that an agent writes is found a moment later. Each time something came a line tells so on
    stderr; with --json every reading, the first one too, is one line of JSON on stdout.
    """
    if forgotten and app.home_store.exists:
        app.home_store.unforget()
    if watch:
        _follow(app, only, explain=explain, as_json=as_json)
        return
    others = {} if only else not_read.logs_of_others(app.user_home)
    _print(app, read_logs(app, only), others, explain=explain, as_json=as_json)


def _print(app: App, report: Report, others: dict[str, int], *, explain: bool, as_json: bool) -> None:
    if as_json:
        output.json(_as_json(report) | {"not_read": others} | ({"explained": _explained(report)} if explain else {}))
    else:
        _tell(report, str(app.home_store.path))
        if others:
            names = ", ".join(f"{name} ({count:,})" for name, count in others.items())
            output.talk(f"Also here, not read by this version: {names}")
    if explain and not as_json:
        for line in _explained(report):
            output.data(output.one_liner(line))


def _follow(app: App, only: Sequence[str], *, explain: bool, as_json: bool) -> None:
    """Read everything, then what changes, until a signal ends it."""
    from backstory.ingest.watch import Watch

    watch = Watch(
        app.home_store,
        _agents(app, only),
        environ=app.environ,
        user_home=app.user_home,
        runs=Runner(app.home, app.machine_store, app.environ, now_ms),
        home=app.home,
        is_machine_store=app.home_store is app.machine_store,
        read_all=lambda: read_logs(app, only, quietly=is_following),
        say=output.talk,
    )
    is_following = False
    _stop_on_signals()
    try:
        with closing(watch.batches()) as batches:
            report = next(batches)
            if as_json:
                output.json_line(_batch(report) | ({"explained": _explained(report)} if explain else {}))
            else:
                _print(app, report, {}, explain=explain, as_json=False)
            output.talk(f"Following {', '.join(watch.folders) or 'nothing yet'}. Ctrl-C ends it.")
            is_following = True
            for report in batches:
                _tell_batch(report, as_json=as_json)
    except KeyboardInterrupt:
        # It is how this command ends.
        return


def _stop_on_signals() -> None:
    """A wish to end, or a terminal that is gone, is heard like Ctrl-C."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _tell_batch(report: Report, *, as_json: bool) -> None:
    """A line about what came; nothing when nothing did."""
    told = [f"{agent}: {said}" for agent, tally in sorted(report.by_agent.items()) if (said := _in_words(tally))]
    if as_json and (told or report.errors):
        output.json_line(_batch(report))
    elif told:
        output.talk(f"{datetime.now():%H:%M:%S} {'; '.join(told)}")


def _batch(report: Report) -> dict[str, Any]:
    return {"at": output.iso(now_ms()), **_as_json(report)}


def _in_words(tally: Tally) -> str:
    """What an agent's logs gave: ``1 session updated, 3 events``."""
    counts = (
        (tally.listed_new, "new session", "new sessions"),
        (tally.listed_updated, "session updated", "sessions updated"),
        (tally.events_new, "event", "events"),
        (tally.companions_read, "file beside a log", "files beside logs"),
    )
    return ", ".join(output.counted(count, one, many) for count, one, many in counts if count)


def read_logs(app: App, only: Sequence[str] = (), *, quietly: bool = False) -> Report:
    """Read what is new of these agents' logs, and of known projects; first what killed runs left."""
    chosen = _agents(app, only)
    runner = Runner(app.home, app.machine_store, app.environ, now_ms)
    unstored: list[Unstored] = []
    is_begun = False
    if app.home_store is app.machine_store:
        runner.recover_finished_runs(unstored.append)
        if not app.project_store.is_elsewhere:
            runner.cleanup_orphans(app.project_store, output.talk)
    elif not app.home_store.exists:
        app.known_projects.begin(app.home_store)
        is_begun = True
    with app.home_store as store, _progress("Reading logs", quietly=quietly) as progress:
        report = ingest(
            store,
            chosen,
            environ=app.environ,
            home=app.user_home,
            now=now_ms(),
            running=runner.running(),
            places=[app.cwd, app.worktree, app.project_folder],
            progress=progress,
        )
        if app.home_store is app.machine_store:
            runner.projects.replicate(output.talk)
            report.errors += take_elsewhere(app)
        if is_begun and store.exists:
            app.known_projects.remember(store)
    with app.home_store as store, _progress("Deriving", quietly=quietly) as progress:
        for each in reindex(store, now=now_ms(), only_stale=True, progress=progress).failed:
            report.errors.append(Problem(each.session, each.reason))
    report.errors += [Problem(str(each.folder), f"a run that could not be stored: {each.reason}") for each in unstored]
    return report


def _progress(what: str, *, quietly: bool) -> AbstractContextManager[Callable[[int, int], None]]:
    return nullcontext(lambda done, total: None) if quietly else output.progress(what)


def _agents(app: App, only: Sequence[str]) -> list[Agent]:
    """The agents to read: those that were named, else those of the settings, else all."""
    exclude = app.config.settings.ingest.exclude
    chosen = (agents.load(name) for name in only or _chosen(app))
    return [msgspec.structs.replace(agent, log=_Filtered(agent.log, exclude)) for agent in chosen]


class _Filtered:
    """An agent's logs, without those that the settings exclude."""

    def __init__(self, log: LogPart, exclude: list[str]) -> None:
        self._log, self._exclude = log, exclude
        self.roots, self.identify, self.reader = log.roots, log.identify, log.reader
        self.is_whole, self.native_id_of = log.is_whole, log.native_id_of

    def is_log(self, path: Path) -> bool:
        return self._log.is_log(path) and not any(fnmatch(str(path), pattern) for pattern in self._exclude)


def _chosen(app: App) -> list[str]:
    return app.config.settings.ingest.agents or agents.names()


def _as_json(report: Report) -> dict[str, Any]:
    figures = (
        "logs_seen", "logs_read", "bytes_read", "sessions_new", "sessions_updated", "listed_new", "listed_updated",
        "events_new",
    )  # fmt: skip
    return {
        **{name: report.total(name) for name in figures},
        "unknown_records": report.unknown_records,
        "by_agent": report.by_agent,
        "errors": report.errors,
        "not_understood": report.not_understood,
    }


def _tell(report: Report, store_path: str) -> None:
    read, seen = report.total("logs_read"), report.total("logs_seen")
    output.data(
        f"{output.counted(seen, 'log')} seen, {read:,} read ({output.size(report.total('bytes_read'))}): "
        f"{output.counted(report.total('listed_new'), 'new session')}, {report.total('listed_updated'):,} updated, "
        f"{output.counted(report.total('events_new'), 'new event')}. Store: {store_path}"
    )
    if not seen:
        output.talk("No logs were found. These places were looked at:")
        for each in report.looked:
            output.talk(f"  {_looked(each)}")
        output.talk("Begin a session in one of these agents, or with: backstory run PROMPT")
    unfit = {kind for kind in report.unknown_records if kind.startswith(OUT_OF_RANGE)}
    if unfit:
        names = ", ".join(
            f"{kind.removeprefix(OUT_OF_RANGE)} ({report.unknown_records[kind]})" for kind in sorted(unfit)
        )
        output.talk(output.one_liner(f"Out of range, and left empty: {names}."))
    if kinds := ", ".join(f"{kind} ({n})" for kind, n in sorted(report.unknown_records.items()) if kind not in unfit):
        output.talk(output.one_liner(f"Kept, but not understood: {kinds}. A newer backstory may know them."))
    if count := len(report.not_understood):
        output.talk(
            f"Kept, but not understood, or not whole: {output.counted(count, 'file')}; --explain says which and why."
        )
    for problem in report.errors[:REASONS_SHOWN_MAX]:
        output.talk(output.one_liner(f"Not read: {problem.path}: {problem.reason}"))
    if len(report.errors) > REASONS_SHOWN_MAX:
        output.talk(f"… and {len(report.errors) - REASONS_SHOWN_MAX} more; --json lists all.")


def _looked(place: Looked) -> str:
    return f"{place.agent}: {place.folder}: {place.note or output.counted(place.found, 'log')}"


def _explained(report: Report) -> list[str]:
    lines = [_looked(each) for each in report.looked]
    lines += [f"  gave nothing: {each.path}: {each.reason}" for each in report.gave_nothing]
    return lines + [f"  kept as it is: {each.path}: {each.reason}" for each in report.not_understood]
