"""Schedulers by name: `create_scheduler("asha", max_t=50)`."""

from __future__ import annotations

from typing import Any

from kernel_runs.arguments import ArgumentError, nearest
from kernel_tune.schedulers.async_hyperband import AsyncHyperBandScheduler
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.schedulers.fifo import FIFOScheduler
from kernel_tune.schedulers.hb_bohb import HyperBandForBOHB
from kernel_tune.schedulers.hyperband import HyperBandScheduler
from kernel_tune.schedulers.median_stopping_rule import MedianStoppingRule
from kernel_tune.schedulers.pb2 import PB2
from kernel_tune.schedulers.pbt import PopulationBasedTraining
from kernel_tune.schedulers.pbt_replay import PopulationBasedTrainingReplay
from kernel_tune.schedulers.resource_changing import ResourceChangingScheduler

SCHEDULERS: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": AsyncHyperBandScheduler,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "pb2": PB2,
    "resource_changing": ResourceChangingScheduler,
}


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """Return a new scheduler by its name, made with these arguments.

    Raises `ArgumentError` for an unknown name, with the most similar one, and for an unknown or invalid argument.
    """
    made = SCHEDULERS.get(str(scheduler).lower())
    if made is None:
        raise ArgumentError(
            f"there is no scheduler {scheduler!r}.{nearest(str(scheduler), SCHEDULERS)} "
            f"There are: {', '.join(SCHEDULERS)}"
        )
    try:
        return made(**kwargs)
    except ArgumentError:
        raise
    except TypeError as error:
        raise ArgumentError(f"{made.__name__} was not made: {error}") from error
