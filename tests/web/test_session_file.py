"""A session as one HTML file: all of it is there, it asks nobody for anything, and what is shared is masked."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from backstory import AssistantText, UserMessage, open_store
from backstory.cli.app import App
from backstory.cli.commands.export_command import command
from backstory.errors import PagesNotInstalled
from backstory.web import session_file as written
from backstory.workspace.located import LocatedSession
from tests.support.pages import Elements
from tests.support.session_files import EVENTS, LINES, THOUGHT, TOKEN, machine_with

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell


@pytest.fixture
def shell(empty: Shell) -> Shell:
    """A machine with one session."""
    return machine_with(empty, EVENTS)


def uid_of(shell: Shell) -> str:
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    return str(session["uid"])


def exported(shell: Shell, target: Path, *options: str) -> str:
    done = shell("export", uid_of(shell), "-o", target, *options)
    assert done.code == 0, done.err
    return target.read_text()


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    found = Elements()
    found.feed(page)
    return found.found


def test_a_file_has_all_that_every_record_says(shell: Shell, tmp_path: Path) -> None:
    page = exported(shell, tmp_path / "x.html")
    assert all(line in page for line in LINES)
    assert THOUGHT.strip() in page and "12345" in page
    assert "<strong>there</strong>" in page and "Look at **price.py**" in page


def test_what_is_said_on_the_page_is_not_said_again(shell: Shell, tmp_path: Path) -> None:
    page = exported(shell, tmp_path / "x.html")
    assert page.count("Everything that the record says") == 3
    assert page.count("Look at **price.py**") == 2, "the prompt, and it in the outline"
    assert page.count("<strong>there</strong>") == 1


def test_every_link_in_a_file_leads_to_a_place_in_it(shell: Shell, tmp_path: Path) -> None:
    found = elements(exported(shell, tmp_path / "x.html"))
    places = {attributes["id"] for _, attributes in found if "id" in attributes}
    links = [attributes["href"] or "" for tag, attributes in found if tag == "a" and "href" in attributes]
    assert len(links) > 6
    assert [each for each in links if each[:1] != "#" or each[1:] not in places] == []


def test_a_file_loads_nothing_and_its_policy_allows_only_what_is_in_it(shell: Shell, tmp_path: Path) -> None:
    page = exported(shell, tmp_path / "x.html")
    found = elements(page)
    assert [each for each in found if "src" in each[1] or (each[0] == "link" and each[1]["href"] != "data:,")] == []
    (policy,) = [attributes["content"] or "" for tag, attributes in found if "http-equiv" in attributes]
    rules = dict(each.split(" ", 1) for each in policy.split("; "))
    assert rules["default-src"] == "'none'" and rules.keys() <= {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"
    }  # fmt: skip
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert rules[rule] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_a_file_is_masked_unless_a_person_wants_it_otherwise(shell: Shell, tmp_path: Path) -> None:
    done = shell("export", uid_of(shell), "-o", tmp_path / "x.html")
    assert "github-token" in done.err
    assert TOKEN not in (tmp_path / "x.html").read_text()
    assert "[github-token-" in (tmp_path / "x.html").read_text()
    done = shell("export", uid_of(shell), "-o", tmp_path / "y.html", "--no-redact")
    assert "1 secret in it, not masked: leave out --no-redact" in done.err
    assert TOKEN in (tmp_path / "y.html").read_text()


def test_other_forms_are_masked_only_if_a_person_wants_it(shell: Shell, tmp_path: Path) -> None:
    assert TOKEN in exported(shell, tmp_path / "x.md")
    assert TOKEN not in exported(shell, tmp_path / "y.md", "--redact")


def test_an_export_of_one_session_says_what_was_written(shell: Shell, tmp_path: Path) -> None:
    done = shell("export", uid_of(shell), "-o", tmp_path / "x.html", "--json")
    report = done.json()
    assert (report["format"], report["file"], report["row_counts"]) == (
        "html",
        str(tmp_path / "x.html"),
        {"sessions": 1},
    )
    assert report["bytes"] == (tmp_path / "x.html").stat().st_size
    assert report["masked"]["github-token"] >= 2


def claude_record(session: str, n: int, **more: object) -> dict[str, object]:
    return {
        "sessionId": session, "uuid": f"{session}-{n}", "parentUuid": None, "type": "user", "cwd": "/w",
        "version": "2.1.0", "timestamp": f"2026-05-01T10:00:0{n}.000Z",
        "message": {"role": "user", "content": f"part {n}"}, **more,
    }  # fmt: skip


def test_several_sessions_are_files_of_a_folder_that_lead_to_each_other(empty: Shell, tmp_path: Path) -> None:
    session = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
    folder = empty.home / ".claude" / "projects" / "-w"
    helper = {"agentId": "a1", "isSidechain": True}
    for name, record in {
        f"{session}.jsonl": claude_record(session, 1),
        f"{session}/subagents/agent-a1.jsonl": claude_record(session, 2, **helper),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{json.dumps(record)}\n")
    assert empty("ingest").code == 0
    found = empty("list", "--all", "--helpers", "--json").json()["sessions"]
    child, uid = sorted(
        (each["uid"] for each in found), key=[each["uid"] for each in found if not each["parent_uid"]].count
    )
    done = empty("export", "--all", "--format", "html", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    assert {each.name for each in (tmp_path / "out").iterdir()} == {f"{uid}.html", f"{child}.html"}
    assert f'href="{child}.html"' in (tmp_path / "out" / f"{uid}.html").read_text()
    assert f'href="{uid}.html"' in (tmp_path / "out" / f"{child}.html").read_text()
    assert empty("export", uid, "-o", tmp_path / "x.html").code == 0
    assert f'href="{child}.html"' not in (tmp_path / "x.html").read_text()


def test_a_file_in_the_way_stays_and_nothing_is_written(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("mine")
    done = shell("export", uid_of(shell), "-o", tmp_path / "x.html")
    assert done.code == 73 and (tmp_path / "x.html").read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["x.html"]
    assert shell("export", uid_of(shell), "-o", tmp_path / "x.html", "--force").code == 0


def test_several_sessions_do_not_go_into_one_file(shell: Shell, tmp_path: Path) -> None:
    done = shell("export", "--all", "-o", tmp_path / "x.html")
    assert done.code == 2 and "name the folder" in done.err
    assert not (tmp_path / "x.html").exists()


def test_without_its_packages_the_export_says_how_to_add_them(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    asked = [uid_of(shell), "-o", str(tmp_path / "x.html")]
    done = CliRunner().invoke(command, asked, obj=App(shell.environ, shell.cwd))
    assert isinstance(done.exception, PagesNotInstalled)
    assert "markdown-it-py" in str(done.exception) and sys.executable in str(done.exception)
    assert not (tmp_path / "x.html").exists()


def test_a_branch_that_was_removed_is_not_in_a_file(shell: Shell, tmp_path: Path) -> None:
    with open_store(shell.store) as store:
        (session,) = store.sessions()
        store.append_events(session, [UserMessage(content="A way that was left")])
        before = exported(shell, tmp_path / "x.html")
        store.remove_turns(session, [store.turns(session)[-1].uid])
    after = exported(shell, tmp_path / "y.html")
    assert before.count("A way that was left") == 2 and "A way that was left" not in after


def test_a_long_session_is_read_and_given_out_a_block_at_a_time(shell: Shell) -> None:
    with open_store(shell.store) as store:
        session = store.create_session()
        for n in range(40):
            said = [AssistantText(text=f"{n}.{each} {'words ' * 40}") for each in range(100)]
            store.append_events(session, [UserMessage(content=f"part {n}"), *said])
        uid = session.uid
    with App(shell.environ, shell.cwd).new_workspace() as workspace:
        reader = workspace.reader_for_others(None)
        located = workspace.resolve(uid)
        assert isinstance(located, LocatedSession)
        most, sizes = 0, list[int]()
        for piece in written.session_file(reader, located, workspace.now()):
            most, sizes = max(most, len(reader.whole)), [*sizes, len(piece)]
    assert 0 < most <= 300
    assert len(sizes) > 4 and max(sizes) < 2 * written.PIECE_CHARS
