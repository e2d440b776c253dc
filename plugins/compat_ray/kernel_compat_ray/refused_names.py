"""Names of Ray that kernel can't honour: each with the reason, and with what to use instead. Data only."""

from __future__ import annotations

from kernel_compat_ray.rllib_refused_names import RLLIB_MODULES_REFUSED, RLLIB_REFUSED
from kernel_compat_ray.serve.names import SERVE_MODULES_REFUSED, SERVE_REFUSED
from kernel_compat_ray.tune.names import TUNE_MODULES_REFUSED, TUNE_REFUSED

_LOCATIONS = ("get_local_object_locations", "get_object_locations")
_TENSORS = (
    "deregister_nixl_memory", "register_nixl_memory", "register_nixl_memory_pool", "register_tensor_transport",
    "set_nixl_cuda_stream", "set_target_device_for_ref", "set_target_for_ref", "wait_tensor_freed",
)  # fmt: skip
_LAUNCHING = (
    "create_or_update_cluster", "get_head_node_ip", "get_worker_node_ips", "rsync", "run_on_cluster",
    "teardown_cluster",
)  # fmt: skip
_MULTI = (
    "allgather_multigpu", "allreduce_multigpu", "broadcast_multigpu", "recv_multigpu", "reduce_multigpu",
    "reducescatter_multigpu", "send_multigpu",
)  # fmt: skip

REFUSED: dict[str, str] = {
    **RLLIB_REFUSED,
    **SERVE_REFUSED,
    **TUNE_REFUSED,
    "ray.Language": "kernel runs Python only",
    "ray.LoggingConfig": "logging is configured by init(logging_level=...) and by Python's own logging",
    "ray.cpp_function": "kernel runs Python only",
    "ray.cross_language.java_actor_class": "kernel runs Python only",
    "ray.cross_language.java_function": "kernel runs Python only",
    "ray.experimental.TensorFlowVariables": "use the get_weights and set_weights that Keras models have",
    "ray.cluster_utils.AutoscalingCluster": "add and remove nodes with Cluster.add_node and remove_node",
    "ray.cross_language.cpp_actor_class": "kernel runs Python only",
    "ray.cross_language.cpp_function": "kernel runs Python only",
    **{f"ray.experimental.{name}": "use `kernel memory`, which shows what lies where" for name in _LOCATIONS},
    **{f"ray.experimental.{name}": "tensors travel through the object store" for name in _TENSORS},
    **{f"ray.autoscaler.sdk.{name}": "start nodes with `kernel start`; see docs/cluster.md" for name in _LAUNCHING},
    **{f"ray.util.collective.{name}": "one process has one device: give each an actor of its own" for name in _MULTI},
    "ray.global_state": "ask ray.nodes(), ray.cluster_resources(), ray.timeline() or ray.util.state",
    "ray.java_actor_class": "kernel runs Python only",
    "ray.java_function": "kernel runs Python only",
    "ray.object_transfer_timeline": "transfers are not in the timeline; `kernel status` shows what nodes exchange",
    "ray.objects": "`kernel memory` shows who holds which object",
    "ray.register_class": "classes need no registration; types that pickle can't take: kernel.register_serializer",
    "ray.util.get_node_instance_id": "nodes have no cloud instance here; ray.nodes() has what is known of them",
    "ray.util.ray_debugpy": "use breakpoint(), and attach with `kernel debug`",
    "ray.util.state.StateApiClient": "use list_actors and the other functions of ray.util.state",
    "ray.util.state.get_log": "use `kernel logs`",
    "ray.util.state.list_cluster_events": "use `kernel events`",
    "ray.util.state.list_logs": "use `kernel logs`",
    "ray.util.state.list_runtime_envs": "use `kernel status`",
}
"""Names that can be imported, and raise NotSupportedError when they are used."""

MODULES_REFUSED: dict[str, str] = {
    **RLLIB_MODULES_REFUSED,
    **SERVE_MODULES_REFUSED,
    **TUNE_MODULES_REFUSED,
    "ray.experimental.channel": "there are no channels; actor calls go straight from process to process",
    "ray.experimental.collective": "use ray.util.collective",
    "ray.experimental.compiled_dag_ref": "compiled graphs give ordinary references",
    "ray.experimental.locations": "use `kernel memory`, which shows what lies where",
    "ray.experimental.rdt": "tensors travel through the object store",
    "ray.experimental.signal": "use a kernel.parallel Event, or a named actor that others ask",
    "ray.experimental.tf_utils": "use the get_weights and set_weights that Keras models have",
    "ray.llm": "it has no counterpart",
    "ray.projects": "run the commands by the shell or make; `kernel start` and `kernel ray-run` need no project file",
    "ray.sgd": "use kernel.train",
    "ray.util.dask": "use dask.distributed, or kernel.parallel's Executor",
    "ray.util.horovod": "use kernel.train",
    "ray.util.lightgbm": "use kernel.train",
    "ray.util.sgd": "use kernel.train",
    "ray.util.state.common": "rows are mappings whose keys are attributes",
    "ray.util.tpu": "kernel finds no TPUs by itself; an accelerator plugin may",
    "ray.util.spark": "start nodes with `kernel start --address HOST:PORT`",
    "ray.util.tracing": "use ray.timeline(), and an observer plugin for your tracer",
    "ray.util.xgboost": "use kernel.train",
    "ray.widgets": "it has no counterpart",
    "ray.workflow": "it has no counterpart; keep what must last in files or a database",
}
"""Modules whose import raises NotSupportedError, for all that is below them, too."""
