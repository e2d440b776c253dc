"""What init was given: checked, and turned into what an agent needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernel_spec.errors import OptionError
from kernel_spec.resources import to_units

if TYPE_CHECKING:
    from kernel.node.config import AgentConfig
    from kernel.runtime.interface import Runtime


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The arguments of `kernel.init`, as given."""

    address: str | None
    num_cpus: float | None
    num_gpus: float | None
    resources: Mapping[str, float] | None
    memory: int | None
    object_store_memory: int | None
    object_store_directory: str | None
    spill_directory: str | None
    labels: Mapping[str, str] | None
    local_mode: bool
    namespace: str | None
    runtime_env: Mapping[str, Any] | None
    log_to_driver: bool
    logging_level: int | str
    temp_dir: str | None
    object_id_seed: int | None
    plugins: Mapping[str, str | Sequence[str] | None]
    head_services: tuple[str, ...]

    def node_resources(self) -> dict[str, float]:
        """Return the resources that were given, by name."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory}
        return {**{name: q for name, q in named.items() if q is not None}, **(self.resources or {})}

    def chosen_plugins(self) -> dict[str, str | Sequence[str]]:
        """Return the plugins that were given, by kind."""
        return {kind: name for kind, name in self.plugins.items() if name is not None}

    def agent_config(self, directory: str, token: bytes, ephemeral: bool) -> AgentConfig:
        """Return what the agent of a new session in `directory` is told."""
        from kernel.node.config import AgentConfig

        return AgentConfig(
            directory,
            token,
            os.urandom(8),
            ephemeral,
            resources=self.node_resources(),
            labels=dict(self.labels or {}),
            store_bytes=int(self.object_store_memory or 0),
            store_directory=self.object_store_directory,
            spill_directory=self.spill_directory,
            plugins=self.chosen_plugins(),
            head_services=self.head_services,
            log_level=os.environ.get("KERNEL_LOG_LEVEL", "warning"),
        )

    def process_id(self) -> bytes:
        """Return the driver's process id: random, or the same for the same seed."""
        if self.object_id_seed is None:
            return os.urandom(8)
        import hashlib

        return hashlib.blake2b(str(self.object_id_seed).encode(), digest_size=8).digest()


_ONLY_AT_START = (
    "num_cpus", "num_gpus", "resources", "memory", "object_store_memory", "object_store_directory",
    "spill_directory", "labels", "temp_dir",
)  # fmt: skip


def check_init(given: InitOptions) -> None:
    """Raise OptionError for values that can't be, and for combinations that make no sense."""
    for name, quantity in given.node_resources().items():
        try:
            to_units(quantity)
        except (ValueError, TypeError) as error:
            raise OptionError(f"resource {name!r}: {error}") from error
    for name in given.resources or {}:
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"resources={{{name!r}: ...}} must be given by init's own argument for it")
    if given.object_store_memory is not None and given.object_store_memory < 1 << 20:
        raise OptionError(f"object_store_memory must be at least 1 MB, in bytes, not {given.object_store_memory}")
    if given.namespace is not None and not given.namespace:
        raise OptionError("namespace must be a non-empty string or None")
    if given.address is not None:
        wrong = [name for name in _ONLY_AT_START if getattr(given, name) is not None]
        wrong += [kind for kind in given.chosen_plugins()]
        if wrong:
            raise OptionError(
                f"{', '.join(wrong)} can be chosen only where the session is started, "
                f"not with address={given.address!r}"
            )
        if given.local_mode:
            raise OptionError("local_mode=True and an address contradict each other")


def make_local_runtime(given: InitOptions) -> Runtime:
    """Return the in-process runtime."""
    from kernel.local.runtime import LocalRuntime
    from kernel.plugins import PluginManager
    from kernel.runtime.serialization import ValueSerializer

    chosen = {kind: name for kind, name in given.chosen_plugins().items() if kind == "serializer"}
    serializers: list[Any] = []
    if chosen or os.environ.get("KERNEL_SERIALIZER"):
        manager = PluginManager.discover(chosen)
        serializers = [factory() for factory in manager.choose_many("serializer")]
    return LocalRuntime(
        ValueSerializer(serializers),
        given.namespace or "",
        given.node_resources(),
        labels=given.labels or {},
        process=given.process_id(),
    )
