"""``backstory push`` and ``backstory pull`` as people and scripts type them, with a folder between two machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backstory.store import open_store
from tests.support.machines import SMALL
from tests.support.portable import held
from tests.support.shell import Done, Shell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
SAID = "a passphrase of tests"


@pytest.fixture
def there(tmp_path: Path) -> Shell:
    shell = machine(tmp_path / "there")
    shell.put(*SMALL[:4])
    assert shell("ingest").code == 0
    return shell


@pytest.fixture
def here(tmp_path: Path) -> Shell:
    return machine(tmp_path / "here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def machine(home: Path) -> Shell:
    home.mkdir()
    return Shell(home)


def content(shell: Shell) -> dict[str, object]:
    with open_store(shell.store) as store:
        return held(store)


def error(done: Done) -> tuple[int, str]:
    return done.code, json.loads(done.err.splitlines()[-1])["error"]["kind"]


def test_a_sealed_folder_brings_history_to_another_machine(there: Shell, here: Shell, folder: Path) -> None:
    count = len(content(there))
    pushed = there("push", folder, BACKSTORY_PASSPHRASE=SAID)
    assert pushed.code == 0, pushed.err
    assert pushed.out.startswith(f"{count} sessions written to {folder} (1 file, ") and ", sealed)." in pushed.out
    assert pushed.err == "Nothing is masked in it: it is for machines of your own.\n"
    said = folder.parent / "said"
    said.write_text(f"{SAID}\nnot this\n")
    pulled = here("pull", folder, "--passphrase-file", said)
    assert (pulled.code, pulled.out, pulled.err) == (0, f"{count} new sessions.\n", "")
    assert content(here) == content(there)
    assert here("verify").code == 0
    again = there("push", folder, "--json", BACKSTORY_PASSPHRASE=SAID)
    assert (again.code, json.loads(again.out)["pushed_uids"]) == (0, [])
    nothing = here("pull", folder, BACKSTORY_PASSPHRASE=SAID)
    assert (nothing.code, nothing.out) == (0, "Nothing new.\n")


def test_in_clear_has_to_be_said_each_time_on_both_sides(there: Shell, here: Shell, folder: Path) -> None:
    refused = there("push", folder, "--json")
    assert error(refused) == (64, "passphrase_missing")
    assert not folder.exists() or not list(folder.rglob("*.frames"))
    assert ", in clear)." in there("push", folder, "--plain").out
    unread = here("pull", folder, "--json", BACKSTORY_PASSPHRASE=SAID)
    assert unread.code == 1
    (pulled,) = json.loads(unread.out)["pulled"]
    assert "--plain" in pulled["passed_over"][0]
    assert here("pull", folder, "--plain").code == 0
    assert content(here) == content(there)


def test_a_wrong_passphrase_is_told(there: Shell, here: Shell, folder: Path) -> None:
    assert there("push", folder, BACKSTORY_PASSPHRASE=SAID).code == 0
    assert error(here("pull", folder, "--json", BACKSTORY_PASSPHRASE="another")) == (77, "passphrase_wrong")
    assert error(here("pull", folder, "--json")) == (64, "passphrase_missing")
    assert error(there("push", folder, "--json", "--anew", BACKSTORY_PASSPHRASE="another")) == (77, "passphrase_wrong")


def test_a_short_passphrase_is_remarked_on_when_it_is_new(there: Shell, folder: Path) -> None:
    assert "short passphrase" in there("push", folder, BACKSTORY_PASSPHRASE="short").err
    assert there("push", folder, "--anew", BACKSTORY_PASSPHRASE="short").err.count("\n") == 1


def test_what_cannot_be_pulled_from_is_told(here: Shell, folder: Path) -> None:
    assert error(here("pull", folder, "--json")) == (66, "folder_not_usable")
    assert error(here("pull", "ssh://-oProxyCommand=x", "--json")) == (64, "far_name_unusable")
    assert error(here("pull", "ssh://desk", "--json", PATH="/nowhere")) == (69, "no_ssh")
    assert here("pull").code == 2


def test_a_home_that_moves_takes_along_what_was_pulled_and_pushed(there: Shell, here: Shell, folder: Path) -> None:
    assert there("push", folder, BACKSTORY_PASSPHRASE=SAID).code == 0
    assert here("pull", folder, BACKSTORY_PASSPHRASE=SAID).code == 0
    for shell in (there, here):
        done = shell("migrate-home", shell.home / "backstory", shell.home / "new")
        assert done.code == 0, done.err
        shell.environ["BACKSTORY_HOME"] = str(shell.home / "new")
    assert there("push", folder, BACKSTORY_PASSPHRASE=SAID).out == f"Nothing new for {folder}.\n"
    assert here("pull", folder, BACKSTORY_PASSPHRASE=SAID).out == "Nothing new.\n"
