"""The stoppers under their public address: `from kernel.tune.stopper import MaximumIterationStopper`."""

from kernel_tune.stoppers import (
    CombinedStopper,
    DictionaryStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
    make_stopper,
)

__all__ = [
    "CombinedStopper",
    "DictionaryStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
    "make_stopper",
]
