"""What the machines of a plan cost, as their provider says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kernel_launcher.life.providers import MakeProvider, make_provider, provider_for
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan
from kernel_spec.errors import KernelError
from kernel_spec.providers import DescribesKinds, KindDetails


def prices_of(plan: ClusterPlan, state: Path, make: MakeProvider = make_provider) -> Mapping[str, KindDetails] | str:
    """Return what each kind costs, the head's under `head`; or the reason why that is not known."""
    if plan.head_host:
        return "none that is known: the machines are there already"
    found: dict[str, KindDetails] = {}
    try:
        for role in (HEAD, WORKER):
            provider = provider_for(plan, role, state, make)
            if not isinstance(provider, DescribesKinds):
                return f"not known: the provider {plan.provider} names no prices"
            for kind in provider.kinds():
                found[kind] = provider.describe(kind)
    except KernelError as error:
        return f"not known: {error}"
    return found
