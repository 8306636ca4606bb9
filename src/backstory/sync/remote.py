"""A team server, asked over HTTP. It waits as long as the server says, and sends again what may have been lost."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from backstory.errors import LoginRefused, ServerBusy, ServerOther, ServerRefused, ServerUnreachable, SyncNotInstalled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    import httpx

CONNECT_S, ANSWER_S = 10.0, 60.0
PROTOCOL = 1
"""The version of what is said with a server; each side says its own with all that it says."""
SERVER_PROTOCOL_LEAST = 1
"""The oldest server that is asked."""
PROTOCOL_HEADER = "Backstory-Protocol"
CLIENT_TOO_OLD = "client_too_old"
"""The server's word for a client that has to be updated."""
TRIES = 5
WAIT_S, WAIT_S_MAX = 0.5, 15.0
"""The first wait before another try, doubled each time, and the longest; each by chance half as long at least."""
DAY_S = 86_400.0
ASKED_S_MAX = 60.0
"""The longest wait that a server asks for and gets; one that asks for more is left alone."""
TRY_AGAIN = frozenset({429, 502, 503, 504})


NOT_OURS = "what answers is no server of backstory"
Answer = TypeVar("Answer", bound=Struct)


class _Reason(msgspec.Struct, frozen=True):
    kind: str
    message: str


class _Refusal(msgspec.Struct, frozen=True):
    error: _Reason


class Remote:
    """A server at ``address``. ``token``: of the person, once there is one; ``machine``: the id of this machine.

    ``wait`` sleeps for some seconds; without ``is_patient`` each request is tried once.
    """

    def __init__(
        self, address: str, token: str | None = None, machine: str | None = None,
        wait: Callable[[float], None] = time.sleep, is_patient: bool = True,
    ) -> None:  # fmt: skip
        try:
            import httpx
        except ImportError as missing:
            raise SyncNotInstalled from missing
        self.address, self.machine, self._wait = address, machine, wait
        self._httpx, self._tries = httpx, TRIES if is_patient else 1
        self._is_away, self.has_answered = False, False
        """The latter: since it was away, when another one may have come in its place."""
        self.requests = 0
        """The number of requests that were sent."""
        headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if machine is not None:
            headers["Backstory-Machine"] = machine
        try:
            # Without encryption there are servers of this machine alone, which no proxy is to hear.
            self._client = httpx.Client(
                base_url=address, headers=headers, timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
                mounts={"http://": None},
            )  # fmt: skip
        except httpx.InvalidURL as wrong:
            raise ServerUnreachable(address, str(wrong)) from wrong

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ask(self, method: str, path: str, body: Any = None, *, repeats: bool = True) -> Any:
        """Send JSON and return JSON. ``repeats``: False for what must not be done twice.

        Raises ServerUnreachable, and ServerRefused with what the server says.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": "application/json"}
        return self._read(self._answer(method, path, data, headers, repeats=repeats))

    def send(self, path: str, data: bytes) -> Any:
        """Send bytes and return JSON; as ``ask``, for what may come twice."""
        headers = {"Content-Type": "application/octet-stream"}
        return self._read(self._answer("POST", path, data, headers, repeats=True))

    def _read(self, answer: httpx.Response) -> Any:
        try:
            return msgspec.json.decode(answer.content)
        except (msgspec.DecodeError, UnicodeDecodeError) as refused:
            raise ServerUnreachable(self.address, NOT_OURS) from refused

    def receive(self, path: str, body: Any) -> bytes:
        """Send JSON and return bytes; as ``ask``, for what may come twice."""
        headers = {"Content-Type": "application/json"}
        return self._answer("POST", path, msgspec.json.encode(body), headers, repeats=True).content

    def _answer(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], *, repeats: bool
    ) -> httpx.Response:
        wait = WAIT_S
        # One that was waited for in vain is tried once, until it answers.
        for left in reversed(range(self._tries if repeats and not self._is_away else 1)):
            self.requests += 1
            asked = 0.0
            try:
                answer = self._client.request(method, path, content=data, headers=headers)
            except self._httpx.RequestError as failed:
                self.has_answered = False
                if not left:
                    self._is_away = True
                    raise ServerUnreachable(self.address, str(failed) or type(failed).__name__) from failed
            except self._httpx.InvalidURL as wrong:
                raise ServerUnreachable(self.address, str(wrong)) from wrong
            else:
                asked = _seconds(answer.headers.get("retry-after"))
                if answer.status_code not in TRY_AGAIN or not left or asked > ASKED_S_MAX:
                    self._is_away = answer.status_code in TRY_AGAIN
                    self.has_answered = not self._is_away
                    return self._checked(answer, asked)
            # Never sooner than the server asked for.
            self._wait(max(min(wait, WAIT_S_MAX) * random.uniform(0.5, 1.0), asked))
            wait *= 2
        raise AssertionError("there is no try without an end")

    def _checked(self, answer: httpx.Response, asked: float) -> httpx.Response:
        theirs = answer.headers.get(PROTOCOL_HEADER, "")
        if theirs.isdigit() and int(theirs) < SERVER_PROTOCOL_LEAST:
            raise ServerOther(self.address, is_newer=False)
        if answer.is_success:
            return answer
        try:
            said = msgspec.json.decode(answer.content, type=_Refusal).error
            kind, message = said.kind, said.message
        except (msgspec.MsgspecError, UnicodeDecodeError):
            kind, message = "", f"it answers {answer.status_code}"
        if kind == CLIENT_TOO_OLD:
            raise ServerOther(self.address, is_newer=True)
        status = answer.status_code
        if status in TRY_AGAIN:
            raise ServerBusy(self.address, status, kind, message, asked)
        of = LoginRefused if status in (401, 403) else ServerRefused
        raise of(self.address, status, kind, message)


def understood(remote: Remote, said: Any, of: type[Answer]) -> Answer:
    """An answer of this kind. Raises ServerUnreachable."""
    try:
        return msgspec.convert(said, of)
    except msgspec.ValidationError as refused:
        raise ServerUnreachable(remote.address, NOT_OURS) from refused


def _seconds(text: str | None) -> float:
    try:
        return min(max(0.0, float(text or 0)), DAY_S)
    except ValueError:
        return 0.0
