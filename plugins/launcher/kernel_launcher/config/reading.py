"""Read a cluster file, whichever it is, and check the plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from kernel_launcher.config.document import ClusterDocument, read_document
from kernel_launcher.config.own_dialect import TOP as OWN_KEYS
from kernel_launcher.config.own_dialect import read_own
from kernel_launcher.config.ray_dialect import read_ray
from kernel_launcher.config.ray_keys import TOP as RAY_KEYS
from kernel_launcher.plan import ClusterPlan
from kernel_spec.errors import OptionError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
"""What a cluster may be called: a part of paths and of the names of machines."""


def read_plan(
    file: Path, name: str = "", maximum_workers: int | None = None, minimum_workers: int | None = None
) -> ClusterPlan:
    """Return what a cluster file says, with another name and numbers of workers if they are given.

    Raises OptionError, which names the line and the column, for what is wrong in the file.
    """
    return plan_of(read_document(file), name, maximum_workers, minimum_workers)


def plan_of(
    document: ClusterDocument, name: str = "", maximum_workers: int | None = None, minimum_workers: int | None = None
) -> ClusterPlan:
    """Return what a document says, as `read_plan` does."""
    plan = read_own(document) if _is_own(document) else read_ray(document)
    plan = replace(plan, name=name or plan.name)
    if not _NAME.fullmatch(plan.name):
        raise OptionError(
            f"{document.name}: a cluster can't be called {plan.name!r}: letters, digits, and _ . - after the first, "
            "63 at most"
        )
    if maximum_workers is not None:
        plan = with_maximum(plan, maximum_workers)
    return plan if minimum_workers is None else with_minimum(plan, minimum_workers)


def with_maximum(plan: ClusterPlan, maximum: int) -> ClusterPlan:
    """Return a plan with another maximum of workers: the minimum and the first number are no more than it.

    Raises OptionError for more workers than there are machines.
    """
    if plan.head_host and maximum > len(plan.worker_hosts):
        raise OptionError(
            f"--max-workers {maximum}: the cluster file has {len(plan.worker_hosts)} machines for workers"
        )
    return replace(
        plan,
        maximum_workers=maximum,
        minimum_workers=min(plan.minimum_workers, maximum),
        start_workers=min(plan.start_workers, maximum),
        kinds={name: replace(kind, minimum=min(kind.minimum, maximum)) for name, kind in plan.kinds.items()},
    )


def with_minimum(plan: ClusterPlan, minimum: int) -> ClusterPlan:
    """Return a plan with another minimum of workers. Raises OptionError where that is above the maximum."""
    if minimum > plan.maximum_workers:
        raise OptionError(f"--min-workers {minimum} is more than the maximum of {plan.maximum_workers} workers")
    return replace(plan, minimum_workers=minimum, start_workers=max(plan.start_workers, minimum))


def _is_own(document: ClusterDocument) -> bool:
    """Return whether a file is kernel's own: by its keys, and in doubt by its name."""
    keys = set(document.values)
    own = len(keys & set(OWN_KEYS) - set(RAY_KEYS))
    ray = len(keys & set(RAY_KEYS) - set(OWN_KEYS))
    return own > ray or (own == ray and document.name.endswith(".toml"))
