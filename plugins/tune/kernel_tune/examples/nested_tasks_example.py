"""Trials that use kernel themselves: each runs the folds of a cross-validation as tasks.

python -m kernel_tune.examples.nested_tasks_example [--smoke-test]

What a trial needs is reserved for it and for its tasks together, so that trials can't wait for each other for ever.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import kernel
from kernel import tune


@kernel.remote(num_cpus=0.5)
def fold_error(data: Any, alpha: float, fold: int, folds: int) -> float:
    """Fit ridge regression without a fold, and return its mean squared error on the fold."""
    inputs, targets = data
    held = np.arange(len(targets)) % folds == fold
    known, answers = inputs[~held], targets[~held]
    weights = np.linalg.solve(known.T @ known + alpha * np.eye(known.shape[1]), known.T @ answers)
    return float(np.mean((inputs[held] @ weights - targets[held]) ** 2))


def validate(config: dict[str, Any], data: Any = None) -> None:
    """Report the mean error of all folds, which are tasks."""
    shared = kernel.put(data)
    errors = kernel.get([fold_error.remote(shared, config["alpha"], fold, 4) for fold in range(4)])
    tune.report({"error": float(np.mean(errors))})


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    generator = np.random.default_rng(1)
    inputs = generator.normal(size=(60, 20))
    targets = inputs @ generator.normal(size=20) + generator.normal(0, 3, size=60)
    trainable = tune.with_resources(
        tune.with_parameters(validate, data=(inputs, targets)),
        tune.PlacementGroupFactory([{"CPU": 0.5}, {"CPU": 0.5}]),
    )
    return tune.Tuner(
        trainable,
        param_space={"alpha": tune.loguniform(1e-3, 1e3)},
        tune_config=tune.TuneConfig(metric="error", mode="min", num_samples=2 if smoke_test else 30, seed=1),
        run_config=tune.RunConfig(name="nested_tasks", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).get_best_result().config)
