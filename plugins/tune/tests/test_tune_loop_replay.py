"""An experiment that was killed at any moment ends with the trials and results of one that was not."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kernel_tune import schedulers, search_space
from kernel_tune.searchers import BasicVariantGenerator
from kernel_tune.testing.world import TrialWorld, killed_and_resumed, make_world

SPACE = {"x": search_space.uniform(0, 1), "k": search_space.choice([1, 2, 3])}


def metric(config: dict[str, Any], state: float, iteration: int) -> float:
    return config["x"] * config["k"] / iteration - 0.01 * state


SCHEDULERS = {
    "fifo": lambda: schedulers.FIFOScheduler(),
    "asha": lambda: schedulers.ASHAScheduler(max_t=9, grace_period=1, reduction_factor=2),
    "hyperband": lambda: schedulers.HyperBandScheduler(max_t=9),
    "median": lambda: schedulers.MedianStoppingRule(
        time_attr="training_iteration", grace_period=2, min_samples_required=2, hard_stop=False
    ),
    "pbt": lambda: schedulers.PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": search_space.uniform(0, 1)},
        seed=3,
    ),
    "pbt in step": lambda: schedulers.PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": search_space.uniform(0, 1)},
        seed=3, synch=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("every", [0, 2], ids=["without checkpoints", "with checkpoints"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_killed_at_random_moments(name: str, every: int) -> None:
    def make() -> TrialWorld:
        searcher = BasicVariantGenerator(random_state=1)
        return make_world(searcher, SCHEDULERS[name](), SPACE, metric, every=every)

    whole = make()
    assert whole.run()
    steps = len(whole.log)
    dice = random.Random(name + str(every))
    for _ in range(20):
        at = dice.randrange(1, steps)
        assert killed_and_resumed(make, at, dice.randrange(at)).outcome() == whole.outcome(), at
