"""The nouns: events, turns, sessions, logs. Values only, no I/O.

An *event* is the smallest fact shown. Its stored form is one JSON object with one key, the kind:
``{"UserMessage":{"content":"hello"}}``. What an agent's log says becomes events in ``agents/``; what
``conversation.compact.compact_event`` leaves of them is kept beside the bytes they came from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tool(StrEnum):
    """Our names for what agents' tools do. OTHER is a tool without a counterpart."""

    READ = "READ"
    EDIT = "EDIT"
    WRITE = "WRITE"
    SHELL = "SHELL"
    GREP = "GREP"
    GLOB = "GLOB"
    TASK = "TASK"
    FETCH = "FETCH"
    SEARCH = "SEARCH"
    OTHER = "OTHER"


class KindClass(StrEnum):
    """The class of a kind: words of the conversation, the work of tools, or facts about session and agent."""

    SAID = "said"
    DONE = "done"
    META = "meta"


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The family of events; ``kind`` is the name it is stored and shown under."""

    kind: ClassVar[str] = "Event"
    kind_class: ClassVar[KindClass] = KindClass.META


class Init(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An agent began: where, with which model, in which version."""

    kind: ClassVar[str] = "Init"
    cwd: str = ""
    model: str = ""
    version: str = ""


class UserMessage(Event, frozen=True, kw_only=True):
    """A prompt as typed."""

    kind: ClassVar[str] = "UserMessage"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    content: str


class AssistantText(Event, frozen=True, kw_only=True):
    """An answer of the model."""

    kind: ClassVar[str] = "AssistantText"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    text: str


class Thinking(Event, frozen=True, kw_only=True):
    """A thought of the model, if the log holds it in clear."""

    kind: ClassVar[str] = "Thinking"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    text: str


class ToolCall(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A tool was called. ``tool_name`` is the agent's word, ``tool`` ours."""

    kind: ClassVar[str] = "ToolCall"
    kind_class: ClassVar[KindClass] = KindClass.DONE
    tool_use_id: str = ""
    tool_name: str
    tool: str = ""
    file_path: str | None = None
    input: Any = field(default_factory=dict)
    is_compact: bool = False
    """True if its log has no more of it than a compact form."""


class ToolResult(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a tool; name and path are those of its call."""

    kind: ClassVar[str] = "ToolResult"
    kind_class: ClassVar[KindClass] = KindClass.DONE
    tool_use_id: str = ""
    tool_name: str = ""
    tool: str = ""
    file_path: str | None = None
    content: str = ""
    is_error: bool = False
    changes: dict[str, str] = field(default_factory=dict)
    """Files that a command changed, where the agent says so: ``create``, ``edit`` or ``delete`` by path."""
    duration_ms: int | None = None
    """The time that the tool took, if the agent reports it."""
    details: str = ""
    """Other values that the tool returned, as JSON; in the full form only."""
    is_compact: bool = False
    """True if its log has no more of it than a compact form."""


class Error(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The agent or the model failed, or was interrupted."""

    kind: ClassVar[str] = "Error"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    message: str
    code: str = ""


class Plan(Event, frozen=True, kw_only=True):
    """A plan the agent put before the user."""

    kind: ClassVar[str] = "Plan"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    name: str
    content: str


class Hook(Event, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a hook, or the agent itself, put into the conversation.

    ``tool_use_id`` is that of the call by which the subagent is at work whose words these are.
    """

    kind: ClassVar[str] = "Hook"
    tool_use_id: str = ""
    is_state: bool = False
    """True if it only says in which state the agent is now, which nobody reads: SQL has it."""
    name: str
    output: str


class Command(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A command of the agent's own that the user typed, such as /compact, or what it printed."""

    kind: ClassVar[str] = "Command"
    name: str
    output: str = ""


class ModelSwitch(Event, frozen=True, kw_only=True):
    """From here on another model answers."""

    kind: ClassVar[str] = "ModelSwitch"
    model: str


class Retry(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A request failed and was sent again: which try this is, of how many, and why in words."""

    kind: ClassVar[str] = "Retry"
    attempt: int = 0
    attempts_max: int = 0
    message: str = ""


class Compacted(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The agent replaced its own context by a summary."""

    kind: ClassVar[str] = "Compacted"
    kind_class: ClassVar[KindClass] = KindClass.SAID
    summary: str = ""


class Complete(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A turn ended, as the agent says."""

    kind: ClassVar[str] = "Complete"
    success: bool
    duration_ms: int | None = None
    cost_usd: float | None = None


class Unknown(Event, frozen=True, kw_only=True):
    """A record (or part of one) that the adapter does not understand. Its bytes are kept like all others."""

    kind: ClassVar[str] = "Unknown"
    type: str


KINDS: dict[str, type[Event]] = {
    each.kind: each
    for each in (
        Init, UserMessage, AssistantText, Thinking, ToolCall, ToolResult, Error, Plan,
        Hook, Command, ModelSwitch, Retry, Compacted, Complete, Unknown,
    )
}  # fmt: skip


def kinds_of(*classes: KindClass) -> tuple[type[Event], ...]:
    """The kinds of these classes.

    >>> [each.kind for each in kinds_of(KindClass.DONE)]
    ['ToolCall', 'ToolResult']
    """
    return tuple(each for each in KINDS.values() if each.kind_class in classes)


CONTENT_KINDS: tuple[type[Event], ...] = kinds_of(KindClass.SAID, KindClass.DONE)
"""The kinds that make up a turn: after the last of them it is at its end."""
TOOL_KINDS: tuple[type[Event], ...] = kinds_of(KindClass.DONE)
META_KINDS: tuple[type[Event], ...] = kinds_of(KindClass.META)
TEXT_KINDS: tuple[type[Event], ...] = (UserMessage, AssistantText)
READ_KINDS: tuple[type[Event], ...] = (*(each for each in CONTENT_KINDS if each is not Thinking), Command)
"""The kinds to read in order to learn the events of a session."""
"""The words of a person and of the model."""
MESSAGE_KINDS: tuple[type[Event], ...] = (*TEXT_KINDS, *TOOL_KINDS)
"""The kinds in messages between person, model and tools."""
MODEL_KINDS: tuple[type[Event], ...] = (AssistantText, Thinking, ToolCall)
"""The kinds that the model wrote, and was paid for."""
ANSWER_KINDS: tuple[type[Event], ...] = (AssistantText, ToolCall)
"""The kinds that the model wrote and that messages hold."""

_encode = msgspec.json.Encoder().encode


def encoded(value: Any) -> bytes:
    """Any value as JSON. An integer that does not fit into 64 bits becomes the text of its digits."""
    try:
        return _encode(value)
    except OverflowError:
        return _encode(_with_digits(msgspec.to_builtins(value)))


def _with_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_digits(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_with_digits(each) for each in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


def event_to_json(event: Event) -> bytes:
    """An event as stored: UTF-8 JSON with its kind as the only key."""
    return encoded({event.kind: event})


class _Decoders(dict[bytes, "msgspec.json.Decoder[Any] | None"]):
    """The decoder of each kind, made when the first event of the kind is read; None for a kind that is not known."""

    def __missing__(self, kind: bytes) -> msgspec.json.Decoder[Any] | None:
        found = _KINDS_BY_NAME.get(kind)
        if found is None:
            return None
        self[kind] = decoder = msgspec.json.Decoder(found)
        return decoder


_KINDS_BY_NAME = {each.kind.encode(): each for each in KINDS.values()}
_decoders = _Decoders()


def event_from_json(data: bytes) -> Event:
    """The event that ``event_to_json`` wrote; a kind of a later version becomes ``Unknown``."""
    end = data.find(b'":', 2)
    decoder = _decoders[data[2:end]]
    if decoder is not None and data.startswith(b'{"'):
        event: Event = decoder.decode(data[end + 2 : -1])
        return event
    return _event_from_any(data)


def _event_from_any(data: bytes) -> Event:
    """An event as another program may have written it: with blanks, or of a kind that is not known."""
    (kind, body), *_ = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).items()
    decoder = _decoders[kind.encode()]
    event: Event = decoder.decode(body) if decoder is not None else Unknown(type=kind)
    return event


def own_line(at: int, turn_uid: str | None, name: str, body: bytes) -> bytes:
    """A line of the log that a session of ours is kept as: when, in which turn, and what ``name`` says it is."""
    return b'{"at":%d,"turn":%s,"%s":%s}' % (at, _encode(turn_uid), name.encode(), body)


class OwnLine(Struct, frozen=True, kw_only=True):
    """Such a line, read back; ``event`` is empty for one that says how a turn ended.

    The lines of an import without bytes have all ``events`` of a record instead, each with its part.
    """

    at: int | None
    turn: str | None = None
    event: msgspec.Raw = msgspec.Raw(b"")
    events: list[tuple[int, msgspec.Raw]] = []


PARTIAL = "partial"
"""A turn's ``tokens_source`` where a part of what was counted is missing: its tokens are at least what is written."""


class Permissions(StrEnum):
    """Actions that a run may take without asking. AGENT leaves it to the agent's own settings."""

    AGENT = "agent"
    ASK = "ask"
    EDIT = "edit"
    ALL = "all"


class Tokens(Struct, kw_only=True):
    """Tokens of one turn; None where the log does not say."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cache_write_1h: int | None = None
    """The part of ``cache_write`` that a cache holds for an hour."""
    largest_input: int | None = None
    """The input of the largest request, caches included."""

    def plus(self, other: Tokens) -> Tokens:
        """The sums of both, and of the largest requests the larger; a number that one of them lacks is not known.

        >>> Tokens(input=1).plus(Tokens(input=2, output=3))
        Tokens(input=3, output=None, cache_read=None, cache_write=None, reasoning=None, cache_write_1h=None, \
largest_input=None)
        """

        def both(name: str) -> int | None:
            mine: int | None = getattr(self, name)
            others: int | None = getattr(other, name)
            if mine is None or others is None:
                return None
            return max(mine, others) if name == "largest_input" else mine + others

        return Tokens(**{name: both(name) for name in self.__struct_fields__})


def tokens_as_json(tokens: Any) -> dict[str, int | None]:
    """Return the counts that all JSON gives of tokens, of a turn or of sums by the same names."""
    return {name: getattr(tokens, name) for name in ("input", "output", "cache_read", "cache_write")}


STOPPED_TO_COMPACT = "compaction"
"""``Turn.stop_reason`` of a turn that was stopped for a summary; the turn behind it continues its work."""


class Outcome(StrEnum):
    """The outcome of a turn."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CRASHED = "crashed"


class Turn(Struct, kw_only=True):
    """A prompt and all that follows until the next. Times in ms since 1970, UTC; None where the log has none."""

    uid: str
    agent: str
    native_id: str = ""
    first_seq: int = 0
    last_seq: int = 0
    parent_uid: str | None = None
    parent_seq: int | None = None
    prompt: str = ""
    model: str | None = None
    started: int | None = None
    ended: int | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    api_latency_ms: int | None = None
    """The time that the model took: the sum of its requests, as the agent reports it."""
    duration_ms: int | None = None
    tokens: Tokens = field(default_factory=Tokens)
    tokens_source: str | None = None
    cost_usd: float | None = None
    cost_source: str | None = None
    context_window: int | None = None
    """The model's largest input in tokens, as the agent reports it."""


class TurnWithEvents(Struct, frozen=True, kw_only=True):
    """A turn and its events, in order."""

    turn: Turn
    events: Sequence[Event]
    is_rest: bool = False
    """True if these are only its last events: a summary covers its prompt."""


HOST_TYPE, CONTEXT = "host_type", "context:"
"""Keys of a session's values: where its repository is hosted, and the beginning of those of its user's own."""


class SessionFacts(Struct, kw_only=True):
    """Facts of a log about its session as a whole."""

    title: str | None = None
    cwd: str | None = None
    branch: str | None = None
    repository: str | None = None
    agent_version: str | None = None
    left_branches: list[str] | None = None
    """Git branches that it was on before ``branch``."""
    leaf: tuple[str, int] | None = None
    """The turn, by its uid, and the record that the next prompt follows, where that is not the newest."""
    values: dict[str, str] | None = None
    """Further values: HOST_TYPE, and under CONTEXT and a key what its user put there."""

    def note_value(self, key: str, value: str) -> None:
        """Note a value; an empty key or value says nothing."""
        if key and value:
            self.values = (self.values or {}) | {key: value}

    def on_branch(self, name: str) -> None:
        """Note the git branch that the session is on from here on."""
        if self.branch is not None and self.branch != name:
            self.left_branches = list(dict.fromkeys((*(self.left_branches or ()), self.branch)))
        self.branch = name

    @property
    def branches(self) -> list[str]:
        """Every git branch that it was on."""
        return [*(self.left_branches or ()), *([self.branch] if self.branch else [])]


class Relation(StrEnum):
    """The relation of a session to its parent."""

    SUBAGENT = "subagent"
    FORK = "fork"
    CONTINUATION = "continuation"
    UNREAD = "unread"
    """It comes from none, and is no conversation: a file that is kept and that nobody understands."""
    ASIDE = "aside"
    """It is a file beside the session's others, with nothing of the conversation yet: by itself no conversation."""
    RETOLD = "retold"
    """It comes from none: another program's record of what agents said, of which their own logs say more."""


DOCUMENT_LINE = b'{"backstory-document":'
"""A line that begins so is ours, in what is kept of a document that its agent writes anew; see agents.documents."""


class LogIdentity(Struct, frozen=True, kw_only=True):
    """The identity of a log: the session's native id, and the session it belongs under."""

    native_id: str
    parent_native_id: str | None = None
    relation: str | None = None
    cwd: str | None = None
    """The folder that the session began in, where only the place of the log says it."""
    began: int | None = None
    """The begin of the session, ms since 1970, if no ``timestamp`` says it; of a time without a zone as if it were in
    UTC, so the same on every machine."""


class Ref(Struct, frozen=True):
    """A pull request (or merge request), an issue (or work item) or a commit.

    ``value`` is "12" or a commit's hash for the session's own repository, else "owner/repo#12" or "owner/repo@hash".
    ``host`` and ``repository`` are None where neither the text nor the session names them.
    """

    type: str
    value: str
    host: str | None = None
    repository: str | None = None


class At(Struct, frozen=True):
    """The place where something was found: record and part, turn, time (ms since 1970)."""

    seq: int
    part: int
    turn_uid: str | None
    at: int | None


class FoundRef(Struct, frozen=True):
    """A pull request, issue or commit was named."""

    where: At
    ref: Ref


class FoundSummary(Struct, frozen=True):
    """A conversation was called something in a few words. It may be another session's: the one that holds ``leaf``."""

    leaf: bytes
    """The key of the record that the conversation ended with; see ``ids.record_key``."""
    title: str


class Record(Struct, frozen=True):
    """The contents of one record of any kind of log: its events with their parts, its turn, its time."""

    events: list[tuple[int, Event]]
    turn_uid: str | None = None
    at: int | None = None
    takes_number: bool = True
    """False for a delta, which a later record says whole."""
    delta: str = ""
    """Text to show at once."""


OWN_PARTS_FROM = 8
"""The first part of a record's own events, where prompts that earlier records hold come before them. Else it is 0."""
PART_MIN = -1_000
"""The smallest part that is read: an earlier version numbered such prompts below 0."""


class Parts:
    """Numbers events within their record. All events of a record are passed in their order.

    An earlier version numbered a prompt that an earlier record holds below 0; such a record's parts are moved up.

    >>> parts = Parts()
    >>> [parts.of(6, -1), parts.of(6, 0), parts.of(7, 0)]
    [7, 8, 0]
    """

    def __init__(self) -> None:
        self._seq, self._shift = 0, 0

    def of(self, seq: int, part: int) -> int:
        """Return the part of the next event of record ``seq``."""
        if seq != self._seq:
            self._seq, self._shift = seq, max(OWN_PARTS_FROM, -part) if part < 0 else 0
        return part + self._shift


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts of the agent's own log on records of a run's stream; each is named by its offset in the stream."""

    times: dict[int, int] = {}
    """The time in ms since 1970."""
    inputs: dict[int, dict[str, Any]] = {}
    """The arguments of its call, if the stream does not contain all of them."""


class Parsed(Struct, frozen=True):
    """The contents of one record: its time, its events (their order is their part number), its turn."""

    at: int | None
    events: list[tuple[int, Event]]
    turn: Turn | None
    refs: Sequence[FoundRef] = ()
    """Pull requests, issues and commits that stand by themselves in the record, in no text and no call."""
    summaries: Sequence[FoundSummary] = ()
    """Titles that the record gives to sessions, also to others."""
    record_ids: Sequence[str] = ()
    """The agent's own ids of what stands in the record, where a summary may name one."""
    has_reports: bool = False
    """True if the record repeats what a subagent said."""
