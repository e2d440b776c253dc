"""The settings: weights and quotas of accounts, and how long the scheduler waits before it asks for leases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.resources import Amounts, to_units

WHERE = "the options of the scheduler 'fair'"


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """The entitlement of one account.

    Among those who want more, it gets in proportion to `weight`. It never holds more than `quota`, in exact units;
    what is not in it has no cap.
    """

    weight: float = 1.0
    quota: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it. Accounts that are not named have `default`.

    A request that has waited is asked for after `reclaim_seconds`; what was asked back for a request of higher priority
    and has not come after `preempt_seconds` more is preempted where it may be. Waiting adds one to a priority every
    `ageing_seconds` (0: never).
    """

    accounts: Mapping[str, AccountPolicy] = field(default_factory=dict)
    default: AccountPolicy = field(default_factory=AccountPolicy)
    reclaim_seconds: float = 0.1
    preempt_seconds: float = 1.0
    ageing_seconds: float = 300.0

    def of(self, account: str) -> AccountPolicy:
        """Return what an account is entitled to."""
        return self.accounts.get(account, self.default)


def parse_accounts(accounts: Mapping[str, Any]) -> dict[str, AccountPolicy]:
    """Return account name to what it is entitled to, from tables with `weight` and `quota` (plain quantities).

    Raises OptionError, naming the account and the key, for what is neither.
    """
    found = {}
    for name, row in accounts.items():
        where = f"accounts.{name}"
        if not isinstance(row, Mapping) or not row.keys() <= {"weight", "quota"}:
            raise OptionError(f"{WHERE}: {where} must be a table with weight, quota or both, not {row!r}")
        found[name] = parse_account(row.get("weight", 1.0), row.get("quota", {}), where)
    return found


def parse_account(weight: Any, quota: Any, where: str) -> AccountPolicy:
    """Return what an account is entitled to; `where` names it. Raises OptionError for a bad weight or quota."""
    if not _number(weight, f"{where}: weight"):
        raise OptionError(f"{WHERE}: {where}: weight must be above zero; to keep somebody out, set a quota of zero")
    if not isinstance(quota, Mapping):
        raise OptionError(f"{WHERE}: {where}: quota must be a table of names and quantities, not {quota!r}")
    most = {name: to_units(_number(quantity, f"{where}: quota of {name}")) for name, quantity in quota.items()}
    return AccountPolicy(float(weight), most)


def parse_seconds(name: str, seconds: float) -> float:
    """Return a time to wait. Raises OptionError when it is negative or no number."""
    return _number(seconds, name, most=math.inf)


def _number(value: Any, where: str, most: float = 1e15) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise OptionError(f"{WHERE}: {where} must be a number, zero or more, not {value!r}")
    return float(value)
