"""Trial schedulers, which decide after each result whether a trial continues. All are state machines.

Each name is in a file of its own, which is imported when the name is first used.
"""

from typing import TYPE_CHECKING, Any

_HOMES = {
    "ASHAScheduler": "async_hyperband",
    "AsyncHyperBandScheduler": "async_hyperband",
    "Controller": "base",
    "DistributeResources": "resource_allocation",
    "DistributeResourcesToTopJob": "resource_allocation",
    "FIFOScheduler": "fifo",
    "HyperBandForBOHB": "hb_bohb",
    "HyperBandScheduler": "hyperband",
    "MedianStoppingRule": "median_stopping_rule",
    "PB2": "pb2",
    "PopulationBasedTraining": "pbt",
    "PopulationBasedTrainingReplay": "pbt_replay",
    "ResourceChangingScheduler": "resource_changing",
    "TrialScheduler": "base",
    "create_scheduler": "registry",
}

__all__ = [*_HOMES]

if TYPE_CHECKING:
    from kernel_tune.schedulers.async_hyperband import ASHAScheduler as ASHAScheduler
    from kernel_tune.schedulers.async_hyperband import AsyncHyperBandScheduler as AsyncHyperBandScheduler
    from kernel_tune.schedulers.base import Controller as Controller
    from kernel_tune.schedulers.base import TrialScheduler as TrialScheduler
    from kernel_tune.schedulers.fifo import FIFOScheduler as FIFOScheduler
    from kernel_tune.schedulers.hb_bohb import HyperBandForBOHB as HyperBandForBOHB
    from kernel_tune.schedulers.hyperband import HyperBandScheduler as HyperBandScheduler
    from kernel_tune.schedulers.median_stopping_rule import MedianStoppingRule as MedianStoppingRule
    from kernel_tune.schedulers.pb2 import PB2 as PB2
    from kernel_tune.schedulers.pbt import PopulationBasedTraining as PopulationBasedTraining
    from kernel_tune.schedulers.pbt_replay import PopulationBasedTrainingReplay as PopulationBasedTrainingReplay
    from kernel_tune.schedulers.registry import create_scheduler as create_scheduler
    from kernel_tune.schedulers.resource_allocation import DistributeResources as DistributeResources
    from kernel_tune.schedulers.resource_allocation import DistributeResourcesToTopJob as DistributeResourcesToTopJob
    from kernel_tune.schedulers.resource_changing import ResourceChangingScheduler as ResourceChangingScheduler


def __getattr__(name: str) -> Any:
    """Import a scheduler, or a module of this package, when it is first used."""
    import importlib

    if name in _HOMES.values():
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
