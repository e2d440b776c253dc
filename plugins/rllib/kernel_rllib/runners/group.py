"""The runners of a run: samples in the order of lanes, weights by the store, and runners that die and come again.

Lanes have numbers that say nothing of runners: the same lanes give the same samples whether one process steps them or
four. What becomes of the lanes of a runner that dies is said by the mode of recovery; see `runners.recovery`.

Samples are asked for in rounds, one of each runner, and collected in the same order. More than one round may be asked
for at a time: a runner makes its samples one after another, each with the parameters and statistics of the moment when
it was asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments, Statistics, with_learned
from kernel_rllib.errors import RunnerHangsError, RunnersLostError
from kernel_rllib.runners.construction import Construction
from kernel_rllib.runners.contract import LaneSampler
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.kept_samples import rounds_of_state
from kernel_rllib.runners.patience import Patience
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.recovery import Losses
from kernel_rllib.runners.remote_runner import RemoteRunner, Weights, take_as_heard
from kernel_rllib.runners.runner_actor import start_runner
from kernel_rllib.runners.runner_calls import RunnerCalls, changed, nothing
from kernel_rllib.runners.stall_warning import StallWarning
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")

MakeSampler: TypeAlias = Callable[[RunnerPlace], LaneSampler]


class RunnerGroup(RunnerCalls):
    """Samples from all lanes of a run."""

    def __init__(self, make_sampler: MakeSampler, settings: GroupSettings) -> None:
        """Make the runners. Those in actors are made at the same time, and waited for when they first sample.

        Args:
            make_sampler: Makes the sampler of a runner, where it runs. It is sent there, so it must be picklable.
            settings: The numbers of lanes and runners, and what happens when a runner dies.
        """
        self._make_sampler, self._settings = make_sampler, settings
        self._weights: Weights | None = None
        self.statistics: Statistics = {}
        """The statistics of connectors over all lanes, by name. They change when all runners have sampled."""
        self._losses = Losses(settings.recovery, settings.tolerated_failures, settings.most_restarts)
        self._patience = Patience(settings.limits)
        self.stalls = StallWarning(settings.limits.late)
        """Is to be entered where environments are stepped here."""
        self._is_closed = False
        self._replaced: list[int] = []
        self._rounds: list[list[Sample]] = []
        """Rounds that are there and were not collected yet, before those that actors are still asked for."""
        self.local: EnvRunner | None = None
        self._remote: dict[int, RemoteRunner] = {}
        if not settings.remote:
            here = RunnerPlace(0, tuple(settings.lanes[0]), 0, len(settings.lanes[0]))
            self.local = EnvRunner(lambda: make_sampler(here), work=settings.work)
            return
        all_lanes = sum(map(len, settings.lanes))
        for index, lanes in enumerate(settings.lanes, start=1):
            if lanes:
                runners, before = len(settings.lanes), settings.steps_before
                place = RunnerPlace(index, tuple(lanes), runners, all_lanes, settings.incarnation, before)
                self._remote[index] = self._start(place)

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
    def weights(self) -> Weights | None:
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
        take_as_heard(self._hand_over(made))
        return made.handle

    def forget_failures(self) -> None:
        """Count failures in a row from 0 again: all runners have answered."""
        self._losses.forget()

    def hand_over_weights(self) -> None:
        """Let all runners take the last parameters and statistics now, not with their next sample."""
        self.foreach(nothing, hands_over=True)

    def sample(self, steps: Callable[[int], int]) -> list[Sample]:
        """Return the samples of the next round, in the order of their lanes; it is asked for, if none was.

        Args:
            steps: Says how many times a runner is to step each of its lanes, by its number.

        Raises:
            RunnersLostError: If no runner is left, or too many died in a row.
        """
        if not self.rounds_asked:
            self.request(steps)
        return self.collect()

    @property
    def rounds_asked(self) -> int:
        """The number of rounds that were requested and are not collected yet."""
        return len(self._rounds) + max((len(runner.requests) for runner in self._remote.values()), default=0)

    def request(self, steps: Callable[[int], int]) -> None:
        """Ask all runners for one more round, with the parameters and statistics of now; see `sample`.

        Actors begin with it when they have done what they were asked for before. A runner that is here makes it at
        once: so it acts in the same order as an actor, whatever is asked of it before the round is collected.
        """
        if self._is_closed:
            raise RunnersLostError("the runners were ended, and sample no more: make another group, or algorithm")
        for runner in self._remote.values():
            self._ask(runner, steps(runner.place.index))
        if self.local is not None:
            with self.stalls:
                self._rounds.append([self.local.sample(steps(0))])

    def collect(self) -> list[Sample]:
        """Return the samples of the oldest round that was asked for, in the order of lanes; see `sample`.

        What their connectors learned is put together, in this order, and all work with it in rounds that are asked for
        from then on.
        """
        samples = self._rounds.pop(0) if self._rounds else self._round()
        self._learn_from(samples)
        return samples

    def gathered(self) -> list[list[Sample]]:
        """Wait for all rounds that were asked for, and return them. They are still there to be collected."""
        while any(runner.requests for runner in self._remote.values()):
            self._rounds.append(self._round())
        return self._rounds

    def _learn_from(self, samples: Sequence[Sample]) -> None:
        """Put what connectors learned together."""
        learned = [sample.learned for sample in samples if sample.learned]
        if learned:
            self.set_statistics(with_learned(self.statistics, learned))

    def _round(self) -> list[Sample]:
        """Wait for the oldest sample of each actor."""
        indices = sorted(index for index, runner in self._remote.items() if runner.requests)
        samples: list[Sample] = []
        if self._settings.recovery is None:  # A death is raised at once: the others may be waiting for that runner.
            while indices:
                samples.append(self._first(indices))
                indices.remove(samples[-1].runner)
            return sorted(samples, key=lambda sample: sample.runner)
        for index in indices:
            while index in self._remote:
                if (sample := self._awaited([index])) is not None:
                    samples.append(sample)
                    break
        return samples

    def keep_asked(self, steps: Callable[[int], int], requests: int) -> None:
        """Let each runner have this many requests to do one after another, new ones with the parameters of now.

        Args:
            steps: Says how many times a runner is to step each of its lanes, by its number.
            requests: The number of requests. With two, a runner begins the next sample as soon as it has sent one.
        """
        for index, runner in self._remote.items():
            for _ in range(requests - len(runner.requests)):
                self._ask(runner, steps(index))
        if self.local is not None and not self._rounds:
            self.request(steps)

    @property
    def has_sample(self) -> bool:
        """Whether `collect_first` would return at once: with a sample, or because a runner has died."""
        asked = [runner.requests[0].sample for runner in self._remote.values() if runner.requests]
        return bool(self._rounds or (asked and kernel.wait(asked, timeout=0)[0]))

    def collect_first(self) -> Sample:
        """Return the sample of the runner that is the first to have one, of all that were asked.

        Raises:
            RunnersLostError: If no runner is left, or too many died in a row.
        """
        sample = self._rounds.pop(0)[0] if self._rounds else self._first(self._remote)
        if sample.runner in self._remote:  # Of several ready runners, the others come first next time.
            self._remote[sample.runner] = self._remote.pop(sample.runner)
        self._learn_from([sample])
        return sample

    def _first(self, indices: Collection[int]) -> Sample:
        """Wait for the first sample of any of these actors."""
        while (sample := self._awaited(indices)) is None:
            pass
        return sample

    def change(self, make_sampler: MakeSampler, function: Callable[[EnvRunner, Any], None]) -> None:
        """Let runners be made by another maker from now on, and those that there are become as if made by it.

        Rounds that were asked for before are waited for: they are as the maker of then made them. Runners have the
        last parameters then: those that what goes keeps, where it acts on.

        Args:
            make_sampler: The maker.
            function: Changes a runner, given the maker. It may be called again for a runner that is as it should be.
        """
        self.gathered()
        self.hand_over_weights()
        if self._is_exact:  # States are fetched at once: a mere request is lost with its runner.
            states = self.foreach(changed, function, make_sampler)
            for (_, runner), state in zip(sorted(self._remote.items()), states, strict=False):
                runner.snapshot = kernel.put(state)
        else:
            self.foreach(function, make_sampler)
        self._make_sampler = make_sampler

    def state(self) -> dict[str, Any]:
        """Return the state of the lanes of all runners, and the connectors' statistics of all of them."""
        states = self.foreach(EnvRunner.state)
        lanes = {lane: state for found in states for lane, state in found["lanes"].items()}
        casts = {name: piece for found in states for name, piece in found.get("casts", {}).items()}
        kept = {"casts": casts} if casts else {}
        return {"lanes": lanes, **kept, "connectors": {name: found.arrays() for name, found in self.statistics.items()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, in any number of runners, and with the weights that come next.

        What runners were asked for is left out. Rounds that the state has as `rounds` are collected first; see
        `kept_samples.state_of_rounds`.
        """
        self._weights = None
        held = kernel.put(state) if self._remote else None
        for runner in self._remote.values():
            runner.version, runner.snapshot = -1, held
            runner.requests.clear()
        self.foreach(EnvRunner.set_state, held if self._remote else state)
        self.set_statistics({name: Moments.of_arrays(found) for name, found in state["connectors"].items()})
        self._rounds = rounds_of_state(state.get("rounds", {}))

    def close(self) -> None:
        """End the actors, and close the environments here. It may be called again; there are no samples afterwards."""
        self._is_closed = True
        if self.local is not None:
            self.local.sampler.close()
        for runner in self._remote.values():
            runner.end()
        self._remote.clear()
        self._rounds.clear()

    def _start(self, place: RunnerPlace, state: kernel.ObjectRef | None = None, steps: int = 0) -> RemoteRunner:
        """Start a runner that begins in a state, after so many steps of each lane."""
        make_sampler = self._make_sampler
        options, work, construction = self._settings.options or {}, self._settings.work, Construction()
        handle = start_runner(lambda: make_sampler(place), place.index, options, construction, state, work)
        return RemoteRunner(place, handle, construction, snapshot=state, steps=steps)

    def _ask(self, runner: RemoteRunner, steps: int) -> None:
        runner.ask(steps, self._weights, self.statistics, with_snapshot=self._is_exact)

    @property
    def _is_exact(self) -> bool:
        return self._settings.recovery == "exact"

    def _awaited(self, indices: Collection[int]) -> Sample | None:
        """Wait for the oldest request to any of these runners; return its sample, or None where it is lost.

        Then another one is asked for it, if the mode of recovery says so: see `_replace`.
        """
        first = self._patience.first(
            {
                runner.requests[0].sample: runner
                for index, runner in self._remote.items()
                if runner.requests and index in indices
            }
        )
        assert first is not None  # There is no deadline.
        runner, lost = first
        request = runner.requests[0]
        try:
            if lost is not None:
                raise lost
            sample: Sample = kernel.get(request.sample)
        except FaultError as error:
            self._replace(runner.place.index, error)
            return None
        except Exception:  # Code of users may raise anything.
            self._drop_requests()
            raise
        runner.requests.pop(0)
        sample.ref, runner.is_made = request.sample, True
        self._losses.forget()
        self._losses.has_sampled = True
        if self._is_exact:
            runner.snapshot = request.snapshot
        return sample

    def _drop_requests(self) -> None:
        """Wait for no sample any more: one of them raised an error, and the others alone are no round."""
        self._rounds.clear()
        take_as_heard([ref for runner in self._remote.values() for ref in runner.samples()])
        for runner in self._remote.values():
            runner.requests.clear()
            if self._is_exact:
                runner.snapshot = runner.handle.state.remote()

    def _replace(self, index: int, error: FaultError, failed: Sequence[kernel.ObjectRef] = ()) -> None:
        """Take a runner that died out of the group; ask another in its place for the same, if the mode says so.

        Args:
            index: Its number.
            error: The error by which its death was noticed.
            failed: The references of its other requests, which are no samples.
        """
        lost = self._remote.pop(index)
        take_as_heard([*failed, *lost.samples()])
        if isinstance(error, RunnerHangsError):
            lost.end()
        try:
            if not self._losses.may_replace(index, lost.place.lanes, error, others=len(self._remote)):
                return
            snapshot = lost.beginning() if self._is_exact else None
        except Exception:  # This may be the end of the program: the other failures are no news then.
            take_as_heard([ref for other in self._remote.values() for ref in other.samples()])
            raise
        place, before = lost.place, lost.steps_brought()
        if not self._is_exact:
            place = replace(place, incarnation=place.incarnation + 1, steps_before=before)
        made = self._remote[index] = self._start(place, snapshot, before)
        self._replaced.append(index)
        for request in lost.requests:
            made.ask(request.steps, request.weights, request.statistics, with_snapshot=self._is_exact)
