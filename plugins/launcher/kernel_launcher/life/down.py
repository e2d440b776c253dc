"""End a cluster: its nodes, its containers, its machines where a provider has made them. No machine is switched off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from kernel_launcher.life.machine_link import MachineLink
from kernel_launcher.life.providers import (
    MakeProvider,
    end_all,
    forget_order,
    head_machine,
    make_provider,
    provider_for,
)
from kernel_launcher.life.up import head_link, known_workers, opened
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError


@dataclass(slots=True)
class TakenDown:
    """What `down` has done: the machines whose nodes were ended, how many machines were given back, and what failed."""

    ended: list[str] = field(default_factory=list)
    given_back: int = 0
    failures: dict[str, str] = field(default_factory=dict)


def take_down(
    plan: ClusterPlan,
    state: Path,
    on_line: Callable[[str], None],
    workers_only: bool = False,
    make: MakeProvider = make_provider,
) -> TakenDown:
    """End a cluster, or its workers alone. A machine that can't be reached is told in what is returned.

    Where a provider makes the machines, its list decides what is left; machines that are there already stay on.
    """
    done = TakenDown()
    if plan.head_host:
        _end_given(plan, state, on_line, workers_only, done)
        return done
    if not workers_only:
        _stop_head(plan, state, on_line, make, done)
    done.given_back = end_all(provider_for(plan, WORKER, state, make), on_line)
    if not workers_only:
        done.given_back += end_all(provider_for(plan, HEAD, state, make), on_line)
        forget_order(state)
    return done


def _end_given(
    plan: ClusterPlan, state: Path, on_line: Callable[[str], None], workers_only: bool, done: TakenDown
) -> None:
    try:
        head: MachineLink | None = head_link(plan, state, on_line)
    except KernelError as error:
        head = None
        if not workers_only:
            done.failures[plan.head_host] = str(error)
    workers = known_workers(head) if head is not None else list(plan.worker_hosts)
    for entry in workers:
        _end(plan, WORKER, entry, state, on_line, done)
    if head is None:
        return
    with contextlib.closing(head):
        if workers_only:
            if not done.failures:
                head.write_private("workers.json", "[]")
            return
    if not done.failures:  # The head knows which workers there are: it is forgotten last.
        _end(plan, HEAD, plan.head_host, state, on_line, done)


def _end(
    plan: ClusterPlan, role: str, entry: str, state: Path, on_line: Callable[[str], None], done: TakenDown
) -> None:
    try:
        with opened(plan, role, entry, state, on_line) as machine:
            on_line(f"{entry}: end its node")
            machine.stop()
            machine.forget()
            done.ended.append(entry)
    except KernelError as error:
        done.failures[entry] = str(error)


def _stop_head(
    plan: ClusterPlan, state: Path, on_line: Callable[[str], None], make: MakeProvider, done: TakenDown
) -> None:
    """End the head's session, so that its autoscaler orders nothing more. Its machine is ended anyway."""
    if head_machine(provider_for(plan, HEAD, state, make)) is None:
        return
    try:
        with contextlib.closing(head_link(plan, state, on_line, make)) as head:
            on_line(f"{head.name}: end the head")
            head.stop()
            done.ended.append(head.name)
    except KernelError as error:
        on_line(f"the head can't be asked to end, and its machine is ended: {error}")
