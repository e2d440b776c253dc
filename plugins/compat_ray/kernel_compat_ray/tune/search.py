"""Parts of search spaces, and searchers, with the arguments of all releases of Ray Tune."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from kernel import tune
from kernel.tune import searchers
from kernel_compat_ray.tune.older_names import ignores, takes_older_names, with_older_names

choice = with_older_names(tune.choice, {"a": "categories"})
loguniform = with_older_names(tune.loguniform, {"min_bound": "lower", "max_bound": "upper"})
uniform = with_older_names(tune.uniform, {"low": "lower", "high": "upper"})


@takes_older_names({"reward_attr": "metric"})
class SigOptSearch(searchers.SigOptSearch):
    """Asks SigOpt as kernel's searcher of this name does. `reward_attr` is `metric`."""


_without_limits = ignores("max_concurrent", "use_early_stopped_trials")
"""`ConcurrencyLimiter` limits the number of trials today, and results of trials that were stopped always count."""


@_without_limits
class Searcher(searchers.Searcher, metaclass=ABCMeta):
    """The base of searchers as kernel has it, for those of users: each of kernel's own is an instance of it as well."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return issubclass(kind, searchers.Searcher) if cls is Searcher else NotImplemented


@_without_limits
class BayesOptSearch(searchers.BayesOptSearch):
    """Asks BayesianOptimization as kernel's searcher of this name does."""


@_without_limits
class HyperOptSearch(searchers.HyperOptSearch):
    """Asks Hyperopt as kernel's searcher of this name does."""


@_without_limits
class NevergradSearch(searchers.NevergradSearch):
    """Asks Nevergrad as kernel's searcher of this name does."""


@_without_limits
class OptunaSearch(searchers.OptunaSearch):
    """Asks Optuna as kernel's searcher of this name does."""


@_without_limits
class SkOptSearch(searchers.SkOptSearch):
    """Asks scikit-optimize as kernel's searcher of this name does."""


@ignores("use_early_stopped_trials")
class TuneBOHB(searchers.TuneBOHB):
    """Searches as kernel's searcher of this name does."""


_BY_NAME: dict[str, Any] = {
    "bayesopt": BayesOptSearch,
    "hyperopt": HyperOptSearch,
    "nevergrad": NevergradSearch,
    "optuna": OptunaSearch,
    "sigopt": SigOptSearch,
    "skopt": SkOptSearch,
}


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """Return a new searcher by its name, made with these arguments, as those of this module take them.

    Raises ValueError for an unknown name.
    """
    made = _BY_NAME.get(search_alg.lower())
    return searchers.create_searcher(search_alg, **kwargs) if made is None else made(**kwargs)
