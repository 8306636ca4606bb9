"""A process that types commands on a machine of its own, notes which cannot be typed and which ask for a network.

``python -m tests.support.typing_commands FOLDER`` reads the commands, a list of lists of words, from stdin.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner
from msgspec import Struct

from backstory.cli import cli
from backstory.errors import BackstoryError
from backstory.model import AssistantText, UserMessage
from backstory.store import open_store
from tests.support.machines import case, place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ROOT = Path(__file__).parent.parent.parent
ENDLESS, ENDLESS_S = {"--watch", "--follow", "web", "serve"}, 0.2
NAMESPACE = ("unshare", "-rn", "--")
ASKS = {
    "socket.connect",
    "socket.sendto",
    "socket.sendmsg",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
}
"""What the interpreter reports when anything asks for a network."""


class Typed(Struct, frozen=True):
    """A command as it was typed; ``refusal``: why it could not be; ``asked``: what it asked a network for."""

    words: list[str]
    refusal: str | None
    asked: list[str]


def type_all(commands: Sequence[Sequence[str]], folder: Path) -> list[Typed]:
    """Type commands in one process, without a network where that is allowed here."""
    done = subprocess.run(
        [*(NAMESPACE if has_namespaces() else ()), sys.executable, "-m", __name__, str(folder)], cwd=ROOT,
        input=json.dumps(commands), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Typed(**each) for each in json.loads(done.stdout)]


def has_namespaces() -> bool:
    """True if a process without a network may be made here."""
    return bool(shutil.which("unshare")) and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


class Machine:
    """A home with a project of two sessions, and a log; its agent fails."""

    def __init__(self, home: Path) -> None:
        log, git = home / place("claude/tools"), shutil.which("git")
        for folder in (log.parent, home / "bin", home / "work"):
            folder.mkdir(parents=True)
        log.write_bytes(case("claude/tools"))
        (home / "bin" / "git").symlink_to(git or "/nowhere")
        (home / "bin" / "claude").write_text("#!/bin/sh\nexit 1\n")
        (home / "bin" / "claude").chmod(0o755)
        self.environ = {
            "HOME": str(home), "BACKSTORY_HOME": str(home / "backstory"), "PATH": str(home / "bin"), "EDITOR": "true",
            # A server is told where its database is to be, and cannot make it there.
            "BACKSTORY_SERVER_DATA": str(home / "bin" / "claude" / "server"),
        }  # fmt: skip
        os.chdir(home / "work")
        with open_store(Path(".backstory/sessions.bks")) as store:
            for name in ("first", "second"):
                store.append_events(store.create_session(name), [UserMessage(content=name), AssistantText(text="Yes")])

    def type(self, words: Sequence[str]) -> str | None:
        """Run a command; return why it could not be typed, if so."""
        if ENDLESS & {*words}:
            if words[0] == "web":
                # Ctrl-C in the midst of an import would leave half a module to the next command.
                import_module("backstory.web.serving")
            # A command before may have left a handler of its own.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGALRM, _serve_no_more if words[0] == "web" else signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, ENDLESS_S)
        try:
            with Path(os.devnull).open("rb") as nothing:
                done = CliRunner(env=self.environ).invoke(cli, words, input=nothing)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if done.exception is not None and not isinstance(done.exception, BackstoryError | SystemExit):
            raise done.exception
        return done.output.strip().rpartition("\n")[2] if done.exit_code == click.UsageError.exit_code else None


def _serve_no_more(_number: int, _frame: FrameType | None) -> None:
    """Press Ctrl-C, for which what serves has a handler of its own."""
    signal.raise_signal(signal.SIGINT)


def main() -> None:
    """Print what became of each command."""
    asked: list[str] = []
    sys.addaudithook(lambda event, given: asked.append(f"{event}{given[1:]}") if event in ASKS else None)
    machine, typed = Machine(Path(sys.argv[1])), list[Any]()
    # Ctrl-C in the midst of an import would leave half a module to the commands behind.
    import_module("backstory.web.serving")
    for words in json.load(sys.stdin):
        asked.clear()
        typed.append({"words": words, "refusal": machine.type(words), "asked": [*asked]})
    sys.stdout.write(json.dumps(typed))


if __name__ == "__main__":
    main()
