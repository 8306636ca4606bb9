"""History sent to a server: what may leave, masked, once, only what is new; and it is what the server confirmed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from backstory.derive.pruning import PROMPTS, Pruning
from backstory.errors import ServerUnreachable
from backstory.exchange import frames
from backstory.exchange.frames import read
from backstory.export.full_form import FullForms
from backstory.ingest.pruning import prune_session
from backstory.store import open_store
from backstory.sync import uploading
from backstory.sync.notes import SyncNotes
from backstory.sync.opted import opted_in
from tests.support.clock import NOW
from tests.support.laptops import MACHINE, PASSWORD, Laptop
from tests.support.senders import DESK, Sender, split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.model import Event
    from backstory.store import StoredEvent
    from tests.support.team import Team

sync_command = importlib.import_module("backstory.cli.commands.sync_command")


@pytest.fixture
def laptop(tmp_path: Path, team: Team) -> Iterator[Laptop]:
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:
        yield Laptop(tmp_path, store, Sender(team, team.founded()))


def uids(laptop: Laptop) -> list[str]:
    return sorted(laptop.store.uids())


def test_what_may_leave_is_there_and_nothing_else(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first", "second")
    laptop.works("bbbbbbbb", "private", repository="other")
    done = laptop.sync()
    ((uid, texts),) = laptop.there().items()
    assert (done.created, done.sent, done.events, done.staying) == ([uid], [uid], 4, 1)
    assert ["first" in texts[0], "second" in texts[2]] == [True, True]
    assert not any(b"private" in _unpacked(each) for each in laptop.remote.bodies)


def test_again_nothing_is_sent_with_one_request(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.remote.asked.clear()
    done = laptop.sync()
    assert (done.events, done.sent, done.unchanged, laptop.remote.asked) == (0, [], 1, ["/v1/me"])


def test_of_a_session_that_went_on_only_what_is_new_is_sent(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.works("aaaaaaaa", "second")
    laptop.remote.bodies.clear()
    done = laptop.sync()
    assert (done.events, done.created, len(done.sent)) == (2, [], 1)
    assert b"".join(map(_unpacked, laptop.remote.bodies)).count(b'{"type":"event"') == 2
    (texts,) = laptop.there().values()
    assert len(texts) == 4


def test_what_was_pruned_in_part_here_stays_whole_there_and_that_is_said(
    laptop: Laptop, capsys: pytest.CaptureFixture[str]
) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    before, (uid,) = laptop.there(), uids(laptop)
    prune_session(laptop.store, laptop.store.session(uid), Pruning(keep=PROMPTS))
    laptop.works("aaaaaaaa", "second")
    done = laptop.sync()
    assert (done.sent, done.events, done.erased, laptop.there()) == ([], 0, [], before)
    assert uploading.as_json(done)["pruned_sessions"] == 1
    sync_command._print_sent("http://x", done)
    assert "1 session was pruned in part: what was sent before stays as it is there" in capsys.readouterr().err


def test_a_name_that_was_given_is_sent_without_events(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.store.rename(laptop.store.session(uids(laptop)[0]), "a name")
    done = laptop.sync()
    assert (done.events, len(done.sent)) == (0, 1)
    laptop.sender.upto = ""
    assert b'"name":"a name"' in _unpacked(b"".join(laptop.sender.news()))


def test_a_secret_that_is_told_late_has_what_was_sent_with_it_sent_anew(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", f"use {PASSWORD} there")
    laptop.sync()
    assert PASSWORD in str(laptop.there())
    laptop.works("bbbbbbbb", f"export DB_PASSWORD={PASSWORD}")
    done = laptop.sync()
    assert (len(done.created), len(done.sent)) == (1, 2)
    assert PASSWORD not in str(laptop.there())
    assert str(laptop.there()).count("[password-") >= 2


def test_a_sync_that_broke_leaves_no_secret_bare_that_another_session_told(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.works("aaaaaaaa", f"use {PASSWORD} there")
    laptop.sync()
    laptop.works("bbbbbbbb", f"export DB_PASSWORD={PASSWORD}")
    monkeypatch.setattr(uploading, "FRAMES_AT_ONCE", 1)
    whole = laptop.remote.send

    def once(path: str, data: bytes) -> Any:
        monkeypatch.setattr(laptop.remote, "send", broken)
        return whole(path, data)

    def broken(path: str, data: bytes) -> Any:
        raise ServerUnreachable("http://x", "the line broke")

    monkeypatch.setattr(laptop.remote, "send", once)
    with pytest.raises(ServerUnreachable):
        laptop.sync()
    monkeypatch.setattr(laptop.remote, "send", whole)
    opted = opted_in(laptop.opted, MACHINE.home)
    assert uploading.waiting(SyncNotes.read(laptop.notes), [laptop.store], opted).session_count == 1
    assert len(laptop.sync().sent) == 1
    assert PASSWORD not in str(laptop.there())
    assert uploading.waiting(SyncNotes.read(laptop.notes), [laptop.store], opted).session_count == 0
    laptop.remote.asked.clear()
    assert (laptop.sync().sent, laptop.remote.asked) == ([], ["/v1/me"])


def test_a_secret_whose_teller_was_removed_stays_masked_in_what_was_sent(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", f"use {PASSWORD} there")
    laptop.works("bbbbbbbb", f"export DB_PASSWORD={PASSWORD}")
    laptop.sync()
    teller = next(each for each, texts in laptop.there().items() if "export" in str(texts))
    laptop.store.remove(laptop.store.session(teller))
    laptop.works("cccccccc", "more")
    assert len(laptop.sync().sent) == 1
    assert PASSWORD not in str(laptop.there())
    laptop.remote.asked.clear()
    assert (laptop.sync().sent, laptop.remote.asked) == ([], ["/v1/me"])


def test_of_a_session_that_went_on_no_event_is_read_again(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop.works("aaaaaaaa", *map(str, range(20)))
    laptop.works("bbbbbbbb", "first")
    laptop.sync()
    laptop.works("aaaaaaaa", "more")
    expand, read = FullForms.expand, list[int]()

    def counted(forms: FullForms, stored: StoredEvent) -> Event:
        read.append(stored.seq)
        return expand(forms, stored)

    monkeypatch.setattr(FullForms, "expand", counted)
    # The record that was sent last is looked at: more of it may have come.
    assert (laptop.sync().events, len(read)) == (2, 3)


def test_rules_that_are_others_have_nothing_sent_that_would_be_the_same(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.works("aaaaaaaa", f"export DB_PASSWORD={PASSWORD}")
    laptop.works("bbbbbbbb", "first")
    laptop.sync()
    monkeypatch.setattr(uploading, "RULES", "other")
    laptop.remote.asked.clear()
    done = laptop.sync()
    assert (done.sent, done.unchanged, laptop.remote.asked) == ([], 2, ["/v1/me"])
    assert laptop.sync().unchanged == 2


def test_a_session_whose_past_is_another_one_is_sent_anew(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first", "second")
    laptop.sync()
    (uid,) = uids(laptop)
    with apsw.Connection(str(laptop.store.path)) as db:
        db.execute("update turns set first_seq = first_seq, model = 'another' where first_seq = 1")
    laptop.works("aaaaaaaa", "third")
    assert laptop.sync().sent == [uid]
    laptop.sender.upto = ""
    found = [read(each) for each in laptop.sender.news()]
    assert [each.head.epoch for each in found] == [2]
    assert any(b'"model":"another"' in line for line in found[0].lines)


def test_what_waits_is_counted_without_the_server(laptop: Laptop) -> None:
    def waits() -> tuple[int, int]:
        opted = opted_in(laptop.opted, MACHINE.home)
        found = uploading.waiting(SyncNotes.read(laptop.notes), [laptop.store], opted)
        return found.session_count, found.event_count

    laptop.works("aaaaaaaa", "first", "second")
    laptop.works("bbbbbbbb", "private", repository="other")
    before = waits()
    laptop.sync()
    after = waits()
    laptop.works("aaaaaaaa", "third")
    assert [before, after, waits()] == [(1, 4), (0, 0), (1, 2)]


def test_many_repositories_are_asked_about_at_once(laptop: Laptop) -> None:
    laptop.opted = ["janedoe/*"]
    for number in range(5):
        laptop.works(f"{number}aaaaaaa", "first", repository=f"app{number}")
    assert laptop.sync().events == 10
    assert laptop.remote.asked == ["/v1/me", "/v1/state", "/v1/sync"]


def test_a_secret_that_only_a_name_of_a_session_has_is_masked_elsewhere(laptop: Laptop) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    laptop.works("aaaaaaaa", "first")
    laptop.works("bbbbbbbb", "first")
    laptop.store.rename(laptop.store.session(uids(laptop)[0]), f"with {token}")
    laptop.sync()
    laptop.works("bbbbbbbb", f"see {token[:20]}")
    laptop.sync()
    assert token[:20] not in str(laptop.there())
    assert not any(token[:20].encode() in _unpacked(each) for each in laptop.remote.bodies)


def test_no_secret_is_written_into_the_notes(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", f"export DB_PASSWORD={PASSWORD}")
    laptop.sync()
    assert laptop.notes.read_bytes()
    assert PASSWORD.encode() not in laptop.notes.read_bytes()


def test_a_secret_of_one_session_is_masked_in_what_another_says_later(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", f"export DB_PASSWORD={PASSWORD}")
    laptop.works("bbbbbbbb", "first")
    laptop.sync()
    laptop.works("bbbbbbbb", f"and {PASSWORD}")
    laptop.sync()
    assert PASSWORD not in str(laptop.there())
    assert not any(PASSWORD.encode() in _unpacked(each) for each in laptop.remote.bodies)


@pytest.mark.parametrize("lost", [[True], [False, True], [False, False, True]])
def test_a_line_that_broke_loses_and_doubles_nothing(lost: list[bool], laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first", "second")
    laptop.remote.lost = lost
    with pytest.raises(ServerUnreachable):
        laptop.sync()
    laptop.works("aaaaaaaa", "third")
    laptop.sync()
    (texts,) = laptop.there().values()
    assert [text for text in ("first", "second", "third") if sum(text in each for each in texts) != 2] == []


def test_notes_that_are_lost_have_nothing_sent_twice(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.notes.unlink()
    laptop.works("aaaaaaaa", "second")
    laptop.sync()
    (texts,) = laptop.there().values()
    assert len(texts) == 4
    laptop.notes.unlink()
    done = laptop.sync()
    assert (done.created, len(laptop.there()), laptop.sync().unchanged) == ([], 1, 1)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_of_two_machines_with_other_histories_of_one_session_neither_takes_from_the_other(
    is_first: bool, is_lost: bool, laptop: Laptop, tmp_path: Path
) -> None:
    with open_store(tmp_path / "desk.db", shared=True, now=lambda: NOW) as store:
        desk = Laptop(tmp_path / "desk", store, Sender(laptop.sender.team, laptop.sender.who, DESK))
        machines = (laptop, desk) if is_first else (desk, laptop)
        laptop.works("aaaaaaaa", "first", "only here")
        desk.works("aaaaaaaa", "first", "only there", "and more")
        assert uids(laptop) == uids(desk)
        for each in machines:
            assert each.sync().failed == []
        for each in (*machines, *machines):
            if is_lost:
                each.notes.unlink()
            each.works("aaaaaaaa", "later")
            done = each.sync()
            assert (done.created, len(done.sent), done.failed) == ([], 1, [])
        (of_laptop,), (of_desk,) = laptop.there().values(), desk.there().values()
        assert (len(of_laptop), "only here" in str(of_laptop), "only there" in str(of_laptop)) == (8, True, False)
        assert (len(of_desk), "only there" in str(of_desk), "only here" in str(of_desk)) == (10, True, False)


@pytest.mark.parametrize("grows", [False, True])
def test_without_notes_no_event_is_sent_twice_however_it_was_sent_before(grows: bool, laptop: Laptop) -> None:
    for number in range(4):
        laptop.works("aaaaaaaa", f"prompt {number}")
        laptop.works("bbbbbbbb", f"other {number}")
        laptop.sync()
    laptop.notes.unlink()
    laptop.remote.bodies.clear()
    if grows:
        laptop.works("aaaaaaaa", "more")
    done = laptop.sync()
    sent = b"".join(map(_unpacked, laptop.remote.bodies))
    assert (sent.count(b'{"type":"event"'), done.events, done.created) == (2 * grows, 2 * grows, [])
    assert (len(done.sent), done.unchanged) == (grows, 2 - grows)
    assert sorted(len(each) for each in laptop.there().values()) == [8, 8 + 2 * grows]
    assert laptop.sync().unchanged == 2


def test_a_session_whose_end_did_not_arrive_is_sent_to_its_end_without_notes(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "EVENTS_MAX", 1)
    monkeypatch.setattr(uploading, "FRAMES_AT_ONCE", 1)
    laptop.works("aaaaaaaa", "first", "second")
    laptop.remote.lost = [False, False, False, True]
    with pytest.raises(ServerUnreachable):
        laptop.sync()
    laptop.notes.unlink(missing_ok=True)
    assert laptop.there() == {}
    laptop.remote.bodies.clear()
    laptop.sync()
    assert b"".join(map(_unpacked, laptop.remote.bodies)).count(b'{"type":"event"') == 2
    assert [len(each) for each in laptop.there().values()] == [4]


def test_a_server_that_lost_what_it_had_gets_it_again(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    tenant = laptop.sender.tenant
    with laptop.sender.team.database.of(tenant) as rows:
        rows.execute("delete from frame")
        rows.execute("delete from session")
    laptop.works("aaaaaaaa", "second")
    done = laptop.sync()
    assert (len(done.failed), [len(each) for each in laptop.there().values()]) == (0, [4])


def test_what_was_taken_out_stays_out(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    remote: Any = laptop.remote
    (uid,) = uids(laptop)
    assert uploading.forget(remote, SyncNotes.read(laptop.notes), [uid]) == [uid]
    assert laptop.there() == {}
    laptop.works("aaaaaaaa", "second")
    assert (laptop.sync().forgotten, laptop.there()) == ([uid], {})
    laptop.notes.unlink()
    assert (laptop.sync().forgotten, laptop.there()) == ([uid], {})


def test_a_repository_that_is_no_more_named_sends_nothing_new(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.sync()
    laptop.opted = []
    laptop.works("aaaaaaaa", "second")
    laptop.remote.bodies.clear()
    assert (laptop.sync().staying, laptop.remote.bodies) == (1, [])


def test_the_status_says_what_the_server_confirmed(laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    laptop.works("bbbbbbbb", "private", repository="other")
    remote: Any = laptop.remote
    opted = opted_in(laptop.opted, MACHINE.home)
    before = uploading.status(remote, SyncNotes.read(laptop.notes), [laptop.store], opted)
    laptop.sync()
    after = uploading.status(remote, SyncNotes.read(laptop.notes), [laptop.store], opted)
    assert [(each.confirmed_count, each.event_count, each.waiting_count, each.staying_count) for each in (before, after)
            ] == [(0, 0, 1, 1), (1, 2, 0, 1)]  # fmt: skip


def _unpacked(data: bytes) -> bytes:
    from backstory.store import codec

    return b"".join(codec.unpack_frame(each.partition(b"\n")[2], 1 << 25) for each in split(data))


class Server:
    """A server that says what it is told to."""

    address, machine = "http://x", None

    def __init__(self, word: str, confirmed: int) -> None:
        self._word, self._confirmed = word, confirmed

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        states = [] if body is None else [{"uid": uid, "epoch": 0, "upto": [0, -1], "chain": "", "events": 0,
                                           "is_forgotten": False} for uid in body["uids"]]  # fmt: skip
        return {"sessions": states}

    def send(self, path: str, data: bytes) -> Any:
        confirmed = [
            {"uid": "x", "word": self._word, "reason": "no", "state": self.ask("", "", {"uids": ["x"]})["sessions"][0]}
            for _ in split(data)[: self._confirmed]
        ]  # fmt: skip
        return {"generation": 1, "confirmed": confirmed}


@pytest.mark.parametrize("word, confirmed", [("damaged", 9), ("forgotten", 9), ("expected", 9), ("ok", 0)])
def test_what_the_server_did_not_confirm_is_neither_new_nor_sent(word: str, confirmed: int, laptop: Laptop) -> None:
    laptop.works("aaaaaaaa", "first")
    remote: Any = Server(word, confirmed)
    laptop.remote = remote
    done = laptop.sync()
    assert (done.created, done.sent, done.events) == ([], [], 0)
    assert [each.session for each in done.failed] == ([] if word == "forgotten" else uids(laptop))
