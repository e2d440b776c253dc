"""What holds for all tests of the repository."""

from __future__ import annotations

import os

import pytest
import structlog

_MOST_AT_A_TIME = 4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite side by side, a file at a time (tests of a file share sessions), and what is named alone.

    Most tests wait for processes most of the time, which is what makes several at a time quicker, on few CPUs too.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min(os.cpu_count() or 1, _MOST_AT_A_TIME) if whole else 0


@pytest.fixture(scope="module", autouse=True)
def unconfigured_logging() -> None:
    """Let no module of tests inherit how `kernel.init` set up logging in another."""
    structlog.reset_defaults()
