"""A runner in an actor of its own: what it is told, and where its process runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.envs.whereabouts import Whereabouts, whereabouts_of
from kernel_rllib.nn.blas import set_blas_threads
from kernel_rllib.runners.construction import Construction
from kernel_rllib.runners.contract import LaneSampler
from kernel_rllib.runners.env_runner import EnvRunner, Sample, Work

WATCH = "watch"
"""The calls that are answered while a runner samples."""


class RunnerActor:
    """An `EnvRunner` that is called from elsewhere. Weights arrive by the object store, mapped and copied once."""

    def __init__(
        self,
        make_sampler: Callable[[], LaneSampler],
        index: int,
        state: Mapping[str, Any] | None,
        work: Work | None,
        construction: Construction,
    ) -> None:
        """Make the runner; with a state, let it go on from there."""
        set_blas_threads(1)
        with construction.told():
            self._runner = EnvRunner(make_sampler, index=index, work=work)
            if state is not None:
                self._runner.set_state(state)

    def ready(self) -> int:
        """Return the number of this runner, once it is made."""
        return self._runner.index

    def sample(
        self, steps: int, vector: Array | None, version: int, statistics: Statistics | None, with_state: bool
    ) -> tuple[Sample, Any]:
        """Return a sample, and the state of the lanes after it if asked for."""
        weights = None if vector is None else (vector, version)
        sample = self._runner.sample(steps, weights, statistics)
        return sample, self._runner.state() if with_state else None

    def apply(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what the function returns for the runner."""
        return self._runner.apply(function, *arguments, **named)

    @kernel.method(concurrency_group=WATCH)
    def whereabouts(self) -> Whereabouts:
        """Return where this runner is, while it does something else."""
        main = threading.main_thread().ident
        assert main is not None
        return whereabouts_of(main)

    def state(self) -> Mapping[str, Any]:
        """Return all that its lanes need to go on elsewhere."""
        return self._runner.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self._runner.set_state(state)


def start_runner(
    make_sampler: Callable[[], LaneSampler],
    index: int,
    options: Mapping[str, Any],
    construction: Construction,
    state: Any = None,
    work: Work | None = None,
) -> kernel.ActorHandle:
    """Start a runner in an actor with these options, and return its handle at once."""
    given = {"num_cpus": 1, **options, "concurrency_groups": {WATCH: 1}}
    actor = kernel.remote(**given)(RunnerActor)
    handle: kernel.ActorHandle = actor.remote(make_sampler, index, state, work, construction)
    return handle
