"""Many clients at once: all that each sent is there once, and the server keeps little in memory."""

from __future__ import annotations

import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from backstory.exchange import frames
from backstory.exchange.frames import head_of
from backstory.server.postgres import own_database
from backstory.sync.remote import Remote
from tests.support.counts import IS_LONG
from tests.support.senders import UID, line
from tests.support.served import RunningServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS, EVENTS = (200, 1_000_000) if IS_LONG else (12, 6_000)
SENT_AT_ONCE = 4
"""Frames of a request."""
MEMORY_MAX = 200 * 1024 * 1024
WORDS = [f"w{number:03}" for number in range(700)]


def frames_of(client: int) -> Iterator[bytes]:
    """The frames of the one session of a client."""
    chance, count, uid = random.Random(client), EVENTS // CLIENTS, f"{UID[:-4]}{client:04}"
    turn: dict[str, Any] = {"uid": uid, "first_seq": 1, "last_seq": count, "agent": "claude", "prompt": "hi"}

    def lines() -> Iterator[bytes]:
        yield line("session", uid=uid, created="2026-09-21T14:13:20.123Z", next_seq=count + 1, repository="me/app")
        yield line("turn", **turn)
        for number in range(1, count + 1):
            text = f"{number} {' '.join(chance.choices(WORDS, k=60))}"
            yield line("event", seq=number, turn=uid, event={"AssistantText": {"text": text}})
        yield line("session_end", uid=uid, turns=1, events=count)

    return frames.frames(lines(), session=uid, is_redacted=True)


def send(address: str, token: str, client: int) -> tuple[str, str]:
    """Send all of a client; return the uid and the chain that the server confirmed last."""
    waiting, chain, uid = list[bytes](), "", ""
    with Remote(address, token, f"{UID[:-4]}{client:04}") as remote:
        for frame in [*frames_of(client), b""]:
            if frame:
                waiting.append(frame)
            if len(waiting) == SENT_AT_ONCE or not frame:
                for each in remote.send("/v1/sync", b"".join(waiting))["confirmed"] if waiting else []:
                    assert each["word"] in ("ok", "had")
                    uid, chain = each["uid"], each["state"]["chain"]
                last = head_of(waiting[-1]).chain if waiting else chain
                assert last == chain
                waiting = []
    return uid, chain


@pytest.mark.slow
@pytest.mark.long
def test_many_clients_at_once_lose_and_double_nothing(folder: Path, tmp_path: Path) -> None:
    server = RunningServer(folder, tmp_path)
    with Remote(server.address) as remote:
        admin = remote.ask("POST", "/v1/join", {"code": server.code, "name": "admin"})["token"]
        with Remote(server.address, admin) as own:
            codes = [own.ask("POST", "/v1/invites", {})["code"] for _ in range(CLIENTS)]
        tokens = [
            remote.ask("POST", "/v1/join", {"code": code, "name": f"p{each}"})["token"]
            for each, code in enumerate(codes)
        ]
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        done = dict(threads.map(lambda each: send(server.address, tokens[each], each), range(CLIENTS)))
    took = time.monotonic() - began
    process = psutil.Process(server.process.pid)
    peak, used = _peak(process.pid), process.cpu_times()
    with psycopg.connect(f"{own_database(folder).address} dbname=backstory") as connection:
        rows = connection.execute(
            "select s.uid, s.events, encode(s.chain, 'hex'), (select count(*) from backstory.frame f"
            " where f.session = s.uid), s.frames from backstory.session s"
        ).fetchall()
        (size,) = connection.execute("select pg_database_size('backstory')").fetchone() or (0,)
    assert server.end() == 0
    assert {uid: chain for uid, _, chain, _, _ in rows} == done
    assert {(int(events), kept == seen) for _, events, _, kept, seen in rows} == {(EVENTS // CLIENTS, True)}
    sys.stdout.write(json.dumps({"clients": CLIENTS, "events": EVENTS, "wall_s": round(took, 1), "peak_mb": peak >> 20,
                      "server_cpu_s": round(used.user + used.system, 1), "database_mb": size >> 20}))  # fmt: skip
    assert peak < MEMORY_MAX


def _peak(pid: int) -> int:
    """The most memory that a process had."""
    found = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmHWM")]
    return int(found[0].split()[1]) * 1024
