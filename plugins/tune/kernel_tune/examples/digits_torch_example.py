"""Handwritten digits with PyTorch: a convolutional network, its state as checkpoint, ASHA over the epochs.

python -m kernel_tune.examples.digits_torch_example [--smoke-test]

Needs torch and scikit-learn, and no download: the data comes with it.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import ASHAScheduler


def train(config: dict[str, Any]) -> None:
    """Train by stochastic gradient descent. A trial that runs again continues from its checkpoint."""
    import torch
    from sklearn.datasets import load_digits

    from kernel.tune.integration.torch import load_state, report_state

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(labels)
    half = len(x) // 2
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, config["channels"], 3),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(config["channels"] * 9, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), config["rate"], config["momentum"])
    loss_of = torch.nn.CrossEntropyLoss()
    done = load_state(model=model, optimizer=optimizer).get("epochs", 0)
    for epoch in range(done, config["epochs"]):
        for batch in torch.randperm(half).split(32):
            optimizer.zero_grad()
            loss_of(model(x[batch]), y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(x[half:]).argmax(1) == y[half:]).float().mean()
        report_state({"mean_accuracy": accuracy}, model=model, optimizer=optimizer, epochs=epoch + 1)


def main(smoke_test: bool = False) -> Any:
    """Search, and return the results."""
    space = {
        "epochs": 3 if smoke_test else 20,
        "channels": tune.choice([4, 8, 16]),
        "rate": tune.loguniform(1e-3, 1.0),
        "momentum": tune.uniform(0.1, 0.9),
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
        run_config=tune.RunConfig(name="digits_torch", verbose=0 if smoke_test else 1),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    best = main(parser.parse_args().smoke_test).get_best_result()
    print("best:", best.config, best.metrics["mean_accuracy"])
