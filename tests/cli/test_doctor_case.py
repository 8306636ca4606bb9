"""``backstory doctor formats --case``: an unknown record as a case for a test, without anything of its person."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents, ids
from tests.support.strange_records import NEW_KEY, NEW_TYPE, PROMPT, put, record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

OF_ANN = {"cwd": "/home/annmiller/shop", "gitBranch": "ann/secret-plan"}
SAID = {"role": "user", "content": "Mail ann.miller@corp.example, token ghp_16C7e42F292c6912E7710c838347Ae178B4a"}
LEFT = ("ann", "miller", "corp", "secret", "shop", "16C7e", "Mail")


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("strange", [NEW_TYPE, NEW_KEY], ids=["type", "key"])
def test_a_case_is_scrubbed_and_read_by_its_agent(bare: Shell, strange: dict[str, Any]) -> None:
    put(bare, PROMPT | OF_ANN | {"message": SAID}, strange | OF_ANN | {"message": SAID | {"mood": "of Ann"}})
    done = bare("doctor", "formats", "--case", "out")
    folder = bare.cwd / "out"
    assert (done.code, done.out.splitlines()[-1]) == (0, str(folder / "log.jsonl"))
    data = (folder / "log.jsonl").read_bytes()
    assert [word for word in LEFT if word.casefold().encode() in data.lower()] == []
    assert agents.load("claude").log.identify(folder / "log.jsonl", data[: ids.HEAD_BYTES]) is not None
    assert len(log_of(folder)) == 1


def test_a_case_is_for_its_owner_alone_and_replaces_nothing(bare: Shell) -> None:
    put(bare, PROMPT, NEW_TYPE)
    assert bare("doctor", "formats", "--case", "below/out").code == 0
    folder = bare.cwd / "below" / "out"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "log.jsonl")] == [0o700, 0o600]
    (folder / "log.jsonl").write_text("mine", "utf-8")
    assert bare("doctor", "formats", "--case", "below/out").code == 73
    assert (folder / "log.jsonl").read_text("utf-8") == "mine"
    (bare.cwd / "link").symlink_to(bare.cwd / "nowhere")
    assert bare("doctor", "formats", "--case", "link").code == 73
    assert not (bare.cwd / "nowhere").exists()


def test_the_record_of_a_case_is_chosen_by_its_name(bare: Shell) -> None:
    put(bare, PROMPT, NEW_TYPE, NEW_KEY, record(4, type="bridge-session", whatever=1))
    found = bare("doctor", "formats", "MOOD", "--case", "one", "--json").json()
    assert (found["types"], found["case"]["key"]) == ([], "message.mood")
    assert "mood" in log_of(bare.cwd / "one")[0]["message"]
    assert bare("doctor", "formats", "bridge", "--case", "two", "--json").json()["case"]["kind"] == "bridge-session"


def test_where_nothing_is_unknown_there_is_no_case(bare: Shell) -> None:
    put(bare, PROMPT)
    done = bare("doctor", "formats", "--case", "out")
    assert (done.code, (bare.cwd / "out").exists()) == (1, False)
    assert "nothing to write a case of" in done.err


def test_words_that_no_format_has_are_named(bare: Shell) -> None:
    put(bare, PROMPT, NEW_TYPE)
    done = bare("doctor", "formats", "--case", "out")
    assert "These words stayed, though no format has them: telepathy." in done.err


def test_a_key_of_records_without_a_type_is_named_as_in_the_list(bare: Shell) -> None:
    path = bare.home / ".cline" / "data" / "sessions" / "1795416182012_9zomc" / "1795416182012_9zomc.messages.json"
    path.parent.mkdir(parents=True)
    message = {"id": "m", "role": "user", "content": "<user_input>go</user_input>", "ts": 1795416184718}
    path.write_text(json.dumps({"sessionId": "1795416182012_9zomc", "mood": 1, "messages": [message]}), "utf-8")
    assert bare("ingest").code == 0
    done = bare("doctor", "formats", "--case", "out")
    assert "(no type): mood" in done.out
    assert "A case of cline, (no type): mood: " in done.err
