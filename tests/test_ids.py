"""Identity: uids that are the same on every machine, and times as logs write them."""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import ids
from tests.support.every import every

IDENTITY_BITS = 80


@given(st.integers(min_value=0, max_value=2**130 - 1))
def test_a_number_comes_back_from_base_32(number: int) -> None:
    assert ids.decode(ids.encode(number)) == number


@given(st.integers(min_value=0, max_value=2**128 - 1), st.integers(min_value=0, max_value=2**128 - 1))
def test_uids_sort_as_their_numbers_do(one: int, other: int) -> None:
    assert (ids.encode(one) < ids.encode(other)) == (one < other)


def test_letters_that_look_like_digits_are_read_as_those() -> None:
    assert ids.decode("oil") == ids.decode("011")


@pytest.mark.parametrize("text", ["U", "01-", "é", " "])
def test_a_letter_outside_the_alphabet_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Crockford"):
        ids.decode(text)


def test_a_fresh_uid_holds_its_time_and_its_randomness() -> None:
    uid = ids.new_uid(1_790_000_000_000, b"\x01" * 10)
    assert len(uid) == ids.UID_LENGTH
    assert ids.decode(uid) >> IDENTITY_BITS == 1_790_000_000_000
    assert ids.decode(uid) % 2**IDENTITY_BITS == int.from_bytes(b"\x01" * 10, "big")


def test_later_uids_sort_behind_earlier_ones() -> None:
    assert ids.new_uid(1_000, b"\xff" * 10) < ids.new_uid(1_001, b"\0" * 10)


def test_the_identity_of_a_session_is_hashed_from_its_agent_and_native_id() -> None:
    uid = ids.session_uid("claude", "abc", 1_790_000_000_000)
    digest = hashlib.sha256(b"claude\0abc").digest()
    assert ids.decode(uid) % 2**IDENTITY_BITS == int.from_bytes(digest[:10], "big")
    assert ids.decode(uid) >> IDENTITY_BITS == 1_790_000_000_000


def test_two_times_of_one_log_are_one_session() -> None:
    early, late = ids.session_uid("claude", "abc", 0), ids.session_uid("claude", "abc", 5_000)
    assert early != late
    assert ids.session_identity(early) == ids.session_identity(late)
    assert len(ids.session_identity(early)) == ids.IDENTITY_LENGTH


def test_the_same_id_of_another_agent_is_another_session() -> None:
    assert ids.session_uid("claude", "abc", 0) != ids.session_uid("codex", "abc", 0)


def test_where_the_agents_name_ends_is_part_of_the_identity() -> None:
    assert ids.turn_uid("ab", "c") != ids.turn_uid("a", "bc")


def test_a_log_from_before_1970_is_taken_as_one_without_a_time() -> None:
    assert ids.session_uid("claude", "abc", -5) == ids.session_uid("claude", "abc", 0)


def test_a_turn_has_128_bits_of_identity() -> None:
    digest = hashlib.sha256(b"codex\0turn-1").digest()
    assert ids.decode(ids.turn_uid("codex", "turn-1")) == int.from_bytes(digest[:16], "big")


@pytest.mark.parametrize(
    ("turn_uid", "written"),
    [
        ("01JZZZZZZZZZZZZZZZZZZZZZZZ", "9b529a41-7098-5c61-b17a-478bc02dc39f"),
        ("00000000000000000000000000", "0145e016-40ef-5dc6-a60a-cda224fabe76"),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "8b42c00b-56cb-54c2-bd35-c0dbf8d60a1a"),
    ],
)
def test_a_turn_has_the_same_id_in_every_log_that_is_written(turn_uid: str, written: str) -> None:
    assert ids.written_turn_id(turn_uid) == written


@pytest.mark.parametrize(
    ("agent", "written"),
    [("codex", "2eb765bb-4af7-57aa-b8ea-eefd73e160c0"), ("claude", "f4c16305-e959-55fd-b1fa-2079d9edfe7e")],
)
def test_a_log_that_is_written_has_the_id_of_its_session_its_last_turn_and_its_agent(agent: str, written: str) -> None:
    assert ids.written_log_id("01K5R1H5Z0ABCDEFGHJKMNPQRS", "01JZZZZZZZZZZZZZZZZZZZZZZZ", agent) == written


def test_the_time_of_a_session_is_no_part_of_the_id_of_its_log() -> None:
    early, late = ids.session_uid("claude", "abc", 0), ids.session_uid("claude", "abc", 5_000)
    assert ids.written_log_id(early, "turn", "codex") == ids.written_log_id(late, "turn", "codex")


@given(st.text(alphabet=ids.ALPHABET, min_size=26, max_size=26))
def test_written_ids_are_uuids_of_version_5(uid: str) -> None:
    namespace = uuid.UUID(bytes=ids.WRITTEN_NAMESPACE)
    assert ids.written_turn_id(uid) == str(uuid.uuid5(namespace, uid))
    assert ids.written_log_id(uid, uid, "codex") == str(uuid.uuid5(namespace, f"{uid[-16:]} {uid} codex"))


@given(st.uuids(version=4), st.uuids(version=4).map(lambda each: uuid.uuid5(each, "")))
def test_only_a_uuid_of_version_5_may_be_an_id_that_was_written(other: uuid.UUID, written: uuid.UUID) -> None:
    assert ids.may_be_written(str(written))
    assert not ids.may_be_written(str(other))
    assert not ids.may_be_written(f"{written}/2")
    assert not ids.may_be_written("")


def test_a_native_id_may_hold_what_utf_8_cannot() -> None:
    assert len(ids.turn_uid("claude", "\ud800")) == ids.UID_LENGTH


@pytest.mark.parametrize(
    ("head", "ms"),
    [
        (b'{"timestamp":"1970-01-01T00:00:01Z"}', 1_000),
        (b'{"timestamp" : "1970-01-01T00:00:01.250Z"}', 1_250),
        (b'{"timestamp":"1970-01-01T01:00:01+01:00"}', 1_000),
        (b'{"timestamp":"soon"}\n{"timestamp":"1970-01-01T00:00:02Z"}', 2_000),
        (b'{"timestamp":"1970-01-01T00:00:01Z"}\n{"timestamp":"1970-01-01T00:00:02Z"}', 1_000),
        (b'{"timestamp":1}', 0),
        (b"", 0),
    ],
)
def test_the_first_timestamp_of_a_log_is_its_time(head: bytes, ms: int) -> None:
    assert ids.first_timestamp_ms(head) == ms


@every(
    ("head", "ms"),
    [
        (b'{"timestamp":"1970-01-01T00:00:01Z"}', 1_000),
        (b'{"snapshot":{"timestamp":"1970-01-01T00:00:09Z"},"timestamp" : "1970-01-01T00:00:01Z"}', 1_000),
        (b'{"snapshot":{"timestamp":"1970-01-01T00:00:09Z"}}\n{"timestamp":"1970-01-01T00:00:01Z"}', 1_000),
        (b'{"snapshot":{"timestamp":"1970-01-01T00:00:09Z"}}{"timestamp":"1970-01-01T00:00:01Z"}', 1_000),
        (b'{"snapshot":{"torn\n{"timestamp":"1970-01-01T00:00:01Z"}', 1_000),
        (b'{"all":[{"timestamp":"1970-01-01T00:00:09Z"}],"text":"}\\"}"}\n{"timestamp":"1970-01-01T00:00:02Z"}', 2_000),
        (b'{"key":"timestamp","timestamp":"soon"}\n{"timestamp":"1970-01-01T00:00:02Z"}', 2_000),
        (b'{"snapshot":{"timestamp":"1970-01-01T00:00:09Z"}}', 0),
        (b'{"text":"' + b'\\"' * ids.HEAD_BYTES, 0),
        (b"", 0),
    ],
)
def test_the_first_time_of_a_record_s_own_is_not_one_within_it(head: bytes, ms: int) -> None:
    assert ids.first_own_time_ms(head) == ms


def test_a_uid_tells_the_time_that_it_holds() -> None:
    assert ids.time_of(ids.session_uid("claude", "abc", 1_790_000_000_000)) == 1_790_000_000_000


def test_a_timestamp_behind_the_first_64_kb_does_not_count() -> None:
    stamp = b'"timestamp":"1970-01-01T00:00:01Z"'
    assert ids.first_timestamp_ms(b" " * (ids.HEAD_BYTES - len(stamp)) + stamp) == 1_000
    assert ids.first_timestamp_ms(b" " * (ids.HEAD_BYTES - len(stamp) + 1) + stamp) == 0


@every(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01t00:00:01z", 1_000),
        ("2026-09-21T13:33:20+00:00", 1_789_997_600_000),
        ("1970-01-01T00:00:01.123456789Z", 1_123),
        (1_790_000_000, 1_790_000_000_000),
        (1_790_000_000.5, 1_790_000_000_500),
        (1_790_000_000_000, 1_790_000_000_000),
        (0, 0),
    ],
)
def test_times_are_read_as_logs_write_them(text: str | float, ms: int) -> None:
    assert ids.parse_time_ms(text) == ms


@given(st.datetimes(min_value=datetime(1960, 1, 1)))
def test_a_time_is_the_same_with_milliseconds_and_with_microseconds(at: datetime) -> None:
    text = at.isoformat(timespec="milliseconds")
    assert ids.parse_time_ms(f"{text}Z") == ids.parse_time_ms(f"{text}000Z")


@every(
    "text",
    [
        None, True, "", "soon", "1970-01-01T00:00:01", "1970-13-01T00:00:00Z", float("nan"), float("inf"), 1e18,
        "2026-09-21T13:33:60.000Z", "2026-13-21T13:33:00.000Z", "2026-09-21T13:33:0\u0663.000Z",
        "2026-09-21T13+33:00.000Z",
    ],
)  # fmt: skip
def test_what_is_no_moment_is_none(text: str | float | None) -> None:
    assert ids.parse_time_ms(text) is None


@given(st.text() | st.integers() | st.floats())
def test_no_value_is_too_odd_for_a_time(value: str | float) -> None:
    assert isinstance(ids.parse_time_ms(value), int | None)


def test_a_uid_is_shown_by_eight_letters_or_as_many_as_it_takes() -> None:
    uid = "0123456789ABCDEFGHJKMNPQRS"
    assert ids.shown(uid) == "01234567"
    assert ids.shown(uid, 12) == "0123456789AB"
    assert ids.shown(uid, 2) == "01234567"
