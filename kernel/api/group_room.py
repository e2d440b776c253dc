"""Check, where a task or actor is submitted, whether its placement group can ever have room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.runtime.group_limits import check_fit
from kernel_spec.errors import OptionError
from kernel_spec.resources import Amounts, amounts


def check_room(name: str, options: Mapping[str, Any], wanted: Amounts) -> None:
    """Raise OptionError when `name`, which wants `wanted`, fits in no bundle that its options let it run in.

    Nobody is asked: of a group whose bundles this process does not know, the session says it later.
    """
    strategy: Any = options.get("scheduling_strategy")
    group = getattr(strategy, "placement_group", None)
    if group is None or group._bundles is None:
        return
    exact = [amounts(bundle) for bundle in group._bundles]
    index = strategy.placement_group_bundle_index
    misfit = check_fit(name, wanted, index, f"placement group '{group.id}'", exact)
    if misfit is not None:
        raise OptionError(str(misfit))
