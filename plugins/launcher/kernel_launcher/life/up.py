"""Bring a cluster up, or to what its file says now."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path

from kernel_launcher.errors import MachineError
from kernel_launcher.files.patterns import Patterns
from kernel_launcher.files.trees import content_digest
from kernel_launcher.life.machine_link import MachineLink, address_of, link
from kernel_launcher.life.providers import (
    HEAD_SECONDS,
    MakeProvider,
    await_head,
    head_key,
    head_machine,
    make_provider,
    provider_for,
)
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan
from kernel_launcher.steps.machine import machine_steps
from kernel_launcher.steps.step import Wanted, pending
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError
from kernel_spec.providers import NodeProvider, ProvidedNode

_AT_A_TIME = 8
"""Workers that are set up at once."""
WORKERS = "workers.json"
"""The file of the head that names the machines which the launcher has made workers."""


@dataclass(slots=True)
class Brought:
    """What `up` has done: where the head is, how one logs in, how many steps were done, and which workers failed."""

    address: str
    login: str
    steps: int = 0
    workers: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def patterns_of(plan: ClusterPlan) -> Callable[[], Patterns]:
    """Return what makes the patterns of a plan anew: a copy reads its own filter files into them."""
    return lambda: Patterns(plan.exclude, plan.filters)


def file_digests(plan: ClusterPlan) -> dict[str, str]:
    """Return the digest of each local path that is copied. Raises OptionError where there is nothing."""
    return {each.local: content_digest(each.local, patterns_of(plan)()) for each in plan.files}


def bring_up(
    plan: ClusterPlan, state: Path, wanted: Wanted, on_line: Callable[[str], None], make: MakeProvider = make_provider
) -> Brought:
    """Bring a cluster up. What was done before is not done again; a cut is where the next call goes on.

    Raises KernelError where the head can't be brought up. Workers that fail are told in what is returned.
    """
    digests = file_digests(plan)  # First, as it fails for what is only here.
    head = head_link(plan, state, on_line, make, create=True)
    with contextlib.closing(head):
        steps = _bring(head, digests, wanted)
        status = head.status()
        if status is None:
            raise MachineError(f"{head.name}: the start commands have ended, and no head runs there")
        brought = Brought(address_of(status), head.connection.login, steps)
        if plan.head_host and not plan.scales:
            _bring_workers(plan, state, head, brought, digests, wanted, on_line)
        else:
            _release_workers(plan, state, head, [], on_line)
    return brought


def head_link(
    plan: ClusterPlan,
    state: Path,
    on_line: Callable[[str], None],
    make: MakeProvider = make_provider,
    create: bool = False,
) -> MachineLink:
    """Return the opened link to the head. `create` makes its machine where there is none.

    Raises MachineError where there is none, and where it can't be logged in to.
    """
    if plan.head_host:
        head = link(plan, HEAD, plan.head_host, state, on_line)
        head.open()
        return head
    provider = provider_for(plan, HEAD, state, make)
    found = await_head(provider, state, on_line) if create else _existing(provider, plan)
    plan = replace(plan, ssh=replace(plan.ssh, key=head_key(plan, state)))
    head = link(plan, HEAD, found.address, state, on_line, alias=f"{plan.key}-{found.id}")
    head.open(HEAD_SECONDS if create else 10.0, provider_id=found.id)
    return head


def _existing(provider: NodeProvider, plan: ClusterPlan) -> ProvidedNode:
    found = head_machine(provider)
    if found is None or not found.address:
        raise MachineError(f"the cluster {plan.name} has no head; bring it up: kernel up FILE")
    return found


def _bring(machine: MachineLink, digests: Mapping[str, str], wanted: Wanted) -> int:
    """Do what is left to do on a machine, and return how many steps that were."""
    steps = machine_steps(machine.plan, machine.machine, digests)
    running = not wanted.restart and machine.status() is not None
    left = pending(steps, machine.done, running, wanted)
    count = 0
    while left:
        step = left.pop(0)
        machine.do(step, patterns_of(machine.plan))
        count += not step.repeated
        if step.repeated:  # The container: begun anew, it has nothing of what was done, and no node.
            machine.read_done()
            running = running and machine.status() is not None
            left = pending(steps[steps.index(step) + 1 :], machine.done, running, wanted)
    return count


def _bring_workers(
    plan: ClusterPlan,
    state: Path,
    head: MachineLink,
    brought: Brought,
    digests: Mapping[str, str],
    wanted: Wanted,
    on_line: Callable[[str], None],
) -> None:
    chosen = list(plan.worker_hosts[: max(plan.start_workers, plan.minimum_workers)])
    _release_workers(plan, state, head, chosen, on_line)
    token = head.read_file("token")
    if chosen and token is None:
        raise MachineError(
            f"{head.name}: the head runs, and {head.directory}/token is not there: `kernel up` restarts it"
        )
    bring = _WorkerBringer(plan, state, brought.address, token or "", digests, wanted, on_line)
    with ThreadPoolExecutor(_AT_A_TIME, "kernel-up") as pool:
        for entry, outcome in zip(chosen, pool.map(bring, chosen), strict=True):
            if isinstance(outcome, int):
                brought.steps += outcome
                brought.workers.append(entry)
            else:
                brought.failures[entry] = outcome


class _WorkerBringer:
    """Brings one worker up, and returns how many steps that took, or what went wrong."""

    def __init__(
        self,
        plan: ClusterPlan,
        state: Path,
        head: str,
        token: str,
        digests: Mapping[str, str],
        wanted: Wanted,
        on_line: Callable[[str], None],
    ) -> None:
        self._plan, self._state, self._head, self._token = plan, state, head, token
        self._digests, self._wanted, self._say = digests, wanted, on_line

    def __call__(self, entry: str) -> int | str:
        try:
            worker = link(self._plan, WORKER, entry, self._state, self._say)
            with contextlib.closing(worker):
                worker.open(head=self._head)
                wanted = self._wanted
                if worker.read_file("token") != self._token:
                    worker.write_private("token", self._token)
                    wanted = replace(wanted, restart=True)  # It is a node of a head that is no more, if it is one.
                return _bring(worker, self._digests, wanted)
        except KernelError as error:
            return str(error)


def _release_workers(
    plan: ClusterPlan, state: Path, head: MachineLink, chosen: list[str], on_line: Callable[[str], None]
) -> None:
    """End the nodes of workers that are none any more, and write down which there are, before they are begun."""
    before = known_workers(head)
    for entry in before:
        if entry not in chosen:
            with opened(plan, WORKER, entry, state, on_line) as worker:
                on_line(f"{entry}: no worker any more")
                worker.stop()
                worker.forget()
    if before != chosen:
        head.write_private(WORKERS, json.dumps(chosen))


def known_workers(head: MachineLink) -> list[str]:
    """Return the machines that the launcher has made workers."""
    text = head.read_file(WORKERS)
    return list(json.loads(text)) if text else []


@contextlib.contextmanager
def opened(
    plan: ClusterPlan, role: str, entry: str, state: Path, on_line: Callable[[str], None]
) -> Iterator[MachineLink]:
    """Hold an opened link to a machine that is there already."""
    machine = link(plan, role, entry, state, on_line)
    with contextlib.closing(machine):
        machine.open()
        yield machine
