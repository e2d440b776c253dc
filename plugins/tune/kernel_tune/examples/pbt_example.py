"""Population based training finds a learning rate that changes over time: the best one depends on the score.

python -m kernel_tune.examples.pbt_example [--smoke-test]

The toy of the PBT paper's discussion: from a low score small rates are right, higher up larger ones, and beyond the
middle small ones again. No constant rate comes near the end.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

from kernel import tune
from kernel.tune.schedulers import PopulationBasedTraining


class Climber(tune.Trainable):
    """Climbs by its learning rate, less if that is far from the best one for its height."""

    def setup(self, config: dict[str, Any]) -> None:
        self.lr = config["lr"]
        self.accuracy = 0.0

    def step(self) -> dict[str, Any]:
        middle, noise = 100, random.Random(int(self.accuracy * 1000)).uniform(0.5, 1.5)
        best = 0.01 * self.accuracy / (middle / 2) if self.accuracy < middle / 2 else 0.01 - 0.01 * (
            self.accuracy - middle / 2
        ) / (middle / 2)  # fmt: skip
        best = max(best, 0.001)
        quality = max(self.lr, best) / min(self.lr, best)
        self.accuracy += noise * (1 if quality < 5 else -0.5)
        self.accuracy = max(self.accuracy, 0.0)
        return {"mean_accuracy": self.accuracy, "cur_lr": self.lr, "done": self.accuracy > middle * 2}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"accuracy": self.accuracy}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.accuracy = checkpoint["accuracy"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.lr = new_config["lr"]
        self.accuracy = 0.0
        return True


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="mean_accuracy",
        mode="max",
        perturbation_interval=5 if smoke_test else 20,
        hyperparam_mutations={"lr": tune.uniform(0.0001, 0.02)},
        seed=1,
    )
    return tune.run(
        Climber,
        name="pbt_test",
        metric="mean_accuracy",
        mode="max",
        scheduler=scheduler,
        reuse_actors=True,
        stop={"training_iteration": 15 if smoke_test else 200},
        num_samples=4,
        config={"lr": tune.choice([0.0001, 0.02])},
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best accuracy:", main(parser.parse_args().smoke_test).best_result["mean_accuracy"])
