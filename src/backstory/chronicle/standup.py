"""What was worked on in some time: by repository and branch, what is done, in progress and stuck."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import iso
from backstory.derive.deeds import CHECKS, DeedKind
from backstory.workspace.stats import StatsQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backstory.derive.pricing import Cost
    from backstory.store.derived_tables import StoredRef
    from backstory.store.work import DoneDeed
    from backstory.workspace.reader import Reader
    from backstory.workspace.sessions import SessionFilter
    from backstory.workspace.work import SessionWork

RULE = """\
done: the last turn completed (where no log says how it ended: it was answered), and after the last edit came a commit
or a pull request, or nothing was edited.
stuck: the last turn failed, crashed or was cancelled; or the last run of tests or the last build failed, and nothing
was edited, committed or proposed after it.
in progress: everything else."""
FILES_MOST = 50


class Status(StrEnum):
    """How far work is."""

    DONE = "done"
    IN_PROGRESS = "in progress"
    STUCK = "stuck"


class Check(Struct, frozen=True, kw_only=True):
    """The last run of tests, or the last build. ``ok``: None where nobody knows how it ended."""

    kind: DeedKind
    command: str
    ok: bool | None
    seq: int
    at: int | None


class Item(Struct, frozen=True, kw_only=True):
    """A session in a stand-up. ``reason``: why it is done, in progress or stuck; ``open``: what is left to do."""

    work: SessionWork
    status: Status
    reason: str
    open: str | None
    files: tuple[str, ...]
    commits: int
    checks: tuple[Check, ...]
    refs: tuple[StoredRef, ...]
    cost: Cost | None


class Place(Struct, frozen=True, kw_only=True):
    """A branch of a repository, or of a project that has none, with what was worked on there."""

    name: str
    """The repository's, else the project's."""
    project: str | None
    branch: str | None
    items: tuple[Item, ...]


class Standup(Struct, frozen=True, kw_only=True):
    """The report: places with the last active first."""

    wanted: SessionFilter
    places: tuple[Place, ...]


def standup(reader: Reader, wanted: SessionFilter) -> Standup:
    """Report what was worked on in the sessions that a filter asks for, in its time."""
    stats = reader.stats(StatsQuery(wanted=wanted, by="session"))
    costs = {each.key.value: each.figures.cost for each in stats.groups}
    places: dict[tuple[str | None, str | None], list[Item]] = {}
    for work in reader.work(wanted):
        session = work.session
        key = session.repository or session.project, session.branch
        places.setdefault(key, []).append(_item(work, wanted, costs))
    return Standup(
        wanted=wanted,
        places=tuple(
            Place(name=_name(items[0]), project=items[0].work.session.project, branch=branch, items=tuple(items))
            for (_, branch), items in places.items()
        ),
    )


def _name(item: Item) -> str:
    return item.work.session.repository or item.work.session.project_name


def _item(work: SessionWork, wanted: SessionFilter, costs: Mapping[str | None, Cost]) -> Item:
    status, reason, open_end = status_of(work)
    in_time = [each for each in work.deeds if _is_since(each.at, wanted.since)]
    return Item(
        work=work,
        status=status,
        reason=reason,
        open=open_end,
        files=tuple(dict.fromkeys(_below(each.text, work.root) for each in in_time if each.kind == DeedKind.EDIT)),
        commits=sum(each.kind == DeedKind.COMMIT and each.ok is not False for each in in_time),
        checks=tuple(_last_checks(in_time)),
        refs=tuple(each for each in work.refs if _is_since(each.created_at, wanted.since, wanted.until)),
        cost=costs.get(work.session.uid),
    )


def status_of(work: SessionWork) -> tuple[Status, str, str | None]:
    """How far a session is, why, and what is left to do there: see RULE."""
    last = work.turns[-1]
    if last.outcome in ("failed", "crashed", "cancelled"):
        how = _WAS.get(last.outcome, last.outcome)
        return Status.STUCK, f"the last turn {how}", f"the last prompt: {_line(last.prompt)}"
    deeds = [each for each in work.deeds if each.ok is not False or each.kind in CHECKS]
    change = _last(deeds, (DeedKind.EDIT, DeedKind.COMMIT, DeedKind.PULL_REQUEST))
    checks = [found for kind in CHECKS if (found := _last(deeds, (kind,))) is not None]
    open_failures = [each for each in checks if deeds[each].ok is False and (change is None or change < each)]
    if open_failures:
        failed = deeds[max(open_failures)]
        return Status.STUCK, f"the last {_RUNS[failed.kind]} failed (@{failed.seq})", f"failing: {_line(failed.text)}"
    is_answered = last.outcome == "completed" or (last.outcome is None and bool(last.answer.strip()))
    if not is_answered:
        return Status.IN_PROGRESS, "the last prompt was not answered", f"the last prompt: {_line(last.prompt)}"
    edit = _last(deeds, (DeedKind.EDIT,))
    kept = _last(deeds, (DeedKind.COMMIT, DeedKind.PULL_REQUEST))
    if edit is None:
        return Status.DONE, "the last prompt was answered, and nothing was edited", _question(last.answer)
    if kept is not None and kept > edit:
        return Status.DONE, f"a {deeds[kept].kind} followed the last edit (@{deeds[kept].seq})", None
    return Status.IN_PROGRESS, f"edited and not committed since (@{deeds[edit].seq})", _question(last.answer)


_WAS = {"cancelled": "was cancelled"}
_RUNS = {DeedKind.TEST: "run of tests", DeedKind.BUILD: "build"}


def _last(deeds: Sequence[DoneDeed], kinds: Iterable[DeedKind]) -> int | None:
    wanted = set(kinds)
    return next((n for n in range(len(deeds) - 1, -1, -1) if deeds[n].kind in wanted), None)


def _last_checks(deeds: Sequence[DoneDeed]) -> Iterable[Check]:
    for kind in CHECKS:
        found = _last(deeds, (kind,))
        if found is not None:
            each = deeds[found]
            yield Check(kind=kind, command=each.text, ok=each.ok, seq=each.seq, at=each.at)


def _question(answer: str) -> str | None:
    """What the model asked at the end of its answer."""
    last = _line(answer.strip().rpartition("\n")[2])
    return f"asked: {last}" if last.endswith("?") else None


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


def _below(path: str, root: str | None) -> str:
    return path[len(root) + 1 :] if root and path.startswith(f"{root.rstrip('/')}/") else path


def _is_since(at: int | None, since: int | None, until: int | None = None) -> bool:
    return at is None or ((since is None or at >= since) and (until is None or at < until))


def as_json(report: Standup) -> dict[str, Any]:
    """A report as ``chronicle standup --json`` prints it."""
    return {
        "since": iso(report.wanted.since),
        "until": iso(report.wanted.until),
        "places": [
            {
                "repository": place.name or None,
                "project": place.project,
                "branch": place.branch,
                "items": [_item_as_json(each) for each in place.items],
            }
            for place in report.places
        ],
    }


def _item_as_json(item: Item) -> dict[str, Any]:
    session, turns, cost = item.work.session, item.work.turns, item.cost
    return {
        "session": session.uid,
        "title": session.heading,
        "agents": session.agents,
        "status": item.status,
        "reason": item.reason,
        "open": item.open,
        "asked": turns[0].prompt,
        "asked_at": iso(turns[0].started),
        "turns": len(turns),
        "outcome": turns[-1].outcome,
        "files": item.files,
        "commits": item.commits,
        "checks": [
            {"kind": each.kind, "command": each.command, "ok": each.ok, "seq": each.seq, "at": iso(each.at)}
            for each in item.checks
        ],
        "refs": [
            {"type": each.type, "value": each.value, "host": each.host, "repository": each.repository,
             "as_of": iso(each.created_at)}
            for each in item.refs
        ],
        "cost_usd": cost.usd if cost else None,
        "cost_kind": cost.kind if cost else None,
        "low_usd": cost.low_usd if cost else None,
    }  # fmt: skip
