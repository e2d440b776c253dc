"""Prepare a freshly forked worker before it serves: identity, environment, devices, runtime."""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from kernel.logs import configure_for_people, configure_later
from kernel.plugin_faults import told
from kernel.plugins import PluginManager
from kernel.runtime.execution_context import current_execution
from kernel.runtime.worker_info import worker_info
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.variables import expand
from kernel_processes.node.sessions import clean_up
from kernel_processes.protocol.identity import Identity
from kernel_processes.protocol.named_output import named
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.system.processes import descendants_of, is_alive, kill, offer_to_end, set_title
from kernel_processes.system.thread_limits import ThreadLimits
from kernel_processes.transport.networks import load_network
from kernel_processes.worker.interpreter import begin_anew, needs_own
from kernel_processes.worker.worker import serve
from kernel_spec.errors import PluginError
from kernel_spec.ids import ProcessId
from kernel_spec.resources import UNIT

if TYPE_CHECKING:
    from kernel_spec.accelerators import Accelerator

_LAST_SECONDS = 1.0
"""Seconds for which a worker that lost its agent waits for the template to end it."""

_variables: dict[str, tuple[str, ...]] = {}
"""Resource to the variables that this worker's present lease has set."""


def prepare(session: dict[str, Any]) -> dict[str, Any]:
    """Import and make, once in the template, what every worker of the session uses."""
    importlib.import_module("kernel_engine.serialization.value_pickler")  # For functions and classes sent by value.
    if session["network"]:
        load_network(session["network"])
    manager = PluginManager.from_catalog(session["catalog"])
    return {
        "store": manager.choose("object_store"),
        "serializers": manager.make_many("serializer"),
        "accelerators": [(manager.label(each), each) for each in manager.all("accelerator")],
    }


def main(worker: dict[str, Any], session: dict[str, Any]) -> int:
    """Serve as the worker described by `worker`; return the exit code."""
    if needs_own(worker["python"], worker["modules"]):
        begin_anew(worker, session)
    set_title("kernel: worker", "(starting)")
    offer_to_end()
    prepared = session["prepared"]
    for source in filter(None, map(sys.modules.get, ("random", "numpy.random"))):  # Others seed themselves on import.
        source.seed()
    os.environ.update(worker["variables"])
    os.environ.update(expand(worker["env_vars"], os.environ))
    _enter_directory(worker["cwd"], worker["program_cwd"])
    sys.path[:] = [*worker["path"], *(own for own in sys.path if own not in worker["path"])]
    sys.argv[:] = ["kernel-worker"]
    sys.stdout = sys.__stdout__ = named(sys.stdout, _task_name)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = named(sys.stderr, _task_name)  # type: ignore[misc]
    worker_info.limit_threads = ThreadLimits(worker["variables"].keys() | worker["env_vars"].keys()).apply
    started_with = dict(os.environ)
    worker_info.isolate = lambda devices: isolate(prepared["accelerators"], devices, started_with)
    configure_later(lambda: configure_for_people("warning"), debug=False)
    identity = Identity(
        ProcessId(worker["id"]),
        "worker",
        session["node"],
        worker["job"],
        session["directory"],
        session["token"],
        session["gateway"],
        session["tls"],
        network=session["network"],
    )
    runtime = ProcessRuntime(identity, ValueSerializer(prepared["serializers"]), prepared["store"], worker["namespace"])
    return serve(runtime, {"worker": True}, lambda: leave_lost_session(session))


def _enter_directory(own: str, programs: str) -> None:
    """Be in the working directory of the environment; without one, in the program's, if that is on this machine."""
    if own:
        os.chdir(own)
    elif os.path.isdir(programs):
        os.chdir(programs)


def _task_name() -> str:
    """Return the task that runs here; an actor's class, which is known to the agent, is name enough."""
    return "" if worker_info.actor else current_execution.get().name


def leave_lost_session(session: dict[str, Any]) -> None:
    """End this process because the agent is gone. The template cleans up; if that is gone as well, we do."""
    template, agent = session["template"], session["agent"]
    deadline = time.monotonic() + _LAST_SECONDS
    # A living template is about to kill us; an agent that closed its sockets may take a moment to end.
    while (os.getppid() == template or is_alive(agent)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if os.getppid() != template and not is_alive(agent):
        for child in descendants_of(os.getpid()):
            kill(child)
        clean_up(session["directory"])
    os._exit(1)


def isolate(
    accelerators: list[tuple[str, Accelerator]], devices: dict[str, dict[int, int]], environment: dict[str, str]
) -> None:
    """Set the variables that show user code only its devices, and take back what an earlier lease had set.

    Each of `accelerators` comes with what to call it. Raises PluginError when one raises or returns something else.
    """
    for label, accelerator in accelerators:
        shares = devices.get(accelerator.resource, {})
        try:
            variables = accelerator.isolate(
                sorted(shares), {index: units / UNIT for index, units in shares.items()}, environment
            )
            if not isinstance(variables, dict) or not all(isinstance(text, str) for text in variables.values()):
                raise TypeError(f"it returned {variables!r:.100}, not variables and their texts")
        except Exception as error:
            what = f"{label}, for the resource {accelerator.resource!r}: its isolate()"
            raise PluginError(told(what, error, "nothing is run here that might see the devices of others")) from error
        for name in _variables.get(accelerator.resource, ()):
            if name not in variables:
                if name in environment:
                    os.environ[name] = environment[name]
                else:
                    os.environ.pop(name, None)
        os.environ.update(variables)
        _variables[accelerator.resource] = tuple(variables)
        listing = getattr(accelerator, "variable", "")
        if listing in environment and listing in variables:
            worker_info.device_names[accelerator.resource] = variables[listing].split(",")
        else:
            worker_info.device_names.pop(accelerator.resource, None)
