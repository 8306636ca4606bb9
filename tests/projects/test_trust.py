"""Whose a store is: facts in, verdict out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from backstory.projects.registry import KnownProjects, NotedStore, Seen, Verdict, in_conflict, whose
from backstory.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clock import Clock

NOTED = NotedStore(store_id="A", path="/p/.backstory/sessions.bks", device=1, inode=7)
SEEN = Seen(store_id="A", path=NOTED.path, device=1, inode=7)


def seen(**other: object) -> Seen:
    return msgspec.structs.replace(SEEN, **other)


@pytest.mark.parametrize(
    ("facts", "noted", "verdict"),
    [
        pytest.param(SEEN, [NOTED], Verdict.OURS, id="as noted"),
        pytest.param(seen(inode=8), [NOTED], Verdict.OURS, id="another file at its path"),
        pytest.param(seen(path="/q"), [NOTED], Verdict.OURS, id="moved"),
        pytest.param(seen(path="/q", inode=8), [NOTED], Verdict.ELSEWHERE, id="copied"),
        pytest.param(seen(path="/q", device=2), [NOTED], Verdict.ELSEWHERE, id="the same inode of another device"),
        pytest.param(seen(store_id="B"), [NOTED], Verdict.ELSEWHERE, id="another store at its path"),
        pytest.param(seen(store_id="B", path="/q"), [NOTED], Verdict.ELSEWHERE, id="its inode used again"),
        pytest.param(SEEN, [], Verdict.ELSEWHERE, id="never noted"),
        pytest.param(SEEN, [NotedStore(store_id="A", path=SEEN.path)], Verdict.OURS, id="a note of earlier versions"),
        pytest.param(
            seen(path="/q", device=None, inode=None), [NotedStore(store_id="A", path="/p")], Verdict.ELSEWHERE,
            id="two files of which nothing is known",
        ),
        pytest.param(
            seen(path="/q"), [NotedStore(store_id="A", path="/r"), NOTED], Verdict.OURS, id="of several places"
        ),
        pytest.param(seen(path="/q", is_link=True), [NOTED], Verdict.ELSEWHERE, id="a link to one of ours"),
        pytest.param(seen(is_link=True), [NOTED], Verdict.OURS, id="a link that was noted"),
        pytest.param(seen(path="/q", is_link=True, is_named=True), [NOTED], Verdict.OURS, id="a link that was named"),
        pytest.param(Seen(path="/q"), [NOTED], Verdict.ABSENT, id="nothing there"),
        pytest.param(Seen(path="/q", is_link=True), [NOTED], Verdict.ELSEWHERE, id="nothing behind a link"),
        pytest.param(Seen(path=NOTED.path, is_link=True), [NOTED], Verdict.ABSENT, id="nothing behind a noted link"),
        pytest.param(seen(is_machine=True), [NOTED], Verdict.MACHINE, id="the machine's own, as a project's"),
        pytest.param(seen(is_machine=True, is_named=True), [], Verdict.OURS, id="the machine's own, named"),
    ],
)  # fmt: skip
def test_a_store_is_ours_if_it_was_noted_with_its_path_or_with_its_file(
    facts: Seen, noted: list[NotedStore], verdict: Verdict
) -> None:
    assert whose(facts, noted) == verdict


def test_a_session_is_in_conflict_if_it_is_known_from_another_place() -> None:
    known = {"mine": None, "taken from here": "/here", "taken from there": "/there"}
    assert in_conflict([*known, "new"], known, "/here", is_id_known=False) == {"mine", "taken from there"}


def test_all_of_a_store_whose_id_is_known_is_in_conflict() -> None:
    assert in_conflict(["mine", "new"], {"mine": None}, "/here", is_id_known=True) == {"mine", "new"}


def test_the_home_store_knows_where_a_project_lay_that_was_moved(tmp_path: Path, clock: Clock) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with open_store(tmp_path / "home" / "store.db", shared=True, now=clock) as home:
        home.create_session()
        projects = KnownProjects(tmp_path / "home", home, clock)
        with open_store(old / ".backstory" / "sessions.bks", now=clock) as store:
            store.create_session()
            projects.remember(store)
        old.rename(new)
        with open_store(new / ".backstory" / "sessions.bks", now=clock) as store:
            projects.remember(store)
        assert home.moves.here(str(old / "src")) == str(new / "src")
