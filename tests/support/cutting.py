"""A line to a server that breaks: a proxy on this machine that cuts, holds back, doubles and reorders requests."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Fault(StrEnum):
    """What becomes of a request."""

    NONE = "none"
    BEFORE = "cut before the request"
    IN_REQUEST = "cut in mid-request"
    UNREAD = "cut after the request, while the server works"
    AFTER = "cut after the answer was made"
    IN_ANSWER = "cut in mid-answer"
    DOUBLED = "sent twice"
    HELD = "cut, and delivered behind the next request"
    LATE = "cut, and delivered when all is over"


class CuttingProxy:
    """A proxy before a server. ``fault`` decides by the number of a request, from 1. All bytes are noted."""

    def __init__(self, address: str, fault: Callable[[int], Fault] = lambda number: Fault.NONE) -> None:
        found = urlsplit(address)
        assert found.hostname is not None
        assert found.port is not None
        self._server = found.hostname, found.port
        self.fault = fault
        self.requests, self.answers = list[bytes](), list[bytes]()
        self.done = list[tuple[str, Fault]]()
        """The first line of each request, and what became of it."""
        self._held, self._late, self._threads = list[bytes](), list[bytes](), list[threading.Thread]()
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def settle(self) -> None:
        """Deliver what is held back, and wait until the server has answered all that it got."""
        with self._lock:
            held, self._held, self._late = self._held + self._late, [], []
        for each in held:
            self._ask(each)
        while self._threads:
            self._threads.pop().join()

    def close(self) -> None:
        # Closing alone does not wake a thread that accepts.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join()
        self.settle()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while (request := _message(client)) is not None:
                with self._lock:
                    self.requests.append(request)
                    fault = self.fault(len(self.requests))
                    self.done.append((request.partition(b"\r\n")[0].decode(), fault))
                    held = [] if fault == Fault.HELD else self._held
                    if held:
                        self._held = []
                answer = self._answer(request, fault)
                for each in held:
                    self._ask(each)
                if answer is None:
                    return
                client.sendall(answer[: len(answer) // 2] if fault == Fault.IN_ANSWER else answer)
                if fault == Fault.IN_ANSWER:
                    return

    def _answer(self, request: bytes, fault: Fault) -> bytes | None:
        """The answer that the client is given, or None if its line is cut."""
        if fault == Fault.IN_REQUEST:
            with socket.create_connection(self._server) as server:
                server.sendall(request[: len(request) * 2 // 3])
        elif fault == Fault.UNREAD:
            thread = threading.Thread(target=self._ask, args=[request])
            self._threads.append(thread)
            thread.start()
        elif fault in (Fault.HELD, Fault.LATE):
            with self._lock:
                (self._held if fault == Fault.HELD else self._late).append(request)
        elif fault == Fault.AFTER:
            self._ask(request)
        elif fault == Fault.DOUBLED:
            self._ask(request)
            return self._ask(request)
        elif fault in (Fault.NONE, Fault.IN_ANSWER):
            return self._ask(request)
        return None

    def _ask(self, request: bytes) -> bytes | None:
        """What the server answers to a request; None if it does not."""
        try:
            with socket.create_connection(self._server) as server:
                server.sendall(request)
                answer = _message(server)
        except OSError:
            return None
        if answer is not None:
            self.answers.append(answer)
        return answer


def _message(source: socket.socket) -> bytes | None:
    """A request or an answer, whole; None where the line ends before."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (part := source.recv(1 << 16)):
            return None
        data += part
    head = data.partition(b"\r\n\r\n")[0]
    if b"transfer-encoding: chunked" in head.lower():
        return _chunked(source, data, len(head) + 4)
    lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    parts, size = [data], len(data)
    whole = len(head) + 4 + (int(lengths[0]) if lengths else 0)
    while size < whole:
        if not (part := source.recv(1 << 20)):
            return None
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _chunked(source: socket.socket, data: bytes, at: int) -> bytes | None:
    """An answer in pieces, each behind its length; the last one is empty."""
    while True:
        while (end := data.find(b"\r\n", at)) < 0 or len(data) < end + 4 + int(data[at:end], 16):
            if not (part := source.recv(1 << 16)):
                return None
            data += part
        size = int(data[at:end], 16)
        at = end + 4 + size
        if not size:
            return data


@contextmanager
def cutting(address: str, fault: Callable[[int], Fault] = lambda number: Fault.NONE) -> Iterator[CuttingProxy]:
    """A proxy before the server at this address, while this lasts."""
    proxy = CuttingProxy(address, fault)
    try:
        yield proxy
    finally:
        proxy.close()


def at(step: int, fault: Fault) -> Callable[[int], Fault]:
    """This fault at one step, and none at others."""
    return lambda number: fault if number == step else Fault.NONE
