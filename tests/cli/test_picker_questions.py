"""Questions of the picker in the background: the last one of a kind counts, and a search that nobody wants ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from backstory.cli.picker import picking
from backstory.cli.picker.picking import Background
from backstory.cli.picker.state import (
    Counted,
    CountQuestion,
    Failed,
    Found,
    Listed,
    ListQuestion,
    Noted,
    StoreChanged,
    TextQuestion,
)
from backstory.errors import Cancelled, SessionNotFound, StoreBusy, StoreDamaged, StoreNotFound
from tests.support.going import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from backstory.cli.picker.state import Answer, Question
    from backstory.workspace.history.searching import Cancellation


class Slow:
    """Answers questions; one for texts only once it is let go, or cancelled. ``reader``: itself."""

    def __init__(self) -> None:
        self.token: object = 0
        self.asked: list[Question] = []
        self.cancelled: list[str] = []
        self.go = threading.Event()
        self.fails: Exception | None = None
        self.refuses: Exception | None = None

    @property
    def reader(self) -> Slow:
        return self

    def change_token(self) -> object:
        if self.refuses is not None:
            raise self.refuses
        return self.token

    def change_folders(self) -> None:
        """No folder tells of its changes."""

    def news(self) -> Iterator[Noted]:
        yield Noted(message="news")

    def answer(self, question: Question, cancellation: Cancellation | None) -> Answer:
        self.asked.append(question)
        if self.fails is not None:
            raise self.fails
        match question:
            case ListQuestion():
                return Listed(question=question)
            case CountQuestion():
                return Counted(question=question, total=1)
            case TextQuestion():
                assert cancellation is not None
                while not self.go.wait(0.001):
                    if cancellation.is_cancelled:
                        self.cancelled.append(question.words)
                        raise Cancelled
                return Found(question=question)
        raise AssertionError(question)


class Asking:
    """A background that asks of ``Slow``."""

    def __init__(self, background: Background, slow: Slow) -> None:
        self.background, self.slow, self.came = background, slow, list["Answer"]()

    def until(self, *kinds: type) -> list[Any]:
        """All answers but news, once there are some of these kinds."""

        def are_there() -> bool:
            self.came += [each for each in self.background.answers() if each != Noted(message="news")]
            return {*map(type, self.came)} >= {*kinds}

        until(are_there)
        return self.came


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    monkeypatch.setattr(picking, "LOOK_S", 0.01)
    slow = Slow()
    with Background(cast("Any", slow), lambda: None) as background:
        yield Asking(background, slow)


def texts(words: str) -> TextQuestion:
    return TextQuestion(words=words, everywhere=True)


def test_other_words_end_a_search_that_goes_on(asking: Asking) -> None:
    asking.background.want([texts("her")])
    until(lambda: texts("her") in asking.slow.asked)
    asking.background.want([texts("hero")])
    until(lambda: asking.slow.cancelled == ["her"])
    asking.slow.go.set()
    assert asking.until(Found) == [Found(question=texts("hero"))]


def test_the_same_words_as_a_beginning_wait_for_the_search_that_goes_on(asking: Asking) -> None:
    asking.background.want([texts("hero")])
    until(lambda: texts("hero") in asking.slow.asked)
    asking.background.want([texts("hero*")])
    asking.slow.go.set()
    until(lambda: len(asking.until(Found)) == 2)
    assert (asking.slow.asked, asking.slow.cancelled) == ([texts("hero"), texts("hero*")], [])


def test_an_empty_field_ends_a_search(asking: Asking) -> None:
    asking.background.want([texts("hero")])
    until(lambda: bool(asking.slow.asked))
    asking.background.want([])
    until(lambda: asking.slow.cancelled == ["hero"])


def test_words_that_come_back_are_searched_again(asking: Asking) -> None:
    for n, question in enumerate((texts("hero"), texts("heron"), texts("hero"))):
        asking.background.want([question])
        until(lambda: len(asking.slow.asked) == n + 1)  # noqa: B023 - called at once
    asking.slow.go.set()
    assert asking.until(Found) == [Found(question=texts("hero"))]


def test_a_list_does_not_wait_for_a_search(asking: Asking) -> None:
    asking.background.want([ListQuestion(), texts("hero")])
    assert asking.until(Listed) == [Listed(question=ListQuestion())]


def test_a_question_that_was_answered_is_not_asked_again() -> None:
    slow = Slow()
    with Background(cast("Any", slow), lambda: None, [ListQuestion()]) as background:
        background.want([ListQuestion(), CountQuestion(title="", everywhere=True)])
        Asking(background, slow).until(Counted)
    assert not any(isinstance(each, ListQuestion) for each in slow.asked)


def test_what_changed_is_told(asking: Asking) -> None:
    asking.background.want([ListQuestion()])
    asking.until(Listed)
    asking.slow.token = 1
    asking.until(StoreChanged)


def test_an_error_is_an_answer_and_a_store_that_is_busy_is_asked_again(asking: Asking, tmp_path: Path) -> None:
    asking.slow.fails = SessionNotFound("x")
    asking.background.want([CountQuestion(title="", everywhere=True)])
    assert [type(each) for each in asking.until(Failed)] == [Failed]
    asking.slow.fails = StoreBusy(tmp_path)
    asking.background.want([CountQuestion(title="x", everywhere=True)])
    asking.until(StoreChanged)


def test_a_list_that_cannot_be_read_is_asked_for_again_whatever_mends_it(asking: Asking, tmp_path: Path) -> None:
    asking.slow.fails = StoreNotFound(tmp_path)
    asking.background.want([ListQuestion()])
    asking.until(StoreChanged)


def test_a_store_that_cannot_be_looked_at_has_changed_once_it_can(asking: Asking, tmp_path: Path) -> None:
    asking.slow.refuses = StoreDamaged(tmp_path, "no store")
    asking.background.want([CountQuestion(title="", everywhere=True)])
    asking.until(StoreChanged)
    asking.slow.refuses = None
    asking.until(StoreChanged)


def test_a_fault_is_raised_where_answers_are_taken(asking: Asking) -> None:
    asking.slow.fails = ZeroDivisionError()
    asking.background.want([ListQuestion()])
    with pytest.raises(ZeroDivisionError):
        asking.until(Listed)


def test_leaving_ends_a_search(asking: Asking) -> None:
    asking.background.want([texts("hero")])
    until(lambda: bool(asking.slow.asked))
    asking.background.__exit__()
    assert asking.slow.cancelled == ["hero"]
