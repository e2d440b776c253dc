"""Handwritten digits with Keras: each epoch is a report and a checkpoint, and ASHA stops bad trials.

python -m kernel_tune.examples.digits_keras_example [--smoke-test]

Needs keras with one of its backends (`KERAS_BACKEND=torch`, tensorflow or jax) and scikit-learn.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import ASHAScheduler


def train(config: dict[str, Any]) -> None:
    """Train a network of one hidden layer. A trial that runs again continues from its checkpoint."""
    import keras
    from sklearn.datasets import load_digits

    from kernel.tune.integration.keras import TuneReportCheckpointCallback

    images, labels = load_digits(return_X_y=True)
    half = len(images) // 2
    keras.utils.set_random_seed(0)
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        model = TuneReportCheckpointCallback.get_model(checkpoint)
    else:
        model = keras.Sequential(
            [
                keras.Input((64,)),
                keras.layers.Rescaling(1 / 16),
                keras.layers.Dense(config["hidden"], activation="relu"),
                keras.layers.Dropout(config["dropout"]),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        model.compile(keras.optimizers.Adam(config["rate"]), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        images[:half],
        labels[:half],
        batch_size=32,
        epochs=config["epochs"],
        validation_data=(images[half:], labels[half:]),
        verbose=0,
        callbacks=[TuneReportCheckpointCallback(metrics={"mean_accuracy": "val_accuracy"})],
    )


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    space = {
        "epochs": 3 if smoke_test else 20,
        "hidden": tune.lograndint(32, 512),
        "dropout": tune.uniform(0.0, 0.5),
        "rate": tune.loguniform(1e-3, 1e-1),
    }
    return tune.Tuner(
        train,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="mean_accuracy",
            mode="max",
            search_alg="tpe",
            seed=1,
            scheduler=ASHAScheduler(max_t=20, grace_period=2),
            num_samples=2 if smoke_test else 20,
        ),
        run_config=tune.RunConfig(name="digits_keras", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    best = main(parser.parse_args().smoke_test).get_best_result()
    print("best:", best.config, best.metrics["mean_accuracy"])
