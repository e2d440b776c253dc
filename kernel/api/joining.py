"""Becoming a driver of a session whose agent runs."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from kernel.api.init_options import InitOptions
from kernel.api.log_printer import LogPrinter
from kernel.api.runtime_env import prepare_environment
from kernel.node.sessions import Session
from kernel.plugins import PluginManager
from kernel.runtime import operations as op
from kernel.runtime.core import CoreRuntime
from kernel.runtime.current import set_runtime
from kernel.runtime.process import Identity
from kernel.runtime.serialization import ValueSerializer
from kernel_spec.errors import KernelError
from kernel_spec.ids import ProcessId


def join(given: InitOptions, session: Session, starter: bool = False) -> CoreRuntime:
    """Connect this program to a running session and return its runtime; `starter` says that it started it."""
    process = ProcessId(given.process_id())
    identity = Identity(process, "driver", b"", process, session.directory, session.token())
    namespace = given.namespace or process.hex()
    runtime = CoreRuntime(identity, ValueSerializer(), _no_store, namespace)
    details = {
        "job": process,
        "starter": starter,
        "prestart": starter and not given.runtime_env,
        "namespace": namespace,
        "cwd": os.getcwd(),
        "path": list(sys.path),
        "variables": dict(os.environ) if not starter else {},
        "script": sys.argv[0] if sys.argv else "",
        "wants_logs": given.log_to_driver,
    }
    runtime.io.handlers[op.LOG_LINES] = LogPrinter().on_lines
    runtime.io.handlers[op.EXIT] = lambda connection, message: None
    set_runtime(runtime)
    try:
        runtime.start(details)
        _adopt_plugins(runtime)
        if given.runtime_env:
            runtime.query("add_environment", pickle.dumps(prepare_environment(given.runtime_env)))
    except BaseException:
        set_runtime(None)
        runtime.shutdown()
        raise
    runtime.io.install_interrupts()
    return runtime


def _adopt_plugins(runtime: CoreRuntime) -> None:
    """Use the plugins that the session's agent found and chose."""
    manager = PluginManager.from_catalog(pickle.loads(runtime.details["catalog"]))
    runtime.adopt_node(runtime.details["node"])
    runtime.store.use(manager.choose("object_store"))
    serializers = [factory() for factory in manager.choose_many("serializer")]
    if serializers:
        runtime.use_serializer(ValueSerializer(serializers))


def _no_store() -> Any:
    raise KernelError("the object store is not known yet")
