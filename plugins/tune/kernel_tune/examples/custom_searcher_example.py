"""A searcher of one's own: it looks around the best place so far, in a circle that becomes smaller.

python -m kernel_tune.examples.custom_searcher_example [--smoke-test]

`kernel_tune.testing.searchers` has the suite of tests that it could pass.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from kernel import tune
from kernel.tune.searchers import Searcher


class AroundTheBest(Searcher):
    """Proposes places near the best one. Its randomness comes from the seed, so that a killed experiment can resume."""

    def __init__(self, start: dict[str, float], metric: str, mode: str, seed: int = 0) -> None:
        super().__init__(metric=metric, mode=mode)
        self.generator = np.random.default_rng(seed)
        self.best, self.best_score = start, float("-inf")
        self.radius = 2.0
        self.running: dict[str, dict[str, float]] = {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        config = {name: value + float(self.generator.normal(0, self.radius)) for name, value in self.best.items()}
        self.running[trial_id] = config
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        config = self.running.pop(trial_id)
        if error or not result or self.metric not in result:
            return
        score = result[self.metric] if self.mode == "max" else -result[self.metric]
        if score > self.best_score:
            self.best, self.best_score = config, score
        else:
            self.radius *= 0.95


def height(config: dict[str, Any]) -> dict[str, float]:
    """Return the height of a place."""
    return {"height": (config["x"] - 3) ** 2 + (config["y"] + 1) ** 2}


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    return tune.run(
        height,
        name="custom_searcher",
        metric="height",
        mode="min",
        search_alg=AroundTheBest({"x": 0.0, "y": 0.0}, metric="height", mode="min"),
        num_samples=10 if smoke_test else 100,
        max_concurrent_trials=2,
        reuse_actors=True,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).best_config)
