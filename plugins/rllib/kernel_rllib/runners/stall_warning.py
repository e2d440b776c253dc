"""A warning where environments that are stepped in this process make no step for a long time."""

from __future__ import annotations

import logging
import threading
import weakref
from types import TracebackType

from kernel_rllib.envs.moves import MOVES
from kernel_rllib.envs.whereabouts import whereabouts_of

_log = logging.getLogger("kernel.rllib")


class StallWarning:
    """Looks at the thread that is in its `with`, and says where that is if its environments come through no step.

    It can do no more: what hangs in another process can be ended, and what hangs here is the program itself.
    """

    def __init__(self, seconds: float | None) -> None:
        """Warn after so many seconds without a step; None: never."""
        self._seconds = seconds
        self._inside: int | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        """Look at this thread from now on."""
        self._inside = threading.get_ident()
        if self._thread is None and self._seconds is not None:
            self._thread = threading.Thread(
                target=_watch, args=(weakref.ref(self), self._seconds / 2), name="stall-warning", daemon=True
            )
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Look no more."""
        self._inside = None

    def look(self, seen: tuple[int | None, int, int]) -> tuple[int | None, int, int]:
        """Warn if nothing has moved for two looks; return what is seen now: who is inside, moves, and for how long.

        Args:
            seen: The result of the last look.
        """
        inside, moves = self._inside, MOVES.count
        if inside is None or (inside, moves) != seen[:2]:
            return inside, moves, 0
        looks = seen[2] + 1
        found = whereabouts_of(inside)
        if looks == 2 and found.is_in_environments:
            _log.warning(
                "environments have made no step for %g s: the program is in %s. It waits for them; Ctrl-C ends it. "
                "With runners in processes of their own (num_env_runners=1) one that hangs is replaced; warn later "
                "by sample_timeout_s",
                self._seconds, found.place,
            )  # fmt: skip
        return inside, moves, looks


def _watch(watched: weakref.ref[StallWarning], seconds: float) -> None:
    """Look as long as there is what looks."""
    seen: tuple[int | None, int, int] = (None, 0, 0)
    pause = threading.Event()
    while not pause.wait(seconds):
        warning = watched()
        if warning is None:
            return
        seen = warning.look(seen)
        del warning
