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
from tests.support.shell import Shell
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.shell import Done

PASSWORD = "correct horse battery"


def locked(shell: Shell, target: Path, *options: str, given: str = f"{PASSWORD}\n") -> Done:
    (session,) = shell("list", "--all", "--json").json()["sessions"]
    return shell("export", session["uid"], "-o", target, "--password", *options, typed=given)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A machine that no test changes."""
    home = tmp_path_factory.mktemp("locked") / "home"
    home.mkdir()
    return machine_with(Shell(home), EVENTS * 300)


@pytest.fixture(scope="module")
def page(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its session as a file with a password, exported once."""
    target = tmp_path_factory.mktemp("out") / "x.html"
    done = locked(shell, target)
    assert done.code == 0, done.err
    assert "short password" not in done.err
    return target.read_text()


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


def test_a_locked_file_holds_the_session_and_shows_nothing_of_it(shell: Shell, page: str) -> None:
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
    assert TOKEN not in inside and "The price with [github-token-" in inside and inside.count(LINES[3]) == 300
    assert inside.rstrip().endswith("</div>") and "<script" not in inside


def test_a_locked_file_is_not_masked_if_a_person_wants_it_so(shell: Shell, tmp_path: Path) -> None:
    done = locked(shell, tmp_path / "y.html", "--no-redact")
    assert "1 secret in it, not masked" in done.err
    assert TOKEN in opened((tmp_path / "y.html").read_text(), PASSWORD)


def test_another_password_opens_nothing(page: str) -> None:
    with pytest.raises(InvalidTag):
        opened(page, "another one")


def test_two_files_of_one_session_share_no_piece(shell: Shell, page: str, tmp_path: Path) -> None:
    assert locked(shell, tmp_path / "y.html").code == 0
    one, other = ({each[:40] for each in SEALED.findall(text)} for text in (page, (tmp_path / "y.html").read_text()))
    assert len(one) > 2 and not one & other


def test_a_short_password_is_warned_of_and_none_is_refused(shell: Shell, tmp_path: Path) -> None:
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
