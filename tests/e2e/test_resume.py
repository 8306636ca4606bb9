"""Sessions that an agent deleted continue in the real agent's own client, with all that was said."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from tests.support.real_clients import AGENTS, ANSWER, NATIVE, said_to, shell
from tests.support.real_clients import FIRST as SAID
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.real_clients import Machine

pytestmark = pytest.mark.slow

NEXT = "And the otter?"
DAY_S = 86_400
AGED = "touch -d '2 minutes ago' $(find $HOME/.claude $HOME/.codex -name '*-*-*-*-*.jsonl')"
"""All logs look as if nobody had written them just now."""


def logs(machine: Machine, agent: str) -> list[Path]:
    below = "projects" if agent == "claude" else ""
    return sorted((machine.root / "home" / f".{agent}" / below).rglob("*-*-*-*-*.jsonl*"))


def listed(machine: Machine) -> dict[str, Any]:
    """The only session, as it is listed."""
    (session,) = json.loads(machine.ask("list --json"))["sessions"]
    return dict(session)


def resumed(machine: Machine, agent: str, uid: str, options: str = "") -> list[str]:
    """Resume a session, with a prompt, until the agent has answered; what the model was sent last.

    Claude Code as a person does, on a terminal. Codex resumes on a screen only, so its log is put back, and the same
    session is continued by the command that needs none.
    """
    before, answer = len(machine.asked()), {"text": "In the burrow."}
    if agent == "claude":
        words = f"{sys.executable} -m backstory resume {uid} {options} -- -p '{NEXT}'"
        machine.do(f'timeout 60 script -qec "{words}" /dev/null > {machine.root}/screen < /dev/null', answer)
    else:
        words = json.loads(machine.ask(f"resume {uid} {options} --json"))["command"]
        words = " ".join([words[0], "exec", *words[1:]])
        machine.ask(f"restore --in-place {options} {uid}")
        machine.do(f"echo '{NEXT}' | {words} --skip-git-repo-check - 2> {machine.root}/screen", answer)
    assert len(machine.asked()) > before, (machine.root / "screen").read_text("utf-8", "replace")
    return said_to(machine.asked()[-1])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_whose_log_was_deleted_goes_on_with_its_whole_history(
    native: Callable[[str], Machine], agent: str
) -> None:
    machine = native(agent)
    session = listed(machine)
    (log,) = logs(machine, agent)
    data = log.read_bytes()
    log.unlink()
    said = resumed(machine, agent, session["uid"])
    assert [each.strip() for each in said if each.strip() in (SAID, NEXT)] == [SAID, NEXT]
    assert log.read_bytes().startswith(data)
    assert log.stat().st_mode & 0o777 == 0o600
    machine.ask("ingest")
    (after,) = json.loads(machine.ask("list --json"))["sessions"]
    assert (after["uid"], after["turn_count"]) == (session["uid"], 2)
    assert json.loads(machine.ask("search --json In-the-reeds-1181"))["total"] == 1
    assert [each.generation for each in machine.home_store.logs()] == [1]
    assert machine.home_store.verify().problems == []


def test_a_deleted_log_of_forty_days_is_not_swept_by_the_client_that_resumes_it(
    native: Callable[[str], Machine],
) -> None:
    machine = native("claude")
    session = listed(machine)
    (log,) = logs(machine, "claude")
    old = time.time() - 40 * DAY_S
    data = log.read_bytes()
    os.utime(log, (old, old))
    sweeping = "echo 'Wait.' | claude -p > /dev/null"
    machine.do(sweeping, {"text": "Done.", "delay": 9})
    assert log not in logs(machine, "claude"), "the client sweeps by mtime, some seconds after its start"
    machine.ask(f"restore --in-place {session['uid']}")
    (machine.root / "home/.claude/.last-cleanup").unlink()
    assert log.read_bytes() == data
    assert abs(log.stat().st_mtime - time.time()) < DAY_S
    machine.do(sweeping, {"text": "Done.", "delay": 9})
    assert (log.parent.parent.parent / ".last-cleanup").exists()
    assert log.read_bytes() == data


def test_a_project_that_moved_is_resumed_where_it_is_now(native: Callable[[str], Machine]) -> None:
    machine = native("claude")
    session = listed(machine)
    (log,) = logs(machine, "claude")
    moved = machine.root / "moved é😀 here"
    moved.mkdir()
    log.unlink()
    said = resumed(machine, "claude", session["uid"], f"--cwd '{moved}'")
    assert [each.strip() for each in said if each.strip() in (SAID, NEXT)] == [SAID, NEXT]
    (again,) = logs(machine, "claude")
    assert again.parent != log.parent
    machine.ask("ingest")
    (after,) = json.loads(machine.ask("list --json --all"))["sessions"]
    assert (after["uid"], after["turn_count"]) == (session["uid"], 2)


def test_a_log_that_codex_compressed_and_lost_is_put_back_plain_with_its_row(machine: Machine) -> None:
    machine.do(NATIVE["codex"].format(SAID, ""), ANSWER)
    (log,) = logs(machine, "codex")
    data = log.read_bytes()
    packed = log.with_name(f"{log.name}.zst")
    packed.write_bytes(zstandard.compress(data))
    log.unlink()
    machine.ask("ingest")
    (session,) = json.loads(machine.ask("list --json"))["sessions"]
    packed.unlink()
    database = machine.root / "home/.codex/state_5.sqlite"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("delete from threads")
    machine.ask(f"restore --in-place {session['uid']}")
    assert log.read_bytes() == data
    with closing(sqlite3.connect(database)) as db:
        row = db.execute(
            "select rollout_path, archived, cwd, title, source, model_provider, model from threads"
        ).fetchall()
    assert row == [(str(log), 0, str(machine.work), SAID, "exec", "stub", "gpt-5.5")]
    said = resumed(machine, "codex", session["uid"])
    assert [each.strip() for each in said if each.strip() in (SAID, NEXT)] == [SAID, NEXT]
    machine.ask("ingest")
    (after,) = json.loads(machine.ask("list --json"))["sessions"]
    assert (after["uid"], after["turn_count"]) == (session["uid"], 2)


def test_an_archived_session_of_codex_is_led_back_and_archived_again_by_undo(native: Callable[[str], Machine]) -> None:
    machine = native("codex")
    session = listed(machine)
    (log,) = logs(machine, "codex")
    machine.do(f"codex archive {session['native_id']} > /dev/null")
    machine.ask("ingest")
    machine.do(AGED)
    database = machine.root / "home/.codex/state_5.sqlite"

    def rows() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(database)) as db:
            return db.execute("select rollout_path, archived, archived_at is null from threads").fetchall()

    archived = rows()
    assert archived[0][1:] == (1, 0)
    machine.ask(f"restore --in-place {session['uid']}")
    assert rows() == [(str(log), 0, 1)]
    machine.ask(f"resume --undo {session['uid']}")
    assert (rows(), log.exists()) == (archived, False)
    said = resumed(machine, "codex", session["uid"])
    assert [each.strip() for each in said if each.strip() in (SAID, NEXT)] == [SAID, NEXT]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_that_its_client_has_open_is_not_resumed(machine: Machine, agent: str) -> None:
    busy, go = machine.root / "busy", machine.root / "go"
    waiting = f"touch {busy}; until [ -e {go} ]; do sleep 0.02; done"
    turn = {"text": "Waiting.", "tools": [shell(agent, waiting)]}
    process = machine.start(NATIVE[agent].format(SAID, ""), [turn, ANSWER])
    until(busy.exists)
    machine.ask("ingest")
    (session,) = json.loads(machine.ask("list --json"))["sessions"]
    subprocess.run(["sh", "-c", AGED], env=machine.environ(), check=True)
    err = machine.ask(f"restore --in-place {session['uid']}", code=75)
    go.touch()
    machine.end(process)
    assert "has it open" in err or " open. Close" in err
