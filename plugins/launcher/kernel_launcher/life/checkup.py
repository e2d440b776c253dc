"""Look whether machines can be what a plan wants of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from kernel_launcher.life.machine_link import link
from kernel_launcher.life.providers import head_machine, make_provider, provider_for
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan
from kernel_launcher.steps.step import OUTSIDE
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError
from kernel_spec.version import __version__

_CLOCK_SECONDS = 60.0
_DISK_MEGABYTES = 1000
_ASK = (
    "date +%s; df -Pm / | awk 'NR==2 {print $4}'; "
    "df -Pm /dev/shm 2>/dev/null | awk 'NR==2 {print $4}' | grep . || echo 0; "
    "command -v tar >/dev/null && echo tar || echo none; (kernel --version 2>/dev/null || echo none) | tail -1"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found on a machine, and whether a cluster can be made of it."""

    machine: str
    good: bool
    what: str


def check_up(plan: ClusterPlan, state: Path, clock: Callable[[], float]) -> Iterator[Finding]:
    """Yield what is found on the machines that there are. `clock` is the time of day here, in seconds."""
    if plan.head_host:
        machines = [(HEAD, plan.head_host), *((WORKER, entry) for entry in plan.worker_hosts)]
    else:
        try:
            found = head_machine(provider_for(plan, HEAD, state, make_provider))
        except KernelError as error:
            yield Finding(plan.provider, False, str(error))
            return
        yield Finding(
            plan.provider, True, "the provider answers" if found else "the provider answers; no head there yet"
        )
        machines = [(HEAD, found.address)] if found is not None and found.address else []
    for role, entry in machines:
        yield from _machine(plan, role, entry, state, clock)


def _machine(plan: ClusterPlan, role: str, entry: str, state: Path, clock: Callable[[], float]) -> Iterator[Finding]:
    machine = link(plan, role, entry, state, lambda line: None)
    with contextlib.closing(machine):
        try:
            machine.open()
            yield Finding(entry, True, f"ssh: logged in, its host key is pinned; home is {machine.machine.home}")
            finished = machine.run(_ASK, OUTSIDE)
            moment, disk, shared, tar, version = finished.output.split("\n")[:5]
        except KernelError as error:
            yield Finding(entry, False, str(error))
            return
        except ValueError:
            yield Finding(entry, False, f"its shell answers {finished.output[-200:]!r}: is bash there?")
            return
    ahead = float(moment) - clock()
    yield Finding(entry, abs(ahead) < _CLOCK_SECONDS, f"clock: {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}")
    yield Finding(entry, int(disk) >= _DISK_MEGABYTES, f"disk: {disk} MB free")
    yield Finding(entry, int(shared) > 0, f"shared memory: {shared} MB free for objects")
    yield Finding(
        entry, tar == "tar", "tar: there" if tar == "tar" else "tar: not installed, so no files can be copied"
    )
    yield _version(plan, entry, version)


def _version(plan: ClusterPlan, entry: str, version: str) -> Finding:
    if plan.container is not None:
        return Finding(entry, True, "kernel: in the container")
    if version == "none":
        setup = [*plan.commands.setup, *plan.commands.head_setup, *plan.commands.worker_setup]
        return Finding(entry, bool(setup), "kernel: not there yet" + ("" if setup else ", and no command installs it"))
    there = version.rpartition(" ")[2]
    return Finding(entry, there == __version__, f"kernel: {there}; here it is {__version__}")
