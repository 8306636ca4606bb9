"""Work of some time, by repository and branch: done, in progress and stuck."""

from __future__ import annotations

from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.bounds import counted, iso, local
from backstory.chronicle.progress import (
    MARKS,
    NOTHING_EDITED,
    REFS_SHOWN,
    Progress,
    Results,
    Status,
    line,
    names,
    progress_of,
    ref_as_json,
    ref_words,
    result_words,
    results_as_json,
    results_of,
)
from backstory.chronicle.report import Cell, OfSession, OfSessions, Report, ReportRow, Section, Tone, facts, row, rows
from backstory.chronicle.window import window_words
from backstory.derive.packed import Packed
from backstory.derive.pricing import cost_as_json
from backstory.ids import session_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from backstory.derive.pricing import Cost
    from backstory.store.intake.derived_tables import StoredRef
    from backstory.workspace.history.sessions import SessionFilter
    from backstory.workspace.history.work import HandCommits, SessionWork
    from backstory.workspace.reader import Reader
    from backstory.workspace.team_reader import Whose


class Item(Struct, frozen=True, kw_only=True):
    """A session in a stand-up: how far it is, and what came of it in the time. ``asked``: the time's first prompt.

    There may be very many, so of the session it has what is shown.
    """

    uid: str
    label: str
    heading: str
    agents: tuple[str, ...]
    asked: str
    said: tuple[str, ...]
    """Other texts of the session that its heading may be cut from: they tell the secrets in it."""
    asked_at: int | None
    turns: int
    outcome: str | None
    progress: Progress
    results: Results
    refs: tuple[StoredRef, ...]
    cost: Cost | None
    person: str | None = None
    machine: str | None = None


class StandupPlace(Struct, frozen=True, kw_only=True):
    """A branch of a repository, or of a project that has none, with what was worked on there."""

    name: str
    """The repository's, else the project's."""
    project: str | None
    branch: str | None
    items: Packed[Item]
    statuses: frozenset[Status]
    """Those that any of these has."""
    person: str | None = None
    """The person whose sessions these are, of a team."""


class Standup(Struct, frozen=True, kw_only=True):
    """The report: places with the last active first. ``undated``: turns without a time, left out."""

    wanted: SessionFilter
    places: tuple[StandupPlace, ...]
    undated: int


def standup(
    reader: Reader, wanted: SessionFilter, report: Callable[[int, int | None], None],
    whose: Callable[[str], Whose] | None = None,
) -> Standup:  # fmt: skip
    """Report what was worked on in the sessions that a filter asks for, in its time.

    ``report`` receives how many sessions were read, of how many; None while these are counted. ``whose``: tells whose a
    session of a team is, by its uid: then each person has places of their own.
    """
    costs, undated = reader.session_costs(wanted, lambda done, total: report(0, None))
    by_hand, ranked = reader.commits_by_hand(wanted.until), list[tuple[int, StandupPlace]]()
    places = groupby(reader.work(wanted, report), key=_place_of)
    for branch, person, group in ((key[1], *each) for key, works in places for each in _by_person(works, whose)):
        first = next(group)
        statuses, session = set[Status](), first.session
        each_item = (_item(each, wanted, costs, by_hand, whose) for each in chain([first], group))
        items = Packed(_noting(each_item, statuses))
        place = StandupPlace(
            name=session.project_name, project=session.main_project, branch=branch, items=items,
            statuses=frozenset(statuses), person=person,
        )  # fmt: skip
        ranked.append((first.rank, place))
    ranked.sort(key=itemgetter(0))
    order = {place.person: rank for rank, place in reversed(ranked)}
    ranked.sort(key=lambda each: order[each[1].person])
    return Standup(wanted=wanted, places=tuple(place for _, place in ranked), undated=undated)


def _by_person(
    works: Iterator[SessionWork], whose: Callable[[str], Whose] | None
) -> Iterator[tuple[str | None, Iterator[SessionWork]]]:
    """The work of each person, in the order of the list; of nobody where nobody asks."""
    if whose is None:
        yield None, works
        return
    found: dict[str, list[SessionWork]] = {}
    for each in works:
        found.setdefault(whose(each.session.uid).person, []).append(each)
    yield from ((person, iter(theirs)) for person, theirs in found.items())


def _noting(items: Iterable[Item], statuses: set[Status]) -> Iterator[Item]:
    for each in items:
        statuses.add(each.progress.status)
        yield each


def _place_of(work: SessionWork) -> tuple[str, str | None]:
    return work.session.repository_key, work.session.branch


def _item(
    work: SessionWork, wanted: SessionFilter, costs: Mapping[str | None, Cost], by_hand: HandCommits,
    whose: Callable[[str], Whose] | None,
) -> Item:  # fmt: skip
    session, asked = work.session, work.turns[0].prompt
    person, machine = (None, None) if whose is None else whose(session.uid)
    return Item(
        uid=session.uid,
        label=session.label,
        heading=session.heading,
        agents=session.agents,
        asked=asked,
        said=tuple({session.name, session.title or "", session.first_prompt or ""} - {asked, session.heading, ""}),
        asked_at=work.turns[0].started,
        turns=len(work.turns),
        outcome=work.turns[-1].outcome,
        progress=progress_of(work, by_hand),
        results=results_of(work, wanted.since),
        refs=tuple(each for each in work.refs if wanted.is_in_time(each.created_at)),
        cost=costs.get(session.uid),
        person=person,
        machine=machine,
    )


def report(found: Standup) -> Report:
    """Draw each place with its work: what is stuck last, where the eye rests."""
    return Report(
        title=f"Stand-up {window_words(found.wanted)}",
        sections=tuple(
            Section(
                title=facts((place.person, place.name or "no repository", place.branch)),
                about=OfSessions(_Uids(place.items)),
                parts=tuple(
                    Section(title=status.capitalize(), mark=MARKS[status], rows=_Rows(place.items, status))
                    for status in Status
                    if status in place.statuses
                ),
            )
            for place in found.places
        ),
    )


class _Rows(Struct, frozen=True):
    """The rows of what has a status in a place, each drawn when it is asked for."""

    items: Packed[Item]
    status: Status

    def __iter__(self) -> Iterator[ReportRow]:
        return (_row(each) for each in self.items if each.progress.status == self.status)


class _Uids(Struct, frozen=True):
    """The sessions of a place, read when they are asked for."""

    items: Packed[Item]

    def __iter__(self) -> Iterator[str]:
        return (each.uid for each in self.items)


def _row(item: Item) -> ReportRow:
    about = OfSession(item.uid)
    shown = Cell(item.label, Tone.REF), Cell(item.heading or item.label, Tone.NAME)
    return row(*shown, below=rows(_facts(item)), about=about)


def _facts(item: Item) -> Iterator[str]:
    cost = "" if item.cost is None else item.cost.known
    # The mark says that it is done: of a question that was answered there is no more to say.
    is_answer = item.progress.reason == NOTHING_EDITED
    yield facts((local(item.asked_at), counted(item.turns, "turn"), cost, "nothing edited" if is_answer else ""))
    if (asked := line(item.asked)) != item.heading:
        yield f"Asked: {asked}"
    if results := facts(result_words(item.results)):
        yield results
    if item.refs:
        yield f"Named: {names([ref_words(each) for each in item.refs], REFS_SHOWN)}"
    if not is_answer:
        yield f"{item.progress.status.capitalize()}: {item.progress.reason}"
    if item.progress.open:
        yield f"Open: {item.progress.open}"


def as_json(found: Standup) -> dict[str, Any]:
    """A report as ``report standup --json`` prints it; sessions are read as they are printed."""
    return {
        "since": iso(found.wanted.since),
        "until": iso(found.wanted.until),
        "undated_turns": found.undated,
        "places": [
            {
                "repository": place.name or None,
                "project": place.project,
                "branch": place.branch,
                "sessions": map(_item_as_json, place.items),
            }
            for place in found.places
        ],
    }


def _item_as_json(item: Item) -> dict[str, Any]:
    return {
        **session_keys(item.uid, item.label),
        **({} if item.person is None else {"person": item.person, "machine": item.machine}),
        "title": item.heading or None,
        "agents": item.agents,
        "status": item.progress.status,
        "reason": item.progress.reason,
        "open": item.progress.open,
        "asked": item.asked,
        "asked_at": iso(item.asked_at),
        "turn_count": item.turns,
        "outcome": item.outcome,
        **results_as_json(item.results),
        "refs": [ref_as_json(each) for each in item.refs],
        **cost_as_json(item.cost),
    }
