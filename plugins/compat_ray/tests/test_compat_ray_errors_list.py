"""`ray.errors()` has the tracebacks of failures that nobody has asked for."""

from __future__ import annotations

import time

from kernel_compat_ray.failures import errors

import kernel
from kernel.testing.session import running_session

SECONDS = 120.0


def test_the_list_has_tracebacks() -> None:
    @kernel.remote(max_retries=0)
    def fails() -> None:
        raise ValueError("on purpose")

    @kernel.remote
    class Broken:
        def __init__(self) -> None:
            raise KeyError("not today")

    with running_session(show_failures=False):
        fails.remote()
        Broken.remote()
        deadline = time.monotonic() + SECONDS
        while len(kernel.errors()) < 2 or len(errors()) < 2:
            assert time.monotonic() < deadline, errors()
            time.sleep(0.01)
        task, constructor = sorted((row["message"] for row in errors()), reverse=True)
    assert task.startswith("fails() ") and 'raise ValueError("on purpose")' in task, task
    assert constructor.startswith("Broken.__init__() failed:") and "not today" in constructor, constructor
