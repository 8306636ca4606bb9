"""``export --format json|md`` and ``import`` as people meet them: files, streams, disks that are full, and kills."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from tests.support.counts import steps
from tests.support.machines import claude_line, differences
from tests.support.memory import PROGRAM
from tests.support.portable import held
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow


@pytest.fixture
def other(tmp_path: Path) -> Shell:
    """A machine without logs."""
    home = tmp_path / "other"
    home.mkdir()
    return Shell(home)


@pytest.fixture(scope="module")
def exported_once(read_once: Shell, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("exported") / "all.jsonl"
    done = read_once("export", "--all", "--format", "json", "-o", path)
    assert done.code == 0, done.err
    return path.read_bytes()


@pytest.fixture
def file(exported_once: bytes, tmp_path: Path) -> Path:
    """All sessions of a machine."""
    (tmp_path / "all.jsonl").write_bytes(exported_once)
    return tmp_path / "all.jsonl"


def content(path: Path) -> dict[str, dict[str, object]]:
    with open_store(path) as store:
        return held(store)


@pytest.mark.parametrize(("name", "begins"), [("one.json", '{"type":'), ("one.jsonl", '{"type":'), ("one.md", "# ")])
def test_the_name_of_a_file_says_in_which_format_it_is(
    read_once: Shell, tmp_path: Path, name: str, begins: str
) -> None:
    uid = read_once("list", "--all", "--json").json()["sessions"][0]["uid"]
    done = read_once("export", uid, "-o", tmp_path / name)
    assert done.code == 0, done.err
    assert (tmp_path / name).read_text("utf-8").startswith(begins)


def test_a_format_that_nothing_says_is_asked_for(read_once: Shell, tmp_path: Path) -> None:
    for target in ([], ["-o", tmp_path / "out.txt"], ["-o", "-"]):
        done = read_once("export", "--all", *target)
        assert (done.code, done.out) == (2, "")
        assert "Missing option '--format'. Choose from: json, md, " in done.err
        assert "A file that ends in .json or .jsonl or .md or .html needs none." in done.err
    assert not (tmp_path / "out.txt").exists()


def test_what_one_machine_exports_another_one_imports(read_once: Shell, other: Shell, file: Path) -> None:
    done = other("import", "--trust", file)
    count = len(read_once("list", "--all", "--json").json()["sessions"])
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("new sessions.\n")
    assert differences(content(read_once.store), content(other.store)) == []
    assert other("verify").code == 0
    assert len(other("list", "--all", "--json").json()["sessions"]) == count


ASKED = [
    ("list", "--all", "--json"), ("search", "--json", "the"), ("stats", "--json"), ("stats", "--by", "tool"),
    ("sql", "--json", "select session_id is null, user_message, assistant_response from turns order by 2, 3"),
]  # fmt: skip


def test_both_machines_answer_alike(read_once: Shell, other: Shell, file: Path) -> None:
    def answers(shell: Shell) -> list[object]:
        return [(words[0], _without_ids(shell(*words, BACKSTORY_INGEST_AUTO="0").out)) for words in ASKED]

    ours = answers(read_once)
    assert other("import", "--trust", file).code == 0
    assert answers(other) == ours
    assert other("reindex", "--force").code == 0
    assert answers(other) == ours


def test_without_the_bytes_of_logs_sessions_have_the_agents_that_they_had(
    read_once: Shell, other: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "bare.jsonl"
    assert read_once("export", "--all", "--format", "json", "--no-bytes", "-o", file).code == 0
    assert other("import", "--trust", file).code == 0
    listed = [
        {each["uid"]: each["agents"] for each in shell("list", "--all", "--json").json()["sessions"]}
        for shell in (read_once, other)
    ]
    assert listed[0] == listed[1] != {}
    told = [
        shell("sql", "--json", "select distinct agents from sessions order by 1").out for shell in (read_once, other)
    ]
    assert told[0] == told[1]


def _without_ids(out: str) -> object:
    """An answer without the numbers that rows have in one file."""
    try:
        found = json.loads(out)
    except ValueError:
        return out

    def cut(value: object) -> object:
        if isinstance(value, dict):
            return {key: cut(each) for key, each in value.items() if key not in ("event_id", "score", "elapsed_ms")}
        return sorted(map(cut, value), key=str) if isinstance(value, list) else value

    return cut(found)


def test_every_session_is_restored_and_shown_alike(read_once: Shell, other: Shell, file: Path, tmp_path: Path) -> None:
    assert other("import", "--trust", file).code == 0
    for shell, name in ((read_once, "ours"), (other, "theirs")):
        assert shell("restore", "--all", "--to", tmp_path / name).code == 0
    ours, theirs = (_files(tmp_path / name) for name in ("ours", "theirs"))
    assert ours
    assert ours == theirs
    for each in read_once("list", "--all", "--json").json()["sessions"]:
        for command in ("tree", "context", "show"):
            assert read_once(command, each["uid"]).out == other(command, each["uid"]).out


def _files(folder: Path) -> dict[Path, bytes]:
    return {each.relative_to(folder): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_stream_is_read_as_a_file_is(read_once: Shell, other: Shell) -> None:
    out = read_once("export", "--all", "--format", "json", "-o", "-")
    assert out.code == 0
    done = other("import", "--trust", "-", typed=out.out)
    assert (done.code, done.err) == (0, "")
    assert differences(content(read_once.store), content(other.store)) == []


def test_a_reader_with_the_document_alone_finds_all_bytes(read_once: Shell, file: Path, tmp_path: Path) -> None:
    import base64
    import hashlib

    logs: dict[tuple[str, int], bytes] = {}
    uid = ""
    for line in file.read_text("utf-8").splitlines():
        found = json.loads(line)
        if found["type"] == "session":
            uid = found["uid"]
        elif found["type"] == "bytes":
            data = base64.b64decode(found["data"], validate=True)
            assert hashlib.sha256(data).hexdigest() == found["sha256"]
            logs[uid, found["log"]] = logs.get((uid, found["log"]), b"") + data
        elif found["type"] == "event" and "log" in found:
            record = logs[uid, found["log"]][found["position"] :][: found["length"]]
            assert b"\n" not in record
            json.loads(record)
    written = sorted(hashlib.sha256(each).hexdigest() for each in logs.values())
    assert read_once("restore", "--all", "--to", tmp_path / "logs").code == 0
    restored = {hashlib.sha256(each.read_bytes()).hexdigest() for each in (tmp_path / "logs").rglob("*.jsonl")}
    assert restored <= set(written)
    assert len(restored) > 3


def test_a_project_alone_is_exported(other: Shell, tmp_path: Path) -> None:
    target = tmp_path / "here.jsonl"
    assert other("export", "--here", "--format", "json", "-o", target).code == 66
    for name, folder in (("ours", other.cwd), ("theirs", tmp_path)):
        path = other.home / ".claude/projects/-w" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(claude_line("user", f"{name}-1", "hello", sessionId=name, cwd=str(folder)) + b"\n")
    assert other("ingest").code == 0
    assert other("export", "--here", "--all", "--format", "json", "-o", target).code == 2
    assert other("export", "--here", "--format", "json", "-o", target).code == 0
    found = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [each["native_id"] for each in found if each["type"] == "session"] == ["ours"]


# files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "md"])
def test_no_file_is_overwritten_and_the_new_one_is_private(read_once: Shell, tmp_path: Path, form: str) -> None:
    target = tmp_path / "new" / "out"
    assert read_once("export", "--all", "--format", form, "-o", target).code == 0
    assert (stat.S_IMODE(target.stat().st_mode), stat.S_IMODE(target.parent.stat().st_mode)) == (0o600, 0o700)
    before = target.read_bytes()
    done = read_once("export", "--all", "--format", form, "--redact", "-o", target)
    assert done.code == 73
    assert target.read_bytes() == before
    (target.parent / "link").symlink_to("nowhere")
    assert read_once("export", "--all", "--format", form, "-o", target.parent / "link").code == 73
    assert sorted(each.name for each in target.parent.iterdir()) == ["link", "out"]
    assert read_once("export", "--all", "--format", form, "--force", "--redact", "-o", target).code == 0
    assert target.read_bytes() != before


def test_a_damaged_session_is_named_and_the_others_come(
    read_once: Shell, other: Shell, file: Path, tmp_path: Path
) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines, 1) if b'"type":"event"' in line)
    lines[number - 1] = lines[number - 1].replace(b'"seq":', b'"seq":-', 1)
    file.write_bytes(b"".join(lines))
    strict = other("import", "--trust", "--strict", file)
    assert (strict.code, other.store.exists()) == (65, False)
    assert f"line {number}: " in strict.err
    done = other("import", "--trust", file)
    assert done.code == 1
    assert f"line {number}: " in done.err
    ours, theirs = content(read_once.store), content(other.store)
    assert len(ours.keys() - theirs.keys()) == 1
    assert (ours.keys() - theirs.keys()).pop() in done.err
    # A child of it has no parent here.
    assert [theirs[uid] | {"parent": None} for uid in theirs] == [ours[uid] | {"parent": None} for uid in theirs]


@pytest.mark.parametrize("name", ["../../../PWN", "a\\u0000b", "..", "", "a/b", "claude\\n"])
def test_a_log_of_an_agent_that_is_called_like_a_path_is_refused(
    read_once: Shell, other: Shell, file: Path, name: str
) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines, 1) if b'"type":"log"' in line)
    found = lines[number - 1]
    agent = re.search(rb'"agent":"\w+"', found)
    assert agent is not None
    lines[number - 1] = found.replace(agent.group(), f'"agent":"{name}"'.encode(), 1)
    file.write_bytes(b"".join(lines))
    strict = other("import", "--trust", "--strict", file)
    assert (strict.code, other.store.exists()) == (65, False)
    assert f"line {number}: " in strict.err
    assert other("import", "--trust", file).code == 1
    assert other("reindex").code == 0


def test_a_path_that_is_no_text_is_written_and_read(read_once: Shell, other: Shell, tmp_path: Path) -> None:
    target = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    assert read_once("export", "--all", "--format", "json", "-o", target).code == 0
    done = other("import", target)
    assert done.code == 0, done.err
    assert differences(list(content(read_once.store)), list(content(other.store))) == []


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_where_there_is_no_room_nothing_is_left(read_once: Shell, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "backstory", "export", "--all", "--format", "json", "-o", tmp_path / "small" / "out"],
        env=read_once.environ, cwd=read_once.cwd, capture_output=True, preexec_fn=_small_files, check=False,
    )  # fmt: skip
    assert done.returncode == 73, done.stderr
    assert list((tmp_path / "small").iterdir()) == []


def test_an_import_without_room_leaves_no_store(other: Shell, file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backstory", "import", file], env=other.environ, cwd=other.cwd, capture_output=True,
        preexec_fn=_small_files, check=False,
    )  # fmt: skip
    assert done.returncode in (73, 74), done.stderr
    assert list((other.home / "backstory").iterdir()) == []
    assert other("import", "--trust", file).code == 0


def test_a_file_that_is_not_there_is_an_error(other: Shell, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        done = other("import", path)
        assert (done.code, done.out) == (66, "")
        assert "Traceback" not in done.err
    assert not (other.home / "backstory").exists()


def test_what_is_no_export_is_refused(other: Shell, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"type":"user"}\n')
    done = other("import", tmp_path / "log.jsonl")
    assert (done.code, done.out) == (65, "")
    assert done.err.endswith("Nothing was imported.\n")
    assert "line 1: this is no JSON export" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "md", "--no-bytes", "-o", "x"), ("--format", "ah", "-o", "-"),
        ("--format", "json", "--exact", "-o", "x"), ("--format", "json", "-o", "-", "--json"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(read_once: Shell, words: tuple[str, ...]) -> None:
    assert read_once("export", "--all", *words).code == 2


def test_markdown_of_all_is_that_of_each(read_once: Shell) -> None:
    shown = read_once("export", "--all", "--format", "md", "-o", "-").out
    for each in read_once("list", "--all", "--json").json()["sessions"]:
        assert read_once("show", each["uid"], "--md").out in shown


# kills ---------------------------------------------------------------------------------------------------------------


def test_killed_at_any_moment_an_import_ends_the_same_when_it_is_done_again(
    read_once: Shell, other: Shell, file: Path
) -> None:
    parts, whole = set(), content(read_once.store)
    # How many changes are seen depends on how fast they are looked at; the last may come when all is done.
    for n in steps(16, every=4):
        shutil.rmtree(other.home / "backstory", ignore_errors=True)
        running = subprocess.Popen(
            [sys.executable, "-m", "backstory", "import", "--trust", file], env=other.environ, cwd=other.cwd,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        kill_after_changes(running, other.home / "backstory", 8 * (n - 1))
        with open_store(other.store) as store:
            parts.add(len(store.uids()))
        done = other("import", "--trust", file)
        assert done.code == 0, done.err
        assert differences(whole, content(other.store)) == []
        assert not (other.home / "backstory" / "import").exists()
    assert len(parts) > 1


def kill_after_changes(running: subprocess.Popen[bytes], folder: Path, changes: int) -> None:
    """Kill a process when the files of a folder changed so often, or let it end."""
    seen: set[tuple[tuple[str, int], ...]] = set()
    while running.poll() is None:
        with suppress(FileNotFoundError):
            seen.add(tuple((str(each), each.stat().st_size) for each in sorted(folder.rglob("*"))))
        if len(seen) > changes:
            running.kill()
            break
    running.wait()


def test_two_imports_at_once_do_not_meet(other: Shell, file: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-m", "backstory", "import", "-"], env=other.environ, cwd=other.cwd, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert begun.stdin is not None
    begun.stdin.write(file.read_bytes())
    begun.stdin.flush()
    assert other("import", file).code == 75
    begun.stdin.close()
    begun.stdin = None
    begun.communicate(timeout=120)
    assert begun.returncode == 0


# memory --------------------------------------------------------------------------------------------------------------


MEASURED = f"""{PROGRAM}
import sys
from backstory.cli import main
try:
    main()
except SystemExit as done:
    assert not done.code
print(peak_kib(), file=sys.stderr)
"""


def _peak_kib(shell: Shell, *words: object) -> int:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, words)], env=shell.environ, cwd=shell.cwd, capture_output=True,
        check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return int(done.stderr.splitlines()[-1])


@pytest.fixture
def large(other: Shell) -> Iterator[Path]:
    """A log of some MB."""
    path = other.home / ".claude/projects/-w/s.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("wb") as log:
        for n in range(3_000):
            kind = "user" if n % 2 == 0 else "assistant"
            said: object = f"word{n} " * 200 if n % 2 == 0 else [{"type": "text", "text": f"word{n} " * 200}]
            record = {"type": kind, "uuid": f"u{n}", "sessionId": "s", "timestamp": "2026-11-21T21:00:00.000Z",
                      "message": {"role": kind, "content": said}}  # fmt: skip
            log.write(json.dumps(record).encode() + b"\n")
    yield path
    path.unlink()


@pytest.mark.long
def test_memory_does_not_grow_with_a_session(other: Shell, large: Path, tmp_path: Path) -> None:
    ingest = _peak_kib(other, "ingest")
    assert _peak_kib(other, "export", "--all", "--format", "json", "-o", tmp_path / "large.jsonl") < ingest
    (tmp_path / "third").mkdir()
    assert _peak_kib(Shell(tmp_path / "third"), "import", tmp_path / "large.jsonl") < 1.15 * ingest
