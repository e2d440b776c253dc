"""The engine contract: an engine runs the tasks and actors of a program, and keeps its objects.

`kernel.init` opens one engine by name. "processes" starts or joins a session of many processes; "local"
(`local_mode=True`) has all of a session in the program's own process. Others are found by entry points in the group
`kernel.engines`, whose name is the engine's and whose value is an `OpenEngine`. That is no hook: a session's start
imports the engine that was chosen, and looks for no other.

An engine is opened in the thread that calls `kernel.init`; no other thread opens or ends a session meanwhile. The
runtime of the session is used from any thread, as soon as it is returned. An engine that can't open a session raises an
error of the tree in `kernel_spec.errors`, which the caller of `kernel.init` gets, and leaves nothing behind that it
started. Nothing has to survive a crash of the program: what an engine started must notice the program's end by itself,
and end too.

What lasts is this module: an engine's entry point, its session, and `SessionOptions`, which only ever has more fields.
An engine refuses an option that it can't honour, and a request that it can't fulfil, by an OptionError that names it.
What does not last are the values that travel through a runtime (definitions of functions, references, streams), which
are classes of `kernel.runtime`, and `kernel.runtime.interface.Runtime`, which says what is asked of them: an engine is
released together with the kernel that opens it. `kernel.conformance.engine` tries all of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.ids import JobId, NodeId, ProcessId

PROCESSES = "processes"
LOCAL = "local"
REMOTE = "kernel://"
"""Prefix of the address of a cluster to join from outside: `kernel://HOST:PORT`."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The arguments of `kernel.init`. Their types and values were checked.

    `address` may come from KERNEL_ADDRESS. Amounts of memory are in bytes. The kernel prepares `runtime_env` after the
    engine is opened, and passes it to the session by `query("add_environment", ...)`.
    """

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

    def memory_settings(self) -> dict[str, Any]:
        """Return the settings of an agent's memory watch that were given, or that environment variables set.

        Raises OptionError for an invalid value.
        """
        from kernel_spec.memory_words import check_quotas, check_threshold

        settings: dict[str, Any] = {}
        for name, variable, read, check in (
            ("memory_limit", "KERNEL_MEMORY_LIMIT", int, lambda limit: _check_limit(limit)),
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
        """Return the program's process id: random, or derived from the seed if there is one."""
        if self.object_id_seed is None:
            return os.urandom(8)
        import hashlib

        return hashlib.blake2b(str(self.object_id_seed).encode(), digest_size=8).digest()


def _check_limit(limit: int) -> None:
    if limit < 0:
        raise OptionError(f"memory_limit must be at least 0, in bytes, not {limit}")


class EngineRuntime(Protocol):
    """The part of a session's runtime that concerns the session. `kernel.runtime.interface.Runtime` has the rest."""

    job: JobId
    node: NodeId
    process: ProcessId
    local_mode: bool
    """Whether tasks and actors run in the program's own process."""

    @property
    def namespace(self) -> str:
        """The namespace in which names are looked up."""

    @property
    def session_directory(self) -> str:
        """The session's directory."""

    def query(self, method: str, *arguments: Any) -> Any:
        """Ask the session (nodes, resources, actors, memory, ...).

        Stored bytes, such as those of `kv_get`, are returned as they are.
        """

    def shutdown(self) -> None:
        """Leave the session, and end it if this program started it. Waiting calls raise SessionEndedError."""


class EngineSession(Protocol):
    """One session that an engine has opened for this program."""

    @property
    def runtime(self) -> EngineRuntime:
        """The runtime that the public API calls; the same object for the life of the session."""

    def end(self) -> None:
        """End what the engine started for the session, and wait for it. Called once, after `runtime.shutdown()`."""

    def forget(self) -> None:
        """Forget the session without ending anything. Called in a forked child of the program that opened it.

        No other thread runs then. It must not block, and must not raise.
        """


class OpenEngine(Protocol):
    """The function that an entry point of an engine names."""

    def __call__(self, options: SessionOptions) -> EngineSession:
        """Start or join a session. Raises OptionError for options that this engine can't honour."""
