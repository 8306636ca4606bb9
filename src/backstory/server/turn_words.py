"""Turns of a session as the server keeps them: what they used, and the words by which they are found. Pure."""

from __future__ import annotations

import base64
import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from backstory.derive.index_text import PART_SIGN, Scope, index_text, searchable
from backstory.lazy import lazy_regex
from backstory.model import ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backstory.model import Event

INPUT_CHARS = 600
"""The beginning of a tool's input that is searched. Its results are not."""
SAID_CHARS_MAX = 1_000_000
"""The most characters of one turn that are kept to be searched."""
WORD_BYTES_MAX = 1_000
VECTOR_BYTES_MAX = 1_040_000
"""PostgreSQL takes 1 MB of words and their places, and not more than is counted here."""
PLACE_MAX, PLACES_MAX = 16_383, 255
"""The last place in a text, and the most places of one word, that PostgreSQL notes."""
WEIGHTS = {Scope.PROMPT.value: "A", Scope.ANSWER.value: "B", Scope.COMMAND.value: "C", Scope.TOOL_INPUT.value: "D"}
"""The scopes that are searched, and the letter by which PostgreSQL knows the words of each."""
LABEL_SIGN = "\ue001"
"""No word of a text has it."""
SLASHES_MAX, AGENTS_MAX = 32, 100
"""The names of a repository have fewer slashes, or are no labels; a session is labelled by so many of its agents."""
_WORD = lazy_regex(rf"{PART_SIGN}?[^\W_]+")


class ToolUse(Struct):
    """The calls of one tool in a turn; the words are those of ``ask.tool_stats``."""

    calls: int = 0
    failed: int = 0
    without_result: int = 0


class SaidText(Struct, frozen=True, array_like=True):
    """The text of an event that is searched, and where in the session it is."""

    seq: int
    part: int
    kind: str
    scope: str
    text: str


class SaidTurn(Struct):
    """The texts of a turn that are searched, and its calls by tool."""

    said: list[SaidText] = field(default_factory=list)
    tools: dict[str, ToolUse] = field(default_factory=dict)

    @property
    def kept(self) -> list[SaidText]:
        """The texts of which excerpts are shown: the first of them, in all so many characters."""
        found, room = list[SaidText](), SAID_CHARS_MAX
        for each in self.said:
            if room > 0:
                found.append(replace(each, text=each.text[:room]))
                room -= len(each.text)
        return found

    def words(self, sign: str, labels: Iterable[str] = ()) -> str:
        """The words and labels of it, as PostgreSQL reads a tsvector. ``sign``: of the organisation."""
        return vector(((each.text, WEIGHTS[each.scope], each.scope) for each in self.said), sign, labels)


def said_in(events: Iterable[tuple[int | None, int, int, Event]]) -> dict[int, SaidTurn]:
    """Return what was said and called in each turn of a session, by its number; events come with their seq and part.

    What comes before the first prompt belongs to the first turn.
    """
    found: dict[int, SaidTurn] = {}
    waiting: dict[str, ToolUse] = {}
    for number, seq, part, event in events:
        turn = found.setdefault(number or 1, SaidTurn())
        if isinstance(event, ToolResult) and (use := waiting.pop(event.tool_use_id, None)) is not None:
            use.failed += event.is_error
            use.without_result -= 1
        text = searchable(event)
        if text is not None and text[0] in WEIGHTS:
            scope, words = text
            cut = words[:INPUT_CHARS] if scope == Scope.TOOL_INPUT else words
            turn.said.append(SaidText(seq, part, type(event).__name__, scope, cut))
        if isinstance(event, ToolCall):
            use = turn.tools.setdefault(event.tool_name.replace("\0", ""), ToolUse())
            use.calls += 1
            use.without_result += 1
            waiting[event.tool_use_id] = use
    return found


def sign_of(tenant: int) -> str:
    """Return the sign that stands before each word of an organisation in the index.

    No word there is another organisation's, too: how long it takes to look for one tells nothing of what others have.
    """
    return base64.b32encode(tenant.to_bytes(8)).decode()[6:12]


def label(kind: str, value: str) -> str:
    """Return what stands among the words of a turn for something that its session is of."""
    return f"{LABEL_SIGN}{base64.b32encode(sha256(f'{kind} {value}'.encode()).digest()[:15]).decode()}"


def repository_label(repository: str) -> str:
    """Return the label of exactly this repository, by which a token is good for it."""
    return label("repository", repository)


def agent_label(agent: str) -> str:
    """Return the label of an agent."""
    return label("agent", agent)


def place_label(name: str) -> str | None:
    """Return the label of what a person calls a repository or a project; None where a name has none."""
    return label("place", name.lower()) if name.count("/") < SLASHES_MAX else None


def labels_of(repository: str, project: str | None, agents: Iterable[str]) -> list[str]:
    """Return the labels of a session: of its repository and its project, also by their ends, and of its agents."""
    named = {repository, *([] if project is None else [project])}
    ends = {each.split("/", n)[n] for each in named for n in range(each.count("/") + 1)}
    places = {found for each in ends if (found := place_label(each)) is not None}
    of_agents = {agent_label(each) for each in list(agents)[:AGENTS_MAX]}
    return [repository_label(repository), *sorted(places | of_agents)]


def vector(parts: Iterable[tuple[str, str, str]], sign: str, labels: Iterable[str] = ()) -> str:
    """Return texts, each with its weight and its scope, as a tsvector is written.

    Between two texts a place is empty, so that no phrase begins in one and ends in the next.
    """
    places: dict[str, list[str]] = {}
    marked = [f"'{sign}{each}'" for each in labels]
    size, place = sum(len(each.encode()) + 4 for each in marked), 0
    for text, weight, scope in parts:
        place += 1
        for word in words_of(text, scope):
            place += 1
            known = places.get(word)
            if known is None:
                length = len(word.encode())
                if length > WORD_BYTES_MAX or size + len(sign) + length > VECTOR_BYTES_MAX:
                    continue
                known = places[word] = []
                size += len(sign) + length + 4
            if (len(known) < PLACES_MAX and place <= PLACE_MAX) or not known:
                known.append(f"{min(place, PLACE_MAX)}{weight}")
                size += 2
    return " ".join((*marked, *(f"'{sign}{word}':{','.join(known)}" for word, known in places.items())))


def words_of(text: str, scope: str | None = None) -> Iterator[str]:
    """Yield the words of a text as a store's index has them: lower case, no accents, parts of identifiers too."""
    plain = index_text(text, scope)
    if not plain.isascii():
        plain = "".join(each for each in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(each))
    for found in _WORD.finditer(plain.lower()):
        yield found.group()
