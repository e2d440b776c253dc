"""PB2: population based training in which a model of earlier results chooses the next hyperparameters.

python -m kernel_tune.examples.pb2_example [--smoke-test]

It needs fewer trials than population based training, and bounds in place of mutations.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.examples.pbt_function_example import train
from kernel.tune.schedulers import PB2


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    return tune.run(
        train,
        name="pb2",
        metric="mean_accuracy",
        mode="max",
        scheduler=PB2(
            time_attr="training_iteration", perturbation_interval=4, hyperparam_bounds={"lr": [0.0001, 0.02]}, seed=1
        ),
        stop={"training_iteration": 16 if smoke_test else 120},
        deterministic=smoke_test,  # for the same results each time
        num_samples=3 if smoke_test else 4,
        config={"lr": tune.loguniform(0.0001, 0.02)},
        checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        reuse_actors=True,
        seed=1,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best accuracy:", main(parser.parse_args().smoke_test).best_result["mean_accuracy"])
