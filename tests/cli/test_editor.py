"""A prompt written in an editor: what of the file is the prompt, and that no text is lost when nothing is run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backstory.cli.editor import DRAFTS, Draft
from backstory.errors import EditorFailed, EditorMissing, PromptLeftEmpty, PromptNotText


class Desk:
    """A home folder, and an editor that is a line of shell with the file as ``$1``."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "home"

    def draft(self, line: str, **environ: str) -> Draft:
        program = self.root / "editor"
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
        return Draft(self.home, {"EDITOR": str(program), "PATH": os.environ["PATH"], **environ})

    def files(self) -> list[Path]:
        return [path for path in (self.home / DRAFTS).rglob("*") if path.is_file()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_is_written_is_the_prompt_without_the_lines_that_help(desk: Desk) -> None:
    text = "# A heading\n\n  - first\n  # note"
    draft = desk.draft(f'printf \'%s\\n\\n\' \'{text}\' | cat - "$1" > "$1.new"; mv "$1.new" "$1"')
    assert draft.write("", with_stdin=True) == text


def test_a_prompt_that_was_given_is_there_to_begin_with(desk: Desk) -> None:
    draft = desk.draft("sed -i 's/heron/otter/' \"$1\"")
    assert draft.write("Where does the heron nest?\nTell me.", with_stdin=False) == (
        "Where does the otter nest?\nTell me."
    )


def test_the_file_is_its_owners_alone_and_is_gone_when_its_text_is_stored(desk: Desk) -> None:
    draft = desk.draft('stat -c %a "$1" "$(dirname "$1")" > "$1~"; cat "$1~" >> "$1"')
    assert draft.write("", with_stdin=False) == "600\n700"
    draft.remove()
    assert list((desk.home / DRAFTS).iterdir()) == []


def test_the_person_is_told_that_what_was_piped_in_follows(desk: Desk) -> None:
    keep = f'cp "$1" {desk.root}/seen; echo x > "$1"'
    desk.draft(keep).write("", with_stdin=True)
    assert "the text from stdin is added after the prompt" in (desk.root / "seen").read_text()
    desk.draft(keep).write("", with_stdin=False)
    assert "stdin" not in (desk.root / "seen").read_text()


@pytest.mark.parametrize("line", ["true", 'echo > "$1"', 'rm "$1"'])
def test_nothing_written_is_nothing_run_and_nothing_kept(desk: Desk, line: str) -> None:
    draft = desk.draft(line)
    with pytest.raises(PromptLeftEmpty, match="nothing was run"):
        draft.write("", with_stdin=False)
    draft.keep_unstored()
    assert desk.files() == []


def test_the_text_of_an_editor_that_fails_is_kept_and_named(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    draft = desk.draft('echo "half a thought" > "$1"; exit 3')
    with pytest.raises(EditorFailed, match=r"nothing was run: .*editor: exit code 3\."):
        draft.write("", with_stdin=False)
    draft.keep_unstored()
    (kept,) = desk.files()
    assert kept.read_text() == "half a thought"
    assert str(kept) in capfd.readouterr().err


def test_a_text_that_was_not_stored_is_kept_without_the_lines_that_help(desk: Desk) -> None:
    draft = desk.draft("true")
    assert draft.write("Fix it.", with_stdin=False) == "Fix it."
    draft.keep_unstored()
    (kept,) = desk.files()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("Fix it.", 0o600)


def test_an_editor_that_was_killed_is_one_that_failed(desk: Desk) -> None:
    with pytest.raises(EditorFailed, match="signal 9"):
        desk.draft("kill -9 $$").write("", with_stdin=False)


def test_a_file_that_is_no_program_is_an_editor_that_failed(desk: Desk) -> None:
    draft = desk.draft("true")
    (desk.root / "editor").write_bytes(b"\x7fELF nothing")
    with pytest.raises(EditorFailed, match="format"):
        draft.write("", with_stdin=False)


def test_bytes_that_are_no_text_are_refused_and_kept(desk: Desk) -> None:
    draft = desk.draft("printf 'caf\\351' > \"$1\"")
    with pytest.raises(PromptNotText):
        draft.write("", with_stdin=False)
    draft.keep_unstored()
    (kept,) = desk.files()
    assert kept.read_bytes() == b"caf\xe9"


def test_the_editor_may_have_arguments_and_visual_is_asked_first(desk: Desk) -> None:
    draft = desk.draft('echo "$1 $2" > "$3"', EDITOR="false", VISUAL=f"'{desk.root / 'editor'}' --wait 'two words'")
    assert draft.write("", with_stdin=False) == "--wait two words"


@pytest.mark.parametrize(
    ("editor", "why"),
    [
        ("", "neither VISUAL nor EDITOR is set"),
        ("no-such-editor --wait", "there is no 'no-such-editor' on PATH"),
        ("'unfinished", 'there is no "\'unfinished" on PATH'),
    ],
)
def test_no_editor_is_an_error_that_says_what_to_do(desk: Desk, editor: str, why: str) -> None:
    with pytest.raises(EditorMissing, match=why) as refused:
        desk.draft("true", EDITOR=editor).write("Fix it.", with_stdin=False)
    assert "export EDITOR=" in str(refused.value)
    assert desk.files() == []
