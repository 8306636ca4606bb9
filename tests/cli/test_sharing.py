"""What leaves the machine without its secrets: each is planted wherever a session can have one, and looked for in all
that was written, byte by byte.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.azs_files import unpacked
from tests.support.masks import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Shell

pytestmark = pytest.mark.slow

TOKEN = "ghp_x7Qm2Lp9Rk4Tz8Vb3Nc6Wd1Yf5Hg0Js2AaEe"
PASSWORD = "Tr0ub4dor-7391"
"""Only its name tells it, and only once."""
USER = "annabelle"
CLAUDE, COPILOT = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "514f3844-2975-44e4-a4d0-211fd59e36e9"
FOLDER = f"/home/{USER}/{TOKEN}/app"
EVERYWHERE = (TOKEN[4:], PASSWORD, USER)


def claude_records() -> list[dict[str, Any]]:
    def said(role: str, content: Any) -> dict[str, Any]:
        return {"type": role, "message": {"role": role, "content": content}}

    def called(made: int, name: str, **given: Any) -> dict[str, Any]:
        return said("assistant", [{"type": "tool_use", "id": f"toolu_{made}", "name": name, "input": given}])

    def came(made: int, text: str) -> dict[str, Any]:
        return said("user", [{"type": "tool_result", "tool_use_id": f"toolu_{made}", "content": text}])

    wrapped = f"a line as long as the terminal is wide, and then at its end {TOKEN[:17]}\n{TOKEN[17:]}"
    return [
        said("user", f"Use {TOKEN} and {PASSWORD} in {FOLDER}, see https://github.com/{TOKEN}/app/pull/12"),
        called(1, "Bash", command=f"curl -H 'Authorization: token {TOKEN}' -d {PASSWORD} {FOLDER}"),
        came(1, f"{wrapped}\n{json.dumps({'a': json.dumps({'token': TOKEN, 'x': f'a{chr(10)}{TOKEN}'})})}"),
        called(2, "Write", file_path=f"{FOLDER}/{PASSWORD}.env", content=f"DB_PASSWORD={PASSWORD}\nT={TOKEN}\n"),
        came(2, f"written {FOLDER}/{PASSWORD}.env"),
        called(3, "mcp__x__y", **{TOKEN: {"env": {"DB_PASSWORD": PASSWORD}}, "argv": ["--password", PASSWORD]}),
        came(3, f"https%3A%2F%2Flogin%3A{PASSWORD}%40host%2F{TOKEN}"),
        called(4, "Bash", command="git commit -am x"),
        came(4, f"[{TOKEN} 0123abc] Put {PASSWORD} away\n 1 file changed\n create mode 100644 a"),
        said("assistant", [{"type": "text", "text": f"Done: `{TOKEN}`, {PASSWORD}, {FOLDER}."}]),
        {"type": "summary", "summary": f"Keep {TOKEN} {PASSWORD}", "leafUuid": "u9"},
    ]


def copilot_records() -> list[dict[str, Any]]:
    def record(kind: str, n: int, **data: Any) -> dict[str, Any]:
        return {"type": kind, "data": data, "id": f"r{n}", "timestamp": f"2026-05-01T10:00:{n:02}.000Z"}

    where = {"cwd": FOLDER, "branch": f"fix/{TOKEN}", "repository": f"{TOKEN}/app", "gitRoot": FOLDER}
    call = {
        "toolCallId": "c1",
        "toolName": "bash",
        "arguments": {"command": f"gh pr create --title {PASSWORD} {TOKEN}"},
    }
    edit = {"toolCallId": "c2", "toolName": "edit", "arguments": {"path": f"{FOLDER}/{PASSWORD}.txt"}}
    url = f"https://github.com/{TOKEN}/app/pull/7"
    return [
        record("session.start", 0, sessionId=COPILOT, version=1, producer="copilot-agent", context=where),
        record("user.message", 1, content=f"password: {PASSWORD} and {TOKEN}", transformedContent=TOKEN),
        record("tool.execution_start", 2, **call),
        record("tool.execution_complete", 3, toolCallId="c1", success=True, result={"content": url}),
        record("tool.execution_start", 4, **edit),
        record("tool.execution_complete", 5, toolCallId="c2", success=True, result={"content": TOKEN}),
        record("assistant.message", 6, messageId="m", content=f"{TOKEN} {PASSWORD}", toolRequests=[]),
    ]


@pytest.fixture
def planted(bare: Shell) -> Shell:
    """A machine with a session of each of two agents, full of secrets."""
    claude = bare.home / ".claude" / "projects" / f"-home-{USER}-app" / f"{CLAUDE}.jsonl"
    whole = [
        {"sessionId": CLAUDE, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "cwd": FOLDER,
         "gitBranch": f"fix/{TOKEN}", "version": "2.1.0", "timestamp": f"2026-05-01T10:00:{n:02}.000Z", **each}
        for n, each in enumerate(claude_records())
    ]  # fmt: skip
    copilot = bare.home / ".copilot" / "session-state" / COPILOT
    files = {
        claude: whole,
        copilot / "events.jsonl": copilot_records(),
    }
    for path, records in files.items():
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    yaml = (
        f"id: {COPILOT}\ncwd: {FOLDER}\nname: About {TOKEN} {PASSWORD}\nbranch: fix/{TOKEN}\nrepository: {TOKEN}/app\n"
    )
    (copilot / "workspace.yaml").write_text(yaml)
    (copilot / "files").mkdir()
    (copilot / "files" / f"{PASSWORD}.md").write_text(f"# Notes\n{TOKEN} {PASSWORD} {FOLDER}\n")
    (copilot / "checkpoints").mkdir()
    checkpoint = f"<overview>{TOKEN}</overview><history>{PASSWORD}</history><work_done>{FOLDER}</work_done>"
    (copilot / "checkpoints" / "001-x.md").write_text(checkpoint)
    assert bare("ingest").code == 0
    return bare


def leaked(data: bytes, *words: str) -> list[str]:
    """The secrets of which something stands in bytes, whatever an index made of them."""
    lowered = data.lower()
    return [word for word in words or EVERYWHERE if word.lower().encode() in lowered]


@pytest.mark.parametrize("session", [CLAUDE, COPILOT])
@pytest.mark.parametrize("options", [["--md"], ["--md", "--full"], ["--outline"], ["--outline", "--json"]], ids=str)
def test_no_secret_is_in_what_is_shown_to_others(planted: Shell, session: str, options: list[str]) -> None:
    open_ = planted("show", session, *options)
    assert TOKEN[4:].encode() in open_.out.encode()
    done = planted("show", session, *options, "--redact")
    assert (done.code, leaked(done.out.encode())) == (0, [])
    assert "[github-token-1]" in numbered(done.out)
    assert "github-token" in done.err
    assert leaked(done.err.encode()) == []


def test_markdown_and_json_say_how_many_secrets_are_in_them(planted: Shell, tmp_path: Path) -> None:
    told = "2 secrets in it, not masked: add --redact before you share it."
    assert told in planted("show", CLAUDE, "--md").err
    for form in ("json", "md"):
        written = planted("export", CLAUDE, "--format", form, "-o", tmp_path / form)
        assert told in written.err, written.err
        masked = planted("export", CLAUDE, "--format", form, "-o", tmp_path / f"masked.{form}", "--redact")
        assert "not masked" not in masked.err


@pytest.mark.parametrize("options", [["copilot"], ["copilot", "--exact"], ["ah"], ["azs"]], ids=str)
def test_no_secret_is_in_an_export(planted: Shell, tmp_path: Path, options: list[str]) -> None:
    target = tmp_path / "out"
    done = planted("export", "--all", "--format", *options, "-o", target, "--redact", "--json")
    assert done.code == 0, done.err
    written = [target] if target.is_file() else sorted(each for each in target.rglob("*") if each.is_file())
    assert written
    for file in written:
        assert leaked(str(file.relative_to(tmp_path)).encode()) == []
        assert leaked(file.read_bytes()) == [], file
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    reports = done.json().get("exports", [done.json()])
    assert sum(report["masked"]["github-token"] for report in reports) > 5
    assert "github-token" in done.err


@pytest.mark.parametrize("sessions", [["--all"], [CLAUDE], [COPILOT]], ids=str)
def test_no_secret_is_in_a_page_that_is_exported(planted: Shell, tmp_path: Path, sessions: list[str]) -> None:
    done = planted("export", *sessions, "--format", "html", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    written = [tmp_path / "out"] if sessions != ["--all"] else [*(tmp_path / "out").iterdir()]
    for file in written:
        assert leaked(file.name.encode()) == []
        assert leaked(file.read_bytes()) == [], file
        assert b"[github-token-" in file.read_bytes()
    assert "github-token" in done.err


@pytest.mark.parametrize("sessions", [["--all"], [CLAUDE], [COPILOT]], ids=str)
def test_no_secret_is_in_a_trajectory_that_is_masked(planted: Shell, tmp_path: Path, sessions: list[str]) -> None:
    done = planted("export", *sessions, "--format", "atif", "-o", tmp_path / "out", "--redact")
    assert done.code == 0, done.err
    written = [tmp_path / "out"] if sessions != ["--all"] else [*(tmp_path / "out").iterdir()]
    for file in written:
        assert leaked(file.read_bytes()) == [], file
        assert json.loads(file.read_bytes())["steps"]
    assert "github-token" in done.err


def test_an_export_of_copilot_has_its_rows_with_masks_that_belong_together(planted: Shell, tmp_path: Path) -> None:
    target = tmp_path / "store.db"
    assert planted("export", "--all", "--format", "copilot", "-o", target, "--redact").code == 0
    with closing(sqlite3.connect(target)) as db:
        branches = {numbered(row[0]) for row in db.execute("select branch from sessions")}
        assert branches == {"fix/[github-token-1]"}
        files = [numbered(row[0]) for row in db.execute("select file_path from session_files")]
        assert files
        assert all(path.startswith("/home/[user-1]/[github-token-1]/app/[password-1]") for path in files), files
        found = db.execute("select count(*) from search_index where search_index match 'github'").fetchone()
        assert found[0] > 0


def test_no_secret_is_in_the_packed_cells_of_an_export(planted: Shell, tmp_path: Path) -> None:
    target = tmp_path / "sessions.azs"
    assert planted("export", "--all", "--format", "azs", "-o", target, "--redact").code == 0
    with closing(sqlite3.connect(target)) as db:
        said = b"".join(json.dumps(unpacked(cell)).encode() for (cell,) in db.execute("select data from events"))
    assert "[github-token-1]" in numbered(said.decode())
    assert leaked(said) == []


def test_an_export_without_redact_says_what_was_said(planted: Shell, tmp_path: Path) -> None:
    target = tmp_path / "store.db"
    done = planted("export", "--all", "--format", "copilot", "-o", target, "--json")
    assert done.json()["masked"] is None
    assert leaked(target.read_bytes(), TOKEN, PASSWORD) == [TOKEN, PASSWORD]


def test_a_log_without_secrets_is_exported_as_it_would_be_without_redact(read_once: Shell, tmp_path: Path) -> None:
    def rows(name: str, *options: str) -> list[tuple[Any, ...]]:
        target = tmp_path / name
        assert read_once("export", "--all", "--format", "copilot", "-o", target, *options).code == 0
        with closing(sqlite3.connect(target)) as db:
            tables = ("turns", "session_refs", "checkpoints")
            return [row for table in tables for row in db.execute(f"select * from {table} order by 1, 2")]

    plain = [tuple(str(each).replace("/home/dev", "/home/[user-1]") for each in row) for row in rows("plain")]
    assert [tuple(numbered(str(each)) for each in row) for row in rows("masked", "--redact")] == plain


def test_the_outline_names_prompts_decisions_and_commits_with_their_records(bare: Shell) -> None:
    def said(role: str, content: Any) -> dict[str, Any]:
        return {"type": role, "message": {"role": role, "content": content}}

    asked = {"questions": [{"question": "Which way?", "options": []}]}
    git = "[main 0123abc] Make it green\n 1 file changed, 1 insertion(+)\n create mode 1 a\n"
    answer = 'Answered: "Which way?"="The short one".'
    records = [
        said("user", "Fix the build\nplease"),
        said("assistant", [{"type": "tool_use", "id": "t1", "name": "AskUserQuestion", "input": asked}]),
        said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": answer}]),
        said("assistant", [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "git commit -m x"}}]),
        said("user", [{"type": "tool_result", "tool_use_id": "t2", "content": git}]),
        said("assistant", [{"type": "text", "text": "Done."}]),
        said("user", "Thanks"),
    ]  # fmt: skip
    path = bare.home / ".claude" / "projects" / "p" / f"{CLAUDE}.jsonl"
    path.parent.mkdir(parents=True)
    more = {"sessionId": CLAUDE, "cwd": "/p", "version": "2.1.0"}
    lines = [
        {**more, "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None,
         "timestamp": f"2026-05-01T10:00:0{n}.000Z", **each}
        for n, each in enumerate(records)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    assert bare("ingest").code == 0
    told = bare("show", CLAUDE, "--outline", "--json").json()
    assert [(each["kind"], each["seq"], each["turn"], each["text"]) for each in told["points"]] == [
        ("prompt", 1, 1, "Fix the build please"),
        ("decision", 3, 1, "Which way? → The short one"),
        ("commit", 5, 1, "0123abc Make it green"),
        ("prompt", 7, 2, "Thanks"),
    ]
    assert told["session"]["turn_count"] == 2
    assert "masked" not in told
    assert bare("show", CLAUDE, "--outline", "--json", "--redact").json()["masked"] == {}


@pytest.mark.parametrize(
    "options",
    [["--md", "--outline"], ["--redact"], ["--md", "--json"], ["--md", "@1"], ["--outline", "-t", "1"]],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused(read_once: Shell, options: list[str]) -> None:
    done = read_once("show", *options)
    assert (done.code, done.out) == (2, "")
