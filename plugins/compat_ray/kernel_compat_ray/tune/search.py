"""Parts of search spaces, and searchers, with the arguments of all releases of Ray Tune."""

from __future__ import annotations

from kernel import tune
from kernel.tune import searchers
from kernel_compat_ray.tune.older_names import takes_older_names, with_older_names

choice = with_older_names(tune.choice, {"a": "categories"})
loguniform = with_older_names(tune.loguniform, {"min_bound": "lower", "max_bound": "upper"})
uniform = with_older_names(tune.uniform, {"low": "lower", "high": "upper"})


@takes_older_names({"reward_attr": "metric"})
class SigOptSearch(searchers.SigOptSearch):
    """Asks SigOpt as kernel's searcher of this name does. `reward_attr` is `metric`."""
