"""``list -i`` and ``search -i``: a person picks, with fzf or from a numbered list, on a terminal of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.going import DEADLINE_S, until
from tests.support.machines import claude_line, claude_log, lines
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow
FZF = shutil.which("fzf")
needs_fzf = pytest.mark.skipif(FZF is None, reason="there is no fzf")
HOSTILE = (
    "heron '; touch gone; ' $(touch gone) `touch gone` \"$(touch gone)\" {1} {q}"
    "\ta\tb\x1b]0;x\x07\x1b[31m\n| touch gone"
)
"""A prompt that says what it would like a shell, fzf and a terminal to do."""
FAKE = """#!/bin/sh
if [ "$1" = --version ]; then echo "$FAKE_VERSION (fake)"; exit 0; fi
printf '%s\\n' "$@" >"$FAKE_FOLDER/options"
env >"$FAKE_FOLDER/environ"
if [ -n "$FAKE_LINES" ]; then head -n "$FAKE_LINES" >"$FAKE_FOLDER/lines"; else cat >"$FAKE_FOLDER/lines"; fi
[ -n "$FAKE_KEY" ] && { [ "$FAKE_KEY" = enter ] && echo || echo "$FAKE_KEY"; head -n 1 "$FAKE_FOLDER/lines"; }
exit "${FAKE_EXIT:-0}"
"""


def fake(folder: Path, version: str = "0.30.0", **how: str) -> dict[str, str]:
    """An environment with an fzf of ours, which notes what it is given and does as it is told."""
    folder.mkdir(exist_ok=True)
    (folder / "fzf").write_text(FAKE)
    (folder / "fzf").chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "FAKE_FOLDER": str(folder), "FAKE_VERSION": version} | {
        f"FAKE_{name}": value for name, value in how.items()
    }


def on_terminal(shell: Shell, *words: str, **environ: str) -> Terminal:
    command = [sys.executable, "-m", "backstory", *words]
    return Terminal(command, shell.cwd, shell.environ | environ)


def ended(terminal: Terminal) -> tuple[int, str]:
    shown = terminal.end()
    return terminal.process.returncode, shown


@pytest.fixture
def without_fzf(tmp_path: Path) -> dict[str, str]:
    """A PATH on which nothing is."""
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty")}


def put(shell: Shell, *prompts: str) -> None:
    for n, prompt in enumerate(prompts):
        path = shell.home / claude_log(f"log-{n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        records = (claude_line("user", f"u{n}", prompt), claude_line("assistant", f"a{n}", f"answer {n}"))
        path.write_bytes(lines(*(each.replace(b'"s"', f'"log-{n}"'.encode()) for each in records)))
    assert shell("ingest").code == 0


# without fzf -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("list", "--all"), ("search", "answer")], ids=["list", "search"])
def test_without_fzf_a_number_is_asked_for_and_shown(
    bare: Shell, without_fzf: dict[str, str], words: tuple[str, ...]
) -> None:
    put(bare, "the heron", "the stork")
    with on_terminal(bare, *words, "-i", **without_fzf) as terminal:
        asked = terminal.until("[1-2]: ")
        second = next(line for line in asked.splitlines() if line.startswith("2  "))
        terminal.type("2\n")
        code, shown = ended(terminal)
    title = "the heron" if "the heron" in second else "the stork"
    assert code == 0
    assert f"❯ {title}" in shown.partition("[1-2]: ")[2]


@pytest.mark.parametrize(("answer", "command"), [("1", "show"), ("1r", "resume"), ("1 c", "run -S"), ("1C", "run -S")])
def test_the_command_for_what_was_picked_is_printed_if_asked_for(
    bare: Shell, without_fzf: dict[str, str], answer: str, command: str
) -> None:
    put(bare, "the heron")
    uid = bare("list", "--all", "--json").json()[0]["uid"]
    with on_terminal(bare, "list", "--all", "--print", **without_fzf) as terminal:
        terminal.until("[1-1]: ")
        terminal.type(f"{answer}\n")
        code, shown = ended(terminal)
    assert (code, shown.splitlines()[-1]) == (0, f"backstory {command} {uid}")


@pytest.mark.parametrize("keys", ["\n", "\x04"], ids=["enter", "end of input"])
def test_nothing_is_done_where_nothing_is_picked(bare: Shell, without_fzf: dict[str, str], keys: str) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i", **without_fzf) as terminal:
        terminal.until("[1-1]: ")
        terminal.type(keys)
        code, shown = ended(terminal)
    assert (code, "❯" in shown) == (130, False)


def test_a_number_that_is_not_there_is_asked_for_again(bare: Shell, without_fzf: dict[str, str]) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i", **without_fzf) as terminal:
        for wrong in ("2", "0", "r", "1x"):
            terminal.until("[1-1]: ")
            terminal.type(f"{wrong}\n")
            terminal.until(f"There is no '{wrong}'.")
        terminal.type("\n")
        assert ended(terminal)[0] == 130


def test_an_older_fzf_is_passed_over(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i", **fake(tmp_path / "old", "0.29.0")) as terminal:
        terminal.until("[1-1]: ")
        terminal.type("\n")
        assert ended(terminal)[0] == 130
    assert not (tmp_path / "old" / "options").exists()


@pytest.mark.parametrize("words", [("list", "-i"), ("search", "-i", "heron")], ids=["list", "search"])
def test_without_a_terminal_nobody_can_pick(bare: Shell, words: tuple[str, ...]) -> None:
    put(bare, "the heron")
    done = bare(*words)
    assert (done.code, done.out) == (2, "")
    assert "terminal" in done.err
    assert bare(*words, "--json").code == 2


# what fzf is given -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("list", "--all"), ("search", "heron")], ids=["list", "search"])
def test_fzf_is_given_lines_without_anything_that_acts(bare: Shell, tmp_path: Path, words: tuple[str, ...]) -> None:
    put(bare, HOSTILE)
    given = tmp_path / "fake"
    with on_terminal(bare, *words, "-i", **fake(given, KEY="enter")) as terminal:
        code, _ = ended(terminal)
    assert code == 0
    (line,) = (given / "lines").read_text("utf-8").splitlines()
    uid, record, text = line.split("\t")
    assert re.fullmatch(r"[0-9A-Z]{26}", uid)
    assert re.fullmatch(r"@1" if words[0] == "search" else "", record)
    assert text.isprintable()
    assert "heron '; touch gone; '" in text
    options = (given / "options").read_text("utf-8")
    assert "heron" not in options, "what was searched for, and titles, are in no command"
    if words[0] == "search":
        assert "BACKSTORY_PICK_FIND=heron\n" in (given / "environ").read_text("utf-8")


def test_words_that_a_shell_would_run_are_only_marked(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron")
    given, query = tmp_path / "fake", "heron '\"; touch gone; $(touch gone)"
    with on_terminal(bare, "search", "-i", query, **fake(given, KEY="enter")) as terminal:
        assert ended(terminal)[0] == 0
    (preview,) = re.findall("^--preview=(.*)$", (given / "options").read_text("utf-8"), re.MULTILINE)
    uid, record, _ = (given / "lines").read_text("utf-8").split("\t")
    command = preview.replace("{1}", f"'{uid}'").replace("{2}", f"'{record}'")
    environ = bare.environ | {"BACKSTORY_PICK_FIND": query, "FZF_PREVIEW_COLUMNS": "60"}
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=bare.cwd, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "> the heron" in done.stdout) == (0, True), done.stderr
    assert list(bare.cwd.iterdir()) == []


def test_a_module_of_the_current_folder_is_not_imported(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron")
    for name in ("click.py", "backstory.py"):
        (bare.cwd / name).write_text("open('gone', 'w')\n")
    words = [sys.executable, "-P", "-m", "backstory", "list", "--all", "-i"]
    with Terminal(words, bare.cwd, bare.environ | fake(tmp_path / "fake", KEY="enter")) as terminal:
        code, shown = ended(terminal)
    assert (code, "❯ the heron" in shown) == (0, True)
    assert not (bare.cwd / "gone").exists()


@pytest.mark.parametrize(("key", "command"), [("enter", "show"), ("alt-r", "resume"), ("alt-c", "run -S")])
def test_the_key_says_what_is_done(bare: Shell, tmp_path: Path, key: str, command: str) -> None:
    put(bare, "the heron")
    uid = bare("list", "--all", "--json").json()[0]["uid"]
    with on_terminal(bare, "list", "--all", "-i", "--print", **fake(tmp_path / "fake", KEY=key)) as terminal:
        assert ended(terminal) == (0, f"backstory {command} {uid}\n")


@pytest.mark.parametrize("code", ["1", "130"])
def test_what_fzf_ends_without_a_choice_ends_here(bare: Shell, tmp_path: Path, code: str) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i", **fake(tmp_path / "fake", EXIT=code)) as terminal:
        assert ended(terminal) == (130, "")


def test_an_error_of_fzf_is_told(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i", **fake(tmp_path / "fake", EXIT="2")) as terminal:
        code, shown = ended(terminal)
    assert (code, "fzf failed" in shown) == (69, True)


def test_an_fzf_that_ends_early_ends_the_reading(bare: Shell, tmp_path: Path) -> None:
    put(bare, *(f"prompt {n} {'x' * 300}" for n in range(300)))
    given = tmp_path / "fake"
    with on_terminal(bare, "list", "--all", "-i", **fake(given, LINES="1", EXIT="130")) as terminal:
        assert ended(terminal) == (130, "")
    assert len((given / "lines").read_text("utf-8").splitlines()) == 1


def test_every_session_is_handed_over_once_in_the_order_of_the_list(bare: Shell, tmp_path: Path) -> None:
    put(bare, *(f"prompt {n}" for n in range(300)))
    given = tmp_path / "fake"
    with on_terminal(bare, "list", "--all", "-i", **fake(given, EXIT="130")) as terminal:
        ended(terminal)
    handed = [line.partition("\t")[0] for line in (given / "lines").read_text("utf-8").splitlines()]
    assert handed == [each["uid"] for each in bare("list", "--all", "--json").json()]
    assert len(handed) == 300


def test_a_store_that_was_named_is_named_to_what_follows(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron")
    copy = tmp_path / "a copy.bks"
    assert bare("backup", str(copy)).code == 0
    bare.store.unlink()
    given = tmp_path / "fake"
    with on_terminal(bare, "list", "--all", "-i", "--store", str(copy), **fake(given, KEY="enter")) as terminal:
        code, shown = ended(terminal)
    assert (code, "❯ the heron" in shown) == (0, True)
    assert f"BACKSTORY_PICK_STORE={copy}\n" in (given / "environ").read_text("utf-8")


# the real fzf ------------------------------------------------------------------------------------------------------


@needs_fzf
def test_the_real_fzf_shows_a_preview_and_runs_nothing_that_a_title_says(bare: Shell) -> None:
    put(bare, HOSTILE, "the stork")
    with on_terminal(bare, "search", "-i", "heron") as terminal:
        terminal.until("· turn 1 · prompt ·")
        terminal.until("> heron")
        terminal.type("\r")
        code, shown = ended(terminal)
    assert code == 0
    assert "@1 · turn 1 · prompt" in shown[shown.rindex("\x1b[?1049l") :]
    assert list(bare.cwd.iterdir()) == []


@needs_fzf
def test_what_is_typed_in_the_real_fzf_narrows_the_list(bare: Shell) -> None:
    put(bare, "the heron", "the stork", "the crane")
    uid = next(each["uid"] for each in bare("list", "--all", "--json").json() if each["first_prompt"] == "the crane")
    with on_terminal(bare, "list", "--all", "-i", "--print", FZF_DEFAULT_OPTS="--multi --print-query") as terminal:
        terminal.until("3/3")
        terminal.type("crane")
        terminal.until("1/3")
        terminal.type("\x1bc")
        code, shown = ended(terminal)
    assert code == 0
    assert shown.endswith(f"backstory run -S {uid}\n")


@needs_fzf
def test_leaving_the_real_fzf_does_nothing(bare: Shell) -> None:
    put(bare, "the heron")
    with on_terminal(bare, "list", "--all", "-i") as terminal:
        terminal.until("1/1")
        terminal.type("\x03")
        assert ended(terminal)[0] == 130


# shells ------------------------------------------------------------------------------------------------------------

PROMPT = {"bash": "PS1='ready> '", "zsh": "PS1='ready> '", "fish": "function fish_prompt; echo -n 'ready> '; end"}
START = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"], "fish": ["--no-config"]}
SOURCE = {
    "bash": "source <(backstory completion bash)",
    "zsh": "autoload -U compinit; compinit -u; source <(backstory completion zsh)",
    "fish": "backstory completion fish | source",
}


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_key_inserts_what_is_picked_in_each_shell(bare: Shell, tmp_path: Path, name: str) -> None:
    shell = shutil.which(name)
    if shell is None:
        pytest.skip(f"there is no {name}")
    put(bare, "the heron")
    uid = bare("list", "--all", "--json").json()[0]["uid"]
    environ = bare.environ | fake(tmp_path / "fake", KEY="enter")
    ours = tmp_path / "fake" / "backstory"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m backstory "$@"\n')
    ours.chmod(0o755)
    with Terminal([shell, *START[name], "-i"], bare.cwd, environ) as terminal:
        terminal.type(f"{PROMPT[name]}; {SOURCE[name]}; echo sour''ced\n")
        terminal.until("sourced")
        terminal.type("echo \x18b")
        terminal.until(uid)
        terminal.type(" >word\n")
        until((bare.cwd / "word").exists)
        until(lambda: (bare.cwd / "word").read_text() == f"{uid}\n")
        terminal.type("\x18b")
        terminal.until(f"backstory show {uid}")
        terminal.type(" --json >shown; echo en''ded\n")
        terminal.until("ended")
    assert json.loads((bare.cwd / "shown").read_text())["session"]["uid"] == uid


def test_bash_lists_titles_and_inserts_none(bare: Shell, tmp_path: Path) -> None:
    put(bare, "the heron", "the stork")
    # A program of this name, as an installed one has it.
    (tmp_path / "backstory").write_text(f"#!{sys.executable}\nfrom backstory.cli import main\nmain()\n")
    (tmp_path / "backstory").chmod(0o755)
    line = (
        "source <(backstory completion bash); COMP_WORDS=(backstory show 0); COMP_CWORD=2; COMP_TYPE=TYPE; "
        'f=$(complete -p backstory | grep -o "[^ ]*completion"); $f backstory; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    told = [
        subprocess.run(
            ["bash", "-c", line.replace("=TYPE", f"={kind}")],
            env=bare.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True,
            check=True, timeout=DEADLINE_S,
        ).stdout.splitlines()
        for kind in ("63", "9")
    ]  # fmt: skip
    listed, inserted = told
    assert sorted(each.partition("  -- ")[2] for each in listed) == ["the heron", "the stork"]
    assert inserted == [each.partition("  -- ")[0] for each in listed]
