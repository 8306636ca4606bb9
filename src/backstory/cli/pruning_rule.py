"""The rule of a person's own settings by which each import prunes: applied, and said."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from backstory.bounds import bytes_of
from backstory.cli import output
from backstory.cli.options import moment
from backstory.derive.pruning import Pruning
from backstory.errors import BackstoryError
from backstory.workspace.stores.pruning import NAMED, Pruner, PruneWish

if TYPE_CHECKING:
    from backstory.cli.app import App


def apply_rule(app: App) -> dict[str, Any] | None:
    """Prune what the rule of a person's own settings says, and say so in a line; None where there is no rule.

    An ingest that it belongs to is done by then, so what is in its way is only said.
    """
    try:
        return _by_rule(app)
    except BackstoryError as refused:
        output.talk(output.one_liner(f"Not pruned by the rule: {refused}"))
        return None


def _by_rule(app: App) -> dict[str, Any] | None:
    rule = app.config.settings.prune
    if app.home_store is not app.machine_store or not app.home_store.exists or not (rule.older or rule.to_size):
        return None
    wish = PruneWish(
        before=moment(rule.older or None, datetime.now()), to_size=bytes_of(rule.to_size),
        keeps_named=rule.keep == NAMED, partly=Pruning.of([rule.keep]),
    )  # fmt: skip
    if wish.to_size is not None and app.home_store.path.stat().st_size <= wish.to_size:
        return {"pruned": wish.partly.words, "uids": [], "freed_bytes": 0}
    pruner = Pruner(app.workspace)
    plan = pruner.plan(wish, is_measured=False)
    before = sum(each.before for each in plan.stores)
    done = pruner.perform(plan, output.progress)
    freed = max(before - sum(each.after for each in done.stores), 0) if done.uids else 0
    if done.uids:
        said = [f"{key} {value}" for key, value in (("older", rule.older), ("to_size", rule.to_size)) if value]
        said += [f"keep {rule.keep}"] if rule.keep else []
        did = f"{output.counted(len(done.uids), 'session')} pruned, {output.size(freed)} freed"
        output.talk(output.one_liner(f"By the rule of {app.config.own} (prune: {', '.join(said)}): {did}."))
    for each in done.problems:
        output.talk(output.one_liner(str(each)))
    return {"pruned": plan.partly.words, "uids": done.uids, "freed_bytes": freed}
