"""An export without secrets: one that is told late stands in no line before it, in whatever session or form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backstory.derive.secrets import Redactor
from backstory.errors import DiskFull
from backstory.export import held_lines
from backstory.model import AssistantText, ToolCall, UserMessage
from backstory.store import open_store
from tests.support.clock import NOW
from tests.support.portable import exported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.store import Store

WORDS = 'open-sesame"22\\'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "one.bks", now=lambda: NOW) as store:
        yield store


def put_late(store: Store, secret: str, *, between: int = 200) -> None:
    """Two sessions that use a secret in a name, words and JSON; only the last event says what it is."""
    first, second = store.create_session(f"about {secret}"), store.create_session()
    store.append_events(first, [UserMessage(content=f"say {secret} first"), AssistantText(text=f"it is {secret}.")])
    inner = json.dumps({"said": secret}, ensure_ascii=False)
    store.append_events(second, [
        ToolCall(tool_name="Bash", tool="SHELL", input={"command": secret, "nested": inner}),
        *[AssistantText(text=f"number {n} of many words") for n in range(between)],
        ToolCall(tool_name="Bash", tool="SHELL", input={"env": {"DB_PASSWORD": secret}}),
    ])  # fmt: skip


@pytest.mark.parametrize("secret", ["open-sesame-22", WORDS, "öffne-sesam-22", "22-blick/auf-das_meer"])
@pytest.mark.parametrize("piece", [100, 1_000_000])
def test_a_secret_that_is_told_last_stands_nowhere(
    store: Store, monkeypatch: pytest.MonkeyPatch, secret: str, piece: int
) -> None:
    monkeypatch.setattr(held_lines, "PIECE_BYTES", piece)
    put_late(store, secret)
    plain, masked = exported(store, has_bytes=False), exported(store, redactor=Redactor())
    core = secret.split('"')[0].encode()
    assert plain.count(core) >= 5
    assert core not in masked
    assert len(masked.splitlines()) == len(plain.splitlines())


def test_lines_before_a_secret_that_is_told_late_are_as_if_it_had_been_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_lines, "PIECE_BYTES", 100)
    put_late(store, "open-sesame-22")
    knowing = Redactor(key=lambda: b"k" * 32)
    knowing.learn("DB_PASSWORD=open-sesame-22")
    assert exported(store, redactor=Redactor(key=lambda: b"k" * 32)) == exported(store, redactor=knowing)


def test_only_lines_that_may_hold_a_late_secret_are_masked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_lines, "PIECE_BYTES", 10)
    redactor, again = Redactor(), list[bytes]()

    def lines() -> Iterator[bytes]:
        yield b"a word\n"
        yield b"say open-sesame-22 now\n"
        redactor.learn("password=open-sesame-22")
        yield b"[password-0123456789]\n"

    def masked(line: bytes) -> bytes:
        again.append(line)
        return b"masked\n"

    found = list(held_lines.held(lines(), redactor, masked))
    assert found == [b"a word\n", b"masked\n", b"[password-0123456789]\n"]
    assert again == [b"say open-sesame-22 now\n"]


def test_many_lines_wait_in_a_file_that_nobody_can_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(held_lines, "HELD_BYTES", 1_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lines = [b"%d of many\n" % n for n in range(1_000)]
    waiting = held_lines.held(lines, Redactor(), bytes)
    assert next(waiting) == lines[0]
    assert list(tmp_path.iterdir()) == []
    assert list(waiting) == lines[1:]


def test_a_full_disk_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", full)
    with pytest.raises(DiskFull):
        list(held_lines.held([b"a\n"], Redactor(), bytes))
