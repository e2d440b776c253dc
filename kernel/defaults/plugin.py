"""The built-in plugin `local`: the reference implementation of each contract, offered like anybody's.

The modules are imported when a factory is called, so that a process pays only for what it was told to use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel_spec import CONTRACTS, hookimpl
from kernel_spec.metadata import MetadataStore
from kernel_spec.providers import NodeProvider
from kernel_spec.scheduling import Scheduler
from kernel_spec.spill import SpillTarget
from kernel_spec.store import ObjectStore

CONFORMANCE = {
    "scheduler": {"most_times_slower": 10_000},
    "object_store": {"spills": False},
    "node_provider": {"configuration": {"kinds": {"small": {"CPU": 1}}}, "running_seconds": None},
}
"""What the conformance suites need to know: the scheduler looks at all who wait, the store has no disk and no other
process, the provider has no kinds of its own."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """The built-in implementations move with the contracts."""
    kinds = ("scheduler", "object_store", "metadata_store", "spill_target", "node_provider")
    return {kind: CONTRACTS[kind] for kind in kinds}


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


def _node_provider(options: Mapping[str, Any]) -> NodeProvider:
    from kernel.defaults.provider import ManualNodeProvider

    return ManualNodeProvider(options)
