"""A session pruned in part is overwritten and derived anew at once; nothing of what went is in the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backstory import agents
from backstory.derive.naming import pruned_words
from backstory.derive.pruning import IMAGES, MARK, PROMPTS, SUMMARIES, TOOL_OUTPUTS, Pruning, is_text, texts_in
from backstory.errors import PruneRefused
from backstory.export.restore import Restoring
from backstory.ingest import bringing_back, pruning
from backstory.ingest.bringing_back import bring_back
from backstory.ingest.discover import stream_logs
from backstory.ingest.ingest import ingest, ingest_briefly
from backstory.ingest.log_reader import full_pace
from backstory.ingest.pruning import Freed, prune_session
from backstory.ingest.reindex import reindex
from backstory.model import AssistantText, Command, ToolResult, UserMessage
from backstory.store import open_store
from backstory.store.tables import pruned, sidecars
from tests.support.clock import NOW
from tests.support.machines import (
    SMALL,
    Machine,
    claude_line,
    claude_log,
    differences,
    kept,
    lies,
    lines,
    looked_up,
    prompts,
    restored,
)
from tests.support.recorded import cases_of, home_of

if TYPE_CHECKING:
    from backstory.store import Session

PROMPTS_ONLY = Pruning(keep=PROMPTS)
OUTPUTS = Pruning(kinds=frozenset({TOOL_OUTPUTS}))
PLANTED = ("planted answer", "geheimes Ergebnis", "thought of it", "cat hidden")


def talk(turn: int = 1) -> list[bytes]:
    """A turn with a call, its result, a thought and an answer."""
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "I thought of it"},
        {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "cat hidden words"}},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5}
    said: dict[str, Any] = {"role": "assistant", "model": "claude-x", "id": f"m{turn}", "usage": usage}
    result = [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "geheimes Ergebnis"}]
    return [
        claude_line("user", f"p{turn}", f"please do number {turn}"),
        claude_line("assistant", f"c{turn}", message=said | {"content": blocks}),
        claude_line(
            "user", f"r{turn}", message={"role": "user", "content": result},
            toolUseResult={"stdout": "geheimes Ergebnis"},
        ),
        claude_line(
            "assistant", f"a{turn}",
            message=said | {"id": f"n{turn}", "content": [{"type": "text", "text": "a planted answer"}]},
        ),
    ]  # fmt: skip


def one(machine: Machine) -> Session:
    (session,) = machine.store.sessions()
    return session


def a_talk(machine: Machine) -> Session:
    machine.write(claude_log("s"), lines(*talk(1), *talk(2)))
    machine.read()
    return one(machine)


def said(machine: Machine) -> list[tuple[str, str]]:
    found = []
    for each in machine.store.events(one(machine)):
        match each.event:
            case UserMessage(content=text) | AssistantText(text=text) | ToolResult(content=text):
                found.append((each.kind, text))
    return found


def prune(machine: Machine, what: Pruning = PROMPTS_ONLY) -> Freed:
    freed = prune_session(machine.store, one(machine), what)
    machine.store.erase()
    return freed


def file_bytes(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_a_pruned_session_has_its_prompts_and_the_marks_of_the_rest(machine: Machine) -> None:
    a_talk(machine)
    turns = machine.store.turns(one(machine))
    freed = prune(machine)
    assert (freed.records, freed.after < freed.before) == (6, True)
    assert said(machine) == [
        ("UserMessage", f"please do number {turn}") if kind == "UserMessage" else (kind, MARK)
        for turn in (1, 2)
        for kind in ("UserMessage", "ToolResult", "AssistantText")
    ]
    assert [(each.uid, each.tokens, each.model, each.prompt) for each in machine.store.turns(one(machine))] == [
        (each.uid, each.tokens, each.model, each.prompt) for each in turns
    ]
    assert machine.store.verify().problems == []


def test_nothing_that_was_pruned_is_in_the_file_or_found(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    machine.store.close()
    data = file_bytes(machine.store_path)
    assert b"number 1" in data or prompts(machine.store)
    for log in machine.store.logs():
        assert not [words for words in PLANTED if words.encode() in machine.store.read_log(log.id, 0, log.read_to)]
    for words in PLANTED:
        assert words.encode() not in data
        assert machine.store.search(words, near=False).hits == []


def test_only_the_outputs_of_tools_go(machine: Machine) -> None:
    a_talk(machine)
    prune(machine, OUTPUTS)
    assert said(machine)[:3] == [
        ("UserMessage", "please do number 1"), ("ToolResult", MARK), ("AssistantText", "a planted answer"),
    ]  # fmt: skip
    assert machine.store.verify().problems == []


def a_talk_with(machine: Machine, content: str, *others: bytes, beside: Any = None, **block: Any) -> Session:
    """A turn whose call has this result, and other records behind it."""
    first, call, _, answer = talk()
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": content, **block}]
    fields = {} if beside is None else {"toolUseResult": beside}
    given = claude_line("user", "r1", message={"role": "user", "content": result}, **fields)
    machine.write(claude_log("s"), lines(first, call, given, *others, answer))
    machine.read()
    return one(machine)


def log_bytes(machine: Machine) -> bytes:
    return b"".join(machine.store.read_log(log.id, 0, log.read_to) for log in machine.store.logs())


@pytest.mark.parametrize("what", [PROMPTS_ONLY, OUTPUTS], ids=["prompts", "tool-outputs"])
@pytest.mark.parametrize(
    "content",
    ['{"PLANToutkey": "PLANToutval", "number": 4242424242}', json.dumps([{"k1": "PLANTval", "n": 4242424242}] * 9)],
    ids=["object", "list"],
)
def test_an_output_that_is_json_goes_whole(machine: Machine, content: str, what: Pruning) -> None:
    a_talk_with(machine, content, beside={"stdout": content, "stderr": "PLANTerr", "extra": ["PLANTitem"]})
    assert prune(machine, what).records > 0
    assert ("ToolResult", MARK) in said(machine)
    assert not [words for words in (b"PLANT", b"4242424242") if words in log_bytes(machine)]
    assert machine.store.search("PLANToutval", near=False).hits == []
    assert machine.store.verify().problems == []


@pytest.mark.parametrize("what", [PROMPTS_ONLY, OUTPUTS], ids=["prompts", "tool-outputs"])
def test_what_a_command_that_a_person_typed_printed_goes(machine: Machine, what: Pruning) -> None:
    printed = [
        claude_line("user", "b1", "<bash-input>ls -la</bash-input>"),
        claude_line("user", "b2", "<bash-stdout>PLANTfile</bash-stdout><bash-stderr>PLANT in two words</bash-stderr>"),
        claude_line("user", "b3", "<command-name>/cost</command-name>"),
        claude_line("user", "b4", "<local-command-stdout>PLANTcost</local-command-stdout>"),
        claude_line("user", "b5", "<local-command-stdout>PLANT</local-command-stdout>"),
    ]
    a_talk_with(machine, "fine", *printed)
    prune(machine, what)
    assert b"PLANT" not in log_bytes(machine)
    found = [each.event for each in machine.store.events(one(machine)) if isinstance(each.event, Command)]
    left = [(each.name, each.output) for each in found]
    assert left == [("! ls -la", ""), ("", MARK), ("/cost", ""), ("", MARK), ("", "*")]


REFUSAL = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). To tell you how to proceed, the user said:\n"
)


@pytest.mark.parametrize("is_error", [True, None])
def test_what_a_person_said_on_refusing_a_call_stays(machine: Machine, is_error: bool | None) -> None:
    a_talk_with(machine, f"{REFUSAL}QTYPED please do not", **({} if is_error is None else {"is_error": is_error}))
    assert ("UserMessage", "QTYPED please do not") in said(machine)
    prune(machine)
    assert ("UserMessage", "QTYPED please do not") in said(machine)
    assert ("AssistantText", MARK) in said(machine)


def test_an_image_in_a_prompt_goes_and_its_words_stay(machine: Machine) -> None:
    prompt = "see ![it](data:image/png;base64,iVBORw0KGgo=) and say"
    source = {"type": "base64", "media_type": "image/avif", "data": "QUJD" * 99}
    blocks: list[dict[str, Any]] = [{"type": "text", "text": prompt}, {"type": "image", "source": source}]
    machine.write(claude_log("s"), lines(claude_line("user", "p1", message={"role": "user", "content": blocks})))
    machine.read()
    prune(machine, Pruning(kinds=frozenset({IMAGES})))
    assert said(machine) == [("UserMessage", f"see ![it]({MARK}) and say\n[image]")]
    assert b"QUJD" not in log_bytes(machine)
    assert machine.store.verify().problems == []


def test_a_dry_run_tells_what_a_prune_frees_and_writes_nothing(machine: Machine) -> None:
    session = a_talk(machine)
    before = machine.store_path.read_bytes(), machine.content()
    dry = prune_session(machine.store, session, PROMPTS_ONLY, is_dry=True)
    assert (machine.store_path.read_bytes(), machine.content()) == before
    assert prune(machine) == dry


def test_the_same_prune_twice_changes_nothing(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    before = machine.content(), looked_up(machine.store_path, "select * from pruned")
    assert prune(machine).records == 0
    assert (machine.content(), looked_up(machine.store_path, "select * from pruned")) == before


def test_a_stronger_prune_after_a_weaker_one_takes_the_rest_and_keeps_the_first_hashes(machine: Machine) -> None:
    session = a_talk(machine)
    prune(machine, OUTPUTS)
    before = looked_up(machine.store_path, "select * from pruned where start >= 0 and log_id > 0")
    assert prune(machine).records > 0
    assert looked_up(machine.store_path, "select * from pruned where start >= 0 and log_id > 0") == before
    noted = machine.store.ask(pruned.noted, session.id)
    assert noted is not None
    assert noted.words == [PROMPTS, TOOL_OUTPUTS]
    assert ("AssistantText", MARK) in said(machine)
    assert prune(machine, Pruning(keep=SUMMARIES)).records == 0


@pytest.mark.parametrize("events_too", [False, True])
def test_a_reindex_keeps_it_pruned(machine: Machine, events_too: bool) -> None:
    for name in SMALL:
        machine.put(name)
    machine.read()
    for session in machine.store.sessions(subagents=True):
        prune_session(machine.store, session, PROMPTS_ONLY)
    before, bytes_before = machine.content(), kept(machine.store)
    assert reindex(machine.store, now=NOW, events_too=events_too).failed == []
    assert differences(before, machine.content()) == []
    assert kept(machine.store) == bytes_before
    assert machine.store.verify().problems == []


def test_a_log_that_grows_goes_on_behind_what_was_pruned(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    machine.write(claude_log("s"), lines(*talk(1), *talk(2), *talk(3)))
    machine.read()
    assert said(machine)[:3] == [("UserMessage", "please do number 1"), ("ToolResult", MARK), ("AssistantText", MARK)]
    assert said(machine)[-3:] == [
        ("UserMessage", "please do number 3"),
        ("ToolResult", "geheimes Ergebnis"),
        ("AssistantText", "a planted answer"),
    ]
    assert len(machine.store.logs()) == 1
    assert machine.store.verify().problems == []
    prune(machine)
    assert said(machine)[-3:] == [("UserMessage", "please do number 3"), ("ToolResult", MARK), ("AssistantText", MARK)]


def test_a_session_whose_run_is_not_stored_is_refused(machine: Machine) -> None:
    session = a_talk(machine)
    machine.store.change(lambda db: db.execute("update sessions set last_claude_uuid = 'x'"))
    before = kept(machine.store)
    with pytest.raises(PruneRefused, match="a run of it is not stored yet"):
        prune_session(machine.store, session, PROMPTS_ONLY)
    assert kept(machine.store) == before


def test_a_log_that_grew_since_it_was_planned_is_planned_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = a_talk(machine)
    decide, grown = machine.store.decide, [lines(*talk(1), *talk(2), *talk(3))]

    def decide_late(*args: Any) -> Any:
        if grown:
            machine.write(claude_log("s"), grown.pop())
            machine.read()
        return decide(*args)

    monkeypatch.setattr(machine.store, "decide", decide_late)
    prune_session(machine.store, session, PROMPTS_ONLY)
    assert [text for kind, text in said(machine) if kind == "AssistantText"] == [MARK] * 3
    assert machine.store.verify().problems == []


def test_a_file_beside_a_log_goes_and_is_not_read_again(machine: Machine) -> None:
    machine.write(claude_log("s"), lines(*talk(1)))
    result = machine.write(claude_log("s").with_suffix("") / "tool-results" / "b1.txt", b"the whole of a secret output")
    machine.read()
    prune(machine)
    assert beside(machine) == [("s/tool-results/b1.txt", pruned.blank_file(28))]
    result.write_bytes(b"the whole of a secret output, and more")
    machine.read()
    assert beside(machine) == [("s/tool-results/b1.txt", pruned.blank_file(38))]
    assert machine.store.verify().problems == []


def beside(machine: Machine) -> list[tuple[str, bytes]]:
    """The files beside the log, with their bytes."""
    (log,) = machine.store.logs()
    return [
        (each.name, machine.store.ask(sidecars.read, each.id)) for each in machine.store.ask(sidecars.of_log, log.id)
    ]


def test_a_title_stays(machine: Machine) -> None:
    record = json.dumps({"type": "ai-title", "sessionId": "s", "aiTitle": "Two words"}).encode()
    machine.write(claude_log("s"), lines(*talk(1), record))
    machine.read()
    assert one(machine).title == "Two words"
    prune(machine)
    assert one(machine).title == "Two words"


# what comes since -----------------------------------------------------------------------------------------------------


def answers(machine: Machine) -> list[str]:
    return [text for kind, text in said(machine) if kind == "AssistantText"]


def test_a_log_that_was_only_touched_is_the_one_that_was_pruned(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    before = kept(machine.store)
    os.utime(machine.home / claude_log("s"), (NOW / 1000, NOW / 1000))
    machine.read()
    machine.write(claude_log("s"), lines(*talk(1)))
    machine.read()
    assert kept(machine.store) == before
    assert len(machine.store.logs()) == 1


def test_a_log_that_was_rewritten_fills_nothing_and_its_new_turns_come(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    first, *rest = talk(1)
    machine.write(claude_log("s"), lines(first.replace(b'"cwd": "/w"', b'"cwd": "/v"'), *rest, *talk(2), *talk(3)))
    machine.read()
    assert answers(machine) == [MARK, MARK, "a planted answer"]
    assert len(machine.store.logs()) == 2
    assert machine.store.verify().problems == []
    data = b"".join(machine.store.read_log(log.id, 0, log.read_to) for log in machine.store.logs())
    assert data.count(b"a planted answer") == 1
    before = machine.content(), machine.store_path.read_bytes()
    machine.read()
    assert (machine.content(), machine.store_path.read_bytes()) == before


def test_an_ingest_that_was_killed_before_it_pruned_again_is_made_good_by_the_next(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_talk(machine)
    prune(machine)
    first, *rest = talk(1)
    machine.write(claude_log("s"), lines(first.replace(b'"cwd": "/w"', b'"cwd": "/v"'), *rest, *talk(2), *talk(3)))
    with monkeypatch.context() as patched:
        patched.setattr(pruning, "prune_again", lambda store: [])
        machine.read()
    machine.read()
    assert answers(machine) == [MARK, MARK, "a planted answer"]


def test_who_only_looks_leaves_a_log_that_was_rewritten(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    before = kept(machine.store)
    first, *rest = talk(1)
    path = machine.write(claude_log("s"), lines(first.replace(b'"cwd": "/w"', b'"cwd": "/v"'), *rest, *talk(3)))
    found = [each for each in stream_logs([agents.load("claude")], {}, machine.home, []) if each.path == str(path)]
    report = ingest_briefly(machine.store, found, full_pace())
    assert report.left == [str(path)]
    assert kept(machine.store) == before


RECORDED = [each for each in cases_of() if each[0] in agents.names() and each != ("pi", "cancel")]
"""All homes in which an agent that is known left a session."""


@pytest.mark.parametrize(("agent", "case"), RECORDED)
def test_a_recorded_home_is_pruned_and_read_again_without_a_word_of_it(agent: str, case: str, tmp_path: Path) -> None:
    home = home_of(tmp_path, agent, case)
    with open_store(tmp_path / "store.db", shared=True, now=lambda: NOW) as store:

        def read() -> dict[str, list[tuple[str, ...]]]:
            ingest(store, [agents.load(agent)], environ={}, home=home, now=NOW, places=[home / "shop"])
            return {
                each.uid: [(stored.kind, *texts_in(stored.event)) for stored in store.events(each)]
                for each in store.sessions(subagents=True)
            }

        read()
        found = store.sessions(subagents=True)
        before = {each.uid: store.turns(each) for each in found}
        every = [stored.event for each in found for stored in store.events(each)]
        texts = {text for event in every if PROMPTS_ONLY.goes(event) for text in texts_in(event) if len(text) > 9}
        # A title stays; and a note of an adapter's own is in no file.
        texts = {text for text in texts - {each.title for each in found} if "inferred" not in text}
        for each in found:
            prune_session(store, each, PROMPTS_ONLY)
            turns = store.turns(each)
            assert [turn.uid for turn in turns] == [turn.uid for turn in before[each.uid]]
            if each.relation != "subagent":
                assert [turn.prompt for turn in turns] == [turn.prompt for turn in before[each.uid]]
            for stored in store.events(each):
                if PROMPTS_ONLY.goes(stored.event):
                    assert {text for text in texts_in(stored.event) if is_text(text)} & texts == set()
        assert store.verify().problems == []
        pruned_once = read()
        for path in home.rglob("*"):
            if path.is_file():
                os.utime(path, (NOW / 1000 + 60, NOW / 1000 + 60))
        assert read() == pruned_once
        assert store.verify().problems == []


@pytest.mark.parametrize("step", range(40))
def test_a_prune_that_is_stopped_at_any_step_leaves_the_session_whole_or_pruned(machine: Machine, step: int) -> None:
    session = a_talk(machine)
    whole = machine.content()
    steps = iter(range(10_000))

    class Killed(Exception):
        pass

    def kill(*_: Any) -> bool:
        if next(steps) == step * 12:
            raise Killed
        return False

    writer = machine.store.writer()
    writer.set_progress_handler(kill, 200)
    try:
        prune_session(machine.store, session, PROMPTS_ONLY)
        is_done = True
    except Killed:
        is_done = False
    writer.set_progress_handler(None)
    machine.store.close()
    found = answers(machine)
    assert found in (["a planted answer"] * 2, [MARK, MARK])
    if found[0] != MARK:
        assert not is_done
        assert differences(whole, machine.content()) == []
    machine.read()
    assert machine.store.verify().problems == []


# what is said of it ---------------------------------------------------------------------------------------------------


def test_a_pruned_log_is_not_given_back_and_what_is_left_is_if_that_is_wanted(machine: Machine, tmp_path: Path) -> None:
    a_talk(machine)
    prune(machine)
    (refused,) = restored(machine.store, tmp_path / "out")
    assert refused.error == "it was pruned in part, and what went is kept nowhere; --partial gives what is left"
    assert not (tmp_path / "out").exists()
    restoring = Restoring([machine.store], tmp_path / "out", force=False, partial=True)
    (left,) = restoring.each(restoring.logs)
    data = lies(left).read_bytes()
    assert (len(data), b"please do number 1" in data, b"planted" in data) == (
        len(lines(*talk(1), *talk(2))),
        True,
        False,
    )


def test_a_file_beside_a_log_that_was_pruned_is_not_given_back_and_others_are(machine: Machine, tmp_path: Path) -> None:
    machine.write(claude_log("s"), lines(*talk(1)))
    machine.write(claude_log("s").with_suffix("") / "tool-results" / "b1.txt", b"the whole of a secret output")
    machine.read()
    prune(machine, OUTPUTS)
    restoring = Restoring([machine.store], tmp_path / "out", force=False, partial=True)
    (left,) = restoring.each(restoring.logs)
    assert [each.error for each in left.companions] == ["it was pruned in part, and what went is kept nowhere"]


def test_verify_tells_what_was_pruned_from_damage(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    found = machine.store.verify()
    assert (found.problems, found.pruned) == ([], 1)
    machine.store.change(lambda db: db.execute("update chunks set data = zeroblob(9)"))
    assert machine.store.verify().problems != []


def test_a_list_says_what_was_pruned(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    assert one(machine).pruned == PROMPTS
    assert pruned_words(["summaries", "images"]) == "pruned in part: all but prompts and summaries; images"


def test_what_agents_still_have_is_brought_back(machine: Machine) -> None:
    machine.write(claude_log("s"), lines(*talk(1), *talk(2)))
    machine.write(claude_log("s").with_suffix("") / "tool-results" / "b1.txt", b"the whole of a secret output")
    machine.read()
    whole, bytes_before = machine.content(), kept(machine.store)
    prune(machine)
    assert bring_back(machine.store) == 1
    assert differences(whole, machine.content()) == []
    assert kept(machine.store) == bytes_before
    assert beside(machine) == [("s/tool-results/b1.txt", b"the whole of a secret output")]
    assert machine.store.ask(pruned.noted, one(machine).id) is None
    assert machine.store.verify().problems == []
    assert bring_back(machine.store) == 0


def test_other_bytes_than_those_that_were_here_bring_nothing_back(machine: Machine) -> None:
    a_talk(machine)
    prune(machine)
    before = kept(machine.store)
    machine.write(claude_log("s"), lines(*talk(1), *talk(3)))
    assert bring_back(machine.store) == 0
    assert kept(machine.store) == before
    assert answers(machine) == [MARK, MARK]


def test_who_is_killed_while_it_is_brought_back_does_it_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_talk(machine)
    whole = machine.content()
    prune(machine)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):

        def killed(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(bringing_back, "derive_again", killed)
        bring_back(machine.store)
    assert machine.store.ask(pruned.noted, one(machine).id) is not None
    assert bring_back(machine.store) == 1
    assert differences(whole, machine.content()) == []
