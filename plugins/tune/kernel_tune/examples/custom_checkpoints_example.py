"""Checkpoints in a format of one's own, of which the best two are kept. At the end the best one is loaded.

python -m kernel_tune.examples.custom_checkpoints_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import numpy as np

from kernel import tune


def train(config: dict[str, Any]) -> None:
    """Fit a line by gradient descent with noise, and save its weights as a numpy file with every report."""
    generator = np.random.default_rng(config["seed"])
    inputs = generator.normal(size=(64, 2))
    targets = inputs @ np.array([2.0, -1.0])
    weights = np.zeros(2)
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            weights = np.load(os.path.join(directory, "weights.npy"))
    for _ in range(config["steps"]):
        gradient = inputs.T @ (inputs @ weights - targets) / len(targets) + generator.normal(0, 0.3, 2)
        weights = weights - config["rate"] * gradient
        loss = float(np.mean((inputs @ weights - targets) ** 2))
        with tempfile.TemporaryDirectory() as directory:
            np.save(os.path.join(directory, "weights.npy"), weights)
            tune.report({"loss": loss}, checkpoint=tune.Checkpoint.from_directory(directory))


def main(smoke_test: bool = False) -> Any:
    """Search, and return the best weights and the results."""
    results = tune.Tuner(
        train,
        param_space={"rate": tune.grid_search([0.1, 0.5]), "seed": 1, "steps": 6 if smoke_test else 100},
        tune_config=tune.TuneConfig(metric="loss", mode="min", reuse_actors=True),
        run_config=tune.RunConfig(
            name="custom_checkpoints",
            checkpoint_config=tune.CheckpointConfig(
                num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min"
            ),
            verbose=0 if smoke_test else 1,
        ),
    ).fit()
    best = results.get_best_result(scope="all")
    with best.get_best_checkpoint("loss", "min").as_directory() as directory:
        return np.load(os.path.join(directory, "weights.npy")), results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("weights:", main(parser.parse_args().smoke_test)[0])
