"""Waiting for runners in actors: who is late is said to be, and who hangs is told from who is slow.

A runner that is late is asked where it is, in a thread of its own. It hangs if its environments have come through no
step and no reset from one such look to the next, or if it does not even answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import kernel
from kernel_rllib.errors import RunnerHangsError
from kernel_rllib.runners.remote_runner import RemoteRunner
from kernel_rllib.runners.whereabouts import Whereabouts
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")
ANSWER_S = 1.0
"""How long an answer is waited for at once; one that comes later is seen at the next look."""


@dataclass(frozen=True)
class Limits:
    """How long runners are waited for, in seconds.

    Attributes:
        late: After how long a sample is late; None for never.
        sign_of_life: How long environments of a late runner may take for one step.
        ready: How long a runner may take to be made.
    """

    late: float | None = None
    sign_of_life: float = 30.0
    ready: float = 1800.0


@dataclass
class _Look:
    """A look at a late runner: when, the answer that is on its way, and the last one that came."""

    at: float
    ref: kernel.ObjectRef
    answer: Whereabouts | None = None


class Patience:
    """Waits for runners."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """Wait within these limits."""
        self._limits, self._clock = limits, clock
        self._looks: dict[kernel.ObjectRef, _Look] = {}
        """The last look at each runner that is late, by what is waited for."""

    def first(self, asked: Mapping[kernel.ObjectRef, RemoteRunner]) -> tuple[RemoteRunner, RunnerHangsError | None]:
        """Wait for the first of these to be there; return whose it is, or who hangs, with an error that says where.

        What is there may be an error: it is not looked at.
        """
        refs = list(asked)
        if self._limits.late is None:
            return asked[kernel.wait(refs, num_returns=1)[0][0]], None
        began = self._clock()
        while True:
            due = {ref: self._due(ref, began) for ref in refs}
            ready, missing = kernel.wait(refs, num_returns=1, timeout=max(min(due.values()) - self._clock(), 0.0))
            if ready:
                self._looks.pop(ready[0], None)
                return asked[ready[0]], None
            for ref in missing:
                if due[ref] <= self._clock() and (error := self._look(ref, asked[ref])) is not None:
                    del self._looks[ref]
                    return asked[ref], error

    def _due(self, ref: kernel.ObjectRef, began: float) -> float:
        """Return when a runner is to be looked at."""
        assert self._limits.late is not None
        look = self._looks.get(ref)
        return began + self._limits.late if look is None else look.at + self._limits.sign_of_life

    def _look(self, ref: kernel.ObjectRef, runner: RemoteRunner) -> RunnerHangsError | None:
        """Look at a late runner; return an error if it hangs."""
        before, now = self._looks.get(ref), self._clock()
        came_late = before is not None and before.answer is None and bool(kernel.wait([before.ref], timeout=0)[0])
        asked = runner.handle.whereabouts.remote()
        look = self._looks[ref] = _Look(now, asked, _answer_to(asked))
        runner.is_made |= came_late or look.answer is not None
        if before is None:
            self._warn(runner, look.answer)
            return None
        if not runner.is_made:
            return self._is_not_made() if now - runner.began >= self._limits.ready else None
        seconds = now - before.at
        if look.answer is None:
            return None if came_late or before.answer is not None else _hangs(seconds, "gives no sign of life")
        if before.answer is None or before.answer.moves != look.answer.moves or not look.answer.is_in_environments:
            return None
        return _hangs(seconds, f"is in {look.answer.place}")

    def _is_not_made(self) -> RunnerHangsError:
        return RunnerHangsError(
            f"its process was ended, as it was not made within {self._limits.ready:g} s: look what the constructors of "
            "its environments do, or give it more time (env_runner_restore_timeout_s)"
        )

    def _warn(self, runner: RemoteRunner, found: Whereabouts | None) -> None:
        where = f"it is in {found.place}" if found and found.place else "it does not say where it is"
        steps = runner.requests[0].steps if runner.requests else 0
        _log.warning(
            "runner %d has not sampled its %d steps within %s s, and is waited for: %s. Ask for fewer steps "
            "(rollout_fragment_length), or warn later (sample_timeout_s); if its environments make no step for another "
            "%g s (env_runner_health_probe_timeout_s), it counts as lost",
            runner.place.index, steps, self._limits.late,
            where if runner.is_made else "its environments are still being made", self._limits.sign_of_life,
        )  # fmt: skip


def _answer_to(ref: kernel.ObjectRef) -> Whereabouts | None:
    """Return where a runner says that it is, if it does so soon."""
    if not kernel.wait([ref], timeout=ANSWER_S)[0]:
        return None
    try:
        found: Whereabouts = kernel.get(ref)
    except FaultError:  # it has died, which is seen by what is waited for
        return None
    return found


def _hangs(seconds: float, what: str) -> RunnerHangsError:
    return RunnerHangsError(
        f"its process was ended, as its environments made no step for {seconds:.0f} s: it {what}. If they are only "
        "slow, allow more time for one step (env_runner_health_probe_timeout_s)"
    )
