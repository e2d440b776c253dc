"""The table: what every name of Ray becomes. Data only; `facade` reads it, docs/migrating.md is written from it.

A target is `package.module:attribute`; `.module:attribute` is in this package. Every key of `NAMES` is a module that
can be imported under its name of Ray.
"""

from __future__ import annotations

from kernel_compat_ray.constant_names import CONSTANTS as PLAIN
from kernel_compat_ray.refused_names import MODULES_REFUSED, REFUSED
from kernel_compat_ray.rllib_names import RLLIB_CONSTANTS, RLLIB_NAMES, RLLIB_RENAMED
from kernel_compat_ray.serve.names import SERVE_NAMES
from kernel_compat_ray.tune.names import TUNE_MODULES_RENAMED, TUNE_NAMES, TUNE_RENAMED

__all__ = [
    "CONSTANTS", "HOST", "LIBRARIES", "MODULES_REFUSED", "MODULES_RENAMED", "NAMES", "REFUSED", "RENAMED", "VERSION",
]  # fmt: skip

HOST = "ray"
VERSION = "2.60.0"
"""The release of Ray that has these names; older names are in `RENAMED`."""

LIBRARIES: dict[str, str] = {
    "ray.tune": "tune",
    "ray.rllib": "rllib",
    "ray.serve": "serve",
    "ray.data": "data",
    "ray.train": "train",
    "ray.dashboard": "dashboard",
    "ray.job_submission": "jobs",
}
"""Packages that are libraries of kernel, each with its mount: all modules below the one are modules below the other."""

_IDS = (
    "ActorClassID", "ActorID", "FunctionID", "JobID", "NodeID", "PlacementGroupID", "TaskID", "UniqueID", "WorkerID",
)  # fmt: skip
_ERRORS = (
    "ActorAlreadyExistsError", "ActorDiedError", "ActorHandleNotFoundError", "ActorUnavailableError",
    "AsyncioActorExit", "CrossLanguageError", "GetTimeoutError", "LocalRayletDiedError", "NodeDiedError",
    "OufOfBandObjectRefSerializationException",
    "ObjectFetchTimedOutError", "ObjectFreedError", "ObjectLostError", "ObjectRefStreamEndOfStreamError",
    "ObjectStoreFullError", "OutOfDiskError", "OutOfMemoryError", "OwnerDiedError", "PendingCallsLimitExceeded",
    "PlasmaObjectNotAvailable", "RayActorError", "RayCgraphCapacityExceeded", "RayChannelError",
    "RayChannelTimeoutError", "RayDirectTransportError", "RayError", "RaySystemError", "RayTaskError",
    "ReferenceCountingAssertionError", "RpcError", "RuntimeEnvSetupError",
    "StreamingGeneratorReplayInconsistentError", "TaskCancelledError", "TaskPlacementGroupRemoved",
    "TaskUnschedulableError", "UnserializableException", "UserCodeException", "WorkerCrashedError",
)  # fmt: skip
_GRAPHS = {
    "class_node": ("ClassMethodNode", "ClassNode"),
    "dag_node": ("DAGNode",),
    "function_node": ("FunctionNode",),
    "input_node": ("InputAttributeNode", "InputNode"),
    "output_node": ("MultiOutputNode",),
}
_RECONSTRUCTION = (
    "ObjectReconstructionFailedError", "ObjectReconstructionFailedLineageEvictedError",
    "ObjectReconstructionFailedMaxAttemptsExceededError",
)  # fmt: skip

NAMES: dict[str, dict[str, str]] = {
    **RLLIB_NAMES,
    **SERVE_NAMES,
    **TUNE_NAMES,
    "ray": {
        **{name: f".ids:{name}" for name in _IDS},
        "ClientBuilder": ".clients:ClientBuilder",
        "DynamicObjectRefGenerator": "kernel:DynamicReturns",
        "ObjectRef": "kernel:ObjectRef",
        "ObjectRefGenerator": "kernel:ObjectRefGenerator",
        "available_resources": ".state:available_resources",
        "cancel": ".calls:cancel",
        "client": ".clients:client",
        "cluster_resources": ".state:cluster_resources",
        "get": ".calls:get",
        "get_actor": ".calls:get_actor",
        "get_gpu_ids": "kernel:get_gpu_ids",
        "get_runtime_context": ".context:get_runtime_context",
        "init": ".session:init",
        "is_initialized": "kernel:is_initialized",
        "kill": ".calls:kill",
        "method": ".actors:method",
        "nodes": ".state:nodes",
        "put": ".calls:put",
        "remote": ".decorator:remote",
        "shutdown": ".session:shutdown",
        "timeline": "kernel:timeline",
        "wait": ".calls:wait",
        # Kept from releases before 2, where no present name has replaced them.
        "error_info": ".failures:errors",
        "errors": ".failures:errors",
        "get_dashboard_url": ".session:get_dashboard_url",
        "get_resource_ids": "kernel:get_resource_ids",
        "profile": "kernel:profile",
        "show_in_dashboard": ".state:show_in_dashboard",
    },
    "ray.actor": {
        "ActorClass": ".actors:ActorClass",
        "ActorClassInheritanceException": ".errors:ActorClassInheritanceException",
        "ActorHandle": "kernel:ActorHandle",
        "ActorMethod": "kernel:ActorMethod",
        "ActorProxy": "kernel:ActorHandle",
        "exit_actor": "kernel:exit_actor",
        "method": ".actors:method",
    },
    "ray.autoscaler": {},
    "ray.autoscaler.sdk": {"request_resources": ".resource_requests:request_resources"},
    "ray.client_builder": {
        "ClientBuilder": ".clients:ClientBuilder",
        "ClientContext": ".session:Context",
        "client": ".clients:client",
    },
    "ray.cloudpickle": {
        "CloudPickler": "cloudpickle:CloudPickler",
        "Pickler": "cloudpickle:Pickler",
        "dump": "cloudpickle:dump",
        "dump_debug": ".pickling:dump_debug",
        "dumps": "cloudpickle:dumps",
        "dumps_debug": ".pickling:dumps_debug",
        "load": "cloudpickle:load",
        "loads": "cloudpickle:loads",
        "register_pickle_by_value": "cloudpickle:register_pickle_by_value",
        "unregister_pickle_by_value": "cloudpickle:unregister_pickle_by_value",
    },
    "ray.cluster_utils": {"Cluster": ".clusters:Cluster"},
    "ray.cross_language": {},
    "ray.dag": {"*": "kernel_compat_ray.graphs"},
    **{f"ray.dag.{module}": {name: f".graphs:{name}" for name in found} for module, found in _GRAPHS.items()},
    "ray.exceptions": {
        **{name: f".exceptions:{name}" for name in _ERRORS},
        **dict.fromkeys(_RECONSTRUCTION, ".exceptions:ObjectLostError"),
        "ActorPlacementGroupRemoved": ".exceptions:TaskPlacementGroupRemoved",
        "ActorUnschedulableError": ".exceptions:TaskUnschedulableError",
        "AuthenticationError": ".exceptions:RpcError",
    },
    "ray.experimental": {
        "get": ".experimental:get",
        "set_resource": ".experimental:set_resource",
        "wait": ".experimental:wait",
    },
    "ray.experimental.async_api": {
        "as_future": ".experimental:as_future",
        "init": ".experimental:nothing_to_do",
        "shutdown": ".experimental:nothing_to_do",
    },
    "ray.experimental.internal_kv": {
        "_internal_kv_del": ".key_value:delete",
        "_internal_kv_exists": ".key_value:exists",
        "_internal_kv_get": ".key_value:get",
        "_internal_kv_initialized": "kernel:is_initialized",
        "_internal_kv_list": ".key_value:keys",
        "_internal_kv_put": ".key_value:put",
    },
    "ray.experimental.tqdm_ray": {
        "safe_print": "builtins:print",
        "tqdm": "kernel.parallel.progress:tqdm",
        "trange": "kernel.parallel.progress:trange",
    },
    "ray.internal": {"free": ".experimental:free"},
    "ray.internal.internal_api": {
        "free": ".experimental:free",
        "global_gc": ".experimental:global_gc",
        "memory_summary": ".experimental:memory_summary",
    },
    "ray.job_config": {"JobConfig": ".session:JobConfig"},
    "ray.remote_function": {"RemoteFunction": ".functions:RemoteFunction"},
    "ray.runtime_context": {
        "RuntimeContext": ".context:RuntimeContext",
        "get_runtime_context": ".context:get_runtime_context",
    },
    "ray.runtime_env": {"RuntimeEnv": ".session:RuntimeEnv", "RuntimeEnvConfig": ".session:RuntimeEnvConfig"},
    "ray.types": {"ObjectRef": "kernel:ObjectRef"},
    "ray.util": {
        "ActorPool": "kernel.parallel:ActorPool",
        "as_completed": ".helpers:as_completed",
        "connect": ".clients:connect",
        "deregister_serializer": "kernel:deregister_serializer",
        "disable_log_once_globally": ".helpers:disable_log_once_globally",
        "disconnect": ".clients:disconnect",
        "enable_periodic_logging": ".helpers:enable_periodic_logging",
        "get_current_placement_group": "kernel:get_current_placement_group",
        "get_node_ip_address": ".state:get_node_ip_address",
        "get_placement_group": "kernel:get_placement_group",
        "inspect_serializability": ".pickling:inspect_serializability",
        "list_named_actors": "kernel:list_named_actors",
        "log_once": ".helpers:log_once",
        "map_unordered": ".helpers:map_unordered",
        "placement_group": ".groups:placement_group",
        "placement_group_table": ".groups:placement_group_table",
        "register_serializer": "kernel:register_serializer",
        "remove_placement_group": "kernel:remove_placement_group",
    },
    "ray.util.accelerators": {},
    "ray.util.actor_pool": {"ActorPool": "kernel.parallel:ActorPool"},
    "ray.util.annotations": {
        "Deprecated": ".annotations:unchanged",
        "DeveloperAPI": ".annotations:unchanged",
        "PublicAPI": ".annotations:unchanged",
        "RayDeprecationWarning": "builtins:DeprecationWarning",
    },
    "ray.util.check_serialize": {
        "FailureTuple": ".pickling:FailureTuple",
        "inspect_serializability": ".pickling:inspect_serializability",
    },
    "ray.util.client": {"connect": ".clients:connect"},
    "ray.util.collective": {
        "create_collective_group": ".collectives:create_collective_group",
        "gloo_available": ".collectives:gloo_available",
        "is_backend_available": ".collectives:is_backend_available",
        "nccl_available": ".collectives:nccl_available",
        "init_collective_group": ".collectives:init_collective_group",
        "*": "kernel.parallel.collective",
    },
    "ray.util.collective.types": {
        "Backend": ".collectives:Backend",
        "ReduceOp": "kernel.parallel.collective:ReduceOp",
    },
    "ray.util.named_actors": {
        "get_actor": ".named_handles:get_actor",
        "register_actor": ".named_handles:register_actor",
    },
    "ray.util.pdb": {"set_trace": "builtins:breakpoint"},
    "ray.util.rpdb": {"set_trace": "builtins:breakpoint"},
    "ray.util.debug": {
        "disable_log_once_globally": ".helpers:disable_log_once_globally",
        "enable_periodic_logging": ".helpers:enable_periodic_logging",
        "log_once": ".helpers:log_once",
        "reset_log_once": ".helpers:reset_log_once",
    },
    "ray.util.helpers": {"as_completed": ".helpers:as_completed", "map_unordered": ".helpers:map_unordered"},
    "ray.util.iter": {"*": "kernel.parallel.iterators"},
    "ray.util.iter_metrics": {
        "MetricsContext": "kernel.parallel.iterators:MetricsContext",
        "SharedMetrics": "kernel.parallel.iterators:SharedMetrics",
    },
    "ray.util.joblib": {"register_ray": ".helpers:register_ray"},
    "ray.util.metrics": {
        "Counter": ".metrics:Counter",
        "Gauge": ".metrics:Gauge",
        "Histogram": ".metrics:Histogram",
        "Metric": ".metrics:Metric",
    },
    "ray.util.multiprocessing": {
        "JoinableQueue": "multiprocessing:JoinableQueue",
        "Pool": ".pools:Pool",
        "*": "kernel.parallel.multiprocessing",
    },
    "ray.util.multiprocessing.pool": {"Pool": ".pools:Pool", "*": "kernel.parallel.multiprocessing"},
    "ray.util.placement_group": {
        "PlacementGroup": "kernel:PlacementGroup",
        "get_current_placement_group": "kernel:get_current_placement_group",
        "get_placement_group": "kernel:get_placement_group",
        "placement_group": ".groups:placement_group",
        "placement_group_table": ".groups:placement_group_table",
        "remove_placement_group": "kernel:remove_placement_group",
    },
    "ray.util.queue": {
        "Empty": "kernel.parallel:Empty",
        "Full": "kernel.parallel:Full",
        "Queue": "kernel.parallel:Queue",
    },
    "ray.util.scheduling_strategies": {
        "DoesNotExist": ".strategies:DoesNotExist",
        "Exists": ".strategies:Exists",
        "In": ".strategies:In",
        "NodeAffinitySchedulingStrategy": ".strategies:NodeAffinitySchedulingStrategy",
        "NodeLabelSchedulingStrategy": ".strategies:NodeLabelSchedulingStrategy",
        "NotIn": ".strategies:NotIn",
        "PlacementGroupSchedulingStrategy": "kernel:PlacementGroupSchedulingStrategy",
    },
    "ray.utils": {"get_user_temp_dir": "tempfile:gettempdir"},
    "ray.util.serialization": {
        "deregister_serializer": "kernel:deregister_serializer",
        "register_serializer": "kernel:register_serializer",
    },
    "ray.util.state": {
        "get_actor": ".listings:get_actor",
        "get_job": ".listings:get_job",
        "get_node": ".listings:get_node",
        "get_objects": ".listings:get_objects",
        "get_placement_group": ".listings:get_placement_group",
        "get_task": ".listings:get_task",
        "get_worker": ".listings:get_worker",
        "list_actors": ".listings:list_actors",
        "list_jobs": ".listings:list_jobs",
        "list_nodes": ".listings:list_nodes",
        "list_objects": ".listings:list_objects",
        "list_placement_groups": ".listings:list_placement_groups",
        "list_tasks": ".listings:list_tasks",
        "list_workers": ".listings:list_workers",
        "summarize_actors": ".listings:summarize_actors",
        "summarize_objects": ".listings:summarize_objects",
        "summarize_tasks": ".listings:summarize_tasks",
    },
    "ray.util.state.exception": {"RayStateApiException": "kernel.exceptions:OptionError"},
    "ray._private": {},
    "ray._private.profiling": {"profile": "kernel:profile"},
    "ray._private.ray_constants": {},
    "ray._private.services": {"get_node_ip_address": ".state:get_node_ip_address"},
    "ray._private.state": {
        "actors": ".listings:actors",
        "available_resources": ".state:available_resources",
        "cluster_resources": ".state:cluster_resources",
        "nodes": ".state:nodes",
        "timeline": "kernel:timeline",
    },
    "ray._private.test_utils": {
        "Semaphore": ".testing:Semaphore",
        "SignalActor": ".testing:SignalActor",
        "run_string_as_driver": ".testing:run_string_as_driver",
        "wait_for_condition": ".testing:wait_for_condition",
        "wait_for_pid_to_exit": ".testing:wait_for_pid_to_exit",
    },
    "ray._private.worker": {
        "global_worker": ".context:global_worker",
        "init": ".session:init",
        "get": ".calls:get",
        "put": ".calls:put",
        "wait": ".calls:wait",
    },
    "ray._raylet": {
        "ObjectRef": "kernel:ObjectRef",
        "ObjectRefGenerator": "kernel:ObjectRefGenerator",
        "DynamicObjectRefGenerator": "kernel:DynamicReturns",
    },
}

MODULES_RENAMED: dict[str, str] = {
    **TUNE_MODULES_RENAMED,
    "ray.experimental.actor_pool": "ray.util.actor_pool",
    "ray.experimental.api": "ray.experimental",
    "ray.experimental.dynamic_resources": "ray.experimental",
    "ray.experimental.iter": "ray.util.iter",
    "ray.experimental.joblib": "ray.util.joblib",
    "ray.experimental.multiprocessing": "ray.util.multiprocessing",
    "ray.experimental.named_actors": "ray.util.named_actors",
    "ray.experimental.queue": "ray.util.queue",
    "ray.experimental.state.api": "ray.util.state",
    "ray._private.internal_api": "ray.internal.internal_api",
    "ray.ray_constants": "ray._private.ray_constants",
    "ray.services": "ray._private.services",
    "ray.state": "ray._private.state",
    "ray.test_utils": "ray._private.test_utils",
    "ray.util.state.api": "ray.util.state",
    "ray.worker": "ray._private.worker",
}
"""Modules that have moved since: importing the old one warns, and returns the new one."""

RENAMED: dict[str, str] = {
    **RLLIB_RENAMED,
    **TUNE_RENAMED,
    "ray.ObjectID": "ray.ObjectRef",
    "ray.ObjectStoreFullError": "ray.exceptions.ObjectStoreFullError",
    "ray.RayTaskError": "ray.exceptions.RayTaskError",
    "ray.UnreconstructableError": "ray.exceptions.ObjectLostError",
    "ray.exceptions.RayCancellationError": "ray.exceptions.TaskCancelledError",
    "ray.exceptions.RayOutOfMemoryError": "ray.exceptions.OutOfMemoryError",
    "ray.exceptions.RayTimeoutError": "ray.exceptions.GetTimeoutError",
    "ray.exceptions.RayWorkerError": "ray.exceptions.WorkerCrashedError",
    "ray.exceptions.UnreconstructableError": "ray.exceptions.ObjectLostError",
    "ray.experimental.ActorPool": "ray.util.ActorPool",
    "ray.experimental.get_actor": "ray.get_actor",
    "ray.get_webui_url": "ray.get_dashboard_url",
    "ray.register_custom_serializer": "ray.util.register_serializer",
    "ray.show_in_webui": "ray.show_in_dashboard",
    "ray.util.get_actor": "ray.get_actor",
}
"""Old name to new, for names that mean the same: using one warns."""

CONSTANTS: dict[str, object] = {**PLAIN, **RLLIB_CONSTANTS, "ray.__version__": VERSION}
