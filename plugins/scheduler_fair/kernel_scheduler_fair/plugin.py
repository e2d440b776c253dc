"""The hooks of this distribution. The scheduler is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kernel_spec.hooks import hookimpl
from kernel_spec.scheduling import Scheduler

NONE: Mapping[str, Any] = MappingProxyType({})


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers() -> Mapping[str, Callable[[], Scheduler]]:
    """Offer the scheduler `fair`."""
    return {"fair": make_scheduler}


def make_scheduler(
    *,
    accounts: Mapping[str, Any] = NONE,
    default_weight: float = 1.0,
    default_quota: Mapping[str, Any] = NONE,
    reclaim_seconds: float = 0.1,
    preempt_seconds: float = 1.0,
    ageing_seconds: float = 300.0,
) -> Scheduler:
    """Return a scheduler with this policy (see `Policy`).

    `accounts` maps names to tables with `weight` and `quota` (plain quantities), others have `default_weight` and
    `default_quota`. Raises OptionError, naming the option, for what makes no sense.
    """
    from kernel_scheduler_fair.policy import Policy, parse_account, parse_accounts, parse_seconds
    from kernel_scheduler_fair.scheduler import FairScheduler

    policy = Policy(
        parse_accounts(accounts),
        parse_account(default_weight, default_quota, "default"),
        parse_seconds("reclaim_seconds", reclaim_seconds),
        parse_seconds("preempt_seconds", preempt_seconds),
        parse_seconds("ageing_seconds", ageing_seconds),
    )
    return FairScheduler(policy)
