"""Synchronises the directories of trials on other machines with those on the driver's machine.

New files of a trial that runs elsewhere are fetched periodically, and when the trial pauses, ends or fails. Before it
continues on another machine its files are copied there. The work for one trial is done in order, in threads of this
module; the experiment waits only for the copies to a machine.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.execution.transfers import Known, Transfer
from kernel_tune.trainable.trial_directory import TrialDirectory
from kernel_tune.trial import Trial

_log = logging.getLogger("kernel.tune")

PERIOD_SECONDS = 10.0
"""Seconds between two fetches of a running trial's files."""
_THREADS = 4
_SHARE = 20
"""Fetching one trial's files takes at most one part in this many of the time."""


@dataclass
class Followed:
    """Holds a trial, and the machine where it runs now. `tail` is done when all work for the trial is done."""

    name: str
    directory: str
    transfer: Transfer
    there: TrialDirectory | None = None
    known: Known = field(default_factory=dict)
    tail: Future[None] | None = None
    next_at: float = 0.0
    has_warned: bool = False


class NodeFiles:
    """Fetches and sends files. `transfers` are by the directory of the experiment."""

    def __init__(self, transfers: Mapping[str, Transfer], clock: Callable[[], float] = time.monotonic) -> None:
        self._transfers = transfers
        self._clock = clock
        self._followed: dict[str, Followed] = {}
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = 0

    def enter(self, trial: Trial, there: Future[TrialDirectory], is_new: bool) -> Future[None] | None:
        """Note that a trial comes to a machine. Return a future of its files being there; None if it has no files yet.

        Files that a new trial (`is_new`) finds there belong to another one. They are fetched only if they change.
        """
        transfer = self._transfers.get(trial.local_dir)
        if transfer is None:
            return None
        former = self._followed.get(trial.trial_id)
        if former is not None and former.there is not None:  # The trial begins anew on the same machine.
            self._then(former, lambda: self._leave(former))
        followed = Followed(str(trial), trial.logdir, transfer, tail=former.tail if former is not None else None)
        self._followed[trial.trial_id] = followed
        done = self._then(followed, lambda: self._settle(followed, there, is_new), after=there)
        return None if is_new else done

    def look(self) -> None:
        """Fetch the files that are due."""
        now = self._clock()
        for followed in self._followed.values():
            is_idle = followed.tail is None or followed.tail.done()
            if is_idle and followed.there is not None and now >= followed.next_at:
                self._then(followed, lambda followed=followed: self._fetch(followed))  # type: ignore[misc]

    def directory_of(self, trial: Trial) -> str:
        """Return the path of a trial's directory on its machine if that is known, else on the driver's machine."""
        followed = self._followed.get(trial.trial_id)
        return followed.there.directory if followed is not None and followed.there is not None else trial.logdir

    def leave(self, trial_id: str, after: Future[Any] | None = None) -> None:
        """Note that a trial leaves its machine when `after` is done. Its files are fetched then."""
        followed = self._followed.get(trial_id)
        if followed is not None:
            self._then(followed, lambda: self._leave(followed), after=after)

    def finish(self) -> None:
        """Wait until all files are fetched, and end the threads."""
        for followed in self._followed.values():
            if followed.tail is not None:
                followed.tail.result()
        for _ in range(self._threads):
            self._work.put(_stop)
        self._threads = 0

    # -- in threads ------------------------------------------------------------------------------------------------

    def _settle(self, followed: Followed, there: Future[TrialDirectory], is_new: bool) -> None:
        if there.exception() is not None:  # the process died or found no room, which is handled elsewhere
            return
        place = there.result()
        if place.is_shared:
            return
        followed.there, followed.next_at = place, self._clock() + PERIOD_SECONDS
        if is_new:
            followed.known.update(place.files)
            return
        transfer, directory = followed.transfer, followed.directory
        self._try(followed, "brought to", lambda: transfer.bring(directory, place, followed.known))

    def _fetch(self, followed: Followed) -> None:
        place = followed.there
        if place is None:
            return
        began = self._clock()
        transfer, directory = followed.transfer, followed.directory
        self._try(followed, "fetched from", lambda: transfer.fetch(place, directory, followed.known))
        now = self._clock()
        followed.next_at = now + max(PERIOD_SECONDS, _SHARE * (now - began))

    def _leave(self, followed: Followed) -> None:
        self._fetch(followed)
        followed.there = None

    def _try(self, followed: Followed, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # A machine was lost, or a user's function raised: the experiment continues.
            place = followed.there
            if followed.has_warned or place is None:
                return
            followed.has_warned = True
            _log.warning(
                "files of trial %s could not be %s %s on node %s: %s: %s. What is in %s is as it was before",
                followed.name, what, place.directory, place.node, type(error).__name__, error, followed.directory,
            )  # fmt: skip

    # -- one after another -----------------------------------------------------------------------------------------

    def _then(self, followed: Followed, work: Callable[[], None], after: Future[Any] | None = None) -> Future[None]:
        """Run `work` in a thread after all earlier work for the trial and after `after`. Return a future of its end."""
        done: Future[None] = Future()
        former, followed.tail = followed.tail, done

        def do() -> None:
            try:
                work()
            except Exception:  # a mistake in this module: errors of users' code are handled above
                _log.exception("files of trial %s", followed.name)
            done.set_result(None)

        _when_done([each for each in (former, after) if each is not None], lambda: self._begin(do))
        return done

    def _begin(self, work: Callable[[], None]) -> None:
        if self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._serve, name="trial files", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not _stop:
            work()


def _stop() -> None:
    """Marks the end of the work of a thread."""


def _when_done(futures: list[Future[Any]], then: Callable[[], None]) -> None:
    """Call `then` in any thread when all futures are done."""
    lock = threading.Lock()
    waiting = len(futures)
    if not waiting:
        then()
        return

    def one_is_done(_: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            is_last = waiting == 0
        if is_last:
            then()

    for future in futures:
        future.add_done_callback(one_is_done)
