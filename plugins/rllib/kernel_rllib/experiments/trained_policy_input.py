"""Recorded experience that is made where it is read: a policy is trained, and acts; the same for the same seed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.tuned import tuned_experiment
from kernel_rllib.offline.input_reader import InputReader, OutputWriter
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.training.registry import algorithm_class


class TrainedPolicyInput(InputReader):
    """Returns the episodes of a policy that a tuned experiment has trained, in any order, again and again.

    It is an input for checks of algorithms that learn from recorded experience: nothing has to be kept or fetched.
    `input_config` says what is made: `experiment`, `train_steps`, `steps`, which are recorded after these, and with
    `goes_on: true` while training goes on; `explore: false` records the best actions. `seed` is that of
    the training, if another than that of the run.
    """

    def __init__(self, ioctx: IOContext) -> None:
        """Read what `input_config` says; it is made when it is first read.

        Raises:
            ConfigError: If `input_config` does not say what is to be made.
        """
        missing = [name for name in ("experiment", "train_steps", "steps") if name not in ioctx.input_config]
        if missing:
            raise ConfigError(
                f"TrainedPolicyInput needs {', '.join(missing)} in input_config: the name of a tuned experiment, how "
                "many steps it is trained, and how many are recorded then"
            )
        self._given = {"seed": ioctx.config["seed"] or 0, **ioctx.input_config}
        self._stream = np.random.default_rng(ioctx.seed)
        self._waiting: list[int] = []

    @cached_property
    def episodes(self) -> list[Batch]:
        """The episodes."""
        return recorded(**self._given).split_by_episode()

    def next(self) -> Batch:
        """Return one episode, or the part of one that was recorded."""
        if not self._waiting:
            self._waiting = self._stream.permutation(len(self.episodes)).tolist()
        return self.episodes[self._waiting.pop()]

    def state(self) -> dict[str, Any]:
        """Return which episodes are still to come in this round, and where draws are."""
        return {"waiting": list(self._waiting), "draws": self._stream.bit_generator.state}

    def set_state(self, state: Any) -> None:
        """Go on with what `state` returned."""
        self._waiting = [int(number) for number in state["waiting"]]
        self._stream.bit_generator.state = state["draws"]


def recorded(
    seed: int, experiment: str, train_steps: int, steps: int, goes_on: bool = False, explore: bool = True
) -> Batch:
    """Return what a policy does after a training, episode after episode.

    Args:
        seed: That of the training.
        experiment: The name of a tuned experiment.
        train_steps: The number of steps of training.
        steps: The number of steps that are recorded.
        goes_on: Whether training goes on meanwhile.
        explore: Whether it explores then as it does in training; otherwise its best actions are recorded.
    """
    tuned, kept = tuned_experiment(experiment), _Kept()
    settings = {**tuned.config, "env": tuned.env, "seed": seed, "num_env_runners": 0, "output": lambda ioctx: kept}
    algorithm = algorithm_class(tuned.run)(settings)
    try:
        while algorithm.env_steps_sampled < train_steps:
            algorithm.train()
        kept.batches.clear()
        if not explore:
            weights = algorithm.get_weights()
            algorithm.stop()
            algorithm = algorithm_class(tuned.run)({**settings, "explore": False})
            algorithm.set_weights(weights)
        while sum(batch.count for batch in kept.batches) < steps:
            algorithm.train() if goes_on else algorithm.sample()
    finally:
        algorithm.stop()
    found = concatenated(kept.batches)
    assert isinstance(found, Batch)
    return found.take(np.lexsort((found[columns.T], found[columns.EPS_ID])))


class _Kept(OutputWriter):
    """Keeps batches in memory."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def write(self, sample_batch: Batch | MultiAgentBatch) -> None:
        assert isinstance(sample_batch, Batch)
        self.batches.append(sample_batch)
