"""GitHub Copilot CLI's logs: ``session-state/<session>/events.jsonl`` below COPILOT_HOME (else ~/.copilot).

Source: recorded logs of 1.0.77 to 1.0.102 and the event schema that 1.0.102 ships. Older builds left a flat
``session-state/<session>.jsonl``. A line is ``{type, data, id, timestamp, parentId, agentId?, ephemeral?}``. A prompt
is written twice, as typed (``content``) and as sent (``transformedContent``). An answer is one record with its text and
the calls it asks for; each call comes again when it starts, and its result follows by ``toolCallId``. What a subagent
does stands in the same file, marked by ``agentId`` or ``parentToolCallId``: its calls are events of the turn, its
words are none of the agent's answer. A rewind cuts the file off before a prompt, so the records are one line of turns.

Tokens: newer builds write a receipt for each request (``session.usage_record``), older ones only an answer's output
tokens and, at the end, the totals of the process, which go on counting when a session is resumed. What such a total
says beyond what was counted already goes to the last turn. A compaction's tokens are in no total. Costs are written in
credits, which are not money, so there are none here.

Beside a log lie its companions: ``workspace.yaml`` (flat, and the only place of a session's title), ``plan.md``,
``checkpoints/NNN-slug.md`` with their titles in ``index.md``, and what the session made in ``files`` and ``research``.
``session-store.db`` holds the prompts and last answers of all sessions, also of those whose folders are gone.

Builds before 0.0.342 kept a session as one document, ``history-session-state/session_<session>_<ms>.json``. Its
``timeline`` is what was on the screen, with times; its ``chatMessages``, what the model was sent, have none and lack
what the model forgot, so they are read only where there is no timeline.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from backstory import ids
from backstory.agents import jsonl, numbers, turn_fold
from backstory.agents.contract import LogRoot
from backstory.agents.copilot import document, rows
from backstory.agents.copilot.document import DocumentFold
from backstory.agents.copilot.fold import RECENT_IDS, State
from backstory.agents.copilot.places import DATABASE, EARLIEST, FOLDER, LOG, holds_documents, is_document, is_moved
from backstory.agents.copilot.records import Line, _decoder, is_ours, records_on, session_started
from backstory.agents.copilot.row_fold import RowFold
from backstory.agents.copilot.values import as_text, attachments_in, hooks, message_text, plain_text, prompt_of
from backstory.conversation.context import strip_context
from backstory.lazy import lazy_regex
from backstory.model import (
    AssistantText,
    Command,
    Compacted,
    Complete,
    Error,
    Event,
    Init,
    LogIdentity,
    ModelSwitch,
    Outcome,
    Parsed,
    Relation,
    Tokens,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


KEPT = frozenset(
    {
        "assistant.fusion_phase_completed", "assistant.fusion_phase_failed", "assistant.turn_start",
        "external_tool.requested", "hook.start", "human_response.recorded", "mcp.oauth_recovery_completed",
        "permission.assentDetected", "permission.carriedForward", "permission.completed",
        "permission.contextualAuthorization", "permission.messageAuthorization",
        "permission.messageAuthorizationDegraded", "permission.messageAuthorizationRead", "permission.requested",
        "session.autopilot_objective_changed", "session.binary_asset", "session.canvas.recorded",
        "session.canvas.removed", "session.compaction_start", "session.completion_receipt",
        "session.fusion_change_checkpoint", "session.fusion_commit_started", "session.fusion_completed",
        "session.fusion_handoff", "session.fusion_resolved", "session.fusion_route_failed", "session.mode_changed",
        "session.mode_notice_delivered", "session.model_deselected",
        "session.permission_recovery", "session.permissions_changed", "session.plan_changed",
        "session.remote_steerable_changed", "session.request_body_compression_disabled", "session.schedule_cancelled",
        "session.schedule_created", "session.schedule_rearmed", "session.session_limits_changed",
        "session.snapshot_rewind", "session.truncation", "session.usage_checkpoint", "session.usage_info",
        "session.workspace_file_changed", "skill.context_delivered", "skill.context_delivered_ref",
        "skill.invoked_ref", "subagent.completed", "subagent.configured", "subagent.deselected", "subagent.selected",
        "subagent.started", "system.message", "tool_search.activated",
    }
)  # fmt: skip
"""Types whose records say nothing that is shown; their bytes are kept."""
KEPT_PREFIX = "model."
"""A compaction by hand leaves its request to the model in the log, with all that the model was sent."""
_FILE_ID = lazy_regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_NOT_TYPED = lazy_regex(r"agent-|autopilot$|hook|inbox|jit|notification|sidekick|skill|system")
_DOCUMENT_ID = lazy_regex(r"session_([0-9a-f-]{36})_\d+$")


class Logs:
    """See ``contract.LogPart``."""

    def roots(self, environ: Mapping[str, str], home: Path) -> list[LogRoot]:
        roots = [Path(environ.get("COPILOT_HOME") or home / ".copilot")]
        # Early builds kept their state there; today's moves it at its first start and leaves a link.
        if state_home := environ.get("XDG_STATE_HOME"):
            roots.append(Path(state_home) / ".copilot")
        places = {root / FOLDER: LogRoot(folder=root / FOLDER, root=root) for root in roots if not is_moved(root)}
        # No build of today makes the earliest ones' folder.
        earliest = (LogRoot(folder=root / EARLIEST, root=root) for root in roots if holds_documents(root))
        return list((places | {each.folder: each for each in earliest}).values())

    def is_log(self, path: Path) -> bool:
        if is_document(path):
            return True
        if not path.name.endswith(jsonl.ENDINGS):
            return False
        stem = jsonl.stem(path)
        # A session's own files may be named like anything, so only these two places count.
        if path.parent.name == FOLDER:
            return _FILE_ID.match(stem) is not None
        return stem == LOG and path.parent.parent.name == FOLDER

    def identify(self, path: Path, head: bytes) -> LogIdentity | None:
        if is_document(path):
            return _identify_document(path, head)
        lines = list(jsonl.lines_in(head))
        if DATABASE in path.name and (of_row := next(filter(None, map(rows.session_of, lines[:1])), None)):
            return LogIdentity(native_id=of_row)
        if not any(map(is_ours, lines)):
            return None
        start = next(filter(None, map(session_started, lines)), {})
        if not start and b"\n" not in head and len(head) < ids.HEAD_BYTES:
            # A first record that is torn may still say whose it is.
            return None
        stem = jsonl.stem(path)
        own = as_text(start.get("sessionId")) or (path.parent.name if stem == LOG else stem)
        parent = as_text(start.get("detachedFromSpawningParentSessionId"))
        if not parent:
            return LogIdentity(native_id=own)
        return LogIdentity(native_id=own, parent_native_id=parent, relation=Relation.SUBAGENT)

    def reader(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> Reader:
        return Reader(identity, state, earlier)

    def is_whole(self, line: bytes) -> bool:
        if document.is_record(line):
            return document.is_closed(line)
        return jsonl.is_whole(line)

    def native_id_of(self, line: bytes) -> str | None:
        return _native_id_of(line)


def _native_id_of(line: bytes) -> str | None:
    if document.is_record(line):
        return document.native_id_of(line)
    record = jsonl.first(line, _decoder)
    return as_text(record.id) or None if record is not None else None


class Documents:
    """See ``contract.DocumentPart``."""

    def is_document(self, path: PurePath) -> bool:
        return is_document(path)

    def pieces(self, document: bytes) -> list[bytes] | None:
        return None

    def record_end(self, head: bytes) -> re.Pattern[bytes]:
        return document.record_end(head)

    def started_ms(self, head: bytes) -> int:
        return document.started_ms(head)


def _identify_document(path: Path, head: bytes) -> LogIdentity | None:
    session = document.session_of(head)
    if session is None:
        return None
    named = _DOCUMENT_ID.match(path.stem)
    return LogIdentity(native_id=session or (named.group(1) if named else path.stem))


def _task_complete(data: dict[str, Any]) -> list[Event]:
    summary = plain_text(data.get("summary"))
    said: list[Event] = [AssistantText(text=summary)] if summary else []
    if as_text(data.get("outcome")) == "continue":
        return said
    return [*said, Complete(success=data.get("success") is not False)]


class Reader(DocumentFold, RowFold):
    """Folds one log. See ``contract.LogReader``."""

    def __init__(self, identity: LogIdentity, state: bytes | None, earlier: Callable[[], Iterable[bytes]]) -> None:
        super().__init__(identity, state)
        self._earlier, self._ids = earlier, dict.fromkeys(self._state.recent_ids)

    def _storable(self) -> State:
        return msgspec.structs.replace(super()._storable(), recent_ids=[*self._ids][-RECENT_IDS:])

    def read(self, line: bytes, seq: int) -> Parsed:
        if document.is_record(line):
            return self._document(line, seq)
        records, is_torn = records_on(line)
        self._refs = []
        at, events = None, [self.unknown.emit("not JSON")] if is_torn else list[Event]()
        for record in records:
            at = numbers.time_ms(record.timestamp)
            if record.table is not None and isinstance(record.row, dict):
                events += self._row(as_text(record.table), record.row, at, seq)
            else:
                events += self._record(record, at, seq)
            # A line that lost its end may hold several prompts.
            self._turn_at(seq)
        return Parsed(at, list(enumerate(events)), self._turn_at(seq), self._refs)

    def _record(self, record: Line, at: int | None, seq: int) -> list[Event]:
        kind, data = as_text(record.type), record.data if isinstance(record.data, dict) else {}
        if (native_id := as_text(record.id)) and self._is_copy(native_id):
            return []
        if record.ephemeral is True or kind == "session.title_changed":
            self._note_title(kind, data)
            return []
        if record.agent_id or data.get("parentToolCallId"):
            events = self._state.helpers.named(self._aside(kind, data), kind, data, record.agent_id)
        else:
            events = self._own(kind, data, as_text(record.id), at, seq)
            self._close(kind, data, events, at)
        self._note_end(events, at)
        return events

    def _is_copy(self, native_id: str) -> bool:
        """Return True if this log had the record already: a repeated log begins with the first one."""
        state = self._state
        state.first_id = state.first_id or native_id
        if (native_id == state.first_id and self._ids) or state.has_copies:
            state.has_copies = True
            self._ids |= dict.fromkeys(known for line in self._earlier() if (known := _native_id_of(line)))
            self._earlier = tuple
        if native_id in self._ids:
            return True
        self._ids[native_id] = None
        return False

    def _own(self, kind: str, data: dict[str, Any], native_id: str, at: int | None, seq: int) -> list[Event]:
        """Return the events of the agent itself, or of its user."""
        match kind:
            case "user.message":
                return self._user(data, native_id, at, seq)
            case "assistant.message":
                return self._answer(kind, data)
            case "assistant.reasoning":
                return self._thinking(kind, as_text(data.get("content")))
            case "tool.execution_start":
                return self._started(data)
            case "tool.user_requested":
                return [self._typed_command(data)]
            case "tool.execution_complete":
                return [self._result(data)]
            case "abort":
                return [
                    Error(message=f"aborted: {as_text(data.get('reason')) or 'no reason given'}", code="interrupted")
                ]
            case "session.error":
                code = data.get("statusCode") or data.get("errorCode") or data.get("errorType") or ""
                return [Error(message=plain_text(data.get("message")), code=plain_text(code))]
            case "session.task_complete":
                return _task_complete(data)
            case _:
                return self._session(kind, data)

    def _aside(self, kind: str, data: dict[str, Any]) -> list[Event]:
        """Return the events of a subagent: its prompt, words and calls."""
        match kind:
            case "user.message":
                return hooks("subagent prompt", prompt_of(data))
            case "assistant.message":
                self._note_answer_tokens(data)
                said = hooks("subagent", as_text(data.get("content")))
                return [*self._thinking(kind, as_text(data.get("reasoningText"))), *said, *self._requests(data)]
            case "assistant.reasoning":
                return self._thinking(kind, as_text(data.get("content")))
            case "tool.execution_start":
                return self._started(data)
            case "tool.execution_complete":
                return [self._result(data)]
            case "session.compaction_complete":
                self._note_compaction_tokens(data)
                return []
            case "abort" | "session.model_change" | "session.task_complete":
                return []
            case "session.error":
                return hooks("subagent error", plain_text(data.get("message")))
            case _:
                return self._session(kind, data)

    def _session(self, kind: str, data: dict[str, Any]) -> list[Event]:
        """Return the events about a session, whoever is at work in it."""
        match kind:
            case "session.start":
                return [self._begin_session(data)]
            case "session.resume":
                self._note_place(data.get("context"))
                self._state.has_receipts = False
                return self._select(as_text(data.get("selectedModel")))
            case "session.context_changed":
                self._note_place(data)
                return []
            case "session.model_change":
                return self._select(as_text(data.get("newModel")))
            case "session.auto_mode_resolved":
                return self._route(as_text(data.get("chosenModel")))
            case "session.usage_record":
                self._note_receipt(data.get("usage"))
                return []
            case "session.shutdown":
                return self._shut_down(data)
            case "session.compaction_complete":
                return self._compacted(data)
            case _:
                return self._notice(kind, data)

    def _notice(self, kind: str, data: dict[str, Any]) -> list[Event]:
        match kind:
            case "session.context_cleared":
                return [Command(name="/clear", output=as_text(data.get("initialMessage")))]
            case "session.handoff":
                return self._handed_off(data)
            case "session.info" | "session.warning":
                name = data.get("infoType") or data.get("warningType") or kind
                return hooks(plain_text(name), plain_text(data.get("message")))
            case "system.notification":
                about = data.get("kind")
                name = as_text(about.get("type")) if isinstance(about, dict) else ""
                return hooks(name or "notification", plain_text(data.get("content")))
            case "hook.end":
                words = data.get("error") if data.get("error") is not None else data.get("output")
                return hooks(as_text(data.get("hookType")) or "hook", message_text(words))
            case "skill.invoked":
                return hooks(f"skill {as_text(data.get('name'))}", plain_text(data.get("content")))
            case "subagent.failed":
                return hooks("subagent failed", plain_text(data.get("error")))
            case "assistant.turn_end":
                return []
            case _:
                is_kept = kind in KEPT or kind.startswith(KEPT_PREFIX)
                return [] if is_kept else [self.unknown.emit(kind or "record without a type")]

    def _begin_session(self, data: dict[str, Any]) -> Init:
        state, context = self._state, data.get("context")
        self._note_place(context)
        state.session.agent_version = as_text(data.get("copilotVersion")) or state.session.agent_version
        state.selected, state.routed, state.has_prompts = as_text(data.get("selectedModel")) or None, None, False
        # Several processes may have written to one file, each counting from zero.
        state.has_receipts = False
        self._count_anew(Tokens())
        state.latency = turn_fold.Total(0, state.turns_seen)
        cwd = as_text(context.get("cwd")) if isinstance(context, dict) else ""
        return Init(cwd=cwd, model=state.selected or "", version=state.session.agent_version or "")

    def _note_title(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "session.title_changed" and (title := as_text(data.get("title")).strip()):
            self._state.session.title = title

    def _route(self, model: str) -> list[Event]:
        before, self._state.routed = self._state.routed, model or self._state.routed
        return [ModelSwitch(model=model)] if model and before not in (None, model) else []

    def _handed_off(self, data: dict[str, Any]) -> list[Event]:
        repository = data.get("repository")
        if isinstance(repository, dict) and repository.get("owner") and repository.get("name"):
            name = f"{as_text(repository['owner'])}/{as_text(repository['name'])}"
            self._note_place({"repository": name, "branch": repository.get("branch")})
        texts = [plain_text(data.get("context")), plain_text(data.get("summary"))]
        return hooks("handoff", "\n\n".join(text for text in texts if text))

    def _user(self, data: dict[str, Any], native_id: str, at: int | None, seq: int) -> list[Event]:
        source = as_text(data.get("source"))
        if data.get("isAutopilotContinuation") is True:
            return hooks("autopilot", prompt_of(data))
        if _NOT_TYPED.match(source):
            return hooks(source, prompt_of(data))
        text = as_text(data.get("content"))
        typed = strip_context(text)
        attached = attachments_in(data.get("attachments"))
        prompt = typed if typed.strip() else attached
        if not prompt:
            return hooks("context", text)
        self._begin_prompt(native_id, prompt, at, seq)
        return [UserMessage(content=prompt)]

    def _answer(self, kind: str, data: dict[str, Any]) -> list[Event]:
        self._note_answer_tokens(data)
        if self._state.turn is not None:
            self._state.turn.model = as_text(data.get("model")) or self._state.turn.model
        text = plain_text(data.get("content"))
        said: list[Event] = [AssistantText(text=text)] if text else []
        requests = self._requests(data)
        self._state.has_answered = not requests
        return [*self._thinking(kind, as_text(data.get("reasoningText"))), *said, *requests]

    def _close(self, kind: str, data: dict[str, Any], events: list[Event], at: int | None) -> None:
        """Note what a record of the agent's own says about how its turn stands."""
        state, turn = self._state, self._state.turn
        if turn is None:
            return
        match kind:
            case "assistant.turn_start":
                state.is_running, turn.outcome = True, None
            case "assistant.turn_end":
                state.is_running = not state.has_answered
                turn.outcome = turn.outcome or (Outcome.COMPLETED if state.has_answered else None)
            case "assistant.message":
                turn.outcome = Outcome.COMPLETED if state.has_answered and events else None
            case "abort":
                state.is_running, turn.outcome = False, Outcome.CANCELLED
                turn.stop_reason = as_text(data.get("reason")) or turn.stop_reason
            case "session.error":
                state.is_running, turn.outcome = False, Outcome.FAILED
            case "session.task_complete" if as_text(data.get("outcome")) != "continue":
                # What follows in the same step is the end of it.
                state.is_running, state.has_answered = False, True
                turn.outcome = Outcome.FAILED if data.get("success") is False else Outcome.COMPLETED
                turn.stop_reason = as_text(data.get("outcome")) or turn.stop_reason
            case "session.start" | "session.resume" if state.is_running and data.get("sessionWasActive") is not True:
                # The process before this one never said that it ended.
                state.is_running, turn.outcome = False, Outcome.CRASHED
            case "session.shutdown" if state.is_running and turn.outcome is None:
                state.is_running, turn.ended = False, at or turn.ended
                turn.outcome = Outcome.CRASHED if data.get("shutdownType") == "error" else Outcome.CANCELLED

    def _shut_down(self, data: dict[str, Any]) -> list[Event]:
        self._note_totals(data.get("modelMetrics"), data.get("totalApiDurationMs"))
        reason = plain_text(data.get("errorReason")) if data.get("shutdownType") == "error" else ""
        return [Error(message=reason, code="shutdown")] if reason else []

    def _compacted(self, data: dict[str, Any]) -> list[Event]:
        self._note_compaction_tokens(data)
        if data.get("success") is False:
            return hooks("compaction failed", plain_text(data.get("error")) or plain_text(data.get("outcomeReason")))
        return [Compacted(summary=plain_text(data.get("summaryContent")))]
