"""What an agent writes that its adapter does not know, in logs that are not lines: documents and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents, ids
from backstory.ingest.format_case import write_case
from backstory.ingest.formats import Drift, Strange, drift_of
from backstory.ingest.ingest import ingest
from backstory.ingest.log_reader import kept_lines
from backstory.store import open_store
from tests.support.clock import NOW
from tests.support.recorded import cases_of, home_of

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = [case for name in ("cline", "openhands", "vibe") for case in cases_of(name)]


def drift(tmp_path: Path, agent: str, case: str, change: Callable[[Path], object] | None = None) -> Drift:
    """What is found in a recorded home; ``change`` may change that before."""
    home = home_of(tmp_path, agent, case)
    if change is not None:
        change(home)
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW)
        return drift_of(store, store.logs())


def said_at(tmp_path: Path, found: Drift) -> dict[str, bytes]:
    """What is strange by its name, with the line of its first place."""
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        lines = {line.seq: line.content or b"" for log in store.logs() for line in kept_lines(store, log)}
    return {each.name: lines[each.came[0].seq] for each in found.strange}


def plant(home: Path) -> None:
    """Put keys and types into a document that nobody knows."""
    (path,) = home.rglob("*.messages.json")
    document: dict[str, Any] = json.loads(path.read_bytes())
    messages = document["messages"]
    document["origin"]["wind"] = 1
    document["weather"] = "mild"
    messages[0]["tide"] = 1
    messages[1]["content"][0]["tint"] = 1
    messages[2]["content"][0]["content"][0]["of the tool"] = 1
    messages[3]["content"].append({"type": "telepathy"})
    messages.append({"id": "m", "role": "oracle", "content": "x", "ts": messages[-1]["ts"]})
    path.write_text(json.dumps(document, indent=2), "utf-8")


@pytest.mark.parametrize(("agent", "case"), RECORDED)
def test_nothing_in_a_recorded_home_is_unknown(tmp_path: Path, agent: str, case: str) -> None:
    found = drift(tmp_path, agent, case)
    assert (found.strange, found.unchecked, found.errors) == ([], [], [])
    assert found.records > 0


def test_what_is_unknown_in_a_document_is_found_where_it_stands(tmp_path: Path) -> None:
    found = said_at(tmp_path, drift(tmp_path, "cline", "tools", plant))
    words = {
        "message/oracle": b'"oracle"', "block/telepathy": b'"telepathy"', ": origin.wind": b'"wind"',
        ": weather": b'"weather"', "user: tide": b'"tide"', "assistant: content[thinking].tint": b'"tint"',
    }  # fmt: skip
    assert [name for name, word in words.items() if word not in found.get(name, b"")] == []
    assert found.keys() == words.keys()


def test_what_is_unknown_in_a_document_has_the_version_that_its_beginning_names(tmp_path: Path) -> None:
    found = drift(tmp_path, "cline", "tools", plant)
    assert {came.version for strange in found.strange for came in strange.came} == {"3.0.65"}


@pytest.mark.parametrize(("indent", "separators"), [(2, None), (None, (",", ":"))], ids=["indented", "compact"])
def test_the_keys_of_a_document_are_seen_however_it_is_written(
    tmp_path: Path, indent: int | None, separators: tuple[str, str] | None
) -> None:
    def rewrite(home: Path) -> None:
        plant(home)
        (path,) = home.rglob("*.messages.json")
        path.write_text(json.dumps(json.loads(path.read_bytes()), indent=indent, separators=separators), "utf-8")

    assert len(drift(tmp_path, "cline", "tools", rewrite).strange) == 6


def test_lines_of_ours_in_what_is_kept_are_no_records(tmp_path: Path) -> None:
    """Its messages, and what stands before them and behind."""
    assert drift(tmp_path, "cline", "hello").records == 4


# cases ----------------------------------------------------------------------------------------------------------------


def plant_in_folder(pattern: str) -> Callable[[Path], None]:
    """Put a key into each of the files of a folder that is one log, or into the elements of their lists."""

    def change(home: Path) -> None:
        for path in home.rglob(pattern):
            content = json.loads(path.read_bytes())
            for each in content if isinstance(content, list) else [content]:
                each["mood"] = "of Ann"
            path.write_text(json.dumps(content), "utf-8")

    return change


CASES = {
    "cline": (plant, {"log.messages.json"}),
    "openhands": (plant_in_folder("event-00002-*.json"), {"events"}),
    "vibe": (plant_in_folder("chunks/*.json"), {"CURRENT"}),
}


@pytest.mark.parametrize("agent", CASES)
def test_a_case_of_what_is_no_log_of_lines_is_one_for_its_agent(tmp_path: Path, agent: str) -> None:
    """All that is strange in it is written, each as a case of its own, at a place by which its agent knows it."""
    change, names = CASES[agent]
    found = drift(tmp_path, agent, "tools", change).strange
    assert found
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        for number, strange in enumerate(found):
            case = write_case(store, strange, tmp_path / str(number))
            data = case.path.read_bytes()
            assert ({case.path.name}, case.records < 4) == (names, True)
            word = (strange.key or strange.kind).replace("/", ".").rpartition(".")[2]
            assert f'"{word}"'.encode() in data
            assert [each for each in (b"gross", b"price.py", b"/home/dev", b"Ann") if each in data] == []
            assert case.path.parent.name != came_from(strange).parent.name
            assert agents.load(agent).log.identify(case.path, data[: ids.HEAD_BYTES]) is not None


def came_from(strange: Strange) -> Path:
    return Path(strange.came[0].log.path)


def test_a_document_of_a_case_has_its_record_alone(tmp_path: Path) -> None:
    found = {each.name: each for each in drift(tmp_path, "cline", "tools", plant).strange}
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        cases = {
            name: json.loads(write_case(store, each, tmp_path / str(number)).path.read_bytes())
            for number, (name, each) in enumerate(found.items())
        }
    assert [each["role"] for each in cases["message/oracle"]["messages"]] == ["oracle"]
    assert (cases[": weather"]["weather"], cases[": weather"]["messages"]) == ("xxxx", [])
    assert (cases[": origin.wind"]["origin"]["wind"], cases[": origin.wind"]["messages"]) == (1, [])
    assert {each["origin"]["version"] for each in cases.values()} == {"3.0.65"}
