"""Every scheduler passes the conformance suite, by the lines a stranger would write."""

from __future__ import annotations

import random
from functools import partial

import pytest
from kernel_tune.result import Result
from kernel_tune.schedulers import (
    PB2,
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    TrialScheduler,
)
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.pbt_policy import Exploit
from kernel_tune.testing.schedulers import SchedulerConformance
from kernel_tune.testing.simulation import SimulationError, simulate
from kernel_tune.trial import Trial


class TestFIFO(SchedulerConformance):
    make_scheduler = FIFOScheduler
    needs_metric = False


class TestASHA(SchedulerConformance):
    make_scheduler = staticmethod(partial(ASHAScheduler, max_t=27, reduction_factor=3))
    most_microseconds = 200


class TestASHAWithBrackets(SchedulerConformance):
    make_scheduler = staticmethod(
        partial(ASHAScheduler, max_t=27, reduction_factor=3, brackets=3, stop_last_trials=False)
    )


class TestHyperBand(SchedulerConformance):
    make_scheduler = staticmethod(partial(HyperBandScheduler, max_t=27))


class TestHyperBandThatLetsTheLastGoOn(SchedulerConformance):
    make_scheduler = staticmethod(partial(HyperBandScheduler, max_t=9, stop_last_trials=False))


class TestHyperBandForBOHB(SchedulerConformance):
    make_scheduler = staticmethod(partial(HyperBandForBOHB, max_t=27))


class TestMedian(SchedulerConformance):
    make_scheduler = staticmethod(partial(MedianStoppingRule, time_attr="training_iteration", grace_period=3))


class TestMedianBySeconds(SchedulerConformance):
    make_scheduler = staticmethod(partial(MedianStoppingRule, grace_period=3, min_time_slice=2))
    flat_cost = False


class TestMedianThatPauses(SchedulerConformance):
    make_scheduler = staticmethod(partial(MedianStoppingRule, "training_iteration", grace_period=3, hard_stop=False))


MUTATIONS = {"x": lambda: random.random(), "layers": [1, 2, 4], "inner": {"depth": [1, 2]}}


class TestPBT(SchedulerConformance):
    make_scheduler = staticmethod(
        partial(PopulationBasedTraining, "training_iteration", perturbation_interval=4, hyperparam_mutations=MUTATIONS)
    )
    flat_cost = False


class TestSynchronousPBT(SchedulerConformance):
    make_scheduler = staticmethod(
        partial(PopulationBasedTraining, perturbation_interval=4, hyperparam_mutations=MUTATIONS, synch=True)
    )
    flat_cost = False


class TestPBTWithBurnIn(SchedulerConformance):
    make_scheduler = staticmethod(
        partial(
            PopulationBasedTraining,
            perturbation_interval=4,
            hyperparam_mutations=MUTATIONS,
            burn_in_period=6,
            synch=True,
        )
    )
    flat_cost = False
    seeds = range(3)


class TestPB2(SchedulerConformance):
    make_scheduler = staticmethod(
        partial(PB2, "training_iteration", perturbation_interval=6, hyperparam_bounds={"x": [0, 1]})
    )
    most_trials = 8
    seeds = range(3)


class TestResourceChanging(SchedulerConformance):
    make_scheduler = staticmethod(lambda: ResourceChangingScheduler(ASHAScheduler(max_t=27)))
    flat_cost = False


class TestReplay(SchedulerConformance):
    needs_metric = False
    most_trials = 1

    @pytest.fixture(autouse=True)
    def policy(self, tmp_path):
        path = tmp_path / "pbt_policy_1.txt"
        path.write_text(Exploit("0", "1", 4, 5, {"x": 0.1}, {"x": 0.3}).line() + "\n")
        type(self).make_scheduler = staticmethod(partial(PopulationBasedTrainingReplay, path))


class Broken(TrialScheduler):
    """Does one wrong thing."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        self.wrong = wrong
        self.turn = 0

    def on_trial_result(self, runner: Controller, trial: Trial, result: Result) -> str:
        if self.wrong == "answer":
            return "GO ON"
        if self.wrong == "stops itself":
            runner.stop_trial(trial)
        if self.wrong == "pauses for ever":
            return self.PAUSE
        if self.wrong == "uses the ended":
            ended = [each for each in runner.get_trials() if each.has_ended]
            if ended:
                runner.exploit(trial, ended[0], {})
        return self.CONTINUE

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        waiting = [trial for trial in runner.get_live_trials() if trial.status in (Trial.PENDING, Trial.PAUSED)]
        if self.wrong == "pauses for ever":
            waiting = [trial for trial in waiting if trial.status is Trial.PENDING]
        self.turn += 1
        if self.wrong == "fickle" and waiting:
            return waiting[self.turn % len(waiting)]
        if self.wrong == "no room":
            return waiting[0] if waiting else None
        if self.wrong == "starts twice" and self.turn > 2:
            return runner.get_trials()[0]
        return next((trial for trial in waiting if runner.has_resources_for_trial(trial)), None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("answer", "on_trial_result returned 'GO ON' for simulated_0000000., not one of CONTINUE, PAUSE, STOP, NOOP"),
        ("stops itself", "was called while it is decided about: return STOP instead"),
        ("pauses for ever", "nothing runs, and these wait for ever: simulated_00000000 .PAUSED, iteration 1."),
        ("fickle", "and another trial when it was asked again"),
        ("no room", "for which there is no room"),
        ("starts twice", "which can't be started"),
        ("uses the ended", "exploit was asked for simulated_0000000. .TERMINATED, iteration 3., which has ended"),
    ],
)
def test_the_simulation_finds_what_is_wrong(wrong, message):
    resources = {"cpu": 2} if wrong == "no room" else None
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(Broken(wrong), lambda config, iteration: 1.0, [{}] * 6, iterations=3, slots=3, resources=resources)
    assert "What happened before:\n  0.0 add 00000000" in str(caught.value)


def test_the_suite_fails_for_a_scheduler_that_looks_at_global_random_state():
    class Careless(FIFOScheduler):
        def on_trial_result(self, runner, trial, result):
            return self.STOP if random.random() < 0.1 else self.CONTINUE

    class Suite(SchedulerConformance):
        make_scheduler = Careless

    with pytest.raises(AssertionError, match="generator of its own"):
        Suite().test_global_random_state_does_not_matter_and_is_left_alone()
