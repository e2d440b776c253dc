"""Stop criteria: what each stops and when, what people may give as `stop`, and what survives."""

from __future__ import annotations

import pickle
from datetime import timedelta

import kernel_tune
import pytest
from kernel_tune.arguments import ArgumentError
from kernel_tune.errors import MetricError
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


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def answers(stopper, values, trial="a", key="loss"):
    return [stopper(trial, {key: value}) for value in values]


def test_addresses():
    from kernel.tune.stoppers import MaximumIterationStopper as mounted

    assert kernel_tune.Stopper is Stopper and mounted is MaximumIterationStopper


def test_the_base_asks_for_both_methods():
    with pytest.raises(NotImplementedError, match="Stopper must define __call__"):
        Stopper()("a", {})
    with pytest.raises(NotImplementedError, match="Stopper must define stop_all"):
        Stopper().stop_all()
    assert not NoopStopper()("a", {}) and not NoopStopper().stop_all()


def test_a_dict_stops_at_any_threshold_and_above():
    stopper = make_stopper({"training_iteration": 10, "mean_accuracy": 0.98})
    assert isinstance(stopper, DictionaryStopper)
    assert not stopper("a", {"training_iteration": 9, "mean_accuracy": 0.97})
    assert stopper("a", {"training_iteration": 10, "mean_accuracy": 0.0})
    assert stopper("a", {"training_iteration": 1, "mean_accuracy": 0.98})
    assert not stopper.stop_all()


def test_a_dicts_keys_may_be_paths_or_nested_and_thresholds_true():
    result = {"evaluation": {"reward": 5}, "a/b": 1, "done": False}
    for stop in ({"evaluation/reward": 5}, {"evaluation": {"reward": 5}}, {"a/b": 1}, {"a": {"b": 1}}):
        assert make_stopper(stop)("a", result)
    assert not make_stopper({"evaluation/reward": 6})("a", result)
    assert not make_stopper({"done": True})("a", result) and make_stopper({"done": True})("a", {"done": True})
    assert not make_stopper({"x": 1})("a", {"x": float("nan")})


def test_a_dict_whose_key_is_not_reported_says_so():
    with pytest.raises(MetricError) as caught:
        make_stopper({"accuracy": 1, "epoch": 5})("trial_7", {"acc": 0.5, "epoch": 1, "pid": 3})
    assert str(caught.value) == (
        "trial trial_7 reported no 'accuracy', which the stop criterion needs. It reported: acc, epoch. Report "
        "'accuracy' with every result, or name another key."
    )
    assert make_stopper({"accuracy": 1, "epoch": 5})("trial_7", {"epoch": 5}), "another threshold is reached"
    with pytest.raises(ArgumentError, match="stop: the threshold of 'a/b' is 'high', but must be a number"):
        make_stopper({"a": {"b": "high"}})


def test_a_function_stops_its_trial():
    stopper = make_stopper(lambda trial_id, result: trial_id == "b" and result["x"] > 1)
    assert isinstance(stopper, FunctionStopper)
    assert [stopper("a", {"x": 5}), stopper("b", {"x": 5}), stopper("b", {"x": 0})] == [False, True, False]
    assert not stopper.stop_all()


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (10, "stop is 10, but must be a dict such as"),
        ("training_iteration", "stop is 'training_iteration', but must be a dict"),
        (lambda result: True, r"stop is the function <lambda>\(result\), but is called with two arguments"),
        (MaximumIterationStopper, r"stop is the class MaximumIterationStopper: pass an object of it"),
        ([{"a": 1}, 5], "stop is 5, but must be"),
    ],
)
def test_what_cant_be_a_stop_criterion(stop, message):
    with pytest.raises(ArgumentError, match=message):
        make_stopper(stop)


def test_what_looks_like_a_stopper_but_is_none_is_refused():
    class Mine:
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return True

    with pytest.raises(ArgumentError, match="which has stop_all but is not a tune.Stopper: derive its class from it"):
        make_stopper(Mine())


def test_none_an_empty_dict_and_a_list():
    assert type(make_stopper(None)) is NoopStopper and type(make_stopper({})) is NoopStopper
    mine = MaximumIterationStopper(2)
    assert make_stopper(mine) is mine
    stopper = make_stopper([mine, {"x": 5}, None, lambda trial_id, result: False])
    assert answers(stopper, [1, 1], key="x") == [False, True]
    assert answers(stopper, [5], "b", key="x") == [True]
    with pytest.raises(ArgumentError, match="CombinedStopper: 3 is not a Stopper"):
        CombinedStopper(3)


def test_all_stoppers_of_a_combination_see_all_results():
    counting = MaximumIterationStopper(2)
    stopper = CombinedStopper(make_stopper({"x": 1}), counting)
    assert stopper("a", {"x": 1})
    assert counting("a", {})


def test_results_are_counted_for_each_trial():
    stopper = MaximumIterationStopper(2)
    assert [stopper("a", {}), stopper("b", {}), stopper("a", {}), stopper("b", {})] == [False, False, True, True]
    with pytest.raises(ArgumentError, match="max_iter is 0"):
        MaximumIterationStopper(0)


def test_the_timeout_begins_when_it_is_first_asked_and_earlier_sessions_count():
    clock = Clock()
    stopper = TimeoutStopper(timedelta(seconds=10), clock=clock)
    clock.now += 100
    assert not stopper.stop_all() and not stopper("a", {})
    clock.now += 6
    assert not stopper.stop_all()
    assert stopper.used == 6
    stopper._clock = None
    resumed = pickle.loads(pickle.dumps(stopper))
    resumed._clock = clock
    clock.now += 5000
    assert not resumed.stop_all(), "the time between sessions does not count"
    clock.now += 4
    assert resumed.stop_all()
    with pytest.raises(ArgumentError, match="timeout is 'soon', but must be a number at least 0"):
        TimeoutStopper("soon")


def test_a_trial_on_a_plateau_stops():
    stopper = TrialPlateauStopper("loss", std=0.1, num_results=3, grace_period=4)
    assert answers(stopper, [1, 1, 1, 1]) == [False, False, False, True]
    assert answers(stopper, [5, 3, 1, 1, 1], "b") == [False, False, False, False, True]
    assert answers(stopper, [1, 1, 1, float("nan"), 1], "c")[3:] == [False, False]
    with pytest.raises(MetricError, match="trial a reported no 'loss', which TrialPlateauStopper needs"):
        stopper("a", {"x": 1})


def test_a_plateau_must_be_good_enough_where_there_is_a_threshold():
    low = TrialPlateauStopper("loss", num_results=2, grace_period=0, metric_threshold=0.5, mode="min")
    assert answers(low, [1, 1, 0.4, 0.4]) == [False, False, False, True]
    high = TrialPlateauStopper("loss", num_results=2, grace_period=0, metric_threshold=0, mode="max")
    assert answers(high, [-1, -1, 0, 0]) == [False, False, False, True], "a threshold of 0 is one"
    with pytest.raises(ArgumentError, match="mode is None, but must be 'min' or 'max'"):
        TrialPlateauStopper("loss", metric_threshold=0.5)


def test_the_experiment_stops_when_the_best_are_alike_for_long_enough():
    stopper = ExperimentPlateauStopper("loss", std=0.1, top=2, mode="min", patience=1)
    assert answers(stopper, [5, 1, 9, 1, 7]) == [False, False, False, False, True]
    assert stopper.stop_all()
    assert answers(ExperimentPlateauStopper("loss", top=2, mode="max"), [5, float("nan"), 5]) == [False, False, True]
    again = ExperimentPlateauStopper("loss", std=0.1, top=2, patience=2)
    assert answers(again, [1, 1, 0.5, 2, 0.5, 2, 2]) == [False, False, False, False, False, False, True]


@pytest.mark.parametrize("arguments", [{"mode": "best"}, {"top": 1}, {"std": 0}, {"patience": -1}])
def test_plateau_arguments(arguments):
    [name] = arguments
    with pytest.raises(ArgumentError, match=f"ExperimentPlateauStopper: {name} is "):
        ExperimentPlateauStopper("loss", **arguments)


def test_a_stopper_of_ones_own():
    class Enough(Stopper):
        def __init__(self):
            self.should_stop = False

        def __call__(self, trial_id, result):
            self.should_stop = self.should_stop or result["score"] > 10
            return self.should_stop or result["training_iteration"] >= 3

        def stop_all(self):
            return self.should_stop

    stopper = make_stopper([Enough()])
    assert stopper("a", {"score": 1, "training_iteration": 3}) and not stopper.stop_all()
    assert stopper("b", {"score": 11, "training_iteration": 1}) and stopper.stop_all()
