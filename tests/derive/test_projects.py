"""Which sessions are shown as one project, and by which name."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.naming import ProjectNames, ShownProject
from backstory.derive.projects import SeenPlace, canonical, names_of

FIRST, SECOND = "1" * 40, "2" * 40


def folder(path: str, *, is_there: bool = True, **facts: Any) -> SeenPlace:
    """Sessions in the root of a repository without a remote, or in a folder that is gone."""
    return SeenPlace(path, None, path if is_there else None, path)._replace(**facts)


def remote(url: str, path: str = "/w/tool", **facts: Any) -> SeenPlace:
    return SeenPlace(url, "/".join(url.split("/")[1:]), path, path)._replace(**facts)


def logged(repository: str, path: str, **facts: Any) -> SeenPlace:
    """Sessions in a folder that is gone, whose log names the repository."""
    return SeenPlace(path, repository, None, path)._replace(**facts)


def shown(*places: SeenPlace, commits: dict[str, list[str]] | None = None) -> list[ShownProject]:
    names = ProjectNames(known=names_of(places, commits or {}))
    return [names.of(*each[:4]) for each in places]


def named(*places: SeenPlace, commits: dict[str, list[str]] | None = None) -> list[str]:
    return [each.name for each in shown(*places, commits=commits)]


def test_thousands_of_folders_that_are_called_alike_are_named_in_a_moment() -> None:
    begun = time.process_time()
    names = named(*(folder(f"/data/w{n}/x/tool") for n in range(4_000)))
    assert len({*names}) == len(names)
    assert time.process_time() - begun < 2


SPELLINGS = [
    ("github.com/Me/Tool", "github.com/me/tool"),
    ("ssh.github.com/me/tool", "github.com/me/tool"),
    ("gitlab.corp.example/Me/Tool", "gitlab.corp.example/me/tool"),
    ("git.example.org/Me/Tool", "git.example.org/Me/Tool"),
    ("host", "host"),
]


@pytest.mark.parametrize(("written", "same"), SPELLINGS)
def test_a_path_is_spelled_as_its_forge_takes_it(written: str, same: str) -> None:
    assert canonical(written) == same


def test_spellings_of_one_remote_are_one_project_with_the_usual_name() -> None:
    usual, other = remote("github.com/Ann/Tool", sessions=3), remote("github.com/ann/tool", "/v/tool")
    assert shown(usual, other) == [ShownProject("github.com/Ann/Tool", "Ann/Tool")] * 2


def test_paths_that_differ_in_case_are_two_projects_where_the_host_may_tell_them_apart() -> None:
    one, other = shown(remote("git.example.org/ann/tool"), remote("git.example.org/Ann/tool", "/v/tool"))
    assert one.key != other.key
    assert one.name != other.name


def test_repositories_of_one_name_on_two_hosts_are_two_projects() -> None:
    places = remote("github.com/ann/tool"), remote("gitlab.com/ann/tool", "/v/tool")
    assert named(*places) == ["ann/tool (github.com)", "ann/tool (gitlab.com)"]


def test_a_log_that_names_a_repository_without_its_host_is_of_the_only_remote_of_that_name() -> None:
    assert len({*shown(remote("github.com/Ann/Tool"), logged("ann/tool", "/gone/tool"))}) == 1


def test_where_two_hosts_have_the_name_a_log_is_of_the_one_in_its_folder_or_of_neither() -> None:
    hub, lab = remote("github.com/ann/tool", "/w/tool"), remote("gitlab.com/ann/tool", "/v/tool")
    found = shown(hub, lab, logged("ann/tool", "/v/tool"), logged("ann/tool", "/gone"))
    assert found[2] == found[1]
    assert found[3] == ShownProject("ann/tool", "ann/tool")


def test_sessions_before_and_after_a_remote_was_added_are_one_project() -> None:
    assert len({*shown(folder("/w/tool", last_active=1), remote("github.com/ann/tool", last_active=2))}) == 1


def test_a_folder_without_facts_is_of_the_repository_that_a_log_names_for_it() -> None:
    places = logged("ann/Tool", "/u/tool/.claude/worktrees/1"), folder("/u/tool", is_there=False)
    assert named(*places) == ["ann/Tool"] * 2


def test_a_hidden_folder_below_a_repository_is_of_it_and_another_below_it_is_not() -> None:
    places = (
        logged("ann/tool", "/u/w/tool"), folder("/u/w/tool/.build/1/cwd", is_there=False),
        folder("/u/w/tool/other", is_there=False),
    )  # fmt: skip
    assert named(*places) == ["ann/tool", "ann/tool", "tool/other"]


def test_a_hidden_folder_of_a_home_that_is_a_repository_is_not_of_that() -> None:
    assert named(logged("ann/dotfiles", "/home/ann"), folder("/home/ann/.cache/x", is_there=False))[1] == ".cache/x"


def test_folders_whose_repositories_begin_with_the_same_commits_are_one_project() -> None:
    commits = {"/w/tool": [FIRST, SECOND], "/v/copy": [SECOND, FIRST], "/x/tool": [FIRST]}
    old, new, other = (folder("/w/tool", last_active=1), folder("/v/copy", last_active=2), folder("/x/tool"))
    found = shown(old, new, other, commits=commits)
    assert found[0] == found[1] == ShownProject("/v/copy", "copy")
    assert found[2].key == "/x/tool"


def test_a_copy_without_a_remote_is_of_the_only_remote_with_its_first_commits() -> None:
    commits = {each: [FIRST] for each in ("/w/tool", "/v/copy")}
    assert named(remote("github.com/ann/tool"), folder("/v/copy"), commits=commits) == ["ann/tool"] * 2


def test_a_copy_without_a_remote_is_of_neither_of_two_forks() -> None:
    commits = {each: [FIRST] for each in ("/w/tool", "/x/tool", "/v/copy")}
    places = remote("github.com/ann/tool"), remote("github.com/bob/tool", "/x/tool"), folder("/v/copy")
    assert named(*places, commits=commits) == ["ann/tool", "bob/tool", "copy"]


def test_two_persons_folders_of_one_name_have_the_person_behind_it() -> None:
    places = folder("/Users/ann/code/cli"), folder("/home/bob/cli"), folder("/home/bob/other")
    assert named(*places) == ["cli (ann)", "cli (bob)", "other"]


def test_two_folders_of_one_name_have_as_much_of_their_path_as_tells_them_apart() -> None:
    assert named(folder("/w/a/x/cli"), folder("/w/b/x/cli"), folder("/cli")) == ["a/x/cli", "b/x/cli", "/cli"]


def test_what_comes_from_elsewhere_names_no_other_session() -> None:
    strange = remote("github.com/eve/evil", "/w/tool", counts=False, sessions=99, last_active=99)
    assert named(folder("/w/tool"), strange) == ["tool", "eve/evil"]


def test_a_new_folder_that_was_not_there_when_names_were_noted_is_of_the_repository_above() -> None:
    known = names_of([logged("ann/tool", "/u/w/tool"), folder("/u/w/tool/.build/1", is_there=False)], {})
    path = "/u/w/tool/.build/2"
    assert ProjectNames(known=known).of(path, None, None, path).name == "ann/tool"


def test_what_is_as_its_own_facts_say_is_not_noted() -> None:
    assert names_of([remote("github.com/ann/tool"), folder("/w/other"), logged("bob/x", "/gone")], {}) == {}


PATHS = st.sampled_from(["/w/tool", "/v/tool", "/w/a/tool", "/home/ann/tool", "/home/bob/tool", "/w/tool/.b/x", ""])
PLACES = st.builds(
    SeenPlace, st.sampled_from([None, "github.com/a/tool", "github.com/A/tool", "gitlab.com/a/tool"]) | PATHS,
    st.sampled_from([None, "a/tool", "A/Tool", "b/tool"]), st.none() | PATHS, st.none() | PATHS, st.integers(1, 3),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip


@given(st.lists(PLACES, max_size=8), st.dictionaries(PATHS, st.lists(st.sampled_from([FIRST, SECOND]), min_size=1)))
def test_no_two_projects_have_one_name_and_no_project_has_two(
    places: list[SeenPlace], commits: dict[str, list[str]]
) -> None:
    found = {*shown(*places, commits=commits)}
    assert len({each.key for each in found}) == len(found)
    assert len({each.name for each in found}) == len(found)
