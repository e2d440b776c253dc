"""How many threads numerical libraries start in a worker."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from kernel_processes.system import thread_limits
from kernel_processes.system.thread_limits import OPENMP, VARIABLES, ThreadLimits
from kernel_spec.resources import to_units


@pytest.fixture(autouse=True)
def no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_limits, "_ours", [])


@pytest.mark.parametrize(("cpus", "threads"), [(0, "1"), (0.5, "1"), (1, "1"), (2, "2"), (2.5, "2"), (16, "16")])
def test_there_are_as_many_as_cpus_and_at_least_one(cpus: float, threads: str) -> None:
    environment: dict[str, str] = {}
    ThreadLimits((), environment).apply(to_units(cpus))
    assert environment == dict.fromkeys(VARIABLES, threads)


def test_each_lease_has_its_own() -> None:
    environment: dict[str, str] = {}
    limits = ThreadLimits({}, environment)
    for cpus in (4, 1, 2):
        limits.apply(to_units(cpus))
        assert environment[OPENMP] == str(cpus)


def test_what_the_user_has_set_stays() -> None:
    everything, one = {OPENMP: "7"}, {"MKL_NUM_THREADS": "7"}
    for environment in (everything, one):
        ThreadLimits({}, environment).apply(to_units(2))
    assert everything == {OPENMP: "7"}, "it speaks for the others"
    assert one == {**dict.fromkeys(VARIABLES, "2"), "MKL_NUM_THREADS": "7"}


@pytest.mark.parametrize("own", [{}, {OPENMP: "1"}])
def test_what_the_template_has_set_is_not_the_users(own: dict[str, str]) -> None:
    environment: dict[str, str] = {}
    thread_limits.begin(environment)
    assert environment == {OPENMP: "1"}
    environment.update(own)
    ThreadLimits(own, environment).apply(to_units(2))
    assert environment[OPENMP] == ("1" if own else "2")


def test_the_template_leaves_what_the_user_has_set() -> None:
    environment = {OPENMP: "3"}
    thread_limits.begin(environment)
    ThreadLimits({}, environment).apply(to_units(2))
    assert environment == {OPENMP: "3"}


def test_torch_is_told_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(set_num_threads=told.append))
    limits = ThreadLimits({}, {})
    limits.apply(to_units(3))
    limits.apply(to_units(3))
    ThreadLimits({}, {OPENMP: "7"}).apply(to_units(2))
    assert told == [3]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    limits.apply(to_units(1))
