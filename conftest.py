"""What holds for all tests of the repository."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import structlog

pytest_plugins = ["lost_workers", "rerun_alone"]

_MOST_AT_A_TIME = 4

os.environ.setdefault("KERNEL_PRELOAD", "")
"""Few tests have workers that need numpy, and importing it is a fifth of what a session costs."""

os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
"""What looks for credentials of S3 would else ask a server of the cloud that this machine might be in."""

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # A shell's job in the background ignores the first, what nohup started the second. All processes would inherit it,
    # and many tests press Ctrl-C or hang up.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")
"""How long an example takes says how busy the machine is."""

_STANDARD = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
sys.path.sort(key=lambda path: not path.startswith(_STANDARD) or "-packages" in path)
"""Every process that a test starts inherits this, and would look for a hundred standard modules in each folder here."""


_made: list[str] = []
if "TMPDIR" not in os.environ:
    # One test looks whether a session writes elsewhere: others, beside it, must not write there. And nothing stays.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # but what pytest keeps to be looked at
    _made.append(tempfile.mkdtemp(prefix="kt-"))
    os.environ["TMPDIR"] = tempfile.tempdir = _made[0]


def pytest_unconfigure() -> None:
    """Remove the directory for temporary files; processes of xdist inherit it from the one that has made it."""
    for directory in _made:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite side by side, a file at a time (tests of a file share sessions), and what is named alone.

    Many tests wait for processes some of the time, so there are two more at a time than there are CPUs.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min((os.cpu_count() or 1) + 2, _MOST_AT_A_TIME) if whole else 0


def pytest_configure(config: pytest.Config) -> None:
    """Let each process of xdist begin to collect elsewhere: what one has compiled, the others only have to read."""
    _look_for_what_hides_libraries()
    process: dict[str, Any] | None = getattr(config, "workerinput", None)
    if process is not None:
        number, count = int(process["workerid"].removeprefix("gw")), process["workercount"]
        start = len(config.args) * (number % count) // count
        config.args[:] = config.args[start:] + config.args[:start]


def _look_for_what_hides_libraries() -> None:
    """Raise UsageError where a folder with nothing but caches stands in the way of a library like `kernel.testing`."""
    for library in ("control_plane", "testing"):
        folder = os.path.join(os.path.dirname(__file__), "kernel", library)
        if os.path.isdir(folder):
            raise pytest.UsageError(
                f"{folder} is of an older version and hides the library kernel.{library}: remove it"
            )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector never look through the thousands of tests, neither now nor while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, and end with the quickest: no CPU is to wait for the last file.

    The order of files doesn't depend on that in which they were collected.
    """
    items.sort(key=lambda item: (_turn(item), item.path))


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("packaging") is not None:
        return 0
    return 2 if "unit" in item.path.parts else 1


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> Iterator[None]:
    """Let the garbage collector look through what a module of tests has made, not through all that is there before."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def no_session_left() -> Iterator[None]:
    """Fail a module of tests that leaves a session behind, and end that: the next one would be blamed for it."""
    yield
    session = sys.modules.get("kernel.api.session")  # tests of some distributions run without the kernel
    if session is not None and session.is_initialized():
        session.shutdown()
        pytest.fail("a session was left behind by this module of tests: end it where it is begun")


@pytest.fixture(scope="module", autouse=True)
def unconfigured_logging() -> None:
    """Let no module of tests inherit how `kernel.init` set up logging in another, nor set it up with its first line."""
    logs = sys.modules.get("kernel.logs")
    if logs is not None:
        logs.configure_later(lambda: None, debug=False)
    structlog.reset_defaults()
