"""Handwritten digits with scikit-learn: TPE over a space with conditions, ASHA over the epochs.

python -m kernel_tune.examples.digits_example [--smoke-test]

Needs scikit-learn, and no download: the data comes with it.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import ASHAScheduler
from kernel.tune.searchers import TPESearch


def train(config: dict[str, Any], images: Any = None, labels: Any = None) -> None:
    """Train a small network or a linear model, and report its accuracy on data that it was not trained on."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.neural_network import MLPClassifier

    model = config["model"]
    if model["kind"] == "linear":
        classifier: Any = SGDClassifier(alpha=model["alpha"], random_state=0)
    else:
        classifier = MLPClassifier((model["units"],), learning_rate_init=model["rate"], random_state=0)
    half = len(images) // 2
    for _ in range(config["epochs"]):
        classifier.partial_fit(images[:half], labels[:half], classes=range(10))
        tune.report({"mean_accuracy": float(classifier.score(images[half:], labels[half:]))})


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    space = {
        "epochs": 4 if smoke_test else 27,
        "model": tune.choice(
            [
                {"kind": "linear", "alpha": tune.loguniform(1e-6, 1e-1)},
                {"kind": "network", "units": tune.lograndint(8, 128), "rate": tune.loguniform(1e-4, 1e-1)},
            ]
        ),
    }
    return tune.Tuner(
        tune.with_parameters(train, images=images / 16.0, labels=labels),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="mean_accuracy",
            mode="max",
            search_alg=TPESearch(seed=1),
            scheduler=ASHAScheduler(max_t=27, grace_period=2),
            num_samples=4 if smoke_test else 40,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="digits", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    best = main(parser.parse_args().smoke_test).get_best_result()
    print("best:", best.config["model"], best.metrics["mean_accuracy"])
