"""The pictures of the pages in the docs show the words that the pages have."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.support import page_pictures
from tests.support.screens import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_the_pictures_are_of_the_words_that_the_pages_have(tmp_path: Path) -> None:
    with page_pictures.machine(tmp_path) as (visitor, paths):
        now = page_pictures.words(visitor, paths, tmp_path)
    assert json.loads(page_pictures.WORDS.read_text("utf-8")) == now, "python -m tests.support.page_pictures"


def test_each_picture_is_shown_in_the_docs() -> None:
    texts = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("pages.md", "server.md"))
    shown = re.findall(r"\(web/([\w-]+\.webp)\)", texts)
    assert sorted(shown) == sorted(path.name for path in page_pictures.PICTURES.glob("*.webp"))
