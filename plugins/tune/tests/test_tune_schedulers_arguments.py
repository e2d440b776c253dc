"""Names, defaults and errors that all schedulers share, and that importing one loads little."""

from __future__ import annotations

import inspect
import subprocess
import sys

import kernel_tune
import pytest
from kernel_tune import schedulers
from kernel_tune.arguments import ArgumentError
from kernel_tune.errors import TuneError
from kernel_tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
    create_scheduler,
)
from kernel_tune.schedulers.registry import SCHEDULERS

COMPARING = [ASHAScheduler, HyperBandScheduler, HyperBandForBOHB, MedianStoppingRule]


def defaults(made):
    return {name: each.default for name, each in inspect.signature(made).parameters.items()}


def test_defaults_are_those_of_the_manual():
    asha = defaults(ASHAScheduler)
    assert [asha[name] for name in ("time_attr", "max_t", "grace_period", "reduction_factor", "brackets")] == [
        "training_iteration", 100, 1, 4, 1
    ]  # fmt: skip
    for made in (HyperBandScheduler, HyperBandForBOHB):
        assert [defaults(made)[name] for name in ("time_attr", "max_t", "reduction_factor")] == [
            "training_iteration", 81, 3
        ]  # fmt: skip
    rule = defaults(MedianStoppingRule)
    assert [rule[name] for name in ("time_attr", "grace_period", "min_samples_required")] == ["time_total_s", 60.0, 3]
    assert rule["min_time_slice"] == 0 and rule["hard_stop"] is True
    pbt = defaults(PopulationBasedTraining)
    assert pbt["time_attr"] == "time_total_s" and pbt["perturbation_interval"] == 60.0
    assert [pbt[name] for name in ("quantile_fraction", "resample_probability", "perturbation_factors")] == [
        0.25, 0.25, (1.2, 0.8)
    ]  # fmt: skip
    assert ASHAScheduler().metric == "episode_reward_mean" and ASHAScheduler().mode == "max"


@pytest.mark.parametrize("made", COMPARING)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "best"}, "{}: mode is 'best', but must be 'min' or 'max'"),
        ({"time_attr": None}, "{}: time_attr is None, but must be the key of a result"),
        ({"metric": 3}, "{}: metric is 3, but must be the key of a result"),
        ({"max_tt": 3}, "{} has no argument 'max_tt'."),
        ({"time_atr": "x"}, "{} has no argument 'time_atr'. Did you mean 'time_attr'?"),
    ],
)
def test_arguments_of_all(made, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        made(**arguments)
    assert str(caught.value).startswith(message.format(made.__name__))
    assert isinstance(caught.value, TuneError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("made", "arguments", "message"),
    [
        (ASHAScheduler, {"max_t": 0}, "max_t is 0, but must be a number above 0"),
        (ASHAScheduler, {"max_t": "100"}, "max_t is '100', but must be a number above 0"),
        (ASHAScheduler, {"grace_period": 0}, "grace_period is 0, but must be a number above 0 and at most 100"),
        (ASHAScheduler, {"grace_period": 200}, "grace_period is 200, but must be a number above 0 and at most 100"),
        (ASHAScheduler, {"reduction_factor": 1}, "reduction_factor is 1, but must be a number above 1"),
        (ASHAScheduler, {"brackets": 0}, "brackets is 0, but must be a whole number, at least 1"),
        (ASHAScheduler, {"brackets": 9, "max_t": 16}, "brackets is 9, but with grace_period=1, reduction_factor=4 and "
                                                      "max_t=16 there are rungs for 3 at most"),
        (HyperBandScheduler, {"max_t": 0.5}, "max_t is 0.5, but must be a number at least 1"),
        (HyperBandScheduler, {"reduction_factor": 1}, "reduction_factor is 1"),
        (MedianStoppingRule, {"grace_period": -1}, "grace_period is -1, but must be a number at least 0"),
        (MedianStoppingRule, {"min_samples_required": 0}, "min_samples_required is 0"),
        (MedianStoppingRule, {"min_time_slice": float("nan")}, "min_time_slice is nan"),
    ],
)  # fmt: skip
def test_arguments_of_one(made, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        made(**arguments)
    assert str(caught.value).startswith(f"{made.__name__}: {message}")


@pytest.mark.parametrize("made", COMPARING)
def test_an_argument_that_is_not_there_is_refused_with_those_that_are(made):
    with pytest.raises(
        ArgumentError, match=rf"{made.__name__} has no argument 'reward_attr'.* Its arguments are .*metric,"
    ):
        made(reward_attr="gain")


def test_schedulers_by_name():
    assert isinstance(create_scheduler("asha", max_t=7), ASHAScheduler)
    assert isinstance(kernel_tune.create_scheduler("FIFO"), FIFOScheduler)
    assert {made.__name__ for made in SCHEDULERS.values()} == {
        name for name in schedulers.__all__ if isinstance(getattr(schedulers, name), type)
        and issubclass(getattr(schedulers, name), TrialScheduler)
    } - {"TrialScheduler", "ASHAScheduler"}  # fmt: skip
    with pytest.raises(ArgumentError) as caught:
        create_scheduler("hyperbnd")
    assert str(caught.value).startswith("there is no scheduler 'hyperbnd'. Did you mean 'hyperband'? There are: fifo, ")
    with pytest.raises(ArgumentError, match="AsyncHyperBandScheduler has no argument 'max_iter'"):
        create_scheduler("asha", max_iter=3)
    with pytest.raises(ArgumentError, match="FIFOScheduler was not made: .*unexpected keyword argument 'max_t'"):
        create_scheduler("fifo", max_t=3)


def test_every_exported_name_is_there_and_no_other():
    for name in schedulers.__all__:
        assert getattr(schedulers, name).__name__ in (name, "AsyncHyperBandScheduler")
    assert set(schedulers.__all__) <= set(dir(schedulers))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = schedulers.Nothing


def test_the_mounted_names_are_the_same_objects():
    from kernel.tune.schedulers import ASHAScheduler as mounted
    from kernel.tune.schedulers.async_hyperband import AsyncHyperBandScheduler as deep

    assert mounted is ASHAScheduler is deep


def test_stopping_early_needs_no_numpy():
    program = (
        "import sys; from kernel_tune.schedulers import ASHAScheduler, HyperBandScheduler, MedianStoppingRule;"
        "import kernel_tune.stoppers; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
