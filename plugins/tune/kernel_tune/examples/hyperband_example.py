"""HyperBand with a Trainable class, described by an `Experiment`: trials are paused, and the better ones resumed.

python -m kernel_tune.examples.hyperband_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from kernel import tune
from kernel.tune.schedulers import HyperBandScheduler


class Sigmoid(tune.Trainable):
    """A reward that rises along a curve whose place and height are the hyperparameters."""

    def setup(self, config: dict[str, Any]) -> None:
        self.timestep = 0

    def step(self) -> dict[str, Any]:
        self.timestep += 1
        height = np.tanh(float(self.timestep) / self.config["width"]) * self.config["height"]
        return {"episode_reward_mean": float(height)}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        path = os.path.join(checkpoint_dir, "checkpoint")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"timestep": self.timestep}, file)
        return path

    def load_checkpoint(self, checkpoint: str) -> None:
        with open(checkpoint, encoding="utf-8") as file:
            self.timestep = json.load(file)["timestep"]


def main(smoke_test: bool = False) -> Any:
    """Search, and return the trials."""
    scheduler = HyperBandScheduler(
        time_attr="training_iteration", metric="episode_reward_mean", mode="max", max_t=9 if smoke_test else 200
    )
    experiment = tune.Experiment(
        name="hyperband_test",
        run=Sigmoid,
        num_samples=9 if smoke_test else 200,
        stop={"training_iteration": 9 if smoke_test else 99999},
        config={"width": tune.uniform(10, 100), "height": tune.uniform(0, 100)},
    )
    return tune.run_experiments(experiment, scheduler=scheduler, verbose=0 if smoke_test else 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    trials = main(parser.parse_args().smoke_test)
    print("iterations:", sorted(trial.results for trial in trials))
