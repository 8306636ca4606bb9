"""Texts of a record are overwritten in place: what is left is as long, reads as before, and holds no text."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.derive.pruning import (
    IMAGES,
    MARK,
    PROMPTS,
    SUMMARIES,
    TOOL_OUTPUTS,
    PrunedTexts,
    Pruning,
    is_image,
    is_text,
    pruned_record,
)
from backstory.model import AssistantText, Command, Compacted, Event, Thinking, ToolCall, ToolResult, UserMessage

CASES = Path(__file__).parent.parent / "agents" / "cases"
AGENTS = sorted(each.name for each in CASES.iterdir() if each.is_dir())
ALL = Pruning(keep=PROMPTS)
OUTPUTS = Pruning(kinds=frozenset({TOOL_OUTPUTS}))
TEXT = "Zünde die Lampe an"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("\n" * 3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def pruned(value: Any, *events: Event, what: Pruning = ALL, known: PrunedTexts | None = None) -> Any:
    record = json.dumps(value, ensure_ascii=False).encode()
    new = pruned_record(record, events, what, known or PrunedTexts())
    assert len(new) == len(record)
    return json.loads(new)


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in inner for text in strings(each)]


def shape(value: Any) -> Any:
    """A value without the contents of its strings."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "" if isinstance(value, str) else value


def lines_of(agent: str) -> list[bytes]:
    files = [each for each in sorted((CASES / agent).rglob("*")) if each.suffix in (".jsonl", ".json", ".md", ".txt")]
    return [line for each in files if each.name != "expected.json" for line in each.read_bytes().split(b"\n") if line]


@given(values, st.booleans())
def test_any_value_keeps_its_length_and_its_shape_and_loses_its_texts(value: Any, is_ascii: bool) -> None:
    record = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    new = pruned_record(record, [], ALL, PrunedTexts())
    assert (len(new), new.count(b"\n")) == (len(record), record.count(b"\n"))
    parsed = json.loads(new.decode("utf-8", "surrogatepass"))
    assert shape(parsed) == shape(value)
    for text in strings(parsed):
        # Of JSON in a string the values are pruned, and its keys are not.
        assert not text.strip() or not is_text(text) or text[:1] in ("{", "["), text
    assert pruned_record(new, [], ALL, PrunedTexts()) == new


@pytest.mark.parametrize("agent", AGENTS)
def test_every_recorded_line_stays_as_long_and_reads_as_before_without_a_text(agent: str) -> None:
    found = lines_of(agent)
    assert found
    for line in found:
        new = pruned_record(line, [], ALL, PrunedTexts())
        assert (len(new), new.count(b"\n")) == (len(line), 0)
        assert pruned_record(new, [], ALL, PrunedTexts()) == new
        try:
            before = json.loads(line)
        except ValueError:
            continue
        after = json.loads(new)
        assert shape(after) == shape(before)
        left = [text for text in strings(after) if is_text(text) and text.strip() and text[:1] not in ("{", "[")]
        assert [text for text in left if not _is_time(text) and "*** Begin Patch" not in text] == []


def _is_time(text: str) -> bool:
    return text[:4].isdigit() and text[4:5] == "-"


def test_a_prompt_stays_as_it_is() -> None:
    said = {"type": "user", "message": {"content": TEXT}, "cwd": "/a folder"}
    assert pruned(said, UserMessage(content=TEXT)) == said


def test_a_prompt_of_a_subagent_goes() -> None:
    record = json.dumps({"content": TEXT}).encode()
    new = pruned_record(record, [UserMessage(content=TEXT)], ALL, PrunedTexts(), is_person=False)
    assert json.loads(new) == {"content": MARK}


def test_what_is_said_beside_a_prompt_goes_and_the_prompt_stays() -> None:
    said = {"prompt": TEXT, "answer": "It is lit.", "id": "a-1", "usage": {"output": 7}}
    assert pruned(said, UserMessage(content=TEXT), AssistantText(text="It is lit.")) == said | {"answer": MARK}


def test_a_prompt_that_another_record_repeats_stays_there() -> None:
    known = PrunedTexts()
    known.note([UserMessage(content=TEXT)], ALL, is_person=True)
    assert pruned({"copy": TEXT, "rest": "of it all"}, known=known) == {"copy": TEXT, "rest": "[pruned]"}


def test_a_summary_stays_where_summaries_do_and_goes_where_prompts_do() -> None:
    said, event = {"summary": "All is well."}, Compacted(summary="All is well.")
    assert pruned(said, event, what=Pruning(keep=SUMMARIES)) == said
    assert pruned(said, event) == {"summary": MARK}


def test_a_word_goes_if_it_is_an_answer_and_stays_where_it_is_a_word_of_the_format() -> None:
    said = {"type": "text", "text": "text", "id": "text"}
    assert pruned(said, AssistantText(text="text")) == said | {"text": "*"}


def test_paths_and_names_stay_though_they_have_blanks() -> None:
    call = ToolCall(tool_name="Write", tool="WRITE", input={"file_path": "/my work/a.py", "content": "a secret"})
    known = PrunedTexts()
    known.note([call], ALL, is_person=True)
    said = {"name": "Write", "input": {"file_path": "/my work/a.py", "content": "a secret"}}
    assert pruned(said, call, known=known)["input"] == {"file_path": "/my work/a.py", "content": MARK}


def test_json_in_a_text_is_pruned_as_json() -> None:
    given = {"path": "a.py", "text": TEXT, "word": "PLANTword", "status": "PLANTstatus", "n": 3}
    call, known = ToolCall(tool_name="f", tool="EDIT", file_path="a.py", input=given), PrunedTexts()
    known.note([call], ALL, is_person=True)
    left = json.loads(pruned({"arguments": json.dumps(given)}, call, known=known)["arguments"])
    assert left == {"path": "a.py", "text": MARK, "word": MARK, "status": MARK, "n": 3}


JSON_OUTPUT = '{"PLANToutkey": "PLANToutval", "number": 4242424242}'


@pytest.mark.parametrize("what", [ALL, OUTPUTS], ids=["prompts", "tool-outputs"])
@pytest.mark.parametrize(
    "event",
    [ToolResult(tool_use_id="t1", content=JSON_OUTPUT), AssistantText(text=JSON_OUTPUT), Thinking(text=JSON_OUTPUT)],
    ids=lambda each: each.kind,
)
def test_an_output_an_answer_and_a_thought_that_are_json_go_with_their_keys_and_numbers(
    event: Event, what: Pruning
) -> None:
    said = {"content": JSON_OUTPUT, "type": "tool_result", "copy": {"of": JSON_OUTPUT}}
    goes = what.goes(event)
    wanted = said | {"content": MARK, "copy": {"of": MARK}} if goes else said
    assert pruned(said, event, what=what) == wanted


def test_an_output_that_is_json_goes_beside_the_call_whose_arguments_are() -> None:
    call = ToolCall(tool_name="f", tool="OTHER", tool_use_id="t1", input={"q": "PLANTquery", "n": 3})
    said = {"args": json.dumps(call.input), "output": JSON_OUTPUT, "value": JSON_OUTPUT}
    result = ToolResult(tool_use_id="t1", content=JSON_OUTPUT)
    left = pruned(said, call, result)
    assert (json.loads(left["args"]), left["output"], left["value"]) == ({"q": MARK, "n": 3}, MARK, MARK)
    assert pruned(said, call, result, what=OUTPUTS) == said | {"output": MARK, "value": MARK}


def test_what_an_adapter_looks_through_for_an_output_is_left_but_for_the_output() -> None:
    wrapped = json.dumps({"output": "PLANToutput", "metadata": {"exit_code": 1}})
    left = pruned({"output": wrapped}, ToolResult(tool_use_id="t1", content="PLANToutput"), what=OUTPUTS)
    assert json.loads(left["output"]) == {"output": MARK, "metadata": {"exit_code": 1}}


INNER = {"any": "PLANTinner", "agentId": "a-1", "filePath": "/w/a", "type": "text"}
COPIES = {
    "stdout": "PLANTstdout", "stderr": "QOUTerr", "extra": ["PLANTlistitem"], "content": "PLANTcontent",
    "inner": INNER, "isImage": False,
}  # fmt: skip


@pytest.mark.parametrize("what", [ALL, OUTPUTS], ids=["prompts", "tool-outputs"])
def test_single_words_of_an_output_go_from_what_repeats_it(what: Pruning) -> None:
    said = {"toolUseResult": COPIES, "userType": "external", "uuid": "u-1"}
    left = pruned(said, ToolResult(tool_use_id="t1", content="PLANTstdout"), what=what)
    assert left == said | {
        "toolUseResult": {
            "stdout": MARK, "stderr": "*", "extra": [MARK], "content": MARK,
            "inner": INNER | {"any": MARK}, "isImage": False,
        }
    }  # fmt: skip


@pytest.mark.parametrize("what", [ALL, OUTPUTS], ids=["prompts", "tool-outputs"])
def test_what_a_command_prints_while_it_runs_goes(what: Pruning) -> None:
    said = {"type": "progress", "data": {"type": "bash_progress", "output": "PW=QOUTprogress", "taskId": "b1"}}
    assert pruned(said, what=what) == {
        "type": "progress",
        "data": {"type": "bash_progress", "output": MARK, "taskId": "b1"},
    }


def test_a_result_in_what_is_said_of_a_subagent_goes() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "PLANTresult"}
    said = {"type": "progress", "data": {"message": {"content": [block]}, "prompt": TEXT}}
    assert pruned(said, what=OUTPUTS) == said | {
        "data": {"message": {"content": [block | {"content": MARK}]}, "prompt": TEXT}
    }


def test_a_word_beside_the_conversation_goes_where_only_prompts_stay() -> None:
    said = {"type": "attachment", "attachment": {"content": ["PLANTfile1"], "text": "PLANTtext"}, "mode": "default1"}
    assert pruned(said) == said | {"attachment": {"content": [MARK], "text": MARK}}
    assert pruned(said, what=OUTPUTS) == said


@pytest.mark.parametrize("what", [ALL, OUTPUTS], ids=["prompts", "tool-outputs"])
def test_a_short_line_of_an_output_goes_where_another_record_repeats_it(what: Pruning) -> None:
    known = PrunedTexts()
    known.note([ToolResult(tool_use_id="t1", content="PLANTline1\nand more of it")], what, is_person=True)
    said = {"type": "PLANTline1", "sessionId": "PLANTline1", "last": "PLANTline1", "other": "PLANTother"}
    assert pruned(said, what=what, known=known) == said | {"last": MARK}


@pytest.mark.parametrize("what", [ALL, OUTPUTS], ids=["prompts", "tool-outputs"])
def test_what_a_typed_command_printed_goes_and_the_command_stays(what: Pruning) -> None:
    event = Command(name="! ls -la", output="PLANTfile")
    known = PrunedTexts()
    known.note([event], what, is_person=True)
    assert pruned({"command": "ls -la", "output": "PLANTfile"}, event, what=what, known=known) == {
        "command": "ls -la",
        "output": MARK,
    }
    printed = pruned({"content": "<bash-stdout>PLANTfile</bash-stdout>"}, event, what=what, known=known)
    assert printed == {"content": f"<bash-stdout>{MARK}</bash-stdout>"}


def test_of_a_patch_the_names_of_files_stay() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-old secret\n+new secret\n*** End Patch"
    left = "*** Begin Patch\n*** Update File: a.py\n*** End Patch"
    assert pruned({"input": patch}, ToolCall(tool_name="p", tool="EDIT", input={"patch": patch})) == {"input": left}


def test_only_outputs_go_and_what_repeats_them() -> None:
    output = "a line of an output that is long enough\nand another"
    result, known = ToolResult(tool_use_id="t1", content=output), PrunedTexts()
    known.note([result], OUTPUTS, is_person=True)
    said = {"content": output, "stdout": "as it was printed", "tool_use_id": "t1"}
    assert pruned(said, result, what=OUTPUTS, known=known) == said | {"content": MARK, "stdout": MARK}
    assert pruned({"aggregated": output, "said": "go on"}, what=OUTPUTS, known=known) == {
        "aggregated": MARK,
        "said": "go on",
    }
    answer = {"text": f"It says: {output}"}
    assert pruned(answer, AssistantText(text=answer["text"]), what=OUTPUTS, known=known) == answer


def test_images_go_from_prompts_too_and_their_words_stay() -> None:
    said = {"content": [{"type": "text", "text": TEXT}, {"data": "iVBORw0KGgo" + "A" * 300}]}
    left = pruned(said, UserMessage(content=TEXT), what=Pruning(kinds=frozenset({IMAGES})))
    assert left == {"content": [{"type": "text", "text": TEXT}, {"data": MARK}]}


IMAGES_ONLY = Pruning(kinds=frozenset({IMAGES}))


@pytest.mark.parametrize("kind", ["image/bmp", "image/svg+xml", "image/avif", "image/x-new"])
def test_what_stands_beside_the_kind_of_an_image_goes(kind: str) -> None:
    source = {"type": "base64", "media_type": kind, "data": "QUJD" * 99}
    said = {"content": [{"type": "text", "text": TEXT}, {"type": "image", "source": source}, {"data": "QUJE" * 99}]}
    assert pruned(said, UserMessage(content=TEXT), what=IMAGES_ONLY)["content"] == [
        {"type": "text", "text": TEXT},
        {"type": "image", "source": source | {"data": MARK}},
        {"data": "QUJE" * 99},
    ]


@pytest.mark.parametrize(
    "start",
    [
        b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF....WEBP", b"BM.." + bytes(6), b"<svg xmlns='a'>",
        b"<?xml version='1.0'?>\n<svg width='1'>", b"\0\0\0 ftypavif", b"II*\0",
    ],
)  # fmt: skip
def test_an_image_is_known_by_its_first_bytes_in_a_file_and_in_a_text(start: bytes) -> None:
    data = start + bytes(400)
    assert is_image(data)
    assert pruned({"blob": base64.b64encode(data).decode()}, what=IMAGES_ONLY) == {"blob": MARK}
    assert not is_image(b"x" + data)
    other = {"blob": base64.b64encode(b"x" + data).decode()}
    assert pruned(other, what=IMAGES_ONLY) == other


def test_an_image_in_a_text_goes_and_the_words_around_it_stay() -> None:
    prompt = 'see ![a "lamp"](data:image/png;base64,iVBORw0KGgo+/8=) for it'
    left = f'see ![a "lamp"]({MARK}) for it'
    assert pruned({"content": prompt}, UserMessage(content=prompt), what=IMAGES_ONLY) == {"content": left}
    both = Pruning(keep=PROMPTS, kinds=frozenset({IMAGES}))
    known = PrunedTexts()
    known.note([UserMessage(content=prompt)], both, is_person=True)
    said = {"content": prompt, "answer": "It is lit."}
    assert pruned(said, UserMessage(content=prompt), AssistantText(text="It is lit."), what=both, known=known) == {
        "content": left,
        "answer": MARK,
    }
    assert pruned({"copy": prompt}, what=both, known=known) == {"copy": left}
    line = prompt.encode()
    new = pruned_record(line, [], IMAGES_ONLY, PrunedTexts())
    assert (len(new), b" ".join(new.split())) == (len(line), left.replace("])", "] )").encode())


@pytest.mark.parametrize(
    "record", ["a secret that is no JSON", "ü a secret in two\nlines, and more", '{"torn": "a secret that does not e']
)
def test_what_is_no_json_becomes_the_mark_and_blanks(record: str) -> None:
    new = pruned_record(record.encode(), [], ALL, PrunedTexts())
    assert (len(new), new.count(b"\n")) == (len(record.encode()), record.count("\n"))
    assert new.split() == [MARK.encode()]


def test_times_with_a_blank_stay() -> None:
    assert pruned({"at": "2026-11-21 21:00:00.000 UTC"}) == {"at": "2026-11-21 21:00:00.000 UTC"}


def test_of_two_prunes_the_one_that_takes_more_counts() -> None:
    assert (Pruning(keep=SUMMARIES) | ALL).keep == PROMPTS
    assert Pruning.of((OUTPUTS | ALL).words) == Pruning(keep=PROMPTS, kinds=frozenset({TOOL_OUTPUTS}))
