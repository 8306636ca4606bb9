"""Who leaves takes everything along, and nothing of anybody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backstory.server.erasing import OF_PERSON, OF_SESSION
from tests.support.senders import UID, Sender, cut

if TYPE_CHECKING:
    from tests.support.team import Team

LEFT = ("audit",)
"""Tables that name a person who is gone, by number alone."""
WITH_COLUMN = """
select distinct table_name from information_schema.columns
where table_schema = 'backstory' and column_name = any(%s) order by table_name
"""


def tables_with(team: Team, *columns: str) -> list[str]:
    with team.database.of(0) as rows:
        return [name for (name,) in rows.execute(WITH_COLUMN, ([*columns],)).fetchall()]


def held(team: Team, sender: Sender) -> dict[str, int]:
    """The number of rows in each table that an organisation has."""
    with team.database.of(sender.tenant) as rows:
        return {
            table: rows.execute(
                f"select count(*) from {table} where tenant = %s".encode(), (sender.tenant,)
            ).fetchall()[0][0]
            for table in (*OF_PERSON, "person")
        }


def test_every_table_with_rows_of_a_person_is_erased(team: Team) -> None:
    assert tables_with(team, "person") == sorted({*OF_PERSON, *LEFT})


def test_every_table_with_rows_of_a_session_is_erased(team: Team) -> None:
    assert tables_with(team, "session", "uid") == sorted(OF_SESSION)


@pytest.mark.parametrize("path", ["/v1/me", "/v1/people/ben"])
def test_who_leaves_or_is_put_out_leaves_nothing(path: str, team: Team) -> None:
    anna = team.founded()
    ours = Sender(team, anna)
    ours.send(*cut([["a"]]))
    before = held(team, ours)
    ben = team.joined(anna, "ben")
    Sender(team, ben).send(*cut([["a"], ["b"]]))
    Sender(team, ben).forget()
    Sender(team, ben).send(*cut([["x"]], uid="01M3250V00CJ5X1JHP0Z69AWSR"))
    caller = ben.token if path == "/v1/me" else anna.token
    assert team.ask("DELETE", path, caller) == (200, {"erased_count": 1})
    assert held(team, ours) == before
    assert ours.state()["events"] == 1


def test_the_last_admin_cannot_leave(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sender.send(*cut([["a"]]))
    team.joined(anna, "ben")
    status, found = team.ask("DELETE", "/v1/me", anna.token)
    assert (status, found["error"]["kind"]) == (409, "last_admin")
    assert sender.state()["events"] == 1


def test_who_comes_again_under_the_same_name_is_another_person(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    Sender(team, ben).send(*cut([["a"]]))
    Sender(team, ben).forget()
    team.ask("DELETE", "/v1/me", ben.token)
    again = Sender(team, team.joined(anna, "ben"))
    state: dict[str, Any] = again.state(UID)
    assert (state["events"], state["is_forgotten"], again.send(*cut([["a"]]))) == (0, False, ["ok"])
