"""Which sessions may leave the machine: of fifty repositories with look-alike names, those that were named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.ask import session_marks
from backstory.derive.pruning import PROMPTS, Pruning
from backstory.ids import session_identity
from backstory.ingest.ingest import ingest
from backstory.ingest.pruning import prune_session
from backstory.store import open_store
from backstory.store.tables import sessions
from backstory.store.tables.sessions import Workplace
from backstory.sync import leaving
from backstory.sync.leaving import choose
from backstory.sync.opted import OptedIn, opted_in
from tests.support.claude_records import answer, user
from tests.support.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Session, Store

HOME = "/home/jane"
SAME = [
    "https://github.com/me/app.git", "git@github.com:me/app", "ssh://git@github.com:22/me/app", "https://GitHub.com/Me/App",
    "https://token@github.com/me/app",
]  # fmt: skip
"""Remotes of one repository, as clones have it."""
OTHERS = [
    "https://github.com/me/app2.git", "https://github.com/me/app-secret", "https://github.com/me/ap", "https://github.com/m/eapp",
    "https://github.com/me2/app", "https://github.com/me/app/app", "https://github.com/x/me/app", "https://github.com/me/sub/app",
    "https://gitlab.com/me/app", "https://github.com.evil.example/me/app", "https://evil.example/github.com/me/app",
    "https://evil.example/me/app", "https://github.comm/me/app", "https://wwwgithub.com/me/app", "https://githubXcom/me/app",
    "https://github.com/me-app", "https://github.com/me_/app", "https://github.com/Me/Apps", "https://github.com/me/app.github",
    "https://github.com/me/.app", "https://github.com/me/app_", "https://github.com/mе/app", "https://github.com/me/аpp",
    "https://github.com/me/app\u200b", "https://github.com/me/aрp", "https://github.com/\u2133e/app", "https://github.com/me/app%20",
    "https://github.com/me/app;x", "https://github.com/me/*", "https://github.com/*/app", "https://github.com/me/[a]pp",
    "https://github.com/me/a?p", "https://github.com/../me/app", "https://github.com/me/../me/app", "https://github.com/me/app/..",
    "https://github.com/./me/app", "file:///home/jane/app", "https://github.com@evil.example/me/app", "../app",
    "me/app2",
    "https://github.com/MEE/APP", "https://github.com/me/aapp", "https://github.com/me/xapp", "https://api.github.com/me/app",
    "https://github.com/meapp/app",
]  # fmt: skip
"""Fifty with the five above: none of these is ``me/app`` at github.com."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with a session of each repository."""
    home = tmp_path_factory.mktemp("home")
    for number, url in enumerate([*SAME, *OTHERS]):
        folder = home / f"r{number}"
        (folder / ".git").mkdir(parents=True)
        (folder / ".git/config").write_text(f'[remote "origin"]\n\turl = {url}\n', "utf-8")
        _log(home, folder, f"0ddba11-0000-4000-8000-{number:012}")
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as found:
        ingest(found, [agents.load("claude")], environ={}, home=home, now=NOW)
        assert found.ask(sessions.count) == 50
        yield found


def _log(home: Path, folder: Path, session: str) -> None:
    at: dict[str, Any] = {"cwd": str(folder), "sessionId": session}
    log = home / ".claude/projects" / folder.name / f"{session}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(user("Do it", uuid=f"a{session}", **at) + b"\n" + answer("Done", uuid=f"b{session}", **at) + b"\n")


def _folders(store: Store, *entries: str) -> set[str]:
    """The numbers of the folders whose sessions leave."""
    chosen = choose([store], opted_in(entries, HOME)).leaving
    return {str(each.origin.cwd).rpartition("/r")[2] for each in chosen}


@pytest.mark.parametrize(
    "entry", ["me/app", "github.com/me/app", "https://github.com/me/app.git", "git@github.com:me/app"]
)
def test_only_the_repository_that_was_named_leaves(store: Store, entry: str) -> None:
    assert _folders(store, entry) == {"0", "1", "2", "3", "4"}


def test_nothing_leaves_unless_it_was_named(store: Store) -> None:
    choice = choose([store], opted_in([], HOME))
    assert choice.leaving == []
    assert {why for why, _ in choice.staying} == {leaving.NOT_OPTED_IN}
    assert choice.staying.total() == 50


def test_all_of_an_owner_are_those_directly_below_it(store: Store) -> None:
    found = _folders(store, "github.com/me2/*")
    assert found == {str(5 + OTHERS.index("https://github.com/me2/app"))}


@pytest.mark.parametrize(
    "entry", ["", "app", "*", "*/*", "*/app", "github.com", "github.com/*", "github.com/*/app", "/*", "me/a*"]
)
def test_an_entry_that_could_mean_others_names_nothing(entry: str) -> None:
    assert opted_in([entry], HOME) == OptedIn(unusable=(entry,))


def test_a_repository_without_a_remote_is_its_folder_alone() -> None:
    opted = opted_in(["~/app", "/work/Tool/"], HOME)
    assert [opted.covers(each) for each in ("/home/jane/app", "/work/Tool")] == [True, True]
    others = ("/home/jane/app2", "/home/jane/app/sub", "/home/jan/app", "/work/tool", "/work", "app", "", None)
    assert [each for each in others if opted.covers(each)] == []


MINE, THEIRS = "github.com/me/app", "github.com/them/app"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as found:
        yield found


def _session(store: Store, project: str | None, of: Session | None = None, relation: str | None = None) -> Session:
    found = store.create_session(at=Workplace(project=project))
    store.change(
        lambda db: db.execute(
            "update sessions set parent_identity = ?, relation = ? where id = ?",
            (session_identity(of.uid) if of else None, relation, found.id),
        )
    )
    return found


def _why(store: Store, *beside: Store) -> dict[str, str]:
    """The reason for every session that stays; '' for those that leave."""
    choice = choose([store, *beside], opted_in([MINE], HOME))
    left = {each.origin.uid: "" for each in choice.leaving}
    assert len(left) + choice.staying.total() == sum(each.ask(sessions.count) for each in {store, *beside})
    return left


@pytest.mark.parametrize("relation", ["subagent", "fork", "continuation"])
def test_what_comes_from_a_session_that_stays_stays(empty: Store, relation: str) -> None:
    caller = _session(empty, THEIRS)
    below = _session(empty, MINE, caller, relation)
    _session(empty, MINE, below, relation)
    assert _why(empty) == {}


def test_a_subagent_leaves_with_its_caller_unless_it_works_elsewhere(empty: Store) -> None:
    caller = _session(empty, MINE)
    same, silent, other = (_session(empty, each, caller, "subagent") for each in (MINE, None, THEIRS))
    assert _why(empty) == {caller.uid: "", same.uid: "", silent.uid: ""}
    assert other.uid not in _why(empty)


def test_a_subagent_whose_caller_is_not_here_stays(empty: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "other.db", shared=True, now=lambda: NOW) as other:
        caller = _session(other, THEIRS)
        _session(empty, MINE, caller, "subagent")
        assert choose([empty], opted_in([MINE], HOME)).staying == {(leaving.ORIGIN_UNKNOWN, MINE): 1}
        # Where its caller is, that decides.
        assert choose([empty, other], opted_in([MINE], HOME)).staying[leaving.OF_ANOTHER, MINE] == 1


def test_a_removed_session_stays_also_where_another_store_has_it(empty: Store, tmp_path: Path) -> None:
    kept = _session(empty, MINE)
    with open_store(tmp_path / "other.db", shared=True, now=lambda: NOW) as other:
        _session(other, MINE)
        other.change(lambda db: db.execute("insert into forgotten(uid, at) values (?, 1)", (kept.uid,)))
        assert choose([empty, other], opted_in([MINE], HOME)).staying == {(leaving.REMOVED, MINE): 1}


def test_nothing_of_a_store_from_elsewhere_leaves(empty: Store, tmp_path: Path) -> None:
    taken = _session(empty, MINE)
    empty.change(lambda db: db.execute("update sessions set elsewhere = '/clone' where id = ?", (taken.id,)))
    with open_store(tmp_path / "other.db", shared=True, now=lambda: NOW) as other:
        _session(other, MINE)
        other.is_elsewhere = True
        assert choose([empty, other], opted_in([MINE], HOME)).staying == {(leaving.ELSEWHERE, MINE): 2}


def test_what_a_store_from_elsewhere_calls_removed_is_not_believed(empty: Store, tmp_path: Path) -> None:
    kept = _session(empty, MINE)
    with open_store(tmp_path / "other.db", shared=True, now=lambda: NOW) as other:
        _session(other, None)
        other.change(lambda db: db.execute("insert into forgotten(uid, at) values (?, 1)", (kept.uid,)))
        other.is_elsewhere = True
        choice = choose([empty, other], opted_in([MINE], HOME))
        assert (choice.removed, [each.origin.uid for each in choice.leaving]) == (set(), [kept.uid])
        assert leaving.removed_uids([empty, other]) == set()
        other.is_elsewhere = False
        assert leaving.removed_uids([empty, other]) == {kept.uid}


def test_a_circle_of_sessions_stays(empty: Store) -> None:
    first = _session(empty, MINE)
    second = _session(empty, MINE, first, "fork")
    empty.change(
        lambda db: db.execute(
            "update sessions set parent_identity = ? where id = ?", (session_identity(second.uid), first.id)
        )
    )
    _session(empty, MINE, second, "fork")
    assert _why(empty) == {}


@pytest.mark.parametrize("relation", ["unread", "aside"])
def test_a_file_without_a_conversation_stays(empty: Store, relation: str) -> None:
    _session(empty, MINE, relation=relation)
    assert choose([empty], opted_in([MINE], HOME)).staying == {(leaving.NO_CONVERSATION, MINE): 1}


def test_a_session_that_was_pruned_in_part_stays_and_what_comes_from_it_leaves(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "r/.git").mkdir(parents=True)
    (home / "r/.git/config").write_text(f'[remote "origin"]\n\turl = {SAME[0]}\n', "utf-8")
    _log(home, home / "r", "0ddba11-0000-4000-8000-000000000001")
    with open_store(home / "store.db", shared=True, now=lambda: NOW) as found:
        ingest(found, [agents.load("claude")], environ={}, home=home, now=NOW)
        (session,) = found.sessions()
        opted = opted_in([SAME[0]], HOME)
        assert len(choose([found], opted).leaving) == 1
        assert [each.uid for each in found.ask(session_marks.marks)] == [session.uid]
        prune_session(found, session, Pruning(keep=PROMPTS))
        choice = choose([found], opted)
        assert (choice.leaving, [why for why, _ in choice.staying]) == ([], [leaving.PRUNED])
        assert found.ask(session_marks.marks) == []
