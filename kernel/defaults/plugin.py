"""The built-in plugin `local`: the reference implementation of each contract, offered like those of other plugins.

The modules are imported when a factory is called, so that a process imports only the implementations that it uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from kernel_spec import CONTRACTS, hookimpl
from kernel_spec.environments import EnvironmentBuilder
from kernel_spec.memory_guards import MemoryGuard, MemorySettings
from kernel_spec.metadata import MetadataStore
from kernel_spec.metrics import MetricsSink
from kernel_spec.providers import NodeProvider
from kernel_spec.scheduling import Scheduler
from kernel_spec.spill import SpillTarget
from kernel_spec.store import ObjectStore

CONFORMANCE = {
    "scheduler": {"most_times_slower": 10_000},
    "object_store": {"spills": False},
    "node_provider": {"configuration": {"kinds": {"small": {"CPU": 1}}}, "running_seconds": None},
    "environment": {
        "values": {
            "env_vars": [{"A": "1", "PATH": "/more:${PATH}"}, {}],
            "working_dir": [os.path.dirname(__file__), ""],
            "py_modules": [[__file__, os.path.dirname(__file__)], []],
        },
        "wrong_values": {"env_vars": [5, {"A": 1}, {"": "x"}], "working_dir": [5], "py_modules": ["x", [5]]},
    },
}
"""Facts for the conformance suites: the scheduler looks at all waiting requests, the store has no disk
and no other process, the provider has no kinds of its own, and each builder of environments has values that it takes
and values that it refuses."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """The built-in implementations move with the contracts."""
    kinds = ("scheduler", "object_store", "metadata_store", "spill_target", "memory_guard", "node_provider")
    return {kind: CONTRACTS[kind] for kind in (*kinds, "environment", "metrics_sink")}


@hookimpl
def kernel_schedulers() -> Mapping[str, Callable[[], Scheduler]]:
    """Offer `local`."""
    return {"local": _scheduler}


@hookimpl
def kernel_object_stores() -> Mapping[str, Callable[[], ObjectStore]]:
    """Offer `local`."""
    return {"local": _object_store}


@hookimpl
def kernel_metadata_stores() -> Mapping[str, Callable[[str], MetadataStore]]:
    """Offer `memory`."""
    return {"memory": _metadata_store}


@hookimpl
def kernel_spill_targets() -> Mapping[str, Callable[[str], SpillTarget]]:
    """Offer `disk`."""
    return {"disk": _spill_target}


@hookimpl
def kernel_memory_guards() -> Mapping[str, Callable[[MemorySettings], MemoryGuard]]:
    """Offer `cheapest`."""
    return {"cheapest": _memory_guard}


@hookimpl
def kernel_environments() -> Mapping[str, Callable[[], EnvironmentBuilder]]:
    """Offer `env_vars`, `working_dir` and `py_modules`."""
    return {"env_vars": _variables, "working_dir": _working_directory, "py_modules": _modules}


@hookimpl
def kernel_metrics_sinks() -> Mapping[str, Callable[..., MetricsSink]]:
    """Offer `text_file`."""
    return {"text_file": _text_file}


@hookimpl
def kernel_node_providers() -> Mapping[str, Callable[[Mapping[str, Any]], NodeProvider]]:
    """Offer `manual`."""
    return {"manual": _node_provider}


def _scheduler() -> Scheduler:
    from kernel.defaults.scheduler import LocalScheduler

    return LocalScheduler()


def _object_store() -> ObjectStore:
    from kernel.defaults.object_store import LocalObjectStore

    return LocalObjectStore()


def _metadata_store(directory: str) -> MetadataStore:
    from kernel.defaults.metadata import LocalMetadataStore

    return LocalMetadataStore(directory)


def _spill_target(directory: str) -> SpillTarget:
    from kernel.defaults.spill import DiskSpill

    return DiskSpill(directory)


def _memory_guard(settings: MemorySettings) -> MemoryGuard:
    from kernel.defaults.memory_guard import LocalMemoryGuard

    return LocalMemoryGuard(settings)


def _text_file(*, path: str = "kernel-metrics.prom", interval: float = 15.0) -> MetricsSink:
    from kernel.defaults.metrics_sink import TextFileSink

    return TextFileSink(path=path, interval=interval)


def _node_provider(options: Mapping[str, Any]) -> NodeProvider:
    from kernel.defaults.provider import ManualNodeProvider

    return ManualNodeProvider(options)


def _variables() -> EnvironmentBuilder:
    from kernel.environments.variables import EnvironmentVariables

    return EnvironmentVariables()


def _working_directory() -> EnvironmentBuilder:
    from kernel.environments.working_directory import WorkingDirectory

    return WorkingDirectory()


def _modules() -> EnvironmentBuilder:
    from kernel.environments.modules import PythonModules

    return PythonModules()
