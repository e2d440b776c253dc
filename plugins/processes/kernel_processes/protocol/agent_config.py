"""The settings of a node agent: one picklable value, passed over its standard input when it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.memory_words import ACTORS, THRESHOLD
from kernel_spec.tls_files import TlsFiles


def preloaded(environment: Mapping[str, str], given: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the modules that workers start with: what all need, what KERNEL_PRELOAD says (numpy), what was given."""
    chosen = environment.get("KERNEL_PRELOAD", "numpy").split(",")
    return tuple(dict.fromkeys(filter(None, (*_NEEDED, *map(str.strip, chosen), *given))))


_NEEDED = ("kernel.api.operations", "kernel.api.context")


@dataclass(slots=True)
class AgentConfig:
    """Holds the settings of one agent.

    `resources` are plain quantities; CPU, memory and accelerators that are not in it are detected. `ephemeral`
    sessions end with the process that started them. With `store_bytes` 0 the agent chooses. `preload` names modules
    that the template imports once for all workers. `head` is the address of the head to join; without one this agent
    has a head of its own, in a separate process if `head_apart`: then the head can die and be restarted while all else
    goes on. `listen` ("HOST:PORT") is where it accepts connections of other machines, and `advertised` the place that
    others are given, if it differs. With `any_port`, a port that is taken is replaced by any free one.
    `relay` is the head's port ("HOST:PORT") for the agent of a remote driver: it has no resources and runs nothing, and
    it reaches all other nodes through that port.
    With `tls`, everything between machines is in TLS. `network` is the target of the network that leads to them
    ("module:attribute"), which the agent finds itself. `metadata_directory` is the directory that the metadata store
    uses, if that is to outlive the session's.
    `head_away_seconds` is how long nodes try to reach a lost head; the head sends it to all of them.
    `memory_limit` is the limit for the node's processes and its store together, in bytes (0: the machine's); for the
    other two see `kernel_spec.memory_words`.
    """

    directory: str
    token: bytes
    node: bytes
    ephemeral: bool
    resources: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    store_bytes: int = 0
    store_directory: str | None = None
    spill_directory: str | None = None
    plugins: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    plugin_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    head_services: Sequence[str] = ()
    memory_limit: int = 0
    memory_threshold: float = THRESHOLD
    memory_quotas: str = ACTORS
    log_level: str = "warning"
    head: str = ""
    head_apart: bool = False
    listen: str = ""
    any_port: bool = False
    advertised: str = ""
    relay: str = ""
    tls: TlsFiles | None = None
    network: str = ""
    metadata_directory: str = ""
    death_seconds: float = 5.0
    head_away_seconds: float = 60.0
    preload: Sequence[str] = field(default_factory=lambda: preloaded(os.environ))
