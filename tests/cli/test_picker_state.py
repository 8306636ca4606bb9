"""The picker's state: what keys and answers make of it, and what is asked for it. No terminal, no store."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.cli import output
from backstory.cli.picker import layout, state
from backstory.cli.picker.state import (
    Choice,
    Failed,
    Found,
    Key,
    ListQuestion,
    Noted,
    PickRow,
    PreviewQuestion,
    StoreChanged,
    TextQuestion,
)
from tests.support.picked import Picked, row

MANY = [row(f"session {n}") for n in range(500)]
BIRDS = [row("the heron"), row("the stork"), row("the crane")]


def test_each_letter_narrows_the_list_by_title() -> None:
    picked = Picked(BIRDS)
    assert picked.press("t").listed == ["the heron", "the stork", "the crane"]
    assert picked.press("o").listed == ["the stork"]
    assert picked.press("ctrl-u", "C", "R").listed == ["the crane"]


def test_hits_of_a_beginning_stand_behind_those_of_the_whole_word_and_move_none_of_them() -> None:
    whole, begun = [row("the hero", seq=7)], [row("many heroes", seq=3), row("the hero", seq=2)]
    picked = Picked([], texts=lambda words: begun if words.endswith("*") else whole).press("hero")
    assert [(each.title, each.seq) for each in picked.now.rows] == [("the hero", 7)]
    picked.settle(state.PREFIX_MS)
    assert [(each.title, each.seq) for each in picked.now.rows] == [("the hero", 7), ("many heroes", 3)]


def test_texts_are_searched_from_three_letters_on_and_follow_the_titles() -> None:
    hit = row("something else", seq=7, snippet="a heron")
    picked = Picked(BIRDS, texts=lambda words: [hit, row("the heron", seq=2)] if "her" in words else [])
    picked.press("h", "e")
    assert not any(isinstance(each, TextQuestion) for each in picked.asked)
    assert picked.press("r").listed == ["the heron", "something else"]
    assert picked.press("down", "enter").now.row == hit


def test_two_letters_of_japanese_are_a_word() -> None:
    picked = Picked(BIRDS)
    picked.press("制", "限")
    assert [each.words for each in picked.asked if isinstance(each, TextQuestion)] == ["制限"]


def test_the_last_word_is_a_beginning_only_after_a_pause() -> None:
    picked = Picked(BIRDS)
    picked.press("rate lim")
    picked.settle(state.PREFIX_MS - 1)
    assert [each.words for each in picked.asked if isinstance(each, TextQuestion)] == ["rate lim"]
    picked.settle(state.PREFIX_MS)
    assert [each.words for each in picked.asked if isinstance(each, TextQuestion)] == ["rate lim", "rate lim*"]


def test_hits_of_other_words_are_not_taken() -> None:
    picked = Picked(BIRDS).press("heron")
    late = Found(question=TextQuestion(words="storks", everywhere=False), rows=(row("late"),))
    assert state.answered(picked.now, late) == picked.now


def test_an_answer_to_a_list_that_nobody_wants_any_more_is_not_taken() -> None:
    picked = Picked(BIRDS)
    late = picked.answer(picked.now.wanted)
    then = state.pressed(picked.now, Key("text", "stork"))
    assert state.answered(then, late) == then


def test_a_list_is_not_counted_before_it_is_shown() -> None:
    picked = Picked(BIRDS)
    then = state.pressed(picked.now, Key("text", "stork"))
    counted = state.answered(then, state.Counted(question=state.count_question(then), total=1))
    assert (counted.total, state.answered(counted, picked.answer(then.wanted)).total) == (None, 1)


def test_the_preview_is_at_the_place_of_the_hit_also_of_a_title() -> None:
    picked = Picked(BIRDS, texts=lambda _: [row("the heron", seq=9)])
    picked.press("heron")
    asked = [each for each in picked.asked if isinstance(each, PreviewQuestion)][-1]
    assert (asked.uid, asked.seq, asked.words) == (picked.now.rows[0].uid, 9, "heron")
    assert picked.press("enter").now.row == BIRDS[0], "Enter shows the session that is listed"


@pytest.mark.parametrize(
    ("key", "action"), [("enter", Choice.SHOW), ("ctrl-r", Choice.RESUME), ("ctrl-o", Choice.CONTINUE)]
)
def test_a_key_ends_it_with_a_command(key: str, action: Choice) -> None:
    ended = Picked(BIRDS).press("down", key).now
    assert (ended.is_over, ended.action, ended.row) == (True, action, BIRDS[1])


@pytest.mark.parametrize("key", ["enter", "ctrl-r", "ctrl-o"])
def test_nothing_is_chosen_where_nothing_is_listed(key: str) -> None:
    assert not Picked(BIRDS).press("zzz", key).now.is_over


@pytest.mark.parametrize("key", ["escape", "ctrl-c", "ctrl-d"])
def test_a_key_leaves_without_a_command(key: str) -> None:
    ended = Picked(BIRDS).press(key).now
    assert (ended.is_over, ended.action) == (True, None)


def test_tab_changes_between_this_project_and_every_one() -> None:
    picked = Picked(BIRDS, [row("the owl")])
    assert picked.press("tab").listed == ["the heron", "the stork", "the crane", "the owl"]
    assert picked.press("owl", "tab").listed == []
    assert picked.press("tab").listed == ["the owl"]


def test_a_project_without_sessions_shows_the_five_newest_of_all_and_says_so() -> None:
    picked = Picked([], MANY, place="acme/calc")
    assert picked.listed == [f"session {n}" for n in range(5)]
    assert picked.lines[1] == "  No sessions of acme/calc yet; the newest of every project:"
    assert picked.press("session 77").listed == ["session 77"]
    assert len(picked.press("ctrl-u", "tab").listed) == state.PAGE


def test_where_nothing_was_ever_recorded_it_is_said_what_imports() -> None:
    for everywhere in (False, True):
        picked = Picked([], everywhere=everywhere)
        assert picked.lines[1] == "  No sessions yet: `backstory ingest` imports agents' logs."
    assert layout.heading(picked.now, "n") == "No sessions yet: n begins one, `backstory ingest` imports agents' logs."


def test_a_project_without_sessions_names_the_key_that_begins_one() -> None:
    picked = Picked([], BIRDS, place="acme/calc")
    said = "No sessions of acme/calc yet: n begins one; the newest of every project:"
    assert layout.heading(picked.now, "n") == said


def test_a_first_session_of_the_project_is_shown_when_it_comes() -> None:
    picked = Picked([], BIRDS)
    picked.here.append(row("ours"))
    assert picked.change().listed == ["ours"]


def test_an_empty_list_of_a_filter_is_not_taken_for_an_empty_project() -> None:
    picked = Picked([], BIRDS, is_narrow=True)
    assert (picked.listed, picked.lines[1]) == ([], "  Nothing found. Tab looks in every project.")


def test_the_arrows_stop_at_the_ends() -> None:
    picked = Picked(BIRDS)
    assert [picked.press("up").chosen, picked.press(*["down"] * 5).chosen] == ["the heron", "the crane"]


def test_every_session_is_passed_on_the_way_down_and_up() -> None:
    picked, seen = Picked(MANY), list[str]()
    for key in ("down", "up"):
        seen.clear()
        for _ in MANY:
            seen.append(picked.chosen)
            picked.press(key)
        assert seen == [each.title for each in (MANY if key == "down" else MANY[::-1])]
    assert len(picked.now.rows) <= state.PAGE * state.PAGES_KEPT


def test_a_page_is_as_many_rows_as_the_list_has() -> None:
    picked = Picked(MANY)
    assert picked.press("pagedown").chosen == f"session {picked.now.list_lines}"
    assert picked.press("pageup").chosen == "session 0"


def test_home_and_end_are_the_ends_of_the_whole_list() -> None:
    picked = Picked(MANY)
    assert picked.press("end").chosen == "session 499"
    assert picked.press(*["up"] * 60).chosen == "session 439"
    assert picked.press("home").chosen == "session 0"


def test_the_end_of_a_list_with_hits_is_the_last_hit() -> None:
    picked = Picked(MANY, texts=lambda _: [row("far away", seq=3)])
    assert picked.press("session", "end").chosen == "far away"


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        (("rate limit", "ctrl-w"), "rate ", 5),
        (("rate limit ", "ctrl-w"), "rate ", 5),
        (("rate", "left", "left", "ctrl-u"), "te", 0),
        (("rate", "ctrl-a", "x", "ctrl-e", "y"), "xratey", 6),
        (("rate", "ctrl-b", "delete"), "rat", 3),
        (("rate", "left", "ctrl-d"), "rat", 3),
        (("rate", "ctrl-a", "ctrl-f", "backspace"), "ate", 0),
        (("e\u0301", "backspace"), "", 0),
        (("ae\u0301b", "left", "left", "x"), "axe\u0301b", 2),
        (("レート", "backspace"), "レー", 2),
        (("backspace", "left", "delete", "ctrl-w"), "", 0),
    ],
)
def test_the_field_is_edited_as_any_line(keys: tuple[str, ...], text: str, cursor: int) -> None:
    now = Picked(BIRDS).press(*keys).now
    assert (now.text, now.cursor) == (text, cursor)


def test_a_question_mark_in_an_empty_field_shows_the_keys_and_any_key_hides_them() -> None:
    picked = Picked(BIRDS).press("?")
    assert any("Ctrl-R" in line for line in picked.lines)
    assert picked.press("x").now.text == "", "the key that hides them is not typed"
    assert picked.press("x", "?").now.text == "x?"
    assert any("Ctrl-R" in line for line in picked.press("f1").lines)


def test_hits_alone_are_listed_for_a_search_and_sessions_once_the_field_is_empty() -> None:
    picked = Picked(BIRDS, texts=lambda _: [row("hit", seq=1)], hits_only=True, text="go", cursor=2, given="go")
    assert picked.listed == ["hit"]
    assert picked.press("ctrl-u").listed == ["the heron", "the stork", "the crane"]


def test_a_new_session_appears_and_the_chosen_one_stays_chosen() -> None:
    picked = Picked(BIRDS).press("down")
    picked.here.insert(0, row("the owl"))
    assert (picked.change().listed[0], picked.chosen) == ("the owl", "the stork")


def test_a_removed_session_goes() -> None:
    picked = Picked(BIRDS).press("down")
    del picked.here[1]
    assert (picked.change().listed, picked.chosen) == (["the heron", "the crane"], "the crane")


def test_a_change_far_down_the_list_keeps_the_place() -> None:
    picked = Picked(MANY).press("end", *["up"] * 100)
    chosen = picked.chosen
    del picked.here[10]
    assert picked.change().chosen == chosen


def test_an_error_is_told_until_the_next_key() -> None:
    picked = Picked(BIRDS)
    picked.now = state.answered(picked.now, Failed(question=ListQuestion(), message="The store is busy."))
    assert picked.lines[-1] == "The store is busy."
    assert "Enter show" in picked.press("down").lines[-1]
    picked.now = state.answered(picked.now, Noted(message="3 logs are newer."))
    assert picked.lines[-1] == "3 logs are newer."


def test_a_refusal_goes_when_the_list_is_read_again_and_not_before() -> None:
    picked = Picked(BIRDS)
    refused = state.answered(picked.now, Failed(question=picked.now.wanted, message="There is no store."))
    picked.now = state.answered(refused, StoreChanged())
    assert picked.lines[-1] == "There is no store."
    picked.settle()
    assert "Enter show" in picked.lines[-1]


def test_news_stay_when_the_list_is_read_again() -> None:
    picked = Picked(BIRDS)
    picked.now = state.answered(picked.now, Failed(question=picked.now.wanted, message="There is no store."))
    picked.now = state.answered(picked.now, Noted(message="3 logs are newer."))
    assert picked.change().lines[-1] == "3 logs are newer."


def test_texts_that_cannot_be_searched_are_none_and_it_is_said_why() -> None:
    picked = Picked(BIRDS, texts=lambda _: [row("hit", seq=1)]).press("heron")
    asked = TextQuestion(words="heron", everywhere=False)
    picked.now = state.answered(picked.now, Failed(question=asked, message="The index is off."))
    assert (picked.listed, picked.now.is_found) == (["the heron"], True)
    assert (picked.lines[-1], "0 in texts" in picked.lines[0]) == ("The index is off.", True)


def test_a_field_has_an_end_however_much_is_pasted() -> None:
    now = Picked(BIRDS).press("x" * 2_000_000, "y").now
    assert (len(now.text), now.cursor) == (state.TEXT_MAX, state.TEXT_MAX)


# the screen -----------------------------------------------------------------------------------------------------------


TITLES = (
    "plain", "レート制限のバグを直してください、ログインが失敗します", "Ship it 🎉 👩\u200d💻 today", "e\u0301" * 90,
    "\x1b[31mred\x1b[0m", "\u202eright to left", "tab\there\nand below", "x" * 400, "",
)  # fmt: skip
WILD = [
    PickRow(uid=f"{n:012}", title=title, snippet=title, marks=((0, 2), (3, 9)), seq=n, project=title, agent=title,
        when="yesterday", mark="✓", colour="green")
    for n, title in enumerate(TITLES)
]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 2, 5, 12, 20, 39, 40, 59, 60, 80, 100, 140, 200])
@pytest.mark.parametrize("lines", [1, 2, 3, 5, 9, 10, 24, 60])
def test_the_screen_is_drawn_at_any_size_and_no_line_is_too_wide(columns: int, lines: int) -> None:
    picked = Picked(WILD).press("down")
    for keys in ((), ("f1",), ("x", *["x" * 30] * 4), ("tab",)):
        picked.resize(columns, lines).press(*keys)
        drawn = layout.lines(picked.now)
        assert len(drawn) == lines
        assert [line for line in drawn if output.columns_shown(line) > columns] == []
        assert 0 <= layout.cursor(picked.now) < columns


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_line_of_the_list_has_what_there_is_room_for(columns: int) -> None:
    line = Picked(BIRDS, everywhere=True).resize(columns, 24).lines[1]
    project = ["acme/shop"] if columns >= 80 else []
    assert line.split() == [">", "✓", "yesterday", "claude", *project, "the", "heron"]


def test_titles_stand_below_each_other_whatever_letters_are_before_them() -> None:
    rows = [
        PickRow(uid=f"{n:012}", title="TITLE", when=when, agent=agent, project=project)
        for n, (when, agent, project) in enumerate(
            [
                ("yesterday", "claude", "acme/shop"),
                ("1 Feb 2024", "codex", "レート制限"),
                ("15:32", "エージェント", "🎉"),
                ("", "", ""),
            ]
        )
    ]
    lines = Picked(rows, everywhere=True).resize(100, 24).lines[1:5]
    assert len({output.columns(line[: line.index("TITLE")]) for line in lines}) == 1


def test_a_match_is_seen_however_far_behind_it_stands() -> None:
    snippet = f"{'word ' * 30}heron {'word ' * 10}"
    hit = PickRow(uid="0" * 12, seq=1, title="title", snippet=snippet, marks=((150, 155),))
    picked = Picked([], texts=lambda _: [hit], hits_only=True, text="heron", cursor=5, given="heron")
    assert "heron" in picked.lines[1]


def test_what_was_typed_is_seen_to_its_end() -> None:
    picked = Picked(BIRDS).press("x" * 200, "the end")
    assert picked.lines[0].endswith("the end")
    assert layout.cursor(picked.now) == 79


def test_the_chosen_row_is_reversed_and_has_a_sign() -> None:
    drawn = layout.lines(Picked(BIRDS).press("down").now)
    painted = [output.for_screen(line, is_coloured=True) for line in drawn]
    assert [n for n, line in enumerate(painted) if "\x1b[7m" in line] == [2]
    assert [n for n, line in enumerate(Picked(BIRDS).press("down").lines[1:9], 1) if line.startswith(">")] == [2]


def test_the_line_of_the_match_is_in_the_preview() -> None:
    picked = Picked(BIRDS)
    asked = state.preview_question(picked.now)
    assert asked is not None
    lines = tuple(f"line {n}" for n in range(40))
    picked.now = state.answered(picked.now, state.Previewed(question=asked, lines=lines, at=30))
    assert "line 30" in picked.lines


KEYS = sorted({*state.KEYS} - {"text", "escape", "ctrl-c", "enter", "ctrl-r", "ctrl-o", "ctrl-d"})


@given(st.lists(st.sampled_from([*KEYS, "s", "9", " ", "change", "grow", "shrink", "narrow", "wide"]), max_size=40))
def test_whatever_is_pressed_a_row_that_exists_is_chosen_and_seen(keys: list[str]) -> None:
    chance = random.Random(len(keys))
    picked = Picked(MANY[:130], texts=lambda words: [row(f"text {n}", seq=n) for n in range(len(words))])
    for n, key in enumerate(keys):
        if key == "change":
            picked.change()
        elif key == "grow":
            picked.here.insert(0, row(f"new {n}"))
            picked.change()
        elif key == "shrink" and picked.here:
            del picked.here[chance.randrange(len(picked.here))]
            picked.change()
        elif key in ("narrow", "wide"):
            picked.resize(60 if key == "narrow" else 200, 12 if key == "narrow" else 50)
        else:
            picked.press(key)
        now = picked.now
        assert now.is_listed
        assert 0 <= now.chosen < max(len(now.rows), 1)
        assert now.top <= now.chosen < now.top + now.list_lines
        titles = [each.title for each in now.rows if each.seq is None]
        wanted = [each.title for each in picked.here if now.words in each.title]
        assert titles == wanted[wanted.index(titles[0]) :][: len(titles)] if titles else True
