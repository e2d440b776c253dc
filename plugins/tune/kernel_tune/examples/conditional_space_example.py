"""A space in which one choice decides which other values are chosen, and one value depends on another.

python -m kernel_tune.examples.conditional_space_example [--smoke-test]
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune

SPACE = {
    "model": tune.choice(
        [
            {"kind": "tree", "depth": tune.randint(1, 12), "leaf": tune.qrandint(2, 20, 2)},
            {"kind": "kernel", "gamma": tune.loguniform(1e-4, 10), "c": tune.loguniform(1e-2, 100)},
        ]
    ),
    "folds": tune.choice([3, 5]),
    "patience": tune.sample_from(lambda spec: spec.config.folds * 2),
}


def evaluate(config: dict[str, Any]) -> dict[str, float]:
    """Return the loss of a model with these settings."""
    model = config["model"]
    if model["kind"] == "tree":
        loss = 0.3 + abs(model["depth"] - 6) / 20 + model["leaf"] / 200
    else:
        loss = 0.1 + abs(model["gamma"] - 0.1) / 10 + 1 / (1 + model["c"])
    return {"loss": loss + 1 / config["patience"]}


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    return tune.Tuner(
        evaluate,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", search_alg="tpe", num_samples=12 if smoke_test else 80, seed=1, reuse_actors=True
        ),
        run_config=tune.RunConfig(name="conditional_space", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).get_best_result().config)
