"""What is inside a session: images that its log holds, subagents at the calls that started them, a record as a page."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import pytest

from tests.support import claude_records as claude
from tests.support.machines import claude_log, lines
from tests.support.pages import Elements, served
from tests.support.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.pages import Answer, Visitor

PNG, GIF, JPEG = b"\x89PNG\r\n\x1a\n" + b"\0" * 30, b"GIF89a" + b"\1" * 30, b"\xff\xd8\xff\xe0" + b"\2" * 30
WEBP, SVG = (
    b"RIFF\x10\0\0\0WEBPVP8 " + b"\3" * 20,
    b"<svg xmlns='http://www.w3.org/2000/svg'><script>fired()</script></svg>",
)


def image(data: bytes, kind: str = "image/png") -> dict[str, object]:
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def call(name: str, call_id: str, **given: str) -> bytes:
    return claude.assistant({"type": "tool_use", "id": call_id, "name": name, "input": given})


LOG = lines(
    claude.user([{"type": "text", "text": "Look at these."}, image(PNG), image(GIF)], "a1"),
    call("Read", "c1", file_path="/w/a.png"),
    claude.user(
        [
            {"type": "tool_result", "tool_use_id": "c1", "content": [image(JPEG, "image/svg+xml")]},
            {"type": "tool_result", "tool_use_id": "c2", "content": [image(WEBP)]},
        ],
        toolUseResult={"type": "image", "file": {"base64": base64.b64encode(JPEG).decode()}},
    ),
    claude.user([image(SVG, "image/png"), {"type": "text", "text": "and this"}]),
    call("Task", "c3", prompt="Look for pelicans in the lake.", description="pelicans"),
    claude.result("Found three.\nagentId: a58c0de", "c3"),
    call("Task", "c4", prompt="Look for herons at the river.", description="herons"),
    call("Task", "c5", prompt="Nobody ever began with this.", description="none"),
)


def of_subagent(prompt: str) -> bytes:
    nested = {"type": "tool_use", "id": "d1", "name": "Bash", "input": {"command": "ls lake"}}
    return lines(
        claude.user(prompt, isSidechain=True), claude.assistant(nested, isSidechain=True),
        claude.answer("Three.", isSidechain=True),
    )  # fmt: skip


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("inside") / "home"
    home.mkdir()
    path = home / claude_log(claude.SESSION)
    own = path.with_suffix("") / "subagents"
    own.mkdir(parents=True)
    path.write_bytes(LOG)
    (own / "agent-a58c0de.jsonl").write_bytes(of_subagent("Look for pelicans in the lake."))
    (own / "agent-b77c0de.jsonl").write_bytes(of_subagent("Look for herons at the river."))
    shell = Shell(home)
    assert shell("ingest").code == 0
    return shell


@pytest.fixture(scope="module")
def uids(shell: Shell) -> dict[str, str]:
    """The uids of the sessions by their own ids."""
    rows = shell("sql", "--json", "select native_id, uid from sessions").json()["rows"]
    return {name.rpartition("/")[2]: uid for name, uid in rows}


@pytest.fixture(scope="module")
def inside(shell: Shell, uids: dict[str, str]) -> Iterator[tuple[Visitor, dict[str, str]]]:
    """The pages of that machine."""
    with served(shell.environ, shell.cwd) as visitor:
        visitor.enter()
        yield visitor, uids


@pytest.fixture
def machine(shell: Shell, uids: dict[str, str]) -> tuple[Shell, str]:
    """The machine, and the session with images."""
    return shell, uids[claude.SESSION]


def found(answer: Answer, tag: str, name: str) -> list[str]:
    elements = Elements()
    elements.feed(answer.text)
    return [each[name] or "" for other, each in elements.found if other == tag and name in each]


def test_the_images_of_a_session_are_shown_as_their_bytes_are(inside: tuple[Visitor, dict[str, str]]) -> None:
    visitor, uids = inside
    page = visitor.get(f"/s/{uids[claude.SESSION]}")
    answers = [visitor.get(each) for each in found(page, "img", "src")]
    assert [(each.headers.get("content-type"), each.body) for each in answers if each.status == 200] == [
        ("image/png", PNG), ("image/gif", GIF), ("image/jpeg", JPEG), ("image/webp", WEBP),
    ]  # fmt: skip
    assert all(each.headers["x-content-type-options"] == "nosniff" for each in answers)
    assert "default-src 'none'" in answers[0].headers["content-security-policy"]
    assert all(found(page, "img", "alt"))


def test_svg_is_no_image_whatever_its_log_calls_it(inside: tuple[Visitor, dict[str, str]]) -> None:
    visitor, uids = inside
    answer = visitor.get(f"/s/{uids[claude.SESSION]}/4/image/0")
    assert (answer.status, "svg" in answer.text) == (404, False)


@pytest.mark.parametrize("path", ["1/image/2", "1/image/-1", "1/image/x", "999/image/0", "1.9/image/9", "5/image/0"])
def test_an_image_that_is_not_there_is_not_found(inside: tuple[Visitor, dict[str, str]], path: str) -> None:
    visitor, uids = inside
    assert visitor.get(f"/s/{uids[claude.SESSION]}/{path}").status == 404


def test_a_subagent_is_at_the_call_that_started_it(inside: tuple[Visitor, dict[str, str]]) -> None:
    visitor, uids = inside
    page = visitor.get(f"/s/{uids[claude.SESSION]}")
    by_call = {
        place: re.findall(r'data-inside="/s/(\w+)/inside"', text)
        for place, text in re.findall(r'<article [^>]*id="r(\d+)">(.*?)</article>', page.text, re.DOTALL)
    }
    assert {place: each for place, each in by_call.items() if each} == {"5": [uids["a58c0de"]], "7": [uids["b77c0de"]]}


def test_a_subagent_opens_where_it_is_with_links_to_its_own_page(inside: tuple[Visitor, dict[str, str]]) -> None:
    visitor, uids = inside
    answer = visitor.get(f"/s/{uids['a58c0de']}/inside")
    assert ("<html" in answer.text, "ls lake" in answer.words) == (False, True)
    assert {re.split("[/?]", each)[2] for each in found(answer, "a", "href")} == {uids["a58c0de"]}


def test_all_that_a_record_says_is_a_page_or_a_part_of_one(inside: tuple[Visitor, dict[str, str]]) -> None:
    visitor, uids = inside
    where = f"/s/{uids[claude.SESSION]}/5/whole"
    whole, part = visitor.get(where), visitor.get(f"{where}?part=1")
    assert ["<html" in each.text for each in (whole, part)] == [True, False]
    assert all("Look for pelicans" in each.words for each in (whole, part))
    assert f"/s/{uids[claude.SESSION]}/5" in found(whole, "a", "href")


def exported(shell: Shell, uid: str, target: Path, *options: str) -> tuple[str, list[str]]:
    """A session as a file: its text, and its images as their addresses."""
    done = shell("export", uid, "-o", target, *options)
    assert done.code == 0, done.err
    text = target.read_text()
    elements = Elements()
    elements.feed(text)
    return text, [each["src"] or "" for tag, each in elements.found if tag == "img"]


def test_a_file_that_is_not_masked_holds_the_images_but_no_svg(machine: tuple[Shell, str], tmp_path: Path) -> None:
    text, images = exported(*machine, tmp_path / "x.html", "--no-redact")
    kinds = {"image/png": PNG, "image/gif": GIF, "image/jpeg": JPEG, "image/webp": WEBP}
    assert images == [f"data:{kind};base64,{base64.b64encode(data).decode()}" for kind, data in kinds.items()]
    assert text.count("image left out") == 1
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert "img-src data:;" in policy


def test_a_masked_file_holds_no_image_and_says_how_many_were_left_out(
    machine: tuple[Shell, str], tmp_path: Path
) -> None:
    text, images = exported(*machine, tmp_path / "x.html")
    assert images == []
    assert re.findall(r"(\d) images? left out", text) == ["2", "1", "1", "1"]
