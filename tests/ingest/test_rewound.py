"""Turns that a rewind left behind stay, and are marked; sessions whose logs are gone are, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from tests.support.clock import NOW
from tests.support.folders import EVENTFUL, EventSession, register, said
from tests.support.machines import Machine, claude_log, compressed, conversation, lines
from tests.support.rewound import LOG, SESSION, log
from tests.support.rewritten import agent_with

if TYPE_CHECKING:
    from collections.abc import Iterable


def put(machine: Machine, *numbers: int) -> None:
    machine.write(LOG, log(*numbers))
    assert machine.read("copilot").errors == []


def rewound(machine: Machine) -> dict[str, int]:
    asked = "select user_message, rewound from turns order by first_seq"
    return dict(machine.store.execute_read_only(asked).rows)


def marks(those: Iterable[int], *left_behind: int) -> dict[str, int]:
    return {f"prompt {number}": int(number in left_behind) for number in those}


def test_turns_that_follow_each_other_are_not_rewound(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    assert rewound(machine) == marks([1, 2, 3])


def test_turns_that_a_rewind_cut_off_are_marked_when_the_session_goes_on(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    put(machine, 1, 4)
    assert rewound(machine) == marks([1, 2, 3, 4], 2, 3)


def test_turns_that_a_rewind_cut_off_are_marked_before_the_session_goes_on(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    put(machine, 1)
    assert rewound(machine) == marks([1, 2, 3], 2, 3)


def test_what_was_cut_off_and_comes_back_is_not_rewound(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    put(machine, 1)
    put(machine, 1, 2, 3)
    assert rewound(machine) == marks([1, 2, 3])


def test_a_rewind_again_and_again_marks_all_that_was_left_behind(machine: Machine) -> None:
    for numbers in ((1, 2), (1,), (1, 3), (4,), (4, 5)):
        put(machine, *numbers)
    assert rewound(machine) == marks([1, 2, 3, 4, 5], 1, 2, 3)


def test_turns_at_the_end_that_a_rewritten_log_lacks_are_marked(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    machine.write(LOG, log(1, 2).replace(b'"/w"', b'"/v"'))
    machine.read("copilot")
    assert rewound(machine) == marks([1, 2, 3], 3)


def test_what_is_left_behind_is_still_kept_found_and_shown(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    put(machine, 1, 4)
    said = machine.store.execute_read_only("select assistant_response from turns order by first_seq").rows
    assert said == [(f"answer {number}",) for number in (1, 2, 3, 4)]
    hits = machine.store.execute_read_only("select count(*) from search_index where search_index match 'prompt'").rows
    assert hits == [(4,)]
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("events_too", [False, True])
@pytest.mark.parametrize("last", [(1,), (1, 4), (1, 2, 3, 4)])
def test_a_reindex_marks_the_same(machine: Machine, last: tuple[int, ...], events_too: bool) -> None:
    put(machine, 1, 2, 3)
    put(machine, *last)
    before = rewound(machine)
    assert reindex(machine.store, now=NOW, events_too=events_too).failed == []
    assert rewound(machine) == before


def test_a_shorter_copy_elsewhere_rewinds_nothing(machine: Machine) -> None:
    put(machine, 1, 2, 3)
    machine.write(Path(".copilot/session-state") / f"{SESSION}.jsonl", log(1))
    machine.read("copilot")
    assert rewound(machine) == marks([1, 2, 3])


def test_a_log_that_is_compressed_is_not_taken_for_one_that_was_cut(machine: Machine) -> None:
    machine.write(LOG.with_suffix(".jsonl.zst"), compressed(log(*range(1, 30))))
    machine.read("copilot")
    assert set(rewound(machine).values()) == {0}


def test_a_document_that_is_shorter_than_what_is_kept_of_it_is_not_taken_for_one_that_was_cut(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = register(agent_with(), monkeypatch)
    for count in range(1, 21):
        records = [
            {"id": f"r{number}", "role": "user", "text": f"prompt {number}", "at": f"2026-03-01T10:00:{number:02}Z"}
            for number in range(1, count + 1)
        ]
        written = {"session": "s1", "records": records, "written": f"{count} times " * 9}
        machine.write(".example/s1.jsonl", json.dumps(written).encode())
        assert ingest(machine.store, [agent], environ={}, home=machine.home, now=NOW).errors == []
    (log,) = machine.store.logs()
    assert log.read_to > 2 * Path(log.path).stat().st_size
    assert rewound(machine) == marks(range(1, 21))


def test_a_folder_that_is_one_log_is_not_taken_for_one_that_was_cut(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(EVENTFUL, monkeypatch)
    session = EventSession(machine.home)
    for number in (1, 3, 5):
        session.put(number, said(number, f"prompt {number}"))
        assert machine.read("eventful").errors == []
    assert rewound(machine) == marks([1, 3, 5])


def test_a_branch_that_another_prompt_left_behind_is_rewound(machine: Machine) -> None:
    fork = json.dumps({**json.loads(conversation(1, start=8)[0]), "parentUuid": "u1"}).encode()
    linked = [
        json.dumps({**json.loads(line), "parentUuid": f"u{n - 1}" if n else None}).encode()
        for n, line in enumerate(conversation(6))
    ]
    machine.write(claude_log("s"), lines(*linked, fork))
    machine.read()
    assert rewound(machine) == {"word0 said": 0, "word2 said": 1, "word4 said": 1, "word8 said": 0}


def test_a_session_gone_at_its_source_says_since_when(machine: Machine) -> None:
    put(machine, 1)
    asked = "select gone_at from sessions"
    (machine.home / LOG).unlink()
    reindex(machine.store, now=NOW)
    ((since,),) = machine.store.execute_read_only(asked).rows
    assert since is not None and since.endswith("Z")
    put(machine, 1)
    reindex(machine.store, now=NOW)
    assert machine.store.execute_read_only(asked).rows == [(None,)]


def test_a_session_of_many_turns_is_looked_at_once(machine: Machine) -> None:
    put(machine, *range(1, 1_500))
    answer = machine.store.execute_read_only("select sum(rewound), count(*) from turns", timeout_s=60)
    assert (answer.rows, answer.truncated) == ([(0, 1_499)], False)
