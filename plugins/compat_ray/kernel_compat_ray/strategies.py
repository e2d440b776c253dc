"""Scheduling strategies, with the words that Ray has for conditions on labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kernel
from kernel_compat_ray.deprecation import warn_ignored
from kernel_compat_ray.labels import to_kernel
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError


class In:
    """The label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.condition: Any = {"in": _listed("In", values)}


class NotIn:
    """A condition: the label has none of these values."""

    def __init__(self, *values: str) -> None:
        self.condition: Any = {"not_in": _listed("NotIn", values)}


class Exists:
    """The label is there."""

    condition: Any = {"exists": True}  # noqa: RUF012  (never changed)


class DoesNotExist:
    """The label is not there."""

    condition: Any = {"exists": False}  # noqa: RUF012  (never changed)


@dataclass(frozen=True)
class NodeLabelSchedulingStrategy(kernel.NodeLabelSchedulingStrategy):
    """Run on nodes on whose labels the conditions hold: `hard={"zone": In("a", "b")}`."""

    def __init__(self, hard: Mapping[str, Any] | None = None, *, soft: Mapping[str, Any] | None = None) -> None:
        super().__init__(_plain("hard", hard), _plain("soft", soft))


@dataclass(frozen=True)
class NodeAffinitySchedulingStrategy(kernel.NodeAffinitySchedulingStrategy):
    """Run on the node with id `node_id`; with `soft` another will do when that one can't."""

    def __init__(
        self, node_id: str, soft: bool, _spill_on_unavailable: bool = False, _fail_on_unavailable: bool = False
    ) -> None:
        for name, value in (
            ("_spill_on_unavailable", _spill_on_unavailable),
            ("_fail_on_unavailable", _fail_on_unavailable),
        ):
            if value:
                warn_ignored(
                    f"NodeAffinitySchedulingStrategy({name}=True)", "who finds no room on the node waits for it"
                )
        super().__init__(node_id, soft)


def _listed(name: str, values: tuple[str, ...]) -> list[str]:
    if not values or not all(isinstance(value, str) for value in values):
        raise OptionError(f'{name} takes one or more strings, such as {name}("a", "b"), not {values!r}')
    return list(values)


def _plain(name: str, conditions: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not conditions:
        return None
    if not isinstance(conditions, Mapping):
        raise OptionError(f'{name} must map labels to conditions, such as {{"zone": In("a")}}, not {conditions!r}')
    for label, condition in conditions.items():
        if not isinstance(condition, (In, NotIn, Exists, DoesNotExist)):
            raise OptionError(
                f"{name}[{label!r}] must be In(...), NotIn(...), Exists() or DoesNotExist(), not {condition!r}"
            )
    return to_kernel({label: condition.condition for label, condition in conditions.items()})
