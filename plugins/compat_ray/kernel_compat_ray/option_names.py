"""Options of tasks, actors and methods, and arguments of `ray.init`, with other spellings. Data only."""

from __future__ import annotations

OPTIONS_RENAMED: dict[str, str] = {
    "num_return_vals": "num_returns",
    "max_reconstructions": "max_restarts",
}
"""Older spellings: they warn."""

OPTIONS_TRANSLATED: dict[str, str] = {"_generator_backpressure_num_objects": "stream_ahead"}
"""Current spellings that differ from kernel's."""

OPTIONS_IGNORED: dict[str, str] = {
    "_actor_generator_backpressure_num_objects": "a stream's own bound is _generator_backpressure_num_objects",
    "_num_objects_per_yield": "what is yielded is one object",
    "enable_tensor_transport": "tensors travel through the object store",
    "_labels": "tasks have no labels here",
    "_metadata": "it was for Ray's own libraries",
    "allow_out_of_order_execution": "calls of one caller begin in the order in which they were made",
    "enable_task_events": "every call is in the timeline",
    "is_asyncio": "an actor with coroutines is asynchronous by itself",
    "is_direct_call": "every call is direct",
}
"""Options that have no effect here."""

OPTIONS_REFUSED: dict[str, str] = {
    "_owner": "who calls put owns the object; have the actor put it",
    "checkpoint_interval": "save the state outside of the actor and load it in __init__, which max_restarts runs again",
    "num_custom_resource": 'name it: resources={"custom": 1}',
    "tensor_transport": "tensors travel through the object store; use ray.util.collective between devices",
}

INIT_RENAMED: dict[str, str] = {
    "redis_address": "address",
    "plasma_directory": "object_store_directory",
}
"""Older spellings: they warn."""

INIT_TRANSLATED: dict[str, str] = {
    "_driver_object_store_memory": "driver_object_store_memory",
    "_memory": "memory",
    "_plasma_directory": "object_store_directory",
    "_temp_dir": "temp_dir",
    "object_spilling_directory": "spill_directory",
}

_REDIS = "there is no Redis; what must last is kept by the metadata store"
_DASHBOARD = "no dashboard is started with a program; `kernel status` shows a session"

INIT_IGNORED: dict[str, str] = {
    "_enable_object_reconstruction": "lost objects are made again always",
    "_metrics_export_port": "no port is opened for metrics: KERNEL_METRICS_SINKS takes them elsewhere",
    "_node_ip_address": "a program's own session is on this machine; `kernel start --node-ip-address` is for others",
    "_redis_max_memory": _REDIS,
    "_redis_password": _REDIS,
    "_redis_username": _REDIS,
    "_system_config": "it names settings of Ray's own processes",
    "_internal_config": "it names settings of Ray's own processes",
    "_tracing_startup_hook": "use an observer plugin",
    "allow_multiple": "one process has one session",
    "dashboard_host": _DASHBOARD,
    "dashboard_port": _DASHBOARD,
    "enable_object_reconstruction": "lost objects are made again always",
    "huge_pages": "the object store uses ordinary pages",
    "include_dashboard": _DASHBOARD,
    "include_webui": _DASHBOARD,
    "job_id": "jobs have ids of their own",
    "load_code_from_local": "functions and classes of modules are imported by the workers always",
    "logging_config": "give logging_level, and configure Python's own logging",
    "logging_format": "log lines have one format",
    "lru_evict": "a full store moves objects to disk; ray.put(value, weakref=True) makes one that may be dropped",
    "node_ip_address": "a program's own session is on this machine",
    "num_redis_shards": _REDIS,
    "num_workers": "workers are started as they are needed",
    "object_manager_port": "a node has one port; see `kernel start --port`",
    "plasma_store_socket_name": "sockets are in the session's directory",
    "raylet_socket_name": "sockets are in the session's directory",
    "redirect_output": "what workers print is shown by the program, and kept by `kernel logs`",
    "redirect_worker_output": "what workers print is shown by the program, and kept by `kernel logs`",
    "redis_max_clients": _REDIS,
    "redis_max_memory": _REDIS,
    "redis_password": _REDIS,
    "redis_port": _REDIS,
    "proxy_server_url": "there is no dashboard behind a proxy",
    "storage": "there are no workflows",
    "system_reserved_cpu": "num_cpus says how many CPUs are for tasks",
    "system_reserved_memory": "memory_limit says how much is for workers and the object store",
    "use_pickle": "values are pickled always",
    "webui_host": _DASHBOARD,
}
"""Arguments that have no effect here; a value other than False and None warns."""

QUIETLY_IGNORED = frozenset(
    {"configure_logging", "dashboard_host", "dashboard_port", "include_dashboard", "include_webui", "webui_host"}
)
"""Ignored arguments without a warning, because so many programs give them."""

INIT_REFUSED: dict[str, str] = {
    "cgroup_path": "use memory_limit and memory_quotas",
    "enable_resource_isolation": "use memory_limit and memory_quotas",
    "include_java": "kernel runs Python only",
    "num_custom_resource": 'name it: resources={"custom": 1}',
}
