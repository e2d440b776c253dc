"""Population based training with a function: the best learning rate depends on the progress of the training.

python -m kernel_tune.examples.pbt_function_example [--smoke-test]

The population finds a schedule of rates that no constant rate comes near. Each trial's is in the experiment's
`pbt_policy_*.txt`; `pbt_replay_example` trains with one again.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import PopulationBasedTraining

GOAL = 100.0


def best_rate(accuracy: float) -> float:
    """Return the best learning rate for this accuracy: it rises up to the middle, and falls afterwards."""
    share = min(max(accuracy / GOAL, 0.0), 1.0)
    return 0.001 + 0.02 * (share if share < 0.5 else 1 - share)


def train(config: dict[str, Any]) -> None:
    """Gain accuracy, more if the learning rate is near the best one, and save after each step."""
    state = {"accuracy": 0.0, "step": 0}
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        state = checkpoint.to_dict()
    while state["accuracy"] < GOAL:
        best = best_rate(state["accuracy"])
        distance = max(config["lr"], best) / min(config["lr"], best)
        state = {"accuracy": max(state["accuracy"] + 3.0 / distance - 0.5, 0.0), "step": state["step"] + 1}
        tune.report(
            {"mean_accuracy": state["accuracy"], "lr": config["lr"]}, checkpoint=tune.Checkpoint.from_dict(state)
        )


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=4,
        hyperparam_mutations={"lr": tune.uniform(0.0001, 0.02)},
        seed=2,
    )
    return tune.run(
        train,
        name="pbt_function",
        metric="mean_accuracy",
        mode="max",
        scheduler=scheduler,
        stop={"training_iteration": 12 if smoke_test else 120},
        deterministic=smoke_test,  # for the same results each time
        num_samples=3 if smoke_test else 8,
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
