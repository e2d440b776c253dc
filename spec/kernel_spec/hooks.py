"""All hooks on one page.

A plugin is a module (or object) with some of these functions, marked `@hookimpl`, named by an entry point in the
group `kernel.plugins`. Hooks are called when a process boots, to choose implementations; from then on ordinary
method calls do the work. Each `Mapping[str, factory]` hook offers implementations by name; two plugins that offer
the same name are refused with both named. Factories are called without arguments unless said otherwise.

Keyword-only arguments of a factory, each with a default, are its options: `plugin_options={"redis": {"url": ...}}`,
the environment (KERNEL_OPTION_REDIS_URL, turned into the type of the default) and the configuration file
(`[options.redis]`) fill them. Object stores and serializers get those of the head's node in every process of the
session. Head services get theirs with `start`.

"On the head" is in the process of the head: the agent of its node, or one of its own (`kernel start --head`).

Libraries (`from kernel import tune`) are mounted by an entry point in the group `kernel.libraries`, whose name is
the mounted name and whose value is the package: no hook, so that an import never loads a plugin. The
control plane is found by one in the group `kernel.control_planes`, when the first program asks a head for it, and an
engine by one in the group `kernel.engines` (see `engines.py`), when a session begins. The network of a node that works
with others is found by one in the group `kernel.networks` (see `networks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:  # every process imports this module, and few processes need the contracts themselves
    from kernel_spec.accelerators import Accelerator
    from kernel_spec.environments import EnvironmentBuilder
    from kernel_spec.memory_guards import MemoryGuard, MemorySettings
    from kernel_spec.metadata import MetadataStore
    from kernel_spec.metrics import MetricsSink
    from kernel_spec.observers import Observer
    from kernel_spec.providers import NodeProvider
    from kernel_spec.scheduling import Scheduler
    from kernel_spec.serialization import Serializer
    from kernel_spec.services import HeadService
    from kernel_spec.spill import SpillTarget
    from kernel_spec.store import ObjectStore

    Command = Any  # click.Command: the contract does not import click

PLUGIN_GROUP = "kernel.plugins"
LIBRARY_GROUP = "kernel.libraries"
CONTROL_PLANE_GROUP = "kernel.control_planes"
ENGINE_GROUP = "kernel.engines"
NETWORK_GROUP = "kernel.networks"
PROJECT = "kernel"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kernel_contracts() -> Mapping[str, int]:  # type: ignore[empty-body]
    """Say which version of which contract this plugin was written for, such as `{"scheduler": 1}`."""


@hookspec
def kernel_schedulers() -> Mapping[str, Callable[[], Scheduler]]:  # type: ignore[empty-body]
    """Offer schedulers (driver: one is chosen by name). Called on the head."""


@hookspec
def kernel_object_stores() -> Mapping[str, Callable[[], ObjectStore]]:  # type: ignore[empty-body]
    """Offer object stores (driver). Called in every process."""


@hookspec
def kernel_serializers() -> Mapping[str, Callable[[], Serializer]]:  # type: ignore[empty-body]
    """Offer serializers (named: those selected, in order). Called in every process."""


@hookspec
def kernel_node_providers() -> Mapping[str, Callable[[Mapping[str, Any]], NodeProvider]]:  # type: ignore[empty-body]
    """Offer node providers (driver); the factory takes the provider's section of the configuration. To be
    called on the head; nothing of kernel asks for machines yet.
    """


@hookspec
def kernel_accelerators() -> Sequence[Accelerator]:  # type: ignore[empty-body]
    """Offer kinds of devices (hook: all are asked). Called in the node agent and in workers."""


@hookspec
def kernel_metadata_stores() -> Mapping[str, Callable[[str], MetadataStore]]:  # type: ignore[empty-body]
    """Offer metadata stores (driver); the factory takes the session directory. Called on the head."""


@hookspec
def kernel_spill_targets() -> Mapping[str, Callable[[str], SpillTarget]]:  # type: ignore[empty-body]
    """Offer spill targets (driver); the factory takes the spill directory or uri. Called in the node agent."""


@hookspec
def kernel_memory_guards() -> Mapping[str, Callable[[MemorySettings], MemoryGuard]]:  # type: ignore[empty-body]
    """Offer memory guards (driver); the factory takes the user's settings. Called in the node agent."""


@hookspec
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:  # type: ignore[empty-body]
    """Offer builders of environments, by the field of a runtime_env that each takes (named: those that are given).
    Called in programs and workers that give such a field, and in the node agent.
    """


@hookspec
def kernel_observers() -> Sequence[Observer]:  # type: ignore[empty-body]
    """Offer observers of life cycle events (hook: all get the events). Called on the head."""


@hookspec
def kernel_metrics_sinks() -> Mapping[str, Callable[[], MetricsSink]]:  # type: ignore[empty-body]
    """Offer sinks for the metrics of a session (named: all selected ones get the same). Called on the head."""


@hookspec
def kernel_cli_commands() -> Sequence[Command]:  # type: ignore[empty-body]
    """Offer commands for `kernel ...`, as click commands (hook). Called by the command line only."""


@hookspec
def kernel_head_services() -> Mapping[str, Callable[[], HeadService]]:  # type: ignore[empty-body]
    """Offer services for the head (named: those selected). Called on the head."""
