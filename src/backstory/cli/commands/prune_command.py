"""``backstory prune``: sessions that are no longer wanted leave the store, and their room is free again."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory.bounds import bytes_of
from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import AGENT, PROJECT, REPOSITORY, json_option, moment, readable, store_option
from backstory.cli.trusting import may_act, talk_late, trust_option
from backstory.derive.pruning import IMAGES, PROMPTS, SUMMARIES, TOOL_OUTPUTS, Pruning
from backstory.errors import AnsweredLate, StoreNotFound
from backstory.ids import session_keys
from backstory.workspace import questions
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.stores.pruning import NAMED, SUBAGENTS, Pruner, PruneWish, by_place, reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.workspace.stores.pruning import Pruned, PrunePlan, Spared

ANSWER_MS = 60_000
"""An answer that takes longer is refused: what would go may be other sessions by then."""
HEADS = ("PROJECT", "AGENT", "SESSIONS", "LOGS", "ROOM")
LABELS_SHOWN = 5
NOT_NARROW = (
    "Say what is to go: --older, --larger, --to-size, --agent, --repo, --project, --gone or --kind. Without any, every "
    "session would."
)


class Size(click.ParamType[int, str]):
    """A number of bytes as people write it."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = value if isinstance(value, int) else bytes_of(readable(str(value)))
        if found is None:
            self.fail(
                f"{readable(str(value))!r} is no size. Write 500MB, 2GB, 800KiB or a number of bytes.", param, ctx
            )
        return found


SIZE = Size()


@click.command("prune")
@click.option("--older", metavar="TIME", help="Only what was last active longer ago: 90d, 1y, 2026-01-01.")
@click.option("--larger", type=SIZE, help="Only sessions that take more room than this: 50MB.")
@click.option("--to-size", type=SIZE, help="Only so many, oldest first, that the store is no larger than this: 2GB.")
@click.option("--agent", "-a", type=AGENT, help="Only sessions of this agent.")
@click.option("--repo", type=REPOSITORY, help="Only sessions in this repository: owner/name, or name.")
@click.option("--project", type=PROJECT, help="Only sessions of this project: its name, the end of it, or its folder.")
@click.option("--gone", is_flag=True, help="Only sessions of projects whose folder is gone.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([SUBAGENTS, TOOL_OUTPUTS, IMAGES]),
    multiple=True,
    help="Only this of the sessions; the rest of them stays (repeatable).",
)
@click.option(
    "--keep",
    type=click.Choice([PROMPTS, SUMMARIES, NAMED]),
    multiple=True,
    help="What stays all the same: what you typed; that, and summaries; sessions with a name (repeatable).",
)
@click.option("--dry-run", is_flag=True, help="Only list what would go, and what that frees.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@trust_option
@store_option
@click.pass_obj
def command(
    app: App, older: str | None, larger: int | None, to_size: int | None, agent: str | None, repo: str | None,
    project: str | None, gone: bool, kinds: tuple[str, ...], keep: tuple[str, ...], dry_run: bool, yes: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Remove sessions that are no longer wanted from the store, of every project, and free their room on the disk.

    All that you say must be true of a session. First it lists what would go and what that frees; then it asks.
    Without a terminal nothing goes unless you say --yes. What runs, or has a prompt in its queue, stays, and is
    named. The agents' own logs stay, and `ingest --forgotten` brings back what they still have.
    """
    typed = {"agent": agent, "repo": repo, "project": project}
    chosen = questions.read(typed, app.cwd, app.user_home if project else None)
    wish = PruneWish(
        before=moment(readable(older), datetime.now()) if older is not None else None, larger=larger, to_size=to_size,
        wanted=SessionFilter(**chosen, everywhere=True), gone=gone, of_subagents=SUBAGENTS in kinds,
        keeps_named=NAMED in keep, partly=Pruning.of([*kinds, *keep]),
    )  # fmt: skip
    if not wish.is_narrow:
        raise click.UsageError(NOT_NARROW)
    if not any(each.exists for each in app.stores):
        raise StoreNotFound(app.home_store.path)
    pruner = Pruner(app.workspace)
    with output.progress("Looking") as note:
        plan = pruner.plan(wish, note)
    if not as_json:
        _print(plan, wish)
        if plan.going and not wish.is_partial and app.config.settings.sync.is_enabled:
            output.talk("What `sync` sent of them goes from the team's server, too, with the next `sync`.")
    if dry_run or plan.is_empty or not (yes or (not as_json and _is_agreed(plan))):
        if as_json:
            output.json(_as_json(plan, None))
        elif not plan.is_empty and not output.can_ask():
            output.talk("Nothing was removed. To remove it: the same with --yes.")
        return
    may_act(app, app.home_store)
    done = pruner.perform(plan, output.progress)
    if as_json:
        output.json(_as_json(plan, done))
    else:
        _tell(plan, done)
    for each in done.problems[1:]:
        output.talk(str(each))
    if done.problems:
        raise done.problems[0]


def _is_agreed(plan: PrunePlan) -> bool:
    """Ask a person; raises AnsweredLate for an answer that is about what was a while ago."""
    began = now_ms()
    count = output.counted(len(plan.going), "session")
    what = f"Remove {said} of {count}" if (said := _parts(plan.partly)) else f"Remove {count}"
    if not plan.going:
        what = "Erase what was removed earlier"
    is_agreed = output.confirm(f"{what} for good, and free about {output.size(plan.frees)}?")
    if is_agreed and now_ms() - began > ANSWER_MS:
        raise AnsweredLate
    if not is_agreed and output.can_ask():
        output.talk("Kept.")
    return is_agreed


def _parts(partly: Pruning) -> str:
    """Return the parts of the sessions that go, in words; '' for all."""
    kinds = " and ".join(_KINDS[each] for each in sorted(partly.kinds))
    if partly.keep is None:
        return kinds
    kept = "what you typed" if partly.keep == PROMPTS else "what you typed and summaries"
    return f"all but {kept}{f', and {kinds},' if IMAGES in partly.kinds else ''}"


_KINDS = {TOOL_OUTPUTS: "outputs of tools", IMAGES: "images"}


def _print(plan: PrunePlan, wish: PruneWish) -> None:
    if plan.going:
        rows = [
            (each.project, each.agent, f"{each.sessions:,}", output.size(each.bytes), output.size(each.room))
            for each in by_place(plan.going)
        ]
        for line in output.table(rows, flexible=0, heads=HEADS):
            output.data(line)
        subagents = sum(len(each.uids) - 1 for each in plan.going)
        beside = f", with {output.counted(subagents, 'subagent')}" if subagents and not wish.of_subagents else ""
        count = output.counted(len(plan.going), "session")
        output.data(f"Of {count}{beside}: {said}" if (said := _parts(plan.partly)) else f"{count}{beside}")
        for each in plan.stores:
            if each.before != each.after:
                sizes = f"{output.size(each.before)} now, about {output.size(each.after)} then"
                output.data(
                    output.one_liner(f"Frees about {output.size(each.before - each.after)}: {each.path}, {sizes}")
                )
    elif any(each.is_due for each in plan.stores):
        output.talk("No session goes. What was removed earlier may still be in the file.")
    elif wish.to_size is not None and plan.is_enough:
        output.talk("No session goes: the store is no larger than that.")
    else:
        output.talk("No session goes: nothing here is as you say.")
    _talk_spared(plan.spared)
    if not plan.is_enough:
        output.talk(f"The store is still larger than {output.size(wish.to_size or 0)} then: the rest may not go.")


def _talk_spared(spared: Sequence[Spared]) -> None:
    for reason, count in reasons(spared).items():
        labels = [each.label for each in spared if each.reason == reason]
        more = f" and {count - LABELS_SHOWN:,} more" if count > LABELS_SHOWN else ""
        output.talk(output.one_liner(f"Stays: {', '.join(labels[:LABELS_SHOWN])}{more}: {reason}."))


def _tell(plan: PrunePlan, done: Pruned) -> None:
    _talk_spared(done.spared)
    freed = sum(each.before - each.after for each in done.stores)
    did = "Pruned" if plan.partly.words else "Removed"
    output.data(f"{did} {output.counted(len(done.uids), 'session')}. Freed {output.size(max(freed, 0))}.")
    talk_late("Removed", done.late)
    if done.copies:
        output.talk(f"Copies of their turns remain in {output.counted(done.copies, 'other session')}.")
    output.talk("Not erased: the agents' own logs, and earlier backups.")


def _as_json(plan: PrunePlan, done: Pruned | None) -> dict[str, Any]:
    """Return what went, or would go."""
    spared = [*plan.spared, *(done.spared if done is not None else ())]
    stores = plan.stores if done is None else done.stores
    return {
        "is_dry_run": done is None,
        "pruned": plan.partly.words,
        "uids": [uid for each in plan.going for uid in each.uids] if done is None else done.uids,
        "by_project": [
            {
                "project_name": each.project, "agent": each.agent or None, "session_count": each.sessions,
                "bytes": each.bytes, "room_bytes": each.room,
            }
            for each in by_place(plan.going)
        ],
        "spared": [session_keys(each.uid, each.label) | {"reason": each.reason} for each in spared],
        "stores": [
            {"path": str(each.path), "bytes_before": each.before, "bytes_after": each.after} for each in stores
        ],
        "freed_bytes": sum(each.before - each.after for each in stores),
        "is_enough": plan.is_enough,
        "late_stores": [] if done is None else [{"path": str(each.path), "reason": each.reason} for each in done.late],
        "copy_count": 0 if done is None else done.copies,
    }  # fmt: skip
