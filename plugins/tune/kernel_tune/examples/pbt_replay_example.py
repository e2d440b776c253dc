"""Replay of the schedule that population based training has found for its best trial.

python -m kernel_tune.examples.pbt_replay_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from kernel import tune
from kernel.tune.examples.pbt_function_example import main as search
from kernel.tune.examples.pbt_function_example import train
from kernel.tune.schedulers import PopulationBasedTrainingReplay


def main(smoke_test: bool = False) -> Any:
    """Search, then replay the best trial that was copied from another one. Return the analysis of the replay."""
    found = search(smoke_test)
    policies = {
        trial: os.path.join(found.experiment_path, f"pbt_policy_{trial.trial_id}.txt") for trial in found.trials
    }
    changed = [trial for trial, path in policies.items() if os.path.exists(path)]
    best = max(changed, key=lambda trial: trial.last_result["mean_accuracy"])
    return tune.run(
        train,
        name="pbt_replay",
        metric="mean_accuracy",
        mode="max",
        scheduler=PopulationBasedTrainingReplay(policies[best]),
        stop={"training_iteration": best.iteration},
        checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("accuracy of the replay:", main(parser.parse_args().smoke_test).best_result["mean_accuracy"])
