"""Reads the iterable of an `imap` in a thread, as fast as workers and the reader of the results allow."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from kernel_parallel.multiprocessing.results import IMapIterator
from kernel_parallel.workers.dispatcher import ChunkDispatcher
from kernel_parallel.workers.jobs import MAP, FedJob

_LOOK_SECONDS = 0.5
"""How often a feeder that waits for the reader looks whether there still is one."""


class Feeder:
    """Feeds a job from an iterable. Results that nobody holds any more are dropped, and the work goes on."""

    def __init__(
        self, dispatcher: ChunkDispatcher, function: Callable[[Any], Any], results: IMapIterator, ahead: int
    ) -> None:
        self._dispatcher = dispatcher
        self._results = weakref.ref(results)
        self._job = FedJob(function, MAP, self._tell, ahead)

    def start(self, source: Iterator[Any], size: int) -> None:
        """Begin to read, `size` items for each chunk."""
        self._dispatcher.submit(self._job)
        threading.Thread(target=self._feed, args=(source, size), name="kernel-pool-feed", daemon=True).start()

    def _feed(self, source: Iterator[Any], size: int) -> None:
        job, failure = self._job, None
        try:
            while chunk := list(itertools.islice(source, size)):
                self._wait_for_reader()
                if not job.feed(chunk):
                    return
                self._dispatcher.submit(job)
        except Exception as error:  # what the iterable raises comes after the results before it
            failure = error
            self._tell(job.fed, False, error)
        results = self._results()
        if results is not None:
            results._end(job.fed + (failure is not None))
        if job.end():
            self._dispatcher.end(job)

    def _wait_for_reader(self) -> None:
        while not self._dispatcher.closing:
            results = self._results()
            if results is None or results._has_room(_LOOK_SECONDS):
                return

    def _tell(self, place: int, ok: bool, value: Any) -> None:
        results = self._results()
        if results is not None:
            results._set(place, ok, value)
