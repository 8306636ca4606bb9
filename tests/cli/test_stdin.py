"""What is read of stdin beside a prompt, and what is not: nothing that belongs to others, and nothing forever."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from backstory.cli import prompt_input
from backstory.errors import PromptNotText, StdinTooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SHORT_S = 0.02


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], int]]:
    """Have a descriptor be stdin."""
    opened = []

    def given(file: int) -> int:
        monkeypatch.setattr("sys.stdin", os.fdopen(file, "rb", buffering=0, closefd=False))
        opened.append(file)
        return file

    yield given
    for file in opened:
        os.close(file)


def piped(data: bytes, *, is_closed: bool = True) -> int:
    """The reading end of a pipe that holds this much; the other end is closed unless told."""
    reading, writing = os.pipe()
    os.write(writing, data)
    if is_closed:
        os.close(writing)
    return reading


def test_a_pipe_is_read_to_its_end(give: Callable[[int], int]) -> None:
    give(piped(b"one\ntwo\n"))
    assert prompt_input.read_beside() == "one\ntwo\n"


def test_an_empty_pipe_is_nothing(give: Callable[[int], int], capsys: pytest.CaptureFixture[str]) -> None:
    give(piped(b""))
    assert prompt_input.read_beside() == ""
    assert capsys.readouterr().err == ""


def test_a_pipe_that_stays_silent_is_not_waited_for_and_that_is_said(
    give: Callable[[int], int], capsys: pytest.CaptureFixture[str]
) -> None:
    give(piped(b"", is_closed=False))
    assert prompt_input.read_beside(SHORT_S) == ""
    assert capsys.readouterr().err == "stdin was silent for 0.02 s, so it is not read. --stdin waits for it.\n"


def test_a_socket_is_read_like_a_pipe(give: Callable[[int], int]) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"by socket")
    theirs.close()
    give(ours.detach())
    assert prompt_input.read_beside() == "by socket"


def test_a_file_is_read_from_its_beginning(give: Callable[[int], int], tmp_path: Path) -> None:
    (tmp_path / "list").write_text("one\ntwo\n")
    give(os.open(tmp_path / "list", os.O_RDONLY))
    assert prompt_input.read_beside() == "one\ntwo\n"


def test_a_file_that_somebody_is_reading_is_left_where_it_is(give: Callable[[int], int], tmp_path: Path) -> None:
    (tmp_path / "list").write_text("one\ntwo\n")
    file = give(os.open(tmp_path / "list", os.O_RDONLY))
    assert os.read(file, 4) == b"one\n"
    assert prompt_input.read_beside() == ""
    assert os.lseek(file, 0, os.SEEK_CUR) == 4


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_devices_are_nothing(give: Callable[[int], int], path: str) -> None:
    give(os.open(path, os.O_RDONLY))
    assert prompt_input.read_beside(SHORT_S) == ""


def test_a_file_that_is_open_for_writing_alone_is_nothing(give: Callable[[int], int], tmp_path: Path) -> None:
    give(os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT))
    assert prompt_input.read_beside() == ""
    assert prompt_input.read_all() == ""


def test_as_much_as_a_prompt_holds_is_read_and_more_is_refused(
    give: Callable[[int], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_input, "BYTES_MAX", 3_000_000)
    (tmp_path / "right").write_bytes(b"x" * 3_000_000)
    give(os.open(tmp_path / "right", os.O_RDONLY))
    assert len(prompt_input.read_beside()) == 3_000_000
    (tmp_path / "more").write_bytes(b"x" * 3_000_001)
    give(os.open(tmp_path / "more", os.O_RDONLY))
    with pytest.raises(StdinTooLong, match=r"stdin has more than 3 MB.*name that file in the prompt"):
        prompt_input.read_beside()


def test_a_stream_without_end_is_refused_and_not_kept_in_memory(
    give: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_input, "BYTES_MAX", 3_000_000)
    give(os.open("/dev/zero", os.O_RDONLY))
    with pytest.raises(StdinTooLong):
        prompt_input.read_all()


def test_bytes_that_are_no_text_are_refused_with_their_place(give: Callable[[int], int]) -> None:
    give(piped(b"caf\xc3\xa9 caf\xe9"))
    with pytest.raises(PromptNotText, match="byte 10 is the first invalid one"):
        prompt_input.read_beside()


def test_a_pipe_that_never_blocks_is_read_to_its_end(give: Callable[[int], int]) -> None:
    file = give(piped(b"word"))
    os.set_blocking(file, False)
    assert prompt_input.read_beside() == "word"
