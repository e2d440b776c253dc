"""Check whether a task or actor can ever run in a placement group."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_spec.errors import InfeasibleError, KernelError, OptionError
from kernel_spec.resources import Amounts, describe


def check_fit(name: str, wanted: Amounts, bundle: int, group: str, bundles: Sequence[Amounts]) -> KernelError | None:
    """Return the error if `name`, which wants `wanted`, can never run in a bundle (-1: any) of a group, else None.

    `group` is the group's name for messages, `bundles` are its bundles by number.
    """
    if bundle >= len(bundles):
        return OptionError(f"{name} can't run in bundle {bundle} of {group}, which has bundles 0 to {len(bundles) - 1}")
    able = bundles if bundle < 0 else bundles[bundle : bundle + 1]
    if any(all(each.get(resource, 0) >= units for resource, units in wanted.items()) for each in able):
        return None
    if bundle < 0:
        lacks = f"no bundle of {group} holds that much: {'; '.join(describe(each) for each in bundles)}"
    else:
        lacks = f"bundle {bundle} of {group} holds only {describe(bundles[bundle])}"
    return InfeasibleError(f"{name} wants {describe(wanted)}, and {lacks}. Ask for less, or for larger bundles")
