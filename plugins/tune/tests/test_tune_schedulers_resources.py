"""Changing resources of running trials: even shares, the best first, a function of one's own."""

from __future__ import annotations

import pytest
from kernel_tune.arguments import ArgumentError
from kernel_tune.errors import TuneError
from kernel_tune.schedulers import (
    ASHAScheduler,
    DistributeResources,
    DistributeResourcesToTopJob,
    HyperBandScheduler,
    ResourceChangingScheduler,
)
from kernel_tune.testing.simulation import Simulation, simulate

CURVE = lambda config, iteration: config.get("x", 1.0) + 0.001 * iteration


def cpus(experiment):
    return [trial.resources["cpu"] for trial in experiment.trials]


def running(scheduler, trials, room, steps, **options):
    configs = [{"x": index} for index in range(trials)]
    return Simulation(scheduler, CURVE, configs, room=room, iterations=100, **options).run(steps=steps)


def test_what_is_free_is_shared_evenly():
    assert cpus(running(ResourceChangingScheduler(), 2, {"cpu": 8}, 12)) == [4, 4]
    assert sorted(cpus(running(ResourceChangingScheduler(), 3, {"cpu": 8}, 20))) == [2, 3, 3]


def test_a_trial_that_starts_gets_room_from_those_that_have_more():
    scheduler = ResourceChangingScheduler(ASHAScheduler(max_t=100, grace_period=90))
    experiment = running(scheduler, 2, {"cpu": 4}, 10, concurrent=1)
    assert cpus(experiment) == [4]
    experiment._concurrent = 2
    experiment.run(steps=10)
    assert cpus(experiment) == [2, 2]


def test_steps_of_ones_own_limits_and_reserves():
    share = DistributeResources(increase_by={"CPU": 2}, increase_by_times=2)
    assert cpus(running(ResourceChangingScheduler(None, share), 1, {"cpu": 16}, 5)) == [5]
    share = DistributeResources(reserve_resources={"cpu": 3})
    assert cpus(running(ResourceChangingScheduler(None, share), 1, {"cpu": 8}, 5)) == [5]


def test_gpus_for_trials_that_have_some_and_bundles_for_their_actors():
    room, own = {"cpu": 8, "gpu": 4}, {"cpu": 2, "gpu": 1}
    experiment = running(ResourceChangingScheduler(), 1, room, 5, resources=own)
    assert experiment.trials[0].resources == {"cpu": 2, "gpu": 4}
    share = DistributeResources(add_bundles=True)
    experiment = running(ResourceChangingScheduler(None, share), 1, {"cpu": 4}, 5)
    assert experiment.trials[0].resources == {"cpu": 1, "extra_cpu": 3}


def test_all_to_the_best():
    scheduler = ResourceChangingScheduler(ASHAScheduler(max_t=100, grace_period=90), DistributeResourcesToTopJob())
    assert cpus(running(scheduler, 3, {"cpu": 8}, 12)) == [1, 1, 6]
    scheduler = ResourceChangingScheduler(None, DistributeResourcesToTopJob(metric="score", mode="min"))
    assert cpus(running(scheduler, 3, {"cpu": 8}, 12)) == [6, 1, 1]


def test_a_function_of_ones_own_sees_everything_and_none_is_no_change():
    seen = []

    def allocate(controller, trial, result, scheduler):
        seen.append((len(controller.get_trials()), trial.index, result["training_iteration"], scheduler))
        return {"cpu": 3} if result["training_iteration"] == 2 else None

    scheduler = ResourceChangingScheduler(None, allocate)
    done = simulate(scheduler, CURVE, [{}], slots=4, iterations=4)
    assert seen == [(1, 0, at, scheduler) for at in (1, 2, 3)]
    assert [event[1:] for event in done.history if event[1] == "set_resources"] == [
        ("set_resources", "00000000", {"cpu": 3})
    ]
    assert cpus(done) == [3] and scheduler.base_trial_resources is None


def test_the_base_scheduler_decides_the_rest():
    base = HyperBandScheduler(max_t=9)
    scheduler = ResourceChangingScheduler(base)
    done = simulate(scheduler, CURVE, [{"x": index / 20} for index in range(20)], slots=4, iterations=30)
    assert done.iterations < 20 * 9
    assert scheduler.metric == base.metric == "score" and scheduler.mode == "max"
    assert scheduler.debug_string().startswith("(ResourceChangingScheduler) Using HyperBand: num_stopped=")
    assert any(event[1] == "set_resources" for event in done.history)


def test_arguments_that_cant_be_used():
    with pytest.raises(ArgumentError, match="base_scheduler is 'asha', but must be a TrialScheduler"):
        ResourceChangingScheduler("asha")
    with pytest.raises(ArgumentError, match="resources_allocation_function is 3, which can't be called"):
        ResourceChangingScheduler(None, 3)
    with pytest.raises(ArgumentError, match="nothing would ever grow"):
        DistributeResources(increase_by={"cpu": 0})
    with pytest.raises(ArgumentError, match=r"increase_by\['cpu'\] is -1"):
        DistributeResources(increase_by={"cpu": -1})
    with pytest.raises(TuneError, match="resources are 'all'"):
        simulate(ResourceChangingScheduler(None, lambda *_: DistributeResources.__call__(
            DistributeResources(), _[0], type(_[1])("t", resources="all"), _[2], _[3])), CURVE, [{}])  # fmt: skip
