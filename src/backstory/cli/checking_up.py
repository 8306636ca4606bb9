"""``backstory doctor`` itself: the check-up drawn, the safe commands that it prints run, and a bundle for a report."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backstory.cli import output
from backstory.cli.app import now_ms
from backstory.cli.options import readable
from backstory.cli.trusting import is_agreed
from backstory.errors import BackstoryError, FileInTheWay, StoreNotFound
from backstory.model import encoded
from backstory.store.file import untouched
from backstory.workspace.care import checkup, findings
from backstory.workspace.care.case import Case
from backstory.workspace.care.findings import US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backstory.cli.app import App
    from backstory.config import Config, Settings
    from backstory.workspace.care.bundle import Program
    from backstory.workspace.care.findings import Finding

FOUND = 1
UNCHANGED = "Nothing was changed."
NOT_STARTED = 127


def check_up(app: App, *, fixes: bool, yes: bool, as_json: bool) -> int:
    """Look over the machine, mend what may be mended if a person wants it, and print it; return the exit code.

    Raises StoreNotFound for a store that was named, NotConfirmed.
    """
    case = case_of(app)
    if case.named is not None and case.look(case.named).state == untouched.MISSING:
        raise StoreNotFound(case.named)
    found = checkup.check_up(case)
    todo = _safe(found) if fixes else []
    done: list[tuple[Finding, int]] = []
    if todo:
        for each in todo:
            output.talk(output.one_liner(each.typed))
        what = f"Running {output.counted(len(todo), 'command')}"
        if is_agreed(what, f"{what}: go on?", yes=yes):
            done = [(each, _run(app, each)) for each in todo]
            # Another connection and other settings: what was mended is seen anew.
            found = checkup.check_up(case_of(app))
    if as_json:
        output.json(_as_json(found, done if fixes else None))
    else:
        _tell(found, done, is_fixing=fixes)
    return FOUND if any(each.kind.is_ill for each in found) else 0


def case_of(app: App) -> Case:
    """The machine, from the folder that a person is in."""
    return Case(
        home=app.home_folder, default_home=app.default_home, user_home=app.user_home, folder=app.cwd,
        environ=app.environ, now=now_ms(), read_settings=lambda: _settings(app),
        named=None if app.store_path is None else Path(os.path.normpath(app.cwd / app.store_path)),
        is_home_set=bool(app.environ.get("BACKSTORY_HOME")), platform=sys.platform,
    )  # fmt: skip


def _settings(app: App) -> Settings:
    """The settings in force. Raises ConfigBroken, SettingRefused where any of them is wrong."""
    for each in app.config.every_setting():
        app.config.get(each.key)
    return app.config.settings


def _safe(found: Sequence[Finding]) -> list[Finding]:
    """One finding for each command that may be run without a thought, in the order in which they are listed."""
    return list({each.typed: each for each in reversed(found) if each.is_safe and each.command}.values())[::-1]


def _run(app: App, finding: Finding) -> int:
    """Run a command as it is printed, in a process of its own; return its exit code. What it prints goes to stderr."""
    from backstory.cli.installing import program_words

    words = finding.command
    started = [*program_words(), *words[1:]] if words[0] == US else list(words)
    sys.stderr.flush()
    try:
        done = subprocess.run(
            started, cwd=finding.folder or app.cwd, env=dict(app.environ), stdin=subprocess.DEVNULL, stdout=2,
            check=False,
        )  # fmt: skip
    except OSError as refused:
        output.talk(output.one_liner(f"{finding.typed}: {refused.strerror or refused}"))
        return NOT_STARTED
    return done.returncode


def _as_json(found: Sequence[Finding], done: Sequence[tuple[Finding, int]] | None) -> dict[str, Any]:
    fixed = {} if done is None else {"fixed": [{"as_typed": each.typed, "exit_code": code} for each, code in done]}
    return {
        "needs_mending": any(each.kind.is_ill for each in found),
        "findings": [findings.as_json(each) for each in found],
    } | fixed  # fmt: skip


def _tell(found: Sequence[Finding], done: Sequence[tuple[Finding, int]], *, is_fixing: bool) -> None:
    """Print each: what it is about, what it means, and what mends it, to be copied as it is."""
    for each in found:
        subject = ": ".join(filter(None, [each.about, each.detail]))
        head = output.one_liner(f"{each.name}  {subject}".rstrip())
        output.data(output.style(head, bold=True) if each.kind.is_ill else head)
        for line in _wrapped(each.kind.means):
            output.data(f"    {line}")
        if each.typed:
            output.data(f"    {output.style(output.one_liner(each.typed), fg='green')}")
    for mended, code in done:
        if code:
            output.talk(output.one_liner(f"It ended with {code}: {mended.typed}"))
    if done:
        output.talk(f"{output.counted(len(done), 'command')} run.")
    ill = sum(each.kind.is_ill for each in found)
    if not found:
        output.data("Nothing found: all is well.")
        return
    notes = output.counted(len(found) - ill, "note")
    left = f"{output.counted(ill, 'finding')} to mend, {notes}." if ill else f"{notes}, nothing to mend."
    why = "None of their commands is safe to run unasked." if is_fixing and ill and not done else UNCHANGED
    output.talk(left if done else f"{left} {why}")


def _wrapped(text: str) -> list[str]:
    return output.wrapped(text, max(output.width() - 4, 20)) if sys.stdout.isatty() else [text]


# a bundle -------------------------------------------------------------------------------------------------------------


LIBRARIES = ("apsw", "click", "msgspec", "rich", "zstandard", "psutil", "platformdirs")
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of each file in an archive: it says nothing about anybody's clock."""


def write_bundle(app: App, typed: str, *, yes: bool) -> int:
    """Print what a bundle has, and write it if a person agrees; return the exit code. Raises FileInTheWay, DiskFull."""
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    import msgspec

    from backstory.export.files import whole_file
    from backstory.workspace.care.bundle import ABOUT, bundle_of

    target = Path(os.path.normpath(app.cwd / readable(typed)))
    if os.path.lexists(target):
        raise FileInTheWay(target)
    files = bundle_of(case_of(app), _config_of(app), _program())
    texts = {name: msgspec.json.format(encoded(value), indent=1) for name, value in files.items()}
    for name, text in texts.items():
        output.data(output.style(f"{name}: {ABOUT[name]}", bold=True))
        for line in text.decode().splitlines():
            output.data(line)
    what = f"Writing {target} ({output.counted(len(texts), 'file')}, as printed)"
    if is_agreed(output.one_liner(what), output.one_liner(f"{what}: go on?"), yes=yes):
        with whole_file(target) as file, ZipFile(file, "w", ZIP_DEFLATED) as archive:
            for name, text in texts.items():
                archive.writestr(ZipInfo(name, EPOCH), text, ZIP_DEFLATED)
        output.talk(output.one_liner(f"Written: {target}. Read it before you send it; nothing was sent."))
    return 0


def _config_of(app: App) -> Config | None:
    try:
        return app.config
    except (BackstoryError, OSError):
        return None


def _program() -> Program:
    from importlib.metadata import PackageNotFoundError, version

    from backstory.workspace.care.bundle import Program

    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return Program(found, f"{sys.platform} {platform.machine()}")
