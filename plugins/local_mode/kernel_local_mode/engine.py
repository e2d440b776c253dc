"""Open the engine of local mode: a session within this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kernel.working_directory import working_directory
from kernel_engine.failures.failure_reports import show_row
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_local_mode.runtime import LocalRuntime
from kernel_spec.errors import OptionError

if TYPE_CHECKING:
    from kernel_spec.engines import SessionOptions

CONFORMANCE = {"engine": {"concurrent": False, "refused": ({"address": "auto"},)}}
"""Settings of the conformance suite for this engine: tasks run in the thread that submits them."""


class LocalSession:
    """Is a session in this process. Nothing outlives its runtime."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime

    def end(self) -> None:
        """Do nothing: nothing was started besides the runtime."""

    def forget(self) -> None:
        """Do nothing: a forked child has no thread of the runtime, and nothing to close."""


def open_session(options: SessionOptions) -> LocalSession:
    """Return a new session in this process. Raises OptionError when there is an address to join."""
    if options.address is not None:
        raise OptionError(f"local mode joins no session, so it can't be had with address={options.address!r}")
    runtime = LocalRuntime(
        ValueSerializer(_serializers(options)),
        options.namespace or "",
        options.node_resources(),
        labels=options.labels or {},
        process=options.process_id(),
    )
    if options.show_failures:
        runtime.tasks.failures.show = show_row
    return LocalSession(runtime)


def _serializers(options: SessionOptions) -> list[Any]:
    """Return the serializers that are selected."""
    from pathlib import Path

    from kernel.plugins import KINDS, PluginManager, find_config, select

    chosen = {kind: name for kind, name in options.chosen_plugins().items() if kind == "serializer"}
    config = find_config(os.environ, working_directory(), Path.home())
    selected = select(KINDS["serializer"], argument=chosen.get("serializer"), environment=os.environ, config=config)
    if not selected.names:  # Looking for plugins takes longer than everything else here.
        return []
    return PluginManager.discover(chosen, config=config, options=options.plugin_options).make_many("serializer")
