"""Placement groups: resources on one or more nodes that are reserved together, all or none."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.api.operations import get
from kernel.api.parameters import check_timeout
from kernel.api.session import ensure_session
from kernel.runtime.current import get_runtime
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.worker_info import current_worker
from kernel_spec.errors import ArgumentError, GetTimeoutError, KernelError, OptionError, PlacementGroupNotFoundError
from kernel_spec.ids import SHORT_ID_BYTES
from kernel_spec.labels import conditions_of_selector
from kernel_spec.nearest import did_you_mean
from kernel_spec.resources import Amounts, amounts
from kernel_spec.scheduling import GROUP_STRATEGIES


class PlacementGroup:
    """A placement group. It can be passed to tasks and actors, and to other programs.

    Its resources are reserved until it is removed, or until the program that made it ends.
    """

    def __init__(self, id: str, bundles: Sequence[Mapping[str, float]] | None = None) -> None:
        self._id = id
        self._bundles = [dict(bundle) for bundle in bundles] if bundles is not None else None
        self._awaited: ObjectRef | None = None

    @property
    def id(self) -> str:
        """The group's id, in hexadecimal."""
        return self._id

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """The resources of each bundle, name to quantity. Raises PlacementGroupNotFoundError for an unknown group."""
        if self._bundles is None:
            rows = get_runtime().query("placement_groups", self._id)
            if not rows:
                raise PlacementGroupNotFoundError(f"placement group {self._id!r} is not known (any more)")
            self._bundles = [rows[0]["bundles"][index] for index in sorted(rows[0]["bundles"])]
        return [dict(bundle) for bundle in self._bundles]

    @property
    def bundle_count(self) -> int:
        """The number of bundles."""
        return len(self.bundle_specs)

    @property
    def is_empty(self) -> bool:
        """Whether the group has no bundles; a group that `placement_group` made has some."""
        return not self.bundle_count

    def ready(self) -> ObjectRef:
        """Return a reference that is ready when all bundles are placed; its value is this group.

        `get` of it raises PlacementGroupRemovedError when the group is removed before that.
        """
        return get_runtime().group_ready(self._id, self)

    def wait(self, timeout_seconds: float | None = 30) -> bool:
        """Wait up to `timeout_seconds` (None: without limit) until all bundles are placed; return whether they are.

        Raises PlacementGroupRemovedError when the group is removed.
        """
        if timeout_seconds is not None:
            check_timeout(timeout_seconds, "timeout_seconds")
        self._awaited = self._awaited or self.ready()
        try:
            get(self._awaited, timeout=timeout_seconds)
        except GetTimeoutError:
            return False
        except KernelError:
            self._awaited = None
            raise
        self._awaited = None
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def __reduce__(self) -> Any:
        return PlacementGroup, (self._id, self._bundles)

    def __repr__(self) -> str:
        return f"PlacementGroup({self._id})"


def placement_group(
    bundles: Sequence[Mapping[str, float]],
    strategy: str = "PACK",
    name: str = "",
    lifetime: str | None = None,
    *,
    bundle_label_selector: Sequence[Mapping[str, str]] | None = None,
    scheduling_hints: Mapping[str, Any] | None = None,
) -> PlacementGroup:
    """Reserve bundles of resources, such as `[{"CPU": 2}, {"GPU": 1}]`, together; return the group at once.

    All bundles are placed at once, when there is room for all of them. `strategy` says where: "PACK" on few nodes,
    "SPREAD" on many, "STRICT_PACK" on a single one, "STRICT_SPREAD" each on a node of its own. A group with a `name` is
    found by `get_placement_group`; with `lifetime="detached"` it outlives the program. `bundle_label_selector` has a
    label selector for each bundle: `[{"zone": "in(a, b)"}, {}]`. `scheduling_hints` are passed to the scheduler plugin.
    Raises OptionError for other values, NameTakenError for a name that is taken.
    """
    wanted = _check_bundles(bundles)
    if strategy not in GROUP_STRATEGIES:
        raise OptionError(f"strategy must be one of {', '.join(GROUP_STRATEGIES)}, not {strategy!r}")
    if not isinstance(name, str):
        raise OptionError(f"name must be a string, not {name!r}")
    if lifetime not in (None, "detached"):
        raise OptionError(f'lifetime must be "detached" or None, not {lifetime!r}')
    labels = _check_selectors(bundle_label_selector, len(wanted)) if bundle_label_selector is not None else ()
    runtime = ensure_session()
    hints = pickle.dumps(dict(scheduling_hints or {}))
    detached = lifetime == "detached"
    id = os.urandom(SHORT_ID_BYTES).hex()
    runtime.query("create_placement_group", id, wanted, strategy, name, runtime.namespace, detached, hints, labels)
    return PlacementGroup(id, bundles)


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Free a group's resources, and end the tasks and actors in it; do nothing for a group that was removed before.

    Its running and waiting tasks fail with PlacementGroupRemovedError, and its actors die.
    """
    get_runtime().query("remove_placement_group", _check_group(placement_group).id)


def get_placement_group(name: str) -> PlacementGroup:
    """Return the group called `name` in this namespace. Raises PlacementGroupNotFoundError when there is none."""
    if not isinstance(name, str) or not name:
        raise OptionError(f"a placement group is found by its name, a string that is not empty, not {name!r}")
    runtime = ensure_session()
    row = runtime.query("find_placement_group", name, runtime.namespace)
    if row is None:
        raise PlacementGroupNotFoundError(
            f"no placement group named {name!r} is in namespace {runtime.namespace!r}{_near_groups(name)}"
        )
    return PlacementGroup(row["placement_group_id"], [row["bundles"][index] for index in sorted(row["bundles"])])


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the rows of all groups by id, or the row of one: name, strategy, state, bundles and their nodes.

    The state is PENDING, CREATED, RESCHEDULING (a node with some of its bundles was lost) or REMOVED. Raises
    PlacementGroupNotFoundError for an unknown group, or one that was removed long ago.
    """
    if placement_group is None:
        runtime = ensure_session()
        return {row["placement_group_id"]: row for row in runtime.query("placement_groups")}
    rows = get_runtime().query("placement_groups", _check_group(placement_group).id)
    if not rows:
        raise PlacementGroupNotFoundError(f"placement group {placement_group.id!r} is not known (any more)")
    return dict(rows[0])


def get_current_placement_group() -> PlacementGroup | None:
    """Return the group in which the calling task or actor runs, or None outside of groups."""
    group = current_worker().group
    return PlacementGroup(group["group"]) if group is not None else None


def _check_bundles(bundles: Any) -> list[Amounts]:
    if isinstance(bundles, (str, bytes, Mapping)) or not isinstance(bundles, Sequence) or not bundles:
        raise OptionError(f'bundles must be a list of one or more, such as [{{"CPU": 1}}], not {bundles!r}')
    return [_check_bundle(index, bundle) for index, bundle in enumerate(bundles)]


def _check_bundle(index: int, bundle: Any) -> Amounts:
    if not isinstance(bundle, Mapping) or not all(isinstance(name, str) and name for name in bundle):
        raise OptionError(f"bundle {index} must map names of resources to quantities, not {bundle!r}")
    try:
        wanted = amounts(bundle)
    except TypeError:
        raise OptionError(f"bundle {index} is {bundle!r}: a quantity of a resource must be a number") from None
    except ValueError as error:
        raise OptionError(f"bundle {index} is {bundle!r}: {error}") from None
    if not wanted:
        raise OptionError(f"bundle {index} is {bundle!r}: it must reserve something")
    return wanted


def _check_selectors(selectors: Any, count: int) -> list[dict[str, Any]]:
    if isinstance(selectors, (str, Mapping)) or not isinstance(selectors, Sequence) or len(selectors) != count:
        raise OptionError(
            f"bundle_label_selector must be a list with a label selector for each of the {count} bundles (or {{}}), "
            f"not {selectors!r}"
        )
    try:
        return [conditions_of_selector(selector) for selector in selectors]
    except ValueError as error:
        raise OptionError(f"bundle_label_selector: {error}") from None


def _check_group(group: Any) -> PlacementGroup:
    if not isinstance(group, PlacementGroup):
        raise ArgumentError(f"this takes a PlacementGroup, not a {type(group).__name__}")
    return group


def _near_groups(name: str) -> str:
    rows = [row for row in get_runtime().query("placement_groups") if row["name"] and row["state"] != "REMOVED"]
    here = get_runtime().namespace
    elsewhere = [row["namespace"] for row in rows if row["name"] == name]
    if elsewhere:
        return f"; one of that name is in namespace {elsewhere[0]!r}"
    return did_you_mean(name, [row["name"] for row in rows if row["namespace"] == here])
