"""One problem for every searcher: the lowest point of a bent valley of two numbers.

python -m kernel_tune.examples.searchers_example [--searcher tpe] [--smoke-test]
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.searchers import ConcurrencyLimiter, create_searcher

SEARCHERS = {
    "random": {},
    "sobol": {},
    "tpe": {"n_initial_points": 10},
    "gp": {"n_initial_points": 6},
    "cmaes": {},
    "nelder_mead": {},
}
"""The arguments of searchers by name."""


def valley(config: dict[str, Any]) -> dict[str, float]:
    """Return the height of a place. The lowest is 0, at (1, 1)."""
    x, y = config["x"], config["y"]
    return {"height": (1 - x) ** 2 + 5 * (y - x * x) ** 2}


def main(smoke_test: bool = False, searcher: str = "tpe") -> Any:
    """Search with the searcher of this name, and return the results. The point (0, 0) is tried first."""
    options: dict[str, Any] = SEARCHERS[searcher]
    algorithm = create_searcher(searcher, seed=1, points_to_evaluate=[{"x": 0.0, "y": 0.0}], **options)
    return tune.Tuner(
        valley,
        param_space={"x": tune.uniform(-2, 2), "y": tune.uniform(-1, 3)},
        tune_config=tune.TuneConfig(
            metric="height",
            mode="min",
            search_alg=ConcurrencyLimiter(algorithm, max_concurrent=4),
            num_samples=8 if smoke_test else 60,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name=f"valley_{searcher}", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--searcher", choices=SEARCHERS, default="tpe", help="who proposes the places")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    arguments = parser.parse_args()
    best = main(arguments.smoke_test, arguments.searcher).get_best_result()
    print("best:", best.config, best.metrics["height"])
