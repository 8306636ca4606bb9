"""Screens as a terminal shows them: a small machine that is always the same, a clock that stands still, any width.

``python -m tests.support.screens`` writes the screens that tests compare with (``tests/cli/golden_screens``) and the
pictures of them (``docs/screens``).
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.model import AssistantText, ToolCall, ToolResult, UserMessage
from backstory.projects.registry import KnownProjects
from backstory.store import open_store
from tests.support import forked
from tests.support.clock import NOW
from tests.support.machines import CLAUDE_FOLDER, claude_line, lines
from tests.support.picked import OnTerminal

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "cli" / "golden_screens"
PICTURES = ROOT / "docs" / "screens"
REGENERATE = "python -m tests.support.screens"
WIDTHS = (40, 80, 100)
PICTURE_COLUMNS = 100
PICKER_LINES = 24
SCREENS: dict[str, tuple[str, ...]] = {
    "newest": (),
    "help": ("help",),
    "list": ("list",),
    "list-all": ("list", "--all"),
    "list-sorted": ("list", "--all", "--sort", "turns", "--limit", "3"),
    "search": ("search", "rate", "limit"),
    "search-hits": ("search", "--all-hits", "rate", "limit"),
    "ingest": ("ingest",),
}
"""The screens by the name of their pictures, and the words that are typed for each."""
ROWS = 400
"""So many that nothing is paged."""
LONG_TITLE = "Why does the importer " + "retry and retry " * 640 + "?"
AT_NOW = f"""{forked.COPIED}
import sys
import backstory.cli.app as app
sys.argv[0] = "backstory"
real, now_ms = app.now_ms, lambda: {NOW}
for name, module in [*sys.modules.items()]:
    if name.startswith("backstory.cli") and vars(module).get("now_ms") is real:
        module.now_ms = now_ms
from backstory.cli import main
main()
"""
"""A command whose clock stands still."""
_LINE_CLEARED = "\x1b[2K"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Machine:
    """A home folder with logs of other projects, and a project with two sessions of its own."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "home" / "calc"
        self.project.mkdir(parents=True)
        self.environ = {
            "HOME": str(self.home), "BACKSTORY_HOME": str(self.home / "backstory"), "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "xterm-256color",
        }  # fmt: skip
        self._own_sessions()
        self._logs()

    def shown(self, *words: str, width: int = 100, **environ: str) -> str:
        """What a terminal of so many columns is sent by a command, colours included."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, width, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", AT_NOW, *words], cwd=self.project, stdin=subprocess.DEVNULL, stdout=theirs,
            stderr=theirs, env=self.environ | environ,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        with suppress(OSError):
            while block := os.read(ours, 65536):
                seen += block
        os.close(ours)
        assert process.wait(timeout=120) in (0, 1), seen.decode()
        lines_shown = seen.decode().replace("\r\n", "\n").replace(str(self.home), "~").split("\n")
        # What replaced a bar of progress stands behind it.
        lasting = [line.rpartition(_LINE_CLEARED)[2] for line in lines_shown]
        return "\n".join(line for line in lasting if "━" not in line)

    def picked(self, typed: str, *awaited: str, width: int = PICTURE_COLUMNS) -> str:
        """The screen of the picker after something was typed, once these words are on it; colours included."""
        environ = self.environ | {"NO_COLOR": ""}
        command = (sys.executable, "-c", AT_NOW)
        with OnTerminal([], self.project, environ, width=width, rows=PICKER_LINES, command=command) as terminal:
            terminal.until_seen("Esc leave")
            terminal.type(typed)
            terminal.until_seen(*awaited)
            return terminal.screen.coloured()

    def piped(self, *words: str) -> str:
        """What a command sends into a pipe."""
        done = subprocess.run(
            [sys.executable, "-c", AT_NOW, *words], cwd=self.project, env=self.environ, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout

    def _own_sessions(self) -> None:
        times = iter([_ago(hours=5), _ago(hours=4), _ago(seconds=12)])
        now = [next(times)]
        path = self.project / ".backstory" / "sessions.bks"
        path.parent.mkdir()
        machine_store = open_store(self.home / "backstory" / "store.db", shared=True)
        with open_store(path, now=lambda: now[0], randomness=random.Random(1).randbytes) as store:
            KnownProjects(self.home / "backstory", machine_store, lambda: NOW).begin(store)
            first = store.create_session("Why is the sky blue?")
            store.append_events(first, [UserMessage(content="Why is the sky blue?"), AssistantText(text="Air.")])
            store.mark_completed(first, duration_ms=1200, cost_usd=0.0042)
            now[0] = next(times)
            second = store.create_session()
            store.append_events(second, [UserMessage(content="Fix the failing test in calc.py")])
            now[0] = next(times)
            call = ToolCall(tool_use_id="c", tool_name="Bash", input={"command": "pytest -q  # within the rate limit"})
            result = ToolResult(tool_use_id="c", tool_name="Bash", content="1 failed")
            store.append_events(second, [call, result, AssistantText(text="A sign was wrong.")])
            store.mark_completed(second, duration_ms=194_000, cost_usd=1.2)

    def _logs(self) -> None:
        folder = self.home / CLAUDE_FOLDER
        folder.mkdir(parents=True)
        talks = [
            ("a", "shop", "Add a rate limit to the login\nand test it", _ago(minutes=5), 3),
            ("b", "shop", "レート制限のバグを直してください、ログインが失敗します", _ago(hours=15, minutes=41), 1),
            ("c", "calc", "Ship it 🎉 👩\u200d💻 today", _ago(days=3), 2),
            ("d", "calc", "למה הבדיקה נכשלת? rate limit", _ago(days=40), 1),
            ("e", "shop", LONG_TITLE, _ago(days=300), 13),
        ]
        for name, project, prompt, at, turns in talks:
            (folder / f"{name}.jsonl").write_bytes(_log(name, f"/work/acme/{project}", prompt, at, turns))


def _ago(**of_time: int) -> int:
    return NOW - int(timedelta(**of_time).total_seconds() * 1000)


def _log(name: str, folder: str, prompt: str, ended: int, turns: int) -> bytes:
    def stamp(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    records = []
    for turn in range(turns):
        at = ended - (turns - turn) * 60_000
        answer = (
            "The gateway counts requests per minute, so the rate limits of the old one were kept; a test holds them."
        )
        said: dict[str, Any] = {
            "id": f"m{turn}", "role": "assistant", "model": "claude-haiku-4-5", "stop_reason": "end_turn",
            "usage": {"input_tokens": 9000, "output_tokens": 100}, "content": [{"type": "text", "text": answer}],
        }  # fmt: skip
        more: dict[str, Any] = {"sessionId": name, "cwd": folder, "version": "2.0.0"}
        asked = prompt if turn == 0 else "And now?"
        records.append(claude_line("user", f"{name}u{turn}", asked, **more | {"timestamp": stamp(at)}))
        told = more | {"timestamp": stamp(at + 60_000), "message": said}
        records.append(claude_line("assistant", f"{name}a{turn}", **told))
    return lines(*records)


def plain(shown: str) -> str:
    """A screen without its colours."""
    return _ESCAPE.sub("", shown)


def screens(machine: Machine, width: int) -> Iterator[tuple[str, str]]:
    """Yield the name of each screen, and what a terminal of this width is sent."""
    for name, words in SCREENS.items():
        yield name, machine.shown(*words, width=width)


def picture(title: str, shown: str) -> str:
    """A screen as SVG."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=PICTURE_COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text.from_ansi(shown.rstrip("\n")), soft_wrap=True)
    made = console.export_svg(title=title, unique_id="screen", code_format=_FORMAT)
    return "".join(f"{line.rstrip()}\n" for line in made.splitlines())


def words_of_picture(svg: str) -> list[str]:
    """The text of each line of a picture, without blanks, which the picture leaves out."""
    found = re.findall(r'<text class="screen-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg)
    by_line: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in found:
        by_line.setdefault(float(y), []).append((float(x), text))
    import html

    joined = ("".join(text for _, text in sorted(by_line[y])) for y in sorted(by_line))
    return ["".join(html.unescape(line).split()) for line in joined]


_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-family: arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich draws a terminal, without the fonts that it would have browsers fetch from a server."""


def picker(machine: Machine) -> str:
    """The screen of the picker that the golden file and the picture are of."""
    return machine.picked(
        "\trate lim", "2 titles", "6 in texts", "…so the rate limits of the old…", "@1 · turn 1", "And now?"
    )


def command_line(name: str) -> str:
    """What was typed for a screen."""
    if name == "newest":
        return "backstory < /dev/null"
    return " ".join(("backstory", *SCREENS[name]))


def made(machine: Machine) -> dict[Path, str]:
    """Every file, with what belongs in it."""
    first = machine.shown("ingest", width=PICTURE_COLUMNS)
    files = {GOLDEN / f"ingest-first-{PICTURE_COLUMNS}.txt": plain(first)}
    files[PICTURES / "ingest-first.svg"] = picture("backstory ingest", first)
    for width in WIDTHS:
        for name, shown in screens(machine, width):
            files[GOLDEN / f"{name}-{width}.txt"] = plain(shown)
            if width == PICTURE_COLUMNS:
                files[PICTURES / f"{name}.svg"] = picture(command_line(name), shown)
    shown = picker(machine)
    files[GOLDEN / f"picker-{PICTURE_COLUMNS}.txt"] = plain(shown)
    files[PICTURES / "picker.svg"] = picture("backstory", shown)
    files[GOLDEN / "list-piped.txt"] = machine.piped("list", "--all")
    return files


def main() -> None:
    """Write the screens and their pictures anew."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        for path, text in made(machine).items():
            if not path.exists() or path.read_text("utf-8") != text:
                sys.stdout.write(f"{path.relative_to(ROOT)}\n")
                path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
