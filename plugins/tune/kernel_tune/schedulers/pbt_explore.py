"""The changes that population based training makes to a configuration: resampling, perturbing, users' functions."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernel_runs.arguments import ArgumentError
from kernel_tune.search_space.domains import Function

Mutations = Mapping[str, Any]
"""How each key of the configuration may change: a list of values, a function without arguments or a domain of a search
space for a new value, or a dict of these for nested keys."""
CustomExplore = Callable[[dict[str, Any]], dict[str, Any]]


def check_mutations(owner: str, mutations: Any, path: str = "") -> None:
    """Raise `ArgumentError` unless these are mutations."""
    if not isinstance(mutations, Mapping):
        raise ArgumentError(f"{owner}: hyperparam_mutations{path} is {mutations!r}, but must be a dict")
    for key, how in mutations.items():
        where = f"{path}[{key!r}]"
        if isinstance(how, Mapping):
            check_mutations(owner, how, where)
        elif isinstance(how, (list, tuple)):
            if not how:
                raise ArgumentError(f"{owner}: hyperparam_mutations{where} is empty: there is nothing to choose")
        elif isinstance(how, Function):
            raise ArgumentError(
                f"{owner}: hyperparam_mutations{where} is tune.sample_from, which needs a whole configuration; "
                f"use a domain such as tune.uniform(low, high), or a function without arguments"
            )
        elif not (hasattr(how, "sample") or callable(how)):
            raise ArgumentError(
                f"{owner}: hyperparam_mutations{where} is {how!r}, but must be a list of values, a function without "
                f"arguments, a domain such as tune.uniform(low, high), or a dict of these"
            )


def fill(config: dict[str, Any], mutations: Mutations, generator: random.Random, path: str = "") -> dict[str, Any]:
    """Add random values for mutated keys that a configuration lacks. Return them by their paths."""
    added: dict[str, Any] = {}
    for key, how in mutations.items():
        if isinstance(how, Mapping):
            added.update(fill(config.setdefault(key, {}), how, generator, f"{path}{key}/"))
        elif key not in config:
            added[f"{path}{key}"] = config[key] = _draw(how, generator)
    return added


def explore(
    config: Mapping[str, Any], mutations: Mutations, generator: random.Random, resample_probability: float,
    factors: Sequence[float], custom: CustomExplore | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a changed copy of a configuration.

    Each mutated value is drawn anew with `resample_probability`. Otherwise a value of a list moves to a neighbour in
    the list, and a number is multiplied by one of `factors` (and rounded if it is an integer). `custom` gets the
    result, and returns the configuration. Source: Jaderberg et al. (arXiv:1711.09846), section 4.1.1.
    """
    new = _explore(dict(config), mutations, generator, resample_probability, factors)
    return new if custom is None else customised(new, custom, generator)


def customised(config: dict[str, Any], custom: CustomExplore, generator: random.Random) -> dict[str, Any]:
    """Return a configuration after the user's function. Raises `ArgumentError` if it does not return a dict."""
    with seeded(generator):
        made = custom(config)
    if not isinstance(made, dict):
        raise ArgumentError(f"custom_explore_fn returned {made!r}, but must return the configuration, a dict")
    return made


def _explore(config: dict[str, Any], mutations: Mutations, generator: random.Random,
             resample_probability: float, factors: Sequence[float]) -> dict[str, Any]:  # fmt: skip
    new = copy.deepcopy(config)
    for key, how in mutations.items():
        if isinstance(how, Mapping):
            new[key] = _explore(config.get(key, {}), how, generator, resample_probability, factors)
            continue
        resample = generator.random() < resample_probability or key not in config
        values = _values(how)
        if values is not None:
            new[key] = generator.choice(values) if resample else _neighbour(values, config[key], generator)
        else:
            old = plain(config.get(key))
            if resample:
                new[key] = _draw(how, generator)
            elif isinstance(old, (int, float)) and not isinstance(old, bool):
                new[key] = old * generator.choice(factors)
            if isinstance(old, int) and not isinstance(old, bool):
                new[key] = round(new[key])
    return new


def _neighbour(values: Sequence[Any], value: Any, generator: random.Random) -> Any:
    """Return the value before or after in the list (at an end it may be itself); any value if it is not in the list."""
    if value not in values:
        return generator.choice(values)
    index = values.index(value) + generator.choice((-1, 1))
    return values[min(max(index, 0), len(values) - 1)]


def _values(how: Any) -> Sequence[Any] | None:
    """Return the values of a list or of a choice; None for a range."""
    if isinstance(how, (list, tuple)):
        return how
    return getattr(how, "categories", None)


def _draw(how: Any, generator: random.Random) -> Any:
    """Return a new random value."""
    values = _values(how)
    if values is not None:
        return generator.choice(values)
    if not hasattr(how, "sample"):
        with seeded(generator):
            return plain(how())
    arguments = {}
    if "random_state" in inspect.signature(how.sample).parameters:
        arguments["random_state"] = np.random.default_rng(generator.getrandbits(64))
    with seeded(generator):
        return plain(how.sample(**arguments))


@contextmanager
def seeded(generator: random.Random) -> Iterator[None]:
    """Seed the global generators of `random` and numpy from `generator` during a `with` block, and restore them.

    Users' functions draw from these, and a resumed experiment must get the same values again.
    """
    python, legacy = random.getstate(), np.random.get_state()
    seed = generator.getrandbits(32)
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


def plain(value: Any) -> Any:
    """Return a numpy scalar as a Python number, other values as they are. Configurations are written as JSON."""
    return value.item() if isinstance(value, np.generic) else value


def tag_of(config: Mapping[str, Any], mutations: Mutations) -> str:
    """Return `perturbed[lr=0.1,layers=4]` with the mutated values of a configuration."""
    shown = [f"{path}={_short(value)}" for path, value in picked(config, mutations).items()]
    return f"perturbed[{','.join(shown)}]"


def picked(config: Mapping[str, Any], mutations: Mutations, path: str = "") -> dict[str, Any]:
    """Return the mutated values of a configuration by their paths."""
    found: dict[str, Any] = {}
    for key, how in mutations.items():
        if key not in config:
            continue
        if isinstance(how, Mapping):
            found.update(picked(config[key], how, f"{path}{key}/"))
        else:
            found[f"{path}{key}"] = config[key]
    return found


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
