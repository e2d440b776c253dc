"""A deferred signal ends a call of C that began before Python looked for signals again, and calls its handler once."""

from __future__ import annotations

import _thread
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kernel.runtime.critical_sections import critical, guard, unguard
from kernel_engine import signals

LONG_SECONDS = 600.0
"""Seconds of a sleep that a signal has to end. The time limit of the test is shorter."""
MAIN_THREAD = threading.main_thread().ident or 0


class Deadline(Exception):
    """What the handler raises, if it is to."""


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """Defer SIGUSR1. What is appended to the list is the number of a call of its handler, which raises then."""
    seen: list[int] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(number)
        raise Deadline

    before, lock = signal.getsignal(signal.SIGUSR1), threading.RLock()
    guard(lock)
    signals.install()
    signal.signal(signal.SIGUSR1, handler)
    yield seen
    unguard(lock)
    signal.signal(signal.SIGUSR1, before)


@critical
def strike_the_last_step() -> bool:
    """Get the signal where Python looks for signals for the last time before the caller goes on."""
    return signal.pthread_kill(MAIN_THREAD, signal.SIGUSR1) is None


def step() -> None:
    """Do nothing, where Python looks for signals."""


@critical
def strike_and_work(seconds: float) -> bool:
    """Get the signal, and defer it for some time."""
    signal.pthread_kill(MAIN_THREAD, signal.SIGUSR1)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return True


def test_it_ends_a_sleep_that_begins_at_once(calls: list[int]) -> None:
    with pytest.raises(Deadline):
        strike_the_last_step() and time.sleep(LONG_SECONDS)
    assert calls == [signal.SIGUSR1]


def test_it_calls_its_handler_once_however_often_it_was_sent_again(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "_SEND_AGAIN_SECONDS", 0.0001)
    stream = random.Random(7)
    for count in range(1, 301):
        with pytest.raises(Deadline):
            strike_and_work(stream.random() * 0.002) and time.sleep(LONG_SECONDS)
        assert len(calls) == count
    wait_until_no_thread_sends()
    assert calls == [signal.SIGUSR1] * 300


class CrossedHandler(signals.DeferredHandler):
    """Gets a deferred signal again just before its deferral ends, as if the sender's thread ran then."""

    crossings = 0

    @property
    def _deferred_in(self) -> int:
        return self._process

    @_deferred_in.setter
    def _deferred_in(self, process: int) -> None:
        if process == 0 and getattr(self, "_process", 0):
            self.crossings += 1
            signals._repeat[signal.SIGUSR1]
        self._process = process


def test_one_that_is_sent_again_as_the_handler_is_about_to_run_calls_it_no_second_time(calls: list[int]) -> None:
    handler = CrossedHandler(lambda number, frame: calls.append(number))
    signals._set_handler(signal.SIGUSR1, handler)
    strike_the_last_step()
    step()
    wait_until_no_thread_sends()
    assert handler.crossings
    assert calls == [signal.SIGUSR1]


def test_the_next_signal_is_not_taken_for_one_that_was_sent_again(calls: list[int]) -> None:
    for count in range(1, 4):
        with pytest.raises(Deadline):
            strike_the_last_step() and time.sleep(LONG_SECONDS)
        with pytest.raises(Deadline):
            signal.pthread_kill(MAIN_THREAD, signal.SIGUSR1)
            time.sleep(LONG_SECONDS)
        assert len(calls) == 2 * count


def test_a_handler_that_is_replaced_is_called_before(calls: list[int]) -> None:
    with pytest.raises(Deadline):
        strike_the_last_step() and signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert calls == [signal.SIGUSR1]


def test_a_handler_that_is_replaced_while_its_signal_is_deferred_sends_it_no_more(calls: list[int]) -> None:
    later: list[int] = []

    @critical
    def replace() -> Any:
        signal.pthread_kill(MAIN_THREAD, signal.SIGUSR1)
        return signal.signal(signal.SIGUSR1, lambda number, frame: later.append(number))

    replaced = signals._get_handler(signal.SIGUSR1)
    replace()
    while replaced._sender_in:
        time.sleep(0.001)
    assert not calls
    assert later == [signal.SIGUSR1]


def test_its_thread_ends_once_the_handler_has_run(calls: list[int]) -> None:
    threads = _thread._count()
    with pytest.raises(Deadline):
        strike_the_last_step() and time.sleep(LONG_SECONDS)
    wait_until_no_thread_sends()
    assert _thread._count() <= threads


def wait_until_no_thread_sends() -> None:
    handler = signals._get_handler(signal.SIGUSR1)
    while handler._sender_in:
        time.sleep(0.001)
