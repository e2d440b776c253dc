"""Accounts: what each holds, its dominant share, its quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from kernel_scheduler_fair.policy import Policy
from kernel_spec.ids import JobId, NodeId
from kernel_spec.resources import Amounts

FORGET_AT = 256
"""How many accounts there are at least before those that are not used any more are forgotten."""
ACCOUNT_HINT, PRIORITY_HINT, WEIGHT_HINT = "account", "priority", "weight"


def account_name(job: JobId, hints: Mapping[str, Any]) -> str:
    """Return which account pays: the one that the hint `account` names, else the job's own."""
    named = hints.get(ACCOUNT_HINT)
    return named if isinstance(named, str) and named else f"job {job.hex()}"


def priority_of(hints: Mapping[str, Any]) -> float:
    """Return the hint `priority`; what is no number counts as 0."""
    return _number(hints.get(PRIORITY_HINT), 0.0)


def _number(value: Any, otherwise: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    return float(value) if is_number else otherwise


def _add(used: Amounts, held: Mapping[str, int], sign: int) -> None:
    for name, units in held.items():
        used[name] = used.get(name, 0) + sign * units


class Account:
    """The resources that one account holds, in exact units, and its entitlement: `weight` and `quota`."""

    def __init__(self, name: str, weight: float, quota: Amounts) -> None:
        self.name = name
        self.weight = weight
        self.quota = quota
        self.used: Amounts = {}

    def allows(self, wanted: Mapping[str, int]) -> bool:
        """Return whether the quota leaves room for `wanted` now."""
        used = self.used
        return all(used.get(name, 0) + wanted[name] <= most for name, most in self.quota.items() if name in wanted)

    def ever_allows(self, wanted: Mapping[str, int]) -> bool:
        """Return whether the quota would leave room for `wanted` if nothing else was held."""
        return all(wanted.get(name, 0) <= most for name, most in self.quota.items())


class Accounts:
    """All accounts, by name, and what the nodes have together.

    An account's dominant share is the largest of its shares of any resource, divided by its weight: equal weights with
    equal shares are fair, whatever they want.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.totals: Counter[str] = Counter()
        """The resources of all nodes together."""
        self._accounts: dict[str, Account] = {}
        self._charges: dict[Hashable, tuple[Account, Amounts]] = {}
        self._forget_at = FORGET_AT
        self._node_totals: dict[NodeId, Amounts] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, job: JobId, hints: Mapping[str, Any]) -> Account:
        """Return the account of a request. The hint `weight` counts where the policy does not name the account."""
        name = account_name(job, hints)
        account = self._accounts.get(name)
        if account is None:
            entitled = self.policy.of(name)
            account = self._accounts[name] = Account(name, entitled.weight, entitled.quota)
        if WEIGHT_HINT in hints and name not in self.policy.accounts:
            weight = _number(hints[WEIGHT_HINT], 0.0)
            account.weight = weight if weight > 0 else account.weight
        return account

    @property
    def are_many(self) -> bool:
        """Whether there are so many accounts that unused ones should be forgotten."""
        return len(self._accounts) >= self._forget_at

    def forget_idle(self, in_use: Iterable[Account]) -> None:
        """Forget accounts that are not `in_use` and hold nothing."""
        kept = {account.name for account in in_use} | {account.name for account, _ in self._charges.values()}
        self._accounts = {name: account for name, account in self._accounts.items() if name in kept}
        self._forget_at = 2 * len(self._accounts) + FORGET_AT

    def set_node(self, node: NodeId, total: Mapping[str, int]) -> None:
        """Count a node's totals (nothing when it is gone)."""
        before = self._node_totals.get(node, {})
        if total == before:
            return
        self.totals.subtract(before)
        self.totals.update(total)
        self._node_totals[node] = dict(total)
        if not total:
            del self._node_totals[node]

    def charge(self, what: Hashable, account: Account, held: Mapping[str, int]) -> None:
        """Count `held` for `what` (a lease, a group) instead of what was counted for it before."""
        self.discharge(what)
        if held:
            _add(account.used, held, 1)
            self._charges[what] = account, dict(held)

    def discharge(self, what: Hashable) -> Account | None:
        """Count nothing for `what` any more, and return who was charged for it."""
        charged = self._charges.pop(what, None)
        if charged is None:
            return None
        _add(charged[0].used, charged[1], -1)
        return charged[0]

    def share(self, account: Account, more: Mapping[str, int] | None = None) -> float:
        """Return an account's weighted dominant share (0: nothing), as it would be with `more` besides."""
        most = 0.0
        used = account.used
        for name in used if more is None else used.keys() | more.keys():
            total = self.totals[name]
            if total > 0:
                held = used.get(name, 0) + (more.get(name, 0) if more is not None else 0)
                most = max(most, held / total)
        return most / account.weight

    def validate(self, expected: Mapping[Hashable, Amounts]) -> None:
        """Raise AssertionError when what is counted is not `expected`."""
        counted = {what: held for what, (_, held) in self._charges.items()}
        assert counted == expected, f"counted {counted}, held {dict(expected)}"
        for account in self._accounts.values():
            used: Counter[str] = Counter()
            for owner, held in self._charges.values():
                if owner is account:
                    used.update(held)
            noted = {name: units for name, units in account.used.items() if units}
            assert noted == +used, f"{account.name} holds {dict(+used)}, counted {noted}"
