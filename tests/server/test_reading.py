"""Answers about the history of an organisation: all of it, nobody else's, and only what a token is good for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.senders import OTHER, Sender, cut

if TYPE_CHECKING:
    from tests.support.team import Team


def repositories(sender: Sender) -> list[tuple[str, int, int, int]]:
    status, found = sender.team.ask("GET", "/v1/repositories", sender.token)
    assert status == 200
    return [(each["repository"], each["sessions"], each["events"], each["people"]) for each in found["repositories"]]


def test_repositories_are_counted_over_all_people_of_the_organisation_alone(team: Team) -> None:
    anna = team.founded()
    first, second = Sender(team, anna), Sender(team, team.joined(anna, "ben"))
    eve = Sender(team, team.founded("eve"))
    first.send(*cut([["a", "b"]]), *cut([["c"]], uid=OTHER))
    second.send(*cut([["a"]]))
    assert repositories(first) == repositories(second) == [("github.com/me/app", 3, 4, 2)]
    assert repositories(eve) == []
    first.forget()
    assert repositories(second) == [("github.com/me/app", 2, 2, 2)]


def test_a_token_for_some_repositories_counts_these_alone(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    with team.database.of(sender.tenant) as rows:
        rows.execute("update token set repositories = %s where tenant = %s", (["github.com/me/other"], sender.tenant))
    assert repositories(sender) == []
