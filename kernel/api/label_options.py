"""Combine the label selectors of tasks and actors with their scheduling strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.runtime.definitions import UNSAID
from kernel_spec.errors import OptionError
from kernel_spec.labels import conditions_of_selector
from kernel_spec.placement import DEFAULT_STRATEGY, NODE_AFFINITY, NODE_LABELS, PLACEMENT_GROUP, SPREAD_STRATEGY


def with_labels(
    strategy: str | Mapping[str, Any],
    selector: Mapping[str, str] | None,
    fallback: Sequence[Mapping[str, Mapping[str, str]]] | None,
) -> dict[str, Any]:
    """Return `strategy` as plain values, restricted to nodes that match `selector`, or a selector of `fallback`.

    Raises OptionError for a strategy that can't be combined with selectors.
    """
    wanted = conditions_of_selector(selector or {})
    choices = [wanted, *(conditions_of_selector(choice["label_selector"]) for choice in fallback or ())]
    labels: dict[str, Any] = {"choices": choices} if fallback else {"hard": wanted}
    if strategy in (UNSAID, DEFAULT_STRATEGY):
        return {"type": NODE_LABELS, **labels}
    if strategy == SPREAD_STRATEGY:
        return {"type": NODE_LABELS, "spread": True, **labels}
    kind = strategy.get("type") if isinstance(strategy, Mapping) else strategy
    if isinstance(strategy, Mapping) and kind == NODE_AFFINITY and not fallback:
        return {**strategy, "labels": wanted}
    if kind == NODE_AFFINITY:
        raise OptionError(
            "fallback_strategy says which nodes may serve; a node affinity names one: give only one of them"
        )
    if kind == PLACEMENT_GROUP:
        raise OptionError(
            "label_selector can't be combined with a placement group, whose bundles are placed already: give the group "
            "bundle_label_selector=[{...}] instead"
        )
    raise OptionError(f"label_selector can't be combined with a {kind} strategy: give all conditions in one of them")
