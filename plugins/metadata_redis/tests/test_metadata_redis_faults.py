"""Redis is killed, cut off, frozen and started again under the store: what returned is there, and happened once."""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kernel_metadata_redis import link, plugin

from kernel.testing.faults import wait_until
from kernel_spec.errors import MetadataError

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
Starter = Callable[..., Any]
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


def test_what_returned_survives_kills_of_redis(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url, timeout_seconds=SECONDS, patience_seconds=SECONDS)
    store.claim(b"head")
    count, stop = 0, threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        nonlocal count
        try:
            while not stop.is_set():
                assert store.put("table", b"%09d" % count, b"x" * 100, overwrite=False), "it was stored twice"
                store.put_many("pairs", {b"left": b"%d" % count, b"right": b"%d" % count})
                count += 1
        except BaseException as problem:
            failed.append(problem)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        seen = count
        wait_until(lambda seen=seen: count > seen + 50 or bool(failed), SECONDS, "some puts")
        server.kill()
        server.start()
    stop.set()
    writer.join()
    assert not failed, failed
    assert [key for key, _ in store.scan("table")] == [b"%09d" % number for number in range(count)]
    assert dict(store.scan("pairs")) == {b"left": b"%d" % (count - 1), b"right": b"%d" % (count - 1)}
    store.close()


def test_half_of_a_put_many_is_nothing(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url, timeout_seconds=SECONDS, patience_seconds=SECONDS)
    store.put_many("pairs", {b"left": b"1", b"right": b"1"})
    store.put_many("pairs", {b"left": b"2" * 3000, b"right": b"2" * 3000})
    server.kill()
    (log,) = Path(server.directory, "appendonlydir").glob("*.incr.aof")
    os.truncate(log, log.stat().st_size - 2000)  # the disk had taken only that much when the power went
    server.start()
    assert dict(store.scan("pairs")) == {b"left": b"1", b"right": b"1"}
    store.close()


def test_a_redis_that_stays_away_fails_soon_and_then_at_once(
    start_redis: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url, timeout_seconds=SECONDS, patience_seconds=0.6)
    store.put("table", b"key", b"value")
    server.kill()
    begun = time.monotonic()
    with pytest.raises(MetadataError) as caught:
        store.get("table", b"key")
    assert time.monotonic() - begun > 0.2
    assert re.match(rf"the Redis at {re.escape(server.url)} has not answered for \d+\.\d", str(caught.value))
    assert "See whether it runs" in str(caught.value) and "the next call tries again" in str(caught.value)
    wait_until(lambda: time.monotonic() - begun > 0.6, SECONDS, "the end of its patience")
    for _ in range(3):  # patience is not spent again on every call
        with monkeypatch.context() as patch:
            patch.setattr(link.time, "sleep", lambda seconds: pytest.fail("it is waited for again"))
            with pytest.raises(MetadataError, match="has not answered for"):
                store.put("table", b"key", b"other")
    server.start()
    assert store.get("table", b"key") == b"value"
    store.close()


def test_a_frozen_redis_does_not_hold_up_the_head(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url, timeout_seconds=1.0, patience_seconds=1.0)
    server.process.send_signal(signal.SIGSTOP)
    with pytest.raises(MetadataError, match="has not answered for"):
        store.put("table", b"key", b"value")
    server.process.send_signal(signal.SIGCONT)

    def works_again() -> bool:
        with suppress(MetadataError):  # it is still slow
            store.put("table", b"key", b"value")
            return True
        return False

    wait_until(works_again, SECONDS, "an answer")
    store.close()


def test_nobody_there_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=r"has not answered for .* \(Error 111 connecting to 127.0.0.1:1"):
        plugin.open_store("/session", url="redis://:secret@127.0.0.1:1/0", patience_seconds=0.1)
    with pytest.raises(MetadataError, match="has not answered for .*No such file"):
        plugin.open_store("/session", url=f"unix://{tmp_path}/none.sock", patience_seconds=0.1)


class Relay:
    """Stands before a Redis. After `swallow_answer()` the next answer is lost, and the connection with it."""

    def __init__(self, directory: Path, target: Path) -> None:
        self.path = directory / "relay.sock"
        self._target = str(target)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._armed = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def swallow_answer(self) -> None:
        self._armed.set()

    @property
    def swallowed(self) -> bool:
        return not self._armed.is_set()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]

    def _serve(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    client, server = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                    server.connect(self._target)
                    self._selector.register(client, selectors.EVENT_READ, (client, server, False))
                    self._selector.register(server, selectors.EVENT_READ, (server, client, True))
                elif key.fileobj.fileno() >= 0:  # type: ignore[union-attr]
                    self._pass_on(*key.data)

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        data = source.recv(1 << 16)
        if is_answer and data and self._armed.is_set():
            data = b""
            self._armed.clear()
        if data:
            sink.sendall(data)
            return
        for end in (source, sink):
            self._selector.unregister(end)
            end.close()


@contextmanager
def relayed(server: Any, tmp_path: Path) -> Iterator[tuple[Relay, Any]]:
    relay = Relay(tmp_path, server.socket)
    store = plugin.open_store("/relayed", url=f"unix://{relay.path}", timeout_seconds=SECONDS, patience_seconds=SECONDS)
    try:
        yield relay, store
    finally:
        store.discard()
        relay.close()


def test_a_change_whose_answer_was_lost_happens_once(shared_redis: Any, tmp_path: Path) -> None:
    with relayed(shared_redis, tmp_path) as (relay, store):
        store.put("table", b"old", b"value")
        for change, expected in (
            (lambda: store.put("table", b"leader", b"me", overwrite=False), True),
            (lambda: store.put("table", b"leader", b"again", overwrite=False), False),
            (lambda: store.delete("table", b"old"), True),
            (lambda: store.delete("table", b"old"), False),
            (lambda: store.put("table", b"key", b"value"), True),
        ):
            relay.swallow_answer()
            assert change() is expected and relay.swallowed
        relay.swallow_answer()
        assert list(store.scan("table")) == [(b"key", b"value"), (b"leader", b"me")]


def test_a_claim_whose_answer_was_lost_is_made_again(shared_redis: Any, tmp_path: Path) -> None:
    with relayed(shared_redis, tmp_path) as (relay, store):
        assert store.claim(b"head") == 1  # from now on the server knows the script: the next answer is the claim's
        relay.swallow_answer()
        assert store.claim(b"head") == 3
        store.put("table", b"key", b"value")
