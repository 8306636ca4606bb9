"""What ``rm`` removes, and what it says of the rest, with real runs in a project."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from backstory.store.tables.queue import Queue, QueuedKind, QueuedPrompt
from backstory.workspace.runs.unsent import command_for
from tests.support.bench import Bench, MadeOnce
from tests.support.leftovers import leftovers
from tests.support.own_log import own_log

if TYPE_CHECKING:
    from subprocess import CompletedProcess


pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"result": {"is_error": False}}
SECRET = "qzxwvkjheron"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    bench = Bench(tmp_path_factory.mktemp("ran"))
    bench.run(f"keep {SECRET}", {"say": f"noted {SECRET}"}, GOOD)
    own_log(bench, f"keep {SECRET}", SECRET)
    assert bench.backstory("ingest").returncode == 0
    return MadeOnce(bench)


@pytest.fixture
def ran(made_once: MadeOnce) -> Bench:
    """A project whose one session says the secret, with its agent's own log of it, both in all stores."""
    return made_once.anew_and_noted()


def left(bench: Bench) -> set[str]:
    return leftovers(bench.home, SECRET) | leftovers(bench.project / ".backstory", SECRET)


def removed(bench: Bench, *words: str) -> CompletedProcess[str]:
    done = bench.backstory("rm", "--yes", *words)
    assert done.returncode == 0, done.stderr
    return done


def continued(bench: Bench) -> None:
    """Make S1 in another project go on from the session of this one."""
    with open_store(bench.home / "store.db", shared=True) as home:
        uid = next(each.uid for each in home.sessions() if each.number == 1)
    other = bench.root / "other"
    other.mkdir()
    done = bench.backstory("run", "-a", "claude", "-S", uid, "and more", script=[{"say": "more"}, GOOD], cwd=other)
    assert done.returncode == 0, done.stderr


def test_nothing_of_a_run_is_left_in_any_store(ran: Bench) -> None:
    assert left(ran)
    with open_store(ran.home / "store.db", shared=True) as home:
        uids = [each.uid for each in home.sessions()]
    removed(ran, *uids)
    assert left(ran) == set()


def test_what_waited_for_it_is_gone_from_the_queue_beside(ran: Bench) -> None:
    session = ran.store.session("S1")
    with Queue(ran.store.path) as queue:
        queue.add(
            [
                QueuedPrompt(uid="0" * 26, session_uid=session.uid, kind=QueuedKind.FOLLOWUP, content=SECRET * 50),
                QueuedPrompt(uid="1" * 26, session_uid="2" * 26, kind=QueuedKind.FOLLOWUP, content="another's"),
            ]
        )
    removed(ran, "S1", "--copies")
    assert (ran.project / ".backstory" / "sessions.bks.queue.db").exists()
    assert left(ran) == set()


def test_a_text_for_it_that_could_not_be_queued_is_gone(ran: Bench) -> None:
    uid = ran.store.session("S1").uid
    for session_uid in (uid, "2" * 26):
        text = QueuedPrompt(
            uid="0" * 26, session_uid=session_uid, kind=QueuedKind.FOLLOWUP, content=f"{SECRET}\n" * 100
        )
        command_for(text, "S1", ran.home, None)
    removed(ran, "S1", "--copies")
    assert [each.name for each in (ran.home / "unsent").iterdir()] == [f"{'2' * 26}-{'0' * 26}.txt"]


def test_a_text_of_which_nobody_knows_whose_it_is_is_named(ran: Bench) -> None:
    (ran.home / "unsent").mkdir()
    (ran.home / "unsent" / f"{'0' * 26}.txt").write_text(SECRET)
    assert f"in {ran.home / 'unsent'}, " in removed(ran, "S1", "--copies").stderr


def test_what_a_run_left_unstored_is_gone(bench: Bench) -> None:
    bench.run("harmless", GOOD)
    uid = bench.store.session("S1").uid
    spool = bench.home / "spool" / ("3" * 26)
    spool.mkdir(parents=True)
    (spool / "stdout").write_text(SECRET)
    (spool / "run.json").write_text(
        f'{{"turn_uid":"{"3" * 26}","session_uid":"{uid}","store":"{bench.store.path}","agent":"claude",'
        f'"prompt":"{SECRET}","cwd":"/","started":0}}'
    )
    removed(bench, "S1")
    assert left(bench) == set()


def test_a_continuation_is_named_and_left_with_its_words(ran: Bench) -> None:
    continued(ran)
    said = removed(ran, "S1").stderr
    other = open_store(ran.root / "other" / ".backstory" / "sessions.bks")
    session = other.session("S1")
    assert "Copies of its turns remain in" in said
    assert session.uid[:12] in said
    assert left(ran)


def test_copies_are_removed_when_asked_for(ran: Bench) -> None:
    continued(ran)
    removed(ran, "S1", "--copies")
    other = ran.root / "other" / ".backstory"
    assert open_store(other / "sessions.bks").sessions() == []
    assert left(ran) | leftovers(other, SECRET) == set()


def test_what_a_session_goes_on_from_is_named_and_never_removed_with_it(ran: Bench) -> None:
    continued(ran)
    original = ran.store.session("S1").uid
    copy = open_store(ran.root / "other" / ".backstory" / "sessions.bks").session("S1").uid
    said = removed(ran, copy, "--copies").stderr
    assert f"Copies of its turns remain in S1 ({original[:12]}" in said
    assert ran.store.has(original)


def test_a_log_and_backups_that_cannot_be_reached_are_named(ran: Bench) -> None:
    said = removed(ran, "S1", "--copies").stderr
    assert "earlier backups" in said
    assert str(ran.root / ".claude" / "projects" / "p") in said


def test_a_project_that_is_gone_keeps_nobody_from_removing(ran: Bench) -> None:
    uid = ran.store.session("S1").uid
    shutil.rmtree(ran.project / ".backstory")
    removed(ran, uid, "--copies")
    assert leftovers(ran.home, SECRET) == set()


def test_a_store_that_held_nothing_but_what_was_removed_verifies(ran: Bench) -> None:
    removed(ran, "S1", "--copies")
    done = ran.backstory("verify")
    assert (done.returncode, "Whole: 0 sessions" in done.stderr) == (0, True), done.stderr


def test_nothing_of_a_pruned_branch_is_left(bench: Bench) -> None:
    bench.run("harmless", GOOD)
    goes_on = bench.store.session("S1").turns
    said = {"say": f"see https://github.com/{SECRET}/{SECRET}/pull/7"}
    bench.run(f"keep {SECRET}", said, {"tool": f"cat /w/{SECRET}.py"}, GOOD)
    assert left(bench)
    for words in (["branch", "rm", f"@{bench.store.turns(1)[goes_on].first_seq}", "-y"], ["branch", "prune", "-y"]):
        done = bench.backstory(*words)
        assert done.returncode == 0, done.stderr
    assert left(bench) == set()
    assert bench.backstory("verify").returncode == 0
    assert [turn.prompt for turn in bench.store.turns(1)][:1] == ["harmless"]


def test_what_is_to_be_removed_is_named_by_what_it_is_about(ran: Bench) -> None:
    ran.backstory("rename", "S1", "heron count")
    ran.run("Where do the coots nest?", GOOD, options=("-n",))
    named = "Removing S1 'heron count' (1 turn), S2 'Where do the coots nest?' (1 turn)"
    assert named in ran.backstory("rm", "S1", "S2", given="").stderr
