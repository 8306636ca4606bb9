"""``list -i`` and ``search -i``: a person picks, on a terminal of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory import UserMessage, open_store
from tests.support.going import DEADLINE_S, until
from tests.support.machines import claude_line, claude_log, lines
from tests.support.picked import OnTerminal
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from tests.support.shell import Shell

pytestmark = pytest.mark.slow
HOSTILE = (
    "heron '; touch gone; ' $(touch gone) `touch gone` \"$(touch gone)\" {1} {q}"
    "\ta\tb\x1b]0;x\x07\x1b[31m\x1b[2J\x9b31m\n| touch gone"
)
"""A prompt that says what it would like a shell and a terminal to do."""
OPENED = "\x1b[?1049h"
"""Opens the other screen."""


def opened(shell: Shell, *words: str, **how: Any) -> OnTerminal:
    return OnTerminal(words, shell.cwd, shell.environ, **how)


def put(shell: Shell, *prompts: str, begin: int = 0, is_ingested: bool = True) -> None:
    for n, prompt in enumerate(prompts, begin):
        path = shell.home / claude_log(f"log-{n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        records = (claude_line("user", f"u{n}", prompt), claude_line("assistant", f"a{n}", f"answer {n}"))
        path.write_bytes(lines(*(each.replace(b'"s"', f'"log-{n}"'.encode()) for each in records)))
    assert not is_ingested or shell("ingest").code == 0


def uid_of(shell: Shell, prompt: str) -> str:
    listed = shell("list", "--all", "--json").json()["sessions"]
    found: str = next(each["uid"] for each in listed if each["first_prompt"] == prompt)
    return found


@pytest.fixture
def birds(bare: Shell) -> Shell:
    put(bare, "the heron", "the stork", "the crane")
    return bare


# keys -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "command"), [("\r", "show"), ("\x12", "resume"), ("\x0f", "run -S")])
def test_the_key_says_what_is_done_with_what_was_typed_for(birds: Shell, key: str, command: str) -> None:
    with opened(birds, "list", "--all", "-i", "--print") as terminal:
        terminal.until_seen("the heron", "the crane", "3 sessions", "answer")
        terminal.type("stork")
        terminal.until_seen("> stork", "1 title")
        terminal.type(key)
        assert terminal.ended() == (0, f"backstory {command} {uid_of(birds, 'the stork')}\n")


def test_what_is_picked_is_shown_on_the_terminal_as_it_was(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        terminal.type("heron")
        terminal.until_seen("> heron", "1 title")
        terminal.type("\r")
        code, shown = terminal.ended()
    assert (code, "❯ the heron" in shown) == (0, True)


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["escape", "ctrl-c"])
def test_nothing_is_done_where_nothing_is_picked(birds: Shell, key: str) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        terminal.type(key)
        assert terminal.ended() == (130, "")


def test_a_search_has_its_words_in_the_field_and_shows_the_record_that_was_found(birds: Shell) -> None:
    with opened(birds, "search", "-i", "heron", "--print") as terminal:
        terminal.until_seen("> heron", "1 in texts", "turn 1 · prompt", "       > the heron")
        terminal.type("\r")
        assert terminal.ended() == (0, f"backstory show --find=heron {uid_of(birds, 'the heron')} @1\n")


def test_texts_follow_titles_and_the_last_word_may_be_a_beginning(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i", "--print") as terminal:
        terminal.until_seen("the heron")
        terminal.type("answ")
        terminal.until_seen("0 titles", "3 in texts", "» answer 2")
        terminal.type("\x1b[B\r")
        code, shown = terminal.ended()
    assert (code, shown.split()[2].strip("'*")) == (0, "--find=answ"), "before or after the pause"


def test_the_filter_of_a_list_holds_for_what_is_typed(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i", "--agent", "codex") as terminal:
        terminal.until_seen("Nothing found.")
        terminal.type("answer")
        terminal.until_seen("0 titles", "0 in texts")


def test_a_title_of_the_filter_is_in_the_field(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i", "--grep", "crane") as terminal:
        terminal.until_seen("> crane", "the crane", "1 title")


def test_a_paste_is_text_and_chooses_nothing(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        terminal.type("\x1b[200~the\r\x1b[31mstork\n\x1b[201~")
        terminal.until_seen("> the  [31mstork")


def test_a_mistake_in_a_filter_is_told_before_the_screen_is_taken(birds: Shell) -> None:
    for words in (("list", "-i", "--agent", "nobody"), ("search", "-i", "--regex", "(")):
        with opened(birds, *words) as terminal:
            assert terminal.end().startswith("backstory: ")
            assert terminal.process.returncode not in (0, 1, 130)
            assert "\x1b[" not in terminal.shown


@pytest.mark.parametrize("words", [("list", "-i"), ("search", "-i", "heron")], ids=["list", "search"])
def test_without_a_terminal_nobody_can_pick(birds: Shell, words: tuple[str, ...]) -> None:
    done = birds(*words)
    assert (done.code, done.out) == (2, "")
    assert "terminal" in done.err
    assert birds(*words, "--json").code == 2


def test_a_terminal_that_cannot_be_painted_gets_a_plain_list(birds: Shell) -> None:
    environ = birds.environ | {"TERM": "dumb"}
    with OnTerminal(["list", "--all", "-i"], birds.cwd, environ) as terminal:
        assert "the heron" in terminal.end()
        assert (terminal.process.returncode, "\x1b" in terminal.shown) == (0, False)
    with OnTerminal(["list", "--all", "--print"], birds.cwd, environ) as terminal:
        assert "TERM is dumb" in terminal.end()
        assert terminal.process.returncode == 2


# backstory alone ------------------------------------------------------------------------------------------------------


def test_backstory_alone_opens_the_picker_of_this_project(birds: Shell) -> None:
    with opened(birds) as terminal:
        terminal.until_seen("No sessions of work yet; the newest of every project:", "the heron")
        terminal.type("answer")
        terminal.until_seen("3 in texts")
        terminal.type("\x1b")
        assert terminal.ended() == (130, "")


def test_backstory_alone_prints_the_newest_sessions_where_no_screen_can_be_painted(birds: Shell) -> None:
    piped = birds()
    assert (piped.code, piped.out, "No sessions of" in piped.err) == (0, "", True)
    with OnTerminal([], birds.cwd, birds.environ | {"TERM": "dumb"}) as terminal:
        assert terminal.end() == piped.err
        assert terminal.process.returncode == 0


def test_where_there_is_nothing_it_is_said_what_to_do(bare: Shell) -> None:
    for words, code in (((), 0), (("list", "-i"), 130)):
        with opened(bare, *words, width=400) as terminal:
            shown = terminal.end()
        assert (terminal.process.returncode, "\x1b[" in shown) == (code, False)
        assert ("Nothing was imported yet" in shown, "backstory run PROMPT" in shown) == (True, True)


def test_a_few_logs_are_imported_before_the_first_picker(bare: Shell) -> None:
    put(bare, "the heron", is_ingested=False)
    with opened(bare, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        assert "Imported 1 log" in terminal.shown


@pytest.mark.parametrize("answer", ["y", "n"])
def test_many_logs_are_imported_if_a_person_agrees(bare: Shell, answer: str) -> None:
    put(bare, f"the heron {'x' * 5_000_000}", is_ingested=False)
    with opened(bare) as terminal:
        terminal.until("Import them now? [y/N]: ")
        terminal.type(f"{answer}\n")
        if answer == "y":
            terminal.until_seen("the heron", "Esc leave")
            assert "1 session" in terminal.shown.partition(OPENED)[0]
            return
        assert "Nothing was imported yet" in terminal.end()
    assert (terminal.process.returncode, bare.store.exists()) == (0, False)


# what is hostile ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("list", "--all"), ("search", "heron")], ids=["list", "search"])
def test_no_sequence_of_a_history_reaches_the_terminal(bare: Shell, words: tuple[str, ...]) -> None:
    put(bare, HOSTILE)
    with opened(bare, *words, "-i", width=200) as terminal:
        # The screen fails for every sequence but those of the picker.
        terminal.until_seen("heron '; touch gone", r"\x1b]0;x\x07\x1b[31m\x1b[2J\x9b31m", "answer 0")
        terminal.type("\x1b[B\x1b[A\r")
        code, shown = terminal.ended()
    assert (code, "touch gone" in shown, "\x1b]" in shown, "\x1b[2J" in shown) == (0, True, False, False)
    assert terminal.screen.styles == {"0"}, "NO_COLOR"
    assert list(bare.cwd.iterdir()) == []


def test_colours_are_those_of_the_terminal(birds: Shell) -> None:
    with OnTerminal(["search", "-i", "heron"], birds.cwd, birds.environ | {"NO_COLOR": ""}) as terminal:
        terminal.until_seen("> heron", "> the heron")
        assert {"7", "32", "1"} <= terminal.screen.styles
        assert {each for each in terminal.screen.styles if each.startswith(("38", "48", "4", "9"))} == set()


def test_words_that_a_shell_would_run_are_only_looked_for(birds: Shell) -> None:
    query = "heron '\"; touch gone; $(touch gone)"
    with opened(birds, "search", "-i", query) as terminal:
        terminal.until_seen("touch gone", "1 in texts")
        terminal.type("\r")
        assert terminal.ended()[0] == 0
    assert list(birds.cwd.iterdir()) == []


def test_a_module_of_the_current_folder_is_not_imported(birds: Shell) -> None:
    for name in ("click.py", "backstory.py"):
        (birds.cwd / name).write_text("open('gone', 'w')\n")
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        terminal.type("\r")
        code, shown = terminal.ended()
    assert (code, "❯ the" in shown) == (0, True)
    assert not (birds.cwd / "gone").exists()


def test_a_store_that_was_named_is_named_to_what_follows(birds: Shell, tmp_path: Path) -> None:
    copy = tmp_path / "a copy.bks"
    assert birds("backup", str(copy)).code == 0
    birds.store.unlink()
    with opened(birds, "list", "--all", "-i", "--store", str(copy), "--print") as terminal:
        terminal.until_seen("the heron")
        terminal.type("\r")
        code, shown = terminal.ended()
    assert (code, shown.startswith(f"backstory show '--store={copy}' ")) == (0, True)


# what happens meanwhile -----------------------------------------------------------------------------------------------


def test_a_new_session_appears_and_a_removed_one_goes(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("3 sessions")
        put(birds, "the owl", begin=3)
        terminal.until_seen("4 sessions", "the owl")
        assert birds("rm", uid_of(birds, "the stork"), "--yes").code == 0
        until(lambda: "the stork" not in terminal.seen())


def test_a_home_store_that_somebody_writes_is_read(birds: Shell) -> None:
    writer = apsw.Connection(str(birds.store))
    writer.execute("begin immediate")
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("3 sessions")
        terminal.type("answ")
        terminal.until_seen("3 in texts")
        terminal.type("\x1b")
        assert terminal.ended() == (130, "")
    writer.close()


def swan(shell: Shell) -> Path:
    """A project's store with a session; returns its path."""
    path = shell.cwd / ".backstory" / "sessions.bks"
    with open_store(path) as store:
        store.append_events(store.create_session(worktree=shell.cwd), [UserMessage(content="the swan")])
    return path


def test_a_store_that_another_process_holds_is_named_before_the_screen_is_taken(birds: Shell) -> None:
    with closing(apsw.Connection(str(swan(birds)))) as writer:
        writer.execute("begin exclusive")
        with opened(birds, "list", "--all", "-i") as terminal:
            code, shown = terminal.ended()
    assert (code, "is locked by another process" in shown, OPENED in shown) == (75, True, False)


def test_a_store_that_another_process_takes_meanwhile_is_read_when_that_is_done(birds: Shell) -> None:
    path = swan(birds)
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("4 sessions", "the swan")
        with closing(apsw.Connection(str(path))) as writer:
            # The list may be reading it just now.
            writer.set_busy_timeout(60_000)
            writer.execute("begin exclusive; update turns set prompt = 'the goose'")
            terminal.type("he")
            terminal.until_seen("the heron")
            terminal.type("\x7f\x7f")
            writer.execute("commit")
        terminal.until_seen("4 sessions", "the goose")
        terminal.type("\x1b")
        assert terminal.ended() == (130, "")


def test_sizes_that_change_in_a_storm_end_in_the_last_one(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i", is_copied=False) as terminal:
        terminal.until_seen("the heron")
        for n in range(30):
            terminal.resize(20 + n * 7 % 180, 3 + n * 5 % 60)
        terminal.resize(60, 12)
        shown = terminal.until_seen("the heron", "Enter show").split("\n")
        assert (len(shown), max(map(len, shown)) <= 60) == (12, True)
        terminal.resize(200, 50)
        assert len(terminal.until_seen("every project · 3 sessions", "Esc leave").split("\n")) == 50
        terminal.type("\x1b")
        assert terminal.ended() == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT], ids=lambda each: each.name)
def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(birds: Shell, number: signal.Signals) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        assert terminal.modes() != terminal.before
        terminal.send(number)
        assert terminal.ended() == (-number, "")


def test_an_interrupt_from_elsewhere_leaves_the_terminal_as_it_was(birds: Shell) -> None:
    with opened(birds, "list", "--all", "-i") as terminal:
        terminal.until_seen("the heron")
        terminal.send(signal.SIGINT)
        code, shown = terminal.ended()
    assert (code, "stopped" in shown) == (130, True)


@pytest.mark.parametrize("how", ["key", "signal"])
def test_it_stops_with_the_terminal_as_it_was_and_goes_on(birds: Shell, how: str) -> None:
    picker = f"{sys.executable} -m backstory list --all -i"
    lines = f"set -m; {picker}; echo stopped $?; stty -a | grep -o -- '-*icanon'; fg; echo ended $?"
    with Terminal(["bash", "-c", lines], birds.cwd, birds.environ) as terminal:
        terminal.until("the heron")
        if how == "key":
            terminal.type("\x1a")
        else:
            (pid,) = Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
            os.kill(int(pid), signal.SIGTSTP)
        left = terminal.until("stopped 148\nicanon").partition("stopped 148")[0]
        assert left.rpartition(OPENED)[2].count("\x1b[?1049l") == 1
        terminal.until("the heron", terminal.until(OPENED, left.count(OPENED) + 1).count("the heron"))
        terminal.type("\x1b")
        terminal.until("ended 130")


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
    uid = uid_of(bare, "the heron")
    ours = tmp_path / "bin" / "backstory"
    ours.parent.mkdir()
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m backstory "$@"\n')
    ours.chmod(0o755)
    environ = bare.environ | {"PATH": f"{ours.parent}:/usr/bin:/bin"}
    with Terminal([shell, *START[name], "-i"], bare.cwd, environ) as terminal:
        terminal.type(f"{PROMPT[name]}; {SOURCE[name]}; echo sour''ced\n")
        terminal.until("sourced")
        terminal.type("echo \x18b")
        terminal.until("answer 0")
        terminal.type("\r")
        terminal.until(uid)
        terminal.type(" >word\n")
        until((bare.cwd / "word").exists)
        until(lambda: (bare.cwd / "word").read_text() == f"{uid}\n")
        pickers = terminal.shown.count(OPENED)
        terminal.type("\x18b")
        terminal.until("answer 0", terminal.until(OPENED, pickers + 1).count("answer 0") + 1)
        terminal.type("\r")
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
