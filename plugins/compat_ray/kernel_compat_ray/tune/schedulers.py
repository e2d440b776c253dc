"""Trial schedulers with the arguments of all releases of Ray Tune."""

from __future__ import annotations

from typing import Any

from kernel.tune import schedulers
from kernel_compat_ray.tune.older_names import takes_older_names

_METRIC = {"reward_attr": "metric"}
_OF_PBT = {
    **_METRIC,
    "sample_probability": "resample_probability",
    "hyparam_mutations": "hyperparam_mutations",
    "reparam_mutations": "hyperparam_mutations",
}
"""`reward_attr` is of the first releases, the others are misprints of a manual of that time."""


@takes_older_names(_METRIC)
class AsyncHyperBandScheduler(schedulers.AsyncHyperBandScheduler):
    """Stops trials early as kernel's scheduler of this name does. `reward_attr` is `metric`."""


ASHAScheduler = AsyncHyperBandScheduler


@takes_older_names(_METRIC)
class HyperBandScheduler(schedulers.HyperBandScheduler):
    """Halves brackets of trials as kernel's scheduler of this name does. `reward_attr` is `metric`."""


@takes_older_names(_METRIC)
class HyperBandForBOHB(schedulers.HyperBandForBOHB, HyperBandScheduler):
    """Halves brackets for BOHB as kernel's scheduler of this name does. `reward_attr` is `metric`."""


@takes_older_names(_METRIC)
class MedianStoppingRule(schedulers.MedianStoppingRule):
    """Stops trials below the median as kernel's scheduler of this name does. `reward_attr` is `metric`."""


@takes_older_names(_OF_PBT)
class PopulationBasedTraining(schedulers.PopulationBasedTraining):
    """Trains a population as kernel's scheduler of this name does.

    `reward_attr` is `metric`, `sample_probability` is `resample_probability`, `hyparam_mutations` and
    `reparam_mutations` are `hyperparam_mutations`.
    """


@takes_older_names(_METRIC)
class PB2(schedulers.PB2, PopulationBasedTraining):
    """Trains a population by a model as kernel's scheduler of this name does. `reward_attr` is `metric`."""


_BY_NAME: dict[str, Any] = {
    "asha": AsyncHyperBandScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "hyperband": HyperBandScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "pb2": PB2,
    "pbt": PopulationBasedTraining,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> Any:
    """Return a new scheduler by its name, made with these arguments, which may have their older names.

    Raises `ArgumentError` for an unknown name, and for an unknown or invalid argument.
    """
    made = _BY_NAME.get(str(scheduler).lower())
    return schedulers.create_scheduler(scheduler, **kwargs) if made is None else made(**kwargs)
