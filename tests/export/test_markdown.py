"""Sessions as Markdown: what a renderer that knows nothing of us makes of it, and that nothing in it breaks out."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from backstory import model
from backstory.derive.pricing import Cost, CostKind
from backstory.export.markdown import HELD_MAX, document
from backstory.export.safe_markdown import code, fenced, plain, prose, quoted, summary
from backstory.export.shared import SharedEvent, SharedRef, SharedSession, SharedTurn
from tests.support.every import every

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.model import Event

OURS = re.compile(r"<details(?: open)?><summary>[^<>]*</summary>|</details>")
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def html_in(text: str) -> list[str]:
    """The HTML that a renderer finds in Markdown and passes on."""
    found = []
    for token in MARKDOWN.parse(text):
        for each in (token, *(token.children or ())):
            if each.type in ("html_block", "html_inline"):
                found.append(each.content)
    return found


def links_in(text: str) -> list[str]:
    children = [child for token in MARKDOWN.parse(text) for child in token.children or ()]
    return [str(each.attrs.get("href") or each.attrs.get("src")) for each in children if each.attrs]


def shared(*events: Event, title: str = "A title", turns: int = 1, refs: tuple[SharedRef, ...] = ()) -> Any:
    turn = {"agent": "claude", "model": "opus", "started": 0, "duration_ms": 1500, "outcome": "completed"}
    session = SharedSession(
        uid="0" * 26, title=title, agents=("claude",), project="o/r", branch="main", started=0,
        cost=Cost(kind=CostKind.COMPUTED, low_usd=0.5), refs=refs,
        turns=tuple(
            SharedTurn(number=n, cost=Cost(), is_rewound=False, **turn)  # type: ignore[arg-type]
            for n in range(1, turns + 1)
        ),
    )  # fmt: skip
    return session, [SharedEvent(seq=n, turn=1, event=each) for n, each in enumerate(events, 1)]


def rendered(*events: Event, **more: Any) -> str:
    session, said = shared(*events, **{key: each for key, each in more.items() if key in ("title", "turns", "refs")})
    return "\n".join(document(session, said, full=bool(more.get("full")), thinking=bool(more.get("thinking"))))


def call(name: str, made: str, **given: Any) -> model.ToolCall:
    return model.ToolCall(tool_use_id=made, tool_name=name, input=given)


def came(made: str, text: str, *, is_error: bool = False) -> model.ToolResult:
    return model.ToolResult(tool_use_id=made, tool_name="Bash", content=text, is_error=is_error)


def test_a_session_reads_as_prompts_answers_and_folded_tools() -> None:
    refs = (SharedRef(type="pr", value="12", host="github.com", repository="o/r", seq=2),)
    text = rendered(
        model.UserMessage(content="Fix it\nnow"), call("Bash", "t1", command="make"),
        came("t1", "red\n", is_error=True),
        model.AssistantText(text="# Found\n\n- **one**"), title="Fix *it*", refs=refs,
    )  # fmt: skip
    assert text.split("\n") == [
        "# Fix \\*it\\*", "",
        "`claude` · `o/r` · branch `main` · 1970-01-01 00:00 UTC · 1 turn · \\~\\$0.50", "",
        "## Turn 1 · opus · 1970-01-01 00:00 UTC · 1.5 s", "",
        "**Prompt** `@1`", "",
        "> Fix it\\", "> now", "",
        "<details><summary>1 tool call: Bash (1 failed)</summary>", "",
        "`@2` **Bash** `make`", "", "Failed:", "", "```", "red", "```", "",
        "</details>", "",
        "#### Found", "", "- **one**", "",
        "## References", "",
        "- Pull request [`o/r#12`](https://github.com/o/r/pull/12) `@2`",
    ]  # fmt: skip


def test_results_of_calls_made_at_once_stand_below_their_calls() -> None:
    text = rendered(call("A", "1"), call("B", "2"), came("2", "second"), came("1", "first"))
    assert re.findall(r"\*\*(\w)\*\*|^(first|second)$", text, re.MULTILINE) == [
        ("A", ""), ("", "first"), ("B", ""), ("", "second"),
    ]  # fmt: skip


def test_thinking_is_left_out_unless_it_is_asked_for() -> None:
    assert "a thought" not in rendered(model.Thinking(text="a thought"))
    assert "a thought" in rendered(model.Thinking(text="a thought"), thinking=True)


def test_long_output_is_cut_unless_all_is_asked_for() -> None:
    output = "\n".join(f"line {n}" for n in range(100))
    assert "(+80 more lines)" in rendered(call("Bash", "1"), came("1", output))
    assert "line 99" in rendered(call("Bash", "1"), came("1", output), full=True)


HOSTILE = [
    "</details><script>alert(1)</script>", "<!-- ", "<![CDATA[", "<?php", "```", "~~~~", "```\n</details>",
    "`` ` <b>x</b>", "a ` b\nc ` <b> ` d", "| ` | <b>x</b> ` |\n|---|---|\n| a | b |", "\\` <b>x</b> `", "    <div>",
    "> ```\n> <b>", "- ```\n<b>", "[x](javascript:alert(1))", "[x](&#106;avascript:alert(1))",
    "[x]: javascript:alert(1)",
    "![x](http://tracker.example/p.png)", "<http://x.example>", "Title\n===", "Title\n---", "# Heading", "\r<b>\r",
    "````md\n```\n</details>\n```\n````", "1. a\n   ```\n   <b>\n   ```\n2. b", "\t```\n<b>",
    "&lt;b&gt; &amp;", "\x00\x1b[2J",
    "``` ```", "~~~`\n<b>", "~~~ ~~~\n<b>", "```a`b\n<b>\n```", "<details>\n\n", "`<b>\n\n`", "***",
    "$$x$$", "@octocat",
    "fixes #12",
]  # fmt: skip


@every("text", HOSTILE)
@every("kind", ["prompt", "answer", "output", "command", "tool", "title", "plan", "error"])
def test_no_text_breaks_out_of_its_place(text: str, kind: str) -> None:
    events = {
        "prompt": model.UserMessage(content=text), "answer": model.AssistantText(text=text),
        "output": came("x", text), "command": call("Bash", "x", command=text), "tool": call(text, "x"),
        "plan": model.Plan(name=text, content=text), "error": model.Error(message=text),
    }  # fmt: skip
    body = [events[kind]] if kind in events else []
    whole = rendered(*body, model.AssistantText(text="THE END"), title=text if kind == "title" else "t")
    assert_is_harmless(whole)
    last = MARKDOWN.parse(whole)[-2]
    assert last.content == "THE END"


def assert_is_harmless(markdown: str) -> None:
    found = "".join(html_in(markdown))
    assert OURS.sub("", found).strip() == "", found
    assert found.count("<details") == found.count("</details>")
    assert not any(re.match(r"(?i)\s*(javascript|vbscript|data|file):", link) for link in links_in(markdown))
    assert not [token for token in MARKDOWN.parse(markdown) for each in token.children or () if each.type == "image"]


PIECES = st.sampled_from(
    ["`", "``", "```", "~~~", "\n", "\n\n", " ", "    ", "\t", "<b>", "</details>", "<!--", "\\", "|", "|-|-|\n",
     "> ", "- ",
     "1. ", "# ", "[x](", "javascript:", ")", "![", "]", "[a]: ", "&#106;", "&lt;", "word", "*", "_",
     "===", "---", "\r",
     "<a href=\"`\">", "$", "@a", "#1"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@pytest.mark.hypothesis
@given(TEXTS, TEXTS, TEXTS)
def test_no_mixture_of_signs_breaks_out(prompt: str, answer: str, output: str) -> None:
    assert_is_harmless(rendered(
        model.UserMessage(content=prompt), call(answer, "1", command=output), came("1", output),
        model.AssistantText(text=answer), model.Plan(name=output, content=prompt), title=prompt,
    ))  # fmt: skip


@pytest.mark.hypothesis
@given(st.text(), st.text())
def test_code_and_quotations_show_what_was_written(text: str, other: str) -> None:
    shown = "\n".join(fenced(text, other))
    (token,) = [each for each in MARKDOWN.parse(shown) if each.type == "fence"]
    assert "\ufffd" in token.content or token.content.strip("\n") == text.replace("\r\n", "\n").replace(
        "\r", "\n"
    ).strip("\n")
    for line in (plain(text), code(text), *quoted(text), summary(text)):
        assert "\n" not in line
        assert html_in(line) == []


def test_what_stands_in_code_of_an_answer_is_left_as_it_is() -> None:
    text = "Use `a<b>` and\n\n```html\n<b>@x #1</b>\n```\n"
    assert list(prose(text)) == ["Use `a<b>` and", "", "", "```html", "<b>@x #1</b>", "```", ""]


@pytest.mark.parametrize("acting", ["@octocat", "fixes #12", "GH-12", "$x$ and $y$"])
def test_nobody_is_notified_and_no_issue_is_closed(acting: str) -> None:
    for text in ("\n".join(prose(acting)), plain(acting), summary(acting)):
        assert not re.search(r"@octocat|#12|GH-12", text)
    assert not re.search(r"(?<!\\)\$", "\n".join(prose(acting)) + plain(acting))


def test_a_block_that_suggests_a_change_is_only_code() -> None:
    assert "suggestion" not in "\n".join(prose("```suggestion\nx\n```"))


def test_a_long_session_is_rendered_as_it_is_read() -> None:
    taken = 0

    def events() -> Iterator[SharedEvent]:
        nonlocal taken
        for n in range(10_000):
            taken += 1
            kinds: tuple[Event, ...] = (call("Bash", f"t{n}", command="x" * 100), came(f"t{n - 1}", "y" * 1000))
            yield SharedEvent(seq=n + 1, turn=1, event=kinds[n % 2])

    session, _ = shared()
    lines: Iterable[str] = document(session, events())
    tracemalloc.start()
    try:
        count, first = 0, 0
        for line in lines:
            count += 1
            if line.startswith("<details") and not first:
                first = taken
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first <= HELD_MAX * 6
    assert count > 20_000
    assert peak < 2_000_000
