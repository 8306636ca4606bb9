"""``backstory ingest``: logs are imported into the store."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory import agents
from backstory.bounds import OUT_OF_RANGE
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import AGENT, json_option, store_option
from backstory.cli.output import wrapped
from backstory.cli.stop_signals import stop_on_signals
from backstory.cli.trusting import says_off
from backstory.errors import BaselineUnusable
from backstory.store import schema
from backstory.store.tables import sessions
from backstory.store.tables.session_filter import ListFilter
from backstory.workspace.stores.importing import Machine, no_progress, watch_all
from backstory.workspace.stores.new_sources import ASKED_FROM_BYTES, new_sources
from backstory.workspace.stores.up_to_date import chosen_agents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backstory.cli.app import App
    from backstory.ingest.discover import Looked
    from backstory.ingest.report import AgentTally, IngestReport
    from backstory.workspace.stores.new_sources import NewSource

REASONS_SHOWN_MAX = 20
CHOOSE = "backstory config set ingest.agents NAME,NAME"
NO_CONVERSATION = "nothing of a conversation is in it"
SHORTEST_MS = 50
"""A shorter time is not worth a word."""


@click.command("ingest")
@click.option("--agent", "-a", "only", multiple=True, type=AGENT, help="Read only this agent's logs (repeatable).")
@click.option("--explain", is_flag=True, help="Show where logs were looked for, and what was skipped.")
@click.option("--forgotten", is_flag=True, help="Also import sessions that you removed or pruned.")
@click.option("--watch", "-w", is_flag=True, help="Keep watching: import new lines until Ctrl-C.")
@click.option("--schedule", is_flag=True, help="Have it done every hour: write a timer of your own.")
@click.option("--unschedule", is_flag=True, help="Take that timer out.")
@click.option("--dry-run", is_flag=True, help="Show the change; write nothing.")
@json_option
@store_option
@click.pass_obj
def command(
    app: App, only: tuple[str, ...], explain: bool, forgotten: bool, watch: bool, schedule: bool, unschedule: bool,
    dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Import new and changed agent logs from this machine into the store.

    With --watch, new lines are searchable within a second. Each import that found something prints a line on stderr;
    with --json each import, the first included, is one line of JSON on stdout.

    With --schedule, systemd, launchd or cron starts an import every hour, as the files or the line say that are shown
    first. Nothing of ours keeps running between, and --unschedule leaves all as it was before.
    """
    if schedule or unschedule:
        from backstory.cli.scheduling import change_timer

        _check_alone(only, explain, forgotten, watch, schedule and unschedule)
        change_timer(app, is_going=unschedule, dry_run=dry_run, as_json=as_json)
        return
    if dry_run:
        raise click.UsageError("--dry-run shows what --schedule or --unschedule would write.")
    if says_off(app, as_json=as_json):
        return
    if forgotten and app.home_store.exists:
        app.home_store.decide(sessions.unforget)
        if app.home_store.ask(lambda db: db.execute(schema.HAS_PRUNED).get):
            from backstory.ingest.bringing_back import bring_back  # hardly ever is there anything

            bring_back(app.home_store)
    if watch:
        _follow(app, only, explain=explain, as_json=as_json)
        return
    import_logs(app, only, explain=explain, as_json=as_json, prunes=not forgotten)


def _check_alone(*given: object) -> None:
    if any(given):
        raise click.UsageError("--schedule and --unschedule stand alone, or with --dry-run.")


def import_logs(
    app: App, only: Sequence[str] = (), *, explain: bool = False, as_json: bool = False, prunes: bool = True
) -> None:
    """Import once, with a bar of progress, and print what was read; ``prunes``: then by the rule, if there is one."""
    others = {} if only else agents.logs_of_others(app.user_home)
    if not only and output.can_ask() and (refused := _refused(app)):
        only = [each.name for each in chosen_agents(app.config, ()) if each.name not in refused]
        output.talk(f"Left out: {', '.join(sorted(refused))}. To read only some agents from now on: {CHOOSE}")
        if not only:
            return
    began = now_ms()
    report = app.workspace.ingest(_machine(app, only), output.talk, output.progress)
    took_ms = now_ms() - began
    _print(app, report, others, took_ms, explain=explain, as_json=as_json, rule=_prune(app) if prunes else None)
    _warn_of_secrets(app)


def _prune(app: App) -> dict[str, Any] | None:
    """Prune by the rule of the settings; mostly there is none."""
    config = app.config
    if all(config.origin(key) is None and config.wrong(key) is None for key in ("prune.older", "prune.to_size")):
        return None
    from backstory.cli.pruning_rule import apply_rule

    return apply_rule(app)


def _warn_of_secrets(app: App) -> None:
    """Print in a line how many secrets came that were not there before, if the settings ask for it."""
    if not app.config.settings.ingest.warns_of_secrets or not app.home_store.exists:
        return
    from backstory.projects.secret_notes import ACCEPTED, AcceptedSecrets
    from backstory.workspace.stores.secret_scan import SecretScan

    scan = SecretScan(app.home, app.workspace.now)
    scan.scan(app.home_store)
    accepted = set[str]()
    try:
        accepted = AcceptedSecrets(app.home / ACCEPTED, scan.key).secrets if scan.came else accepted
    except BaselineUnusable as unusable:
        # The logs were read, so it is no failure; nothing counts as accepted.
        output.talk(output.one_liner(str(unusable)))
    if came := [each for each in scan.findings if each.secret.digits in scan.came - accepted]:
        is_in = "is" if len(came) == 1 else "are"
        output.talk(f"{output.counted(len(came), 'new secret')} {is_in} in what was read: backstory secrets scan")


def _refused(app: App) -> set[str]:
    """Return the agents whose logs are many, were never read, and are not wanted now."""
    sources = new_sources(app.workspace, _machine(app, ()))
    return {each.agent for each in sources if each.bytes >= ASKED_FROM_BYTES and not _is_wanted(each)}


def _is_wanted(source: NewSource) -> bool:
    files = f"{output.counted(source.files, 'file')}, {output.size(source.bytes)}"
    return output.confirm(f"{source.agent} was never read here: {files}. Read it now?")


def _machine(app: App, only: Sequence[str]) -> Machine:
    return Machine(user_home=app.user_home, only=tuple(only))


def _print(
    app: App, report: IngestReport, others: dict[str, int], took_ms: int, *, explain: bool, as_json: bool,
    rule: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    if as_json:
        beside = {"not_read": others, "rule_pruned": rule}
        output.json(_as_json(report) | beside | ({"explained": _explained(report)} if explain else {}))
    else:
        _tell(app, report, took_ms)
        if others and (explain or report.total("logs_read") or not report.total("logs_seen")):
            names = ", ".join(f"{name} ({count:,})" for name, count in others.items())
            output.talk(f"Also here, not read by this version: {names}")
    if explain and not as_json:
        output.data(output.one_liner(f"Store: {app.home_store.path}"))
        for line in _explained(report):
            output.data(output.one_liner(line))


def _follow(app: App, only: Sequence[str], *, explain: bool, as_json: bool) -> None:
    """Read everything, then what changes, until a signal ends it."""
    machine = _machine(app, only)
    watch = watch_all(
        app.workspace,
        machine,
        output.talk,
        lambda: app.workspace.ingest(machine, output.talk, no_progress if is_following else output.progress),
    )
    is_following = False
    stop_on_signals()
    try:
        with closing(watch.batches()) as batches:
            began = now_ms()
            report = next(batches)
            rule = _prune(app)
            if as_json:
                beside = {"rule_pruned": rule} | ({"explained": _explained(report)} if explain else {})
                output.json_line(_batch(report) | beside)
            else:
                _print(app, report, {}, now_ms() - began, explain=explain, as_json=False)
            _warn_of_secrets(app)
            output.talk(f"Following {', '.join(watch.folders) or 'nothing yet'}. Ctrl-C ends it.")
            is_following = True
            for report in batches:
                _tell_batch(report, as_json=as_json)
                _warn_of_secrets(app)
    except KeyboardInterrupt:
        # It is how this command ends.
        return


def _tell_batch(report: IngestReport, *, as_json: bool) -> None:
    """A line about what came; nothing when nothing did."""
    read = [f"{agent}: {said}" for agent, tally in sorted(report.by_agent.items()) if (said := _in_words(tally))]
    if as_json and (read or report.errors):
        output.json_line(_batch(report))
    elif read:
        output.talk(f"{datetime.now():%H:%M:%S} {'; '.join(read)}")


def _batch(report: IngestReport) -> dict[str, Any]:
    return {"at": output.iso(now_ms()), **_as_json(report)}


def _in_words(tally: AgentTally) -> str:
    """Return the counts of an agent's logs in words: ``1 session updated, 3 events``."""
    counts = (
        (tally.listed_new, "new session", "new sessions"),
        (tally.listed_updated, "session updated", "sessions updated"),
        (tally.events_new, "event", "events"),
        (tally.companions_read, "file beside a log", "files beside logs"),
    )
    return ", ".join(output.counted(count, one, many) for count, one, many in counts if count)


def _as_json(report: IngestReport) -> dict[str, Any]:
    figures = (
        "logs_seen", "logs_read", "bytes_read", "sessions_new", "sessions_updated", "listed_new", "listed_updated",
        "events_new",
    )  # fmt: skip
    return {
        **{name: report.total(name) for name in figures},
        "unknown_records": report.unknown_records,
        "by_agent": [
            {"agent": agent} | {name: getattr(each, name) for name in each.__struct_fields__}
            for agent, each in report.by_agent.items()
        ],
        "errors": report.errors,
        "not_understood": report.not_understood,
    }


def _tell(app: App, report: IngestReport, took_ms: int) -> None:
    has_read = bool(report.total("logs_read"))
    count = 0 if has_read else _sessions(app)
    if line := _in_a_line(report, took_ms) if has_read else _unchanged(count):
        for part in wrapped(line, output.width()) if sys.stdout.isatty() else (line,):
            output.data(part)
    if not report.total("logs_seen"):
        output.talk("No logs were found. These places were looked at:")
        for each in report.looked:
            output.talk(f"  {_looked(each)}")
        for line in _empty_databases(app, report):
            output.talk(output.one_liner(line))
        output.talk("Begin a session in one of these agents, or with: backstory run PROMPT")
    # Of what was read before it was said then.
    for line in _without_session(app, report) if has_read or not count else ():
        output.talk(output.one_liner(line))
    if _is_first(report):
        output.talk("Next: backstory list --all · backstory search WORDS")
    _tell_problems(report)


def _empty_databases(app: App, report: IngestReport) -> Iterator[str]:
    """Name the databases of agents that are there and were read, where no session came of any."""
    refused = {each.path for each in report.errors}
    for name in agents.with_part("live"):
        live = agents.load(name).live
        for database in live.databases(app.environ, app.user_home) if live is not None else ():
            if database.is_file() and str(database) not in refused:
                yield f"  {name}: {database}: it holds no sessions"


def _unchanged(count: int) -> str:
    """Return the number of sessions in words if nothing was read; '' if there are none."""
    return f"Up to date: {output.counted(count, 'session')}." if count else ""


def _sessions(app: App, agent: str | None = None) -> int:
    wanted = app.home_store.as_recorded(ListFilter(agent=agent))
    return sum(app.home_store.ask_or({}, sessions.counts, wanted).values())


def _without_session(app: App, report: IngestReport) -> Iterator[str]:
    """Say of each place with logs of which no session is listed why there is none."""
    has_read = bool(report.total("logs_read"))
    silent = {
        agent
        for agent, tally in report.by_agent.items()
        if bool(tally.logs_read) == has_read and not tally.listed_new and not tally.listed_updated
    }
    for place in report.looked:
        if place.found and place.agent in silent and not _sessions(app, place.agent):
            below = f"{place.folder}{os.sep}"
            problems = (*report.gave_nothing, *report.not_understood, *report.errors)
            reasons = Counter(each.reason for each in problems if each.path.startswith(below))
            if rest := place.found - sum(reasons.values()):
                reasons[NO_CONVERSATION] = max(rest, 0)
            words = "; ".join(
                f"{reason} ({count:,})" for reason, count in reasons.most_common(REASONS_SHOWN_MAX) if count
            )
            yield f"No session of {place.agent}: {place.folder}: {output.counted(place.found, 'log')}: {words}"


def _in_a_line(report: IngestReport, took_ms: int) -> str:
    """Return a line for a person on the logs that an ingest read."""
    read = report.total("logs_read")
    took = f" in {output.duration(took_ms)}" if took_ms >= SHORTEST_MS else ""
    beginning = f"Read {output.counted(read, 'log')} ({output.size(report.total('bytes_read'))}){took}"
    if _is_first(report):
        by_agent = ((agent, tally.listed_new) for agent, tally in sorted(report.by_agent.items()))
        named = ", ".join(f"{agent} {count:,}" for agent, count in by_agent if count)
        return f"{beginning}: {named} {'session' if report.total('listed_new') == 1 else 'sessions'}."
    new, updated = report.total("listed_new"), report.total("listed_updated")
    changes = [output.counted(new, "new session")] if new or not updated else []
    changes += [f"{updated:,} updated"] if new and updated else []
    changes += [f"{output.counted(updated, 'session')} updated"] if updated and not new else []
    return f"{beginning}: {', '.join(changes)}{_first_of(report)}."


def _first_of(report: IngestReport) -> str:
    """Return the agents of which all that is there was new, as it is when they are read first; '' if there is none."""
    whole = [
        f"{agent} ({output.counted(tally.listed_new, 'session')}, {output.size(tally.bytes_read)})"
        for agent, tally in sorted(report.by_agent.items())
        if tally.listed_new and tally.logs_read == tally.logs_seen and not tally.sessions_updated
    ]
    return f", all there is of {', '.join(whole)}" if whole else ""


def _is_first(report: IngestReport) -> bool:
    """Return True if all that was read is new, as it is when somebody begins."""
    return report.total("logs_read") == report.total("logs_seen") and report.total("listed_new") > 0


def _tell_problems(report: IngestReport) -> None:
    unfit = {kind for kind in report.unknown_records if kind.startswith(OUT_OF_RANGE)}
    if unfit:
        names = ", ".join(
            f"{kind.removeprefix(OUT_OF_RANGE)} ({report.unknown_records[kind]})" for kind in sorted(unfit)
        )
        output.talk(output.one_liner(f"Out of range, and left empty: {names}."))
    if unknown := {kind: n for kind, n in sorted(report.unknown_records.items()) if kind not in unfit}:
        kinds = ", ".join(f"{kind} ({n})" for kind, n in unknown.items())
        count = sum(unknown.values())
        was = "was" if count == 1 else "were"
        output.talk(output.one_liner(f"{output.counted(count, 'record')} of an unknown kind {was} kept: {kinds}."))
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


def _explained(report: IngestReport) -> list[str]:
    lines = [_looked(each) for each in report.looked]
    lines += [f"  gave nothing: {each.path}: {each.reason}" for each in report.gave_nothing]
    return lines + [f"  kept as it is: {each.path}: {each.reason}" for each in report.not_understood]
