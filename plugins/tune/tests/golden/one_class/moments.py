"""A trial loop at three moments: the program that made `moments.pkl`, while the loop was one class.

`python moments.py FOLDER` made it. Trials of a population go on from the states of others meanwhile: at these moments
some wait for a state, some have been given one, and some are paused.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from kernel_tune import search_space
from kernel_tune.schedulers import PopulationBasedTraining
from kernel_tune.searchers import BasicVariantGenerator
from kernel_tune.testing.world import TrialBody, TrialWorld, at_random, make_world
from kernel_tune.trial import Status


def metric(config: dict[str, Any], state: float, iteration: int) -> float:
    """Return by how much the state of a trial grows."""
    return float(config["x"]) * config["k"] / iteration - 0.01 * state


def world() -> TrialWorld:
    """Return a world whose trials have begun."""
    scheduler = PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations={"x": search_space.uniform(0, 1)}, seed=3
    )
    space = {"x": search_space.uniform(0, 1), "k": search_space.choice([1, 2, 3])}
    searcher = BasicVariantGenerator(random_state=1)
    return make_world(searcher, scheduler, space, metric, samples=8, cpus=6, every=2, order=at_random(4))


def moment_of(at: TrialWorld) -> dict[str, Any]:
    """Return everything of a world that is needed to go on with it."""
    bodies = {name: (body.config, body.iteration, body.state, body.skip) for name, body in at.bodies.items()}
    return {"loop": at.loop, "bodies": bodies, "asked": at.asked, "history": at.history}


def world_at(moment: dict[str, Any]) -> TrialWorld:
    """Return a world that goes on from such a moment, with the first trial that waits as the next one to answer."""
    found = TrialWorld(moment["loop"], 9, metric, 2)
    found.bodies = {name: TrialBody(*values) for name, values in moment["bodies"].items()}
    found.asked, found.history = moment["asked"], moment["history"]
    return found


def make(folder: str) -> None:
    """Write the moments, each with the outcome of going on from it."""
    running, kept = world(), []
    wanted = {"copies", "replacement", "donor"}
    while not running.run(1):
        every = [running.loop.progress_of(trial) for trial in running.loop.trials]
        seen = {name for name in wanted for progress in every if getattr(progress, name)}
        paused = any(trial.status is Status.PAUSED for trial in running.loop.trials)
        if seen and paused:
            wanted -= seen
            pickled = pickle.dumps(moment_of(running))
            rest = world_at(pickle.loads(pickled))
            assert rest.run()
            kept.append((pickled, rest.outcome()))
            print(sorted(seen), len(pickled))
    assert not wanted, wanted
    Path(folder, "moments.pkl").write_bytes(pickle.dumps(kept))


if __name__ == "__main__":
    make(sys.argv[1])
