"""The runners of a run: samples in the order of lanes, weights by the store, and runners that die and come again.

Lanes have numbers that say nothing of runners: the same lanes give the same samples whether one process steps them or
four. A runner that dies takes its lanes along; what becomes of them is for the mode of recovery to say:

- `"ignore"`: the others go on, with fewer lanes.
- `"recreate"`: a new runner takes the lanes over, with new environments, and samples what is missing.
- `"exact"`: a new runner begins where the lost one began its last sample, and makes that again, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments, Statistics, with_learned
from kernel_rllib.errors import RunnersLostError
from kernel_rllib.runners.contract import LaneSampler
from kernel_rllib.runners.env_runner import EnvRunner, Sample, Work
from kernel_rllib.runners.runner_actor import start_runner
from kernel_spec.errors import FaultError, TaskError

Recovery: TypeAlias = Literal["ignore", "recreate", "exact"]

_log = logging.getLogger("kernel.rllib")


@dataclass(frozen=True)
class RunnerPlace:
    """Which lanes a runner steps, and what it is told of itself.

    Attributes:
        index: Its number: 0 beside the learner, from 1 elsewhere.
        lanes: The numbers of its lanes.
        runners: How many runners there are elsewhere.
        all_lanes: How many lanes all runners have together.
        incarnation: How many died before it in this place: its environments get other seeds then.
        steps_before: How many steps each of its lanes has made before.
    """

    index: int
    lanes: tuple[int, ...]
    runners: int
    all_lanes: int
    incarnation: int = 0
    steps_before: int = 0


MakeSampler: TypeAlias = Callable[[RunnerPlace], LaneSampler]
_Weights: TypeAlias = "tuple[kernel.ObjectRef, int]"


@dataclass
class GroupSettings:
    """How the runners of a group live.

    Attributes:
        lanes: The numbers of the lanes of each runner.
        remote: Whether runners are actors; otherwise there is one, and it is here.
        options: Options of the actors, as of `kernel.remote`.
        recovery: What becomes of the lanes of a runner that died; None: its death is an error.
        tolerated_failures: How many failures in a row, without a sample between them, are tolerated.
        incarnation: How many groups before this one were lost; see `RunnerPlace`.
        steps_before: How many steps each lane made in them.
        work: What each runner makes of its samples before it sends them, or None; see `EnvRunner`.
        most_restarts: How many runners may be replaced in all.
        warns_after_s: After how many seconds without a sample a warning says who is late; None for never.
    """

    lanes: Sequence[Sequence[int]]
    remote: bool = False
    options: Mapping[str, Any] | None = None
    recovery: Recovery | None = "recreate"
    tolerated_failures: int = 100
    incarnation: int = 0
    steps_before: int = 0
    work: Work | None = None
    most_restarts: int = 1000
    warns_after_s: float | None = None


class RunnerGroup:
    """Samples from all lanes of a run."""

    def __init__(self, make_sampler: MakeSampler, settings: GroupSettings) -> None:
        """Make the runners. Those in actors are made at the same time, and waited for when they first sample.

        Args:
            make_sampler: Makes the sampler of a runner, where it runs. It is sent there, so it must be picklable.
            settings: How many lanes and runners there are, and how they live.
        """
        self._make_sampler, self._settings = make_sampler, settings
        self._weights: _Weights | None = None
        self.statistics: Statistics = {}
        """What connectors have learned of all lanes, by their names. It changes where all have sampled."""
        self._failures = self._restarts = 0
        self._has_sampled = self._is_closed = False
        self._replaced: list[int] = []
        self._pending: dict[int, list[_Request]] = {}
        self.local: EnvRunner | None = None
        self._local_steps = 0
        self._remote: dict[int, _RemoteRunner] = {}
        if not settings.remote:
            here = RunnerPlace(0, tuple(settings.lanes[0]), 0, len(settings.lanes[0]))
            self.local = EnvRunner(lambda: make_sampler(here), work=settings.work)
            return
        all_lanes = sum(map(len, settings.lanes))
        for index, lanes in enumerate(settings.lanes, start=1):
            if lanes:
                runners, before = len(settings.lanes), settings.steps_before
                place = RunnerPlace(index, tuple(lanes), runners, all_lanes, settings.incarnation, before)
                self._remote[index] = _RemoteRunner(place, self._start(place))

    @property
    def num_healthy_runners(self) -> int:
        """Return how many actors step lanes now."""
        return len(self._remote)

    def actors(self) -> list[tuple[int, kernel.ActorHandle]]:
        """Return the numbers and handles of all runners elsewhere, in order."""
        return [(index, runner.handle) for index, runner in sorted(self._remote.items())]

    def take_replaced(self) -> list[int]:
        """Return the numbers of the runners that took the places of lost ones since this was last asked."""
        replaced, self._replaced = self._replaced, []
        return replaced

    def set_weights(self, vector: Array, version: int) -> None:
        """Let all runners act with these parameters from their next sample on."""
        if self.local is not None:
            self.local.set_weights(vector, version)
        elif self._weights is None or self._weights[1] != version:
            self._weights = (kernel.put(vector), version)

    def set_statistics(self, statistics: Statistics) -> None:
        """Let the connectors of all runners work with these statistics from their next sample on."""
        self.statistics = dict(statistics)
        if self.local is not None:
            self.local.set_statistics(self.statistics)

    @property
    def weights(self) -> _Weights | None:
        """The parameters of the last `set_weights`, in the store, and their version; None if there are no actors."""
        return self._weights

    def restart(self, index: int, error: FaultError) -> kernel.ActorHandle | None:
        """Let another runner take the place of one that died, with the parameters that it had; return its handle.

        Returns:
            None if the mode of recovery says that the others go on without it.

        Raises:
            RunnersLostError: If the mode says that this is an error, no runner is left, or too many died in a row.
        """
        self._replace(index, error)
        made = self._remote.get(index)
        if made is None:
            return None
        if self._weights is not None:
            made.handle.apply.remote(EnvRunner.set_weights, *self._weights)
            made.version = self._weights[1]
        if self.statistics:
            made.handle.apply.remote(EnvRunner.set_statistics, self.statistics)
        return made.handle

    def forget_failures(self) -> None:
        """Count failures in a row from 0 again: all runners have answered."""
        self._failures = 0

    def hand_over_weights(self) -> None:
        """Let all runners take the last parameters and statistics now, not with their next sample."""
        if self.statistics:
            self.foreach(EnvRunner.set_statistics, self.statistics)
        if self._weights is None:
            return
        vector, version = self._weights
        for runner in self._remote.values():
            runner.version = version
        self.foreach(EnvRunner.set_weights, vector, version)

    def sample(self, steps: Callable[[int], int]) -> list[Sample]:
        """Step all lanes, and return the samples of the runners in the order of their lanes.

        Args:
            steps: Says how many times a runner is to step each of its lanes, by its number.

        Raises:
            RunnersLostError: If no runner is left, or too many died in a row.
        """
        self.request(steps)
        return self.collect()

    def request(self, steps: Callable[[int], int]) -> None:
        """Let all runners begin to sample, and return at once; see `sample`."""
        if self._is_closed:
            raise RunnersLostError("the runners were ended, and sample no more: make another group, or algorithm")
        for runner in self._remote.values():
            self._ask(runner, steps(runner.place.index), self._weights)
        if self.local is not None:
            self._local_steps = steps(0)

    def collect(self) -> list[Sample]:
        """Return the samples of the last `request`, in the order of lanes; see `sample`.

        What their connectors learned is put together, in this order, and all work with it from the next sample on.
        """
        samples = self._samples()
        self._learn_from(samples)
        return samples

    def _learn_from(self, samples: Sequence[Sample]) -> None:
        """Put what connectors learned together."""
        learned = [sample.learned for sample in samples if sample.learned]
        if learned:
            self.set_statistics(with_learned(self.statistics, learned))

    def _samples(self) -> list[Sample]:
        if self.local is not None:
            return [self.local.sample(self._local_steps)]
        if self._settings.recovery is None:  # who dies is heard of at once: the others may be waiting for it
            found = [self._first() for _ in range(len(self._pending))]
            return sorted(found, key=lambda sample: sample.runner)
        samples = []
        for index in sorted(self._pending):
            while self._pending.get(index):
                if (sample := self._settled(index)) is not None:
                    samples.append(sample)
                    break
        return samples

    def keep_asked(self, steps: Callable[[int], int], requests: int) -> None:
        """Let each runner have this many requests to do one after another, new ones with the parameters of now.

        Args:
            steps: Says how many times a runner is to step each of its lanes, by its number.
            requests: How many. With two, a runner begins the next sample as soon as it has sent one.
        """
        for index, runner in self._remote.items():
            for _ in range(requests - len(self._pending.get(index, ()))):
                self._ask(runner, steps(index), self._weights)
        if self.local is not None:
            self._local_steps = steps(0)

    def collect_first(self) -> Sample:
        """Return the sample of the runner that is the first to have one, of all that were asked.

        Raises:
            RunnersLostError: If no runner is left, or too many died in a row.
        """
        sample = self.local.sample(self._local_steps) if self.local is not None else self._first()
        self._learn_from([sample])
        return sample

    def _first(self) -> Sample:
        while True:
            first = {requests[0].sample: index for index, requests in self._pending.items()}
            ready, _ = kernel.wait(list(first), num_returns=1)
            index = first[ready[0]]
            sample = self._settled(index)
            if sample is not None:
                return sample

    def drop_requests(self) -> None:
        """Leave out what runners were asked for and have not brought yet."""
        self._pending.clear()

    def foreach(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what the function returns for each runner, in the order of their numbers.

        Args:
            function: It is called with the `EnvRunner`, where that runs.
            arguments: What it is called with besides.

        Raises:
            RunnersLostError: If a runner has died, and none can take its place; one that does is asked again.
        """
        if self.local is not None:
            return [self.local.apply(function, *arguments)]
        asked = {index: runner.handle.apply.remote(function, *arguments) for index, runner in self._remote.items()}
        answers: dict[int, Any] = {}
        while asked:
            again: dict[int, kernel.ObjectRef] = {}
            for index, ref in asked.items():
                try:
                    answers[index] = kernel.get(ref)
                except FaultError as error:
                    handle = self.restart(index, error)
                    if handle is not None:
                        again[index] = handle.apply.remote(function, *arguments)
            asked = again
        return [answers[index] for index in sorted(answers)]

    def change(self, make_sampler: MakeSampler, function: Callable[[EnvRunner, Any], None]) -> None:
        """Let runners be made by another maker from now on, and those that there are become as if made by it.

        Args:
            make_sampler: The maker.
            function: Changes a runner, given the maker. It may be called again for a runner that is as it should be.
        """
        self._make_sampler = make_sampler
        self.foreach(function, make_sampler)
        if self._settings.recovery == "exact":
            for runner in self._remote.values():
                runner.snapshot = runner.handle.state.remote()

    def state(self) -> dict[str, Any]:
        """Return the state of all lanes, whoever steps them, and what connectors have learned of all of them."""
        states = self.foreach(EnvRunner.state)
        lanes = {lane: state for found in states for lane, state in found["lanes"].items()}
        return {"lanes": lanes, "connectors": {name: found.arrays() for name, found in self.statistics.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, in any number of runners, and with the weights that come next."""
        self._weights = None
        held = kernel.put(state) if self._remote else None
        for runner in self._remote.values():
            runner.version, runner.snapshot = -1, held
        self.foreach(EnvRunner.set_state, held if self._remote else state)
        self.set_statistics({name: Moments.of_arrays(found) for name, found in state["connectors"].items()})

    def close(self) -> None:
        """End the actors. It may be called again; there are no samples afterwards."""
        self._is_closed = True
        for runner in self._remote.values():
            kernel.kill(runner.handle)
        self._remote.clear()
        self._pending.clear()

    def _start(self, place: RunnerPlace, state: Any = None) -> kernel.ActorHandle:
        make_sampler = self._make_sampler
        options, work = self._settings.options or {}, self._settings.work
        return start_runner(lambda: make_sampler(place), place.index, options, state, work)

    def _ask(self, runner: _RemoteRunner, steps: int, weights: _Weights | None) -> None:
        exact = self._settings.recovery == "exact"
        vector, version = (None, -1) if weights is None or weights[1] == runner.version else weights
        sample, snapshot = runner.handle.sample.options(num_returns=2).remote(
            steps, vector, version, self.statistics, exact
        )
        if weights is not None:
            runner.version = weights[1]
        runner.steps += steps
        self._pending.setdefault(runner.place.index, []).append(_Request(steps, weights, sample, snapshot))

    def _settled(self, index: int) -> Sample | None:
        """Wait for the oldest request to a runner; return its sample, or None where the runner died: see `_replace`."""
        request = self._pending[index][0]
        self._warn_if_late(index, request)
        try:
            sample: Sample = kernel.get(request.sample)
        except FaultError as error:
            self._replace(index, error)
            return None
        self._pending[index].pop(0)
        if not self._pending[index]:
            del self._pending[index]
        self._failures, self._has_sampled = 0, True
        if self._settings.recovery == "exact":
            self._remote[index].snapshot = request.snapshot
        return sample

    def _warn_if_late(self, index: int, request: _Request) -> None:
        """Wait for a sample as long as settings say, and warn if it has not come: it is waited for nevertheless."""
        seconds = self._settings.warns_after_s
        if seconds is None or kernel.wait([request.sample], timeout=seconds)[0]:
            return
        _log.warning(
            "runner %d has not sampled its %d steps within %s s, and is waited for: look whether its environments "
            "hang, ask for fewer steps (rollout_fragment_length), or warn later (sample_timeout_s)",
            index, request.steps, seconds,
        )  # fmt: skip

    def _replace(self, index: int, error: FaultError) -> None:
        """Take a runner that died out of the group; ask another in its place, if the mode says so."""
        runner = self._remote.pop(index)
        requests = self._pending.pop(index, [])
        if not self._may_replace(index, error, runner.place.lanes):
            return
        exact = self._settings.recovery == "exact"
        place, before = runner.place, runner.steps - sum(request.steps for request in requests)
        if not exact:
            place = replace(place, incarnation=place.incarnation + 1, steps_before=before)
        replaced = _RemoteRunner(place, self._start(place, runner.snapshot if exact else None))
        replaced.steps = before
        replaced.snapshot = runner.snapshot if exact else None
        self._remote[index] = replaced
        self._replaced.append(index)
        for request in requests:
            self._ask(replaced, request.steps, request.weights)

    def _may_replace(self, index: int, error: FaultError, lanes: Sequence[int]) -> bool:
        """Return whether another runner is to take the place of one that is out of the group already."""
        if isinstance(error, TaskError) and not self._has_sampled:
            raise error  # its constructor raised, and no runner has shown that it can work: another would raise as well
        self._failures += 1
        _log.warning("runner %d, with the lanes %s, died: %s", index, list(lanes), error)
        if self._settings.recovery is None:
            raise RunnersLostError(_lost(index, error)) from error
        if self._failures > self._settings.tolerated_failures:
            raise RunnersLostError(_too_many(self._failures, error)) from error
        if self._settings.recovery == "ignore":
            if not self._remote:
                raise RunnersLostError(_none_left(error)) from error
            return False
        self._restarts += 1
        if self._restarts > self._settings.most_restarts:
            raise RunnersLostError(_too_many_in_all(self._settings.most_restarts, error)) from error
        return True


@dataclass
class _RemoteRunner:
    place: RunnerPlace
    handle: kernel.ActorHandle
    version: int = -1
    steps: int = 0
    snapshot: kernel.ObjectRef | None = None
    """The state before its last sample; None for that in which any runner of its place begins."""


@dataclass
class _Request:
    steps: int
    weights: _Weights | None
    sample: kernel.ObjectRef
    snapshot: kernel.ObjectRef


def _lost(index: int, error: FaultError) -> str:
    return (
        f"runner {index} died: {error}. With `.fault_tolerance(recovery='recreate')` another takes its place, with "
        "`recovery='ignore'` the others go on."
    )


def _too_many(failures: int, error: FaultError) -> str:
    return (
        f"{failures} runners died one after another, without a sample between them; the last one said: {error}. "
        "Look at what their environments do when they start, or tolerate more with "
        "`.fault_tolerance(num_consecutive_env_runner_failures_tolerance=...)`."
    )


def _too_many_in_all(most: int, error: FaultError) -> str:
    return (
        f"{most} runners were replaced, and another one died: {error}. Look at what their environments do, or allow "
        "more with `.fault_tolerance(max_num_env_runner_restarts=...)`."
    )


def _none_left(error: FaultError) -> str:
    return (
        f"all runners died; the last one said: {error}. With `.fault_tolerance(recovery='recreate')` others take their "
        "places."
    )
