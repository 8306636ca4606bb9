"""``backstory compact``: a summary in the place of the beginning of a session's context, shown or taken back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import click
import msgspec

from backstory.ask import costs
from backstory.cli import output
from backstory.cli.options import find, json_option, session_argument, store_option
from backstory.cli.trusting import may_act, trust_option
from backstory.cli.views.summary_view import compacted_line, compacting_line, exchanges, kept_words, print_context
from backstory.derive.pricing import cost_as_json
from backstory.store.tables import compactions

if TYPE_CHECKING:
    from backstory.cli.app import App
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.runs.compacting import CompactionPlan, Compactor
    from backstory.workspace.runs.run_events import SummaryMade


@click.command("compact")
@session_argument
@click.option("--now", "is_now", is_flag=True, help="Compact even below the limit.")
@click.option("--dry-run", is_flag=True, help="Only show what a summary would cover.")
@click.option("--preview", "is_preview", is_flag=True, help="Print the context of the next run, as `context` does.")
@click.option("--show", "is_show", is_flag=True, help="Show the current summary.")
@click.option("--undo", "is_undo", is_flag=True, help="Remove the current summary.")
@click.option("--continue", "is_continuing", is_flag=True, hidden=True)
@json_option
@trust_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, session: str | None, is_now: bool, dry_run: bool, is_preview: bool, is_show: bool,
    is_undo: bool, is_continuing: bool, as_json: bool,
) -> None:  # fmt: skip
    """Summarise the start of a long session, so later runs send less.

    The last exchanges stay as they are. Nothing is removed: `show` has every record, and --undo removes the summary.
    A run begins this by itself once the context has passed the setting compaction.chars.
    """
    if sum((dry_run, is_preview, is_show, is_undo)) > 1:
        raise click.UsageError("Give one of --dry-run, --preview, --show and --undo.")
    app: App = ctx.obj
    located = find(app, session)
    if is_preview:
        print_context(app, located, as_json=as_json)
        return
    if is_show:
        _show(app, located, as_json=as_json)
        return
    if not dry_run:
        may_act(app, located.store)
    if is_undo:
        _undo(app, located, as_json=as_json)
        return
    if is_continuing:
        # Begun by a command that found a stopped turn: its run is shown by those who look at it.
        deque(app.workspace.scheduler.continue_stopped(located), maxlen=0)
        return
    from backstory.workspace.runs.compacting import Compactor

    compactor = Compactor(app.workspace, located.store, located.session)
    plan = compactor.plan()
    if dry_run or not (plan.is_due or is_now):
        _show_plan(located, plan, as_json=as_json)
        return
    if plan.boundary is not None:
        compactor.check()
    # A session that is not ours is continued only for what will be stored.
    _compact(_writable(app, located) if plan.boundary is not None else compactor, as_json=as_json)


def _writable(app: App, located: LocatedSession) -> Compactor:
    """The compactor of the session; of one that continues it where it belongs elsewhere."""
    from backstory.workspace.runs.compacting import Compactor
    from backstory.workspace.runs.writable import ensure_writable_session

    own = app.workspace.project_store
    if located.session.is_own and located.store.path == own.path:
        return Compactor(app.workspace, located.store, located.session)
    writable = ensure_writable_session(app.workspace, located)
    for sentence in writable.sentences(own.path):
        output.talk(sentence)
    return Compactor(app.workspace, own, writable.session)


def _compact(compactor: Compactor, *, as_json: bool) -> None:
    from backstory.workspace.runs.run_events import SummaryMade

    for event in compactor.compact():
        if isinstance(event, SummaryMade):
            _tell_done(event, as_json=as_json)
        else:
            output.talk(compacting_line(event))


def _tell_done(done: SummaryMade, *, as_json: bool) -> None:
    if as_json:
        from backstory.workspace.runs.run_events import compacted_fields

        output.json(compacted_fields(done))
        return
    output.talk(f"{compacted_line(done)} Read it: backstory compact --show. Take it back: backstory compact --undo.")


def _show_plan(located: LocatedSession, plan: CompactionPlan, *, as_json: bool) -> None:
    if as_json:
        output.json(
            {
                **located.keys, "chars": plan.chars, "limit": plan.limit, "is_due": plan.is_due,
                "after_seq": plan.boundary.after_seq if plan.boundary else None,
                "summarized_exchanges": plan.boundary.summarized if plan.boundary else 0,
                "kept_exchanges": plan.boundary.kept if plan.boundary else 0,
            }
        )  # fmt: skip
        return
    of = f" of {plan.limit:,}" if plan.limit else ""
    output.talk(f"{located.label}: {plan.chars:,}{of} characters of context since the last summary.")
    if plan.boundary is None:
        output.talk("Nothing can be summarised: there is only one exchange.")
        return
    kept = plan.boundary.kept
    would = f"A summary would cover {exchanges(plan.boundary.summarized)}, up to @{plan.boundary.after_seq}"
    stay = f"{exchanges(kept)} stay{'s' * (kept == 1)}"
    output.talk(f"{would}; {stay}. Make it now: backstory compact --now")


def _show(app: App, located: LocatedSession, *, as_json: bool) -> None:
    from backstory.workspace.runs.compacting import Compactor

    found = located.store.ask(compactions.in_force, located.session.id)
    compactor = Compactor(app.workspace, located.store, located.session)
    retention = () if found is None else compactor.retention(found)
    if as_json:
        output.json(located.keys | _in_force(located, found) | {"retention": retention})
    elif found is None:
        output.talk(f"{located.label} has no summary.")
    else:
        output.pages(found.summary.split("\n"))
        if kept := kept_words(retention):
            output.talk(f"Of what it covers it still names {kept}.")
        by = found.agent or "its agent" if found.id is None or found.agent else "another program"
        output.talk(f"It covers everything up to @{found.after_seq}, and was written by {by}.")


def _in_force(located: LocatedSession, summary: compactions.Compaction | None) -> dict[str, Any]:
    if summary is None:
        return {"summary": None}
    prices = costs.price_table(located.store.prices_file)
    cost = costs.of_summary(prices, summary.agent, summary.model, summary.created, summary.tokens, summary.cost_usd)
    found: dict[str, Any] = msgspec.to_builtins(summary)
    return {"compaction_id": found.pop("id")} | found | cost_as_json(cost)


def _undo(app: App, located: LocatedSession, *, as_json: bool) -> None:
    has_one = any(each.id is not None for each in located.store.ask(compactions.of_session, located.session.id))
    undone = _writable(app, located).undo() if has_one else None
    if as_json:
        output.json(located.keys | {"undone": undone is not None, "after_seq": undone.after_seq if undone else None})
    elif undone is None:
        output.talk(f"{located.label} has no summary to take back.")
    else:
        output.talk(f"The summary up to @{undone.after_seq} was taken back; contexts hold what it covered again.")
