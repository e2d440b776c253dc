"""Convert the options of `kernel.init` into the settings of the agent that it starts."""

from __future__ import annotations

import os

from kernel_processes.protocol.agent_config import AgentConfig, preloaded
from kernel_spec.engines import SessionOptions


def agent_config(given: SessionOptions, directory: str, token: bytes, ephemeral: bool) -> AgentConfig:
    """Return the settings for the agent of a new session in `directory`. Raises OptionError for invalid options."""
    return AgentConfig(
        directory,
        token,
        os.urandom(8),
        ephemeral,
        resources=given.node_resources(),
        labels=dict(given.labels or {}),
        store_bytes=int(given.object_store_memory or 0),
        store_directory=given.object_store_directory,
        spill_directory=given.spill_directory,
        plugins=given.chosen_plugins(),
        plugin_options=given.plugin_options or {},
        head_services=given.head_services,
        log_level=os.environ.get("KERNEL_LOG_LEVEL", "warning"),
        preload=preloaded(os.environ, given.preload or ()),
        **given.memory_settings(),
    )
