"""What pages keep between requests is given again only while the stores are as they were."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from backstory.web import kept as kept_answers
from backstory.web import pages as drawn_pages
from backstory.web.kept import SETTLED_NS, KeptAnswers
from backstory.workspace.history.blocks import content_of
from tests.support.pages import served

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from backstory.workspace.history.blocks import Content
    from backstory.workspace.located import LocatedSession
    from backstory.workspace.reader import Reader
    from tests.support.shell import Shell

OLD_S = 1_700_000_000


def asked(kept: KeptAnswers[int], store: Path, made: list[int], key: str = "key") -> int:
    def make() -> int:
        made.append(len(made))
        return made[-1]

    return kept.get(key, [store], make)


def written(path: Path, text: str, at_s: float = OLD_S) -> Path:
    path.write_text(text)
    os.utime(path, (at_s, at_s))
    return path


def test_an_answer_is_given_again_until_the_store_or_its_journal_is_written(tmp_path: Path) -> None:
    store, kept, made = written(tmp_path / "store.db", "one"), KeptAnswers[int](4), list[int]()
    assert [asked(kept, store, made) for _ in range(3)] == [0, 0, 0]
    written(store, "two", OLD_S + 1)
    assert [asked(kept, store, made) for _ in range(2)] == [1, 1]
    written(tmp_path / "store.db-wal", "frames", OLD_S + 2)
    assert [asked(kept, store, made) for _ in range(2)] == [2, 2]
    written(tmp_path / "store.db-wal", "", OLD_S + 3)
    assert asked(kept, store, made) == 3


def test_nothing_is_kept_of_a_store_that_may_be_written_again_in_the_same_moment(tmp_path: Path) -> None:
    store, kept, made = tmp_path / "store.db", KeptAnswers[int](4), list[int]()
    store.write_text("one")
    ahead_s = store.stat().st_mtime + 10 * SETTLED_NS / 1e9 + 1e6
    os.utime(store, (ahead_s, ahead_s))
    assert [asked(kept, store, made) for _ in range(2)] == [0, 1]


def test_the_answers_that_were_asked_for_last_are_kept(tmp_path: Path) -> None:
    store, kept, made = written(tmp_path / "store.db", "one"), KeptAnswers[int](2), list[int]()
    assert [asked(kept, store, made, key) for key in "abcb"] == [0, 1, 2, 1]
    assert asked(kept, store, made, "a") == 3


def test_a_page_counts_a_session_that_came_since(empty: Shell) -> None:
    with served(empty.environ, empty.cwd) as visitor:
        visitor.enter()
        empty.put("claude/tools")
        assert empty("ingest").code == 0
        for _ in range(2):
            assert "1 session " in visitor.get("/sessions").words
            assert "Sessions 1 " in visitor.get("/reports/costs?period=3").words
        empty.put("codex/tools")
        assert empty("ingest").code == 0
        assert "2 sessions " in visitor.get("/sessions").words
        assert "Sessions 2 " in visitor.get("/reports/costs?period=3").words


def test_a_session_that_did_not_change_is_outlined_once(month: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    outlined = list[str]()

    def outline(reader: Reader, located: LocatedSession) -> Content:
        outlined.append(located.session.uid)
        return content_of(reader, located)

    monkeypatch.setattr(drawn_pages, "content_of", outline)
    monkeypatch.setattr(kept_answers, "SETTLED_NS", 0)
    uid = json.loads(month("list", "--all", "--json", "--limit", "1").out)["sessions"][0]["uid"]
    # Of pages that another test looked at an outline may be kept already.
    with served(month.environ, month.cwd) as pages:
        pages.enter()
        answers = [pages.get(f"/s/{uid}") for _ in range(3)]
    assert ([each.status for each in answers], outlined) == ([200] * 3, [uid])
    assert len({each.text for each in answers}) == 1
