"""A store and a plain dict that are told the same things, and a store and its export: they never disagree."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from backstory.derive.secrets import Redactor
from backstory.errors import BackstoryError
from backstory.export.full_form import FullForms
from backstory.model import AssistantText, Complete, Event, Retry, ToolCall, ToolResult, Unknown, UserMessage
from backstory.store import Store, open_store
from backstory.store.file import maintenance
from tests.support.clock import NOW, Clock
from tests.support.copies import WAYS, go_on
from tests.support.machines import SMALL, Machine, case
from tests.support.portable import Importer, came, exported

if TYPE_CHECKING:
    from collections.abc import Iterator

letters = st.characters(codec="utf-8")
texts = st.text(letters, max_size=30)
tools = st.sampled_from(["Bash", "Edit", "Read", "Glob", "other"])
events = st.lists(
    st.builds(UserMessage, content=texts)
    | st.builds(AssistantText, text=texts)
    | st.builds(ToolCall, tool_name=tools, input=st.dictionaries(texts, texts, max_size=2))
    | st.builds(ToolResult, tool_name=tools, content=texts, is_error=st.booleans()),
    max_size=4,
)


extremes = st.sampled_from([-1, 0, 2**53 + 1, 2**63 - 1])
amounts = st.sampled_from([-1.0, 0.0, 0.25, 1e308, float("inf"), float("nan")])
odd_events = st.lists(
    st.builds(UserMessage, content=texts)
    | st.builds(Complete, success=st.booleans(), duration_ms=extremes, cost_usd=amounts)
    | st.builds(Retry, attempt=extremes, message=texts)
    | st.builds(ToolCall, tool_use_id=texts, tool_name=tools, file_path=texts, input=st.dictionaries(texts, extremes))
    | st.builds(ToolResult, tool_use_id=texts, tool_name=tools, content=texts, details=texts)
    | st.builds(Unknown, type=texts),
    max_size=4,
)
logs = st.sampled_from([*SMALL, "codex/prompt-of-the-model-alone", "codex/proposed-plan", "codex/compact"])
"""Recorded logs, by ``agent/name``."""


LOG = b'{"type":"log"'


class Expected:
    """What a session must hold."""

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        self.events: list[Event] = []
        self.completed: int | None = None
        self.costs: list[float] = []
        self.word: str | None = None


class StoreMachine(RuleBasedStateMachine):
    """Create, append, complete, rename, remove, back up, reopen, search: in any order."""

    sessions: Bundle[str] = Bundle("sessions")

    @initialize(shared=st.booleans())
    def begin(self, shared: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="backstory-"))
        self.clock = Clock()
        self.path, self.shared = self.folder / "first.bks", shared
        self.model: dict[str, Expected] = {}
        self.made = self.words = self.copies = 0
        self.store = self.opened()

    def opened(self) -> Store:
        return open_store(self.path, shared=self.shared, now=self.clock)

    @rule(target=sessions, name=st.sampled_from(["", "a name", "another"]))
    def create(self, name: str) -> str:
        self.made += 1
        self.clock.ms += 1
        session = self.store.create_session(name)
        assert session.number == self.made
        assert session.uid not in self.model
        self.model[session.uid] = Expected(self.made, name)
        return session.uid

    @rule(uid=sessions, new=events)
    def append(self, uid: str, new: list[Event]) -> None:
        expected = self.model[uid]
        last = self.store.append_events(self.store.session(uid), new)
        expected.events += new
        assert last == len(expected.events)
        if any(isinstance(event, UserMessage) for event in new):
            expected.completed = None
            expected.costs.append(0.0)

    @rule(uid=sessions)
    def say_a_word_that_nobody_said_before(self, uid: str) -> None:
        self.words += 1
        word = self.model[uid].word = f"unmistakable{self.words}"
        self.append(uid, [AssistantText(text=f"and then {word}.")])

    @rule(uid=sessions, success=st.booleans(), cost=st.integers(0, 100).map(lambda cents: cents / 4))
    def complete(self, uid: str, success: bool, cost: float) -> None:
        expected = self.model[uid]
        self.store.mark_completed(self.store.session(uid), 1_000, cost, success)
        # A session without a turn keeps its own figures only until its first turn.
        if expected.costs:
            expected.costs[-1] = cost
            expected.completed = int(success)

    @rule(uid=sessions, name=st.sampled_from(["", "a name", "new name"]))
    def rename(self, uid: str, name: str) -> None:
        self.store.rename(self.store.session(uid), name)
        self.model[uid].name = name

    @rule(uid=consumes(sessions))
    def remove(self, uid: str) -> None:
        assert self.store.remove(self.store.session(uid)) == [uid]
        gone = self.model.pop(uid)
        if gone.word:
            assert self.store.search(gone.word).hits == []

    @rule(target=sessions)
    def reopen(self) -> Any:
        self.store.close()
        self.store = self.opened()
        return multiple()

    @rule()
    def go_on_in_a_backup(self) -> None:
        if not self.store.exists:
            return
        self.copies += 1
        copy = self.folder / f"copy{self.copies}.bks"
        self.store.backup(copy)
        self.store.close()
        self.path = copy
        self.store = self.opened()

    @rule(uid=sessions)
    def search(self, uid: str) -> None:
        word = self.model[uid].word
        if word is None:
            return
        (hit,) = self.store.search(word).hits
        assert self.store.session(hit.session_id).uid == uid
        stored = self.store.event(hit.event_id)
        assert stored is not None
        assert stored.event == AssistantText(text=f"and then {word}.")

    @rule()
    def fold(self) -> None:
        if self.store.exists:
            maintenance.merge_idle_chunks(self.store, NOW)

    @invariant()
    def sessions_agree(self) -> None:
        if not self.store.exists:
            assert not self.model
            return
        kept = {each.uid: each for each in self.store.sessions()}
        assert {uid: (each.number, each.name, each.events) for uid, each in kept.items()} == {
            uid: (each.number, each.name, len(each.events)) for uid, each in self.model.items()
        }
        for uid, expected in self.model.items():
            if expected.costs:
                assert (kept[uid].completed, kept[uid].cost_usd or 0.0) == (expected.completed, sum(expected.costs))

    def teardown(self) -> None:
        full = FullForms(self.store)
        for uid, expected in self.model.items():
            stored = self.store.events(self.store.session(uid))
            assert [each.seq for each in stored] == list(range(1, len(stored) + 1))
            assert [full.expand(each) for each in stored] == expected.events
        if self.store.exists:
            assert self.store.verify().problems == []
        self.store.close()
        shutil.rmtree(self.folder)


class ExportMachine(RuleBasedStateMachine):
    """A store with sessions of ours and of agents' logs, which may be damaged: every export of it is imported again."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="backstory-"))
        self.clock, self.imports, self.is_odd = Clock(), 0, False
        self.machine = Machine(self.folder / "machine")
        self.store = open_store(self.folder / "project.bks", now=self.clock)
        self.goes_on(0, 1, 1)
        self.goes_on(1, 1, 1)

    @rule(way=st.integers(0, len(WAYS) - 1), which=st.integers(0, 7), ms=st.integers(0, 1))
    def goes_on(self, way: int, which: int, ms: int) -> None:
        go_on(self.store, self.clock, way, which, ms)

    @rule(new=odd_events, which=st.integers(0, 7))
    def says_what_no_agent_says(self, new: list[Event], which: int) -> None:
        self.is_odd, ours = True, self.store.sessions()
        try:
            self.store.append_events(ours[which % len(ours)] if ours else self.store.create_session(), new)
        except BackstoryError:
            return

    @rule(
        name=logs, cut=st.integers(0, 40), lost=st.sets(st.integers(0, 30), max_size=3),
        glued=st.sets(st.integers(0, 30), max_size=3),
    )  # fmt: skip
    def reads_a_log(self, name: str, cut: int, lost: set[int], glued: set[int]) -> None:
        """A log without its last bytes and the lines ``lost``, and without the ends of the lines ``glued``."""
        self.is_odd = True
        found = case(name).splitlines()
        kept = [line + b"\n" * (n not in glued) for n, line in enumerate(found) if n not in lost or n == 0]
        data = b"".join(kept)
        self.machine.put(name, data[: len(data) - cut])
        self.machine.read()

    @rule(name=logs)
    def reads_a_whole_log(self, name: str) -> None:
        self.machine.put(name)
        self.machine.read()

    @rule(has_bytes=st.booleans(), is_masked=st.booleans())
    def goes_out_and_comes_back(self, has_bytes: bool, is_masked: bool) -> None:
        def out(store: Store) -> list[bytes]:
            return exported(
                store, has_bytes=has_bytes, redactor=Redactor("/home/dev") if is_masked else None
            ).splitlines()

        first = out(self.store)
        with self._imported(first) as store:
            second = out(store)
            assert store.verify().problems == []
        with self._imported(second) as store:
            third = out(store)
        assert _apart(third, second) == []
        # Of a log that is damaged, and of numbers that cannot be, other sums and answers are derived the second time.
        if not is_masked and not self.is_odd:
            assert [each for each in _apart(second, first) if has_bytes or not each.startswith(LOG)] == []

    @contextmanager
    def _imported(self, found: list[bytes]) -> Iterator[Store]:
        self.imports += 1
        importer = Importer(self.folder / str(self.imports))
        data = b"\n".join(found)
        assert came(importer(data, strict=True)).keys() <= {"new"}
        assert came(importer(data, strict=True)).keys() <= {"same"}
        yield importer.store
        importer.workspace.close()

    def teardown(self) -> None:
        try:
            for has_bytes, is_masked in ((True, False), (False, False), (False, True)):
                self.goes_out_and_comes_back(has_bytes, is_masked)
        finally:
            self.machine.close()
            self.store.close()
            shutil.rmtree(self.folder)


def _apart(one: list[bytes], other: list[bytes]) -> list[bytes]:
    """The lines that only one of two exports has."""
    return sorted((Counter(one) - Counter(other)) + (Counter(other) - Counter(one)))
