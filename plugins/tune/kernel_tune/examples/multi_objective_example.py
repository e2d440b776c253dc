"""Two metrics at once: models that are accurate, and models that are small. There is no single best one.

python -m kernel_tune.examples.multi_objective_example [--smoke-test]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from kernel import tune
from kernel.tune.searchers import TPESearch


def evaluate(config: dict[str, Any]) -> dict[str, float]:
    """Return error and size of a model. Width helps up to a point; pruning makes it smaller and worse."""
    size = config["width"] * (1 - config["pruned"])
    error = 1 / (1 + config["width"] / 20) + config["pruned"] ** 3 + abs(config["rate"] - 0.1)
    return {"error": error, "size": size}


def pareto_front(results: Sequence[Any]) -> list[Any]:
    """Return the results that no other result dominates, the smallest first."""
    values = [(result.metrics["size"], result.metrics["error"]) for result in results]
    front = [
        result
        for result, (size, error) in zip(results, values, strict=True)
        if not any(s <= size and e <= error and (s, e) != (size, error) for s, e in values)
    ]
    return sorted(front, key=lambda result: float(result.metrics["size"]))


def main(smoke_test: bool = False) -> Any:
    """Search, and return the Pareto front and all results."""
    results = tune.Tuner(
        evaluate,
        param_space={"width": tune.randint(1, 200), "pruned": tune.uniform(0, 0.9), "rate": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            search_alg=TPESearch(metric=["error", "size"], mode=["min", "min"], seed=1, n_initial_points=6),
            num_samples=12 if smoke_test else 100,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="multi_objective", verbose=0 if smoke_test else 1),
    ).fit()
    return pareto_front(list(results)), results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    for each in main(parser.parse_args().smoke_test)[0]:
        print(each.metrics["size"], each.metrics["error"])
