"""``report standup``: what was worked on, and how far it is, by logs of Claude Code."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from backstory.ask import work as stored_work
from backstory.chronicle.standup import standup
from backstory.cli import output
from backstory.cli.options import moment
from backstory.config import Config
from backstory.derive.secrets import Redactor
from backstory.store.tables import sessions as stored_sessions
from backstory.workspace.history import work as history_work
from backstory.workspace.history.sessions import SessionFilter
from backstory.workspace.workspace import Workspace
from tests.support.blamed import HOUR, Agent, Place
from tests.support.day_of_work import BUILD, COMMIT, EDIT, FAILING, OTHER, PULL, SESSION, TESTS, Log, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

DAY = ("--since", "2026-05-04", "--until", "2026-05-04")


def reported(bare: Shell, *words: str) -> list[dict[str, Any]]:
    done = bare("chronicle", "standup", "--json", *(words or DAY), TZ="UTC")
    assert done.code == 0, done.err
    return [item | {"place": place} for place in done.json()["places"] for item in place["sessions"]]


def queries(shell: Shell, *words: str) -> dict[str, str]:
    """The SQL that ``--explain`` prints, by what it is of."""
    parts = re.split(r"^-- (turns|cost|refs)\n", shell(*words, "--explain").out, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def answer(shell: Shell, query: str) -> list[dict[str, Any]]:
    found = shell("sql", "--json", query).json()
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def item(bare: Shell, log: Log, *words: str) -> dict[str, Any]:
    log.put(bare)
    assert bare("ingest").code == 0
    (found,) = reported(bare, *words)
    return found


@pytest.mark.parametrize(
    ("steps", "answer", "expected"),
    [
        ((EDIT, TESTS, COMMIT), "ok", "done"),
        ((EDIT, PULL), "ok", "done"),
        ((), "It is a parser.", "done"),
        ((TESTS,), "They pass.", "done"),
        ((EDIT, TESTS), "ok", "in progress"),
        ((COMMIT, EDIT), "ok", "in progress"),
        ((EDIT, COMMIT), "", "in progress"),
        ((EDIT, FAILING), "One fails.", "stuck"),
        ((FAILING,), "One fails.", "stuck"),
        ((FAILING, EDIT), "Fixed, I think.", "in progress"),
        ((EDIT, FAILING, EDIT, TESTS, COMMIT), "ok", "done"),
        ((EDIT, (COMMIT[0], COMMIT[1], "the hook refused", True)), "The hook refused.", "in progress"),
        ((EDIT, (*COMMIT[:3], True)), "The push failed.", "done"),
        ((FAILING, BUILD), "It builds.", "stuck"),
        ((FAILING, PULL), "Proposed.", "done"),
    ],
)
def test_how_far_a_session_is(bare: Shell, steps: tuple[Step, ...], answer: str, expected: str) -> None:
    assert item(bare, Log().turn("go", *steps, answer=answer))["status"] == expected


REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."
LONG = "\n".join(["1 failed, 30 passed", *(f"note {number}" for number in range(40))])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # What a person refused was not done, whatever they said about it.
        ((EDIT, COMMIT, ("Bash", {"command": "pytest -q"}, REFUSAL, True)), "done"),
        ((EDIT, COMMIT, ("Bash", {"command": "pytest -q"}, f"{REFUSAL}\nthe user said:\nnot\nnow", True)), "done"),
        # What decides stands before the last lines of a long output.
        ((EDIT, ("Bash", {"command": "pytest -q | tail -50"}, LONG, False)), "stuck"),
        ((EDIT, ("Bash", {"command": "git commit -qam x && git push"}, f"[main 1a2b3c4] x\n{LONG}", True)), "done"),
        # Scratch files and repositories, and an agent's own files, are no work on the project.
        ((("Write", {"file_path": "/tmp/try.py", "content": "a"}, "ok", False),), "done"),
        ((("Write", {"file_path": "/home/a/.claude/plans/p.md", "content": "a"}, "ok", False),), "done"),
        ((EDIT, ("Bash", {"command": "cd /tmp/x && git init && git commit -m x"}, "[main 1a2b3c4] x", False)),
         "in progress"),
        ((("Write", {"file_path": "/q/a.py", "content": "a"}, "ok", False),), "in progress"),
        # What a script changed before it failed is changed.
        ((COMMIT, ("Bash", {"command": "sed -i s/a/b/ src/a.py && ruff check"}, "Exit code 1\nE501", True)),
         "in progress"),
    ],
)  # fmt: skip
def test_only_what_was_done_to_the_project_says_how_far_it_is(
    bare: Shell, steps: tuple[Step, ...], expected: str
) -> None:
    assert item(bare, Log().turn("go", *steps))["status"] == expected


def test_words_before_a_call_that_never_returned_are_no_answer(bare: Shell) -> None:
    log = Log().turn("go", answer="Let me look.", stop=False)
    log.call("Bash", {"command": "ls"})
    found = item(bare, log)
    assert (found["status"], found["reason"]) == ("in progress", "the last prompt was not answered")


@pytest.fixture
def place(bare: Shell) -> Place:
    """A repository with a file."""
    place = Place(bare)
    place.put("src/a.py", "rate = 1\n")
    place.commit("Begin")
    return place


@pytest.fixture
def agent(place: Place) -> Agent:
    """A session that edited the file."""
    return place.agent().ask("Raise the rate").edit("src/a.py", "rate = 1", "rate = 2").say("Raised.")


def progress(place: Place, *words: str) -> tuple[str, str]:
    assert place.shell("ingest").code == 0
    found = {each["asked"]: each for each in reported(place.shell, *(words or ("--since", "2026-05-04")))}
    item = found["Raise the rate"]
    return item["status"], item["reason"]


UNCOMMITTED = ("in progress", "edited and not committed since (@2)")


@pytest.mark.usefixtures("agent")
def test_what_a_person_committed_is_done_and_says_so(place: Place) -> None:
    assert progress(place) == UNCOMMITTED
    commit = place.commit("Raise it")
    expected = "done", f"committed by hand, {commit[:10]}, after the last edit (@2)"
    assert progress(place) == expected
    assert recapped(place) == expected


@pytest.mark.usefixtures("agent")
def test_another_branchs_commit_of_a_file_is_not_the_works(place: Place) -> None:
    changed = (place.root / "src/a.py").read_text()
    place.git("stash", "-q")
    place.git("checkout", "-q", "-b", "other")
    place.put("src/a.py", "rate = 7\n")
    place.commit("Another rate")
    place.git("checkout", "-q", "-")
    place.put("src/a.py", changed)
    assert progress(place) == UNCOMMITTED


def recapped(place: Place) -> tuple[str, str]:
    found = place.shell("chronicle", "recap", SESSION, "--json").json()
    return found["status"], found["reason"]


def test_a_file_that_is_not_committed_leaves_the_work_in_progress(place: Place, agent: Agent) -> None:
    agent.write("src/b.py", "other = 2\n").say("And this.")
    place.commit("Raise it", "src/a.py")
    assert progress(place) == ("in progress", "edited and not committed since (@5)")


def test_what_was_edited_after_the_commit_is_not_in_it(place: Place, agent: Agent) -> None:
    place.commit("Raise it")
    agent.edit("src/a.py", "rate = 2", "rate = 3").say("Raised again.")
    assert progress(place)[0] == "in progress"


def test_a_file_that_is_gone_again_needs_no_commit(place: Place, agent: Agent) -> None:
    agent.write("try.py", "print(1)\n").say("It works.")
    (place.root / "try.py").unlink()
    place.commit("Raise it")
    assert progress(place)[0] == "done"


@pytest.mark.usefixtures("agent")
def test_a_commit_after_the_time_of_the_report_is_not_in_it(place: Place) -> None:
    place.wait(2 * 86_400)
    place.commit("Raise it")
    assert progress(place, "--since", "2026-05-04", "--until", "2026-05-04") == UNCOMMITTED


@pytest.mark.usefixtures("agent")
def test_what_another_session_committed_names_it(place: Place) -> None:
    commit = place.commit("Raise it")
    place.agent(OTHER).ask("Commit it").run("git commit -qam 'Raise it'", f"[main {commit[:7]}] Raise it\n")
    status, reason = progress(place)
    assert (status, reason.split(",")[1]) == ("done", f" {commit[:10]}")
    assert re.match(r"committed in session [0-9A-Z]{12},", reason)


@pytest.mark.usefixtures("agent")
def test_a_worktree_that_is_gone_was_committed_where_it_was(place: Place) -> None:
    place.commit("Raise it")
    linked = place.root / ".claude" / "worktrees" / "rate"
    place.git("worktree", "add", "-q", "-b", "rate", str(linked))
    place.agent(OTHER, folder=linked).ask("Lower the rate").edit("src/a.py", "rate = 2", "rate = 1").say("Ok.")
    place.wait()
    commit = place.git("-C", str(linked), "commit", "-qam", "Lower it") or place.git("rev-parse", "rate")
    place.git("worktree", "remove", str(linked))
    assert place.shell("ingest").code == 0
    found = {each["asked"]: each["reason"] for each in reported(place.shell, "--since", "2026-05-04")}
    assert found["Lower the rate"].startswith(f"committed by hand, {commit[:10]}")


def test_a_commit_whose_call_never_returned_was_not_surely_made(bare: Shell) -> None:
    log = Log().turn("go", EDIT, answer="Let me commit.", stop=False)
    log.call(*COMMIT[:2])
    found = item(bare, log)
    assert (found["commits"], found["reason"]) == (0, "the last prompt was not answered")


def test_files_outside_the_project_stand_apart_from_its_own(bare: Shell) -> None:
    scratch = ("Write", {"file_path": "/tmp/try.py", "content": "a"}, "ok", False)
    found = item(
        bare, Log().turn("go", EDIT, ("Write", {"file_path": "/q/a.py", "content": "a"}, "ok", False), scratch)
    )
    assert (found["paths"], found["paths_elsewhere"]) == (["src/a.py"], ["/q/a.py"])
    assert "Files: src/a.py · 1 file elsewhere" in bare("chronicle", "standup", *DAY, TZ="UTC").out


def test_files_are_shown_below_the_project_also_after_it_was_moved(bare: Shell) -> None:
    old, new = bare.home / "old", bare.home / "new"
    new.mkdir()
    edit = ("Edit", {"file_path": f"{old}/src/a.py", "old_string": "a", "new_string": "b"}, "done", False)
    Log(cwd=str(old)).turn("go", edit).put(bare)
    assert bare("ingest").code == 0
    moved = bare("project", "move", str(old), str(new))
    assert moved.code == 0, moved.err
    (found,) = reported(bare)
    assert (found["paths"], found["paths_elsewhere"]) == (["src/a.py"], [])


def test_a_turn_that_the_person_stopped_is_stuck_until_the_next_one_is_answered(bare: Shell) -> None:
    log = Log().turn("go", EDIT, answer="").turn("[Request interrupted by user]", answer="")
    assert item(bare, log)["status"] == "stuck"
    log.turn("and now?", COMMIT)
    assert item(bare, log)["status"] == "done"


def test_an_item_says_what_was_asked_what_came_of_it_and_what_it_cost(bare: Shell) -> None:
    log = Log().turn("Fix the parser", EDIT, TESTS, COMMIT, PULL).turn("thanks", answer="Shall I merge it?")
    found = item(bare, log)
    assert (found["asked"], found["turn_count"], found["asked_at"]) == ("Fix the parser", 2, "2026-05-04T10:00:01.000Z")
    assert (found["paths"], found["commits"]) == (["src/a.py"], 1)
    assert [(each["kind"], each["ok"]) for each in found["checks"]] == [("test", True)]
    assert ("pr", "2026-05-04T10:00:08.000Z") in [(each["type"], each["as_of"]) for each in found["refs"]]
    assert found["low_usd"] == pytest.approx(6 * (500 * 5 + 1000 * 25) / 1e6)
    assert found["place"]["branch"] == "main"


def test_only_turns_of_the_time_count_and_what_came_after_it_does_not(bare: Shell) -> None:
    log = Log().turn("before", EDIT, at="2026-05-03T10").turn("in it", at="2026-05-04T10")
    log.turn("after", COMMIT, at="2026-05-05T10")
    found = item(bare, log)
    assert (found["asked"], found["turn_count"], found["paths"], found["commits"]) == ("in it", 1, [], 0)
    # The edit of the day before is not committed at the end of this one.
    assert found["status"] == "in progress"


def test_a_secret_that_only_the_first_prompt_tells_is_masked_where_the_name_has_it(bare: Shell) -> None:
    log = Log().turn("export DB_PASSWORD=Kranich-42-Blau", at="2026-05-03T10").turn("in it", at="2026-05-04T10")
    log.put(bare)
    assert bare("ingest").code == 0
    assert bare("rename", "-S", SESSION, "Kranich-42-Blau again").code == 0
    (found,) = reported(bare)
    printed = bare("chronicle", "standup", *DAY, TZ="UTC").out
    assert found["title"].endswith(" again")
    assert "Kranich" not in found["title"] + printed


def test_a_copy_of_a_session_adds_nothing(bare: Shell) -> None:
    log = Log().turn("go", EDIT)
    log.put(bare)
    copied = bare.home / ".claude" / "projects" / "p" / f"{OTHER}.jsonl"
    copied.write_text((copied.parent / f"{SESSION}.jsonl").read_text().replace(f'"{SESSION}"', f'"{OTHER}"'))
    assert bare("ingest").code == 0
    assert len(reported(bare)) == 1


def test_what_was_done_in_copied_turns_is_of_the_session_that_it_was_done_in(bare: Shell) -> None:
    log = Log().turn("go", EDIT)
    log.put(bare)
    whole = (bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl").read_text()
    log.turn("and explain it").put(bare)
    forked = bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl"
    (forked.parent / f"{OTHER}.jsonl").write_text(forked.read_text().replace(f'"{SESSION}"', f'"{OTHER}"'))
    forked.write_text(whole)
    assert bare("ingest").code == 0
    found = {each["asked"]: (each["paths"], each["turn_count"], each["status"]) for each in reported(bare)}
    assert found == {"go": (["src/a.py"], 1, "in progress"), "and explain it": ([], 1, "done")}


def test_sessions_stand_under_their_repository_and_branch_the_last_active_first(bare: Shell) -> None:
    Log().turn("one").put(bare)
    Log(OTHER, branch="fix/x", cwd="/q").turn("two", at="2026-05-04T11").put(bare)
    assert bare("ingest").code == 0
    found = [(each["place"]["project"], each["place"]["branch"], each["asked"]) for each in reported(bare)]
    assert found == [("/q", "fix/x", "two"), ("/p", "main", "one")]
    printed = bare("chronicle", "standup", *DAY, TZ="UTC").out
    places = [printed.index(each) for each in ("q · fix/x", " two\n", "p · main", " one\n")]
    assert places == sorted(places)


def test_what_was_asked_and_answered_is_said_once(bare: Shell) -> None:
    Log().turn("What is a monad?", answer="A monoid.").put(bare)
    assert bare("ingest").code == 0
    printed = bare("chronicle", "standup", *DAY, TZ="UTC").out
    assert printed.count("What is a monad?") == 1
    assert printed.rstrip().endswith(" · nothing edited")


def test_it_is_about_the_last_day_unless_told(bare: Shell) -> None:
    Log().turn("long ago").put(bare)
    assert bare("ingest").code == 0
    done = bare("chronicle", "standup", TZ="UTC")
    assert (done.code, done.out) == (0, "")
    assert "--since 2026-05-04" in done.err


@pytest.mark.parametrize("words", [(), ("--agent", "claude"), ("--until", "2026-06-01"), ("--here",)])
def test_each_number_that_sql_can_return_is_what_its_sql_returns(read_once: Shell, words: tuple[str, ...]) -> None:
    asked = ("chronicle", "standup", "--since", "2020-01-01", *words)
    found = [item for place in read_once(*asked, "--json").json()["places"] for item in place["sessions"]]
    rows = {part: answer(read_once, query) for part, query in queries(read_once, *asked).items()}
    assert {each["uid"]: each["turn_count"] for each in found} == {row["uid"]: row["turns"] for row in rows["turns"]}
    costs = {row["uid"]: row["low_usd"] for row in rows["cost"]}
    assert {each["uid"]: each["low_usd"] for each in found} == {
        each["uid"]: pytest.approx(costs[each["uid"]]) for each in found
    }
    refs = [(each["uid"], ref["type"], ref["value"]) for each in found for ref in each["refs"]]
    assert sorted(refs) == sorted((row["uid"], row["ref_type"], row["ref_value"]) for row in rows["refs"])


SPAN = ("chronicle", "standup", "--since", "2026-05-10", "--until", "2026-05-12")


@pytest.mark.parametrize(
    ("days", "nearest"),
    [
        (("2026-05-04",), "2026-05-04"), (("2026-05-20",), "2026-05-20"),
        (("2026-05-04", "2026-05-13"), "2026-05-13"), (("2026-05-09", "2026-05-20"), "2026-05-09"),
        (("2026-05-20", "2026-06-20", "2026-05-14"), "2026-05-14"),
    ],
)  # fmt: skip
def test_a_time_without_sessions_names_the_nearest_day_that_has_some(
    bare: Shell, days: tuple[str, ...], nearest: str
) -> None:
    for number, day in enumerate(days):
        Log(f"{number}{SESSION[1:]}").turn("go", at=f"{day}T10").put(bare)
    assert bare("ingest").code == 0
    done = bare(*SPAN, TZ="UTC")
    assert (done.code, done.out) == (0, "")
    assert f"--since {nearest} --until {nearest}." in done.err
    assert "backstory reindex" in done.err
    assert bare("chronicle", "standup", "--since", nearest, "--until", nearest, TZ="UTC").out


def test_the_day_that_is_named_is_one_on_which_something_began(bare: Shell) -> None:
    # It was answered after midnight.
    log = Log().turn("go", answer="", at="2026-05-04T23").turn("ok", at="2026-05-05T00")
    log.put(bare)
    whole = (bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl").read_text().splitlines(keepends=True)
    (bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl").write_text("".join([whole[0], *whole[2:]]))
    assert bare("ingest").code == 0
    assert "--since 2026-05-04 --until 2026-05-04." in bare(*SPAN, TZ="UTC").err


def test_a_turn_without_a_time_is_left_out_and_said_to_be(bare: Shell) -> None:
    Log().turn("go").put(bare)
    log = bare.home / ".claude" / "projects" / "p" / f"{SESSION}.jsonl"
    log.write_text(re.sub(r'"timestamp": "[^"]*", ', "", log.read_text()))
    Log(OTHER).turn("dated").put(bare)
    assert bare("ingest").code == 0
    done = bare("chronicle", "standup", *DAY, TZ="UTC")
    assert " dated\n" in done.out
    assert " go\n" not in done.out
    assert "1 turn without a time left out." in done.err
    assert bare("chronicle", "standup", *DAY, "--json", TZ="UTC").json()["undated_turns"] == 1


def test_a_machine_without_history_says_how_to_begin(bare: Shell) -> None:
    done = bare("chronicle", "standup")
    assert (done.code, done.out) == (0, "")
    assert "backstory ingest" in done.err
    assert bare("chronicle", "standup", "--json").json()["places"] == []


def test_a_session_without_a_repository_stands_under_its_folder(bare: Shell) -> None:
    Log(branch="", cwd="/p").turn("go").put(bare)
    assert bare("ingest").code == 0
    assert bare("chronicle", "standup", *DAY, TZ="UTC").out.splitlines()[2] == "p"


@pytest.mark.parametrize(
    ("zone", "at", "day", "is_there"),
    [
        # The first minute of the next day where days begin first.
        ("Pacific/Kiritimati", "2026-05-04T10", "2026-05-05", True),
        ("Pacific/Kiritimati", "2026-05-04T09", "2026-05-05", False),
        # A day of 23 hours, and one of 25.
        ("Europe/Berlin", "2026-03-28T23", "2026-03-29", True), ("Europe/Berlin", "2026-03-29T22", "2026-03-29", False),
        ("Europe/Berlin", "2026-10-25T22", "2026-10-25", True), ("Europe/Berlin", "2026-10-25T23", "2026-10-25", False),
    ],
)  # fmt: skip
def test_days_are_those_of_the_place_where_one_is(bare: Shell, zone: str, at: str, day: str, is_there: bool) -> None:
    Log().turn("go", at=at).put(bare)
    assert bare("ingest").code == 0
    done = bare("chronicle", "standup", "--since", day, "--until", day, TZ=zone)
    assert bool(done.out) is is_there


@pytest.mark.parametrize(
    ("monday", "friday"),
    [("2026-03-30", "2026-03-27T00:00+01:00"), ("2026-10-26", "2026-10-23T00:00+02:00")],
)
def test_the_last_working_day_begins_at_its_own_midnight_also_behind_a_change_of_the_clocks(
    monday: str, friday: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.setenv("TZ", "Europe/Berlin")
        time.tzset()
        began = moment("workday", datetime.fromisoformat(f"{monday}T09:00"))
    time.tzset()
    assert began == datetime.fromisoformat(friday).timestamp() * 1000


def workspace(bare: Shell) -> Workspace:
    home = bare.home / "backstory"
    return Workspace(lambda: Config(home / "config.toml"), home, bare.cwd, now=lambda: 0)


def test_everything_shows_how_far_it_is(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        Log(f"{number}{SESSION[1:]}").turn("go").put(bare)
    assert bare("ingest").code == 0
    told: list[tuple[int, int | None]] = []
    monkeypatch.setattr(history_work, "PLACES_AT_ONCE", 2)
    found = standup(workspace(bare).reader, SessionFilter(everywhere=True), lambda *far: told.append(far))
    # Costs, the list, and what is listed.
    assert told == [(0, None), (0, None), (0, 3)]
    assert sum(len(place.items) for place in found.places) == 3


@pytest.mark.parametrize("at", [(history_work, "_done"), (Redactor, "_struct")])
def test_who_stops_it_while_it_reads_or_masks_ends_it_at_once(
    bare: Shell, at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    Log().turn("go").put(bare)
    assert bare("ingest").code == 0
    monkeypatch.setattr(*at, stopped)
    done = bare("chronicle", "standup", *DAY, TZ="UTC")
    assert (done.code, done.out) == (130, "")


def test_git_is_asked_first_about_the_repositories_that_are_drawn_first(
    bare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Place(bare, "first"), Place(bare, "second")
    for number, place in enumerate((first, second)):
        place.now += number * HOUR
        place.put("a.py", "rate = 1\n")
        place.commit("Begin")
        place.agent(f"{number}{SESSION[1:]}").ask(place.root.name).edit("a.py", "rate = 1", "rate = 2").say("Raised.")
        place.commit("Raise it")
    # Its own edits are older, but it was asked about last.
    first.now += 2 * HOUR
    first.agent(OTHER).ask("How high is it?").say("Two.")
    assert bare("ingest").code == 0
    monkeypatch.setattr(history_work, "REPOSITORIES_MAX", 1)
    found = standup(workspace(bare).reader, SessionFilter(everywhere=True), lambda *_: None)
    told = {each.asked: each.progress.status for place in found.places for each in place.items}
    assert [place.name for place in found.places] == ["first", "second"]
    assert told == {"How high is it?": "done", "first": "done", "second": "in progress"}


def test_work_is_read_for_several_sessions_together_and_no_sooner_than_it_is_asked_for(
    bare: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        Log(f"{number}{SESSION[1:]}").turn("go").put(bare)
    assert bare("ingest").code == 0
    read: list[int] = []
    of_sessions = stored_work.of_sessions

    def counted(db: Any, ids: Sequence[int]) -> Any:
        read.append(len(ids))
        return of_sessions(db, ids)

    monkeypatch.setattr(stored_work, "of_sessions", counted)
    # To know their branches no session is read in full.
    monkeypatch.delattr(stored_sessions, "listed")
    monkeypatch.setattr(history_work, "READ_AT_ONCE", 3)
    works = workspace(bare).reader.work(SessionFilter(everywhere=True))
    assert next(works).rank == 0
    assert read == [3]
    assert ([each.rank for each in works], read) == ([1, 2, 3, 4, 5, 6], [3, 3, 1])


def test_json_that_is_read_while_it_is_printed_is_what_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    def value(of: Callable[[list[Any]], Any]) -> dict[str, Any]:
        items = [{"a": [1, {"b": "\x1b\n"}], "c": {}}, {"a": [], "c": None}]
        return {"n": 1, "places": [{"name": "p", "items": of(items)}, {"name": "q", "items": of([])}], "end": []}

    output.json(value(iter))
    assert capsys.readouterr().out == output.as_json(value(list)) + "\n"


def test_what_no_sql_returns_is_named(bare: Shell) -> None:
    printed = bare("chronicle", "standup", "--explain").out
    said = printed[printed.index("By no SQL") :].partition("\n\n")[0]
    assert all(word in said for word in ("status", "files", "commits", "tests", "build"))


def test_the_rule_is_printed(bare: Shell) -> None:
    printed = bare("chronicle", "standup", "--explain").out
    assert all(f"{each}:" in printed for each in ("done", "stuck", "in progress"))


def test_markdown_names_records_without_linking_them_and_hides_nothing(bare: Shell) -> None:
    log = Log().turn("See #60 of @octocat <b>now</b>", EDIT)
    log.put(bare)
    assert bare("ingest").code == 0
    for words in (("chronicle", "standup", "--md", *DAY), ("show", "--md", SESSION)):
        printed = bare(*words, TZ="UTC").out
        assert "#&ZeroWidthSpace;60" in printed
        assert "@&ZeroWidthSpace;octocat" in printed
        assert "\\u200b" not in printed
        assert "<b>" not in printed
