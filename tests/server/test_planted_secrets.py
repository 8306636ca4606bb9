"""Thousands of planted secrets: none in a request, a table, a frame, a statistic, a file, a log or an error."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from backstory import agents
from backstory.derive.secrets import Redactor
from backstory.ingest.ingest import ingest
from backstory.server.postgres import own_database
from backstory.server.serving import SESSIONS, opened
from backstory.store import codec
from tests.support.broken_laptop import BrokenLaptop
from tests.support.claude_records import answer, assistant, result, user
from tests.support.clock import NOW, Clock
from tests.support.counts import IS_LONG
from tests.support.cutting import cutting
from tests.support.kept_files import table_values
from tests.support.leftovers import unpacked_frames
from tests.support.planted import CONTEXTS, KINDS, made
from tests.support.senders import Sender, cut, split
from tests.support.team import Team

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = 10_000 if IS_LONG else 1_000
A_SESSION = 250
PIECE = 10
"""So many letters of a secret, at its beginning and at its end, must be nowhere."""
_RUN = re.compile(rb"[A-Za-z0-9_-]{10,}")


def planted() -> tuple[list[str], set[bytes]]:
    """Texts that tell a secret, and pieces of all secrets. What no export masks is left out, and is little."""
    found, pieces, tried, seed = list[str](), set[bytes](), 0, 0
    redactor = Redactor(people=False, key=lambda: b"k" * 32)
    forms, contexts = [*KINDS.values()], [*CONTEXTS.values()]
    while len(found) < SECRETS:
        seed += 1
        tried += 1
        text, secret = made(forms[seed % len(forms)], seed)
        text = contexts[seed // len(forms) % len(contexts)](text)
        ends = {secret[:PIECE], secret[-PIECE:]}
        shown = redactor.text(text) + redactor.json(json.dumps({"x": text}))
        if not any(each in shown for each in ends):
            found.append(text)
            pieces |= {each.encode() for each in ends if _RUN.fullmatch(each.encode())}
    assert len(found) > 0.85 * tried
    return found, pieces


def told(pieces: set[bytes], data: bytes) -> set[bytes]:
    """The pieces that are in bytes."""
    return {
        run[at : at + PIECE] for run in _RUN.findall(data) for at in range(len(run) - PIECE + 1)
        if run[at : at + PIECE] in pieces
    }  # fmt: skip


def work(home: Path, where: Path, number: int, texts: list[str]) -> None:
    """A session that has each of these texts somewhere: in every place where an agent writes words."""
    (where / ".git").mkdir(parents=True, exist_ok=True)
    (where / ".git/config").write_text('[remote "origin"]\n\turl = git@github.com:janedoe/app.git\n', "utf-8")
    session = f"{number:08x}-0000-4000-8000-000000000000"
    log = home / f".claude/projects/x/{session}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    lines, last = list[bytes](), None
    for count, text in enumerate(texts):
        uuid = f"{number:08x}{count}"
        of: dict[str, Any] = {"uuid": uuid, "parent": last, "cwd": str(where), "sessionId": session}
        lines.append(_record(count % 9, text, of))
        last = uuid
    log.write_bytes(b"\n".join(lines) + b"\n")


def _record(place: int, text: str, of: dict[str, Any]) -> bytes:
    call = {"type": "tool_use", "id": f"c{of['uuid']}", "name": "Bash"}
    match place:
        case 0:
            return user(text, **of)
        case 1:
            return answer(text, **of)
        case 2:
            return assistant({**call, "input": {"command": f"echo {text}"}}, **of)
        case 3:
            written = {"file_path": f"{of['cwd']}/{text}.txt", "content": text}
            return assistant({**call, "name": "Write", "input": written}, **of)
        case 4:
            return assistant({**call, "input": {text: "a key"}}, **of)
        case 5:
            return result(text, f"c{of['parent']}", **of)
        case 6:
            return assistant({"type": "thinking", "thinking": text}, **of)
        case 7:
            return user("look", **of | {"gitBranch": text})
        case _:
            title = json.dumps({"type": "summary", "summary": text, "leafUuid": of["uuid"]}).encode()
            return title + b"\n" + user("x", **of)


@pytest.mark.slow
def test_no_planted_secret_is_anywhere_on_the_way_or_on_the_server(folder: Path, tmp_path: Path) -> None:
    texts, pieces = planted()
    with opened(folder, None) as database:
        team = Team(database, Clock(), folder / SESSIONS)
        who = team.founded()
        with team.served() as address, cutting(address) as proxy:
            desk = BrokenLaptop(tmp_path, Sender(team, who), proxy)
            for number, begin in enumerate(range(0, len(texts), A_SESSION)):
                work(tmp_path / "home", tmp_path / "work" / "app", number, texts[begin : begin + A_SESSION])
            ingest(desk.store, [agents.load("claude")], environ={}, home=tmp_path / "home", now=NOW)
            logs = b"".join(each.read_bytes() for each in (tmp_path / "home").rglob("*.jsonl"))
            assert len(told(pieces, logs)) > 0.9 * len(pieces)
            assert desk.tries_to_sync()
            assert len(desk.lines_there()) == -(-len(texts) // A_SESSION)
            while team.derive(who):
                pass
            bodies = [each.partition(b"\r\n\r\n")[2] for each in proxy.requests if each.startswith(b"POST /v1/sync")]
            sent = [codec.unpack_frame(frame.partition(b"\n")[2], 1 << 26) for each in bodies for frame in split(each)]
            assert len(sent) >= len(desk.lines_there())
            assert told(pieces, b"\n".join([*proxy.requests, *sent, *proxy.answers])) == set()
        own = own_database(folder)
        admin = f"{own.address} dbname=backstory"
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("analyze")
            connection.execute("checkpoint")
        assert told(pieces, b"\n".join(table_values(admin))) == set()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert told(pieces, b"\n".join([data, *unpacked_frames(data)])) == set(), path


@pytest.mark.slow
def test_no_token_or_code_is_in_an_address_a_log_an_error_or_a_table(folder: Path) -> None:
    with opened(folder, None) as database:
        team = Team(database, Clock(), folder / SESSIONS)
        code = team.people.found("The team")
        with team.served() as address, cutting(address) as proxy:
            desk = Sender(team, team.people.join(code, "anna", "laptop"))
            client = httpx.Client(base_url=proxy.address)
            ask = client.request
            own = {"Authorization": f"Bearer {desk.token}"}
            waiting = ask("POST", "/v1/login", json={"machine": "desk"}).json()
            invited = ask("POST", "/v1/invites", json={}, headers=own).json()["code"]
            ask("POST", "/v1/login/approve", json={"code": waiting["code"]}, headers=own)
            came = ask("POST", "/v1/login/token", json={"login": waiting["login"]}).json()["token"]
            secrets = [each.rpartition("_")[2] for each in (desk.token, came, code, invited)] + [waiting["login"]]
            wrong = [
                ask("POST", "/v1/join", json={"code": code, "name": "x"}),
                ask("POST", "/v1/join", json={"code": invited + "x", "name": "x"}),
                ask("POST", "/v1/join", json={"code": [invited], "name": "x"}),
                ask("POST", "/v1/join", json={"code": invited, "name": "\0"}),
                ask("POST", "/v1/login/token", json={"login": waiting["login"], "secret": desk.token}),
                ask("POST", "/v1/login/token", json={"login": {"x": waiting["login"]}}),
                ask("GET", "/v1/me", headers={"Authorization": f"Bearer {desk.token}x"}),
                ask("GET", "/v1/me", headers={"Authorization": f"Basic {desk.token}"}),
                ask("DELETE", f"/v1/people/{desk.token}", headers=own),
                ask("POST", "/v1/sync", content=cut([["a"]])[0] + desk.token.encode(), headers=desk.headers),
            ]  # fmt: skip
            assert {each.status_code for each in wrong[:-1]} <= {400, 401, 404}
            # Who writes a token in the place of a name is told that nobody is called so, in 80 letters at most.
            answered = b"".join(each.content for number, each in enumerate(wrong) if number != 8)
            assert [each for each in secrets if each.encode() in answered] == []
            client.close()
            lines = [line for line, _ in proxy.done if not line.startswith("DELETE /v1/people")]
            assert len(lines) == 13
            assert [each for each in secrets if each in str(lines)] == []
        own_admin = f"{own_database(folder).address} dbname=backstory"
        kept = b"\n".join(table_values(own_admin)) + own_database(folder).log.read_bytes()
        assert [each for each in secrets if each.encode() in kept] == []
