"""kernel: ordinary Python functions and classes on many cores and many machines.

The kernel itself does little: it is the public API (`kernel.api`), the border to an engine (`kernel.runtime`), and what
finds plugins (`kernel.plugins`), with a simple back end for each contract (`kernel.defaults`). An engine runs tasks and
actors and keeps objects: `kernel_processes` in many processes, `kernel_local_mode` in this one. Which worker a task
gets, where large objects live, how values become bytes, what devices there are: plugins decide, behind the contracts in
`kernel_spec`. Libraries are mounted under this name (`from kernel import tune`).

Where to read next: `kernel/api/` for what is exported here, docs/index.md for the map of the house.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from kernel import mounts as _mounts
from kernel.api import display_hooks as _display_hooks
from kernel_spec.version import __version__

if _TYPE_CHECKING:
    from kernel import exceptions as exceptions
    from kernel import metrics as metrics
    from kernel.api.actor import ActorClass, ActorHandle, ActorMethod, exit_actor, method
    from kernel.api.context import RuntimeContext, get_gpu_ids, get_resource_ids, get_runtime_context
    from kernel.api.generators import ObjectRefGenerator
    from kernel.api.key_value import KeyValue
    from kernel.api.listings import get_state, list_state, summarize_state
    from kernel.api.operations import cancel, get, get_actor, kill, list_named_actors, put, remote, wait
    from kernel.api.placement_groups import (
        PlacementGroup,
        get_current_placement_group,
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from kernel.api.references import collect_references
    from kernel.api.remote_function import RemoteFunction
    from kernel.api.runtime_env import pack_runtime_env
    from kernel.api.serializers import deregister_serializer, register_serializer
    from kernel.api.session import init, is_initialized, shutdown
    from kernel.api.state import (
        actors,
        available_resources,
        cluster_resources,
        demand,
        drain_node,
        errors,
        explain,
        make_node_provider,
        nodes,
        profile,
        request_resources,
        set_resource,
        set_title,
        timeline,
        wait_for_demand,
    )
    from kernel.api.strategies import (
        NodeAffinitySchedulingStrategy,
        NodeLabelSchedulingStrategy,
        PlacementGroupSchedulingStrategy,
    )
    from kernel.runtime.object_ref import ObjectRef
    from kernel.runtime.streams import DynamicReturns
    from kernel_engine.serialization.unpicklable_parts import UnpicklablePart, unpicklable_parts

_HOMES = {
    "actor": ("ActorClass", "ActorHandle", "ActorMethod", "exit_actor", "method"),
    "context": ("RuntimeContext", "get_gpu_ids", "get_resource_ids", "get_runtime_context"),
    "generators": ("ObjectRefGenerator",),
    "key_value": ("KeyValue",),
    "listings": ("get_state", "list_state", "summarize_state"),
    "operations": ("cancel", "get", "get_actor", "kill", "list_named_actors", "put", "remote", "wait"),
    "placement_groups": (
        "PlacementGroup", "get_current_placement_group", "get_placement_group", "placement_group",
        "placement_group_table", "remove_placement_group",
    ),
    "references": ("collect_references",),
    "remote_function": ("RemoteFunction",),
    "runtime_env": ("pack_runtime_env",),
    "serializers": ("deregister_serializer", "register_serializer"),
    "session": ("init", "is_initialized", "shutdown"),
    "state": (
        "actors", "available_resources", "cluster_resources", "demand", "drain_node", "errors", "explain",
        "make_node_provider", "nodes", "profile", "request_resources", "set_resource", "set_title", "timeline",
        "wait_for_demand",
    ),
    "strategies": ("NodeAffinitySchedulingStrategy", "NodeLabelSchedulingStrategy", "PlacementGroupSchedulingStrategy"),
}  # fmt: skip
_MODULES = {name: f"kernel.api.{home}" for home, names in _HOMES.items() for name in names}
_MODULES |= {
    "DynamicReturns": "kernel.runtime.streams",
    "ObjectRef": "kernel.runtime.object_ref",
    "UnpicklablePart": "kernel_engine.serialization.unpicklable_parts",
    "unpicklable_parts": "kernel_engine.serialization.unpicklable_parts",
}

__all__ = [
    "ActorClass",
    "ActorHandle",
    "ActorMethod",
    "DynamicReturns",
    "KeyValue",
    "NodeAffinitySchedulingStrategy",
    "NodeLabelSchedulingStrategy",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroup",
    "PlacementGroupSchedulingStrategy",
    "RemoteFunction",
    "RuntimeContext",
    "UnpicklablePart",
    "__version__",
    "actors",
    "available_resources",
    "cancel",
    "cluster_resources",
    "collect_references",
    "demand",
    "deregister_serializer",
    "drain_node",
    "errors",
    "exceptions",
    "exit_actor",
    "explain",
    "get",
    "get_actor",
    "get_current_placement_group",
    "get_gpu_ids",
    "get_placement_group",
    "get_resource_ids",
    "get_runtime_context",
    "get_state",
    "init",
    "is_initialized",
    "kill",
    "list_named_actors",
    "list_state",
    "make_node_provider",
    "method",
    "metrics",
    "nodes",
    "pack_runtime_env",
    "placement_group",
    "placement_group_table",
    "profile",
    "put",
    "register_serializer",
    "remote",
    "remove_placement_group",
    "request_resources",
    "set_resource",
    "set_title",
    "shutdown",
    "summarize_state",
    "timeline",
    "unpicklable_parts",
    "wait",
    "wait_for_demand",
]

_mounts.install()
_display_hooks.install()


def __getattr__(name: str) -> _Any:
    """Import what is exported here when it is first used: `import kernel` itself costs a few milliseconds."""
    import importlib

    if name in ("exceptions", "metrics"):
        return importlib.import_module(f"kernel.{name}")
    module = _MODULES.get(name)
    if module is None:
        return _mounts.load(name)
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
