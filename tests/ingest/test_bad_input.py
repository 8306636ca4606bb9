"""Whatever lies where a log should: nothing is lost, the rest is still done, and the reason is told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from backstory.ingest import discover as discovering
from backstory.ingest import log_reader
from backstory.ingest.ingest import ingest
from backstory.ingest.reindex import reindex
from backstory.store.tables import logs
from tests.support.clock import NOW
from tests.support.machines import (
    CLAUDE_FOLDER,
    Machine,
    claude_line,
    claude_log,
    compressed,
    conversation,
    kept,
    lines,
    prompts,
    sha256,
)
from tests.support.wrapped import WrappedLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backstory.ingest.report import IngestReport

GOOD = lines(*conversation(2))
TORN = "its compressed content ends too early: kept as far as it can be read"
LOG = claude_log("odd")


@pytest.fixture(autouse=True)
def good_one(machine: Machine) -> Iterator[None]:
    """Beside each bad file there is a good one, and it is read."""
    machine.write(claude_log("good"), GOOD)
    yield
    assert sha256(GOOD) in kept(machine.store)
    assert machine.store.verify().problems == []


def reasons(report: IngestReport) -> dict[str, str]:
    told = (*report.gave_nothing, *report.errors, *report.not_understood)
    return {Path(each.path).name: each.reason for each in told}


def read_bytes(machine: Machine, data: bytes) -> IngestReport:
    """Read a log of these bytes, which must then be in the store exactly as they are."""
    machine.write(LOG, data)
    report = machine.read()
    assert report.errors == []
    assert sha256(data) in kept(machine.store)
    return report


def kept_of(machine: Machine, name: str) -> bytes:
    """The bytes of the one log of a session."""
    (log,) = machine.store.logs(machine.store.session(name))
    return b"".join(machine.store.stream_log(log.id))


def texts(machine: Machine, name: str = "odd") -> list[str]:
    session = machine.store.session(name)
    return [getattr(each.event, "text", None) or getattr(each.event, "content", None) or f"<{each.kind}>"
            for each in machine.store.events(session)]  # fmt: skip


# things that are no logs ----------------------------------------------------------------------------------------


def test_an_empty_file(machine: Machine) -> None:
    machine.write(LOG, b"")
    report = machine.read()
    assert (report.errors, reasons(report)) == ([], {"odd.jsonl": "it is empty"})


@pytest.mark.parametrize("data", [b"\n\n\n", b"  \t\r\n", b"\0" * 5000])
def test_a_file_of_nothing_but_space(machine: Machine, data: bytes) -> None:
    machine.write(LOG, data)
    assert reasons(machine.read()) == {"odd.jsonl": "it is empty"}


def test_an_empty_file_is_read_when_it_has_something(machine: Machine) -> None:
    machine.write(LOG, b"")
    machine.read()
    machine.write(LOG, GOOD)
    machine.read()
    assert texts(machine) == ["word0 said", "word1 said"]


def test_a_folder_named_like_a_log(machine: Machine) -> None:
    folder = machine.home / LOG
    folder.mkdir()
    (folder / "inside.jsonl").write_bytes(GOOD)
    report = machine.read()
    assert reasons(report) == {"odd.jsonl": "it is a folder, not a file"}
    assert machine.store.session("inside").turns == 1


def test_a_fifo(machine: Machine) -> None:
    os.mkfifo(machine.home / LOG)
    assert reasons(machine.read()) == {"odd.jsonl": "it is no regular file"}


def test_a_binary(machine: Machine) -> None:
    report = read_bytes(machine, b"\x7fELF" + bytes(range(256)) * 500)
    assert reasons(report) == {"odd.jsonl": "no record of this agent is in its beginning"}


def test_another_tools_json(machine: Machine) -> None:
    report = read_bytes(machine, b'{"level": "info", "msg": "started"}\n')
    assert reasons(report) == {"odd.jsonl": "no record of this agent is in its beginning"}


def test_a_link_to_nothing(machine: Machine) -> None:
    (machine.home / LOG).symlink_to("nowhere")
    assert reasons(machine.read()) == {"odd.jsonl": "No such file or directory"}


def test_a_link_to_itself(machine: Machine) -> None:
    (machine.home / LOG).symlink_to(machine.home / LOG)
    assert reasons(machine.read()) == {"odd.jsonl": "Too many levels of symbolic links"}


def test_folders_that_link_in_a_circle_are_looked_at_once(machine: Machine) -> None:
    (machine.home / CLAUDE_FOLDER / "round").symlink_to(machine.home / CLAUDE_FOLDER)
    (machine.home / CLAUDE_FOLDER / "up").symlink_to(machine.home)
    report = machine.read()
    assert (report.total("logs_seen"), report.errors) == (1, [])


def test_a_log_reached_through_a_link_is_the_same_log(machine: Machine) -> None:
    (machine.home / LOG).symlink_to(machine.home / claude_log("good"))
    report = machine.read()
    assert (report.total("logs_seen"), len(kept(machine.store))) == (1, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(machine: Machine) -> None:
    machine.write(LOG, GOOD).chmod(0)
    assert reasons(machine.read()) == {"odd.jsonl": "Permission denied"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read(machine: Machine) -> None:
    folder = machine.home / CLAUDE_FOLDER / "closed"
    folder.mkdir()
    folder.chmod(0)
    assert reasons(machine.read()) == {"closed": "Permission denied"}
    folder.chmod(0o700)


def test_a_place_that_is_a_file(machine: Machine) -> None:
    machine.write(".codex/sessions", b"not a folder")
    report = machine.read()
    assert [each.passed_over for each in report.looked if each.folder.endswith("/sessions")] == [
        [(str(machine.home / ".codex/sessions"), "Not a directory")]
    ]


# odd bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_line_of_12_megabytes(machine: Machine) -> None:
    long = "long " + "x" * 12_000_000
    read_bytes(machine, lines(*conversation(1), claude_line("assistant", "l", long), claude_line("user", "n", "next")))
    assert texts(machine) == ["word0 said", long, "next"]
    assert machine.store.search("long").total == 1


@pytest.mark.slow
def test_a_line_of_12_megabytes_that_is_not_finished(machine: Machine) -> None:
    line = claude_line("assistant", "l", "x" * 12_000_000)
    read_bytes(machine, lines(*conversation(1)) + line[:9_000_000])
    assert texts(machine) == ["word0 said"]
    read_bytes(machine, lines(*conversation(1), line))
    assert texts(machine) == ["word0 said", "x" * 12_000_000]


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_line_over_the_limit_is_one_unknown_event(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr("backstory.agents.jsonl.LINE_BYTES_MAX", 5_000)
    monkeypatch.setattr(log_reader, "BLOCK_BYTES", 2_000)
    data = lines(*conversation(1), claude_line("assistant", "l", "x" * 20_000), claude_line("user", "n", "next"))
    unknown = dict[str, int]()
    for piece in range(1, pieces + 1):
        unknown |= read_bytes(machine, data[: len(data) * piece // pieces]).unknown_records
    assert texts(machine) == ["word0 said", "<Unknown>", "next"]
    assert [event.seq for event in machine.store.events(machine.store.session("odd"))] == [1, 2, 3]
    assert unknown == {logs.OVERSIZE: 1}


def test_a_line_over_the_limit_is_unknown_when_it_is_told_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstory.agents.jsonl.LINE_BYTES_MAX", 5_000)
    read_bytes(machine, lines(*conversation(1), claude_line("assistant", "l", "x" * 20_000)))
    reindex(machine.store, now=NOW, events_too=True)
    assert texts(machine) == ["word0 said", "<Unknown>"]


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("invalid UTF-8", claude_line("assistant", "o", "ok").replace(b"ok", b"ok\xff\xfe"), "ok��"),
        ("NUL tail", claude_line("assistant", "o", "ok") + b"\0" * 300, "ok"),
        ("lone surrogate", claude_line("assistant", "o", "ok").replace(b"ok", rb"ok\ud800"), "ok�"),
        ("NaN", claude_line("assistant", "o", "ok").replace(b'"uuid"', b'"n": NaN, "uuid"'), "ok"),
        ("byte order mark", b"\xef\xbb\xbf" + claude_line("assistant", "o", "ok"), "ok"),
        ("CRLF", claude_line("assistant", "o", "ok") + b"\r", "ok"),
    ],
)  # fmt: skip
def test_an_odd_line_says_what_it_can(machine: Machine, name: str, line: bytes, said: str) -> None:
    report = read_bytes(machine, lines(*conversation(1), line, claude_line("user", "n", "next")))
    assert texts(machine) == ["word0 said", said, "next"]
    assert report.unknown_records == {}


def test_a_whole_log_with_dos_line_ends(machine: Machine) -> None:
    read_bytes(machine, b"\xef\xbb\xbf" + b"\r\n".join(conversation(4)) + b"\r\n")
    assert texts(machine) == [f"word{n} said" for n in range(4)]


def test_a_log_that_ends_in_zeros_goes_on_when_they_are_overwritten(machine: Machine) -> None:
    read_bytes(machine, lines(*conversation(2)) + b"\0" * 4096)
    read_bytes(machine, lines(*conversation(4)) + b"\0" * 4096)
    read_bytes(machine, lines(*conversation(6)))
    assert texts(machine) == [f"word{n} said" for n in range(6)]


def test_two_records_glued_together_are_one_line_with_two_parts(machine: Machine) -> None:
    one, two, three = conversation(3)
    read_bytes(machine, lines(one + two, three))
    found = machine.store.events(machine.store.session("odd"))
    assert [(each.seq, each.part) for each in found] == [(1, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    "line",
    [
        b"not json at all", b"{", b'{"type": ', b"[1, 2]", b"null", b"\x80\x81\x82", b'{"a":' * 5_000,
        b'{"type":"user","uuid":"d","deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=["words", "a brace", "torn", "a list", "null", "bytes", "open braces", "deep nesting"],
)  # fmt: skip
def test_a_line_that_is_no_record_is_unknown_and_the_rest_is_read(machine: Machine, line: bytes) -> None:
    report = read_bytes(machine, lines(*conversation(1), line, claude_line("user", "n", "next")))
    assert texts(machine) == ["word0 said", "<Unknown>", "next"]
    assert report.unknown_records == {"not JSON": 1}


@pytest.mark.parametrize("field", ["type", "uuid", "parentUuid", "timestamp", "message", "cwd", "isMeta", "content"])
@pytest.mark.parametrize("value", [None, 7, -1.5e308, True, [], {}, "x", [[["x"]]], {"type": {"type": 1}}])
def test_a_field_of_another_type_stops_nothing(machine: Machine, field: str, value: Any) -> None:
    record = json.loads(claude_line("assistant", "o", "ok")) | {field: value}
    read_bytes(machine, lines(*conversation(1), json.dumps(record).encode(), claude_line("user", "n", "next")))
    assert texts(machine)[0] == "word0 said"
    assert texts(machine)[-1] == "next"


def test_unknown_types_are_counted(machine: Machine) -> None:
    report = read_bytes(machine, lines(*conversation(1), *[claude_line("novelty", f"n{n}") for n in range(3)]))
    assert report.unknown_records == {"novelty": 3}
    assert texts(machine) == ["word0 said", "<Unknown>", "<Unknown>", "<Unknown>"]


def test_a_time_from_another_age_stops_nothing(machine: Machine) -> None:
    times = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59+00:00", "2026-13-45T99:99:99Z", "soon", "")
    said = [claude_line("user", f"t{n}", f"at {n}", timestamp=time) for n, time in enumerate(times)]
    read_bytes(machine, lines(*said))
    assert len(prompts(machine.store)) == len(times) + 1


def test_a_log_without_any_time_is_read(machine: Machine) -> None:
    read_bytes(machine, lines(claude_line("user", "t", "timeless").replace(b'"timestamp"', b'"t"')))
    assert texts(machine) == ["timeless"]


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_every_byte_of_a_torn_log_of_each_agent_is_kept(machine: Machine, agent: str) -> None:
    from tests.support.machines import case, place

    name = f"{agent}/tools"
    whole = case(name)
    machine.write(place(name), whole[: len(whole) // 2])
    assert machine.read().errors == []
    assert sha256(whole[: len(whole) // 2]) in kept(machine.store)


# compressed ones ------------------------------------------------------------------------------------------------


def test_a_compressed_log_that_is_no_zstd(machine: Machine) -> None:
    machine.write(LOG.with_suffix(".jsonl.zst"), b"this is not compressed")
    report = machine.read()
    assert list(reasons(report)) == ["odd.jsonl.zst"]
    assert len(report.errors) == 1


def test_a_compressed_log_that_is_damaged(machine: Machine) -> None:
    frame = bytearray(compressed(lines(*conversation(2000))))
    frame[len(frame) // 2 : len(frame) // 2 + 40] = b"\xff" * 40
    machine.write(LOG.with_suffix(".jsonl.zst"), bytes(frame))
    report = machine.read()
    assert reasons(report) == {"odd.jsonl.zst": "its compressed content is damaged: kept as far as it can be read"}
    assert (report.total("logs_read"), len(texts(machine)) > 0) == (2, True)


def test_a_compressed_log_that_is_torn_is_kept_as_far_as_it_goes_until_it_is_whole(machine: Machine) -> None:
    whole = lines(*[claude_line("user", f"u{n}", os.urandom(200).hex()) for n in range(3000)])
    frame = compressed(whole)
    path = machine.write(LOG.with_suffix(".jsonl.zst"), frame[: len(frame) // 2])
    report = machine.read()
    assert reasons(report) == {"odd.jsonl.zst": TORN}
    begun = kept_of(machine, "odd")
    assert whole.startswith(begun)
    assert len(begun) > len(whole) // 3
    again = machine.read()
    assert (again.total("logs_read"), reasons(again)) == (0, {"odd.jsonl.zst": TORN})
    path.write_bytes(frame)
    report = machine.read()
    assert (reasons(report), report.total("bytes_read")) == ({}, len(whole) - len(begun))
    assert kept_of(machine, "odd") == whole


def test_what_lies_behind_a_compressed_log_is_told(machine: Machine) -> None:
    machine.write(LOG.with_suffix(".jsonl.zst"), compressed(GOOD) + b"and more")
    assert reasons(machine.read()) == {
        "odd.jsonl.zst": "its compressed content goes on with something else: kept as far as it can be read"
    }
    assert kept_of(machine, "odd") == GOOD


def test_an_empty_compressed_log(machine: Machine) -> None:
    machine.write(LOG.with_suffix(".jsonl.zst"), b"")
    machine.write(claude_log("none").with_suffix(".jsonl.zst"), compressed(b""))
    assert set(reasons(machine.read()).values()) == {"it is empty"}


# while it is read -----------------------------------------------------------------------------------------------


class Meddling(WrappedLogs):
    """An agent whose log is changed at the moment when it is first looked into."""

    def __init__(self, change: Callable[[Path], object]) -> None:
        super().__init__("claude")
        self._change = change

    def identify(self, path: Path, head: bytes) -> Any:
        if path.stem == "odd":
            self._change(path)
        return super().identify(path, head)


def test_a_log_that_grows_while_it_is_read_is_read_to_its_end(machine: Machine) -> None:
    path = machine.write(LOG, lines(*conversation(2)))
    change = Meddling(lambda path: path.write_bytes(lines(*conversation(6)))).as_agent()
    report = ingest(machine.store, [change], environ={}, home=machine.home, now=NOW)
    assert report.errors == []
    assert texts(machine) == [f"word{n} said" for n in range(6)]
    assert machine.read().total("bytes_read") == 0
    assert sha256(path.read_bytes()) in kept(machine.store)


def test_a_log_that_is_cut_short_while_it_is_read_keeps_what_was_read(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(6)))
    change = Meddling(lambda path: path.write_bytes(lines(*conversation(2)))).as_agent()
    ingest(machine.store, [change], environ={}, home=machine.home, now=NOW)
    assert texts(machine) == ["word0 said", "word1 said"]
    machine.write(LOG, lines(*conversation(8)))
    machine.read()
    assert texts(machine) == [f"word{n} said" for n in range(8)]


def test_a_log_that_is_deleted_while_it_is_read_is_read_all_the_same(machine: Machine) -> None:
    machine.write(LOG, lines(*conversation(4)))
    report = ingest(
        machine.store,
        [Meddling(Path.unlink).as_agent()],
        environ={},
        home=machine.home,
        now=NOW,
    )
    assert report.errors == []
    assert texts(machine) == [f"word{n} said" for n in range(4)]


def test_a_log_that_is_deleted_before_it_is_read_is_an_error_with_its_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.write(LOG, GOOD)
    found = discovering.stream_logs

    def stream_logs(*given: Any) -> Any:
        yield from found(*given)
        path.unlink()

    monkeypatch.setattr("backstory.ingest.ingest.stream_logs", stream_logs)
    report = machine.read("claude")
    assert [(Path(each.path).name, each.reason) for each in report.errors] == [
        ("odd.jsonl", "No such file or directory")
    ]


def test_a_disk_that_fails_while_a_log_is_read_is_an_error_with_its_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write(LOG, GOOD)
    found = log_reader.opened

    class Failing:
        def __init__(self, file: IO[bytes]) -> None:
            self._file, self._reads = file, 0

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def read(self, length: int) -> bytes:
            self._reads += 1
            if self._reads > 1:
                raise OSError(5, "Input/output error")
            return self._file.read(length)

    monkeypatch.setattr(
        "backstory.ingest.ingest.opened", lambda path: Failing(found(path)) if path.stem == "odd" else found(path)
    )
    report = machine.read("claude")
    assert [(Path(each.path).name, each.reason) for each in report.errors] == [("odd.jsonl", "Input/output error")]
    monkeypatch.undo()
    machine.read("claude")
    assert texts(machine) == ["word0 said", "word1 said"]


@pytest.mark.parametrize("name", ["ünïcödé", "日本", "a b'c\"d", "%20", "x" * 200])
def test_odd_names_of_files_are_no_trouble(machine: Machine, name: str) -> None:
    machine.write(CLAUDE_FOLDER / f"{name}.jsonl", GOOD)
    report = machine.read()
    assert report.errors == []
    assert len(kept(machine.store)) == 2


def test_a_name_that_is_not_utf_8_is_passed_over_with_its_reason(machine: Machine) -> None:
    (machine.home / CLAUDE_FOLDER / "odd\udcff.jsonl").write_bytes(GOOD)
    report = machine.read()
    assert reasons(report) == {"odd�.jsonl": "its name is not UTF-8; rename it to have it read"}
