"""Check at submission whether the placement group of a task or actor can ever have room for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.runtime.group_limits import check_fit
from kernel_spec.errors import OptionError
from kernel_spec.resources import Amounts, amounts


def check_room(name: str, options: Mapping[str, Any], wanted: Amounts) -> None:
    """Raise OptionError when `name`, which needs the resources `wanted`, fits in no bundle that `options` allow.

    A group whose bundles are unknown to this process is not checked here; the session reports a misfit later.
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
