"""A session in the Agent Trajectory Interchange Format (ATIF), the JSON of agents' runs that evaluation harnesses read.

A step is what a person said, what the system said, or what an agent thought, said and called at once, with what came of
the calls. Of a history that is a tree it is the current branch. Subagents are in the trajectory of their parent.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import model
from backstory.bounds import iso
from backstory.export.native_log import ID_CHARS_MIN
from backstory.ingest.formats import version_of
from backstory.model import Relation, Tool, ToolCall, ToolResult
from backstory.workspace.located import LocatedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from backstory.model import Event, Tokens
    from backstory.store import Session
    from backstory.workspace.history.entries import SessionEntry
    from backstory.workspace.history.transcript import ListedTurn, Transcript
    from backstory.workspace.reader import Reader

Step = dict[str, Any]

VERSION = "ATIF-v1.7"
"""The first version that has subagents within; what is newer in the format, sound, no log has."""
DEPTH_MOST = 20
"""Subagents of subagents that are nested deeper are left out."""
PROMPT_CHARS_MIN = 12
"""A shorter prompt may be that of several subagents."""
EMPTY: Step = {"source": "system", "message": "", "extra": {"kind": "nothing was said"}}
"""The step of a session without any: the format wants one."""


def trajectory(reader: Reader, located: LocatedSession, see: Callable[[Event], None]) -> Iterator[bytes]:
    """The JSON of a session, a step at a time. ``see`` receives each event that is in it."""
    yield from _Trajectory(reader, located.session.uid, see).pieces(located, 0)
    yield b"\n"


class _Trajectory:
    def __init__(self, reader: Reader, run: str, see: Callable[[Event], None]) -> None:
        self._reader, self._run, self._see = reader, run, see

    def pieces(self, located: LocatedSession, depth: int) -> Iterator[bytes]:
        transcript = self._reader.transcript(located)
        for run in transcript.live.values():
            run.close()
        turns = {
            each.number: each
            for each in transcript.turns
            if each.live is None and each.shown_in is None and not each.is_rewound
        }
        head = {"schema_version": VERSION, "session_id": self._run, "trajectory_id": located.session.uid}
        yield msgspec.json.encode(head)[:-1] + b',"steps":[\n'
        agent = next((each.turn.agent for each in turns.values()), "") or next(iter(located.session.agents), "unknown")
        children = self._children(transcript) if depth < DEPTH_MOST else []
        version, count = version_of(located.store, located.session) or "unknown", 0
        entries = self._reader.events(located, form="full", turns={*turns, None})
        for number, some in groupby(self._seen(entries), lambda each: each.outline.turn):
            own = list(some)
            steps = _steps(own, turns.get(number or 0), agent, transcript.children)
            for step in steps:
                count += 1
                yield (b",\n" if count > 1 else b"") + msgspec.json.encode({"step_id": count, **step})
        if not count:
            yield msgspec.json.encode({"step_id": 1, **EMPTY})
        yield b'\n],"agent":' + msgspec.json.encode(_agent(agent, version, turns.values()))
        yield b',"final_metrics":' + msgspec.json.encode(_sums(turns.values(), count))
        yield b',"extra":' + msgspec.json.encode(_about(transcript))
        for number, child in enumerate(children):
            yield b",\n" if number else b',"subagent_trajectories":[\n'
            yield from self.pieces(child, depth + 1)
        yield b"]}" if children else b"}"

    def _seen(self, entries: Iterable[SessionEntry]) -> Iterator[SessionEntry]:
        for each in entries:
            self._see(each.event)
            yield each

    def _children(self, transcript: Transcript) -> list[LocatedSession]:
        store = transcript.located.store
        uids = [each.uid for each in transcript.children if each.relation == Relation.SUBAGENT and store.has(each.uid)]
        return [LocatedSession(store, store.session(uid)) for uid in uids]


def _steps(
    entries: Iterable[SessionEntry], listed: ListedTurn | None, agent: str, children: Sequence[Session]
) -> list[Step]:
    """The steps of a turn. A result is put to the step of its call, wherever between others it stands."""
    steps, current, calls = list[Step](), None, dict[str, Step]()
    turn = None if listed is None else listed.turn
    who: Step = {} if turn is None or not turn.model else {"model_name": turn.model}
    if turn is not None and turn.agent != agent:
        who["extra"] = {"agent": turn.agent}
    for each in entries:
        event, at = each.event, {} if each.outline.at is None else {"timestamp": iso(each.outline.at)}
        if isinstance(event, model.Thinking | model.AssistantText | ToolCall):
            if current is None or _is_over(current, event):
                current = {**at, "source": "agent", "message": "", **who}
                steps.append(current)
            _add(current, event, each)
            if isinstance(event, ToolCall):
                calls[event.tool_use_id or current["tool_calls"][-1]["tool_call_id"]] = current
        elif isinstance(event, ToolResult):
            step = calls.get(event.tool_use_id) or (current if not event.tool_use_id else None)
            if step is None:
                step = {**at, "source": "system", "message": ""}
                steps.append(step)
            step.setdefault("observation", {"results": []})["results"].append(_result(event, step, children))
        elif said := _said(event):
            current = None
            steps.append({**at, **said})
    _measure(steps, listed)
    return steps


def _is_over(step: Step, event: Event) -> bool:
    """True if an event begins another step: words behind calls, or a call behind a result."""
    return "observation" in step if isinstance(event, ToolCall) else "tool_calls" in step


def _add(step: Step, event: Event, entry: SessionEntry) -> None:
    match event:
        case model.Thinking(text=text):
            step["reasoning_content"] = "\n\n".join(filter(None, [step.get("reasoning_content", ""), text]))
        case model.AssistantText(text=text):
            step["message"] = "\n\n".join(filter(None, [step["message"], text]))
        case ToolCall():
            given = event.input if isinstance(event.input, dict) else {"input": event.input}
            own_id = event.tool_use_id or f"record-{entry.outline.seq}-{entry.outline.part}"
            call = {"tool_call_id": own_id, "function_name": event.tool_name, "arguments": given}
            step.setdefault("tool_calls", []).append(call)


def _result(event: ToolResult, step: Step, children: Sequence[Session]) -> Step:
    found: Step = {"content": event.content}
    calls = step.get("tool_calls", [])
    call = next((each for each in calls if each["tool_call_id"] == event.tool_use_id), None)
    if call is None and not event.tool_use_id:
        call = next((each for each in reversed(calls) if each["function_name"] == event.tool_name), None)
    if call is not None:
        found["source_call_id"] = call["tool_call_id"]
    if event.tool == Tool.TASK and call is not None and (uid := _started(call["arguments"], event.content, children)):
        found["subagent_trajectory_ref"] = [{"trajectory_id": uid}]
    facts: Step = {"is_error": True} if event.is_error else {}
    facts |= {"duration_ms": event.duration_ms} if event.duration_ms is not None else {}
    return found | ({"extra": facts} if facts else {})


def _started(given: dict[str, Any], content: str, children: Sequence[Session]) -> str | None:
    """The subagent that a call started: its result names it, or it began with the words that the call gave it."""
    texts = [each.strip() for each in given.values() if isinstance(each, str)]
    for child in children:
        own_id, prompt = (child.native_id or "").rpartition("/")[2], (child.first_prompt or "").strip()
        is_named = len(own_id) >= ID_CHARS_MIN and own_id in content
        is_begun = len(prompt) >= PROMPT_CHARS_MIN and any(each.startswith(prompt) for each in texts)
        if child.relation == Relation.SUBAGENT and (is_named or is_begun):
            return child.uid
    return None


def _said(event: Event) -> Step | None:
    """The step of what a person, or a program around the agent, said; None for what says nothing."""
    match event:
        case model.UserMessage(content=content):
            return {"source": "user", "message": content}
        case model.Error(message=message):
            return {"source": "system", "message": message, "extra": {"kind": "error"}}
        case model.Compacted(summary=summary):
            return {"source": "system", "message": summary, "extra": {"kind": "compaction"}}
        case model.Plan(name=name, content=content):
            return {"source": "system", "message": content, "extra": {"kind": "plan", "name": name}}
        case model.Hook(name=name, output=output) if not event.is_state:
            return {"source": "system", "message": output, "extra": {"kind": "hook", "name": name}}
        case model.Command(name=name, output=output):
            return {"source": "system", "message": output, "extra": {"kind": "command", "name": name}}
    return None


def _measure(steps: list[Step], listed: ListedTurn | None) -> None:
    """Note what a turn took at its last step of an agent: logs count it for the turn."""
    last = next((each for each in reversed(steps) if each["source"] == "agent"), None)
    if listed is None or last is None:
        return
    metrics = _counts(listed.turn.tokens)
    if listed.cost.usd is not None:
        metrics["cost_usd"] = listed.cost.usd
    if metrics:
        last["metrics"] = {**metrics, "extra": {"counted_for": "the turn", "cost_kind": str(listed.cost.kind)}}


def _counts(tokens: Tokens) -> dict[str, Any]:
    """The tokens of a turn in the words of the format, which counts cached ones as a part of the prompt."""
    parts = [each for each in (tokens.input, tokens.cache_read, tokens.cache_write) if each is not None]
    found = {"prompt_tokens": sum(parts) if parts else None, "completion_tokens": tokens.output}
    found["cached_tokens"] = tokens.cache_read
    return {name: value for name, value in found.items() if value is not None}


def _sums(turns: Iterable[ListedTurn], steps: int) -> dict[str, Any]:
    """The counts of all turns; a sum to which a turn says nothing is what the others say, and that is noted."""
    counted = [(_counts(each.turn.tokens), each.cost.usd) for each in turns]
    found: dict[str, Any] = {"total_steps": steps}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        known = [counts[name] for counts, _ in counted if name in counts]
        if known:
            found[f"total_{name}"] = sum(known)
    costs = [usd for _, usd in counted if usd is not None]
    if costs:
        found["total_cost_usd"] = sum(costs)
    unknown = {
        "turns_without_tokens": sum(1 for counts, _ in counted if not counts),
        "turns_without_cost": len(counted) - len(costs),
    }
    if any(unknown.values()):
        found["extra"] = unknown
    return found


def _agent(name: str, version: str, turns: Iterable[ListedTurn]) -> dict[str, Any]:
    models = [each.turn.model for each in turns if each.turn.model]
    return {"name": name, "version": version} | ({"model_name": models[0]} if models else {})


def _about(transcript: Transcript) -> dict[str, Any]:
    session = transcript.session
    known = {
        "title": session.heading,
        "folder": session.said_folder,
        "branch": session.branch,
        "outcome": session.outcome,
    }
    return {"backstory": {name: value for name, value in known.items() if value}}
