"""Searchers, which propose configurations one at a time and learn from their results. All are state machines.

`base.py` has the base of searchers, `space_searcher.py` that of searchers that see a space as numbers. Each algorithm
has a file of its own; `adapters/` has those that ask another library. Each is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_tune.searchers.adapters.ax import AxSearch
    from kernel_tune.searchers.adapters.bayesopt import BayesOptSearch
    from kernel_tune.searchers.adapters.bohb import TuneBOHB
    from kernel_tune.searchers.adapters.dragonfly import DragonflySearch
    from kernel_tune.searchers.adapters.hebo import HEBOSearch
    from kernel_tune.searchers.adapters.hyperopt import HyperOptSearch
    from kernel_tune.searchers.adapters.nevergrad import NevergradSearch
    from kernel_tune.searchers.adapters.optuna import OptunaSearch
    from kernel_tune.searchers.adapters.sigopt import SigOptSearch
    from kernel_tune.searchers.adapters.skopt import SkOptSearch
    from kernel_tune.searchers.adapters.zoopt import ZOOptSearch
    from kernel_tune.searchers.base import FINISHED, Searcher
    from kernel_tune.searchers.basic_variant import BasicVariantGenerator
    from kernel_tune.searchers.bohb import BOHBSearch
    from kernel_tune.searchers.cmaes import CMAESSearch
    from kernel_tune.searchers.concurrency_limiter import ConcurrencyLimiter
    from kernel_tune.searchers.gp import GPSearch
    from kernel_tune.searchers.grid import GridSearch
    from kernel_tune.searchers.nelder_mead import NelderMeadSearch
    from kernel_tune.searchers.random_search import RandomSearch
    from kernel_tune.searchers.registry import create_searcher
    from kernel_tune.searchers.repeater import TRIAL_INDEX, Repeater
    from kernel_tune.searchers.sobol import SobolSearch
    from kernel_tune.searchers.tpe import TPESearch

_MODULES = {
    "FINISHED": "base",
    "Searcher": "base",
    "BasicVariantGenerator": "basic_variant",
    "BOHBSearch": "bohb",
    "CMAESSearch": "cmaes",
    "ConcurrencyLimiter": "concurrency_limiter",
    "GPSearch": "gp",
    "GridSearch": "grid",
    "NelderMeadSearch": "nelder_mead",
    "RandomSearch": "random_search",
    "TRIAL_INDEX": "repeater",
    "Repeater": "repeater",
    "SobolSearch": "sobol",
    "TPESearch": "tpe",
    "create_searcher": "registry",
    "AxSearch": "adapters.ax",
    "BayesOptSearch": "adapters.bayesopt",
    "DragonflySearch": "adapters.dragonfly",
    "HEBOSearch": "adapters.hebo",
    "HyperOptSearch": "adapters.hyperopt",
    "NevergradSearch": "adapters.nevergrad",
    "OptunaSearch": "adapters.optuna",
    "SigOptSearch": "adapters.sigopt",
    "SkOptSearch": "adapters.skopt",
    "TuneBOHB": "adapters.bohb",
    "ZOOptSearch": "adapters.zoopt",
}

__all__ = [
    "FINISHED",
    "TRIAL_INDEX",
    "AxSearch",
    "BOHBSearch",
    "BasicVariantGenerator",
    "BayesOptSearch",
    "CMAESSearch",
    "ConcurrencyLimiter",
    "DragonflySearch",
    "GPSearch",
    "GridSearch",
    "HEBOSearch",
    "HyperOptSearch",
    "NelderMeadSearch",
    "NevergradSearch",
    "OptunaSearch",
    "RandomSearch",
    "Repeater",
    "Searcher",
    "SigOptSearch",
    "SkOptSearch",
    "SobolSearch",
    "TPESearch",
    "TuneBOHB",
    "ZOOptSearch",
    "create_searcher",
]


def __getattr__(name: str) -> Any:
    """Import a searcher when it is first used."""
    import importlib

    if name not in _MODULES:
        raise AttributeError(f"module 'kernel_tune.searchers' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"kernel_tune.searchers.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
