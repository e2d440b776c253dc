"""Choose and import the engine of a session: see `kernel_spec.engines`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from kernel_spec.engines import LOCAL, PROCESSES, OpenEngine
from kernel_spec.errors import PluginError, PluginNotFoundError

VARIABLE = "KERNEL_ENGINE"

OWN: Mapping[str, str] = MappingProxyType(
    {PROCESSES: "kernel_processes.session.engine:open_session", LOCAL: "kernel_local_mode.engine:open_session"}
)
"""Targets of the kernel's own engines by name, as in their entry points.

They are not looked up, because looking up entry points takes longer than local mode takes to start. No other
distribution can offer these names.
"""


_NOT_INSTALLED = {PROCESSES: ("the engine of many processes", "processes"), LOCAL: ("local mode", "local_mode")}
"""For each of the kernel's own engines its description for messages, and the extra of kernel that installs it."""


def engine_name(local_mode: bool, environment: Mapping[str, str]) -> str:
    """Return the engine's name: local mode if `local_mode`, else KERNEL_ENGINE of `environment`, else the default."""
    return LOCAL if local_mode else environment.get(VARIABLE, "").strip() or PROCESSES


def find_engine(name: str) -> OpenEngine:
    """Import the engine called `name` and return its opener.

    Raises PluginNotFoundError when no engine of that name is installed, ContractError when several are, and PluginError
    when it can't be imported.
    """
    target = OWN.get(name)
    if target is None:
        from kernel.plugins.installed_target import target_named
        from kernel_spec.hooks import ENGINE_GROUP

        target = target_named(ENGINE_GROUP, "engine", name, OWN, VARIABLE)
    module, _, attribute = target.partition(":")
    try:
        opens: OpenEngine = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # the import of a plugin's module may raise anything
        if name in OWN and isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            from kernel.installing import install_command

            what, extra = _NOT_INSTALLED[name]
            missing = PluginNotFoundError(f"{what} is not installed: {install_command(extra)}")
            missing.asked_for = name != PROCESSES  # that is the default
            raise missing from None
        if name in OWN:
            raise
        raise PluginError(
            f"the engine {name!r} ({target}) can't be imported: {type(error).__name__}: {error}"
        ) from error
    return opens
