"""What `kernel up --plan` prints: the machines, the steps of each, the costs, what has no effect."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_launcher.plan import HEAD, WORKER, ClusterPlan
from kernel_launcher.steps.autoscaler_file import worker_kinds
from kernel_launcher.steps.machine import ClusterMachine, machine_steps
from kernel_spec.providers import KindDetails

_WIDTH = 100


def shown_plan(plan: ClusterPlan, digests: Mapping[str, str], prices: Mapping[str, KindDetails] | str) -> str:
    """Return a plan for people. `prices` are by kind, or the reason why they are not known."""
    lines = [f"cluster  {plan.name}, provider {plan.provider}, kept as {plan.key}", f"workers  {_numbers(plan)}"]
    lines += _steps(plan, HEAD, [plan.head_host or f"a machine of kind {plan.head_kind}"], digests)
    if plan.head_host and not plan.scales:
        begun = list(plan.worker_hosts[: max(plan.start_workers, plan.minimum_workers)])
        if begun:
            lines += _steps(plan, WORKER, begun, digests)
    else:
        kinds = ", ".join(kind.name for kind in worker_kinds(plan))
        lines.append(f"worker   made by the autoscaler on the head, by the provider {plan.provider}: {kinds}")
    lines += _costs(plan, prices)
    lines += [f"note     {remark}" for remark in plan.remarks]
    return "\n".join(lines)


def _numbers(plan: ClusterPlan) -> str:
    first = max(plan.start_workers, plan.minimum_workers)
    if plan.scales:
        return f"{plan.minimum_workers} to {plan.maximum_workers}, idle ones end after {plan.idle_seconds:g} s"
    return f"{first}" if not plan.worker_hosts else f"{first} of {len(plan.worker_hosts)} machines"


def _steps(plan: ClusterPlan, role: str, machines: list[str], digests: Mapping[str, str]) -> list[str]:
    machine = ClusterMachine(role, "HOST", "~", "HEAD:PORT")
    lines = [f"{role:<8} {', '.join(machines)}"]
    for step in machine_steps(plan, machine, digests):
        title = " ".join(step.title.split())
        lines.append(f"  {step.id:<12} {title if len(title) <= _WIDTH else title[: _WIDTH - 3] + '...'}")
    return lines


def _costs(plan: ClusterPlan, prices: Mapping[str, KindDetails] | str) -> list[str]:
    if isinstance(prices, str):
        return [f"costs    {prices}"]
    lines = []
    head = prices.get(HEAD)
    if head is not None and head.price is not None:
        lines.append(f"costs    the head: {head.price:.2f} an hour")
    for name, one in prices.items():
        if name != HEAD and one.price is not None:
            words = " (spot: it may be taken away)" if one.spot else ""
            lines.append(f"costs    a worker of kind {name}: {one.price:.2f} an hour{words}")
    known = [one.price for name, one in prices.items() if name != HEAD and one.price is not None]
    if known:
        most = (head.price or 0.0 if head is not None else 0.0) + plan.maximum_workers * max(known)
        lines.append(f"costs    at most {most:.2f} an hour, with {plan.maximum_workers} workers")
    return lines or ["costs    not known: the provider names no prices"]
