"""What holds for all tests of the repository."""

from __future__ import annotations

import os
import sys
import sysconfig

import pytest
import structlog

_MOST_AT_A_TIME = 4

os.environ.setdefault("KERNEL_PRELOAD", "")
"""Few tests have workers that need numpy, and importing it is a fifth of what a session costs."""

_STANDARD = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
sys.path.sort(key=lambda path: not path.startswith(_STANDARD) or "-packages" in path)
"""Every process that a test starts inherits this, and would look for a hundred standard modules in each folder here."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite side by side, a file at a time (tests of a file share sessions), and what is named alone.

    Many tests wait for processes some of the time, so there is one more at a time than there are CPUs.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min((os.cpu_count() or 1) + 1, _MOST_AT_A_TIME) if whole else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, and end with the quickest: no CPU is to wait for the last file."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("packaging") is not None:
        return 0
    return 2 if "unit" in item.path.parts else 1


@pytest.fixture(scope="module", autouse=True)
def unconfigured_logging() -> None:
    """Let no module of tests inherit how `kernel.init` set up logging in another."""
    structlog.reset_defaults()
