"""Ten functions to be minimised: what search algorithms are usually tried on, and two small learning problems."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernel_tune import search_space as tune

Evaluate = Callable[[dict[str, Any]], tuple[float, float]]


@dataclass(frozen=True)
class Function:
    """`loss` of a configuration of `space`; what a searcher is shown has normally distributed `noise` added."""

    name: str
    space: dict[str, Any]
    loss: Callable[[dict[str, Any]], float]
    noise: float = 0.0
    continuous: bool = True
    """Whether there are only numbers that are always there."""
    most_seeds: int = 1000
    """How many seeds are enough of one that takes long."""

    def seeded(self, seed: int) -> Evaluate:
        """Return a function that gives the loss that is shown, and the true one."""
        generator = np.random.default_rng(seed)

        def evaluate(config: dict[str, Any]) -> tuple[float, float]:
            true = float(self.loss(config))
            return true + self.noise * generator.normal(), true

        return evaluate

    def suits(self, reference: str) -> bool:
        """Return whether a reference can have this space."""
        return self.continuous or reference != "cma"


def _box(dimensions: int, low: float, high: float) -> dict[str, Any]:
    return {f"x{number}": tune.uniform(low, high) for number in range(dimensions)}


def _vector(config: dict[str, Any]) -> Any:
    return np.array([config[f"x{number}"] for number in range(len(config))])


def branin(config: dict[str, Any]) -> float:
    """0.3979 at three places."""
    x, y = config["x"], config["y"]
    return (
        (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    )


_H3_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_H3_P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_H6_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_H6_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
_ALPHA = np.array([1, 1.2, 3, 3.2])


def hartmann3(config: dict[str, Any]) -> float:
    """-3.8628 at the best."""
    return float(-_ALPHA @ np.exp(-(_H3_A * (_vector(config) - _H3_P) ** 2).sum(1)))


def hartmann6(config: dict[str, Any]) -> float:
    """-3.3224 at the best."""
    return float(-_ALPHA @ np.exp(-(_H6_A * (_vector(config) - _H6_P) ** 2).sum(1)))


def ackley(config: dict[str, Any]) -> float:
    """0 at 0, with many local minima."""
    x = _vector(config)
    return float(-20 * np.exp(-0.2 * np.sqrt((x**2).mean())) - np.exp(np.cos(2 * np.pi * x).mean()) + 20 + math.e)


def rosenbrock(config: dict[str, Any]) -> float:
    """0 where all are 1, at the end of a bent valley."""
    x = _vector(config)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def conditional(config: dict[str, Any]) -> float:
    """Three kinds with parameters of their own, of which the last can be the best: 0.1."""
    model = config["model"]
    if model["kind"] == "linear":
        return float(0.6 + abs(math.log10(model["penalty"]) + 2) * 0.2 + 0.1 * config["scale"])
    if model["kind"] == "tree":
        return float(0.3 + 0.02 * abs(model["depth"] - 7) + 0.3 * (model["share"] - 0.6) ** 2 + 0.1 * config["scale"])
    gap = (math.log10(model["rate"]) + 3) ** 2 * 0.2 + 0.3 * (model["momentum"] - 0.8) ** 2
    return float(0.1 + gap + 0.01 * abs(model["layers"] - 3) + 0.3 * (config["scale"] - 0.3) ** 2)


def mixed(config: dict[str, Any]) -> float:
    """Numbers, integers, orders of magnitude and kinds together; 0.1 at the best."""
    kind = {"relu": 0.0, "tanh": 0.3, "sigmoid": 0.8, "none": 1.5}[config["activation"]]
    return float(
        0.1 + kind + 0.15 * (math.log10(config["rate"]) + 2.5) ** 2 + 0.02 * abs(config["units"] - 96) / 16
        + 0.5 * (config["dropout"] - 0.3) ** 2 + (0.2 if config["optimizer"] == "sgd" else 0.0)
        + 0.05 * abs(config["layers"] - 4)
    )  # fmt: skip


def bowl(config: dict[str, Any]) -> float:
    """0.1 at the best; shown with noise."""
    return float(0.1 + ((_vector(config) - 0.3) ** 2).sum())


@functools.lru_cache(maxsize=1)
def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images[:400] / 16, labels[:400]


def _error(model: Any, folds: int) -> float:
    """The share of the handwritten digits that are told wrongly, by cross-validation."""
    import sklearn
    from sklearn.model_selection import cross_val_score

    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):  # A good part of the time.
        return float(1 - cross_val_score(model, *_digits(), cv=folds).mean())


def svm(config: dict[str, Any]) -> float:
    """The error of a support vector machine."""
    from sklearn.svm import SVC

    return _error(SVC(C=config["C"], gamma=config["gamma"]), folds=3)


def boosting(config: dict[str, Any]) -> float:
    """The error of three rounds of gradient boosting: few, for it is asked for some ten thousand times."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(
        n_estimators=3, learning_rate=config["rate"], max_depth=config["depth"], subsample=config["subsample"],
        max_features=config["features"], random_state=0,
    )  # fmt: skip
    return _error(model, folds=2)


FUNCTIONS = [
    Function("branin", {"x": tune.uniform(-5, 10), "y": tune.uniform(0, 15)}, branin),
    Function("hartmann 3", _box(3, 0, 1), hartmann3),
    Function("hartmann 6", _box(6, 0, 1), hartmann6),
    Function("ackley 5", _box(5, -20, 32), ackley),
    Function("rosenbrock 4", _box(4, -2, 2), rosenbrock),
    Function(
        "conditional",
        {
            "scale": tune.uniform(0, 1),
            "model": tune.choice(
                [
                    {"kind": "linear", "penalty": tune.loguniform(1e-5, 1)},
                    {"kind": "tree", "depth": tune.randint(1, 20), "share": tune.uniform(0.1, 1)},
                    {
                        "kind": "net",
                        "rate": tune.loguniform(1e-6, 1),
                        "momentum": tune.uniform(0, 1),
                        "layers": tune.randint(1, 9),
                    },
                ]
            ),
        },
        conditional,
        continuous=False,
    ),
    Function(
        "mixed",
        {
            "rate": tune.loguniform(1e-5, 1),
            "units": tune.qrandint(16, 256, 16),
            "layers": tune.randint(1, 9),
            "dropout": tune.quniform(0, 0.9, 0.1),
            "activation": tune.choice(["none", "sigmoid", "tanh", "relu"]),
            "optimizer": tune.choice(["sgd", "adam"]),
        },
        mixed,
        continuous=False,
    ),
    Function("noisy bowl 3", _box(3, -1, 1), bowl, noise=0.1),
    Function(
        "svm on digits", {"C": tune.loguniform(1e-3, 1e3), "gamma": tune.loguniform(1e-5, 10)}, svm, most_seeds=20
    ),
    Function(
        "boosting on digits",
        {
            "rate": tune.loguniform(1e-3, 1),
            "depth": tune.randint(1, 6),
            "subsample": tune.uniform(0.3, 1),
            "features": tune.quniform(0.1, 1, 0.1),
        },
        boosting,
        continuous=False,
        most_seeds=20,
    ),
]
