"""Breast cancer with LightGBM: each round of boosting is a report, ASHA stops bad trials, checkpoints are models.

python -m kernel_tune.examples.lightgbm_example [--smoke-test]

Needs lightgbm and scikit-learn, and no download: the data comes with it.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import ASHAScheduler


def train(config: dict[str, Any]) -> None:
    """Boost trees, for the number of rounds in the configuration."""
    import lightgbm
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from kernel.tune.integration.lightgbm import TuneReportCheckpointCallback

    data, labels = load_breast_cancer(return_X_y=True)
    x, x_eval, y, y_eval = train_test_split(data, labels, test_size=0.25, random_state=0)
    training = lightgbm.Dataset(x, label=y)
    lightgbm.train(
        {
            "objective": "binary",
            "metric": ["binary_error", "binary_logloss"],
            "num_threads": 1,
            "verbose": -1,
            **config["tree"],
        },
        training,
        num_boost_round=config["rounds"],
        valid_sets=[lightgbm.Dataset(x_eval, label=y_eval, reference=training)],
        valid_names=["eval"],
        callbacks=[
            TuneReportCheckpointCallback({"loss": "eval-binary_logloss", "error": "eval-binary_error"}, frequency=5)
        ],
    )


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    space = {
        "rounds": 6 if smoke_test else 30,
        "tree": {
            "boosting_type": tune.choice(["gbdt", "dart"]),
            "num_leaves": tune.randint(10, 100),
            "learning_rate": tune.loguniform(1e-4, 1e-1),
        },
    }
    return tune.Tuner(
        train,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            search_alg="tpe",
            seed=1,
            scheduler=ASHAScheduler(max_t=30, grace_period=3, reduction_factor=2),
            num_samples=3 if smoke_test else 20,
        ),
        run_config=tune.RunConfig(name="lightgbm_example", verbose=0 if smoke_test else 1),
    ).fit()


def best_model(results: Any) -> Any:
    """Return the Booster of the best trial."""
    from kernel.tune.integration.lightgbm import TuneReportCheckpointCallback

    return TuneReportCheckpointCallback.get_model(results.get_best_result().checkpoint)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    found = main(parser.parse_args().smoke_test)
    best = found.get_best_result()
    print("best:", best.config["tree"], best.metrics["error"], best_model(found).num_trees(), "trees")
