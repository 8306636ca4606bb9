"""Questions over many sessions have the same answers in a store and on the server that was sent what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
import pytest

from backstory.bounds import iso
from backstory.chronicle import cost, recap, standup
from backstory.errors import SessionAmbiguous, SessionNotFound
from backstory.server.team_reports import TeamReports, WantedParts
from backstory.server.turn_words import sign_of
from backstory.workspace.history.searching import SearchQuery
from backstory.workspace.history.sessions import Page, SessionFilter, page_as_json
from backstory.workspace.history.stats import StatsQuery
from backstory.workspace.located import LocatedSession
from backstory.workspace.opening import open_workspace
from backstory.workspace.team_reader import made_of
from tests.support.clock import NOW, Clock
from tests.support.machines import SMALL, Machine
from tests.support.senders import Sender, frames_of_store
from tests.support.team import team_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.chronicle.recap import Recap
    from backstory.workspace.reader import Reader
    from backstory.workspace.workspace import Workspace


class Both:
    """A store, and a server that has the same sessions."""

    def __init__(self, workspace: Workspace, sender: Sender) -> None:
        self.workspace, self.sender = workspace, sender

    def asks(self, path: str, **query: object) -> Any:
        """What the server answers."""
        status, found = self.sender.team.ask("GET", f"{path}?{urlencode(query)}", self.sender.token)
        assert status in (200, 404), found
        return found


@pytest.fixture(scope="module")
def both(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    from backstory.server.database import make_own

    folder = tmp_path_factory.mktemp("both")
    machine = Machine(folder)
    for name in SMALL:
        machine.put(name)
    machine.read()
    with team_of(make_own(postgres), Clock()) as team:
        sender = Sender(team, team.founded())
        for uid in machine.store.uids():
            assert set(sender.send(*frames_of_store(machine.store, machine.store.session(uid)))) == {"ok"}
        team.derive(sender.who)
        with team.database.of(sender.tenant) as rows:
            assert rows.execute("select session, error, tries from job").fetchall() == []
        environ = {"BACKSTORY_HOME": str(folder / "backstory"), "HOME": str(folder)}
        with open_workspace(folder, environ, store=str(machine.store_path), now=lambda: NOW) as workspace:
            workspace.believe(workspace.home_store)
            yield Both(workspace, sender)
    machine.close()


WITH_OTHERS = ("cost_usd", "cost_kind", "low_usd", "high_usd", "last_cost_usd", "context_used", "context_percent")
"""Sums of a store over several sessions: a subagent's, and turns of another one."""
FILTERS: list[dict[str, Any]] = [
    {}, {"agent": "claude"}, {"agent": "codex"}, {"agent": "gemini"}, {"title": "THE"}, {"title": "%"}, {"title": ""},
    {"title": "nowhere"}, {"branch": "main"}, {"branch": "m*"}, {"branch": "[a-m]*n"}, {"branch": "*"},
    {"branch": "m?in*"}, {"repository": "work"}, {"repository": "nothing"},
    {"since": 1_795_000_000_000}, {"until": 1_795_000_000_000}, {"since": 1_780_000_000_000, "agent": "claude"},
]  # fmt: skip


def as_asked(wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: iso(value) if name in ("since", "until") else value for name, value in wanted.items()}


def known(listed: dict[str, Any]) -> dict[str, Any]:
    """A session of a list, as both can know it."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in listed.items()
        if name not in (*WITH_OTHERS, "person", "machine")
    }  # fmt: skip


@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_lists_and_counts_are_the_same(wanted: dict[str, Any], both: Both) -> None:
    asked = SessionFilter(everywhere=True, **wanted)
    here = page_as_json(both.workspace.reader.sessions(asked, Page(limit=0)))
    there = both.asks("/v1/sessions", limit=500, **as_asked(wanted))
    assert [known(each) for each in there["sessions"]] == [known(each) for each in here["sessions"]]
    assert there["total"] == both.workspace.reader.count(asked)
    assert both.asks("/v1/sessions/count", **as_asked(wanted)) == {"total": there["total"]}


def test_filters_that_are_compared_let_some_sessions_through_and_not_all(both: Both) -> None:
    totals = {str(each): both.asks("/v1/sessions/count", **as_asked(each))["total"] for each in FILTERS}
    assert len(set(totals.values())) >= 5, totals


def test_pages_are_the_same_as_the_whole_list(both: Both) -> None:
    whole = [each["uid"] for each in both.asks("/v1/sessions")["sessions"]]
    found, after, more = list[str](), dict[str, str](), True
    while more:
        page = both.asks("/v1/sessions", limit=3, **after)
        assert page["total"] == len(whole)
        found += [each["uid"] for each in page["sessions"]]
        after, more = {"after": page["end"]}, page["has_more"]
    assert found == whole
    assert len(whole) > 6


def test_words_name_the_same_sessions(both: Both) -> None:
    uids = both.workspace.home_store.uids()
    natives = [both.workspace.home_store.session(uid).native_id or "" for uid in uids]
    beginnings = (*(uid[:11] for uid in uids), *(uid[:3].lower() for uid in uids), *(each[:6] for each in natives))
    words = [*uids, *natives, *beginnings, "x", "S1", "01", "zzzz"]
    kinds = set[str]()
    for each in words:
        found = both.asks("/v1/resolve", words=each)
        try:
            here: object = both.workspace.home_store.session(each).uid
        except SessionNotFound:
            here = "session_unknown"
        except SessionAmbiguous as refused:
            here = refused.candidates
            found["candidates"] = [
                shown for shown, there in zip(here, found["candidates"], strict=True) if there["uid"].startswith(shown)
            ]
        there = found.get("error", {}).get("kind") or found["uid"] or found["candidates"]
        kinds.add(type(here).__name__)
        assert there == here, each
    assert kinds == {"str", "list"}


# reports --------------------------------------------------------------------------------------------------------------


def nothing(_done: int, _total: int | None) -> None:
    """No progress is shown."""


def reported(reader: Reader, wanted: SessionFilter) -> Any:
    """What reports say of some sessions, as JSON."""
    found = cost.cost_report(reader, StatsQuery(wanted=wanted), dearest=10, report=nothing)
    made = cost.as_json(found), standup.as_json(standup.standup(reader, wanted, nothing))
    return msgspec.json.decode(msgspec.json.encode(made, enc_hook=list))


@pytest.mark.parametrize("wanted", [each for each in FILTERS if "title" not in each], ids=str)
def test_reports_are_the_same(wanted: dict[str, Any], both: Both) -> None:
    asked = SessionFilter(everywhere=True, **wanted)
    caller = both.sender.team.people.caller(both.sender.token)
    reports = TeamReports(both.sender.team.database, both.sender.team.folder / "reports")
    narrowed = msgspec.convert(
        {name: as_asked(wanted).get(name) for name in ("repository", "since", "until")} | {"work": True}, WantedParts
    )
    with reports.reader(caller, narrowed) as reader:
        assert reported(reader, asked) == reported(both.workspace.reader, asked)


def recap_alone(found: Recap) -> dict[str, Any]:
    """A recap without what other sessions decide: in which of them a turn counts, and by which agent each is."""
    said = {name: value for name, value in recap.as_json(found).items() if name not in WITH_OTHERS}
    prompts = [each | {"shown_in": None} for each in said["prompts"]]
    return said | {"prompts": prompts, "summaries": [each | {"agent": None} for each in said["summaries"]]}


def test_recaps_are_the_same(both: Both, tmp_path: Path) -> None:
    caller = both.sender.team.people.caller(both.sender.token)
    reports = TeamReports(both.sender.team.database, tmp_path)
    subagents = 0
    for listed in both.workspace.reader.sessions(SessionFilter(everywhere=True), Page(limit=0)).sessions:
        parts = reports.one(caller, listed.uid, None).parts
        with made_of(parts, both.workspace, tmp_path / f"{listed.uid}.db", is_alone=True) as reader:
            store = both.workspace.home_store
            here = recap.recap(both.workspace.reader, LocatedSession(store, store.session(listed.uid)))
            there = recap.recap(reader, reader.located(listed.uid))
            subagents += len(here.subagents)
            assert recap_alone(there) == recap_alone(here), listed.uid
    assert subagents


def test_reports_that_are_compared_say_something(both: Both) -> None:
    costs, work = reported(both.workspace.reader, SessionFilter(everywhere=True))
    assert costs["sums"]["turn_count"] > 12
    assert costs["sums"]["low_usd"] > 0
    items = [each for place in work["places"] for each in place["sessions"]]
    assert {each["status"] for each in items} >= {"done", "in progress"}
    assert any(each["paths"] for each in items)


# words ----------------------------------------------------------------------------------------------------------------


def words_of_all(both: Both) -> list[str]:
    """Every word of what the server searches, in order."""
    with both.sender.team.database.of(both.sender.tenant) as rows:
        found = rows.execute("select distinct unnest(tsvector_to_array(words)) from turn_text order by 1").fetchall()
    return [word for (each,) in found if (word := each.removeprefix(sign_of(both.sender.tenant))).isalnum()]


def found_here(both: Both, words: str, scopes: tuple[str, ...]) -> set[str]:
    query = SearchQuery(text=words, scopes=scopes, near=False, limit=1_000)
    return {each.shown.uid for each in both.workspace.reader.search(query).findings.excerpts}


def found_there(both: Both, words: str, scopes: tuple[str, ...]) -> set[str]:
    """The sessions that the server finds; of a helper's the one that called it, as here."""
    store = both.workspace.home_store
    hits = both.asks("/v1/search", words=words, scope=",".join(scopes), near=False, limit=100)["hits"]
    found = [store.session(each["uid"]) for each in hits]
    return {each.parent_uid if each.relation == "subagent" and each.parent_uid else each.uid for each in found}


@pytest.mark.parametrize("scopes", [("prompt",), ("answer",), ("prompt", "answer", "command")], ids=str)
def test_words_are_found_in_the_same_sessions(scopes: tuple[str, ...], both: Both) -> None:
    every = words_of_all(both)
    few = every[:: max(len(every) // 25, 1)]
    asked = [*few, *(f"{word[: len(word) // 2 + 1]}*" for word in few[::3])]
    differ = {
        words: (here, there) for words in asked
        if (here := found_here(both, words, scopes)) != (there := found_there(both, words, scopes))
    }  # fmt: skip
    assert differ == {}
    assert sum(bool(found_there(both, words, scopes)) for words in few) > 5


def test_what_only_a_helper_said_is_found_by_its_session_and_by_the_one_that_called_it(both: Both) -> None:
    store = both.workspace.home_store
    helper = next(each for each in map(store.session, store.uids()) if each.relation == "subagent" and each.parent_uid)
    found = both.asks("/v1/search", words=" ".join(prompt_of(both, helper.uid)), limit=100)["hits"]
    assert (helper.uid, helper.parent_uid) in {(each["uid"], each["parent_uid"]) for each in found}


def prompt_of(both: Both, uid: str) -> list[str]:
    """The longest words of a session."""
    with both.sender.team.database.of(both.sender.tenant) as rows:
        ((words,),) = rows.execute(
            "select tsvector_to_array(words) from turn_text where session = %s order by number limit 1", (uid,)
        ).fetchall()
    plain = (each.removeprefix(sign_of(both.sender.tenant)) for each in words)
    return sorted((word for word in plain if word.isalnum()), key=len)[-2:]
