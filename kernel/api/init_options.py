"""Check the arguments of `init`, and turn them into the settings of an agent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kernel.api.init_types import argument_of, check_types
from kernel_spec.engines import SessionOptions
from kernel_spec.errors import OptionError
from kernel_spec.labels import check_labels
from kernel_spec.resources import to_units

if TYPE_CHECKING:
    from kernel.protocol.agent_config import AgentConfig


class InitOptions(SessionOptions):
    """The arguments of `kernel.init`, as given, and what an agent needs to know of them."""

    __slots__ = ()

    @classmethod
    def of(cls, options: SessionOptions) -> InitOptions:
        """Return these options as such."""
        if isinstance(options, cls):
            return options
        return cls(**{field.name: getattr(options, field.name) for field in fields(options)})

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
        from kernel_spec.memory_words import check_quotas, check_threshold

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
