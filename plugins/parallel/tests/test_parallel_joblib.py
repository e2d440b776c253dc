"""joblib's backend: batches, errors, nested calls, shared arrays, and scikit-learn on it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from kernel_parallel.joblib import register_kernel

import kernel

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(autouse=True)
def backend(session: None) -> Iterator[None]:
    register_kernel()
    with parallel_config("kernel", n_jobs=2):
        yield


def square(x: int) -> int:
    return x * x


def test_results_come_in_order_from_several_processes() -> None:
    assert Parallel()(delayed(square)(x) for x in range(500)) == [x * x for x in range(500)]
    pids = set(Parallel(batch_size=1)(delayed(os.getpid)() for _ in range(20)))
    assert os.getpid() not in pids and len(pids) <= 2
    again = set(Parallel(batch_size=1)(delayed(os.getpid)() for _ in range(20)))
    assert again | pids == pids | again and len(again | pids) <= 2, "workers stay for the next call"
    assert list(Parallel(return_as="generator")(delayed(square)(x) for x in range(5))) == [0, 1, 4, 9, 16]


def test_minus_one_means_all_cpus_of_the_session() -> None:
    with parallel_config("kernel"):
        assert Parallel(n_jobs=-1)._effective_n_jobs() == 2 and Parallel(n_jobs=-2)._effective_n_jobs() == 1
        assert Parallel(n_jobs=7)._effective_n_jobs() == 7
        with pytest.raises(ValueError, match="n_jobs == 0"):
            Parallel(n_jobs=0)._effective_n_jobs()
        assert Parallel(n_jobs=1)(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2


def test_an_error_ends_the_call_and_the_next_one_works() -> None:
    def fail(x: int) -> int:
        if x == 3:
            raise LookupError("no 3")
        return x

    with pytest.raises(LookupError, match="no 3"):
        Parallel()(delayed(fail)(x) for x in range(1000))
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.2)(delayed(time.sleep)(600) for _ in range(2))
    assert Parallel()(delayed(square)(x) for x in range(4)) == [0, 1, 4, 9]


def test_large_arrays_are_stored_once_and_shared() -> None:
    array = np.arange(500_000.0)

    def look(array: np.ndarray, pair: Any, *, other: np.ndarray) -> tuple[Any, ...]:
        return array.flags.writeable, float(array[-1]), pair[0] is not None, float(pair[1].sum()), float(other[0])

    def stored() -> int:
        rows = kernel.api.session.ensure_session().query("memory")["stored"]
        return sum(1 for _, _, size, *_ in rows if size >= array.nbytes)

    calls = (delayed(look)(array, (1, array), other=array) for _ in range(40))
    counts = []
    for result in Parallel(return_as="generator", batch_size=1)(calls):
        assert result == (False, 499_999.0, True, float(array.sum()), 0.0)
        counts.append(stored())
    assert max(counts) == 1, "one copy for all tasks"
    array[0] = 7
    assert Parallel()(delayed(look)(array, (1, array), other=array) for _ in range(2))[0][4] == 7.0


def test_parallel_calls_in_tasks_are_parallel_too() -> None:
    def outer(count: int) -> tuple[int, bool]:
        pids = Parallel(n_jobs=2, batch_size=1)(delayed(os.getpid)() for _ in range(count))
        total = sum(Parallel(n_jobs=2)(delayed(inner)(x) for x in range(count)))
        return total, os.getpid() not in pids

    def inner(x: int) -> int:
        return sum(Parallel(n_jobs=2)(delayed(square)(y) for y in range(x)))

    expected = sum(sum(y * y for y in range(x)) for x in range(4))
    assert Parallel()(delayed(outer)(4) for _ in range(2)) == [(expected, True)] * 2


def test_options_of_the_workers_are_theirs() -> None:
    with parallel_config("kernel", n_jobs=2, kernel_remote_args={"runtime_env": {"env_vars": {"JOBLIB_HUE": "red"}}}):
        assert Parallel()(delayed(os.getenv)("JOBLIB_HUE") for _ in range(2)) == ["red"] * 2
    with parallel_config("kernel", n_jobs=2, inner_max_num_threads=3):
        assert Parallel()(delayed(os.getenv)("OMP_NUM_THREADS") for _ in range(2)) == ["3"] * 2


def test_a_grid_search_finds_what_it_finds_without() -> None:
    # Here, because workers import this module.
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    from sklearn.model_selection import GridSearchCV  # type: ignore[import-untyped]
    from sklearn.svm import SVC  # type: ignore[import-untyped]

    images, digits = load_digits(return_X_y=True)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [1e-4, 1e-3]}
    search = GridSearchCV(SVC(), grid, cv=3).fit(images[:400], digits[:400])
    with joblib.parallel_config("sequential"):
        alone = GridSearchCV(SVC(), grid, cv=3).fit(images[:400], digits[:400])
    assert search.best_params_ == alone.best_params_
    assert np.array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
