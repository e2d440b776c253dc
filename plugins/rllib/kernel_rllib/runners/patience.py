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
from kernel_rllib.envs.whereabouts import Whereabouts
from kernel_rllib.errors import RunnerHangsError
from kernel_rllib.runners.remote_runner import RemoteRunner, take_as_heard
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")
ANSWER_S = 1.0
"""The time to wait for an answer at once. A later answer is seen at the next look."""


@dataclass(frozen=True)
class Limits:
    """The times to wait for runners, in seconds.

    Attributes:
        late: The number of seconds after which a sample is late; None for never.
        sign_of_life: The longest time for one step of a late runner's environments.
        ready: The longest time for the construction of a runner.
    """

    late: float | None = None
    sign_of_life: float = 30.0
    ready: float = 1800.0


@dataclass
class _Look:
    """Holds a look at a late runner: when, the pending answer, and the last answer."""

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

    def first(
        self, asked: Mapping[kernel.ObjectRef, RemoteRunner], *, calls: bool = False, deadline: float | None = None
    ) -> tuple[RemoteRunner, RunnerHangsError | None] | None:
        """Wait for the first of these to be there; return whose it is, or who hangs, with an error that says where.

        What is there may be an error: it is not looked at. All that are late are looked at, whoever else has answered.

        Args:
            asked: The runner that each awaited reference was asked of.
            calls: Whether these are calls of functions, which may take as long as they like; otherwise samples.
            deadline: The time until which they are waited for, in seconds of the clock; None for ever.

        Returns:
            None where none of them is there by then.
        """
        refs = list(asked)
        while True:
            for ref in refs if self._limits.late is not None else ():
                runner = asked[ref]
                is_due = self._due(ref, runner) <= self._clock()
                if is_due and not _is_there(ref) and (error := self._look(ref, runner, calls)) is not None:
                    del self._looks[ref]
                    return runner, error
            until = [] if deadline is None else [deadline]
            if self._limits.late is not None:
                until += [self._due(ref, runner) for ref, runner in asked.items()]
            timeout = max(min(until) - self._clock(), 0.0) if until else None
            ready, _ = kernel.wait(refs, num_returns=1, timeout=timeout)
            if ready:
                self._looks.pop(ready[0], None)
                return asked[ready[0]], None
            if deadline is not None and self._clock() >= deadline:
                return None

    def place_of(self, runner: RemoteRunner) -> str:
        """Return in words where a runner is, as far as it says so soon."""
        found = _answer_to(runner.handle.whereabouts.remote())
        if found is None:
            return "it does not say where it is"
        return f"it is in {found.place}" if found.place else "it does nothing now"

    def now(self) -> float:
        """Return the time by the clock that deadlines go by."""
        return self._clock()

    def _due(self, ref: kernel.ObjectRef, runner: RemoteRunner) -> float:
        """Return when a runner is to be looked at."""
        assert self._limits.late is not None
        look = self._looks.get(ref)
        since = runner.awaited_since(ref, self._clock())
        return since + self._limits.late if look is None else look.at + self._limits.sign_of_life

    def _look(self, ref: kernel.ObjectRef, runner: RemoteRunner, calls: bool) -> RunnerHangsError | None:
        """Look at a late runner; return an error if it hangs."""
        before, now = self._looks.get(ref), self._clock()
        came_late = before is not None and before.answer is None and _is_there(before.ref)
        asked = runner.handle.whereabouts.remote()
        look = self._looks[ref] = _Look(now, asked, _answer_to(asked))
        runner.is_made |= came_late or look.answer is not None
        if not runner.is_made:
            return self._look_at_construction(runner, calls, is_first=before is None)
        if before is None:
            if look.answer is None or look.answer.place:
                self._warn(runner, look.answer, calls)
            return None
        seconds = now - before.at
        if look.answer is None:
            return None if came_late or before.answer is not None else _hangs(seconds, "gives no sign of life")
        if before.answer is None or before.answer.moves != look.answer.moves or not look.answer.is_in_environments:
            return None
        if calls and not look.answer.samples:  # The runner is in a function of the user's.
            return None
        return _hangs(seconds, f"is in {look.answer.place}")

    def _look_at_construction(self, runner: RemoteRunner, calls: bool, *, is_first: bool) -> RunnerHangsError | None:
        """Look at a late runner that is still being made; return an error if that takes too long."""
        place = runner.construction.whereabouts().place
        if not is_first:
            is_over = self._clock() - runner.began >= self._limits.ready
            return _is_not_made(self._limits.ready, place) if is_over else None
        if place or not calls:  # calls may have to wait until the process of a runner has begun
            _log.warning(
                "runner %d is waited for, and is still being made%s. Warn later (sample_timeout_s); if it is not made "
                "within %g s (env_runner_restore_timeout_s), it counts as lost",
                runner.place.index, f": it is in {place}" if place else "", self._limits.ready,
            )  # fmt: skip
        return None

    def _warn(self, runner: RemoteRunner, found: Whereabouts | None, calls: bool) -> None:
        where = f"it is in {found.place}" if found and found.place else "it does not say where it is"
        if calls:
            _log.warning(
                "runner %d has not answered a call within %s s, and is waited for: %s. Go on without it by "
                "timeout_seconds; if it is in a sample, and its environments make no step for another %g s "
                "(env_runner_health_probe_timeout_s), it counts as lost",
                runner.place.index, self._limits.late, where, self._limits.sign_of_life,
            )  # fmt: skip
            return
        steps = runner.requests[0].steps if runner.requests else 0
        _log.warning(
            "runner %d has not sampled its %d steps within %s s, and is waited for: %s. Ask for fewer steps "
            "(rollout_fragment_length), or warn later (sample_timeout_s); if its environments make no step for another "
            "%g s (env_runner_health_probe_timeout_s), it counts as lost",
            runner.place.index, steps, self._limits.late, where, self._limits.sign_of_life,
        )  # fmt: skip


def _is_there(ref: kernel.ObjectRef) -> bool:
    return bool(kernel.wait([ref], timeout=0)[0])


def _answer_to(ref: kernel.ObjectRef) -> Whereabouts | None:
    """Return where a runner says that it is, if it does so soon."""
    if not kernel.wait([ref], timeout=ANSWER_S)[0]:
        take_as_heard([ref])  # It fails if the runner dies, which is reported otherwise.
        return None
    try:
        found: Whereabouts = kernel.get(ref)
    except FaultError:  # It has died, which the pending requests report.
        return None
    return found


def _is_not_made(seconds: float, place: str) -> RunnerHangsError:
    where = f": it is in {place}" if place else ""
    return RunnerHangsError(
        f"its process was ended, as it was not made within {seconds:g} s{where}. Look what the constructors of its "
        "environments do, or give it more time (env_runner_restore_timeout_s)"
    )


def _hangs(seconds: float, what: str) -> RunnerHangsError:
    return RunnerHangsError(
        f"its process was ended, as its environments made no step for {seconds:.0f} s: it {what}. If they are only "
        "slow, allow more time for one step (env_runner_health_probe_timeout_s)"
    )
