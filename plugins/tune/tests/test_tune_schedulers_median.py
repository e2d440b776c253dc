"""The median stopping rule, by examples computed by hand, and against a plain reading of its definition."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tune.schedulers import FIFOScheduler, MedianStoppingRule
from kernel_tune.schedulers.median_stopping_rule import median
from kernel_tune.testing.simulation import Simulation, simulate
from kernel_tune.trial import Status, Trial

NOBODY = Simulation(FIFOScheduler(), lambda config, iteration: 0.0)
CONTINUE, PAUSE, STOP = "CONTINUE", "PAUSE", "STOP"


def rule(**arguments):
    arguments = {"time_attr": "t", "metric": "score", "mode": "max", "grace_period": 0, **arguments}
    return MedianStoppingRule(**arguments)


def feed(scheduler, name, points, runner=NOBODY):
    """Let a trial report at times with scores; return the decisions."""
    trial = Trial("t", trial_id=name)
    if name not in scheduler._curves:
        scheduler.on_trial_add(runner, trial)
    return [scheduler.on_trial_result(runner, trial, {"t": at, "score": score}) for at, score in points]


def test_below_the_median_of_the_others_means_is_stopped():
    scheduler = rule(min_samples_required=3)
    # Means up to time 2: a 1.5, b 2.5, c 4; their median is 2.5.
    assert feed(scheduler, "a", [(1, 1), (2, 2)]) == [CONTINUE] * 2
    assert feed(scheduler, "b", [(1, 2), (2, 3)]) == [CONTINUE] * 2
    assert feed(scheduler, "c", [(1, 3), (2, 5)]) == [CONTINUE] * 2
    assert feed(scheduler, "d", [(1, 2), (2, 2.4)]) == [CONTINUE, STOP], "1: others 1, 2, 3; 2: 2.4 < 2.5"
    assert feed(scheduler, "e", [(2, 2.5)]) == [CONTINUE], "with d, of mean 2.2, the median is 2.35"
    assert scheduler.debug_string() == "Using MedianStoppingRule: num_stopped=1."


def test_it_is_the_best_score_up_to_now_that_is_compared():
    scheduler = rule(min_samples_required=1)
    feed(scheduler, "a", [(1, 3), (2, 3), (3, 3)])
    assert feed(scheduler, "b", [(1, 4), (2, 0), (3, 0)]) == [CONTINUE] * 3
    low = rule(min_samples_required=1, mode="min")
    feed(low, "a", [(1, 3), (2, 3)])
    assert feed(low, "b", [(1, 3.5)]) == [STOP]
    assert feed(low, "c", [(1, 2), (2, 9)]) == [CONTINUE, CONTINUE]


def test_means_begin_at_the_grace_period_and_nobody_is_judged_before():
    scheduler = rule(grace_period=5, min_samples_required=1)
    feed(scheduler, "a", [(1, -100), (5, 2), (6, 4)])
    assert feed(scheduler, "b", [(1, 0), (4, -50), (5, 2)]) == [CONTINUE] * 3
    assert feed(scheduler, "c", [(6, 2.9)]) == [STOP], "a's mean from 5 to 6 is 3"


def test_others_that_have_not_come_as_far_do_not_count():
    scheduler = rule(min_samples_required=2)
    feed(scheduler, "a", [(1, 5)])
    feed(scheduler, "b", [(1, 5), (2, 5)])
    assert feed(scheduler, "c", [(2, 0)]) == [CONTINUE], "only b has come to 2"
    assert feed(scheduler, "d", [(1, 0)]) == [STOP]


def test_too_few_samples_and_others_wait_then_it_yields_after_its_time_slice():
    simulation = Simulation(rule(), lambda config, iteration: 0.0, [{}] * 2)
    simulation.make_trials()
    scheduler = rule(min_time_slice=3)
    answers = feed(scheduler, "a", [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)], simulation)
    assert answers == [CONTINUE, CONTINUE, PAUSE, CONTINUE, CONTINUE, PAUSE]
    assert feed(rule(min_time_slice=3), "a", [(9, 1)]) == [CONTINUE], "nobody waits"
    assert feed(rule(), "a", [(9, 1)], simulation) == [CONTINUE], "without a time slice nobody yields"
    assert rule(min_time_slice=3).needs_checkpoints and rule(hard_stop=False).needs_checkpoints
    assert not rule().needs_checkpoints


def test_waiting_trials_take_turns_while_there_are_too_few_to_compare():
    scheduler = MedianStoppingRule("training_iteration", grace_period=0, min_samples_required=5, min_time_slice=1)
    done = Simulation(scheduler, lambda config, iteration: 1.0, [{}] * 3, slots=1, iterations=30).run(steps=9)
    assert [done.iterations_of(trial) for trial in done.trials] == [3, 3, 3]


def test_soft_stop_pauses_and_lets_the_bad_run_in_order_when_all_others_have_ended():
    scheduler = MedianStoppingRule("training_iteration", grace_period=2, hard_stop=False)
    done = simulate(scheduler, lambda config, _: config["x"], [{"x": x} for x in range(8)], slots=8, iterations=5)
    assert all(done.iterations_of(trial) == 5 for trial in done.trials)
    ended = [event[2] for event in done.history if event[1] == "result" and event[3] == 5]
    bad = list(scheduler._out)
    assert ended[: 8 - len(bad)] == [each for each in ended if each not in scheduler._out]
    paused = {event[2] for event in done.history if event[1] == "pause"}
    assert paused == set(bad) and len(bad) >= 3


def test_the_last_result_of_a_trial_that_ends_by_itself_counts():
    scheduler = rule(min_samples_required=1)
    trial = Trial("t", trial_id="a")
    scheduler.on_trial_add(NOBODY, trial)
    scheduler.on_trial_complete(NOBODY, trial, {"t": 1, "score": 5})
    assert feed(scheduler, "b", [(1, 4)]) == [STOP]


def test_nan_is_worse_than_anything():
    scheduler = rule(min_samples_required=1)
    feed(scheduler, "a", [(1, 1)])
    assert feed(scheduler, "b", [(1, float("nan"))]) == [STOP]
    assert feed(scheduler, "c", [(1, -1000)]) == [CONTINUE], "the middle of 1 and NaN is below anything"


def test_going_back_to_a_checkpoint_replaces_what_was_reported_after_it():
    scheduler = rule(min_samples_required=1)
    feed(scheduler, "a", [(1, 1), (2, 50), (3, 50)])
    feed(scheduler, "a", [(2, 1), (3, 1)])
    assert feed(scheduler, "b", [(3, 1)]) == [CONTINUE]
    assert feed(scheduler, "c", [(2, 0.9)]) == [STOP]


def test_median():
    assert median([1.0]) == 1 and median([1.0, 2.0]) == 1.5 and median([1.0, 2.0, 9.0]) == 2


def plainly(curves, name, at, grace, least):
    """The rule as one would write it down: whether the trial is stopped at this time."""
    means = []
    for other, points in curves.items():
        if other != name and points and points[-1][0] >= at:
            scores = [score for time, score in points if grace <= time <= at]
            if scores:
                means.append(sum(scores) / len(scores))
    return len(means) >= least and max(score for _, score in curves[name]) < statistics.median(means)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(-9, 9)), max_size=60), st.integers(0, 4))
def test_it_is_the_rule_as_one_would_write_it_down(reports, grace):
    scheduler = rule(grace_period=grace, min_samples_required=2)
    curves, times, stopped = {}, {}, set()
    for name, step, score in reports:
        if name in stopped:
            continue
        at = times[name] = times.get(name, 0) + step
        curves.setdefault(name, []).append((at, float(score)))
        expected = at >= grace and plainly(curves, name, at, grace, 2)
        [decision] = feed(scheduler, str(name), [(at, float(score))])
        assert (decision == STOP) == expected
        if expected:
            stopped.add(name)


def test_bad_trials_end_early_and_the_best_is_kept():
    configs = [{"x": (index * 17 % 40) / 40} for index in range(40)]
    scheduler = MedianStoppingRule("training_iteration", grace_period=5)
    done = simulate(scheduler, lambda config, at: config["x"] * (1 - 0.9**at), configs, iterations=50, slots=6)
    assert done.iterations_of(done.best_trial) == 50 and done.best_trial.config["x"] == 39 / 40
    assert done.iterations < 40 * 50 / 2
    assert all(trial.status is Status.TERMINATED for trial in done.trials)


@pytest.mark.parametrize("speed", [1.0, lambda config: 1 + config["x"]])
def test_by_seconds_too(speed):
    configs = [{"x": (index * 17 % 40) / 40} for index in range(40)]
    curve = lambda config, at: config["x"] * (1 - 0.9**at)
    done = simulate(MedianStoppingRule(grace_period=5), curve, configs, iterations=50, slots=6, seconds=speed)
    assert done.best_trial.config["x"] == 39 / 40
    assert done.iterations < 40 * 50 / 1.5
