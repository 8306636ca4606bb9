"""The switches of the home store and the index: what is not written with them, and what stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.bench import Bench
from tests.support.derived import derived, kept, uids

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

GOOD = {"result": True}
REMOVES = {"tool": "rm /w/needle.py"}


@pytest.fixture
def filled(bare: Shell) -> Shell:
    bare.put("claude/tools", "claude/with-a-helper", "claude/helper", "codex/mcp", "codex/resume")
    return bare


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def put(shell: Shell, key: str, value: str) -> None:
    done = shell("config", "set", key, value)
    assert done.code == 0, done.err


def ok(shell: Shell, *words: str, **environ: str) -> str:
    done = shell(*words, **environ)
    assert done.code == 0, done.err
    return done.out


def projects(shell: Shell) -> dict[str, str]:
    return {
        each["uid"]: each["project"]
        for each in json.loads(ok(shell, "list", "--all", "--subagents", "--json"))["sessions"]
    }


# index.repositories ---------------------------------------------------------------------------------------------


def test_no_row_is_derived_of_a_session_that_is_not_covered_and_all_else_is_kept(filled: Shell, tmp_path: Path) -> None:
    ok(filled, "ingest")
    everything, costs = kept(filled.store), ok(filled, "stats", "--json")
    whole = derived(filled.store)
    chosen = next(each for each in projects(filled).values() if each.endswith("claude-tools/work"))
    shutil.rmtree(filled.store.parent)
    put(filled, "index.repositories", chosen)

    ok(filled, "ingest")

    covered = {uid for uid, project in projects(filled).items() if project == chosen}
    assert covered
    assert set().union(*uids(filled.store).values()) == covered
    assert derived(filled.store) == {name: [row for row in found if row[0] in covered] for name, found in whole.items()}
    assert kept(filled.store) == everything
    assert ok(filled, "stats", "--json") == costs
    assert filled("verify").code == 0


def test_narrowed_and_reindexed_is_as_never_derived_and_widened_as_before(filled: Shell) -> None:
    ok(filled, "ingest")
    whole, everything = derived(filled.store), kept(filled.store)

    put(filled, "index.repositories", "*/claude-tools/work")
    ok(filled, "reindex")

    covered = {uid for uid, project in projects(filled).items() if project.endswith("claude-tools/work")}
    assert set().union(*uids(filled.store).values()) == covered
    assert kept(filled.store) == everything

    put(filled, "index.repositories", "")
    ok(filled, "reindex")
    assert derived(filled.store) == whole


def test_search_says_how_many_it_does_not_cover_and_when_a_reindex_is_due(filled: Shell) -> None:
    ok(filled, "ingest")
    put(filled, "index.repositories", "*/claude-tools/work")

    before = filled("search", "work", "--json").json()
    assert before["outdated"]
    ok(filled, "reindex")
    after = filled("search", "work")

    listed = json.loads(ok(filled, "list", "--all", "--json"))["sessions"]
    missing = sum(not each["project"].endswith("claude-tools/work") for each in listed)
    told = filled("search", "work", "--json").json()
    assert (told["not_covered"], told["outdated"]) == (missing, False)
    assert missing == before["not_covered"] > 0
    assert f"{missing} sessions are not covered by index.repositories" in after.err
    assert "config set index.repositories" in after.err


def test_a_report_of_a_search_says_it_too(filled: Shell) -> None:
    ok(filled, "ingest")
    put(filled, "index.repositories", "*/claude-tools/work")

    before = filled("chronicle", "search", "work", "--json")
    ok(filled, "reindex")
    after = filled("chronicle", "search", "work", "--json")

    missing = before.json()["not_covered"]
    assert missing > 0
    assert (before.json()["outdated"], after.json()["outdated"]) == (True, False)
    assert "Next: backstory reindex" in before.err
    assert f"{missing} sessions are not covered by index.repositories" in after.err


def test_no_report_says_that_a_session_edited_nothing_which_is_not_covered(filled: Shell) -> None:
    ok(filled, "ingest")
    recaps = {uid: json.loads(ok(filled, "chronicle", "recap", uid, "--json")) for uid in projects(filled)}
    edited = next(uid for uid, told in recaps.items() if told["paths"])
    put(filled, "index.repositories", "no/such")
    ok(filled, "reindex")

    told = json.loads(ok(filled, "chronicle", "recap", edited, "--json"))

    assert told["status"] != "done"
    assert "nothing was edited" not in told["reason"]
    assert "index.repositories does not cover it" in told["reason"]


def test_with_the_defaults_search_says_nothing_of_it(filled: Shell) -> None:
    ok(filled, "ingest")

    done = filled("search", "work", "--json")

    assert (done.json()["not_covered"], done.json()["outdated"], done.err) == (0, False, "")


def test_what_is_appended_to_a_log_follows_the_rule_too(filled: Shell) -> None:
    put(filled, "index.repositories", "nothing")
    log = next(filled.home.rglob("*.jsonl"))
    data = log.read_bytes()
    lines = data.splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    ok(filled, "ingest")
    log.write_bytes(data)
    # Reading takes a part of it in, if there is time.
    filled("search", "xyzzy")
    ok(filled, "ingest")

    assert set().union(*uids(filled.store).values()) == set()


def test_an_import_and_a_merge_follow_the_rule(filled: Shell, tmp_path: Path) -> None:
    ok(filled, "ingest")
    everything = kept(filled.store)
    ok(filled, "export", "--all", "--format", "json", "-o", str(tmp_path / "all.jsonl"))
    ok(filled, "backup", str(tmp_path / "other.db"))
    other = {"BACKSTORY_HOME": str(tmp_path / "other"), "BACKSTORY_INDEX_REPOSITORIES": "*/claude-tools/work"}
    covered = {uid for uid, project in projects(filled).items() if project.endswith("claude-tools/work")}

    ok(filled, "import", "--trust", str(tmp_path / "all.jsonl"), **other)
    imported = tmp_path / "other" / "store.db"
    assert set().union(*uids(imported).values()) == covered
    assert len(kept(imported)["events"]) == len(everything["events"])

    merged = tmp_path / "merged" / "store.db"
    other["BACKSTORY_HOME"] = str(merged.parent)
    ok(filled, "merge", "--foreign", "--trust", "--store", str(merged), str(tmp_path / "other.db"), **other)
    assert set().union(*uids(merged).values()) == covered
    assert len(kept(merged)["events"]) == len(everything["events"])


def test_a_run_follows_the_rule_in_its_projects_store_and_in_home(bench: Bench) -> None:
    here = {"BACKSTORY_INDEX_REPOSITORIES": "somewhere/else"}
    done = bench.run("the needle", {"say": "found needle"}, REMOVES, GOOD, environ=here)
    assert done.returncode == 0, done.stderr
    assert bench.backstory("ingest", environ=here).returncode == 0

    for path in (bench.store.path, bench.home / "store.db"):
        assert set().union(*uids(path).values()) == set(), path
        assert len(kept(path)["turns"]) == 1
        assert kept(path)["turns"][0][3] == 10


def test_home_leaves_out_what_a_projects_store_derived(bench: Bench) -> None:
    assert bench.run("the needle", {"say": "found"}, REMOVES, GOOD).returncode == 0
    assert set().union(*uids(bench.store.path).values()) != set()
    shutil.rmtree(bench.home / "store.db", ignore_errors=True)
    for each in bench.home.glob("store.db*"):
        each.unlink()

    done = bench.backstory("ingest", environ={"BACKSTORY_INDEX_REPOSITORIES": "somewhere/else"})

    assert done.returncode == 0, done.stderr
    assert len(kept(bench.home / "store.db")["turns"]) == 1
    assert set().union(*uids(bench.home / "store.db").values()) == set()


def test_home_derives_what_a_projects_store_left_out(bench: Bench) -> None:
    narrowed = {"BACKSTORY_INDEX_REPOSITORIES": "somewhere/else"}
    assert bench.run("the needle", {"say": "found"}, REMOVES, GOOD, environ=narrowed).returncode == 0
    for each in bench.home.glob("store.db*"):
        each.unlink()

    assert bench.backstory("ingest").returncode == 0

    found = uids(bench.home / "store.db")
    assert found["search_index"] and found["session_files"] and found["turn_texts"]


# index.enabled --------------------------------------------------------------------------------------------------


def test_without_an_index_no_row_of_it_is_written_and_search_says_how_to_have_one(filled: Shell) -> None:
    put(filled, "index.enabled", "false")
    ok(filled, "ingest")

    found = derived(filled.store)
    assert found["search_index"] == []
    assert found["session_files"] and found["turn_texts"]
    refused = filled("search", "work")
    assert refused.code == 78
    assert "backstory config set index.enabled true" in refused.err
    assert "backstory reindex" in refused.err
    assert filled("verify").code == 0

    put(filled, "index.enabled", "true")
    assert "backstory reindex" in filled("search", "work").err
    ok(filled, "reindex")
    assert filled("search", "work").code == 0


def test_reindex_empties_an_index_that_is_off_and_builds_it_again(filled: Shell) -> None:
    ok(filled, "ingest")
    whole = derived(filled.store)

    ok(filled, "reindex", BACKSTORY_INDEX_ENABLED="0")
    emptied = derived(filled.store)

    assert emptied == {**whole, "search_index": []}
    ok(filled, "reindex")
    assert derived(filled.store) == whole


# store.enabled --------------------------------------------------------------------------------------------------


def test_with_the_home_store_off_nothing_begins_it(filled: Shell) -> None:
    put(filled, "store.enabled", "off")

    for words in (["ingest"], ["reindex"], ["chronicle", "reindex"], ["ingest", "--watch"]):
        done = filled(*words)
        assert (done.code, done.out) == (0, ""), words
        assert "The home store is off" in done.err
        assert "backstory config set store.enabled true" in done.err
    assert filled("ingest", "--json").json() == {"off": "store.enabled"}
    assert not filled.store.exists()


def test_with_the_home_store_off_reading_takes_nothing_in(filled: Shell) -> None:
    ok(filled, "ingest")
    before = kept(filled.store)
    filled.put("codex/fork")

    done = filled("list", "--all", BACKSTORY_STORE_ENABLED="false")

    assert "The home store is off" in done.err
    assert kept(filled.store) == before
    ok(filled, "list", "--all")
    assert kept(filled.store) != before


def test_a_named_store_is_filled_all_the_same(filled: Shell, tmp_path: Path) -> None:
    ok(filled, "ingest", "--store", str(tmp_path / "named.db"), BACKSTORY_STORE_ENABLED="false")

    assert kept(tmp_path / "named.db")["sessions"]


def test_a_run_is_in_its_projects_store_only_until_home_is_on_again(bench: Bench) -> None:
    off: dict[str, Any] = {"environ": {"BACKSTORY_STORE_ENABLED": "0"}}

    done = bench.run("hello", {"say": "hi"}, GOOD, **off)

    assert done.returncode == 0, done.stderr
    assert "The home store is off" in done.stderr
    assert len(kept(bench.store.path)["turns"]) == 1
    assert not (bench.home / "store.db").exists()
    assert bench.spools() == []

    assert bench.backstory("ingest").returncode == 0
    assert kept(bench.home / "store.db")["turns"] == kept(bench.store.path)["turns"]


# whose they are -------------------------------------------------------------------------------------------------


def test_a_clone_sets_none_of_them(filled: Shell) -> None:
    folder = filled.cwd / ".backstory"
    folder.mkdir()
    (folder / "config.toml").write_text('[store]\nenabled = false\n[index]\nenabled = false\nrepositories = ["x"]\n')

    done = filled("ingest")

    assert done.err.count("only your own config may set it") == 3
    found = derived(filled.store)
    assert found["search_index"] and found["session_files"]


def test_a_variable_that_makes_no_sense_is_named(filled: Shell) -> None:
    done = filled("ingest", BACKSTORY_INDEX_ENABLED="maybe")

    assert done.code == 64
    assert "BACKSTORY_INDEX_ENABLED cannot be 'maybe': it must be true or false" in done.err
    listed = filled("config", "list", BACKSTORY_INDEX_ENABLED="maybe")
    assert "BACKSTORY_INDEX_ENABLED cannot be 'maybe'" in listed.err
