"""History pulled from the server: what a person's other machines sent, masked, once, whatever the line does."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from backstory.errors import ServerUnreachable
from backstory.exchange import frames
from backstory.server import offers
from backstory.sync.leaving import CAME_MASKED, choose
from backstory.sync.remote import Remote
from backstory.sync.wire import FramesBegin, FramesEnd, Ready, heard_or_end
from tests.support.laptops import PASSWORD
from tests.support.senders import DESK, Sender, cut
from tests.support.team import Team
from tests.support.team_machines import OPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.team_machines import TeamMachine


def heard_all(data: bytes) -> Iterator[Any]:
    stream = io.BytesIO(data)
    while (words := heard_or_end(stream)) is not None:
        yield words


def test_what_another_machine_sent_comes_as_it_was_sent_and_once(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", "first", f"export DB_PASSWORD={PASSWORD}")
    laptop.works("bbbbbbbb", f"say {PASSWORD}")
    laptop.sync()
    assert desk.came() == {"new": 2}
    sent = laptop.sent_lines()
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == sent
    assert PASSWORD not in str(sent)
    assert desk.store.verify().problems == []
    desk.remote.requests = 0
    assert (desk.came(), desk.remote.requests) == ({}, 1)


def test_of_a_session_that_went_on_only_what_is_new_comes(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", *map(str, range(30)))
    laptop.sync()
    (first,) = desk.pulls()
    for _ in range(3):
        laptop.works("aaaaaaaa", "more")
        laptop.sync()
    (more,) = desk.pulls()
    assert (len(more.came["updated"]), more.frames, more.bytes < first.bytes * 3) == (1, 3, True)
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == laptop.sent_lines()
    laptop.store.rename(laptop.store.session(laptop.store.uids()[0]), "a name")
    laptop.sync()
    assert desk.came() == {"same": 1}
    assert desk.store.session(desk.store.uids()[0]).name == "a name"


def test_what_is_sent_anew_there_is_so_here(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", f"use {PASSWORD} there")
    laptop.sync()
    desk.came()
    laptop.works("bbbbbbbb", f"export DB_PASSWORD={PASSWORD}")
    laptop.sync()
    assert desk.came() == {"new": 1, "updated": 1}
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == laptop.sent_lines()
    assert PASSWORD not in str(desk.sent_lines() | laptop.sent_lines())


@pytest.mark.parametrize("limit", [1, 700, 3_000])
def test_an_answer_that_ends_early_is_gone_on_with(
    limit: int, machine: Callable[..., TeamMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "EVENTS_MAX", 3)
    monkeypatch.setattr(offers, "CHANGES_BYTES", limit)
    monkeypatch.setattr(offers, "OFFERS_AT_ONCE", 2)
    laptop, desk = machine("laptop"), machine("desk")
    for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd", "eeeeeeee"):
        laptop.works(name, *map(str, range(9)))
    laptop.sync()
    (done,) = desk.pulls()
    assert (len(done.came["new"]), done.frames) == (5, 30)
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == laptop.sent_lines()
    laptop.works("aaaaaaaa", *map(str, range(9, 30)))
    laptop.sync()
    assert desk.came() == {"updated": 1}
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == laptop.sent_lines()


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_pull_that_broke_goes_on_where_it_was(
    epoch: int, machine: Callable[..., TeamMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "EVENTS_MAX", 3)
    monkeypatch.setattr(offers, "CHANGES_BYTES", 1)
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", *map(str, range(12)), f"and {PASSWORD}")
    laptop.sync()
    if epoch == 2:
        laptop.works("bbbbbbbb", f"export DB_PASSWORD={PASSWORD}")
        laptop.sync()
    received = list[int]()
    plain = Remote.receive

    def receive(self: Remote, path: str, body: Any) -> bytes:
        if len(received) == 5:
            received.append(0)
            raise ServerUnreachable("x", "the line broke")
        answer = plain(self, path, body)
        received.append(len(answer))
        return answer

    monkeypatch.setattr(Remote, "receive", receive)
    with pytest.raises(ServerUnreachable):
        desk.pulls()
    assert desk.store.uids() == []
    desk.came()
    assert {uid: desk.lines(uid) for uid in desk.store.uids()} == laptop.sent_lines()
    # What came before is not sent again: an answer a frame, and the one that was lost.
    total = sum(len(parts) for parts in _frames_of(laptop).values())
    assert len([each for each in received if each]) <= total + epoch


def _frames_of(laptop: TeamMachine) -> dict[str, list[bytes]]:
    laptop.sender.upto = ""
    found: dict[str, list[bytes]] = {}
    for each in laptop.sender.news():
        found.setdefault(frames.head_of(each).session, []).append(each)
    return found


def test_an_own_session_is_never_changed(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", "first", "only there", "and more")
    desk.works("aaaaaaaa", "first")
    laptop.sync()
    desk.sync()
    before = desk.content()
    assert desk.came() == {}
    assert desk.content() == before
    assert laptop.came() == {}


def test_what_came_with_its_logs_stays_whole_and_what_is_masked_gives_way_to_it(
    machine: Callable[..., TeamMachine],
) -> None:
    laptop, over_ssh, over_server = machine("laptop"), machine("one"), machine("two")
    laptop.works("aaaaaaaa", "first", f"export DB_PASSWORD={PASSWORD}")
    laptop.sync()
    assert over_server.came() == {"new": 1}
    for each in (over_ssh, over_server):
        done = each.pull(laptop)
        assert len(done.came["new"] + done.came["updated"]) == 1, done
        assert each.lines(each.store.uids()[0]) == laptop.lines(laptop.store.uids()[0])
    laptop.works("aaaaaaaa", "later")
    laptop.sync()
    for each in (over_ssh, over_server):
        assert each.came() == {}
        assert PASSWORD in str(each.lines(each.store.uids()[0]))
        assert len(each.pull(laptop).came["updated"]) == 1
        assert each.store.verify().problems == []


def test_what_was_pulled_is_not_sent_again_and_what_goes_on_from_it_is(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk = machine("laptop"), machine("desk")
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    desk.came()
    (uid,) = desk.store.uids()
    assert choose([desk.store], OPTED).staying == {(CAME_MASKED, "github.com/janedoe/app"): 1}
    assert desk.sync().sent == []
    desk.store.change(_continued, uid)
    (leaving,) = choose([desk.store], OPTED).leaving
    assert leaving.origin.uid != uid


def _continued(db: Any, uid: str) -> None:
    columns = "uid, created, project, parent_identity, relation"
    db.execute(
        f"insert into sessions({columns}) select '01M3250V00ZZZZZZZZZZZZZZZZ', created, project, substr(uid, 11),"
        " 'continuation' from sessions where uid = ?", (uid,),
    )  # fmt: skip


def test_two_variants_never_mix_here_however_they_go_on(machine: Callable[..., TeamMachine]) -> None:
    laptop, desk, third = machine("laptop"), machine("desk"), machine("third")
    laptop.works("aaaaaaaa", "first", "only on one")
    desk.works("aaaaaaaa", "first", "only on the other")
    for each in (laptop, desk):
        each.sync()
    assert third.came() in ({"new": 1, "updated": 1}, {"new": 1, "less": 1})
    assert third.came() == {}
    variants = [*laptop.sent_lines().values(), *desk.sent_lines().values()]
    assert third.lines(third.store.uids()[0]) in variants
    for each in (laptop, desk, laptop, desk):
        each.works("aaaaaaaa", "more")
        each.sync()
        third.came()
        variants = [*laptop.sent_lines().values(), *desk.sent_lines().values()]
        assert third.lines(third.store.uids()[0]) in variants
        assert third.came() == {}


def test_a_beginning_of_what_another_machine_has_does_not_come_beside_it(team: Team) -> None:
    anna = team.founded()
    one, other = Sender(team, anna), Sender(team, anna, "01M3250V00BBBBBBBBBBBBBBBB")
    sent = cut([["a"], ["b"]])
    one.send(*sent)
    other.send(sent[0])
    offered = {
        each.machine: team.ask("GET", f"/v1/machines/{each.machine}/sessions", anna.token)[1]["offers"]
        for each in (one, other)
    }
    assert [len(each) for each in offered.values()] == [1, 0]


def test_what_a_colleague_sent_is_not_offered_and_not_sent(team: Team) -> None:
    anna = team.founded()
    sender, ben, eve = Sender(team, anna), team.joined(anna, "ben"), team.founded("eve")
    sender.send(*cut([["a"]]))
    for who in (ben, eve):
        path = f"/v1/machines/{sender.machine}"
        assert team.ask("GET", f"{path}/sessions", who.token) == (200, {"offers": [], "has_more": False})
        headers = {"Authorization": f"Bearer {who.token}"}
        answer = team.client.post(f"{path}/frames", json={"wants": [{"uid": sender.state()["uid"]}]}, headers=headers)
        assert b"not there any more" in answer.content


def test_every_point_that_frames_are_asked_from_leads_to_the_end(team: Team) -> None:
    anna = team.founded()
    sender = Sender(team, anna)
    old, sent = cut([["x"], ["y"]]), cut([[str(number)] for number in range(6)], epoch=2)
    sender.send(*old)
    sender.send(*sent)
    heads = [frames.head_of(each) for each in sent]
    headers = {"Authorization": f"Bearer {anna.token}"}
    points: list[Any] = [
        None,
        *({"epoch": 2, "upto": list(each.upto), "chain": each.chain, "mark": ""} for each in heads),
    ]
    points.append({"epoch": 1, "upto": [2, 0], "chain": frames.head_of(old[1]).chain, "mark": ""})
    for point, count, chain in itertools.product(
        points, range(4), [*(each.chain for each in heads), "", "x", "0" * 64]
    ):
        want = {"uid": heads[0].session, "frames": count, "chain": chain} | ({} if point is None else {"sent": point})
        answer = team.client.post(f"/v1/machines/{sender.machine}/frames", json={"wants": [want]}, headers=headers)
        begin, *parts, end, ready = heard_all(answer.content)
        assert isinstance(begin, FramesBegin)
        assert isinstance(end, FramesEnd)
        assert isinstance(ready, Ready)
        before = chain if begin.kept else ""
        came = [frames.head_of(each) for each in parts if isinstance(each, bytes)]
        assert [each.chain for each in came] == [each.chain for each in heads][len(heads) - len(came) :]
        assert (end.sent.chain, end.sent.upto) == (heads[-1].chain, heads[-1].upto)
        known = "" if point is None or point["epoch"] == 1 else point["chain"]
        assert came == [] if before == heads[-1].chain else came[0].prev in {before or known, before}


@pytest.mark.parametrize("body", [b"", b'{"wants":[{"uid":"x"}]}', b'{"wants":1}'])
def test_what_nobody_asks_for_is_refused(body: bytes, team: Team) -> None:
    anna = team.founded()
    headers = {"Authorization": f"Bearer {anna.token}"}
    answer = team.client.post(f"/v1/machines/{DESK}/frames", content=body, headers=headers)
    assert answer.status_code == 400
    many = {"wants": [{"uid": "01M3250V00CJ5X1JHP0Z69AWSQ"}] * 101}
    assert team.client.post(f"/v1/machines/{DESK}/frames", json=many, headers=headers).status_code == 400


@pytest.mark.parametrize("name", ["x", "%00", DESK.lower()])
def test_a_machine_that_cannot_be_is_one_that_is_not_there(name: str, team: Team) -> None:
    anna = team.founded()
    Sender(team, anna).send(*cut([["a"]]))
    for method, rest in (("GET", "/sessions"), ("POST", "/frames"), ("DELETE", ""), ("DELETE", f"/sessions/{DESK}")):
        body: Any = {"wants": []} if method == "POST" else None
        assert team.ask(method, f"/v1/machines/{name}{rest}", anna.token, body)[0] == 404
    assert team.ask("GET", f"/v1/machines/{DESK}/sessions?after={name}", anna.token)[0] == 400
