"""Context boards over the server: only where a person allowed it, masked, and what was written later counts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from backstory.cli import syncing
from backstory.conversation.board import CONTENT_CHARS_MAX
from backstory.exchange.json_lines import BoardLine
from backstory.runs.lock import LOCKS, SessionLock
from backstory.server import boards
from backstory.server.boards import Boards
from backstory.server.refusals import Refused
from tests.support.desks import Desk
from tests.support.senders import DESK, Sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.team import Team

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def desks(team: Team, tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    """Two machines of one person; the first has sessions of a repository whose boards may leave."""
    with team.served() as address:
        made = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            made.append(Desk(tmp_path / name, team, address, 1))
        first, second = made
        first.log_in()
        second.come_in_beside(first)
        for each in made:
            assert each.shell("config", "set", "sync.board", "true").code == 0
        assert first.shell("ingest").code == 0
        assert second.shell("ingest").code == 0
        yield first, second


def write(desk: Desk, text: str, *words: str) -> None:
    assert desk.shell("board", "add", "build", text, *words).code == 0


def read(desk: Desk, *words: str) -> str:
    """The text of the item; '' without one."""
    done = desk.shell("board", "show", "build", *words, "--json")
    return str(done.json()["content"]) if done.code == 0 else ""


def sync(desk: Desk) -> int:
    """Send what is new; how many items went."""
    done = desk.shell("sync", "--json")
    assert done.code == 0, done
    return int(done.json()["board_items"])


def pull(desk: Desk) -> None:
    assert desk.shell("pull").code == 0


def test_a_board_comes_to_ones_other_machine_masked_and_once(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    write(first, f"use {SECRET} at {first.shell.home}/other/x")
    assert (sync(first), sync(first)) == (1, 0)
    pull(second)
    text = read(second)
    assert text.startswith("use [github-token-")
    assert str(first.shell.home) not in text


def test_what_comes_back_masked_leaves_the_original_as_it_was(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    # A mask is sorted behind this: where only texts were compared it would win.
    text = "AKIAQ3EGRXV7JK2MWLPT is the key"
    write(first, text)
    sync(first)
    pull(second)
    assert read(second).startswith("[")
    sync(second)
    pull(first)
    assert read(first) == text


def test_what_was_written_or_removed_later_counts(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    write(first, "make")
    sync(first)
    pull(second)
    write(second, "make ship")
    assert sync(second) == 1
    pull(first)
    assert read(first) == "make ship"
    assert first.shell("board", "rm", "build").code == 0
    sync(first)
    pull(second)
    assert read(second) == ""


def test_a_secret_that_a_session_tells_later_is_masked_in_a_board_that_was_sent(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    write(first, "the word is Tr0ub4dor-and-3-horses")
    sync(first)
    first.goes_on("export DB_PASSWORD=Tr0ub4dor-and-3-horses")
    assert first.shell("ingest").code == 0
    assert sync(first) == 1
    pull(second)
    assert "Tr0ub4dor" not in read(second)


def test_without_the_setting_boards_stay(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    first.shell("config", "set", "sync.board", "false")
    write(first, "make")
    assert sync(first) == 0
    pull(second)
    assert read(second) == ""


def test_boards_of_repositories_that_were_not_named_stay(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    for repository in ("me/other", "you/tool", "me/tool2"):
        write(first, "make", "--repo", repository)
    assert sync(first) == 0
    pull(second)
    assert second.shell("board", "list", "--all").out.strip() == ""


def test_a_board_whose_name_two_repositories_have_stays(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    write(first, "make")
    first.works_elsewhere("git@gitlab.com:me/tool.git")
    assert first.shell("ingest").code == 0
    assert sync(first) == 0


def test_a_session_that_was_taken_out_of_the_server_still_tells_its_secrets(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    first.works_elsewhere("git@github.com:me/tool.git")
    first.goes_on("export DB_PASSWORD=Tr0ub4dor-and-3-horses")
    assert first.shell("ingest").code == 0
    sync(first)
    found = first.shell("list", "--json").json()["sessions"]
    (teller,) = {each["uid"] for each in found if "work elsewhere" not in str(each)}
    assert first.shell("sync", "forget", teller, "--yes").code == 0
    write(first, "the word is Tr0ub4dor-and-3-horses")
    assert sync(first) == 1
    pull(second)
    assert read(second).startswith("the word is [")


def test_a_name_that_two_repositories_have_is_one_also_where_one_was_taken_out(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    first.works_elsewhere("git@gitlab.com:me/tool.git")
    assert first.shell("config", "set", "sync.repositories", "me/tool,gitlab.com/me/tool").code == 0
    assert first.shell("ingest").code == 0
    sync(first)
    found = first.shell("list", "--all", "--json").json()["sessions"]
    (other,) = {each["uid"] for each in found if "work elsewhere" in str(each)}
    assert first.shell("sync", "forget", other, "--yes").code == 0
    write(first, "make")
    assert sync(first) == 0


def test_an_item_is_cut_once_it_is_as_it_leaves(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    write(first, f"{'/home/x ' * 499}end")
    assert sync(first) == 1
    pull(second)
    assert len(read(second)) == CONTENT_CHARS_MAX


def test_an_item_whose_branch_tells_of_the_machine_stays(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    write(first, "make", "--branch", f"x/{SECRET}")
    assert sync(first) == 0
    write(first, "make")
    assert sync(first) == 1


def test_an_item_that_is_none_is_passed_over(desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = desks
    write(first, "make")
    sync(first)
    really = Boards.of_others

    def with_a_long_one(*given: Any) -> list[BoardLine]:
        found = really(*given)
        return [msgspec.structs.replace(found[0], name="long", content="x" * 9_000), *found]

    monkeypatch.setattr(Boards, "of_others", with_a_long_one)
    pull(second)
    assert read(second) == "make"


def test_a_pull_says_what_came_though_boards_did_not(desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = desks
    first.goes_on("more")
    first.works_elsewhere("git@github.com:me/tool.git")
    assert first.shell("ingest").code == 0
    write(first, "make")
    sync(first)

    def broken(*_: object) -> None:
        raise Refused(400, "request_wrong", "no boards today")

    monkeypatch.setattr(Boards, "of_others", broken)
    done = second.shell("pull")
    assert done.code != 0
    assert "new session" in done.out


def test_two_syncs_do_not_run_at_once(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    lock = SessionLock(first.shell.home / "backstory" / LOCKS, syncing.LOCK)
    assert lock.take()
    for words in (("sync",), ("sync", "forget", "--all", "--yes")):
        done = first.shell(*words)
        assert (done.code, done.err) == (75, "backstory: Another sync is running. Try again when it is done.\n")
    lock.release()
    assert first.shell("sync").code == 0


def test_the_dry_run_counts_items_and_their_masks(desks: tuple[Desk, Desk]) -> None:
    first, _ = desks
    write(first, f"use {SECRET}")
    found = first.shell("sync", "--dry-run", "--json").json()
    assert (found["board_items"], found["leaving"][0]["masked"]["github-token"]) == (1, 1)
    first.shell("config", "set", "sync.board", "false")
    assert first.shell("sync", "--dry-run", "--json").json()["board_items"] == 0


def test_who_takes_everything_out_of_the_server_has_no_board_there_either(desks: tuple[Desk, Desk]) -> None:
    first, second = desks
    write(first, "make")
    sync(first)
    assert first.shell("sync", "forget", "--all", "--yes").code == 0
    write(first, "make ship")
    assert sync(first) == 0
    pull(second)
    assert read(second) == ""


def test_another_persons_boards_are_not_given(desks: tuple[Desk, Desk], team: Team, tmp_path: Path) -> None:
    first, _ = desks
    write(first, "make")
    sync(first)
    (tmp_path / "ben").mkdir()
    ben = Desk(tmp_path / "ben", team, first.address, 1)
    ben.log_in("ben", first.shell("team", "invite", "--json").json()["invitation"])
    pull(ben)
    assert read(ben) == ""


# what others may send -------------------------------------------------------------------------------------------------


def item(**fields: object) -> dict[str, object]:
    return {
        "type": "board_item", "repository": "me/app", "branch": "default", "src": "user", "name": "build",
        "content": "make", "created": "2026-09-21T14:13:20.123Z", "changed": "2026-09-21T14:13:20.123Z", **fields,
    }  # fmt: skip


def put(sender: Sender, *items: dict[str, object], repository: str = "github.com/me/app") -> int:
    body = {"repository": repository, "items": [*items]}
    return sender.team.client.put("/v1/boards", json=body, headers=sender.headers).status_code


def given(sender: Sender) -> int:
    """How many items the person's other machines get."""
    other = Sender(sender.team, sender.who, DESK)
    return len(sender.team.client.get("/v1/boards", headers=other.headers).json()["items"])


@pytest.mark.parametrize("fields", [
    {"repository": "me/other"}, {"created": "x"}, {"name": "No Name"}, {"content": "x" * 5_000}, {"src": "both"},
])  # fmt: skip
def test_what_is_no_item_of_the_repositorys_board_is_refused(fields: dict[str, object], team: Team) -> None:
    sender = Sender(team, team.founded())
    assert put(sender, item(), item(**fields)) == 400
    assert put(sender, item()) == 200
    assert given(sender) == 1


def test_a_machine_that_sent_only_a_board_can_be_named_and_erased(team: Team) -> None:
    sender = Sender(team, team.founded())
    put(sender, item())
    assert [each["id"] for each in team.ask("GET", "/v1/machines", sender.token)[1]["machines"]] == [sender.machine]
    assert team.ask("DELETE", f"/v1/machines/{sender.machine}", sender.token)[0] == 200
    assert given(sender) == 0


def test_what_a_person_keeps_is_bounded(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "PERSON_BOARDS_MAX", 1)
    sender = Sender(team, team.founded())
    assert put(sender, item()) == 200
    assert put(sender, item(repository="me/b"), repository="github.com/me/b") == 413
    assert given(sender) == 1


def test_who_is_put_out_while_a_board_comes_leaves_none(team: Team) -> None:
    anna = team.founded()
    ben = team.joined(anna, "ben")
    caller = team.people.caller(ben.token)
    team.ask("DELETE", "/v1/people/ben", anna.token)
    kept = Boards(team.database, lambda: datetime.now(UTC))
    line = msgspec.convert(item(), BoardLine)
    with pytest.raises(Refused, match="needs a login"):
        kept.put(caller, DESK, "github.com/me/app", [line])
    with team.database.of(caller.tenant) as rows:
        assert rows.execute("select count(*) from board where tenant = %s", (caller.tenant,)).fetchall() == [(0,)]


def test_who_was_logged_out_while_a_board_came_leaves_none(team: Team) -> None:
    anna = team.founded()
    caller = team.people.caller(anna.token)
    team.ask("POST", "/v1/logout", anna.token)
    with pytest.raises(Refused, match="needs a login"):
        Boards(team.database, lambda: datetime.now(UTC)).put(caller, DESK, "github.com/me/app", [])
