"""CPython's own tests of `multiprocessing.Pool`, from the interpreter that runs this, on ours."""

from __future__ import annotations

import multiprocessing
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_parallel.multiprocessing import Pool

import kernel

try:
    from test import _test_multiprocessing as theirs  # type: ignore[import-not-found]
except ImportError:  # some distributions of Python come without its tests, or without these
    theirs = None

NOT_OURS = {
    "test_unpickleable_result": "its result, a lambda, is one that kernel can send",
    "test_pool_worker_lifetime": "it calls the private Pool._repopulate_pool(); test_parallel_pool.py has one like it",
    "test_worker_finalization_via_atexit_handler_of_multiprocessing": "its program uses the standard library's pool",
}
"""Tests that can't apply, and why."""


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """One session for all pools, which join it."""
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


class Ours:
    """What CPython mixes into its tests to say what is tested."""

    TYPE = "processes"
    Pool = staticmethod(Pool)


if theirs is None:

    def test_the_interpreter_has_its_tests() -> None:
        pytest.skip("this Python came without its own tests; on Debian: apt-get install libpython3-testsuite")

else:

    class TestPool(Ours, theirs._TestPool, unittest.TestCase):
        """Everything that a pool does."""

    class TestPoolAsGlobal(Ours, unittest.TestCase):
        """Those that take `multiprocessing.Pool` itself."""

        @pytest.fixture(autouse=True)
        def _ours_in_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
            monkeypatch.setattr(multiprocessing, "Pool", Pool)

    def take_over(source: Any) -> set[str]:
        """Add the tests of a class to those that are run; return the names of all."""
        names = set(unittest.defaultTestLoader.getTestCaseNames(source))
        for name in names - NOT_OURS.keys():
            setattr(TestPoolAsGlobal, name, vars(source)[name])
        return names

    THERE = take_over(theirs._TestPoolWorkerErrors) | take_over(theirs._TestPoolWorkerLifetime)

    def test_what_is_left_out_is_there_to_be_left_out() -> None:
        assert NOT_OURS.keys() <= THERE
