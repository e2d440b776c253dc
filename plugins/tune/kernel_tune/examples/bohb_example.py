"""BOHB: its model proposes configurations, and HyperBand gives most of the time to the best of them.

python -m kernel_tune.examples.bohb_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from kernel import tune
from kernel.tune.schedulers import HyperBandForBOHB
from kernel.tune.searchers import BOHBSearch


class Curve(tune.Trainable):
    """A loss that falls towards a value that depends on the hyperparameters."""

    def setup(self, config: dict[str, Any]) -> None:
        self.steps = 0

    def step(self) -> dict[str, Any]:
        self.steps += 1
        floor = (math.log10(self.config["rate"]) + 2) ** 2 + {"relu": 0.0, "tanh": 0.5}[self.config["activation"]]
        return {"loss": floor + 1 / self.steps}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.steps = checkpoint["steps"]


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    longest = 4 if smoke_test else 81
    return tune.run(
        Curve,
        name="bohb",
        metric="loss",
        mode="min",
        search_alg=BOHBSearch(seed=1),
        scheduler=HyperBandForBOHB(time_attr="training_iteration", max_t=longest, reduction_factor=2),
        stop={"training_iteration": longest},
        num_samples=6 if smoke_test else 60,
        config={"rate": tune.loguniform(1e-5, 1), "activation": tune.choice(["relu", "tanh"])},
        reuse_actors=True,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).best_config)
