"""Whatever a person of an organisation or a stranger sends: it is refused in words, and harms nobody else."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from backstory.exchange import frames
from backstory.exchange.frames import FrameHead, chain_of
from backstory.model import encoded
from backstory.server.shelves import EPOCH_MAX
from backstory.store import codec
from tests.support.senders import UID, Sender, cut, exported, line

if TYPE_CHECKING:
    from tests.support.team import Team

NUMBER_MAX = 2**53


@pytest.fixture
def sender(team: Team) -> Sender:
    return Sender(team, team.founded())


def framed(lines: list[bytes], **changed: Any) -> bytes:
    """A frame with a chain that fits, whatever it says."""
    payload = b"".join(lines)
    events = sum(each.startswith(b'{"type":"event"') for each in lines)
    fields: dict[str, Any] = {
        "format": 1, "session": UID, "epoch": 1, "after": (0, -1), "upto": (events, 0) if events else (0, -1),
        "events": events, "bytes": False, "redacted": True, "prev": "", "chain": frames.NO_CHAIN,
    }  # fmt: skip
    packed = codec.pack_frame(payload)
    head = FrameHead(**fields | {"size": len(packed)} | changed)
    return encoded({**json.loads(encoded(head)), "chain": chain_of(head, payload)}) + b"\n" + packed


def session(**fields: Any) -> list[bytes]:
    (first, turn, event, end) = exported(["a"])
    return [line(**{"of" if name == "type" else name: each for name, each in (json.loads(first) | fields).items()}),
            turn, event, end]  # fmt: skip


NUL = "a\0b"
ODD_SESSIONS = {
    "a title with NUL": session(title=NUL),
    "a name with NUL": session(title=None, name=NUL),
    "a branch with NUL": session(branch=NUL),
    "a repository with NUL": session(repository=NUL),
    "a project with NUL": session(repository=None, project=NUL),
    "a title of a megabyte": session(title="x" * 1_000_000),
    "a branch of a megabyte": session(branch="x" * 1_000_000),
    "a repository of a megabyte": session(repository="x" * 1_000_000),
    "the first year": session(created="0001-01-01T00:00:00.000Z"),
    "the last year": session(last_active="9999-12-31T23:59:59.999Z"),
    "the largest number": session(next_seq=NUMBER_MAX),
}


@pytest.mark.parametrize("lines", ODD_SESSIONS.values(), ids=ODD_SESSIONS.keys())
def test_a_session_with_odd_values_is_kept_as_it_is(lines: list[bytes], sender: Sender) -> None:
    frame = framed(lines)
    assert sender.send(frame) == ["ok"]
    assert sender.news() == [frame]


def test_a_text_with_every_odd_character_is_kept_as_it_is(sender: Sender) -> None:
    frame = framed(exported(["\0 \x1b[31m \u202e \uffff \U0010ffff \r\n"]))
    assert (sender.send(frame), sender.news()) == (["ok"], [frame])


def test_an_epoch_at_the_limit_is_one_like_others_and_above_it_is_none(sender: Sender) -> None:
    frame = framed(exported(["a"]), epoch=EPOCH_MAX)
    for epoch in (EPOCH_MAX + 1, 2**32, NUMBER_MAX):
        assert sender.send(framed(exported(["a"]), epoch=epoch)) == ["damaged"]
    assert (sender.send(frame), sender.news(), sender.state()["epoch"]) == (["ok"], [frame], EPOCH_MAX)


def test_an_event_at_the_last_number_is_one_like_others(sender: Sender) -> None:
    lines = exported(["a"])
    lines[2] = line("event", seq=NUMBER_MAX, part=NUMBER_MAX, turn=UID, event={"AssistantText": {"text": "a"}})
    frame = framed(lines, upto=(NUMBER_MAX, NUMBER_MAX))
    assert (sender.send(frame), sender.news()) == (["ok"], [frame])


def lied(**fields: Any) -> bytes:
    (good,) = cut([["a"]])
    head, _, packed = good.partition(b"\n")
    return encoded(json.loads(head) | fields) + b"\n" + packed


DAMAGED = {
    "a size too large": lied(size=1_000_000),
    "a size beyond all": lied(size=10**18),
    "a size too small": lied(size=1),
    "a size below zero": lied(size=-1),
    "an epoch beyond all": lied(epoch=10**30),
    "an epoch of zero": lied(epoch=0),
    "an uid of a path": lied(session="../../../../../etc/passwd"),
    "an uid with NUL": lied(session=NUL),
    "events beyond all": lied(events=10**9),
    "another chain": lied(chain="f" * 64),
    "invalid UTF-8 in the head": b"\xff\xfe{}\n",
    "an endless head": b"{" + b" " * 10_000,
    "deep nesting": b'{"a":' * 1_000 + b"\n",
    "NUL alone": b"\0" * 100,
    "lines of invalid UTF-8": framed([b'{"type":"session_end","uid":"\xff","turns":0,"events":0}\n']),
    "a line of a nesting of 10,000": framed([b'{"type":"event","x":' + b"[" * 10_000 + b"\n"]),
    "a lone surrogate": framed([b'{"type":"session_end","uid":"\\ud800","turns":0,"events":0}\n']),
    "a session of another uid": framed(exported(["a"], uid="01M3250V00CJ5X1JHP0Z69AWSR")),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_frame_that_lies_is_damaged_and_the_next_request_is_served(data: bytes, sender: Sender) -> None:
    (good,) = cut([["a"]])
    status, found = sender.answer(data)
    assert (status, [each["word"] for each in found["confirmed"]][:1]) == (200, ["damaged"])
    assert "01M3250V00CJ5X1JHP0Z69AWSR" not in str(found)
    assert (sender.send(good), sender.news()) == (["ok"], [good])


def test_a_request_that_unpacks_to_much_takes_the_memory_of_one_frame(sender: Sender) -> None:
    first, turn, event, end = exported(["a"])
    long = [line("event", seq=number, turn=UID, event={"AssistantText": {"text": "x" * 8_000_000}})
            for number in range(1, 21)]  # fmt: skip
    sent = [*frames.frames([first, turn, *long, end], session=UID, is_redacted=True)]
    assert (len(sent), sum(map(len, sent)) < 1_000_000, bool(event)) == (22, True, True)
    tracemalloc.start()
    try:
        assert sender.send(*sent) == ["ok"] * 22
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 80_000_000


# what else is asked ---------------------------------------------------------------------------------------------------

ODD_PATHS = [
    ("DELETE", "/v1/sessions/%00"), ("DELETE", "/v1/sessions/a%00b"), ("DELETE", "/v1/sessions/%ff%fe"),
    ("DELETE", f"/v1/sessions/{'A' * 5_000}"), ("DELETE", "/v1/sessions/..%2f..%2fetc"),
    ("DELETE", "/v1/people/%00"), ("DELETE", "/v1/people/%ff"), ("GET", "/v1/changes?after=1.%00.1"),
    ("GET", f"/v1/changes?after={'9' * 30}.x.1"), ("GET", f"/v1/changes?after=1.x.{'9' * 30}"),
    ("GET", f"/v1/changes?after={'9' * 6_000}.x.1"), ("GET", "/v1/changes?after=-1.x.-1"),
    ("GET", "/v1/changes?after=%ff.%ff.1"), ("GET", "/v1/changes?after=1e3.x.1"), ("GET", "/v1/changes?after=1_0.x.1"),
]  # fmt: skip


@pytest.mark.parametrize("method, path", ODD_PATHS)
def test_odd_words_in_an_address_are_refused(method: str, path: str, sender: Sender) -> None:
    sender.send(*cut([["a"]]))
    answer = sender.team.client.request(method, path, headers={"Authorization": f"Bearer {sender.token}"})
    assert answer.status_code in (400, 404)
    assert sender.state()["events"] == 1


ODD_BODIES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/login", {"machine": NUL}), ("POST", "/v1/login", {"machine": "x" * 60_000}),
    ("POST", "/v1/login/token", {"login": NUL}), ("POST", "/v1/login/approve", {"code": NUL}),
    ("POST", "/v1/join", {"code": NUL, "name": "x"}), ("POST", "/v1/join", {"code": "x", "name": NUL}),
    ("POST", "/v1/state", {"uids": [NUL]}), ("POST", "/v1/state", {"uids": ["A"] * 1_001}),
    ("POST", "/v1/state", []), ("POST", "/v1/state", None), ("POST", "/v1/invites", {"role": "owner"}),
    ("PATCH", "/v1/people/anna", {"role": NUL}),
]  # fmt: skip


@pytest.mark.parametrize("method, path, body", ODD_BODIES)
def test_odd_words_in_a_body_are_refused_or_kept(method: str, path: str, body: Any, sender: Sender) -> None:
    status, found = sender.team.ask(method, path, sender.token, body)
    assert status in (200, 400, 401, 404), found


@pytest.mark.parametrize("body", [b"\xff", b"{", b"[" * 100_000, b'{"uids":"' + b"A" * 70_000, b'{"uids":["\\ud800"]}'])
def test_a_body_that_is_no_json_of_ours_is_refused(body: bytes, sender: Sender) -> None:
    headers = {"Authorization": f"Bearer {sender.token}"}
    assert sender.team.client.post("/v1/state", content=body, headers=headers).status_code in (400, 413)


def test_a_machine_with_an_odd_name_comes_in(team: Team) -> None:
    code = team.people.found("The team")
    status, found = team.ask("POST", "/v1/join", body={"code": code, "name": "anna", "machine": NUL})
    assert (status, team.ask("GET", "/v1/me", found.get("token"))[0]) == (200, 200)


ODD_TOKENS = [
    "bks_ffffffffffff-0000000000000000_" + "A" * 43,
    "bks_0-0000000000000000_" + "A" * 43,
    "\xff\xfe",
    "x" * 8_000,
]


@pytest.mark.parametrize("token", ODD_TOKENS)
def test_an_odd_token_is_one_of_nobody(token: str, team: Team) -> None:
    answer = team.client.get("/v1/me", headers=[(b"authorization", b"Bearer " + token.encode("latin-1"))])
    assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "not_logged_in")
