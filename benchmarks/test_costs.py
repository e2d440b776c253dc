"""What single steps cost, in time of the processor: limits far above the usual, which see what is grossly slower."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import timeit
from typing import Any

import numpy as np
import pytest
from kernel_serve.metrics.proxy import ProxyMetrics
from kernel_serve.metrics.replica import ReplicaMetrics
from kernel_tune import search_space as tune
from kernel_tune.schedulers import ASHAScheduler, FIFOScheduler
from kernel_tune.searchers import BOHBSearch, CMAESSearch, RandomSearch, SobolSearch, TPESearch
from kernel_tune.testing.simulation import Simulation
from kernel_tune.trial import Trial

from kernel.metrics.registry import MetricRegistry
from kernel_spec.ids import NodeId
from kernel_spec.packing import pack
from kernel_spec.resources import UNIT, ResourcePool
from kernel_spec.scheduling import PACK, SPREAD, STRICT_SPREAD


def test_help_of_the_command_line_is_quick() -> None:
    def run() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "kernel.cli.main", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user - before.children_user + after.children_system - before.children_system

    assert min(run() for _ in range(5)) < 0.6


@pytest.mark.parametrize("strategy", [PACK, SPREAD, STRICT_SPREAD])
def test_a_thousand_bundles_are_packed_in_a_moment(strategy: str) -> None:
    pools = {NodeId(f"node{n:04}".encode()): ResourcePool({"CPU": 1 + n % 3}) for n in range(1000)}
    bundles = {n: {"CPU": UNIT} for n in range(1000)}
    began = time.process_time()
    pack(bundles, strategy, pools, [])
    assert time.process_time() - began < 2.0


def test_ten_thousand_trials_cost_asha_microseconds_a_result() -> None:
    nobody = Simulation(FIFOScheduler(), lambda config, iteration: 0.0)
    scheduler = ASHAScheduler(metric="score", mode="max", max_t=100, reduction_factor=4)
    trials = [Trial("t", trial_id=str(index)) for index in range(10_000)]
    scores = np.random.default_rng(0).random(10_000).tolist()
    for trial in trials:
        scheduler.on_trial_add(nobody, trial)
    results = [{"training_iteration": at, "score": score} for score in scores for at in (1, 2, 3, 4)]
    began = time.process_time()
    for index, result in enumerate(results):
        scheduler.on_trial_result(nobody, trials[index // 4], result)
    assert (time.process_time() - began) / len(results) < 50e-6


@pytest.mark.parametrize("make", [RandomSearch, SobolSearch, TPESearch, BOHBSearch, CMAESSearch])
def test_suggestions_stay_quick(make: Any) -> None:
    space = {**{f"x{n}": tune.uniform(0, 1) for n in range(6)}, "k": tune.choice(["a", "c"])}
    searcher = make(space=space, metric="loss", mode="min", seed=0)
    generator = np.random.default_rng(0)
    for _ in range(1000):
        config = {**{f"x{n}": generator.random() for n in range(6)}, "k": "a"}
        searcher.add_evaluated_point(config, float(generator.random()))
    searcher.suggest("first")
    times = []
    for number in range(30):
        began = time.thread_time()
        searcher.suggest(str(number))
        times.append(time.thread_time() - began)
    assert min(times) < 0.02, "the aim is 5 ms"


def test_counting_a_request_costs_a_microsecond_in_each_process() -> None:
    proxy = ProxyMetrics(MetricRegistry(), "p")
    replica = ReplicaMetrics(MetricRegistry(), "a", "M", "r").kind("http")

    def cost(count: Any) -> float:
        return min(timeit.repeat(count, timer=time.thread_time, number=10_000, repeat=20)) / 10_000 * 1e6

    assert cost(lambda: proxy.ended("a#M", "/", "GET", 200, 3.3)) < 2.0, "0.5 is usual"
    assert cost(lambda: replica.ended(200, 3.3)) < 2.0
