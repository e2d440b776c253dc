"""Networks that share no parameters, and so can be computed at the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.ops import Network, Ops
from kernel_rllib.nn.threads import call_all


def parts_of(names: Sequence[str], params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each of the networks `names` its parameters: those below its name.

    Raises ModuleError where one has none, or where a parameter is below two names.
    """
    parts = [{name: value for name, value in params.items() if name.startswith(f"{prefix}/")} for prefix in names]
    if not all(parts) or len(set().union(*parts)) != sum(map(len, parts)):
        raise ModuleError(
            f"the networks {', '.join(names)} were to be computed side by side: each must have parameters below its "
            f"name that no other has, and there are {', '.join(params) or 'none'}"
        )
    return parts


def products(parts: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many products of numbers a row takes in the smallest of networks: one for each parameter."""
    sizes = [sum(int(math.prod(value.shape)) for value in part.values()) for part in parts]
    return min(sizes)


def computed(nn: Ops, networks: Mapping[str, Network], params: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Return the results of networks of which no gradient is asked for; see `Ops.side_by_side`."""
    parts = parts_of(tuple(networks), params)
    results: list[Any] = [None] * len(parts)

    def compute(k: int, network: Network) -> None:
        results[k] = network(nn, parts[k], *inputs)

    calls = [lambda k=k, network=network: compute(k, network) for k, network in enumerate(networks.values())]
    call_all(calls, products(parts) * len(inputs[0]))  # type: ignore[arg-type]
    return results
