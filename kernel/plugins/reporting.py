"""Reports of the plugin management: warnings about broken plugins, and the trace of hook calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pluggy

from kernel.plugins.messages import skipped

TRACE_VARIABLE = "KERNEL_TRACE_PLUGINS"

_warned: set[str] = set()


def warn_skipped(plugin: str, error: BaseException) -> None:
    """Log that `plugin` is skipped, and where it broke; the same message is logged once in a process."""
    text = skipped(plugin, error)
    if text not in _warned:
        _warned.add(text)
        _logger().warning(text)


def warn_not_a_command(label: str, thing: object) -> None:
    """Log that `thing`, which is called `label`, is left out because it is no click command with a name."""
    _logger().warning(f"{label} is no click.Command with a name, and is left out: {thing!r:.100}")


def trace(manager: pluggy.PluginManager, clock: Callable[[], float] = time.perf_counter) -> Callable[[], None]:
    """Log every hook call of `manager` to stderr: hook, plugins, arguments, result, microseconds. Returns the undo."""
    started: list[float] = []

    def before(hook: str, methods: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        started.append(clock())

    def after(outcome: pluggy.Result[Any], hook: str, methods: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        microseconds = round((clock() - started.pop()) * 1e6, 1)
        plugins = [method.plugin_name for method in methods]
        said: dict[str, Any] = {"arguments": dict(arguments)} if arguments else {}
        if outcome.exception is not None:
            said["raised"] = repr(outcome.exception)
        else:
            said["result"] = outcome.get_result()
        _stderr_logger().info("hook call", hook=hook, plugins=plugins, microseconds=microseconds, **said)

    return manager.add_hookcall_monitoring(before, after)


def _logger() -> Any:
    import structlog

    # Unconfigured structlog prints to stdout, which belongs to the program.
    return structlog.get_logger("kernel.plugins") if structlog.is_configured() else _stderr_logger()


def _stderr_logger() -> Any:
    import structlog

    return structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
