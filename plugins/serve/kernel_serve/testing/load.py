"""Steady traffic on an application, with counts of all that a user of it would notice.

A `RequestLoad` sends requests over HTTP, on connections that are kept, and calls by a handle, at a fixed rate, whatever
comes back. It behaves as a good client: when a connection breaks, it repeats what may be repeated (GET), and only that.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from kernel_spec.dataclass import dataclass

PATIENCE_SECONDS = 20.0
"""The default time in seconds after which an unanswered request has failed."""
_REPEAT_SECONDS = 0.02
_EXAMPLES = 5


@dataclass(slots=True)
class LoadOutcome:
    """Holds the results of the requests. `failed` has those that a user would call failures, by what happened."""

    sent: int = 0
    answered: int = 0
    unavailable: int = 0
    """The number of 503s with Retry-After, to requests that can't be repeated."""
    reconnected: int = 0
    """The number of GETs that the client itself sent again, because its connection broke."""
    broken: int = 0
    """The number of requests that can't be repeated whose connection broke before there was an answer."""
    failed: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """When each answer came (by the monotonic clock), and after how many seconds."""

    def fail(self, what: str, example: str) -> None:
        """Count a failure."""
        self.failed[what] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{what}: {example}")

    @property
    def longest_gap(self) -> float:
        """The longest time, in seconds, without an answer."""
        moments = sorted(moment for moment, _ in self.times)
        return max((later - sooner for sooner, later in itertools.pairwise(moments)), default=0.0)

    def percentile(self, share: float) -> float:
        """Return the time, in seconds, in which `share` (0 to 1) of the answers came."""
        took = sorted(seconds for _, seconds in self.times)
        return took[min(len(took) - 1, int(len(took) * share))] if took else 0.0

    def summary(self) -> dict[str, Any]:
        """Return the numbers as plain values, times in milliseconds."""
        return {
            "sent": self.sent,
            "answered": self.answered,
            "unavailable": self.unavailable,
            "reconnected": self.reconnected,
            "broken": self.broken,
            "failed": dict(self.failed),
            "examples": self.examples,
            "gap_ms": round(self.longest_gap * 1e3, 1),
            "p50_ms": round(self.percentile(0.5) * 1e3, 1),
            "p99_ms": round(self.percentile(0.99) * 1e3, 1),
        }


class BrokenConnectionError(ConnectionError):
    """The connection ended before there was a whole answer."""


class _Connection(asyncio.Protocol):
    """Is one kept connection: a request, its answer, the next request."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.open = True
        self._data = b""
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes, bytes]]:
        """Send a request; the future has the status, the headers (in small letters), and the body."""
        self._answer = asyncio.get_running_loop().create_future()
        self._data = b""
        if self.open:
            self.transport.write(request)
        else:
            self._answer.set_exception(BrokenConnectionError("closed"))
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._data[:end].lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        body = self._data[end + 4 :]
        if len(body) < length or self._answer is None or self._answer.done():
            return
        if b"connection: close" in head:
            self.open = False
            self.transport.close()
        self._answer.set_result((int(head[9:12]), head, body))

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BrokenConnectionError(str(error or "closed by the server")))


class RequestLoad:
    """Requests to `addresses` ("HOST:PORT", several as behind a load balancer), in a thread with a loop of its own.

    `rate` requests a second go to `path`, every `posts`th of them a POST (0: none). The application answers with the
    text of the query, so that each answer is known to be that of its request. `call(text)` returns an awaitable, as a
    handle's `remote` does, and is called `calls` times a second. A request without an answer after `patience` seconds
    has failed. At most `at_once` requests, and calls, are under way at a time (0: any number): those that could not
    begin are left out. It is a context manager: leaving it ends the traffic.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        rate: float = 200.0,
        *,
        path: str = "/",
        posts: int = 10,
        call: Callable[[str], Any] | None = None,
        calls: float = 0.0,
        patience: float = PATIENCE_SECONDS,
        at_once: int = 0,
    ) -> None:
        self.http, self.handle = LoadOutcome(), LoadOutcome()
        self._addresses = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in addresses)]
        self._path, self._rate, self._posts = path, rate, posts
        self._call, self._calls = call, calls
        self._patience, self._at_once = patience, at_once
        self._posting = 0
        self.most_posting = 0
        """The largest number of POSTs under way at a time."""
        self._under_way: dict[tuple[bool, int], None] = {}
        """Whether it is a request, and its number, of all that has no answer yet."""
        self._idle: deque[_Connection] = deque()
        self._turn = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> RequestLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Send nothing more, and wait for the answers of what is under way."""
        self._ending.set()
        self._thread.join()

    @property
    def answered(self) -> int:
        """Return the number of answered requests and calls. From any thread."""
        return self.http.answered + self.handle.answered

    def await_more(self, count: int, seconds: float = 120.0) -> None:
        """Wait until `count` more are answered. Raises AssertionError after `seconds`."""
        wanted, deadline = self.answered + count, time.monotonic() + seconds
        while self.answered < wanted:
            if time.monotonic() > deadline:
                raise AssertionError(f"{wanted - self.answered} of {count} answers are missing: {self.http.summary()}")
            time.sleep(0.005)

    def await_answers(self, seconds: float = 120.0) -> None:
        """Wait until all that is under way now, and one more request, is answered.

        Raises AssertionError after `seconds`.
        """
        number, deadline = self.http.sent + 1, time.monotonic() + seconds
        before = [*self._under_way.copy(), (True, number)]
        while (left := self._under_way.copy().keys() & before) or self.http.sent < number:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(left)} of {len(before)} are not answered: {self.http.summary()}")
            time.sleep(0.005)

    # -- the traffic -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        await asyncio.gather(
            self._steadily(self._rate, self._request, self.http), self._steadily(self._calls, self._handle, self.handle)
        )
        while self._idle:
            self._idle.popleft().transport.abort()

    async def _steadily(self, rate: float, send: Callable[[int], Any], outcome: LoadOutcome) -> None:
        """Begin `rate` requests a second, and return when all are over."""
        tasks: set[asyncio.Task[None]] = set()
        begun = time.monotonic()
        while rate and not self._ending.is_set():
            due = int((time.monotonic() - begun) * rate) + 1
            if self._at_once and outcome.sent + self._at_once - len(tasks) < due:
                due = outcome.sent + self._at_once - len(tasks)
                begun = time.monotonic() - due / rate
            while outcome.sent < due:
                outcome.sent += 1
                key = (outcome is self.http, outcome.sent)
                self._under_way[key] = None
                task = asyncio.ensure_future(send(outcome.sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda _, key=key: self._under_way.pop(key))
            await asyncio.sleep(1 / rate)
        if tasks:
            await asyncio.gather(*tasks)

    async def _handle(self, number: int) -> None:
        assert self._call is not None
        begun, text = time.monotonic(), f"call-{number}"
        try:
            found = await asyncio.wait_for(_awaited(self._call(text)), self._patience)
        except Exception as error:
            self.handle.fail(type(error).__name__, str(error)[:300])
            return
        if found == text:
            self._note(self.handle, begun)
        else:
            self.handle.fail("another's answer", f"{found!r} to {text!r}")

    async def _request(self, number: int) -> None:
        repeatable = not self._posts or number % self._posts != 0
        method, text, begun = "GET" if repeatable else "POST", f"request-{number}", time.monotonic()
        if not repeatable:
            self._posting += 1
            self.most_posting = max(self.most_posting, self._posting)
        request = (
            f"{method} {self._path}?{text} HTTP/1.1\r\nhost: x\r\nx-request-id: {text}\r\ncontent-length: 0\r\n\r\n"
        )
        try:
            status, head, body = await asyncio.wait_for(
                self._answer(request.encode(), repeatable), self._patience - (time.monotonic() - begun)
            )
        except BrokenConnectionError:
            self.http.broken += 1
        except Exception as error:
            self.http.fail(f"{method}: {type(error).__name__}", f"{text} {error}")
        else:
            if status == 200 and body == text.encode():
                self._note(self.http, begun)
            elif status == 503 and not repeatable and b"retry-after:" in head:
                self.http.unavailable += 1
            else:
                self.http.fail(f"{method}: {status}", body.decode(errors="replace")[:300])
        finally:
            self._posting -= not repeatable

    async def _answer(self, request: bytes, repeatable: bool) -> tuple[int, bytes, bytes]:
        while True:
            connection = await self._connection()
            try:
                found = await connection.ask(request)
            except BrokenConnectionError:
                if not repeatable:
                    raise
                self.http.reconnected += 1
                continue
            if connection.open:
                self._idle.append(connection)
            return found

    async def _connection(self) -> _Connection:
        """Return an idle connection, or a new one, to the next address that accepts one."""
        while self._idle:
            kept = self._idle.pop()
            if kept.open:
                return kept
        loop = asyncio.get_running_loop()
        while True:
            for _ in self._addresses:
                self._turn += 1
                host, port = self._addresses[self._turn % len(self._addresses)]
                try:
                    return (await loop.create_connection(_Connection, host, port))[1]
                except OSError:
                    continue
            await asyncio.sleep(_REPEAT_SECONDS)

    def _note(self, outcome: LoadOutcome, begun: float) -> None:
        now = time.monotonic()
        outcome.answered += 1
        outcome.times.append((now, now - begun))


async def _awaited(answer: Any) -> Any:
    return await answer
