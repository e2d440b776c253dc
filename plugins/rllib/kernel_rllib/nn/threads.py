"""A second thread for calls that share nothing, where there is a second processor.

While numpy multiplies matrices or computes a function of a large array, other threads of Python run. A call that the
second thread has not begun when the first one is done with its own is taken back: beside busy processes the calls are
then made one after the other, and no job waits for a thread that has no processor.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from kernel_rllib.nn.blas import one_blas_thread, set_own_blas_threads, write_to_working_memory

WORTHWHILE = 1 << 23
"""So many products of numbers must a call take to be worth a thread. Smaller networks, such as two of 64 x 64 of
1,024 rows, were a fifth slower where other processes had the second processor."""
_PRODUCTS_TOGETHER = 8


def call_all(calls: Sequence[Callable[[], object]], products: int) -> None:
    """Make all calls; return when they are done, or raise the error of the first one that failed.

    They may run at the same time, in two threads, and then must not write to the same objects. They do where they are
    large enough, there is a second processor, and BLAS is held to one thread (see `blas_threads`).

    Args:
        calls: The functions to call.
        products: The number of products of two numbers that the smallest of the calls computes.
    """
    if len(calls) < 2 or not are_worthwhile(products):
        for call in calls:
            call()
        return
    settings = np.geterr()
    jobs = [_Job(call, settings) for call in calls[1:]]
    for job in jobs:
        _queue().put(job)
    try:
        calls[0]()
    finally:
        for job in reversed(jobs):  # the second thread begins with the first ones
            job.finish()
    for job in jobs:
        if job.error is not None:
            raise job.error


def are_worthwhile(products: int) -> bool:
    """Return whether calls of so many products are made in two threads."""
    return products >= WORTHWHILE and one_blas_thread() and _processors() > 1


class _Job:
    """A call that is made once, by the first thread that comes to it."""

    def __init__(self, call: Callable[[], object], settings: Any) -> None:
        self._call, self._settings = call, settings
        self._unclaimed, self._done = threading.Lock(), threading.Lock()
        self._done.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, unless another thread does or did."""
        if not self._unclaimed.acquire(blocking=False):
            return
        try:
            with np.errstate(**self._settings):
                self._call()
        except BaseException as error:
            self.error = error
        finally:
            self._done.release()

    def finish(self) -> None:
        """Make the call, or wait until the other thread has."""
        self.run()
        self._done.acquire()


@functools.cache
def _queue() -> SimpleQueue[_Job]:
    """Return what the second thread takes its jobs from; start it, once in a process."""
    queue: SimpleQueue[_Job] = SimpleQueue()
    threading.Thread(target=_serve, args=(queue,), name="learner's second thread", daemon=True).start()
    write_to_working_memory(_PRODUCTS_TOGETHER)
    return queue


def _serve(queue: SimpleQueue[_Job]) -> None:
    set_own_blas_threads(1)
    write_to_working_memory(_PRODUCTS_TOGETHER)
    while True:
        job = queue.get()
        job.run()
        del job  # Its arrays must not stay in memory until the next job comes.


@functools.cache
def _processors() -> int:
    """Return how many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if hasattr(os, "register_at_fork"):  # a copy of a process has no copy of its threads
    os.register_at_fork(after_in_child=_queue.cache_clear)
