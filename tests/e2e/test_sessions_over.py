"""What is left of a session that is over begins no other one, and neither does a program that is ending."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import kernel
from kernel.exceptions import KernelError, NotInitializedError, OptionError, SessionEndedError, UsageError
from kernel.testing.session import running_session, temporary_root

SECONDS = 120.0


@kernel.remote
def one(x: int = 1) -> int:
    return 1


@kernel.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def up(self) -> int:
        return self.count


@pytest.fixture(scope="module")
def left() -> SimpleNamespace:
    """What a program may still hold of a session that it has left."""
    with running_session(num_cpus=1):
        result, put, counter = one.remote(), kernel.put(3), Counter.remote()
        assert kernel.get([result, put, counter.up.remote()]) == [1, 3, 0]
        group = kernel.placement_group([{"CPU": 1}])
        return SimpleNamespace(ref=result, put=put, actor=counter, group=group, node=kernel.nodes()[0]["NodeID"])


@pytest.fixture(autouse=True)
def nothing_begins() -> Iterator[None]:
    yield
    try:
        assert not kernel.is_initialized()
    finally:
        kernel.shutdown()


Use = Callable[[SimpleNamespace], Any]


@pytest.mark.parametrize(
    "use",
    [
        lambda left: kernel.get(left.ref),
        lambda left: kernel.get([left.put, left.ref]),
        lambda left: kernel.get(left.ref, timeout=0),
        lambda left: kernel.wait([left.ref]),
        lambda left: kernel.put(left.ref),
        lambda left: one.remote(left.ref),
        lambda left: one.remote(x=left.ref),
        lambda left: Counter.remote(left.ref),
        lambda left: Counter.remote(start=left.ref),
    ],
)
def test_a_reference_of_a_session_that_is_over_is_gone_with_it(use: Use, left: SimpleNamespace) -> None:
    with pytest.raises(SessionEndedError, match=r"ObjectRef\(\w+\) is gone with its session, which has ended; call"):
        use(left)


@pytest.mark.parametrize(
    "use",
    [
        lambda left: kernel.cancel(left.ref),
        lambda left: kernel.explain(left.ref),
        lambda left: left.ref.future(),
        lambda left: kernel.kill(left.actor),
        lambda left: kernel.explain(left.actor),
        lambda left: left.actor.up.remote(),
        lambda left: left.group.ready(),
        lambda left: left.group.wait(1),
        lambda left: kernel.remove_placement_group(left.group),
        lambda left: kernel.placement_group_table(left.group),
        lambda left: kernel.explain(left.group),
        lambda left: kernel.drain_node(left.node),
    ],
)
def test_what_may_live_elsewhere_asks_to_join(use: Use, left: SimpleNamespace) -> None:
    with pytest.raises(NotInitializedError, match="kernel is not initialized in this process; call kernel.init"):
        use(left)


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda left: kernel.get(3), UsageError),
        (lambda left: kernel.get(left.ref, timeout=-1), OptionError),
        (lambda left: kernel.wait(3), UsageError),
        (lambda left: kernel.remove_placement_group(3), UsageError),
        (lambda left: kernel.get_placement_group(""), OptionError),
    ],
)
def test_what_can_not_be_asked_begins_no_session(use: Use, error: type[KernelError], left: SimpleNamespace) -> None:
    with pytest.raises(error):
        use(left)


AT_THE_END = """
import sys
import kernel

one = kernel.remote(lambda: 1)

class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        for use in (one.remote, kernel.init):
            try:
                use()
            except kernel.exceptions.NotInitializedError as error:
                print(sys.is_finalizing(), error)

if sys.argv[1] == "used":
    with kernel.init(num_cpus=1, object_store_memory=32 << 20):
        assert kernel.get(one.remote()) == 1
cycle = Cycle()
del cycle
"""

AT_EXIT = """
import atexit
import kernel

one = kernel.remote(lambda: 1)

@atexit.register  # before that of the session: so it runs after it
def late():
    try:
        one.remote()
    except kernel.exceptions.NotInitializedError as error:
        print(error)

kernel.init(num_cpus=1, object_store_memory=32 << 20)
"""

NO_MORE = "kernel is not initialized in this process, and starts no session any more: the program is ending\n"


def run(text: str, *arguments: str) -> str:
    with temporary_root() as root:
        done = subprocess.run(
            [sys.executable, "-c", text, *arguments],
            env={**os.environ, "KERNEL_TMPDIR": root, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert os.listdir(os.path.join(root, f"kernel-{os.getuid()}")) == []
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("used", ["used", "unused"])
def test_what_is_collected_while_the_interpreter_ends_begins_no_session(used: str) -> None:
    assert run(AT_THE_END, used) == f"True {NO_MORE}" * 2


def test_an_exit_handler_that_runs_after_the_session_begins_no_other() -> None:
    assert run(AT_EXIT) == NO_MORE
