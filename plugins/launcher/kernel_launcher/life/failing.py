"""End one worker by chance, as a fault would."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from kernel_launcher.errors import MachineError
from kernel_launcher.life.providers import MakeProvider, make_provider, provider_for
from kernel_launcher.life.up import head_link, known_workers, opened
from kernel_launcher.plan import WORKER, ClusterPlan
from kernel_spec.errors import OptionError


def end_one(
    plan: ClusterPlan,
    state: Path,
    chance: random.Random,
    hard: bool,
    on_line: Callable[[str], None],
    make: MakeProvider = make_provider,
) -> str:
    """Kill the node of a worker that `chance` picks, or with `hard` give its machine back. Return what was done.

    Raises MachineError where there is no worker, and OptionError for `hard` where no provider has made machines.
    """
    if plan.head_host and not plan.scales:
        if hard:
            raise OptionError("--hard gives a machine back, and these were there already: leave it out")
        with contextlib.closing(head_link(plan, state, on_line, make)) as head:
            workers = known_workers(head)
        if not workers:
            raise MachineError(f"the cluster {plan.name} has no workers")
        entry = chance.choice(workers)
        with opened(plan, WORKER, entry, state, on_line) as worker:
            worker.stop(force=True)
        return f"{entry}: its node was killed"
    provider = provider_for(plan, WORKER, state, make)
    machines = [one for one in provider.list() if one.state == "running"]
    if not machines:
        raise MachineError(f"the cluster {plan.name} has no workers that run")
    one = chance.choice(machines)
    if hard:
        provider.terminate([one.id])
        return f"{one.id}: the machine was given back"
    with opened(plan, WORKER, one.address, state, on_line) as worker:
        worker.run("kernel stop --force --all")
    return f"{one.id} ({one.address}): its node was killed"
