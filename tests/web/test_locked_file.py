"""A session behind a password: nothing of it can be read without, and no piece can be changed."""

from __future__ import annotations

import gzip
import re
from base64 import b64decode
from typing import TYPE_CHECKING

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from backstory.web import locked_file
from tests.support.forked import COMMAND
from tests.support.session_files import EVENTS, LINES, SEALED, TOKEN, machine_with
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Done, Shell

PASSWORD = "correct horse battery"


def locked(shell: Shell, target: Path, *options: str, given: str = f"{PASSWORD}\n") -> Done:
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    return shell("export", session["uid"], "-o", target, "--password", *options, typed=given)


@pytest.fixture
def shell(empty: Shell) -> Shell:
    return machine_with(empty, EVENTS * 300)


def opened(page: str, password: str) -> str:
    """The text of a locked page, as its script makes it."""
    found = re.search(r'data-form="([^"]+)" data-rounds="(\d+)" data-salt="([^"]+)"', page)
    assert found is not None and int(found[2]) == locked_file.ROUNDS >= 600_000
    cipher = AESGCM(locked_file.key_of(password, b64decode(found[3].replace("&#43;", "+"))))
    pieces = SEALED.findall(page)
    texts = list[str]()
    for number, piece in enumerate(pieces):
        about = f"{found[1]} {number} {'last' if number == len(pieces) - 1 else 'more'}"
        packed = cipher.decrypt(number.to_bytes(12, "big"), b64decode(piece), about.encode())
        texts.append(gzip.decompress(packed).decode())
    return "".join(texts)


def test_a_locked_file_holds_the_session_and_shows_nothing_of_it(shell: Shell, tmp_path: Path) -> None:
    done = locked(shell, tmp_path / "x.html")
    assert done.code == 0, done.err
    page = (tmp_path / "x.html").read_text()
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    clear = SEALED.sub("", page)
    for words in (
        "price",
        LINES[3],
        "long thought",
        "Bash",
        "price.py",
        session["uid"],
        PASSWORD,
        "github-token",
        "2026",
    ):
        assert words not in clear, words
    inside = opened(page, PASSWORD)
    assert "The price with [github-token-" in inside and inside.count(LINES[3]) == 300
    assert inside.rstrip().endswith("</div>") and "<script" not in inside


def test_a_locked_file_is_masked_too_unless_a_person_wants_it_otherwise(shell: Shell, tmp_path: Path) -> None:
    assert locked(shell, tmp_path / "x.html").code == 0
    assert TOKEN not in opened((tmp_path / "x.html").read_text(), PASSWORD)
    done = locked(shell, tmp_path / "y.html", "--no-redact")
    assert "1 secret in it, not masked" in done.err
    assert TOKEN in opened((tmp_path / "y.html").read_text(), PASSWORD)


def test_another_password_opens_nothing(shell: Shell, tmp_path: Path) -> None:
    assert locked(shell, tmp_path / "x.html").code == 0
    with pytest.raises(InvalidTag):
        opened((tmp_path / "x.html").read_text(), "another one")


def test_two_files_of_one_session_share_no_piece(shell: Shell, tmp_path: Path) -> None:
    pieces = []
    for name in ("x.html", "y.html"):
        assert locked(shell, tmp_path / name).code == 0
        pieces.append({each[:40] for each in SEALED.findall((tmp_path / name).read_text())})
    assert len(pieces[0]) > 2 and not pieces[0] & pieces[1]


def test_a_short_password_is_warned_of_and_none_is_refused(shell: Shell, tmp_path: Path) -> None:
    assert "short password" not in locked(shell, tmp_path / "x.html").err
    assert "short password" in locked(shell, tmp_path / "y.html", given="1234567\n").err
    done = locked(shell, tmp_path / "z.html", given="\n")
    assert done.code == 2 and "--password needs one" in done.err
    assert not (tmp_path / "z.html").exists()


def test_only_a_page_opens_with_a_password(shell: Shell, tmp_path: Path) -> None:
    done = locked(shell, tmp_path / "x.md")
    assert done.code == 2 and "--password applies to --format html" in done.err


def test_a_password_can_be_typed_and_is_not_shown(shell: Shell, tmp_path: Path) -> None:
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    words = [*COMMAND, "export", session["uid"], "-o", str(tmp_path / "x.html"), "--password"]
    with Terminal(words, shell.cwd, shell.environ) as terminal:
        terminal.until("Password: ")
        terminal.type(f"{PASSWORD}\r")
        terminal.until("Repeat for confirmation: ")
        terminal.type(f"{PASSWORD}\r")
        shown = terminal.end()
    assert terminal.process.poll() == 0, shown
    assert PASSWORD not in shown
    assert "price" in opened((tmp_path / "x.html").read_text(), PASSWORD)


def test_without_its_package_the_export_says_how_to_add_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    from click.testing import CliRunner

    from backstory.cli.app import App
    from backstory.cli.commands.export_command import command
    from backstory.errors import LockNotInstalled

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "cryptography" else real(name))
    asked = ["--all", "--format", "html", "--password", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(command, asked, obj=App(shell.environ, shell.cwd))
    assert isinstance(done.exception, LockNotInstalled) and "cryptography" in str(done.exception)
