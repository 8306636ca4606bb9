"""Clients and servers of other versions: what they said is understood, and what they add is passed over."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backstory.errors import ServerOther
from backstory.sync import remote as remotes
from backstory.sync import uploading
from backstory.sync.notes import SyncNotes
from backstory.sync.remote import PROTOCOL, PROTOCOL_HEADER, Remote
from tests.support.pulled import LATER
from tests.support.senders import OTHER, UID, Sender, cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.team import Team
    from tests.support.team_machines import TeamMachine

RECORDED = Path(__file__).parent / "protocol-1.json"
"""Requests of a client of protocol 1 with what it read of the answers; never written anew."""
MADE_BY_CHANCE = {"removal"}


def recorded(team: Team) -> list[dict[str, Any]]:
    """The requests of a client that has all that a client does with history, and their answers now."""
    sender = Sender(team, team.founded())
    machine = f"/v1/machines/{sender.machine}"
    first, *rest = cut([["a"], ["b"], ["c"]])
    point = {"epoch": 1, "upto": [1, 0], "chain": json.loads(first.partition(b"\n")[0])["chain"], "mark": ""}
    story: list[tuple[str, str, Any]] = [
        ("GET", "/v1/me", None),
        ("POST", "/v1/sync", first),
        ("POST", "/v1/sync", b"".join(rest)),
        ("POST", "/v1/sync", first + b"".join(cut([["x"]], uid=OTHER))),
        ("POST", "/v1/state", {"uids": [UID, OTHER, "01M3250V00CCCCCCCCCCCCCCCC"]}),
        ("GET", "/v1/changes?after=", None),
        ("GET", "/v1/machines", None),
        ("GET", f"{machine}/sessions?after=", None),
        ("POST", f"{machine}/frames", {"wants": [{"uid": UID, "sent": point}, {"uid": OTHER}]}),
        ("DELETE", f"/v1/sessions/{OTHER}", None),
        ("POST", "/v1/removals", {"uids": [UID, OTHER]}),
        ("DELETE", f"{machine}/sessions/{UID}", None),
        ("DELETE", machine, None),
    ]
    found = []
    for method, path, body in story:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        found.append(asked(sender, method, path, base64.b64encode(data).decode()))
    return found


def asked(sender: Sender, method: str, path: str, body: str) -> dict[str, Any]:
    headers = sender.headers | {PROTOCOL_HEADER: "1"}
    answer = sender.team.client.request(method, path, content=base64.b64decode(body), headers=headers)
    is_json = answer.headers["content-type"] == "application/json"
    said = answer.json() if is_json else base64.b64encode(answer.content).decode()
    return {"method": method, "path": path, "body": body, "status": answer.status_code, "answer": said}


def holds(now: Any, before: Any) -> bool:
    """Return True if an answer has all that an earlier one had."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            key in now and (key in MADE_BY_CHANCE or holds(now[key], value)) for key, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(now, list) and len(now) == len(before) and all(map(holds, now, before))
    return bool(now == before)


def test_what_a_client_of_protocol_1_said_is_answered_as_it_was(team: Team) -> None:
    sender = Sender(team, team.founded())
    for each in json.loads(RECORDED.read_text("utf-8")):
        now = asked(sender, each["method"], each["path"], each["body"])
        assert (now["status"], holds(now["answer"], each["answer"])) == (each["status"], True), each["path"]


def test_the_recorded_requests_are_all_that_a_client_says_of_history(team: Team) -> None:
    paths = {(each["method"], each["path"]) for each in recorded(team)}
    assert {(each["method"], each["path"]) for each in json.loads(RECORDED.read_text("utf-8"))} <= paths


class LaterServer:
    """A server whose answers have fields, headers and words that this client does not know."""

    def __init__(self, remote: Remote) -> None:
        self._client = remote._client
        self._request = remote._client.request

    def request(self, *given: Any, **named: Any) -> httpx.Response:
        answer = self._request(*given, **named)
        content = answer.content
        if answer.headers["content-type"] == "application/json":
            content = json.dumps(_later(answer.json())).encode()
        headers = {"content-type": answer.headers["content-type"], PROTOCOL_HEADER: str(PROTOCOL + 1), "Later": "1"}
        return httpx.Response(answer.status_code, content=content, headers=headers, request=answer.request)


def _later(said: Any) -> Any:
    if isinstance(said, dict):
        return {"later": {"more": [1]}} | {key: _later(value) for key, value in said.items()} | {"much_later": None}
    return [_later(each) for each in said] if isinstance(said, list) else said


def test_a_client_passes_over_what_a_later_server_adds(
    machine: Callable[..., TeamMachine], monkeypatch: pytest.MonkeyPatch, team: Team
) -> None:
    team.clock.ms = LATER
    laptop, desk = machine("laptop"), machine("desk")
    for each in (laptop, desk):
        monkeypatch.setattr(each.remote._client, "request", LaterServer(each.remote).request)
    laptop.works("aaaaaaaa", "first")
    (uid,) = laptop.store.uids()
    assert (laptop.sync().sent, desk.came()) == ([uid], {"new": 1})
    laptop.works("aaaaaaaa", "second")
    assert (laptop.sync().events, desk.came()) == (2, {"updated": 1})
    assert uploading.forget(laptop.remote, SyncNotes.read(laptop.notes), [uid, OTHER]) == [uid]
    assert [each.removed for each in desk.pulls()] == [1]


def test_a_server_passes_over_what_a_later_client_adds(team: Team) -> None:
    sender = Sender(team, team.founded())
    sender.send(*cut([["a"]]))
    headers = sender.headers | {PROTOCOL_HEADER: str(PROTOCOL + 1), "Later": "1"}
    more = {"later": [1]}
    frames = f"/v1/machines/{sender.machine}/frames"
    for path, body in (("/v1/state", {"uids": [UID]}), (frames, {"wants": [{"uid": UID} | more]}),
                       ("/v1/removals", {"uids": [UID]}), ("/v1/login", {"machine": "desk"})):  # fmt: skip
        assert team.client.post(path, json=body | more, headers=headers).status_code == 200


@pytest.mark.parametrize(("said", "status", "kind"), [("0", 426, "client_too_old"), ("x", 400, "request_wrong"),
                                                      ("", 400, "request_wrong"), ("9" * 5_000, 400, "request_wrong"),
                                                      ("-1", 400, "request_wrong")])  # fmt: skip
def test_a_client_that_is_too_old_is_refused_before_anything_is_done(
    said: str, status: int, kind: str, team: Team
) -> None:
    sender = Sender(team, team.founded())
    answer = team.client.post(
        "/v1/sync", content=b"".join(cut([["a"]])), headers=sender.headers | {PROTOCOL_HEADER: said}
    )
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind)
    assert sender.state()["chain"] == ""
    assert answer.headers[PROTOCOL_HEADER] == str(PROTOCOL)
    health = team.client.get("/v1/health", headers={PROTOCOL_HEADER: said})
    assert (health.status_code, health.json()["protocol"]) == (200, PROTOCOL)


def test_a_client_that_is_too_old_says_that_it_is_to_be_updated(machine: Callable[..., TeamMachine]) -> None:
    laptop = machine("laptop")
    laptop.works("aaaaaaaa", "first")
    laptop.remote._client.headers[PROTOCOL_HEADER] = "0"
    with pytest.raises(ServerOther, match="of a newer backstory") as refused:
        laptop.sync()
    assert str(refused.value).endswith("which does not go with this one. Update backstory here.")


def test_a_server_that_is_too_old_is_said_to_be_so(
    machine: Callable[..., TeamMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = machine("laptop")
    laptop.works("aaaaaaaa", "first")
    monkeypatch.setattr(remotes, "SERVER_PROTOCOL_LEAST", PROTOCOL + 1)
    with pytest.raises(ServerOther, match="of an older backstory") as refused:
        laptop.sync()
    assert "Whoever runs it has to update it" in str(refused.value)
    assert refused.value.exit_code == 76
