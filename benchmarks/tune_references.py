"""The libraries that tune's searchers are compared with, on the same spaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from kernel_tune.search_space.domains import Categorical, Float, Integer
from kernel_tune.search_space.flat import FlatSpace
from kernel_tune.search_space.paths import is_container, rebuilt

from benchmarks.tune_functions import Function


def _suggest(trial: Any, node: Any, name: str) -> Any:
    """Choose a value with an Optuna trial."""
    if isinstance(node, Categorical):
        option = trial.suggest_categorical(name, list(range(len(node))))
        return _suggest(trial, node.categories[option], f"{name}?{option}")
    if isinstance(node, Float):
        return trial.suggest_float(name, node.lower, node.upper, log=node.log, step=node.quantum)
    if isinstance(node, Integer):
        last = node.upper - 1 if node.quantum == 1 else node.upper
        return trial.suggest_int(name, node.lower, last, log=node.log, step=node.quantum)
    if is_container(node):
        return rebuilt(node, lambda key, value: _suggest(trial, value, f"{name}/{key}"))
    return node


def _optuna(function: Function, seed: int, budget: int, sampler: str) -> float:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))
    evaluate = function.seeded(seed)
    best = math.inf
    for _ in range(budget):
        trial = study.ask()
        shown, true = evaluate(_suggest(trial, function.space, ""))
        study.tell(trial, shown)
        best = min(best, true)
    return best


def optuna_tpe(function: Function, seed: int, budget: int) -> float:
    """Optuna's default."""
    return _optuna(function, seed, budget, "TPESampler")


def optuna_cma(function: Function, seed: int, budget: int) -> float:
    """Optuna's CMA-ES."""
    return _optuna(function, seed, budget, "CmaEsSampler")


def skopt_gp(function: Function, seed: int, budget: int) -> float:
    """scikit-optimize's Gaussian process, on the flat space: it knows no conditions."""
    from skopt import Optimizer
    from skopt.space import Categorical as Kinds
    from skopt.space import Integer as Integers
    from skopt.space import Real

    flat = FlatSpace(function.space)
    dimensions: list[Any] = []
    for parameter in flat.parameters:
        if parameter.is_categorical:
            dimensions.append(Kinds(list(range(parameter.cells))))
        elif parameter.cells:
            dimensions.append(Integers(0, parameter.cells - 1))
        else:
            dimensions.append(Real(0.0, 1.0))
    optimizer = Optimizer(dimensions, "GP", random_state=seed)
    evaluate, generator = function.seeded(seed), np.random.default_rng(seed)
    best = math.inf
    for _ in range(budget):
        asked = optimizer.ask()
        shown, true = evaluate(_config_of(flat, asked, generator))
        optimizer.tell(asked, shown)
        best = min(best, true)
    return best


def hpbandster_bohb(function: Function, seed: int, budget: int) -> float:
    """The model of BOHB's authors, on the flat space, at one budget."""
    import ConfigSpace
    from hpbandster.optimizers.config_generators.bohb import BOHB

    flat = FlatSpace(function.space)
    space = ConfigSpace.ConfigurationSpace(seed=seed)
    for number, parameter in enumerate(flat.parameters):
        if parameter.is_categorical:
            space.add(ConfigSpace.CategoricalHyperparameter(f"x{number}", list(range(parameter.cells))))
        elif parameter.cells:
            space.add(ConfigSpace.UniformIntegerHyperparameter(f"x{number}", 0, parameter.cells - 1))
        else:
            space.add(ConfigSpace.UniformFloatHyperparameter(f"x{number}", 0.0, 1.0))
    np.random.seed(seed)  # It draws from the global state.
    model = BOHB(space)
    evaluate, generator = function.seeded(seed), np.random.default_rng(seed)
    best = math.inf
    for _ in range(budget):
        asked, _ = model.get_config(1.0)
        shown, true = evaluate(_config_of(flat, [asked[f"x{number}"] for number in range(len(flat))], generator))
        job = SimpleNamespace(kwargs={"budget": 1.0, "config": asked}, result={"loss": shown}, exception=None)
        model.new_result(job)
        best = min(best, true)
    return best


def _config_of(flat: FlatSpace, asked: list[Any], generator: np.random.Generator) -> dict[str, Any]:
    """Return a configuration; of parameters with cells the number of the cell is asked for."""
    units = [
        value if not parameter.cells else (parameter.edges[int(value)] + parameter.edges[int(value) + 1]) / 2
        for value, parameter in zip(asked, flat.parameters, strict=True)
    ]
    config: dict[str, Any] = flat.config(flat.settled(np.array([units], float))[0], generator)
    return config


def pycma(function: Function, seed: int, budget: int) -> float:
    """The reference implementation of CMA-ES, in the unit cube."""
    import cma

    flat = FlatSpace(function.space)
    evaluate, generator = function.seeded(seed), np.random.default_rng(seed)
    options = {"bounds": [0, 1], "seed": seed + 1, "verbose": -9}
    strategy = cma.CMAEvolutionStrategy(len(flat) * [0.5], 0.25, options)
    best, left = math.inf, budget
    while left > 0:
        points = strategy.ask()
        losses = []
        for point in points:
            shown, true = evaluate(flat.config(np.clip(point, 0, 1), generator))
            losses.append(shown)
            best = min(best, true) if left > 0 else best
            left -= 1
        strategy.tell(points, losses)
        if strategy.stop():
            strategy = cma.CMAEvolutionStrategy(generator.random(len(flat)), 0.25, {**options, "seed": seed + left + 2})
    return best


REFERENCES: dict[str, Callable[[Function, int, int], float]] = {
    "optuna TPE": optuna_tpe,
    "optuna CMA-ES": optuna_cma,
    "scikit-optimize GP": skopt_gp,
    "hpbandster BOHB": hpbandster_bohb,
    "cma": pycma,
}
