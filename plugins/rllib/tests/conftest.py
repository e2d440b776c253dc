"""What the tests of rllib share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kernel


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """One session of two CPUs for all tests of a module, whose many runners share what one process has imported."""
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False, preload=["kernel_rllib.runners.runner_actor"]):
        yield
