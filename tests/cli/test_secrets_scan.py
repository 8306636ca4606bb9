"""``backstory secrets scan``: secrets by their places, and never one of them."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from backstory.store import open_store
from backstory.workspace.stores.secret_scan import SecretScan
from tests.support.bench import Bench
from tests.support.strange_records import PROMPT, put, record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

TOKEN, PASSWORD, OTHER = "ghp_" + "a1B2" * 9, "correct-Horse-7battery", "xoxb-123456789012-1234567890123-" + "Ab3" * 8
HERE, THERE = "11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"


def said(number: int, text: str, session: str = HERE) -> dict[str, Any]:
    return record(number, type="user", message={"role": "user", "content": text}) | {"sessionId": session}


FIRST = (
    PROMPT,
    said(2, f"use {TOKEN}"),
    said(3, f"export DB_PASSWORD='{PASSWORD}'"),
    said(4, f"no: {TOKEN}"),
)


def scan(shell: Shell, *words: str) -> Any:
    done = shell("secrets", "scan", *words, "--json")
    assert done.code in (0, 1), done.err
    return done.json()


@pytest.fixture
def stored(bare: Shell) -> Shell:
    """A machine with a token in two sessions, one of which has a password, too."""
    put(bare, *FIRST)
    put(bare, said(5, f"token {TOKEN}", THERE), name=THERE)
    return bare


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def uids(shell: Shell) -> set[str]:
    return {each["uid"] for each in shell("list", "--all", "--json").json()["sessions"]}


def test_one_secret_is_one_finding_with_all_its_places(stored: Shell) -> None:
    found = scan(stored)["secrets"]
    assert [(each["kind"], each["sighting_count"], each["session_count"]) for each in found] == [
        ("github-token", 3, 2), ("password", 1, 1),
    ]  # fmt: skip
    for place in found[0]["sightings"]:
        assert TOKEN in stored("show", place["uid"], f"@{place['seq']}", "--full").out
        assert place["sidecar"] is None
    assert stored("secrets", "scan").code == 1


def test_the_name_of_a_secret_is_its_mask(stored: Shell) -> None:
    first = scan(stored)["secrets"][0]
    shown = stored("show", first["sightings"][0]["uid"], "--md", "--redact")
    assert first["mask"] in shown.out
    assert first["mask"] == f"{first['kind']}-{first['fingerprint']}"


@pytest.mark.parametrize(
    "words", [(), ("--json",), ("--accept", "all"), ("--accept", "no-such"), ("--rm", "--yes"), ("--rm",)]
)
def test_no_part_of_a_value_is_printed_or_kept(stored: Shell, words: tuple[str, ...]) -> None:
    done = stored("secrets", "scan", *words)
    kept = [path.read_text("utf-8") for path in stored.store.parent.glob("secrets.*")]
    assert kept
    for text in (done.out, done.err, *kept):
        for secret in (TOKEN, PASSWORD):
            assert not any(secret[at : at + 6] in text for at in range(4, len(secret) - 6))


def test_the_files_of_a_scan_are_for_their_owner_alone(stored: Shell) -> None:
    stored("secrets", "scan", "--accept", "all")
    files = sorted(stored.store.parent.glob("secrets.*"))
    assert [path.name for path in files] == ["secrets.accepted", "secrets.scanned"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_store_without_secrets_is_nothing_new(bare: Shell) -> None:
    put(bare, PROMPT, said(2, "password=$PASSWORD token=<your-token>"))
    done = bare("secrets", "scan")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("No secret. Looked through: 1 log")


def test_a_second_scan_reads_only_what_is_new(stored: Shell) -> None:
    first = scan(stored)
    again = scan(stored)
    assert (again["bytes_read"], again["secrets"]) == (0, first["secrets"])
    path = put(stored, *FIRST, said(6, f"and {OTHER}"))
    grown = scan(stored)
    assert grown["bytes_read"] == len(path.read_bytes().splitlines(keepends=True)[-1])
    assert [each["kind"] for each in grown["secrets"]] == ["github-token", "password", "slack-token"]
    assert [each["sighting_count"] for each in grown["secrets"]] == [3, 1, 1]


def test_a_line_that_ended_only_later_is_looked_through_as_a_whole(bare: Shell) -> None:
    path = put(bare, PROMPT, said(2, "ordinary"))
    line = json.dumps(said(3, f"use {TOKEN} now")).encode()
    cut = line.index(TOKEN.encode()) + 12
    path.write_bytes(path.read_bytes() + line[:cut])
    bare("ingest")
    assert scan(bare)["secrets"] == []
    path.write_bytes(path.read_bytes() + line[cut:] + b"\n")
    bare("ingest")
    assert [(each["kind"], each["sighting_count"]) for each in scan(bare)["secrets"]] == [("github-token", 1)]


def test_a_log_that_was_rewritten_has_only_the_findings_of_what_is_there(stored: Shell) -> None:
    scan(stored)
    stored("rm", THERE, "--yes")
    found = scan(stored)["secrets"]
    assert [(each["kind"], each["sighting_count"]) for each in found] == [("github-token", 2), ("password", 1)]


def test_with_other_shapes_or_another_key_all_is_looked_through_again(stored: Shell) -> None:
    whole, notes = scan(stored)["bytes_read"], stored.store.parent / "secrets.scanned"
    notes.write_text(notes.read_text("utf-8").replace('"shapes":', '"shapes":9'), "utf-8")
    assert scan(stored)["bytes_read"] == whole
    notes.write_text("damaged", "utf-8")
    assert scan(stored)["bytes_read"] == whole
    (stored.store.parent / "mask.key").unlink()
    assert scan(stored)["bytes_read"] == whole


def test_a_scan_chooses_sessions_as_a_list_does(stored: Shell) -> None:
    assert [each["sighting_count"] for each in scan(stored, THERE)["secrets"]] == [1]
    assert [each["sighting_count"] for each in scan(stored, "--grep", "token")["secrets"]] == [1]
    assert scan(stored, "--agent", "claude")["logs_read"] == 2
    assert stored("secrets", "scan", "--until", "2020-01-01").code == 66


def test_the_subagents_of_a_session_are_scanned_with_it(stored: Shell) -> None:
    path = stored.home / ".claude" / "projects" / "-w" / THERE / "subagents" / "agent-a1.jsonl"
    path.parent.mkdir(parents=True)
    told = said(8, f"and {OTHER}", THERE) | {"agentId": "a1", "isSidechain": True}
    path.write_text(json.dumps(told) + "\n", "utf-8")
    stored("ingest")
    for words in ((THERE,), ("--grep", "token")):
        assert {each["kind"] for each in scan(stored, *words)["secrets"]} == {"github-token", "slack-token"}


def test_files_beside_a_log_are_looked_through_and_no_image(bare: Shell) -> None:
    put(bare, PROMPT, said(2, "ordinary"))
    results = bare.home / ".claude" / "projects" / "-w" / HERE / "tool-results"
    results.mkdir(parents=True)
    (results / "out.txt").write_text(f"$ env\nDB_PASSWORD={PASSWORD}\n", "utf-8")
    bare("ingest")
    assert bare("ingest").code == 0
    found = scan(bare)
    assert [each["sidecar"] for each in found["secrets"][0]["sightings"]] == [f"{HERE}/tool-results/out.txt"]
    assert found["sidecars_read"] == 1
    assert "tool-results/out.txt" in bare("secrets", "scan").out


def test_without_a_home_store_that_of_the_project_is_scanned(bench: Bench) -> None:
    off: dict[str, Any] = {"environ": {"BACKSTORY_STORE_ENABLED": "0"}}
    assert bench.backstory("secrets", "scan", **off).returncode == 66
    bench.run("hello", {"say": f"use {TOKEN}"}, {"result": True}, **off)
    assert not (bench.home / "store.db").exists()
    for words in ((), ("S1",)):
        done = bench.backstory("secrets", "scan", *words, **off)
        assert done.returncode == 1, done.stderr
        assert done.stdout.startswith("github-token-")


def test_the_prompt_of_a_run_is_looked_through_though_no_log_has_it(bench: Bench) -> None:
    assert bench.run(f"use {TOKEN}", {"say": f"used {OTHER}"}, {"result": True}).returncode == 0
    found = [json.loads(bench.backstory("secrets", "scan", "--json").stdout) for _ in range(2)]
    kinds = {each["kind"]: each["sightings"] for each in found[0]["secrets"]}
    assert sorted(kinds) == ["github-token", "slack-token"]
    (place,) = kinds["github-token"]
    assert TOKEN in bench.backstory("show", place["uid"], f"@{place['seq']}").stdout
    assert (found[1]["secrets"], found[1]["bytes_read"]) == (found[0]["secrets"], 0)


@pytest.mark.parametrize("content", [b"ordinary", b"\0no text"])
def test_a_secret_in_the_name_of_a_file_is_found_and_not_printed(bare: Shell, content: bytes) -> None:
    put(bare, PROMPT, said(2, "ordinary"))
    results = bare.home / ".claude" / "projects" / "-w" / HERE / "tool-results"
    results.mkdir(parents=True)
    (results / f"{TOKEN}.txt").write_bytes(content)
    bare("ingest")
    (found,) = scan(bare)["secrets"]
    masked = f"tool-results/[{found['mask']}].txt"
    assert [each["sidecar"] for each in found["sightings"]] == [f"{HERE}/{masked}"]
    done = bare("secrets", "scan")
    assert masked in done.out
    assert TOKEN not in done.out + done.err


def test_a_secret_in_the_name_of_what_cannot_be_read_is_not_printed(bare: Shell) -> None:
    import apsw

    put(bare, PROMPT, name=TOKEN)
    with apsw.Connection(str(bare.store)) as db:
        db.execute("update chunks set data = x'00'")
    said_json, said_lines = bare("secrets", "scan", "--json"), bare("secrets", "scan")
    assert len(said_json.json()["errors"]) == 1
    assert "[github-token-" in said_lines.err
    assert not any(TOKEN in done.out + done.err for done in (said_json, said_lines))


# what was accepted ----------------------------------------------------------------------------------------------------


def test_accepted_secrets_are_counted_and_not_listed(stored: Shell) -> None:
    name = scan(stored)["secrets"][0]["mask"]
    rest = scan(stored, "--accept", name)
    assert ([each["kind"] for each in rest["secrets"]], rest["accepted_count"]) == (["password"], 1)
    done = stored("secrets", "scan", "--accept", "all")
    assert (done.code, done.out) == (0, "")
    assert "2 that you accepted" in done.err
    put(stored, said(7, f"and {OTHER}", THERE.replace("2222", "3333")), name=THERE.replace("2222", "3333"))
    assert [each["kind"] for each in scan(stored)["secrets"]] == ["slack-token"]


def test_a_baseline_is_a_file_of_ones_own(stored: Shell) -> None:
    file = stored.cwd / "baseline.json"
    assert stored("secrets", "scan", "--baseline", "baseline.json", "--accept", "all").code == 0
    said = json.loads(file.read_text("utf-8"))
    assert [sorted(each) for each in said["accepted"]] == [["fingerprint", "kind"]] * 2
    assert stored("secrets", "scan", "--baseline", "baseline.json").code == 0
    assert stored("secrets", "scan").code == 1


@pytest.mark.parametrize("content", ["", "[]", '{"accepted": []}', '{"key": "0", "accepted": []}'])
def test_a_baseline_of_another_machine_or_none_is_refused(stored: Shell, content: str) -> None:
    (stored.cwd / "baseline.json").write_text(content, "utf-8")
    done = stored("secrets", "scan", "--baseline", "baseline.json", "--accept", "all")
    assert done.code == 65
    assert (stored.cwd / "baseline.json").read_text("utf-8") == content


def test_a_secret_that_is_not_there_cannot_be_accepted(stored: Shell) -> None:
    done = stored("secrets", "scan", "--accept", "password-0000000000")
    assert done.code == 64
    assert not (stored.store.parent / "secrets.accepted").exists()


# taking sessions out --------------------------------------------------------------------------------------------------


def test_the_sessions_with_secrets_are_listed_and_go_only_after_a_question(stored: Shell) -> None:
    before = uids(stored)
    done = stored("secrets", "scan", "--rm")
    assert done.code == 64
    assert done.out.startswith("github-token-")
    assert uids(stored) == before
    kept = stored("secrets", "scan", "--rm", typed="n\n")
    assert (kept.code, uids(stored)) == (64, before)


def test_sessions_with_secrets_go_as_rm_takes_them_out(stored: Shell) -> None:
    put(stored, said(8, "ordinary", THERE.replace("2222", "4444")), name=THERE.replace("2222", "4444"))
    name = scan(stored)["secrets"][1]["mask"]
    stored("secrets", "scan", "--accept", name)
    gone = scan(stored, "--rm", "--yes")
    assert len(gone["uids"]) == 2
    assert (len(uids(stored)), stored("secrets", "scan").code) == (1, 0)
    stored("ingest")
    assert len(uids(stored)) == 1


def test_a_secret_in_the_path_of_a_log_that_stays_is_not_printed(bare: Shell) -> None:
    put(bare, PROMPT, said(2, TOKEN), name=TOKEN)
    done = bare("secrets", "scan", "--rm", "--yes")
    assert done.code == 0
    assert "Not erased: data in " in done.err
    assert TOKEN not in done.out + done.err


def test_a_session_whose_secrets_were_accepted_stays(stored: Shell) -> None:
    stored("secrets", "scan", "--accept", "all")
    assert stored("secrets", "scan", "--rm", "--yes").code == 0
    assert len(uids(stored)) == 2


# a word when logs are read --------------------------------------------------------------------------------------------


def test_ingest_says_that_secrets_came_only_if_it_is_asked_to(stored: Shell) -> None:
    third = THERE.replace("2222", "3333")
    put(stored, said(7, f"and {OTHER}", third), name=third)
    assert not (stored.store.parent / "secrets.scanned").exists()
    stored("config", "set", "secrets.warn", "true")
    assert stored("ingest").err.splitlines()[-1] == "3 new secrets are in what was read: backstory secrets scan"
    assert stored("ingest").err == ""


def test_ingest_warns_once_of_what_came_and_not_of_what_was_accepted(stored: Shell) -> None:
    stored("config", "set", "secrets.warn", "true")
    stored("secrets", "scan")
    path, fourth = stored.home / ".claude" / "projects" / "-w" / f"{HERE}.jsonl", said(9, f"and {OTHER}")
    path.write_text(path.read_text("utf-8") + json.dumps(fourth) + "\n", "utf-8")
    done = stored("ingest", "--json")
    assert done.err == "1 new secret is in what was read: backstory secrets scan\n"
    assert done.json()["events_new"] == 1
    assert OTHER not in done.out + done.err
    stored("secrets", "scan", "--accept", "all")
    (stored.store.parent / "secrets.scanned").unlink()
    assert stored("ingest").err == ""


def test_ingest_says_that_the_accepted_are_of_another_machine_and_goes_on(stored: Shell) -> None:
    stored("config", "set", "secrets.warn", "true")
    stored("secrets", "scan", "--accept", "all")
    (stored.store.parent / "mask.key").unlink()
    done = stored("ingest")
    assert (done.code, len(done.err.splitlines())) == (0, 2)
    assert "secrets.accepted cannot be the baseline: it was made with another mask.key" in done.err
    assert done.err.endswith("2 new secrets are in what was read: backstory secrets scan\n")
    assert (stored("ingest").code, stored("ingest").err) == (0, "")


# a scan that was stopped ----------------------------------------------------------------------------------------------


def test_a_scan_that_was_stopped_goes_on_where_it_was(stored: Shell) -> None:
    whole = scan(stored)
    (stored.store.parent / "secrets.scanned").unlink()
    read = list[int]()

    def stop(done: int, total: int) -> None:
        read.append(done)
        raise KeyboardInterrupt

    with open_store(stored.store, shared=True) as store, pytest.raises(KeyboardInterrupt):
        SecretScan(stored.store.parent, lambda: 0).scan(store, None, stop)
    rest = scan(stored)
    assert (rest["bytes_read"], rest["secrets"]) == (whole["bytes_read"] - read[0], whole["secrets"])


def test_a_long_scan_is_noted_while_it_goes_on(stored: Shell) -> None:
    notes, clock, noted = stored.store.parent / "secrets.scanned", iter(range(0, 1_000_000, 5_000)), list[bool]()
    with open_store(stored.store, shared=True) as store:
        SecretScan(stored.store.parent, lambda: next(clock)).scan(
            store, None, lambda done, total: noted.append(notes.exists())
        )
    assert noted == [True, True]


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_scanned(stored: Shell, tmp_path: Path) -> None:
    import apsw

    with apsw.Connection(str(stored.store)) as db:
        db.execute("update chunks set data = x'00' where id = (select min(id) from chunks)")
    found = scan(stored)
    assert len(found["errors"]) == 1
    assert [each["sighting_count"] for each in found["secrets"]] == [1]
