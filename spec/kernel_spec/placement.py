"""The meaning of scheduling strategies: where a request may go, and its preferences.

Users give `scheduling_strategy=`, and all schedulers interpret it by this module:

- `"DEFAULT"`: the node with most bytes of the arguments if it fits there at once; else the node it comes from, while
  that is less than half full; else the first node that is less than half full; else the least full one. What wants no
  device (GPU) goes to nodes without devices before it goes to others.
- `"SPREAD"`: the least full node.
- `{"type": "node_affinity", "node": hex, "soft": bool, "labels": {...}}`: that node, if the conditions on labels hold
  there. Soft: another when it is gone, about to leave, or could never hold the request.
- `{"type": "node_labels", "hard": {...}, "soft": {...}, "choices": [{...}, ...], "spread": bool}`: nodes on which all
  hard conditions hold, and those of at least one of the choices, if there are any. Before all others come those of the
  first choice that has room, and those on which the soft conditions hold too; among them as by default, or with
  `spread` the least full one.

A condition is a label's name with what its value must be: `"a"`, `["a", "b"]`, `{"in": ["a", "b"]}`, `{"not_in":
["a"]}` (also without that label) or `{"exists": True}`; several in one mapping must all hold. `{"type":
"placement_group", ...}` names a bundle (see `bundle_of`). A type that is not known here means "DEFAULT", so that
schedulers can have words of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import SHORT_ID_BYTES, GroupId, NodeId
from kernel_spec.resources import CPU, MEMORY, OBJECT_STORE_MEMORY, ResourcePool

DEFAULT_STRATEGY = "DEFAULT"
SPREAD_STRATEGY = "SPREAD"
NODE_AFFINITY = "node_affinity"
NODE_LABELS = "node_labels"
PLACEMENT_GROUP = "placement_group"

PACK_BELOW = 0.5
"""Nodes below this load are filled one after the other; above it the least full one is taken."""
LOAD_RESOURCES = (CPU, MEMORY, OBJECT_STORE_MEMORY)
"""Resources that count for a node's load. Custom resources and devices do not: a GPU in use bars no CPU."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one label. `among` None: any value; `exists` None: it may be missing if `among` is None."""

    label: str
    among: frozenset[str] | None = None
    outside: frozenset[str] = frozenset()
    exists: bool | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with `labels` fulfils the condition."""
        value = labels.get(self.label)
        if value is None:
            return self.among is None and self.exists is not True
        return self.exists is not False and (self.among is None or value in self.among) and value not in self.outside

    def __str__(self) -> str:
        parts = []
        if self.among is not None:
            parts.append(f"{self.label} in ({', '.join(sorted(self.among))})")
        if self.outside:
            parts.append(f"{self.label} not in ({', '.join(sorted(self.outside))})")
        if self.exists is not None:
            parts.append(f"{'a' if self.exists else 'no'} label {self.label}")
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Placement:
    """A parsed strategy. `node` and `soft` are an affinity, `hard` and `wishes` conditions on labels.

    With `choices`, all conditions of one of them must hold too; earlier choices are preferred. `problem` says why a
    strategy is invalid; then no node is allowed.
    """

    spread: bool = False
    node: NodeId | None = None
    soft: bool = False
    hard: tuple[Condition, ...] = ()
    wishes: tuple[Condition, ...] = ()
    problem: str = ""
    choices: tuple[tuple[Condition, ...], ...] = ()

    def suits(self, labels: Mapping[str, str]) -> bool:
        """Return whether the hard conditions hold on a node with `labels`."""
        return not self.problem and all_hold(self.hard, labels) and self.choice(labels) is not None

    def choice(self, labels: Mapping[str, str]) -> int | None:
        """Return the number of the first choice that holds on a node with `labels`; None when none does."""
        if not self.choices:
            return 0
        return next((number for number, choice in enumerate(self.choices) if all_hold(choice, labels)), None)

    def alternatives(self) -> Sequence[tuple[Condition, ...]]:
        """Return the conditions that must hold, once for each choice, in order."""
        return [(*self.hard, *choice) for choice in self.choices] if self.choices else [self.hard]

    @property
    def wanted_labels(self) -> str:
        """The required conditions as text; "" if there are none."""
        texts = [" and ".join(map(str, conditions)) for conditions in self.alternatives()]
        return ", or ".join(text or "any labels" for text in texts) if any(texts) else ""


DEFAULT = Placement()
SPREAD = Placement(spread=True)


def placement_of(strategy: str | Mapping[str, Any]) -> Placement:
    """Parse a strategy. Does not raise: an invalid strategy gives a placement with a `problem`."""
    if isinstance(strategy, str):
        return SPREAD if strategy == SPREAD_STRATEGY else DEFAULT
    try:
        return check_strategy(strategy)
    except ValueError as error:
        return Placement(problem=str(error))


def check_strategy(strategy: Mapping[str, Any]) -> Placement:
    """Parse a strategy object. Raises ValueError, which says what is wrong with it."""
    kind = strategy.get("type")
    if kind == NODE_AFFINITY:
        _refuse_others(strategy, ("node", "soft", "labels"))
        node, soft = _node(strategy.get("node")), bool(strategy.get("soft", False))
        return Placement(node=node, soft=soft, hard=conditions(strategy.get("labels")))
    if kind == NODE_LABELS:
        _refuse_others(strategy, ("hard", "soft", "choices", "spread"))
        return Placement(
            spread=bool(strategy.get("spread", False)),
            hard=conditions(strategy.get("hard")),
            wishes=conditions(strategy.get("soft")),
            choices=_choices(strategy.get("choices") or ()),
        )
    if kind == PLACEMENT_GROUP:
        bundle_of(strategy)
    return DEFAULT


def conditions(given: Mapping[str, Any] | None) -> tuple[Condition, ...]:
    """Parse conditions on labels as users write them. Raises ValueError for invalid ones."""
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(isinstance(label, str) for label in given):
        raise ValueError(f"conditions on labels must be a mapping of label to value, not {given!r}")
    return tuple(_condition(label, given[label]) for label in sorted(given))


def _choices(given: Any) -> tuple[tuple[Condition, ...], ...]:
    if not isinstance(given, (list, tuple)):
        raise ValueError(f"choices among labels must be a list of mappings of label to value, not {given!r}")
    return tuple(conditions(choice) for choice in given)


def bundle_of(strategy: str | Mapping[str, Any]) -> tuple[GroupId, int] | None:
    """Return group and bundle number (-1: any) of `{"type": "placement_group", "group": hex, "bundle": int}`.

    None for any other strategy. Raises ValueError when either is malformed.
    """
    if isinstance(strategy, str) or strategy.get("type") != PLACEMENT_GROUP:
        return None
    _refuse_others(strategy, ("group", "bundle", "capture_child_tasks"))
    bundle = strategy.get("bundle", -1)
    if not isinstance(bundle, int) or isinstance(bundle, bool) or bundle < -1:
        raise ValueError(f"a bundle is given by its number, or -1 for any, not {bundle!r}")
    return GroupId(_id(strategy.get("group"), "group")), bundle


def all_hold(wanted: Iterable[Condition], labels: Mapping[str, str]) -> bool:
    """Return whether all conditions hold on a node with `labels`."""
    return all(condition.holds(labels) for condition in wanted)


def load(pool: ResourcePool) -> float:
    """Return how full a node is: the used share of the scarcest of `LOAD_RESOURCES` (over 1 when overcommitted)."""
    most = 0.0
    for name in LOAD_RESOURCES:
        units = pool.total.get(name)
        if units:
            most = max(most, 1 - pool.available.get(name, 0) / units)
    return most


def has_devices(pool: ResourcePool) -> bool:
    """Return whether a node has devices, which requests without devices should avoid."""
    return any(name in pool.total for name in pool.device_resources)


def _condition(label: str, given: Any) -> Condition:
    if isinstance(given, str):
        return Condition(label, frozenset((given,)))
    if not isinstance(given, Mapping):
        return Condition(label, _values(label, given))
    unknown = given.keys() - {"in", "not_in", "exists"}
    if unknown or not given:
        raise ValueError(f'label {label!r}: a condition has "in", "not_in" or "exists", not {dict(given)!r}')
    exists = given.get("exists")
    if exists not in (None, True, False):
        raise ValueError(f'label {label!r}: "exists" must be True or False, not {exists!r}')
    among = _values(label, given["in"]) if "in" in given else None
    return Condition(label, among, _values(label, given.get("not_in", ())), exists)


def _values(label: str, given: Any) -> frozenset[str]:
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(value, str) for value in given):
        raise ValueError(f"label {label!r}: values must be a string or a list of strings, not {given!r}")
    return frozenset(given)


def _node(given: Any) -> NodeId:
    return NodeId(_id(given, "node"))


def _id(given: Any, what: str) -> bytes:
    try:
        id = bytes.fromhex(given)
    except (TypeError, ValueError):
        id = b""
    if len(id) != SHORT_ID_BYTES:
        raise ValueError(f"a {what} is given by its id, {2 * SHORT_ID_BYTES} hexadecimal digits, not {given!r}")
    return id


def _refuse_others(strategy: Mapping[str, Any], known: tuple[str, ...]) -> None:
    others = sorted(str(key) for key in strategy.keys() - {"type", *known})
    if others:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"a {strategy['type']} strategy has {names}, not {', '.join(others)}")
