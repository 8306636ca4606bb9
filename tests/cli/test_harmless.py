"""Nothing that agents, other people's stores or file names hold is obeyed by a terminal, whatever command prints it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.cli import COMMANDS, cli, output
from backstory.derive import harmless
from backstory.derive.harmless import clean, clean_json
from tests.support import agent, shell
from tests.support.every import every
from tests.support.machines import CLAUDE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

EVIL = (
    "\x1b]0;title\x07\x1b[8m\x1b[35;7m\x1b[2J\x9b6n\x90q\x9c\x7f\x08\x00\u202e\u2066\u200f\u061c\u2028\u2029\x85\u200b\ufeff"
    "\U000e0041\U000e007f\r[red]!"
)
EVIL_NAME = EVIL.replace("\x00", "")
"""The same as files and arguments can be called."""
STAYS = "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\t\n"
"""Joiners, and signs before Arabic, Syriac and Kaithi numbers, which are seen; tab and newline."""
WALES = "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"
OURS = re.compile(
    r"\x1b\[(?:0|1|2|3[1-6])m|\r+\n|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\x1b\[38;5;\d+m|\x1b\[[\d;]*m(?=[━╸╺])|\r"
)
"""What we ourselves say to a terminal: plain colours, a line's end, and what a progress bar needs."""
DEADLINE_S = 60
UID, TURN = "{uid}", "{turn}"


def acting(text: str) -> list[str]:
    """Everything in a text that a terminal may obey, or that nobody sees."""
    text = text.replace(WALES, "")
    return [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") and each not in STAYS]


@every("letter", [*EVIL[:-6], "\ud800", "\udcff", "\u00ad", "\u2060", "\ufff9"], ids=ascii)
def test_what_acts_is_shown_as_an_escape(letter: str) -> None:
    shown = clean(f"a{letter}b")
    assert shown.isprintable()
    assert shown[1:-1].encode().decode("unicode_escape") == letter


def test_no_character_that_acts_is_forgotten() -> None:
    """Of all there are. Python's tables may know more of them than ours one day: then they are added."""
    everything = "".join(map(chr, range(0x110000)))
    assert acting(clean(everything)) == []


@pytest.mark.parametrize(
    "text",
    ["naïve 日本語 ✓", "می\u200cخواهم", "👩\u200d👩\u200d👧 ❤\ufe0f", WALES, "\u06dd", "two\n\tlines", "\xa0\ue0b0"],
)
def test_what_people_write_with_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert clean_json(text) == text


def test_text_hidden_in_tags_is_shown() -> None:
    assert clean("\U0001f3f4\U000e0069\U000e0067\U000e006e\U000e006f\U000e0072\U000e0065\U000e0020") != WALES
    assert acting(clean("a\U000e0069\U000e0067\U000e006e\U000e007f")) == []


@given(st.recursive(st.text() | st.integers(-9, 9), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_has_the_same_value_and_nothing_that_acts(value: Any) -> None:
    told = output.encoded({"it": value, "evil": EVIL})
    assert json.loads(told) == {"it": value, "evil": EVIL}
    assert acting(told) == []


def test_json_of_a_name_that_is_no_text_is_json() -> None:
    assert json.loads(output.encoded({"path": "/a\udcff"})) == {"path": "/a\udcff"}


def test_only_style_makes_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.data(output.style("\x1b[31mtheirs", fg="green") + "\x1b[32m")
    assert capsys.readouterr().out == "\x1b[32m\\x1b[31mtheirs\x1b[0m\\x1b[32m\n"


def test_nobody_else_writes_to_the_terminal() -> None:
    """The whole package but the one writer, and what is answered before any import: `--version`, a handshake.

    The screen paints: its texts become strips in one module, in which each passes ``output.pieces``; and lines of the
    field for prompts, which are of Textual's own kind. The painter sends cells of these.
    """
    source = Path(output.__file__).parent.parent
    writes = re.compile(
        r"click\.(echo|secho|confirm|prompt|style|pause|progressbar|echo_via_pager|edit|clear|getchar)\b|(?<![\w.>])print\("
        r"|\bsys\.(__)?std(out|err)(__)?(\.buffer)?\.(write|writelines)|\bos\.write\([12],"
        r"|import (echo|secho|confirm|prompt)\b|from rich|import rich"
    )
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(writes.search(line) for line in path.read_text("utf-8").splitlines() if ">>> " not in line)
    }
    of_the_screen = {"cli/tui/strips.py", "cli/tui/prompt_field.py", "cli/tui/painting.py"}
    assert found == {"__main__.py", "cli/output.py", "mcp/lobby.py", *of_the_screen}


COPY = f"copy {EVIL_NAME}"
"""A folder with another copy of the project's store."""


class Hostile:
    """A machine and a project in which everything that can be called something is called something evil."""

    def __init__(self, root: Path, uid: str = "") -> None:
        self.root, self.project = root, root / "project"
        self.uid = uid
        """Of the session that was read from a log, not run."""
        self.environ = {
            "HOME": str(root), "BACKSTORY_HOME": str(root / "backstory"), "TERM": "xterm-256color",
            "PATH": f"{root / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "RECEIVED": str(root / "received"),
            "SCRIPT": json.dumps(SCRIPT), "PAGER": "cat",
        }  # fmt: skip

    def prepare(self) -> None:
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        (self.project / ".git/HEAD").write_text(f"ref: refs/heads/{EVIL_NAME}\n")
        (self.project / ".git/config").write_text(f'[remote "origin"]\n\turl = https://git.example/{EVIL_NAME}/x.git\n')
        programs = self.root / "bin"
        programs.mkdir()
        agent.install(programs)
        self._write_logs(self.root / CLAUDE_FOLDER)
        self("ingest", expect=0)
        self("run", "-a", "claude", f"go {EVIL_NAME}")
        self("run", "-a", "claude", f"again {EVIL_NAME}")
        self("checkout", "-S", "S1", "@2")
        self("run", "-a", "claude", "-S", "S1", f"other branch {EVIL_NAME}")
        self("branch", "name", "-S", "S1", f"branch {EVIL_NAME}", expect=0)
        self("rename", "S1", f"name {EVIL_NAME}", expect=0)
        self("followup", "--no-run", "-S", "S1", f"later {EVIL_NAME}", expect=0)
        self("board", "add", "evil-note", EVIL_NAME, "-d", EVIL_NAME, "--agent", EVIL_NAME, expect=0)
        shutil.copytree(self.project / ".backstory", self.root / COPY / ".backstory")
        self("run", "-a", "claude", "-S", "S1", "since the copy")
        (self.uid, *_) = [str(each["uid"]) for each in self.sessions() if not each["number"]]

    def _write_logs(self, folder: Path) -> None:
        beside = folder / "one/tool-results"
        beside.mkdir(parents=True)
        (beside / f"{EVIL_NAME}.txt").write_text(EVIL)
        (beside / f"{EVIL_NAME}.bin").write_bytes(bytes(3_000_000))
        lines = [json.dumps(record(self.project, n, **more)) + "\n" for n, more in enumerate(RECORDS)]
        (folder / "one.jsonl").write_text("".join(lines))
        (folder / f"{EVIL_NAME}.jsonl").write_text("".join(lines[:2]).replace('"one"', '"two"'))
        (folder / f"bad {EVIL_NAME}.jsonl").write_text("no log\n")
        (folder / os.fsdecode(b"bad \xff\x9b.jsonl")).write_text("no log\n")
        os.mkfifo(folder / f"pipe {EVIL_NAME}.jsonl")

    def __call__(self, *words: str, expect: int | None = None) -> subprocess.CompletedProcess[str]:
        if words[0] in shell.INSIDE and not shell.is_long():
            said = shell.in_this_process(words, "", self.project, self.environ, "surrogateescape")
            assert expect in (None, said.code), said.err
            return subprocess.CompletedProcess(words, said.code, said.out, said.err)
        done = subprocess.run(
            [sys.executable, "-m", "backstory", *words], cwd=self.project, env=self.environ, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=DEADLINE_S,
        )  # fmt: skip
        assert expect in (None, done.returncode), done.stderr
        return subprocess.CompletedProcess(
            words, done.returncode, done.stdout.decode("utf-8", "surrogateescape"),
            done.stderr.decode("utf-8", "surrogateescape"),
        )  # fmt: skip

    def on_a_terminal(self, *words: str) -> str:
        """What reaches a terminal at which somebody answers every question with no."""
        _, shown = shell.on_a_terminal(words, self.project, self.environ, typed=b"n\n")
        return shown.decode("utf-8", "surrogateescape")

    def sessions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("list", "--all", "--json").stdout)["sessions"]
        return found


def record(project: Path, number: int, **more: Any) -> dict[str, Any]:
    """A record of Claude's, as evil as it can be."""
    return {
        "uuid": f"u{number}{EVIL}", "sessionId": "one", "cwd": f"{project}", "gitBranch": f"branch{EVIL}",
        "version": EVIL, "timestamp": f"2026-01-01T00:00:{number:02d}.000Z", **more,
    }  # fmt: skip


def texts(value: object) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


ANSWER: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": EVIL},
    {"type": "text", "text": f"needle answer {EVIL}"},
    {"type": "tool_use", "id": f"t{EVIL}", "name": f"Bash{EVIL}", "input": {"command": f"needle {EVIL}", EVIL: EVIL}},
    {"type": "tool_use", "id": "t2", "name": "Edit", "input": {"file_path": f"/p/{EVIL}", "old_string": EVIL}},
]
RESULT = [{"type": "tool_result", "tool_use_id": f"t{EVIL}", "is_error": True, "content": f"needle output {EVIL}"}]
SAID = {"role": "assistant", "id": f"m{EVIL}", "model": f"model {EVIL}", "content": ANSWER}
RECORDS: list[dict[str, Any]] = [
    {"type": "user", "message": {"role": "user", "content": f"needle prompt {EVIL}"}},
    {"type": "assistant", "message": SAID},
    {"type": "user", "message": {"role": "user", "content": RESULT}},
    {"type": "system", "subtype": f"api_error{EVIL}", "content": EVIL, "level": EVIL, "error": EVIL},
    {"type": "summary", "summary": f"title {EVIL}", "leafUuid": "x"},
    {"type": f"brand new {EVIL}", EVIL: EVIL},
    {"type": "ai-title", "aiTitle": EVIL, "title": EVIL},
    {"type": "pr-link", "prUrl": f"https://git.example/a/b/pull/1{EVIL}", "prNumber": 1, "prRepository": EVIL},
    {"type": "user", "message": {"role": "user", "content": f"second needle {EVIL}"}},
]
DELTA = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": f"delta {EVIL}"}}
SCRIPT: list[dict[str, Any]] = [
    {"raw": json.dumps(each) + "\n"}
    for each in (
        {"type": "system", "subtype": "init", "session_id": f"x{EVIL}", "model": f"model {EVIL}", "cwd": EVIL},
        {"type": "stream_event", "event": DELTA},
        {"type": "assistant", "message": SAID},
        {"type": "user", "message": {"role": "user", "content": RESULT}},
        {"type": f"brand new {EVIL}", EVIL: EVIL},
        {"type": "result", "subtype": f"error {EVIL}", "is_error": True, "result": EVIL, "errors": [EVIL]},
    )
] + [{"raw": f"no JSON {EVIL}\n"}, {"stderr": EVIL}, {"exit": 3}]

SAID_TO: dict[str, list[tuple[str, ...]]] = {
    "ingest": [(), ("--explain",), ("--json", "--explain"), ("-a", EVIL_NAME)],
    "reindex": [(), ("--force",), ("--json",), ("--confirmed",), ("--sync",)],
    "report standup": [("--since", "2020"), ("--since", "2020", "--md"), ("--since", "2020", "--json"),
                          ("--explain",), ("--repo", EVIL_NAME)],
    "report recap": [(UID,), (UID, "--md"), (UID, "--json"), (UID, "--explain"), (EVIL_NAME,), ("S1",)],
    "report cost": [("--since", "2020"), ("--since", "2020", "--md"), ("--since", "2020", "--json"),
                       ("--repo", EVIL_NAME), ("--explain", "--repo", EVIL_NAME)],
    "report tips": [("--since", "2020", "--all"), ("--since", "2020", "--all", "--md"),
                       ("--since", "2020", "--json"), ("--explain", "--since", "2020"), (EVIL_NAME,)],
    "report cost-tips": [("--since", "2020", "--all"), ("--since", "2020", "--md"), ("--repo", EVIL_NAME)],
    "report search": [("the",), ("the", "--md"), ("the", "--json"), (EVIL_NAME,), ("--explain", EVIL_NAME)],
    "report blame": [("o/r#1",), ("o/r#1", "--md"), ("o/r#1", "--json"), (EVIL_NAME,), (f"o/r#1{EVIL_NAME}",)],
    "report improve": [("--since", "2020"), ("--since", "2020", "--md"), ("--since", "2020", "--json"),
                          ("--explain",), ("--since", "2020", "--diff"), ("--repo", EVIL_NAME),
                          ("--file", EVIL_NAME), ("--apply",)],
    "report reindex": [()],
    "list": [("--all",), ("--all", "--json"), ("--all", "--grep", EVIL_NAME), ("-a", EVIL_NAME),
             ("--store", f"/no/{EVIL_NAME}")],
    "show": [(UID,), (UID, "--full"), (UID, "--json", "--full"), ("S1", "--thinking"), ("S1", "@2"), (EVIL_NAME,),
             (UID, "--md"), (UID, "--md", "--full", "--redact"), (UID, "--outline"), (UID, "--outline", "--json")],
    "run": [("-a", "claude", f"more {EVIL_NAME}"), ("-a", "claude", "--json", EVIL_NAME), ("-a", EVIL_NAME, "x"),
            ("-a", "claude", "--name", f"another {EVIL_NAME}", "x"), ("--cwd", EVIL_NAME, "x")],
    "steer": [("-S", "S1", "--or-run", f"steer {EVIL_NAME}"), ("-S", "S1", f"late {EVIL_NAME}"),
              ("-S", EVIL_NAME, "x")],
    "followup": [("-S", "S1", "--no-run", EVIL_NAME), ("-S", "S1", "--no-run", "--json", EVIL_NAME)],
    "queue add": [("-S", "S1", "--no-run", EVIL_NAME)],
    "queue list": [(), ("--json",), (EVIL_NAME,)],
    "queue edit": [(EVIL_NAME, "x"), (EVIL_NAME, EVIL_NAME)],
    "queue drop": [(EVIL_NAME,)],
    "queue clear": [("S1",)],
    "queue run": [("S1",), ("S1", "--json")],
    "tree": [("S1",), (UID,), ("S1", "--json")],
    "tree scan": [("S1",), (UID,), (UID, "--json")],
    "tree branches": [("S1",), (UID,), ("S1", "--json")],
    "checkout": [("-S", "S1", f"branch {EVIL_NAME}"), (EVIL_NAME,)],
    "tree name": [("-S", "S1", f"other {EVIL_NAME}")],
    "tree unname": [("-S", "S1", f"branch {EVIL_NAME}"), ("-S", "S1", EVIL_NAME)],
    "tree rm": [("-S", "S1", "@1"), ("-S", "S1", "-y", "@1"), ("-S", "S1", EVIL_NAME)],
    "tree restore": [("-S", "S1"), ("-S", "S1", EVIL_NAME)],
    "tree prune": [("-S", "S1"), ("-S", "S1", "-y")],
    "diff": [("-S", UID, "@2", "@9"), ("-S", "S1", "@2", EVIL_NAME), ("-S", UID, "@2", "@9", "--json")],
    "ps": [(), ("--json",), (EVIL_NAME,)],
    "cancel": [("S1",), (EVIL_NAME,)],
    "board list": [(), ("--json",), ("--all",), ("--all", "--json"), ("--repo", EVIL_NAME, "--branch", EVIL_NAME)],
    "board add": [("a-note", EVIL_NAME), ("a-note", "-d", EVIL_NAME, "--agent", EVIL_NAME, "--json", EVIL_NAME),
                  (EVIL_NAME, "x"), ("a-note", "--repo", EVIL_NAME, "--store", f"/no/{EVIL_NAME}", "x")],
    "board show": [("evil-note",), ("evil-note", "--json"), (EVIL_NAME,)],
    "board prune": [("--keep", "0"), ("--keep", "0", "--json")],
    "board rm": [("evil-note",), ("evil-note", "--json"), (EVIL_NAME,)],
    "context set": [(f"key {EVIL_NAME}", EVIL_NAME, "S1"), (f"key {EVIL_NAME}", EVIL_NAME, UID, "--json")],
    "context unset": [(f"key {EVIL_NAME}", "S1"), (EVIL_NAME, "S1")],
    "context": [(UID,), ("S1", "--explain"), (UID, "--json", "--explain"), (UID, "--prompt", f"note {EVIL_NAME}")],
    "search": [("needle",), ("needle", "--json"), ("--regex", "needle.*"), ("--exact", EVIL_NAME), (EVIL_NAME,),
               ("--regex", f"({EVIL_NAME}"), ("--remote", EVIL_NAME)],
    "sql": [("select * from sessions",), ("select prompt, model from main.turns", "--md"), ("select 1 as 'a\x1b[8m'",),
            ("select prompt from main.turns", "--json"), (f"select {EVIL_NAME}",), ("--schema",), ("--examples",)],
    "restore": [(UID, "--to", "out"), ("--all", "--to", f"out {EVIL_NAME}"), ("--all", "--to", "json", "--json"),
                ("--all", "--to", f"project {EVIL_NAME}/../.git/HEAD")],
    "stats": [(), ("--by", "project"), ("--by", "branch", "--json"), ("--line",), ("--repo", EVIL_NAME),
              ("--room",), ("--room", "--json")],
    "compact": [("S1", "--dry-run"), ("S1", "--dry-run", "--json"), ("S1", "--show"), ("S1", "--undo"), (EVIL_NAME,)],
    "resume": [
        (UID, "--print"), (UID, "--json"), (UID, "--print", "--cwd", EVIL_NAME), (EVIL_NAME,), (UID, "--undo"),
        (UID, "--agent", "codex", "--print"), (UID, "--agent", EVIL_NAME), (UID, "--at", EVIL_NAME),
    ],
    "export": [
        ("S1", "--format", "ah", "-o", f"out {EVIL_NAME}"), ("--all", "--format", "copilot", "-o", EVIL_NAME),
        (UID, "--format", "codex"), (UID, "--format", "claude", "--json"), (UID, "--format", "codex", "--undo"),
        (UID, "--format", "codex", "--cwd", EVIL_NAME),
        ("--all", "--format", "json", "-o", f"json {EVIL_NAME}"), ("--all", "--format", "json", "-o", "-"),
        ("--all", "--format", "json", "--no-bytes", "-o", "-"), ("--all", "--format", "md", "-o", "-"),
        ("--all", "--format", "html", "-o", f"html {EVIL_NAME}"), ("S1", "-o", f"{EVIL_NAME}.html", "--no-redact"),
        ("--all", "--format", "atif", "-o", f"atif {EVIL_NAME}"), ("S1", "-o", f"{EVIL_NAME}.html", "--password"),
    ],
    "import": [("-",), (f"no {EVIL_NAME}",), ("--json", "-"), (f"{__file__}",)],
    "pull": [(f"no {EVIL_NAME}",), (f"ssh://{EVIL_NAME}",), ("ssh://-oProxyCommand=x",), (".", "--json"), (".",)],
    "push": [(f"out {EVIL_NAME}", "--plain"), (f"out {EVIL_NAME}", "--plain", "--json"),
             (".", "--passphrase-file", EVIL_NAME)],
    "verify": [(), ("--json",)],
    "sync": [("--dry-run",), ("--dry-run", "--json"), ()],
    "sync status": [(), ("--json",)],
    "sync forget": [("--all", "-y"), (EVIL_NAME, "-y")],
    "optimize": [("--all",), ("--json",)],
    "doctor": [(), ("--json",), ("--fix", "--yes"), ("--bundle", f"{EVIL_NAME}.zip", "-y")],
    "doctor formats": [(), ("--json",), ("--agent", EVIL_NAME), ("--since", EVIL_NAME),
                       (EVIL_NAME,), ("--case", f"case {EVIL_NAME}")],
    "secrets scan": [(), ("--json",), (EVIL_NAME,), ("--accept", EVIL_NAME), ("--baseline", EVIL_NAME),
                     ("--agent", EVIL_NAME)],
    "merge": [(f"../{COPY}",), ("--json", f"../{COPY}"), ("--trust", "--foreign", f"../{COPY}"), (EVIL_NAME,)],
    "rename": [(UID, f"new {EVIL_NAME}"), (EVIL_NAME, "x")],
    "project move": [(f"/no/{EVIL_NAME}", "."), (EVIL_NAME, EVIL_NAME), (EVIL_NAME, "--undo")],
    "project moves": [(), ("--json",)],
    "migrate-home": [("no", f"to {EVIL_NAME}"), (EVIL_NAME, EVIL_NAME), (f"../{COPY}", f"to {EVIL_NAME}"),
                     ("../backstory", f"../to {EVIL_NAME}"), (f"../to {EVIL_NAME}", f"../json {EVIL_NAME}", "--json")],
    "prune": [("--agent", "claude"), ("--gone", "--json"), ("--older", EVIL_NAME), ("--repo", EVIL_NAME),
              ("--larger", EVIL_NAME), ("--project", EVIL_NAME), ("--agent", "claude", "--keep", "named", "-y"),
              ("--agent", "claude", "--keep", "prompts")],
    "rm": [(UID,), ("S1",), ("-y", UID), (EVIL_NAME,)],
    "backup": [(EVIL_NAME,), ("/no/where/" + EVIL_NAME,)],
    "config list": [(), ("--json",)],
    "config get": [("run.agent",), (EVIL_NAME,)],
    "config set": [("run.agent", EVIL_NAME), (EVIL_NAME, "1")],
    "mcp install": [("claude", "--dry-run"), ("codex",), ("codex", "--json"), ("claude", "--scope", "project"),
                    (EVIL_NAME,)],
    "mcp uninstall": [("claude",), ("codex", "--json"), (EVIL_NAME,)],
    "skill show": [()],
    "skill install": [("claude",), ("codex", "--json"), ("copilot", "--scope", "project"), (EVIL_NAME,)],
    "skill uninstall": [("claude",), (EVIL_NAME,)],
    "serve": [],  # the same; tests/server ask it
    "login": [(), (EVIL_NAME,), (EVIL_NAME, "--json"), ("--approve", EVIL_NAME)],
    "logout": [()],
    "team invite": [(), ("--json",)],
    "team users": [(), (EVIL_NAME, "--remove"), (EVIL_NAME, "--remove", "--yes")],
    "team logins": [(), ("--for", EVIL_NAME), (EVIL_NAME, "--remove")],
    "team repos": [(), ("--json",)],
    "team export": [("out",), ("out", "--json")],
    "team leave": [(), ("--yes",), ("--yes", "--json")],
    "web": [],  # it ends when a person ends it; tests/web read what it serves
    "tui": [],  # it ends when a person leaves it; tests/tui read what it paints
    "uninstall": [(), ("--json",), (EVIL_NAME,)],
    "completion": [("bash",), (EVIL_NAME,)],
    "help": [(), ("search",), (EVIL_NAME,)],
}  # fmt: skip
"""What each command is told; ``{uid}`` is the session that was read from a log."""
BYTE_FOR_BYTE = ("select prompt, 'é' from main.turns where prompt like 'needle%' limit 1", "--csv")


def leaves() -> Iterator[str]:
    """Every command there is, with those below it."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if not isinstance(command, click.Group) or command.params:
            yield name
        if isinstance(command, click.Group):
            yield from (f"{name} {below}" for below in command.list_commands(context))


def test_no_command_is_forgotten_here() -> None:
    assert sorted(leaves()) == sorted(SAID_TO)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    made = Hostile(tmp_path_factory.mktemp("hostile") / "home")
    made.project.mkdir(parents=True)
    made.prepare()
    return made


@pytest.fixture
def hostile(prepared: Hostile, tmp_path: Path) -> Hostile:
    copy = tmp_path / "home"
    # A pipe cannot be copied, and is not needed any more but by those who look for logs.
    shutil.copytree(prepared.root, copy, symlinks=True, ignore=shutil.ignore_patterns("pipe *"))
    os.mkfifo(copy / CLAUDE_FOLDER / f"pipe {EVIL_NAME}.jsonl")
    return Hostile(copy, prepared.uid)


def test_the_machine_is_as_hostile_as_it_should_be(prepared: Hostile) -> None:
    told = json.loads(prepared("show", prepared.uid, "--json").stdout)
    assert f"needle prompt {EVIL}" == told["turns"][0]["prompt"]
    assert told["turns"][0]["model"] == f"model {EVIL}"
    kinds = {each["kind"] for each in told["events"] if any(EVIL in text for text in texts(each))}
    assert kinds >= {"UserMessage", "AssistantText", "Thinking", "ToolCall", "ToolResult", "Unknown"}
    run = json.loads(prepared("show", "S1", "--json").stdout)
    assert run["session"]["name"] == f"name {EVIL_NAME}"
    assert run["turns"][0]["prompt"] == f"go {EVIL_NAME}"
    (waits,) = json.loads(prepared("queue", "list", "--json").stdout)["prompts"]
    assert waits["text"] == f"later {EVIL_NAME}"


@pytest.mark.parametrize("command", SAID_TO)
def test_nothing_of_it_is_obeyed_in_a_pipe(hostile: Hostile, command: str) -> None:
    for words in SAID_TO[command]:
        done = hostile(*command.split(), *(each.replace(UID, hostile.uid) for each in words))
        assert "Traceback" not in done.stderr, words
        assert acting(done.stdout + done.stderr) == [], (words, done)
        if "--json" in words and done.stdout:
            values = done.stdout.splitlines() if command in ("run", "followup", "queue run") else [done.stdout]
            assert all(msgspec.json.decode(each) is not None for each in values), words


@pytest.mark.parametrize("command", SAID_TO)
def test_nothing_of_it_is_obeyed_by_a_terminal(hostile: Hostile, command: str) -> None:
    for words in SAID_TO[command]:
        shown = hostile.on_a_terminal(*command.split(), *(each.replace(UID, hostile.uid) for each in words))
        left = OURS.sub("", shown)
        obeyed = set(acting(left))
        where = [left[max(n - 60, 0) : n + 40] for n, each in enumerate(left) if each in obeyed]
        assert where == [], words


@pytest.mark.parametrize(
    "words",
    [
        (EVIL_NAME,),
        (f"--{EVIL_NAME}",),
        ("list", f"--{EVIL_NAME}"),
        ("list", "-n", EVIL_NAME),
        ("-S", f"none {EVIL_NAME}", "--steer", "x"),
    ],
    ids=range(5),
)
def test_a_wrong_command_line_is_told_harmlessly(hostile: Hostile, words: tuple[str, ...]) -> None:
    done = hostile(*words)
    assert done.returncode not in (0, 1)
    assert acting(done.stdout + done.stderr) == []
    assert acting(OURS.sub("", hostile.on_a_terminal(*words))) == []


@pytest.mark.parametrize(
    "text",
    ['x = "\x7f"', f"[{json.dumps(EVIL_NAME)}]\nb = 1", f"[run]\nagent = {json.dumps(EVIL_NAME)}", f"{EVIL_NAME} = 1"],
)
def test_settings_that_cannot_be_read_are_told_harmlessly(hostile: Hostile, text: str) -> None:
    for file in (hostile.project / ".backstory/config.toml", hostile.root / "backstory/config.toml"):
        file.write_text(text)
        for words in (("list",), ("config", "list"), ("config", "get", "run.agent")):
            done = hostile(*words)
            assert "Traceback" not in done.stderr
            assert acting(done.stdout + done.stderr) == []


def test_csv_is_byte_for_byte_for_programs_and_harmless_on_a_terminal(hostile: Hostile) -> None:
    done = hostile("sql", *BYTE_FOR_BYTE)
    assert f"needle prompt {EVIL}".replace("\r", "") in done.stdout.replace("\r", "")
    assert acting(OURS.sub("", hostile.on_a_terminal("sql", *BYTE_FOR_BYTE))) == []


def test_a_fault_of_ours_is_told_harmlessly(hostile: Hostile) -> None:
    code = (
        "import sys, threading, backstory.cli.commands.list_command as it\n"
        f"def fail(*_, **__): raise RuntimeError({EVIL!r})\n"
        "def both(*_, **__): t = threading.Thread(target=fail); t.start(); t.join(); fail()\n"
        "it.SessionFilter = both\nsys.argv = ['backstory', 'list']\n"
        "from backstory.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=hostile.project, env=hostile.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("RuntimeError: \\x1b]0;title")) == (1, 2)
    assert acting(done.stdout + done.stderr) == []


def test_each_acting_character_is_escaped_once_however_often_it_stands_there() -> None:
    asked: list[int] = []

    def escape(code: int) -> str:
        asked.append(code)
        return f"<{code:x}>"

    text = "a\x1b\u202e" * 10_000
    assert harmless._replaced(text, escape) == "a<1b><202e>" * 10_000
    assert len(asked) == len(set(asked)) < 3_000


def test_an_end_of_file_that_nobody_typed_is_a_fault_of_ours(hostile: Hostile) -> None:
    code = (
        "import sys, backstory.cli.commands.list_command as it\n"
        "def fail(*_, **__): raise EOFError('marshal data too short')\n"
        "it.SessionFilter = fail\nsys.argv = ['backstory', 'list']\n"
        "from backstory.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=hostile.project, env=hostile.environ, capture_output=True, text=True
    )
    assert (done.returncode, "EOFError: marshal data too short" in done.stderr) == (1, True)
