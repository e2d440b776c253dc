"""Keeping the directories of trials on other machines and those of the program the same, beside the experiment.

While a trial runs elsewhere its new files are fetched now and then, and when it pauses, ends or fails; before it goes
on elsewhere its files are brought there. What is done for a trial is done in order, on threads of our own: the
experiment waits for nothing of it but the bringing.
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
"""How often files of a running trial are fetched."""
_THREADS = 4
_SHARE = 20
"""At most so much of the time goes into fetching one trial's files: one part in this."""


@dataclass
class Followed:
    """A trial, and where it runs now. `tail` is done when all that was to be done for it is."""

    name: str
    directory: str
    transfer: Transfer
    there: TrialDirectory | None = None
    known: Known = field(default_factory=dict)
    tail: Future[None] | None = None
    next_at: float = 0.0
    has_warned: bool = False


class NodeFiles:
    """Fetches and brings files. `transfers` are by the directory of the experiment."""

    def __init__(self, transfers: Mapping[str, Transfer], clock: Callable[[], float] = time.monotonic) -> None:
        self._transfers = transfers
        self._clock = clock
        self._followed: dict[str, Followed] = {}
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = 0

    def enter(self, trial: Trial, there: Future[TrialDirectory], is_new: bool) -> Future[None] | None:
        """A trial comes to a machine. Return what is done when its files are there; None if it has none yet.

        What a trial that `is_new` finds there was left by another one, and is not fetched unless it changes.
        """
        transfer = self._transfers.get(trial.local_dir)
        if transfer is None:
            return None
        former = self._followed.get(trial.trial_id)
        if former is not None and former.there is not None:  # it was told to begin anew where it is
            self._then(former, lambda: self._leave(former))
        followed = Followed(str(trial), trial.logdir, transfer, tail=former.tail if former is not None else None)
        self._followed[trial.trial_id] = followed
        done = self._then(followed, lambda: self._settle(followed, there, is_new), after=there)
        return None if is_new else done

    def look(self) -> None:
        """Fetch what is due."""
        now = self._clock()
        for followed in self._followed.values():
            is_idle = followed.tail is None or followed.tail.done()
            if is_idle and followed.there is not None and now >= followed.next_at:
                self._then(followed, lambda followed=followed: self._fetch(followed))  # type: ignore[misc]

    def directory_of(self, trial: Trial) -> str:
        """Return where a trial's directory is on its machine, as far as that is known; the program's otherwise."""
        followed = self._followed.get(trial.trial_id)
        return followed.there.directory if followed is not None and followed.there is not None else trial.logdir

    def leave(self, trial_id: str, after: Future[Any] | None = None) -> None:
        """A trial leaves its machine, when `after` is done; what it has written there is fetched."""
        followed = self._followed.get(trial_id)
        if followed is not None:
            self._then(followed, lambda: self._leave(followed), after=after)

    def finish(self) -> None:
        """Wait until everything is fetched."""
        for followed in self._followed.values():
            if followed.tail is not None:
                followed.tail.result()
        for _ in range(self._threads):
            self._work.put(_stop)
        self._threads = 0

    # -- on threads ------------------------------------------------------------------------------------------------

    def _settle(self, followed: Followed, there: Future[TrialDirectory], is_new: bool) -> None:
        if there.exception() is not None:  # it died, or found no room; that is told elsewhere
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
        except Exception as error:  # of a machine that is gone, of the user's function: the experiment goes on
            place = followed.there
            if followed.has_warned or place is None:
                return
            followed.has_warned = True
            _log.warning(
                "files of trial %s could not be %s %s on node %s: %s: %s. What is in %s is as it was before",
                followed.name, what, place.directory, place.node, type(error).__name__, error, followed.directory,
            )  # fmt: skip

    # -- one after the other ---------------------------------------------------------------------------------------

    def _then(self, followed: Followed, work: Callable[[], None], after: Future[Any] | None = None) -> Future[None]:
        """Have a thread do `work` when all that was begun for the trial is done, and `after` is; return its end."""
        done: Future[None] = Future()
        former, followed.tail = followed.tail, done

        def do() -> None:
            try:
                work()
            except Exception:  # ours: what users may see is caught where it is known
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
    """Ends a thread."""


def _when_done(futures: list[Future[Any]], then: Callable[[], None]) -> None:
    """Call `then` once all futures are done, on whatever thread."""
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
