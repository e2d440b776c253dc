"""Asynchronous successive halving: rungs and cutoffs by hand, and what it finds with which budget."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from kernel_tune.errors import MetricError
from kernel_tune.schedulers import (
    ASHAScheduler,
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
)
from kernel_tune.schedulers.async_hyperband import cutoff, rungs
from kernel_tune.testing.simulation import Simulation, simulate
from kernel_tune.trial import Trial

NOBODY = Simulation(FIFOScheduler(), lambda config, iteration: 0.0)
CONTINUE, STOP = "CONTINUE", "STOP"


def reports(scheduler, iteration, *scores, metric="score"):
    """Add a trial for each score, let it report at this iteration, and return the decisions."""
    decisions = []
    for index, score in enumerate(scores):
        trial = Trial("t", trial_id=f"{iteration}-{index}-{id(scores)}")
        scheduler.on_trial_add(NOBODY, trial)
        decisions.append(scheduler.on_trial_result(NOBODY, trial, {"training_iteration": iteration, metric: score}))
    return decisions


def asha(**arguments):
    return ASHAScheduler(metric="score", mode=arguments.pop("mode", "max"), **arguments)


def test_both_names_are_one_class():
    assert ASHAScheduler is AsyncHyperBandScheduler


def test_rungs_are_the_powers_of_the_reduction_factor_up_to_max_t():
    assert rungs(1, 81, 3) == [1, 3, 9, 27, 81]
    assert rungs(10, 100, 3) == [10, 30, 90]
    assert rungs(1, 100, 4) == [1, 4, 16, 64]


@pytest.mark.parametrize("factor", [2, 3, 4, 1.5])
def test_the_cutoff_is_numpys_quantile(factor):
    scores = sorted(np.random.default_rng(0).normal(size=37))
    for count in range(1, len(scores)):
        expected = np.percentile(scores[:count], (1 - 1 / factor) * 100)
        assert cutoff(scores[:count], factor) == pytest.approx(expected)


def test_who_is_below_the_cutoff_of_those_before_is_stopped():
    # With a factor of 2 the cutoff is the median of the earlier ones: -, 2, 3, 2.
    assert reports(asha(max_t=10, reduction_factor=2), 1, 2, 4, 1, 2.5) == [CONTINUE, CONTINUE, STOP, CONTINUE]
    assert reports(asha(max_t=10, reduction_factor=2, mode="min"), 1, -2, -4, -1, -2.5) == [
        CONTINUE,
        CONTINUE,
        STOP,
        CONTINUE,
    ]


def test_a_trial_is_judged_only_at_rungs_and_once_at_each():
    scheduler = asha(max_t=100, grace_period=4, reduction_factor=4)
    assert reports(scheduler, 3, 5, 1) == [CONTINUE, CONTINUE], "before the grace period nobody is judged"
    assert reports(scheduler, 4, 5, 4, 9) == [CONTINUE, STOP, CONTINUE]
    trial = Trial("t", trial_id="one")
    scheduler.on_trial_add(NOBODY, trial)
    answers = [
        scheduler.on_trial_result(NOBODY, trial, {"training_iteration": at, "score": score})
        for at, score in ((4, 10), (5, 0), (15, 0), (16, 0), (17, -9))
    ]
    assert answers == [CONTINUE] * 5, "between rungs nothing counts; the first at a rung goes on"
    assert reports(scheduler, 16, 1, -1) == [CONTINUE, STOP]


def test_a_trial_that_jumps_over_rungs_is_judged_at_the_highest():
    scheduler = asha(max_t=100, reduction_factor=4)
    assert reports(scheduler, 1, 5, 6, 7) == [CONTINUE] * 3
    assert reports(scheduler, 20, 1, 0) == [CONTINUE, STOP]
    assert "Iter 16.000: 0.75 | Iter 4.000: None | Iter 1.000: 6.5" in scheduler.debug_string()


def test_trials_end_at_max_t_unless_told_otherwise():
    assert reports(asha(max_t=9), 9, 1.0) == [STOP]
    assert reports(asha(max_t=9, stop_last_trials=False), 9, 1.0) == [CONTINUE]


def test_brackets_begin_later_and_are_drawn_by_softmax_of_their_rungs():
    scheduler = asha(max_t=100, grace_period=10, reduction_factor=3, brackets=3, seed=1)
    for index in range(20_000):
        scheduler.on_trial_add(NOBODY, Trial("t", trial_id=str(index)))
    counts = np.bincount([place.bracket for place in scheduler._places.values()]) / 20_000
    weights = np.exp([3, 2, 1])
    assert counts == pytest.approx(weights / weights.sum(), abs=0.01)
    assert [bracket.milestones for bracket in scheduler._brackets] == [[10, 30, 90], [30, 90], [90]]


def test_the_seed_draws_the_brackets_and_may_come_from_the_experiment():
    def brackets(seed=None, experiment=None):
        scheduler = asha(max_t=81, reduction_factor=3, brackets=4, seed=seed)
        scheduler.set_search_properties("score", "max", seed=experiment)
        reports(scheduler, 1, *range(50))
        return [place.bracket for place in scheduler._places.values()]

    assert brackets(5) == brackets(5) == brackets(None, 5) == brackets(5, 6)
    assert brackets(5) != brackets(6)
    assert brackets() == brackets(0)


def test_nan_is_worse_than_anything_but_nan():
    nan = float("nan")
    assert reports(asha(reduction_factor=2), 1, nan, nan, 1.0, nan) == [CONTINUE, CONTINUE, CONTINUE, STOP]
    assert reports(asha(reduction_factor=2, mode="min"), 1, 3.0, nan) == [CONTINUE, STOP]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            {"training_iteration": 1, "loss": 2, "a": {"b": 1}, "config": {"lr": 1}},
            "trial train_1 reported no 'score', and AsyncHyperBandScheduler decides by it (metric='score'). "
            "It reported: a/b, loss. Report 'score' with every result, or give another metric.",
        ),
        ({"score": 1}, "trial train_1 reported no 'training_iteration'"),
        ({"training_iteration": 1}, "It reported: nothing of its own."),
        ({"training_iteration": 1, "score": "high"}, "reported 'high' as 'score', which is not a number"),
    ],
)
def test_a_result_that_lacks_metric_or_time_raises(result, message):
    scheduler = asha()
    trial = Trial("train", trial_id="1", name="train_1")
    scheduler.on_trial_add(NOBODY, trial)
    with pytest.raises(MetricError) as caught:
        scheduler.on_trial_result(NOBODY, trial, result)
    assert message in str(caught.value)


def test_metrics_may_be_nested_and_numpys():
    scheduler = ASHAScheduler(metric="evaluation/reward", mode="max")
    trial = Trial("t", trial_id="1")
    scheduler.on_trial_add(NOBODY, trial)
    result = {"training_iteration": np.int64(1), "evaluation": {"reward": np.float32(3)}}
    assert scheduler.on_trial_result(NOBODY, trial, result) == CONTINUE


def test_the_last_result_of_a_trial_that_ends_by_itself_counts_for_others():
    scheduler = asha(reduction_factor=2)
    trial = Trial("t", trial_id="done")
    scheduler.on_trial_add(NOBODY, trial)
    scheduler.on_trial_complete(NOBODY, trial, {"training_iteration": 1, "score": 5.0})
    assert reports(scheduler, 1, 4.0) == [STOP]


def curve(config, iteration):
    """Rises to `height`, quickly or slowly."""
    return config["height"] * (1 - config.get("decay", 0.8) ** iteration)


def test_it_keeps_the_best_with_a_fraction_of_the_budget_and_sooner_than_hyperband():
    heights = np.random.default_rng(0).permutation(81)
    configs = [{"height": float(height)} for height in heights]
    run = partial(simulate, curve=curve, configs=configs, iterations=81, slots=8, jitter=0.5)
    everything = run(FIFOScheduler())
    done = run(ASHAScheduler(max_t=81, reduction_factor=3))
    hyperband = run(HyperBandScheduler(max_t=81))
    assert done.best_trial.config["height"] == 80
    assert done.iterations < everything.iterations / 3
    assert done.iterations_of(done.best_trial) == 81
    early = [trial for trial in done.trials if done.iterations_of(trial) <= 3]
    assert len(early) > 40, "most are stopped at the first rungs"
    assert hyperband.best_trial.config["height"] == 80


def test_stragglers_hold_nobody():
    configs = [{"height": index, "slow": index % 10 == 0} for index in range(27)]

    def run(scheduler):
        speed = lambda config: 50.0 if config["slow"] else 1.0
        return simulate(scheduler, curve, configs, iterations=27, slots=6, seconds=speed)

    asynchronous, halving = run(ASHAScheduler(max_t=27, reduction_factor=3)), run(HyperBandForBOHB(max_t=27))
    first = {}
    for name, done in (("asha", asynchronous), ("hyperband", halving)):
        first[name] = next(at for at, what, _, *rest in done.history if what == "result" and rest[0] == 27)
    assert first["asha"] < first["hyperband"]
