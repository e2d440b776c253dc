"""Connect this program, as a driver, to a session whose agent runs."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from kernel.logs import Logger
from kernel.plugins import PluginManager
from kernel.plugins.messages import skipped
from kernel.runtime.current import set_runtime
from kernel.working_directory import working_directory
from kernel_engine.failures.failure_reports import show_row
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_processes.node.session_ways import ways_at
from kernel_processes.node.sessions import SessionDirectory
from kernel_processes.protocol.identity import Identity
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.session.log_printer import LogPrinter
from kernel_processes.system.descriptor_limit import raise_limit
from kernel_processes.system.standard_descriptors import occupy_standard_descriptors
from kernel_processes.transport.authentication import TOKEN_VARIABLE
from kernel_spec.engines import SessionOptions
from kernel_spec.errors import KernelError
from kernel_spec.ids import ProcessId

_OF_THIS_MACHINE = ("KERNEL_ADDRESS", "KERNEL_TLS", "KERNEL_TMPDIR")


def join(given: SessionOptions, session: SessionDirectory, starter: bool = False) -> ProcessRuntime:
    """Connect this program to a running session and return its runtime; `starter` says that this program started it.

    Raises SessionEndedError when the agent does not answer, and errors of the plugins that the session uses.
    """
    raise_limit()
    occupy_standard_descriptors()
    process = ProcessId(given.process_id())
    ways = ways_at(session.directory)
    identity = Identity(process, "driver", b"", process, session.directory, session.token(), *ways)
    namespace = given.namespace or process.hex()
    runtime = ProcessRuntime(identity, ValueSerializer(), _no_store, namespace)
    details = {
        "job": process,
        "starter": starter,
        "prestart": starter and not given.runtime_env,
        "namespace": namespace,
        "cwd": working_directory(),
        "path": paths_elsewhere(sys.path) if ways.relay else list(sys.path),
        "variables": _variables(bool(ways.relay)) if not starter else {},
        "script": sys.argv[0] if sys.argv else "",
        "wants_logs": given.log_to_driver,
        "wants_failures": given.show_failures,
        "store_bytes": int(given.driver_object_store_memory or 0),
    }
    runtime.io.handlers[number_of(op.LogLines)] = LogPrinter().on_lines
    if given.show_failures:
        runtime.failures.show = show_row
    set_runtime(runtime)
    try:
        runtime.start(details)
        _adopt_plugins(runtime)
    except BaseException:
        set_runtime(None)
        runtime.shutdown()
        raise
    runtime.io.interrupts.install()
    return runtime


def paths_elsewhere(paths: Sequence[str]) -> list[str]:
    """Return `paths` without those inside this Python installation, which another machine has at other paths."""
    own = tuple(os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)))
    return [path for path in paths if not os.path.join(path, "").startswith(own)]


def _variables(elsewhere: bool) -> dict[str, str]:
    """Return this program's variables for workers; with `elsewhere`, without those that hold only on this machine."""
    variables = {name: text for name, text in os.environ.items() if name != TOKEN_VARIABLE}
    if elsewhere:
        variables = {name: text for name, text in variables.items() if name not in _OF_THIS_MACHINE}
    return variables


def _adopt_plugins(runtime: ProcessRuntime) -> None:
    """Use the plugins that the session's agent found and chose."""
    manager = PluginManager.from_catalog(pickle.loads(runtime.details["catalog"]))
    for name, error in manager.problems.items():
        Logger("kernel").warning(skipped(name, error))
    runtime.adopt_node(runtime.details["node"])
    runtime.store.use(manager.choose("object_store"))
    serializers = manager.make_many("serializer")
    if serializers:
        runtime.use_serializer(ValueSerializer(serializers))


def _no_store() -> Any:
    raise KernelError("the object store is not known yet")
