"""What a node agent is told when it starts: one picklable value, passed over its standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class AgentConfig:
    """Settings of one agent.

    `resources` are plain quantities; CPU, memory and accelerators that are not in it are detected. `ephemeral`
    sessions end with the process that started them. `store_bytes` 0 means: choose. `preload` names modules that the
    template imports once for all workers.
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
    plugin_options: Mapping[str, Any] = field(default_factory=dict)
    head_services: Sequence[str] = ()
    log_level: str = "warning"
    preload: Sequence[str] = ("numpy", "kernel.api.operations", "kernel.api.context")
