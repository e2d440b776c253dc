"""The kinds of implementations that a plugin can offer, and how one, some or all of them are chosen.

The three patterns are stevedore's words. *driver*: exactly one, chosen by name. *named*: those chosen, in order.
*hook*: all that answer. Libraries are not a kind: they are mounted (`kernel.mounts`), and not called.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PluginKind:
    """One kind. `default` lists names by preference: a driver takes the first that is installed, else the first.

    Without an `environment` (the variable that selects) none is selected: each is requested by its name where it is
    needed. Implementations with `late_options` are made without their options, and get them later. Of a `shared` kind
    every process of a session uses the same implementation, with the same options. `contract` is the module of
    `kernel_spec` and the class in it that says what each must have.
    """

    name: str
    hook: str
    pattern: str
    environment: str = ""
    default: tuple[str, ...] = ()
    shared: bool = False
    contract: str = ""
    late_options: bool = False

    @property
    def title(self) -> str:
        """The kind's name for messages: `object store`."""
        return self.name.replace("_", " ")


_ALL = (
    PluginKind(
        "scheduler",
        "kernel_schedulers",
        "driver",
        "KERNEL_SCHEDULER",
        ("fifo", "local"),
        contract="scheduling.Scheduler",
    ),
    PluginKind(
        "object_store",
        "kernel_object_stores",
        "driver",
        "KERNEL_OBJECT_STORE",
        ("plasma",),
        shared=True,
        contract="store.ObjectStore",
    ),
    PluginKind(
        "serializer",
        "kernel_serializers",
        "named",
        "KERNEL_SERIALIZER",
        shared=True,
        contract="serialization.Serializer",
    ),
    PluginKind(
        "metadata_store",
        "kernel_metadata_stores",
        "driver",
        "KERNEL_METADATA_STORE",
        ("memory",),
        contract="metadata.MetadataStore",
    ),
    PluginKind(
        "spill_target", "kernel_spill_targets", "driver", "KERNEL_SPILL_TARGET", ("disk",), contract="spill.SpillTarget"
    ),
    PluginKind(
        "node_provider",
        "kernel_node_providers",
        "driver",
        "KERNEL_NODE_PROVIDER",
        ("manual",),
        contract="providers.NodeProvider",
    ),
    PluginKind(
        "memory_guard",
        "kernel_memory_guards",
        "driver",
        "KERNEL_MEMORY_GUARD",
        ("cheapest",),
        contract="memory_guards.MemoryGuard",
    ),
    PluginKind("environment", "kernel_environments", "named", contract="environments.EnvironmentBuilder"),
    PluginKind(
        "head_service",
        "kernel_head_services",
        "named",
        "KERNEL_HEAD_SERVICES",
        contract="services.HeadService",
        late_options=True,
    ),
    PluginKind("metrics_sink", "kernel_metrics_sinks", "named", "KERNEL_METRICS_SINKS", contract="metrics.MetricsSink"),
    PluginKind("accelerator", "kernel_accelerators", "hook", contract="accelerators.Accelerator"),
    PluginKind("observer", "kernel_observers", "hook", contract="observers.Observer"),
    PluginKind("cli_command", "kernel_cli_commands", "hook"),
)

KINDS: Mapping[str, PluginKind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Kind name (as in `kernel_spec.CONTRACTS`) to kind."""

KIND_OF_HOOK: Mapping[str, PluginKind] = MappingProxyType({kind.hook: kind for kind in _ALL})
"""Hook name to the kind it offers."""

OFFICIAL: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("scheduler", "fair"): "scheduler_fair",
        ("scheduler", "fifo"): "scheduler_fifo",
        ("object_store", "plasma"): "store_plasma",
        ("serializer", "arrow"): "serializer_arrow",
        **{("metadata_store", name): f"metadata_{name}" for name in ("redis", "sqlite")},
        ("spill_target", "fsspec"): "spill_fsspec",
        ("node_provider", "kubernetes"): "provider_kubernetes",
        ("accelerator", "nvidia"): "accelerator_nvidia",
        ("node_provider", "aws"): "provider_aws",
        ("node_provider", "gcp"): "provider_gcp",
        **{("node_provider", name): "provider_local" for name in ("local", "coordinator")},
        ("environment", "conda"): "environment_conda",
        ("environment", "py_executable"): "environment_interpreter",
        **dict.fromkeys((("environment", "container"), ("environment", "image_uri")), "environment_container"),
        **dict.fromkeys((("environment", "pip"), ("environment", "uv")), "environment_pip"),
    }
)
"""The plugins of this project: kind and name to the plugin, which is also the name of the extra that installs it."""
