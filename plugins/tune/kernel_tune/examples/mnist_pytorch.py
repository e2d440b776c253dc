"""Handwritten digits of MNIST with PyTorch: a small network, and functions that train and test it, for imports.

python -m kernel_tune.examples.mnist_pytorch [--smoke-test]

Needs torch and torchvision, and downloads the data into `~/data` when it is first used (MNIST_DIRECTORY says another
place). `digits_torch_example` does much the same with data that comes with scikit-learn.
"""

from __future__ import annotations

import argparse
import fcntl
import os
from typing import Any

from kernel import tune
from kernel.tune.schedulers import ASHAScheduler
from kernel_runs.optional import needed

torch = needed("torch", f"{__name__} (as digits_torch_example; digits_example does not)", "torch torchvision")

EPOCH_SIZE = 512
"""The number of images after which an epoch ends, so that the example is quick."""
TEST_SIZE = 256
"""The number of images after which a test ends."""


class ConvNet(torch.nn.Module):  # type: ignore[misc, name-defined]
    """One convolution and one linear layer. Returns the logarithms of the probabilities of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 3, kernel_size=3)
        self.fc = torch.nn.Linear(192, 10)

    def forward(self, x: Any) -> Any:
        """Return the logarithms for a batch of images of 28 by 28."""
        functional = torch.nn.functional
        x = functional.relu(functional.max_pool2d(self.conv1(x), 3))
        return functional.log_softmax(self.fc(x.view(-1, 192)), dim=1)


def train(model: Any, optimizer: Any, train_loader: Any, device: Any = None) -> None:
    """Train for one short epoch."""
    model.train()
    for batch, (data, target) in enumerate(train_loader):
        if batch * len(data) > EPOCH_SIZE:
            return
        data, target = data.to(device or "cpu"), target.to(device or "cpu")
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(model(data), target).backward()
        optimizer.step()


def test(model: Any, data_loader: Any, device: Any = None) -> float:
    """Return the share of images that the model classifies correctly."""
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for batch, (data, target) in enumerate(data_loader):
            if batch * len(data) > TEST_SIZE:
                break
            data, target = data.to(device or "cpu"), target.to(device or "cpu")
            right += int((model(data).argmax(1) == target).sum())
            seen += len(target)
    return right / seen


def get_data_loaders() -> tuple[Any, Any]:
    """Return the loaders of training and test data. Of trials that begin together, one downloads the data."""
    vision = needed("torchvision", "get_data_loaders() (digits_torch_example does not)", "torchvision")
    change = vision.transforms.Compose(
        [vision.transforms.ToTensor(), vision.transforms.Normalize((0.1307,), (0.3081,))]
    )
    directory = os.path.expanduser(os.environ.get("MNIST_DIRECTORY", "~/data"))
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sets = [vision.datasets.MNIST(directory, train=part, download=True, transform=change) for part in (True, False)]
    first, second = (torch.utils.data.DataLoader(each, batch_size=64, shuffle=True) for each in sets)
    return first, second


def train_mnist(config: dict[str, Any]) -> None:
    """Train for ten epochs, and report the accuracy after each."""
    train_loader, test_loader = get_data_loaders()
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    for _ in range(10):
        train(model, optimizer, train_loader)
        tune.report({"mean_accuracy": test(model, test_loader)})


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    return tune.run(
        train_mnist,
        name="mnist",
        config={"lr": tune.loguniform(1e-4, 1e-1), "momentum": tune.uniform(0.1, 0.9)},
        metric="mean_accuracy",
        mode="max",
        scheduler=ASHAScheduler(),
        num_samples=2 if smoke_test else 30,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).best_config)
