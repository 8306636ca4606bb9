"""What all readers of logs do alike: turns one after the other, open calls, counts, and a state to go on from."""

from __future__ import annotations

from backstory import ids
from backstory.agents.turn_fold import CALLS_OPEN_MAX, OpenCalls, TurnFold, TurnState, UnknownCounts, lengthen
from backstory.model import LogIdentity, Tool, ToolCall, ToolResult, Turn, Unknown


class Noting(TurnState, kw_only=True):
    """A state that adds to what all have."""

    note: str = ""


def fold(state: bytes | None = None) -> TurnFold[TurnState]:
    return TurnFold("heron", LogIdentity(native_id="session"), state, TurnState)


def again(before: TurnFold[TurnState]) -> TurnFold[TurnState]:
    """A reader that goes on from another one's state."""
    return fold(before.state())


# turns ----------------------------------------------------------------------------------------------------------


def test_a_prompt_begins_a_turn_that_is_known_by_its_id() -> None:
    turn = fold()._begin_turn("p1", "Where?", 1_000, 4)
    assert turn == Turn(
        uid=ids.turn_uid("heron", "p1"), agent="heron", native_id="p1", prompt="Where?", started=1_000,
        first_seq=4, last_seq=4,
    )  # fmt: skip


def test_a_prompt_without_an_id_is_known_by_its_session_and_its_place_there() -> None:
    reader = fold()
    reader._begin_turn("p1", "Where?", None, 1)
    turn = again(reader)._begin_turn("", "And when?", None, 2)
    assert (turn.uid, turn.native_id) == (ids.turn_uid("heron", "session/2"), "")


def test_a_turn_follows_the_last_record_of_the_one_before() -> None:
    reader = fold()
    first = reader._begin_turn("p1", "Where?", None, 1)
    reader._turn_at(3)
    second = again(reader)._begin_turn("p2", "And when?", None, 4)
    assert (first.parent_uid, first.parent_seq) == (None, None)
    assert (second.parent_uid, second.parent_seq) == (first.uid, 3)


def test_a_turn_follows_what_its_agent_says_also_when_that_is_nothing() -> None:
    reader = fold()
    reader._begin_turn("p1", "Where?", None, 1)
    branch = reader._begin_turn("p2", "And when?", None, 2, parent=("above", 7))
    root = reader._begin_turn("p3", "Who?", None, 3, parent=(None, None))
    assert (branch.parent_uid, branch.parent_seq) == ("above", 7)
    assert (root.parent_uid, root.parent_seq) == (None, None)


def test_a_record_belongs_to_the_turn_that_began_last_and_makes_it_longer() -> None:
    reader = fold()
    assert reader._turn_at(1) is None
    reader._begin_turn("p1", "Where?", None, 2)
    turn = again(reader)._turn_at(5)
    assert turn is not None
    assert (turn.native_id, turn.first_seq, turn.last_seq) == ("p1", 2, 5)


def test_a_record_that_keeps_a_lower_number_makes_no_turn_shorter() -> None:
    reader = fold()
    turn = reader._begin_turn("p1", "Where?", None, 8)
    reader._turn_at(3)
    assert turn.last_seq == 8


def test_a_turn_ends_at_the_latest_of_its_times() -> None:
    turn = Turn(uid="t", agent="heron")
    ends = []
    for at in (None, 20, 10, None, 30):
        lengthen(turn, at)
        ends.append(turn.ended)
    assert ends == [None, 20, 20, 20, 30]


# turns that were touched ----------------------------------------------------------------------------------------


def test_touched_turns_are_told_once() -> None:
    reader = fold()
    first = reader._begin_turn("p1", "Where?", None, 1)
    second = reader._begin_turn("p2", "And when?", None, 1)
    assert list(reader.touched()) == [first, second]
    assert list(reader.touched()) == []
    reader._turn_at(2)
    assert list(reader.touched()) == [second]


def test_a_turn_that_is_not_the_last_can_be_touched() -> None:
    reader = fold()
    first = reader._begin_turn("p1", "Where?", None, 1)
    reader._begin_turn("p2", "And when?", None, 2)
    list(reader.touched())
    reader._touch(first, 3)
    assert [(turn.native_id, turn.last_seq) for turn in reader.touched()] == [("p1", 3)]


# calls ----------------------------------------------------------------------------------------------------------


def test_a_result_has_the_name_the_tool_and_the_path_of_its_call() -> None:
    reader = fold()
    call = reader._state.calls.open("c1", "look", Tool.READ, "nest.txt", {"deep": True})
    assert call == ToolCall(
        tool_use_id="c1", tool_name="look", tool=Tool.READ, file_path="nest.txt", input={"deep": True}
    )
    result = again(reader)._state.calls.close("c1").result("c1", "reeds", is_error=False)
    assert result == ToolResult(
        tool_use_id="c1", tool_name="look", tool=Tool.READ, file_path="nest.txt", content="reeds"
    )


def test_a_second_result_and_one_of_an_unknown_call_name_no_tool() -> None:
    calls = OpenCalls()
    calls.open("c1", "look", Tool.READ, None, {})
    assert calls.close("c1").name == "look"
    for call_id in ("c1", "c2"):
        assert calls.close(call_id).result(call_id, "", is_error=False) == ToolResult(tool_use_id=call_id)


def test_a_call_of_which_a_record_said_that_it_failed_has_a_failed_result() -> None:
    reader = fold()
    reader._state.calls.open("c1", "look", Tool.READ, None, {})
    reader._state.calls.by_id["c1"].has_failed = True
    assert again(reader)._state.calls.close("c1").result("c1", "", is_error=False).is_error


def test_a_result_that_says_itself_that_it_failed_is_an_error() -> None:
    assert OpenCalls().close("c1").result("c1", "", is_error=True).is_error


def test_of_too_many_open_calls_the_oldest_is_forgotten() -> None:
    calls = OpenCalls()
    for number in range(CALLS_OPEN_MAX + 1):
        calls.open(f"c{number}", "look", Tool.READ, None, {})
    assert (calls.close("c0").name, calls.close("c1").name) == ("", "look")


# what is not understood -----------------------------------------------------------------------------------------


def test_what_is_not_understood_is_counted_by_its_type() -> None:
    unknown = UnknownCounts()
    assert [unknown.emit(kind) for kind in ("song", "flight", "song")] == [
        Unknown(type="song"),
        Unknown(type="flight"),
        Unknown(type="song"),
    ]
    assert unknown == {"song": 2, "flight": 1}


# the state ------------------------------------------------------------------------------------------------------


def test_a_state_that_is_read_back_is_the_same() -> None:
    reader = fold()
    assert again(reader).state() == reader.state()
    reader._begin_turn("p1", "Where?", 1_000, 1)
    reader._state.calls.open("c1", "look", Tool.READ, "nest.txt", {})
    reader.session.cwd = "/marsh"
    assert again(reader).state() == reader.state()
    assert again(reader).session.cwd == "/marsh"


def test_a_state_does_not_hold_the_prompt_and_the_turn_does() -> None:
    reader = fold()
    turn = reader._begin_turn("p1", "Where does the heron nest?", None, 1)
    assert b"heron nest" not in reader.state()
    assert turn.prompt == "Where does the heron nest?"


def test_what_is_not_understood_and_what_was_touched_is_no_part_of_the_state() -> None:
    reader = fold()
    reader._begin_turn("p1", "Where?", None, 1)
    reader.unknown.emit("song")
    later = again(reader)
    assert (list(later.touched()), dict(later.unknown)) == ([], {})


def test_an_agent_adds_to_the_state_what_else_it_remembers() -> None:
    identity = LogIdentity(native_id="session")
    reader = TurnFold("heron", identity, None, Noting)
    reader._state.note = "it was early"
    reader._begin_turn("p1", "Where?", None, 1)
    later = TurnFold("heron", identity, reader.state(), Noting)
    assert later._state.note == "it was early"
    assert later._state.turn is not None
