"""What init was given: checked, and turned into what an agent needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel.api.init_types import argument_of, check_types
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.labels import check_labels
from kernel_spec.resources import to_units

if TYPE_CHECKING:
    from kernel.protocol.agent_config import AgentConfig
    from kernel.runtime.interface import Runtime


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The arguments of `kernel.init`, as given."""

    address: str | None
    num_cpus: float | None
    num_gpus: float | None
    resources: Mapping[str, float] | None
    memory: int | None
    memory_limit: int | None
    memory_threshold: float | None
    memory_quotas: str | None
    object_store_memory: int | None
    driver_object_store_memory: int | None
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
    plugin_options: Mapping[str, Mapping[str, Any]] | None = None
    token_file: str | os.PathLike[str] | None = None
    tls: str | os.PathLike[str] | None = None
    preload: Sequence[str] | None = None
    show_failures: bool = True

    def node_resources(self) -> dict[str, float]:
        """Return the resources that were given, by name."""
        named = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": self.memory}
        return {**{name: q for name, q in named.items() if q is not None}, **(self.resources or {})}

    def chosen_plugins(self) -> dict[str, str | Sequence[str]]:
        """Return the plugins that were given, by kind."""
        return {kind: name for kind, name in self.plugins.items() if name is not None}

    def agent_config(self, directory: str, token: bytes, ephemeral: bool) -> AgentConfig:
        """Return what the agent of a new session in `directory` is told."""
        from kernel.protocol.agent_config import AgentConfig, preloaded

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
            plugin_options=self.plugin_options or {},
            head_services=self.head_services,
            log_level=os.environ.get("KERNEL_LOG_LEVEL", "warning"),
            preload=preloaded(os.environ, self.preload or ()),
            **self.memory_settings(),
        )

    def memory_settings(self) -> dict[str, Any]:
        """Return how an agent watches memory: what was given, else what the environment says, else nothing."""
        from kernel.node.memory_policy import check_quotas, check_threshold

        settings: dict[str, Any] = {}
        for name, variable, read, check in (
            ("memory_limit", "KERNEL_MEMORY_LIMIT", int, lambda limit: _check_bytes("memory_limit", limit, 0)),
            ("memory_threshold", "KERNEL_MEMORY_THRESHOLD", float, check_threshold),
            ("memory_quotas", "KERNEL_MEMORY_QUOTAS", str, check_quotas),
        ):
            value, text = getattr(self, name), os.environ.get(variable)
            if value is None and text:
                try:
                    value = read(text)
                except ValueError as error:
                    raise OptionError(f"{variable}={text!r}: {error}") from error
            if value is not None:
                check(value)
                settings[name] = value
        return settings

    def process_id(self) -> bytes:
        """Return the driver's process id: random, or the same for the same seed."""
        if self.object_id_seed is None:
            return os.urandom(8)
        import hashlib

        return hashlib.blake2b(str(self.object_id_seed).encode(), digest_size=8).digest()


_ONLY_AT_START = (
    "num_cpus", "num_gpus", "resources", "memory", "memory_limit", "memory_threshold", "memory_quotas",
    "object_store_memory", "object_store_directory", "spill_directory", "labels", "temp_dir", "object_id_seed",
    "plugin_options", "preload",
)  # fmt: skip

_OF_REMOTE_DRIVERS = ("object_store_memory", "object_store_directory", "spill_directory", "temp_dir")
"""Those of them that a remote driver chooses for itself: it has a store of its own."""
REMOTE = "kernel://"
"""How the address of a cluster begins that is joined from outside."""


def remote_place(address: str | None) -> str:
    """Return "HOST:PORT" of `kernel://HOST:PORT`, nothing for any other address."""
    return address.removeprefix(REMOTE) if address is not None and address.startswith(REMOTE) else ""


def check_init(given: InitOptions) -> None:
    """Raise OptionError for values that can't be, and for combinations that make no sense."""
    check_types(given)
    for name, quantity in given.node_resources().items():
        try:
            to_units(quantity)
        except ValueError as error:
            raise OptionError(f"{argument_of(name)}: {error}") from error
        except TypeError as error:
            kind = type(quantity).__name__
            raise OptionError(f"{argument_of(name)} must be a number, not the {kind} {quantity!r}") from error
    for name in given.resources or {}:
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"resources={{{name!r}: ...}} must be given by init's own argument for it")
    try:
        check_labels(given.labels or {})
    except ValueError as error:
        raise OptionError(f"labels: {error}") from None
    _check_bytes("object_store_memory", given.object_store_memory, 1 << 20)
    _check_bytes("driver_object_store_memory", given.driver_object_store_memory, 1)
    given.memory_settings()
    _check_preload(given.preload or ())
    if given.namespace is not None and not given.namespace:
        raise OptionError("namespace must be a non-empty string or None")
    remote = given.address is not None and given.address.startswith(REMOTE)
    if not remote and (given.token_file is not None or given.tls is not None):
        raise OptionError(
            f'token_file and tls are for a cluster that is joined from outside: address="{REMOTE}HOST:PORT"'
        )
    if given.address is not None:
        allowed = _OF_REMOTE_DRIVERS if remote else ()
        wrong = [name for name in _ONLY_AT_START if getattr(given, name) is not None and name not in allowed]
        wrong += [kind for kind in given.chosen_plugins()]
        if wrong:
            raise OptionError(
                f"{', '.join(wrong)} can be chosen only where the session is started, "
                f"not with address={given.address!r}"
            )
        if given.local_mode:
            raise OptionError("local_mode=True and an address contradict each other")


def _check_preload(modules: Sequence[str]) -> None:
    import importlib.util

    if isinstance(modules, str):
        raise OptionError(f"preload is a list of names of modules, such as [{modules!r}], not {modules!r}")
    for name in modules:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            found = None
        if found is None:
            raise OptionError(f"preload names the module {name!r}, and there is none of that name here")


def _check_bytes(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        at_least = "1 MB" if least == 1 << 20 else least
        raise OptionError(f"{name} must be at least {at_least}, in bytes, not {value}")


def make_local_runtime(given: InitOptions) -> Runtime:
    """Return the in-process runtime."""
    from pathlib import Path

    from kernel.local.runtime import LocalRuntime
    from kernel.plugins import KINDS, PluginManager, find_config, select
    from kernel.runtime.failure_reports import show_row
    from kernel.runtime.serialization import ValueSerializer
    from kernel.working_directory import working_directory

    chosen = {kind: name for kind, name in given.chosen_plugins().items() if kind == "serializer"}
    config = find_config(os.environ, working_directory(), Path.home())
    selected = select(KINDS["serializer"], argument=chosen.get("serializer"), environment=os.environ, config=config)
    serializers: list[Any] = []
    if selected.names:  # to look for plugins takes longer than all the rest
        manager = PluginManager.discover(chosen, config=config, options=given.plugin_options)
        serializers = manager.make_many("serializer")
    runtime = LocalRuntime(
        ValueSerializer(serializers),
        given.namespace or "",
        given.node_resources(),
        labels=given.labels or {},
        process=given.process_id(),
    )
    if given.show_failures:
        runtime.tasks.failures.show = show_row
    return runtime
