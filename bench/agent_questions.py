"""What it costs an agent to find an answer in history: questions drawn from logs, asked of the MCP tools.

    backstory config set mcp.scope all
    python -m bench.agent_questions HOME BACKSTORY_HOME [--seed N]

A question is a few of the longer words of a prompt in a raw log of Claude Code; it is answered when a result holds the
beginning of what the agent said last in that turn. First comes ``search_sessions``, then ``get_session`` at each hit in
turn, and what follows it. Nothing of the store is looked at to draw the questions. Prints how many were answered by the
first hit, and all, and the characters that an agent had read by then.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backstory.cli.app import App
from backstory.mcp.tools import TOOLS
from backstory.workspace.history.agent_history import AgentHistory
from backstory.workspace.history.asking import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTIONS, WORDS, HITS_READ = 40, 4, 3
ANSWER_CHARS, READ_MAX = 60, 60_000
_WORD = re.compile(r"[a-zA-Z]{5,}")
_FOLLOWS = re.compile(r"Left out: what follows. get_session\(session='\w+', at=(\d+), before=0\)")
_HIT = re.compile(r"^(\w+) @(\d+) ", re.MULTILINE)


def main() -> None:
    """Draw, ask, and print one line of JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("home", type=Path)
    options.add_argument("store", type=Path)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    environ = {"HOME": str(given.home), "BACKSTORY_HOME": str(given.store)}
    app = App(environ, given.home)
    history = AgentHistory(app.new_workspace(), app.user_home, Surroundings(run=None, processes=()), None)

    def ask(tool: str, **arguments: object) -> str:
        return msgspec.convert(arguments, TOOLS[tool], strict=False).answer(history, []).text

    by_first, read = 0, list[int]()
    searches = list[int]()
    questions = drawn(given.home, given.seed)
    for words, wanted in questions:
        found = ask("search_sessions", query=words)
        chars = len(found)
        searches.append(chars)
        for number, (session, seq) in enumerate(_HIT.findall(found)[:HITS_READ]):
            pages = list(_pages(ask, session, int(seq), _plain(wanted)))
            chars += sum(map(len, pages))
            if _plain(wanted) in _plain(pages[-1]):
                by_first += number == 0
                read.append(chars)
                break
    print(
        json.dumps(
            {
                "questions": len(questions), "answered by the first hit": by_first, "answered": len(read),
                "median characters read": statistics.median(read), "most of a search": max(searches),
            }
        )
    )  # fmt: skip


def _pages(ask: Callable[..., str], session: str, seq: int, wanted: str) -> Iterator[str]:
    """A session around a record, and what follows as each answer names it, until the answer is there."""
    text = ask("get_session", session=session, at=seq)
    chars = len(text)
    yield text
    while chars < READ_MAX:
        more = _FOLLOWS.search(text)
        if more is None or wanted in _plain(text):
            return
        text = ask("get_session", session=session, at=int(more.group(1)), before=0)
        chars += len(text)
        yield text


def drawn(home: Path, seed: int) -> list[tuple[str, str]]:
    """Some words of prompts, and the beginnings of what was answered last in their turns."""
    found: list[tuple[str, str]] = []
    for log in sorted(home.glob(".claude/projects/*/*.jsonl")):
        prompt, answer, record = "", "", dict[str, Any]()
        for line in [*log.read_text("utf-8", "replace").splitlines(), ""]:
            with suppress(ValueError):
                record = json.loads(line or "{}")
            content = (record.get("message") or {}).get("content")
            if not line or (record.get("type") == "user" and isinstance(content, str) and not record.get("isMeta")):
                words = [word for word in dict.fromkeys(_WORD.findall(prompt)) if not prompt.startswith("<")]
                if len(words) >= 2 * WORDS and len(answer) > ANSWER_CHARS:
                    picked = random.Random(f"{seed}{prompt}").sample(words, WORDS)
                    found.append((" ".join(picked), answer[:ANSWER_CHARS]))
                prompt, answer = content if isinstance(content, str) else "", ""
            elif record.get("type") == "assistant" and isinstance(content, list):
                answer = next((str(each["text"]) for each in content if each.get("type") == "text"), answer)
    return random.Random(seed).sample(found, QUESTIONS)


def _plain(text: str) -> str:
    return "".join(re.findall(r"\w+", text.lower()))


if __name__ == "__main__":
    main()
