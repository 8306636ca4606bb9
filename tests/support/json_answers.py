"""Every command that prints JSON, on one small machine, and the JSON that it prints."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backstory.server.database import make_own
from backstory.store.tables.queue import Queue
from tests.support.bench import WAIT_S, Bench
from tests.support.clock import Clock
from tests.support.cron import put_crontab
from tests.support.day_of_work import BUILD, PULL, Log
from tests.support.going import GOOD, Going
from tests.support.shell import Done, Shell
from tests.support.shown_commands import commands
from tests.support.team import shared_postgres, team_of
from tests.support.work_habits import MAY, put_habits

if TYPE_CHECKING:
    from pathlib import Path

LOG, BROKEN = "3f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f", "4f2b8f5e-5a6b-4d5c-9d8f-0a1b2c3d4e5f"
SUMMARY = "The parser was rewritten, because it lost escapes. " * 10
SAID = ({"say": "word " * 300}, {"tool": "ls"}, GOOD)
SUMS = ("day", "hour", "weekday", "agent", "model", "project", "branch", "tool")


class Place(Struct, frozen=True, order=True):
    """Where a key is: the command, and the keys that lead to it; ``[]`` for each of a list."""

    command: str
    path: str


class JsonAnswers:
    """What the commands print, as they are tried one after another."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.bench = Bench(root)
        self.shell = Shell(root)
        self.shell.cwd = self.bench.project
        self.values: dict[str, list[Any]] = {name: [] for name, command in commands() if _has_json(command)}

    def __call__(self, *words: str, script: Any = (), typed: str | None = None) -> Any:
        """Run a command; returns its JSON, of lines a list."""
        self.shell.environ = self.bench.environ(list(script))
        done = self.shell(*words, "--json", typed=typed)
        assert done.code in (0, 1) and done.out, (words, done)
        return self.note(words, done.out)

    def note(self, words: tuple[str, ...], out: str) -> Any:
        """Keep what a command printed: one value, or one a line."""
        name = next(each for each in (" ".join(words[:2]), words[0]) if each in self.values)
        try:
            found = [json.loads(out)]
        except json.JSONDecodeError:
            found = [json.loads(line) for line in out.splitlines()]
        self.values[name] += found
        return found[-1]

    def first_lines(self, count: int, *words: str) -> None:
        """Run a command that goes on until it is interrupted, and keep its first lines."""
        process = self.bench.start(*words, "--json")
        assert process.stdout is not None
        self.note(words, "".join(process.stdout.readline() for _ in range(count)))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)

    def plainly(self, *words: str, script: Any = ()) -> Done:
        """Run a command that only prepares something."""
        self.shell.environ = self.bench.environ(list(script))
        done = self.shell(*words)
        assert done.code == 0, (words, done)
        return done


def answers(root: Path) -> dict[str, list[Any]]:
    """Return the JSON of every command, by its name."""
    ask = JsonAnswers(root)
    _settings(ask)
    _logs(ask)
    _runs(ask)
    _boards(ask)
    _sessions(ask)
    _going(ask)
    _sums(ask)
    _tree(ask)
    _files(ask)
    _team(ask, root)
    _last(ask)
    return ask.values


def _has_json(command: Any) -> bool:
    return any("--json" in each.opts for each in command.params)


def _settings(ask: JsonAnswers) -> None:
    ask("config", "set", "compaction.chars", "0")
    ask("config", "get", "compaction.chars")
    ask("config", "list")
    config = ask.bench.home / "config.toml"
    text = config.read_text("utf-8")
    config.write_text(f"{text}\n[store]\nenabled = false\n", "utf-8")
    ask("ingest")
    config.write_text(text, "utf-8")
    for what in ("mcp", "skill"):
        ask(what, "install", "claude", "--scope", "user")
        ask(what, "uninstall", "claude", "--scope", "user")


def _logs(ask: JsonAnswers) -> None:
    """The agents' own logs: of work in the project with a commit, of one fault made twice, and of habits."""
    project = ask.bench.project
    written = project / "a.py"
    written.write_text("b\n")
    subprocess.run(["git", "-C", str(project), "remote", "add", "origin", "https://github.com/me/tool"], check=True)
    who = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.com")
    edit = ("Edit", {"file_path": str(written), "old_string": "a", "new_string": "b"}, "done", False)
    for command in (("add", "a.py"), ("commit", "-qm", "Fix it\n\nCo-Authored-By: Claude <noreply@anthropic.com>")):
        subprocess.run([*who, *command], check=True)
    head = subprocess.run([*who, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True).stdout
    commit = ("Bash", {"command": "git commit -qam 'Fix it'"}, f"[main {head.strip()}] Fix it", False)
    log = Log(LOG, cwd=str(project))
    log.turn("Fix the parser, never by hand", edit, BUILD, commit, PULL).turn("Now the #12", answer="Shall I go on?")
    log.put(ask.shell)
    failing = ("Bash", {"command": "pytest -q"}, "bash: pytest: command not found", True)
    passing = ("Bash", {"command": "uv run pytest -q"}, "ok", False)
    for number in (1, 2):
        fault = Log(f"{number}{BROKEN[1:]}", cwd=str(project))
        fault.turn("Test the parser", edit, failing, passing, at=f"2026-05-0{number}T10").put(ask.shell)
    put_habits(ask.shell.home)
    broken = ask.shell.home / ".claude" / "projects" / "p" / f"{BROKEN}.jsonl"
    broken.write_text('{"type": "user"\n')
    ask("ingest", "--explain")
    put_crontab(ask.shell.home / "bin")
    ask.shell.environ["PATH"] = f"{ask.shell.home / 'bin'}:{ask.shell.environ['PATH']}"
    ask.shell.environ["XDG_RUNTIME_DIR"] = str(ask.shell.home / "none")
    ask("ingest", "--schedule", "--dry-run")


def _runs(ask: JsonAnswers) -> None:
    ask("run", "-a", "claude", "first words", script=SAID)
    ask("followup", "--no-run", "later")
    ask("queue", "list")
    ask("queue", "clear")
    ask("run", "-a", "claude", "second words", script=SAID)
    ask("queue", "add", "--no-run", "much later")
    with Queue(ask.bench.store.path) as queue:
        (prompt,) = queue.prompts()
    ask("queue", "edit", prompt.uid, "no, now")
    ask("queue", "run", script=SAID)
    ask("queue", "add", "--no-run", "dropped")
    with Queue(ask.bench.store.path) as queue:
        (prompt,) = queue.prompts()
    ask("queue", "drop", prompt.uid)
    ask("run", "-a", "claude", "fails", script=({"say": "so far"}, {"stderr": "no"}, {"exit": 3}))
    ask.plainly("config", "set", "compaction.chars", "4000")
    ask("compact", "--dry-run")
    made = ({"say": SUMMARY}, GOOD)
    ask("compact", script=made)
    ask("compact", "--show")
    ask("context", "--explain")
    ask("show", "S1")
    ask("list")
    ask("compact", "--undo")
    ask("compact", "--show")
    ask.plainly("config", "set", "compaction.chars", "0")


def _boards(ask: JsonAnswers) -> None:
    ask("board", "add", "kept", "Parse escapes by hand")
    ask("board", "add", "gone", "Never mind")
    ask("board", "list")
    ask("board", "list", "--all")
    ask("board", "show", "kept")
    ask("board", "rm", "gone")
    ask("board", "prune", "--keep", "1")
    ask("context", "--prompt", "escapes")


def _sessions(ask: JsonAnswers) -> None:
    ask("list", "--all")
    ask("search", "parser", "--all")
    ask("search", "fucntion")
    for part in ((), ("@2",), ("--outline", "--redact")):
        ask("show", LOG, *part)
    ask.first_lines(2, "show", LOG, "-f")
    ask("show", "S1", "--outline")
    ask("show", "S1", "--full")
    ask("context", LOG)
    ask("rename", "S1", "herons")
    ask("context", "set", "ticket", "ABC-12", "S1")
    ask("context", "unset", "ticket", "S1")
    ask("sql", "select 1 as one")


def _going(ask: JsonAnswers) -> None:
    """A run that goes on meanwhile."""
    going = Going(ask.bench, {"say": "so far"})
    ask("ps")
    ask("show", "S1")
    ask("steer", "and more")
    ask("cancel", "S1")
    going.process.wait()
    ask("ps")
    ask("queue", "clear")


def _sums(ask: JsonAnswers) -> None:
    ask("stats", "--all")
    for by in SUMS:
        ask("stats", "--all", "--by", by)
    ask("report", "standup", *MAY, "--all")
    ask("report", "recap", LOG)
    ask("report", "recap", "S1")
    ask("report", "search", "parser")
    ask("report", "cost", "--all", "--since", "2026-05-01")
    for target in ("a.py", "HEAD"):
        ask("report", "blame", target)
    ask("report", "tips", *MAY, "--all")
    ask("report", "cost-tips", *MAY, "--full")
    ask("report", "improve", "--since", "2026-05-01")
    ask("report", "reindex")
    ask.plainly("config", "set", "sync.repositories", "me/tool,tool")
    ask("sync", "--dry-run")
    ask.plainly("config", "set", "sync.repositories", "")


def _team(ask: JsonAnswers, root: Path) -> None:
    with shared_postgres(root) as postgres, team_of(make_own(postgres), Clock()) as team, team.served() as address:
        ask("login", address, "--code", team.people.found("The team"), "--person", "anna")
        ask("login", "--approve", team.people.wait("desk").code)
        team.people.join(ask("team", "invite", "--as", "admin")["invitation"], "ben", "desk")
        ask("team", "users")
        ask.plainly("config", "set", "sync.repositories", "me/tool")
        ask.plainly("config", "set", "sync.enabled", "true")
        sent = ask("sync")["sent_uids"]
        ask("reindex", "--sync")
        ask("sync", "status")
        ask("report", "cost", "--remote", "--since", "2020-01-01")
        ask("report", "standup", "--remote", "--since", "2020-01-01")
        ask("team", "repos")
        ask("team", "logins", "--for", "builds", "--may", "read")
        ask("team", "logins", "--for", "one", "--repo", "github.com/me/tool")
        ask("team", "logins")
        ask("team", "export", "team-history")
        ask("sync", "forget", *sent, "--yes")
        ask.plainly("config", "set", "sync.enabled", "false")
        ask.plainly("config", "set", "sync.repositories", "")
        ask("team", "leave", "--yes")


def _tree(ask: JsonAnswers) -> None:
    with ask.bench.store as store:
        first, second = store.turns(store.session("S1"))[:2]
    for words in (("tree",), ("tree", "branches"), ("tree", "scan")):
        ask(*words, "S1")
    ask("checkout", f"@{first.last_seq}", "-S", "S1")
    ask("run", "-S", "S1", "-a", "claude", "another way", script=SAID)
    ask("tree", "name", "other", "-S", "S1")
    ask("diff", f"@{second.last_seq}", "other", "-S", "S1")
    for words in (("tree",), ("tree", "branches")):
        ask(*words, "S1")
    ask("tree", "unname", "other", "-S", "S1")
    ask("tree", "rm", f"@{second.first_seq}", "--yes", "-S", "S1")
    ask("tree", "S1", "--removed")
    ask("tree", "S1", "--records")
    ask("tree", "restore", "-S", "S1")
    ask("tree", "rm", f"@{second.first_seq}", "--yes", "-S", "S1")
    ask("tree", "prune", "--yes", "-S", "S1")


def _files(ask: JsonAnswers) -> None:
    root, project = ask.bench.root, ask.bench.project
    ask("backup", str(root / "copy.db"))
    ask("resume", LOG)
    ask("resume", "S1", "--print")
    ask("export", LOG, "--format", "json", "-o", str(root / "one.jsonl"), "--redact")
    ask("export", LOG, "S1", "--format", "md", "-o", str(root / "two"))
    ask("export", "S1", "--format", "claude", "--redact")
    ask("export", LOG, "--format", "ah", "-o", str(root / "ah"))
    ask("import", str(root / "one.jsonl"))
    ask("import", str(_with_a_damaged_session(ask, root / "three.jsonl")))
    pushed = ask("push", str(root / "shared"), "--plain")
    # As if another machine had written it, and something else.
    (root / "shared" / pushed["writer"]).rename(root / "shared" / ("0" * 26))
    (root / "shared" / "notes.txt").write_text("mine")
    ask("pull", str(root / "shared"), "--plain")
    ask("restore", LOG, "--to", str(root / "restored"))
    ask("verify")
    new: dict[str, Any] = {
        "sessionId": BROKEN,
        "cwd": str(project),
        "version": "9.9.9",
        "timestamp": "2026-05-03T10:00:00.000Z",
    }
    texts = [new | {"type": "user", "uuid": "u", "mood": "well", "message": {"role": "user", "content": "go"}}]
    texts += [new | {"type": "telepathy", "uuid": "v"}, new | {"type": "bridge-session", "uuid": "w"}]
    strange = ask.shell.home / ".claude" / "projects" / "p" / f"5{BROKEN[1:]}.jsonl"
    strange.write_text("".join(f"{json.dumps(each)}\n" for each in texts), "utf-8")
    ask.plainly("ingest")
    ask("doctor")
    ask("doctor", "--fix", "--yes")
    ask("doctor", "formats")
    (strange.with_suffix("") / "tool-results").mkdir(parents=True)
    (strange.with_suffix("") / "tool-results" / "env.txt").write_text("DB_PASSWORD=correct-horse-7\n", "utf-8")
    strange.write_text(
        strange.read_text("utf-8") + json.dumps(texts[0] | {"uuid": "s", "mood": "ghp_" + "a1B2" * 9}) + "\n"
    )
    ask.plainly("ingest")
    ask("secrets", "scan")
    ask("secrets", "scan", f"5{BROKEN[1:]}", "--accept", "all")
    ask("show", f"5{BROKEN[1:]}", "@3")
    ask("doctor", "formats", "mood", "--case", str(root / "case"))
    ask("optimize")
    ask("reindex")
    own, copy = project / ".backstory", root / "other"
    shutil.copytree(own, root / "earlier")
    ask.plainly("run", "-S", "S1", "-a", "claude", "only there", script=SAID)
    ask.plainly("queue", "add", "--no-run", "-S", "S1", "waits there")
    own.rename(copy)
    (root / "earlier").rename(own)
    ask("merge", str(copy / "sessions.bks"), "--trust")


def _with_a_damaged_session(ask: JsonAnswers, file: Path) -> Path:
    """An export of two sessions, of which the last lacks a turn."""
    ask.plainly("export", LOG, "S1", "--format", "json", "-o", str(file))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    lost = max(n for n, line in enumerate(lines) if json.loads(line)["type"] == "turn")
    file.write_text("".join(lines[:lost] + lines[lost + 1 :]), "utf-8")
    return file


def _last(ask: JsonAnswers) -> None:
    """What takes things away."""
    old, new = ask.bench.project, ask.bench.root / "moved"
    ask("uninstall")
    ask("stats", "--room")
    ask("prune", "--agent", "claude")
    ask("prune", "--agent", "claude", "--keep", "prompts")
    ask("config", "set", "prune.to_size", "1TB")
    ask("ingest")
    ask("rm", LOG, "--yes")
    ask.bench.project = ask.shell.cwd = old.rename(new)
    ask("project", "move", str(old), str(new))
    ask("project", "moves")
    ask("project", "move", str(old), "--undo")
    ask("migrate-home", str(ask.bench.home), str(ask.bench.root / "new-home"))
