"""The reference table of docs/api.md: each promised function is in it, and returns and raises what it says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import backstory
from backstory import (
    AssistantText,
    BackstoryError,
    Filter,
    Session,
    Store,
    UserMessage,
    errors,
    open_store,
    open_workspace,
)
from backstory.conversation.tree import Point
from backstory.store.file import erasing
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

API = (Path(__file__).parent.parent / "docs" / "api.md").read_text("utf-8")
PROSE, _, REFERENCE = API.partition("\n## Reference\n")
NOT_FOUND, NOT_A_SESSION = "raises `StoreNotFound`", "raises `NotASession`"
WITHOUT_A_FILE = {"create_session", "find_or_create", "cleanup_orphans", "close"}
NOWHERE = Point("0" * 26, 1)


def table() -> dict[str, tuple[str, list[str]]]:
    """What each function returns and raises, by its name."""
    rows = re.findall(r"^\| `([\w.]+)` \| `(.+)` \|(.*)\|$", REFERENCE, re.MULTILINE)
    return {name: (returns.replace("\\|", "|"), re.findall(r"`(\w+)`", raised)) for name, returns, raised in rows}


def methods() -> list[str]:
    return [name.removeprefix("Store.") for name in table() if name.startswith("Store.")]


CALLS: dict[str, Callable[[Store, Any], object]] = {
    "create_session": lambda store, session: store.create_session(),
    "find_or_create": lambda store, session: store.find_or_create("other"),
    "append_events": lambda store, session: store.append_events(session, [UserMessage(content="hi")]),
    "events": lambda store, session: store.events(session),
    "mark_completed": lambda store, session: store.mark_completed(session, 1, 0.1),
    "turns": lambda store, session: store.turns(session),
    "session": lambda store, session: store.session(session if isinstance(session, int | str) else session.id),
    "sessions": lambda store, session: store.sessions(),
    "search": lambda store, session: store.search("hi"),
    "sessions_named": lambda store, session: store.sessions_named(Filter()),
    "event": lambda store, session: store.event(1),
    "execute_read_only": lambda store, session: store.execute_read_only("select 1"),
    "context_turns": lambda store, session: store.context_turns(session, 1_000),
    "told_turns": lambda store, session: store.told_turns(session, 1_000),
    "place": lambda store, session: store.place(session, 1),
    "checkout": lambda store, session: store.checkout(session, store.place(session, 1).point),
    "leaf": lambda store, session: store.leaf(session),
    "name_branch": lambda store, session: store.name_branch(session, "first", store.place(session, 1).point),
    "branch_names": lambda store, session: store.branch_names(session),
    "remove_turns": lambda store, session: store.remove_turns(session, []),
    "restore_turns": lambda store, session: store.restore_turns(session, "0" * 26),
    "tree": lambda store, session: store.tree(session),
    "cleanup_orphans": lambda store, session: store.cleanup_orphans(),
    "backup": lambda store, session: store.backup(store.path.with_name("copy.bks")),
    "verify": lambda store, session: store.verify(),
    "rename": lambda store, session: store.rename(session, "name"),
    "remove": lambda store, session: store.remove(session),
    "erase": lambda store, session: store.erase(),
    "optimize": lambda store, session: store.optimize(0),
    "close": lambda store, session: store.close(),
}
"""Each method, called as it is promised."""


def place_removed(store: Store) -> None:
    store.remove_turns(1, [store.turns(1)[0].uid])
    store.place(1, 1)


def find_one_of_two(store: Store) -> None:
    store.rename(1, "same")
    store.rename(store.create_session(), "same")
    store.session("same")


def name_twice(store: Store) -> None:
    store.append_events(1, [UserMessage(content="and?")])
    store.name_branch(1, "one", store.place(1, 1).point)
    store.name_branch(1, "one", store.place(1, 3).point)


def in_use(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(path: Path, step: object) -> None:
        raise errors.NotErased(path, "another process goes on using it")

    monkeypatch.setattr(erasing, "patiently", busy)


def open_moved(store: Store) -> object:
    home = store.path.parent
    (home / "moved-to").write_bytes(bytes(home / "new") + b"\0moved")
    return open_workspace(home, {"BACKSTORY_HOME": str(home)})


RAISED: dict[tuple[str, str], Callable[[Store], object]] = {
    ("open_workspace", "HomeNotAFolder"): lambda store: open_workspace(environ={"BACKSTORY_HOME": str(store.path)}),
    ("open_workspace", "HomeWasMoved"): open_moved,
    ("append_events", "SessionNotFound"): lambda store: store.append_events(99, [UserMessage(content="hi")]),
    ("mark_completed", "SessionNotFound"): lambda store: store.mark_completed(99, 1, 0.1),
    ("session", "SessionNotFound"): lambda store: store.session("S99"),
    ("session", "SessionAmbiguous"): find_one_of_two,
    ("execute_read_only", "SqlWrong"): lambda store: store.execute_read_only("selec"),
    ("execute_read_only", "OnlyReading"): lambda store: store.execute_read_only("delete from sessions"),
    ("execute_read_only", "SqlTooSlow"): lambda store: store.execute_read_only(
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n", timeout_s=0.05
    ),
    ("execute_read_only", "SqlTooBig"): lambda store: store.execute_read_only("select randomblob(2000000000)"),
    ("place", "RecordNotFound"): lambda store: store.place(1, 99),
    ("place", "BranchRemoved"): place_removed,
    ("checkout", "RecordNotFound"): lambda store: store.checkout(1, NOWHERE),
    ("name_branch", "SessionNotFound"): lambda store: store.name_branch(99, "one", NOWHERE),
    ("name_branch", "RecordNotFound"): lambda store: store.name_branch(1, "one", NOWHERE),
    ("name_branch", "BranchNameTaken"): name_twice,
    ("remove_turns", "SessionNotFound"): lambda store: store.remove_turns(99, ["x"]),
    ("restore_turns", "SessionNotFound"): lambda store: store.restore_turns(99, "x"),
    ("rename", "SessionNotFound"): lambda store: store.rename(99, "name"),
    ("backup", "FileInTheWay"): lambda store: store.backup(store.path),
    ("backup", "CannotWrite"): lambda store: store.backup(store.path / "copy.bks"),
    ("remove", "SessionNotFound"): lambda store: store.remove(99),
}
"""What makes a method raise an error that the table promises."""
ERASING = {("remove", "NotErased"), ("erase", "NotErased"), ("optimize", "NotErased")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "sessions.bks") as opened:
        session = opened.create_session("first")
        opened.append_events(session, [UserMessage(content="hi"), AssistantText(text="yes")])
        yield opened


def test_all_that_the_text_names_is_in_the_table_and_nothing_else() -> None:
    functions = {name for name in backstory.__all__ if inspect.isfunction(getattr(backstory, name))}
    shown = re.findall(r"\b[Ss]tore\.(\w+)\(", PROSE) + re.findall(r"`Store\.(\w+)", PROSE)
    named = {f"Store.{name}" for name in shown}
    assert set(table()) == functions | named
    assert set(methods()) == set(CALLS)


@every("name", table())
def test_the_table_says_what_is_returned(name: str) -> None:
    made = getattr(Store, name.removeprefix("Store.")) if name.startswith("Store.") else getattr(backstory, name)
    assert table()[name][0] == inspect.signature(made).return_annotation


def test_every_error_exists() -> None:
    named = {each for _, raised in table().values() for each in raised} | set(
        re.findall(r"`((?:Store|NotA|Disk)\w+)`", REFERENCE.partition("| name")[0])
    ) - {"Store"}
    assert named
    assert [each for each in named if not issubclass(getattr(errors, each, int), BackstoryError)] == []


def test_every_error_of_the_table_is_shown_here() -> None:
    promised = {(name.removeprefix("Store."), each) for name, (_, raised) in table().items() for each in raised}
    assert promised == set(RAISED) | ERASING


@pytest.mark.parametrize(("method", "error"), RAISED)
def test_a_method_raises_what_the_table_says(store: Store, method: str, error: str) -> None:
    with pytest.raises(BackstoryError) as refused:
        RAISED[method, error](store)
    assert type(refused.value).__name__ == error


@pytest.mark.parametrize("method", sorted(name for name, _ in ERASING))
def test_what_cannot_be_erased_is_an_error(store: Store, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    doomed = store.create_session("doomed")
    in_use(store, monkeypatch)
    if method != "remove":
        with pytest.raises(errors.NotErased):
            store.remove(doomed)
    with pytest.raises(errors.NotErased):
        CALLS[method](store, doomed)


@pytest.mark.parametrize("method", methods())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_a_file_all_but_those_named_say_so(tmp_path: Path, method: str) -> None:
    assert NOT_FOUND in REFERENCE
    with open_store(tmp_path / "none.bks") as store:
        if method in WITHOUT_A_FILE:
            assert f"`{method}`" in REFERENCE.partition(NOT_FOUND)[0]
            CALLS[method](store, 1)
        else:
            with pytest.raises(errors.StoreNotFound):
                CALLS[method](store, 1)


@pytest.mark.parametrize(
    "method", [name for name in CALLS if "session" in inspect.signature(getattr(Store, name)).parameters]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_no_session_is_refused(store: Store, method: str) -> None:
    assert NOT_A_SESSION in REFERENCE
    with pytest.raises(errors.NotASession):
        CALLS[method](store, "S1")


@pytest.mark.parametrize("method", [name for name in CALLS if name != "told_turns"])
def test_a_method_called_as_promised_raises_nothing(store: Store, method: str) -> None:
    session: Session = store.session("first")
    CALLS[method](store, session)


def test_removing_a_turn_that_is_not_there_counts_nothing(store: Store) -> None:
    assert store.remove_turns(1, ["0" * 26]) == 0
    assert store.remove_turns(1, [store.turns(1)[0].uid] * 2) == 1
    assert store.restore_turns(1, "0" * 26) == 0
