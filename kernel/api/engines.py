"""Which engine a session is opened with, and how it is found: see `kernel_spec.engines`."""

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
"""The kernel's own engines: name to target, as their entry points say it.

To look up entry points takes longer than local mode takes to start, so these are not looked up, and no other
distribution can offer these names.
"""


_NOT_INSTALLED = {PROCESSES: ("the engine of many processes", "processes"), LOCAL: ("local mode", "local_mode")}
"""Of the kernel's own engines what is missing without one, and the extra of kernel that brings it."""


def engine_name(local_mode: bool, environment: Mapping[str, str]) -> str:
    """Return the name of the engine that is meant: the argument's, else the environment's, else the default."""
    return LOCAL if local_mode else environment.get(VARIABLE, "").strip() or PROCESSES


def find_engine(name: str) -> OpenEngine:
    """Import an engine.

    Raises PluginNotFoundError when none of that name is installed, ContractError when several are, PluginError when it
    can't be imported.
    """
    target = OWN.get(name)
    if target is None:
        from kernel.plugins.installed_target import target_named
        from kernel_spec.hooks import ENGINE_GROUP

        target = target_named(ENGINE_GROUP, "engine", name, OWN, VARIABLE)
    module, _, attribute = target.partition(":")
    try:
        opens: OpenEngine = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a stranger's module raises while it is imported
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
