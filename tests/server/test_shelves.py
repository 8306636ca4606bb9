"""History on the server: what was sent is there once and in order, whatever the line does; what was removed is gone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.exchange import frames
from backstory.exchange.frames import head_of, joined, read
from backstory.server import shelves
from backstory.server.api import MACHINE
from backstory.server.codes import token_of
from backstory.server.shelves import NOT_A_BEGINNING
from tests.support.counts import examples
from tests.support.senders import DESK, LAPTOP, OTHER, UID, Sender, cut, exported
from tests.support.team import tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.team import Team


def texts_of(data: Iterable[bytes]) -> list[str]:
    """The texts of the events of frames, joined."""
    said = [json.loads(each) for each in joined([read(each) for each in data])]
    return [each["event"]["AssistantText"]["text"] for each in said if each["type"] == "event"]


@pytest.fixture
def sender(team: Team) -> Sender:
    return Sender(team, team.founded())


# what is stored -------------------------------------------------------------------------------------------------------


def test_what_was_sent_is_there_and_sent_again_is_had(sender: Sender) -> None:
    sent = cut([["a", "b"], ["c"]])
    assert sender.send(*sent) == ["ok", "ok"]
    assert sender.send(*sent) == ["had", "had"]
    last = head_of(sent[-1])
    state = sender.state()
    assert (state["epoch"], tuple(state["upto"]), state["chain"], state["events"]) == (1, last.upto, last.chain, 3)
    assert sender.news() == sent


def test_a_frame_before_which_one_is_missing_is_not_stored_and_says_where_to_go_on(sender: Sender) -> None:
    sent = cut([["a"], ["b"], ["c"]])
    _, found = sender.answer(sent[0], sent[2])
    assert [each["word"] for each in found["confirmed"]] == ["ok", "expected"]
    assert found["confirmed"][1]["state"]["chain"] == head_of(sent[0]).chain
    assert sender.send(*sent[1:]) == ["ok", "ok"]
    assert texts_of(sender.news()) == ["a", "b", "c"]


def test_another_history_of_a_session_is_never_mixed_into_it(sender: Sender) -> None:
    first, second = cut([["a"], ["b"]]), cut([["a"], ["other"]])
    assert sender.send(*first) == ["ok", "ok"]
    assert sender.send(*second) == ["had", "other"]
    assert sender.send(*cut([["x"]])) == ["other"]
    assert texts_of(sender.news()) == ["a", "b"]


def test_a_new_epoch_is_seen_when_it_is_whole_and_not_before(sender: Sender) -> None:
    old, new = cut([["a"], ["b"]]), cut([["A" * 1_100_000, "B", "C"]], epoch=2)
    *first, last = new
    sender.send(*old)
    assert sender.news() == old
    assert sender.send(*first) == ["ok"] * len(first)
    assert (len(first) > 0, sender.news()) == (True, [])
    assert sender.send(last) == ["ok"]
    assert sender.news() == new
    assert sender.send(old[0]) == ["epoch"]


def test_what_is_not_whole_yet_is_not_seen(sender: Sender) -> None:
    sent = cut([["a" * 1_100_000, "b"]])
    sender.send(*sent[:-1])
    assert sender.news() == []
    sender.send(sent[-1])
    assert sender.news() == sent


def test_a_damaged_frame_does_not_harm_those_beside_it(sender: Sender) -> None:
    (good,), (bad,) = cut([["a"]]), cut([["b"]], uid=OTHER)
    assert sender.send(bad[:-1] + bytes([bad[-1] ^ 1]), good) == ["damaged", "ok"]
    assert sender.send(b"no head\n", good) == ["damaged"]
    assert sender.news() == [good]


def test_what_is_not_masked_is_refused_and_not_kept(sender: Sender) -> None:
    bare = [*frames.frames(exported(["a"]), session=UID)]
    with_bytes = [*frames.frames(exported(["a"]), session=UID, has_bytes=True)]
    for each in (*bare, *with_bytes):
        status, found = sender.answer(each)
        assert (status, found["error"]["kind"]) == (400, "not_masked")
    assert sender.news() == []


def test_a_request_without_frames_or_with_too_many_is_refused(sender: Sender) -> None:
    assert sender.answer()[0] == 400
    status, found = sender.answer(*cut([["a"]]) * (shelves.FRAMES_MAX + 1))
    assert (status, found["error"]["kind"], sender.news()) == (413, "too_many", [])


def test_a_bomb_is_refused_without_being_unpacked(sender: Sender) -> None:
    (small,) = cut([["a"]])
    head, _, _ = small.partition(b"\n")
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(300_000_000))
    lied = json.loads(head) | {"size": len(bomb)}
    assert sender.send(json.dumps(lied).encode() + b"\n" + bomb) == ["damaged"]


@pytest.mark.hypothesis
@settings(max_examples=examples(25))
@given(
    rounds=st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=3), min_size=1, max_size=6),
    tries=st.lists(
        st.tuples(st.integers(0, 7), st.integers(1, 3), st.sampled_from(["ok", "lost", "cut"])), max_size=12
    ),
    data=st.data(),
)
def test_whatever_the_line_does_each_frame_is_there_once(
    rounds: list[list[str]], tries: list[tuple[int, int, str]], data: st.DataObject, made_team: Team
) -> None:
    sender = Sender(made_team, made_team.founded())
    reader = Sender(made_team, made_team.founded("x"))
    reader.token = sender.token
    sent, read_so_far = cut(rounds), list[bytes]()
    for begin, count, how in tries:
        part = sent[begin : begin + count]
        if part and how != "lost":
            sender.send(*(part[::-1] if how == "cut" else part))
        if data.draw(st.booleans()):
            read_so_far += reader.news()
    sender.send(*sent)
    assert sender.state()["chain"] == head_of(sent[-1]).chain
    assert read_so_far + reader.news() == sent
    assert texts_of(sent) == [text for each in rounds for text in each]


def test_the_same_sent_at_once_by_many_is_there_once(sender: Sender) -> None:
    sent = cut([[str(number)] for number in range(20)])
    with ThreadPoolExecutor(6) as threads:
        words = list(threads.map(lambda _: sender.send(*sent), range(6)))
    assert sorted(words) == sorted([["ok"] * 20] + [["had"] * 20] * 5)
    assert sender.news() == sent


def test_what_came_while_others_were_read_is_not_missed(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "CHANGES_BYTES", 1)
    sent = cut([[str(number)] for number in range(8)])
    sender.send(*sent)
    assert sender.news() == sent


def test_what_is_seen_late_is_read_by_who_was_up_to_date(sender: Sender) -> None:
    slow, quick = cut([["a" * 1_100_000, "b"]]), cut([["x"]], uid=OTHER)
    sender.send(*slow[:-1])
    sender.send(*quick)
    assert sender.news() == quick
    sender.send(slow[-1])
    assert sender.news() == slow


@pytest.mark.parametrize("after", ["x", "1", "1.2", "1.2.x", "a.b.c"])
def test_a_place_that_nobody_gave_is_refused(after: str, sender: Sender) -> None:
    assert sender.team.client.get("/v1/changes", params={"after": after}, headers=sender.headers).status_code == 400


# who it is of ---------------------------------------------------------------------------------------------------------


def test_two_people_with_one_session_have_their_own(team: Team) -> None:
    anna = team.founded()
    first, second = Sender(team, anna), Sender(team, team.joined(anna, "ben"))
    assert first.send(*cut([["a"]])) == ["ok"]
    assert second.send(*cut([["b"]])) == ["ok"]
    assert (texts_of(first.news()), texts_of(second.news())) == (["a"], ["b"])
    assert second.forget()[0] == 200
    assert first.state()["events"] == 1


def test_nobody_reads_or_removes_what_is_of_another_organisation(team: Team) -> None:
    anna, eve = Sender(team, team.founded()), Sender(team, team.founded("eve"))
    anna.send(*cut([["a"]]))
    assert (eve.state()["chain"], eve.news()) == ("", [])
    nothing = eve.forget(OTHER)
    assert (eve.forget(), nothing[0]) == (nothing, 404)
    assert anna.state()["events"] == 1


def test_a_reader_sends_nothing(team: Team) -> None:
    ben = Sender(team, team.joined(team.founded(), "ben", "reader"))
    assert ben.answer(*cut([["a"]]))[0] == 403


def test_a_token_for_some_repositories_sends_no_others(team: Team) -> None:
    anna = team.founded()
    token = token_of(anna.token)
    assert token is not None
    sender = Sender(team, anna)
    with team.database.of(token.tenant) as rows:
        rows.execute("update token set repositories = %s where id = %s", (["github.com/me/other"], token.id))
    status, found = sender.answer(*cut([["a"]]))
    assert (status, found["error"]["kind"], sender.state()["chain"]) == (403, "not_allowed", "")


# machines of one person -----------------------------------------------------------------------------------------------


@pytest.mark.hypothesis
@settings(max_examples=examples(25))
@given(
    ours=st.lists(st.sampled_from([["a"], ["b"], ["a", "b"]]), min_size=1, max_size=4),
    theirs=st.lists(st.sampled_from([["a"], ["b"], ["a", "b"]]), min_size=1, max_size=4),
    order=st.lists(st.tuples(st.booleans(), st.integers(1, 2), st.integers(0, 4), st.integers(1, 3)), max_size=12),
)
def test_two_machines_with_one_session_never_mix_and_neither_replaces_the_other(
    ours: list[list[str]], theirs: list[list[str]], order: list[tuple[bool, int, int, int]], made_team: Team
) -> None:
    anna = made_team.founded()
    senders = Sender(made_team, anna), Sender(made_team, anna, DESK)
    sent = [{epoch: cut(rounds, epoch=epoch) for epoch in (1, 2)} for rounds in (ours, theirs)]
    for is_second, epoch, begin, count in order:
        if part := sent[is_second][epoch][begin : begin + count]:
            senders[is_second].send(*part)
    for sender, each in zip(senders, sent, strict=True):
        sender.send(*each[2])
    for sender, each, rounds in zip(senders, sent, (ours, theirs), strict=True):
        assert sender.state()["chain"] == head_of(each[2][-1]).chain
        assert texts_of(sender.news()) == [text for round_ in rounds for text in round_]


def shown(team: Team, sender: Sender, uid: str = UID) -> list[str]:
    """The machines whose variants of a session are shown."""
    asked = f"select machine from session s where tenant = %s and uid = %s and {NOT_A_BEGINNING} order by machine"
    with team.database.of(sender.tenant) as rows:
        return [each for (each,) in rows.execute(asked.encode(), (sender.tenant, uid)).fetchall()]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_beginning_of_what_another_machine_has_is_not_shown_and_both_of_two_that_differ_are(
    is_first: bool, team: Team
) -> None:
    anna = team.founded()
    one, other = Sender(team, anna, LAPTOP if is_first else DESK), Sender(team, anna, DESK if is_first else LAPTOP)
    sent = cut([["a"], ["b"], ["c"]])
    one.send(*sent[:1])
    other.send(*sent[:2])
    assert shown(team, one) == [other.machine]
    one.send(*sent[1:])
    assert shown(team, one) == [one.machine]
    other.send(sent[2])
    assert shown(team, one) == [LAPTOP]
    other.send(*cut([["a"], ["else"]], epoch=2))
    assert shown(team, one) == [LAPTOP, DESK]
    ben = Sender(team, team.joined(anna, "ben"), DESK)
    ben.send(*sent)
    assert shown(team, one) == [LAPTOP, DESK, DESK]


def test_what_is_not_seen_yet_of_another_machine_hides_nothing(team: Team) -> None:
    anna = team.founded()
    one, other = Sender(team, anna), Sender(team, anna, DESK)
    begun, *rest = cut([["a"], ["b" * 1_100_000, "c"]])
    one.send(begun, *rest)
    assert len(rest) > 1
    other.send(begun, *rest[:-1])
    assert shown(team, one) == [one.machine]


@pytest.mark.parametrize("path", ["/v1/sync", "/v1/state", "/v1/changes"])
@pytest.mark.parametrize("machine", [None, "", "x", f"{LAPTOP}'", LAPTOP.lower()])
def test_who_does_not_say_which_machine_asks_is_refused(machine: str | None, path: str, sender: Sender) -> None:
    headers = {"Authorization": f"Bearer {sender.token}"} | ({} if machine is None else {MACHINE: machine})
    method = "GET" if path == "/v1/changes" else "POST"
    body = b'{"uids":[]}' if path == "/v1/state" else b"".join(cut([["a"]]))
    answer = sender.team.client.request(method, path, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "machine_missing")
    assert sender.state()["chain"] == ""


def test_what_all_machines_sent_of_a_session_is_removed_and_none_brings_it_back(team: Team) -> None:
    anna = team.founded()
    one, other = Sender(team, anna), Sender(team, anna, DESK)
    one.send(*cut([["a"]]))
    other.send(*cut([["planted"]]))
    assert one.forget()[0] == 200
    kept = everything_kept(team, one.tenant)
    assert [each for each in (b"planted", UID.encode()) if each in kept] == []
    for each in (one, other, Sender(team, anna, "01M3250V00CCCCCCCCCCCCCCCC")):
        assert (each.send(*cut([["a"]])), each.state()["is_forgotten"]) == (["forgotten"], True)


def test_what_a_lost_machine_sent_is_erased_and_nothing_else(team: Team) -> None:
    anna = team.founded()
    one, lost = Sender(team, anna), Sender(team, anna, DESK)
    ben = Sender(team, team.joined(anna, "ben"), DESK)
    one.send(*cut([["a"]]))
    lost.send(*cut([["planted"]], uid=OTHER), *cut([["b"]]))
    ben.send(*cut([["c"]]))
    path = f"/v1/machines/{DESK}"
    assert team.ask("DELETE", path, one.token) == (200, {"session_count": 2})
    assert (one.state()["events"], lost.state()["chain"], ben.state()["events"]) == (1, "", 1)
    kept = everything_kept(team, one.tenant)
    assert [each for each in (b"planted", OTHER.encode()) if each in kept] == []
    assert team.ask("DELETE", path, one.token)[0] == 404
    assert lost.send(*cut([["b"]])) == ["ok"]


def test_machines_are_listed_with_what_they_sent(team: Team) -> None:
    anna = team.founded()
    one, other = Sender(team, anna), Sender(team, anna, DESK)
    one.send(*cut([["a"]]))
    other.send(*cut([["a", "b"]]), *cut([["c"]], uid=OTHER))
    team.clock.ms += 86_400_000
    one.send(*cut([["a"], ["b"]]))
    today = datetime.fromtimestamp(team.clock.ms / 1_000, UTC).date()
    _, found = team.ask("GET", "/v1/machines", anna.token)
    assert found["machines"] == [
        {
            "id": DESK,
            "name": "laptop",
            "session_count": 2,
            "event_count": 3,
            "generation": 2,
            "seen": f"{today - timedelta(days=1)}",
            "has_boards": False,
        },
        {
            "id": LAPTOP,
            "name": "laptop",
            "session_count": 1,
            "event_count": 2,
            "generation": 3,
            "seen": f"{today}",
            "has_boards": False,
        },
    ]
    assert team.ask("GET", "/v1/machines", team.joined(anna, "ben").token)[1] == {"machines": [], "removals": 0}


# what is removed ------------------------------------------------------------------------------------------------------


def everything_kept(team: Team, tenant: int) -> bytes:
    """Every value of every table of a tenant, frames unpacked."""
    from backstory.store import codec

    kept = b""
    with team.database.of(tenant) as rows:
        tables = rows.execute(
            "select relname from pg_class where relnamespace = 'backstory'::regnamespace and relkind in ('r', 'p')"
            # What is in a partition is read by way of the table.
            " and not relispartition and relname <> 'migration'"
        ).fetchall()
        for (table,) in tables:
            kept += str(rows.execute(f"select t::text from {table} t".encode()).fetchall()).encode()
        for (data,) in rows.execute("select data from frame").fetchall():
            kept += codec.unpack_frame(bytes(data), 1 << 25)
    return kept


def test_of_a_removed_session_nothing_is_left_and_it_does_not_come_again(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    sent = cut([["planted words"], ["and these"]], title="planted title")
    sender.send(*sent, *cut([["stays"]], uid=OTHER))
    assert all(each in everything_kept(team, tenant_of(anna.token)) for each in (b"planted", UID.encode()))
    status, found = sender.forget()
    assert (status, len(found["removal"])) == (200, 64)
    kept = everything_kept(team, tenant_of(anna.token))
    assert [each for each in (b"planted", b"and these", UID.encode()) if each in kept] == []
    assert b"stays" in kept
    assert sender.send(*sent) == ["forgotten", "forgotten"]
    assert (sender.state()["is_forgotten"], sender.state()["chain"]) == (True, "")
    assert sender.forget() == (200, found)


def test_what_was_never_there_cannot_be_removed(sender: Sender) -> None:
    status, found = sender.forget()
    assert (status, found["error"]["kind"]) == (404, "session_unknown")
    assert sender.send(*cut([["a"]])) == ["ok"]
