"""``doctor --bundle``: what it has, and that nothing is in it which a person wrote, or that names people or places."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import agents
from backstory.config import SETTINGS
from backstory.store import open_store, schema
from backstory.workspace.care.bundle import ABOUT, VARIABLES
from tests.support.forked import COMMAND
from tests.support.shell import Shell
from tests.support.small_disk import small_disk
from tests.support.spooled import spooled
from tests.support.strange_records import NEW_KEY, NEW_TYPE, PROMPT, put, record
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

IN_THE_WAY, NOT_CONFIRMED, FULL = 73, 64, 74


def bundle(shell: Shell, **environ: str) -> dict[str, Any]:
    """What is in a bundle, by its files."""
    done = shell("doctor", "--bundle", "b.zip", "--yes", **environ)
    assert done.code == 0, done.err
    with zipfile.ZipFile(shell.cwd / "b.zip") as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


class Words:
    """Words that nothing of ours has, each another one, and as many as were given out."""

    def __init__(self) -> None:
        self.given = list[str]()

    def __call__(self) -> str:
        number, letters = len(self.given), ""
        while number or not letters:
            number, letter = divmod(number, 20)
            letters += "bcdfghjklmnpqrstvwxz"[letter]
        self.given.append(f"quyxquyxquyx{letters.rjust(4, 'y')}ux")
        return self.given[-1]


def plant(path: Path, word: Words) -> None:
    """Put a word of its own into every column of text of every row, one row at least, and into texts that are blobs."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("pragma foreign_keys = 0").fetchall()
        db.create_scalar_function("planted", lambda *_: word(), -1)
        db.create_scalar_function("folded", lambda *_: "", -1)
        for (name,) in db.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
            db.execute(f"drop trigger {name}").fetchall()
        for table, columns in schema.columns().items():
            known = {row[1]: str(row[2]) for row in db.execute(f"pragma table_info({table})").fetchall()}
            if table == "meta":
                db.execute("insert into meta(key, value) values (planted(), planted())").fetchall()
                db.execute("update meta set value = planted() where key in ('store_id', 'root', 'moves')").fetchall()
                continue
            texts = [each.name for each in columns if known[each.name].lower() == "text"]
            if not db.execute(f"select count(*) from {table}").get:
                values = ["planted()" if each.name in texts else "1" for each in columns]
                names = ", ".join(each.name for each in columns)
                db.execute(f"insert into {table}({names}) values ({', '.join(values)})").fetchall()
            for name in texts:
                # Something stays for each kind of row to be counted as what it is.
                kept = " where rowid % 2" if table in ("events", "logs") and name in ("kind", "agent") else ""
                if table != "events" or name != "data":
                    db.execute(f"update {table} set {name} = planted({name}){kept}").fetchall()


@pytest.fixture
def word() -> Words:
    return Words()


@pytest.fixture
def planted(tmp_path: Path, word: Words) -> Iterator[Shell]:
    """A machine of one person, who left a word in every place that has one."""
    home = tmp_path / word()
    home.mkdir()
    shell = Shell(home)
    shell.cwd = home / "work" / word()
    shell.cwd.mkdir(parents=True)
    shell.environ["BACKSTORY_HOME"] = str(home / word())
    for git in (("init", "-q", "-b", word()), ("config", "user.name", word()), ("config", "user.email", word())):
        subprocess.run(["git", *git], cwd=shell.cwd, check=True)
    said: dict[str, Any] = {
        "message": {"role": "user", "content": word(), f"/{word()}/x": word()},
        f"9{word()}": word(),
    }
    texts = [record(4 + number, type="telepathy", said=word(), on=[{"by": word()}], **said) for number in range(20)]
    put(shell, PROMPT, NEW_KEY, NEW_TYPE, *texts)
    shell.put("claude/tools")
    assert shell("ingest").code == 0
    for number in range(60):
        (shell.home / ".claude/projects/-w" / f"{number:08}-2222-4333-8444-555555555555.jsonl").write_text(
            json.dumps(PROMPT | {"uuid": f"0000{number:04}-0000-4000-8000-000000000001", "cwd": f"/{word()}",
                                 "sessionId": f"{number:08}-2222-4333-8444-555555555555",
                                 "message": {"role": "user", "content": word()}}) + "\n"
        )  # fmt: skip
    assert shell("ingest").code == 0
    own = Path(shell.environ["BACKSTORY_HOME"])
    plant(own / "store.db", word)
    (own / "projects").mkdir(mode=0o700)
    (own / "projects" / ("0" * 26)).write_text(f"/{word()}/{word()}/.backstory/sessions.bks")
    session = open_store(own / "other.db").create_session()
    spool = spooled(own, session, megabytes=1)
    spool.stdout.write_text(word())
    spool.note_trouble(word())
    (own / "server.json").write_text(json.dumps({"address": f"https://{word()}", "token": word(), "name": word()}))
    lines = dict[str, list[str]]()
    for each in SETTINGS:
        table, _, name = each.key.partition(".")
        if isinstance(each.default, str) and not each.choices and not each.is_agent:
            lines.setdefault(table, []).append(f'{name} = "{word()}"')
        elif isinstance(each.default, list) and not each.is_agent and each.key != "ingest.places":
            lines.setdefault(table, []).append(f'{name} = ["{word()}/{word()}"]')
    lines["agents"] = [f'claude = "/{word()}/{word()}"', f'{word()} = "{word()}"']
    text = "".join(f"[{table}]\n" + "".join(f"{each}\n" for each in of) for table, of in lines.items())
    config = own / "config.toml"
    config.touch(0o600)
    config.write_text(text)
    shell.environ |= {name: word() for name in ("USER", "LOGNAME", "EDITOR", "XDG_DATA_HOME", "GIT_AUTHOR_NAME")}
    yield shell


def test_no_word_that_anybody_wrote_is_in_it(planted: Shell, word: Words) -> None:
    found = bundle(planted)
    assert len(word.given) > 1_000
    with zipfile.ZipFile(planted.cwd / "b.zip") as archive:
        told = b"".join([archive.read(name) for name in archive.namelist()])
        told += " ".join(archive.namelist()).encode() + archive.comment
    told += (planted.cwd / "b.zip").read_bytes()
    assert [each for each in word.given if each.encode() in told] == []
    assert str(planted.home.parent).encode() not in told
    # What is there is there all the same.
    (store,) = found["stores.json"]
    assert (store["role"], store["state"], store["events"]["*"] > 0, store["rows"]["sessions"] > 60) == (
        "home", "whole", True, True,
    )  # fmt: skip
    assert found["shapes.json"]
    assert {"store-gone", "run-not-stored", "home-open"} <= {each["finding"] for each in found["findings.json"]}
    assert found["settings.json"]["settings"] != "unreadable"


def test_each_file_says_what_it_should(bare: Shell) -> None:
    told = {"content": [{"text": 1}, {"text": "x"}], "/a": True}
    put(bare, PROMPT, NEW_TYPE | told, record(4, type="telepathy", content=None))
    found = bundle(bare, BACKSTORY_RUN_AGENT="")
    assert set(found) == set(ABOUT)
    assert {"backstory", "python", "sqlite", "apsw", "schema", "system"} <= set(found["versions.json"])
    settings = {each["key"]: each for each in found["settings.json"]["settings"]}
    assert settings["list.limit"] == {"key": "list.limit", "value": 50, "is_set": False}
    assert found["settings.json"]["variables"] == ["BACKSTORY_HOME"]
    (store,) = found["stores.json"]
    assert (store["events"]["Unknown"], store["logs"], store["rows"]["sessions"]) == (2, {"claude file": 1}, 1)
    (agent,) = found["agents.json"]
    assert (agent["agent"], agent["version"], agent["unknown_records"]) == ("claude", "2.9.0", 2)
    assert found["findings.json"] == [{"finding": "format-newer", "count": 1}]
    assert all(isinstance(each, float) for each in found["timings.json"].values())
    known = {"uuid", "parentUuid", "sessionId", "cwd", "timestamp", "version", "isSidechain", "userType", "type"}
    one, other = sorted((each["shape"] for each in found["shapes.json"]), key=len, reverse=True)
    assert {each["kind"] for each in found["shapes.json"]} == {"*"}
    assert set(one) == known | {"content", "*"} and set(other) == known | {"content"}
    assert (one["content"], one["*"], other["content"]) == ([{"text": "number"}, {"text": "string"}], "string", "null")


@pytest.mark.parametrize("place", ["type", "subtype", "key", "below", "in a list", "version"])
@pytest.mark.parametrize(
    "said",
    ["acme/zebra-app", "zebrapassword7", "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", "feature/zebra-merger",
     "home/ann/zebra", "ann-zebra-laptop", "annzebra", "987654.123456.555", "192.168.77.31"],
)  # fmt: skip
def test_no_word_that_looks_like_one_of_a_format_is_told(bare: Shell, said: str, place: str) -> None:
    places: dict[str, dict[str, Any]] = {
        "type": {"type": said}, "subtype": {"type": "system", "subtype": said}, "key": {said: 1},
        "below": {"message": {said: {said: 1}}}, "in a list": {"content": [{"type": said, said: [{said: 1}]}]},
        "version": {"version": said},
    }  # fmt: skip
    put(bare, PROMPT, record(3, **{"type": "telepathy"} | places[place]))
    found = bundle(bare)
    assert said not in json.dumps(found), json.dumps(found["shapes.json"])
    assert found["shapes.json"] and found["agents.json"][0]["unknown_records"] == 1


def test_types_and_keys_of_a_known_format_are_told(bare: Shell) -> None:
    put(bare, PROMPT, record(3, type="system", subtype="zebra", message={"role": 1, "usage": {"input_tokens": "x"}}))
    (shape,) = bundle(bare)["shapes.json"]
    assert shape["kind"] == "system/*"
    assert shape["shape"]["message"] == {"role": "number", "usage": {"input_tokens": "string"}}


def test_an_agent_of_another_package_is_not_named(bare: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    put(bare, PROMPT, NEW_TYPE)
    monkeypatch.setattr(agents, "is_ours", lambda name: name != "claude")
    found = bundle(bare)
    assert [each["agent"] for each in found["agents.json"]] == ["*"]
    assert "claude" not in json.dumps([found["stores.json"], found["shapes.json"], found["errors.json"]])


def test_it_is_printed_before_it_is_written(machine: Shell) -> None:
    with Terminal([*COMMAND, "doctor", "--bundle", "b.zip"], machine.cwd, machine.environ, is_copied=True) as terminal:
        terminal.until("go on? [y/N]")
        assert not (machine.cwd / "b.zip").exists()
        terminal.type("n\r")
        shown = terminal.end()
    assert all(name in shown for name in ABOUT)
    assert not (machine.cwd / "b.zip").exists()


def test_without_a_person_or_yes_it_is_printed_alone(machine: Shell) -> None:
    done = machine("doctor", "--bundle", "b.zip")
    assert (done.code, "timings.json" in done.out, (machine.cwd / "b.zip").exists()) == (NOT_CONFIRMED, True, False)


def test_it_is_for_its_owner_alone_and_replaces_nothing(machine: Shell) -> None:
    bundle(machine)
    assert (machine.cwd / "b.zip").stat().st_mode & 0o777 == 0o600
    before = (machine.cwd / "b.zip").read_bytes()
    assert machine("doctor", "--bundle", "b.zip", "--yes").code == IN_THE_WAY
    assert (machine.cwd / "b.zip").read_bytes() == before


def test_settings_and_stores_that_cannot_be_read_stop_nothing(machine: Shell) -> None:
    machine.store.write_bytes(machine.store.read_bytes()[:5000])
    (machine.store.parent / "config.toml").write_text("[run\n")
    found = bundle(machine)
    assert found["settings.json"]["settings"] == "unreadable"
    assert [each["state"] for each in found["stores.json"]] == ["damaged"]
    assert {"store-damaged", "settings-broken"} <= {each["finding"] for each in found["findings.json"]}


def test_a_full_disk_leaves_no_part_of_it(machine: Shell) -> None:
    disk = machine.home / "disk"
    disk.mkdir()
    with small_disk(disk, 1):
        with suppress(OSError):
            (disk / "fill").write_bytes(b"x" * 2 * 1024 * 1024)
        done = machine("doctor", "--bundle", str(disk / "b.zip"), "--yes")
        assert (done.code, os.listdir(disk)) == (FULL, ["fill"])  # noqa: PTH208


def test_names_of_variables_are_ours() -> None:
    assert all(each.isupper() for each in VARIABLES)
