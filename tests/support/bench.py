"""A project, a home and a scripted agent on PATH, for runs as real processes."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, TypeAlias

from backstory.projects.registry import KnownProjects
from backstory.store import Store, open_store
from tests.support import agent, shell
from tests.support.forked import COMMAND, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Script: TypeAlias = "list[dict[str, Any]] | dict[str, list[dict[str, Any]]]"
"""Steps of the scripted agent; or such by words that its prompt contains, the first that fit."""
WAIT_S = 120


class Bench:
    """Where runs are tried: ``backstory`` as a real process, with an agent that does as it is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project, self.home, self.bin = root / "project", root / "home", root / "bin"
        self.temporary = root / "temporary"
        for folder in (self.project, self.home, self.bin, self.temporary):
            folder.mkdir()
        subprocess.run(["git", "init", "-q", str(self.project)], check=True)
        agent.install(self.bin)
        self.received = root / "received"

    def environ(self, script: Script) -> dict[str, str]:
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.root),
            "BACKSTORY_HOME": str(self.home),
            "SCRIPT": json.dumps(script),
            "RECEIVED": str(self.received),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.root / "temporary"),
        }

    def start(
        self,
        *words: str,
        script: Script | None = None,
        stdin: Any = None,
        cwd: Path | bytes | None = None,
        environ: dict[str, str | None] | None = None,
        limit: Callable[[], None] | None = None,
    ) -> subprocess.Popen[str]:
        """``environ`` is added (None takes away); ``limit`` is called in the new process before the program begins."""
        return Process(
            [*COMMAND, *words], cwd=cwd or self.project, text=True, preexec_fn=limit,
            env=self._variables(script, environ),
            stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def _variables(self, script: Script | None, more: Mapping[str, str | None] | None) -> dict[str, str]:
        merged = {**self.environ(script or []), **(more or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def backstory(
        self, *words: str, script: Script | None = None, given: str | None = None, **how: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run to its end; ``how`` is as in ``start``."""
        if given is None and how.keys() <= {"cwd", "environ"} and words[:1] and words[0] in shell.INSIDE:
            environ = self._variables(script, how.get("environ"))
            if shell.is_same_inside(environ):
                done = shell.in_this_process(words, "", how.get("cwd") or self.project, environ)
                return subprocess.CompletedProcess(words, done.code, done.out, done.err)
        process = self.start(*words, script=script, stdin=subprocess.PIPE if given is not None else None, **how)
        out, err = process.communicate(given, timeout=WAIT_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def run(
        self, prompt: str, *script: dict[str, Any], options: tuple[str, ...] = (), **how: Any
    ) -> subprocess.CompletedProcess[str]:
        return self.backstory("run", "-a", "claude", *options, prompt, script=list(script), **how)

    @property
    def store(self) -> Store:
        return open_store(self.project / ".backstory" / "sessions.bks")

    def note_store(self) -> None:
        """Have the project's store be one that this machine made, as it is after a run."""
        with self.store as store, open_store(self.home / "store.db", shared=True) as machine:
            KnownProjects(self.home, machine, lambda: 0).remember(store)

    def spools(self) -> list[Path]:
        folder = self.home / "spool"
        return sorted(folder.iterdir()) if folder.exists() else []

    def sent(self) -> str:
        return self.received.read_text("utf-8")

    def argv(self) -> list[str]:
        words: list[str] = json.loads(self.received.with_suffix(".argv").read_text())
        return words


class MadeOnce:
    """A bench as it was made once, put back for each test: what runs leave behind knows the folder where it lies."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._copy = copy.copy(bench), bench.root.with_name(f"{bench.root.name}-as-made")
        shutil.copytree(bench.root, self._copy, symlinks=True)

    def anew(self) -> Bench:
        """The bench without what a test before this one did."""
        shutil.rmtree(self._bench.root)
        shutil.copytree(self._copy, self._bench.root, symlinks=True)
        return copy.copy(self._bench)

    def anew_and_noted(self) -> Bench:
        """The same, with its store noted as the file that it is now, by which it is known when it moves."""
        bench = self.anew()
        bench.note_store()
        return bench
