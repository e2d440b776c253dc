"""Searchers by name, for `search_alg="tpe"`."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_spec.nearest import nearest
from kernel_tune.searchers.base import Searcher

_HOMES = {
    "ax": ("adapters.ax", "AxSearch"),
    "bayesopt": ("adapters.bayesopt", "BayesOptSearch"),
    "bohb": ("bohb", "BOHBSearch"),
    "cmaes": ("cmaes", "CMAESSearch"),
    "dragonfly": ("adapters.dragonfly", "DragonflySearch"),
    "gp": ("gp", "GPSearch"),
    "grid": ("grid", "GridSearch"),
    "hebo": ("adapters.hebo", "HEBOSearch"),
    "hyperopt": ("adapters.hyperopt", "HyperOptSearch"),
    "nelder_mead": ("nelder_mead", "NelderMeadSearch"),
    "nevergrad": ("adapters.nevergrad", "NevergradSearch"),
    "optuna": ("adapters.optuna", "OptunaSearch"),
    "random": ("random_search", "RandomSearch"),
    "sigopt": ("adapters.sigopt", "SigOptSearch"),
    "skopt": ("adapters.skopt", "SkOptSearch"),
    "sobol": ("sobol", "SobolSearch"),
    "tpe": ("tpe", "TPESearch"),
    "variant_generator": ("basic_variant", "BasicVariantGenerator"),
    "zoopt": ("adapters.zoopt", "ZOOptSearch"),
}


def create_searcher(search_alg: str, **kwargs: Any) -> Searcher:
    """Return a new searcher by its name, made with `kwargs`. Raises ValueError for an unknown name."""
    name = search_alg.lower().removesuffix("search").rstrip("_")
    if name not in _HOMES:
        near = nearest(name, _HOMES, 0.6)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"there is no searcher {search_alg!r}{hint}; there are {', '.join(sorted(_HOMES))}")
    module, class_name = _HOMES[name]
    searcher: Searcher = getattr(importlib.import_module(f"kernel_tune.searchers.{module}"), class_name)(**kwargs)
    return searcher
