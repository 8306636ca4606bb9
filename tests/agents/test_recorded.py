"""Homes that the agents' own programs left, read into a store: what it holds is what was counted when they worked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backstory import agents
from backstory.config import Config
from backstory.ingest.ingest import ingest
from backstory.store import open_store
from backstory.workspace.stores.importing import Machine
from backstory.workspace.workspace import Workspace
from tests.support.clock import NOW
from tests.support.promises import promise
from tests.support.recorded import CASES, cases_of, count_of, counted, filled, home_of

BYTES_MAX = 3_000_000
SHOP = "shop"
"""The project's folder below a home, where the agent keeps its sessions in it."""


def expected(agent: str, case: str) -> dict[str, Any]:
    """The count of a case, without its remarks."""
    return {key: value for key, value in count_of(agent, case).items() if key not in ("recorded", "said")}


@promise(1, cases_of())
def test_a_recorded_home_holds_what_was_counted(agent: str, case: str, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        report = ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW, places=[home / SHOP])
        assert (report.errors, report.unknown_records) == ([], {})
        assert counted(store, home / SHOP) == expected(agent, case)


@promise(1, cases_of())
def test_a_recorded_home_is_read_once(agent: str, case: str, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW, places=[home / SHOP])
        before = counted(store)
        again = ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW, places=[home / SHOP])
        assert (again.total("logs_read"), again.total("bytes_read"), counted(store)) == (0, 0, before)


OF_EACH = [(agent, case) for agent, case in cases_of() if case == "tools" or (agent, case) == ("aider", "edit")]
"""A home of each agent that is read."""


@pytest.mark.parametrize(
    ("settings", "is_read"),
    [
        ("", True),
        ('agents = ["claude"]', False),
        ('exclude = ["*/shop*/*", "*-shop-*", "*.db", "*/conversations/*", "*/unified/*", "*.messages.json"]', False),
    ],
    ids=["none", "agents", "exclude"],
)
@promise(11, OF_EACH)
def test_an_ingest_obeys_the_settings(agent: str, case: str, settings: str, is_read: bool, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    own = tmp_path / "backstory"
    own.mkdir()
    (own / "config.toml").write_text(f"[ingest]\n{settings}\n")

    def config() -> Config:
        return Config(
            own / "config.toml", None, is_installed=lambda *_: True, agents=agents.names, make_folder=Path.mkdir
        )

    report = Workspace(config, own, home / SHOP, now=lambda: NOW).ingest(Machine(user_home=home), pytest.fail)
    assert (report.total("sessions_new"), report.total("bytes_read") > 0) == (int(is_read), is_read)


def test_recorded_homes_are_small() -> None:
    packed = [each for agent, case in cases_of() for each in (CASES / agent / case).iterdir()]
    assert sum(each.stat().st_size for each in packed) <= BYTES_MAX


def test_what_a_maker_wrote_becomes_filler_of_the_same_length() -> None:
    rules = rb"Be \"good\". " * 9
    line = b'{"message":{"role":"system","sections":{"rules":"%s"},"content":""}}' % rules
    told = filled(line)
    assert (len(told), b"good" in told, json.loads(told)["message"]["role"]) == (len(line), False, "system")


def test_what_a_person_said_stays() -> None:
    line = b'{"type":"message","message":{"role":"user","content":"' + b"Be good. " * 9 + b'"}}'
    assert filled(line) == line
