"""Documents that are written anew at each change: what is kept of them, and what an adapter of such must keep to."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from backstory.agents import documents
from backstory.agents.conformance import log_faults, part_faults
from backstory.agents.documents import grown, newest, pieces
from backstory.model import LogIdentity, Parsed
from tests.support.rewritten import Documents, Rewriting, RewrittenLogs, agent_with

if TYPE_CHECKING:
    from pathlib import Path


SAID = [
    ("a", "user", "Where does the heron nest?"), ("b", "assistant", "In the reeds."),
    ("c", "user", "And the owl?"), ("d", "assistant", "In a hole of a tree."), ("e", "assistant", "Or in a barn."),
]  # fmt: skip


def document(count: int = len(SAID), indent: int | None = 2, at: int = 0) -> bytes:
    """A document with so many records, written for the ``at``-th time."""
    records = [
        {"id": id_, "role": role, "text": text, "at": f"2026-03-01T10:00:0{number}Z"}
        for number, (id_, role, text) in enumerate(SAID[:count])
    ]
    return json.dumps({"session": "s1", "written": at, "records": records, "end": True}, indent=indent).encode()


def kept_of(*versions: bytes) -> bytes:
    kept = b""
    for version in versions:
        kept = grown(kept, pieces(version, "records"))
    return kept


# what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 0, 2, 4])
def test_pieces_end_with_each_element(indent: int | None) -> None:
    whole = document(indent=indent)
    found = pieces(whole, "records")
    assert b"".join(found) == whole
    assert [json.loads(each.strip(b", \n"))["id"] for each in found[1:-1]] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("share", range(20))
def test_a_document_that_was_cut_off_is_cut_as_far_as_it_goes(share: int) -> None:
    torn = document()[: len(document()) * share // 20]
    found = pieces(torn, "records")
    assert b"".join(found) == torn
    assert found[:-1] == pieces(document(), "records")[: len(found[:-1])]


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 9_000, b'{"records":' * 9_000, b'{"records":3}', b'{"a":"records"'],
)
def test_anything_else_is_kept_as_it_is(data: bytes) -> None:
    assert b"".join(pieces(data, "records")) == data
    assert newest(kept_of(document(), data, document(2))) == document(2)


def test_an_append_costs_what_is_new() -> None:
    versions = [document(count, at=100 + count) for count in range(len(SAID) + 1)]
    kept = kept_of(*versions)
    assert newest(kept) == versions[-1]
    assert all(kept.count(text.encode()) == 1 for _, _, text in SAID)


def test_a_version_that_is_the_newest_changes_nothing() -> None:
    kept = kept_of(document(3), document(4))
    assert grown(kept, pieces(document(4), "records")) is kept


def test_words_that_were_said_twice_are_kept_twice() -> None:
    def said(*texts: str) -> bytes:
        return json.dumps({"records": [{"text": each} for each in texts]}).encode()

    kept = kept_of(said("yes", "no"), said("yes", "no", "no"), said("no", "no"), said("yes", "no", "no"))
    assert (kept.count(b'"no"'), newest(kept)) == (2 + 1, said("yes", "no", "no"))


def test_any_history_of_a_document_comes_back() -> None:
    random = Random(7)
    for _ in range(300):
        kept, elements = b"", list[Any]()
        for number in range(random.randint(1, 8)):
            match random.randrange(5):
                case 0 | 1:
                    elements = [*elements, {"id": number, "text": random.choice(["\v", "\f", "\n", "a\fv"])}]
                case 2:
                    elements = [each for each in elements if random.random() < 0.7]
                case 3:
                    elements = elements[::-1]
                case 4:
                    elements = [*elements, *elements[:2]]
            said = {"n": random.randrange(3), "records": elements, "x": 1}
            data = json.dumps(said, indent=random.choice([None, 1])).encode() + random.choice([b"", b"\n", b"\f\v\fv"])
            before, kept = kept, grown(kept, pieces(data, "records"))
            assert (newest(kept), kept.startswith(before)) == (data, True)


@pytest.mark.parametrize("share", range(1, 20))
def test_what_was_kept_in_part_goes_on(share: int) -> None:
    first, second = kept_of(document(2)), kept_of(document(2), document(4, at=1))
    torn = second[: len(first) + (len(second) - len(first)) * share // 20]
    assert newest(torn) == document(2)
    assert kept_of(document(2), document(4, at=1)) == grown(torn, pieces(document(4, at=1), "records"))
    other = grown(torn, pieces(document(5, at=2), "records"))
    assert (newest(other), other.startswith(torn)) == (document(5, at=2), True)


def test_a_line_of_ours_that_names_too_much_is_none() -> None:
    kept = kept_of(document(2)) + b'{"backstory-document":[[0,0,[[0,9000000000000000]]]]}\n'
    assert newest(kept) == document(2)


def test_a_document_that_looks_like_what_is_kept_comes_back() -> None:
    data = b'{"backstory-document":[[0,0,[[0,1]]]]}'
    assert newest(kept_of(data, document(), data)) == data


# an adapter -------------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(document())
    return path


def test_a_document_keeps_the_contract(log: Path) -> None:
    agent = agent_with()
    assert [*part_faults(agent), *log_faults(agent, log)] == []


def test_pieces_that_lose_bytes_are_named(log: Path) -> None:
    class Stripped(Documents):
        def pieces(self, document: bytes) -> list[bytes] | None:
            return [each.strip() for each in super().pieces(document) or ()]

    assert "documents.pieces: the pieces of " in log_faults(agent_with(part=Stripped()), log)[-1]


def test_a_document_that_is_not_cut_is_named(log: Path) -> None:
    class Uncut(Documents):
        def pieces(self, document: bytes) -> list[bytes] | None:
            return [document]

    fault = "documents.pieces: cuts no element out of s1.jsonl"
    with pytest.raises(KeyError):
        # Its only piece is no record.
        log_faults(agent_with(part=Uncut()), log)

    class Lenient(RewrittenLogs):
        def native_id_of(self, line: bytes) -> str | None:
            return None

    class Deaf(Rewriting):
        def _id_of(self, line: bytes) -> str | None:
            return None

    Lenient._make = Deaf
    assert fault in log_faults(agent_with(Lenient(), Uncut()), log)


def test_pieces_that_change_when_another_comes_are_named(log: Path) -> None:
    class WithItsComma(Documents):
        def pieces(self, document: bytes) -> list[bytes] | None:
            found = super().pieces(document) or []
            for at in range(1, len(found) - 1):
                if found[at + 1].startswith(b","):
                    found[at], found[at + 1] = found[at] + b",", found[at + 1][1:]
            return found

    class Trailing(RewrittenLogs):
        def native_id_of(self, line: bytes) -> str | None:
            return super().native_id_of(line.rstrip(b","))

    class WithoutComma(Rewriting):
        def _id_of(self, line: bytes) -> str | None:
            return super()._id_of(line.rstrip(b","))

        def read(self, line: bytes, seq: int) -> Parsed:
            return super().read(line.rstrip(b","), seq)

    Trailing._make = WithoutComma
    faults = log_faults(agent_with(Trailing(), WithItsComma()), log)
    assert faults[0].startswith("documents.pieces: one more element costs ")


def test_a_reader_that_says_again_what_comes_again_is_named(log: Path) -> None:
    class Repeating(Rewriting):
        def read(self, line: bytes, seq: int) -> Parsed:
            self._seen.clear()
            return super().read(line, seq)

    class Repeated(RewrittenLogs):
        _make = Repeating

    (fault,) = log_faults(agent_with(Repeated()), log)
    assert fault.startswith("log.reader: read when it lost elements, it says ")


def test_a_reader_that_drops_what_is_gone_is_named(log: Path) -> None:
    class Dropping(Rewriting):
        def read(self, line: bytes, seq: int) -> Parsed:
            if documents.record(line).repeats:
                self.unknown["gone"] += 1
            return super().read(line, seq)

    class Dropped(RewrittenLogs):
        _make = Dropping

    assert log_faults(agent_with(Dropped()), log)[0].startswith("log.reader: read when it lost elements, it says ")


def test_a_log_that_is_known_by_its_file_alone_is_named(log: Path) -> None:
    class ByFile(RewrittenLogs):
        def identify(self, path: Path, head: bytes) -> LogIdentity | None:
            return LogIdentity(native_id="s1") if head.startswith(b'{\n  "session"') else None

    assert log_faults(agent_with(ByFile()), log)[-1].startswith("log.identify: takes what is kept of it for None, ")
