"""Start, join and leave a session: `init`, `shutdown` and `is_initialized`."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kernel.api import display_hooks
from kernel.api.engines import VARIABLE, engine_name, find_engine
from kernel.api.init_options import check_init, environment_of_program
from kernel.api.init_types import check_names
from kernel.logs import Logger, configure_for_people, configure_later, is_debug
from kernel.runtime.current import (
    check_may_start,
    find_runtime,
    get_runtime,
    leave_at_exit,
    leave_in_child,
    set_runtime,
)
from kernel.runtime.object_ref import ObjectRef
from kernel_spec.engines import LOCAL, PROCESSES, SessionOptions
from kernel_spec.errors import AlreadyInitializedError, NotInitializedError, PluginNotFoundError, SessionEndedError

if TYPE_CHECKING:
    from kernel.runtime.interface import Runtime
    from kernel_spec.engines import EngineSession

_lock = threading.RLock()
_session: EngineSession | None = None


class SessionInfo(dict[str, Any]):
    """The result of `init`: a mapping with facts about the session, and a context manager that shuts it down."""

    def __enter__(self) -> SessionInfo:
        return self

    def __exit__(self, *exception: object) -> None:
        shutdown()


@check_names
def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    memory: int | None = None,
    memory_limit: int | None = None,
    memory_threshold: float | None = None,
    memory_quotas: str | None = None,
    object_store_memory: int | None = None,
    driver_object_store_memory: int | None = None,
    object_store_directory: str | None = None,
    spill_directory: str | None = None,
    labels: Mapping[str, str] | None = None,
    local_mode: bool = False,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    ignore_reinit_error: bool = False,
    log_to_driver: bool = True,
    show_failures: bool = True,
    configure_logging: bool = True,
    logging_level: int | str = "warning",
    temp_dir: str | None = None,
    object_id_seed: int | None = None,
    scheduler: str | None = None,
    object_store: str | None = None,
    serializer: str | Sequence[str] | None = None,
    metadata_store: str | None = None,
    spill_target: str | None = None,
    head_services: Sequence[str] = (),
    plugin_options: Mapping[str, Mapping[str, Any]] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: str | os.PathLike[str] | None = None,
    preload: Sequence[str] | None = None,
) -> SessionInfo:
    """Start a session for this program, or join one, and return a mapping with facts about it.

    Without `address` (and without KERNEL_ADDRESS in the environment) a session on this machine is started, with
    `num_cpus`, `num_gpus`, `resources`, `memory` and `object_store_memory` (bytes) as given or detected; it ends
    with this program. When its processes hold more than the share `memory_threshold` of `memory_limit` (bytes), or of
    the machine's memory, workers are ended; `memory_quotas` says whose `memory=` is enforced ("actors", "all", "none").
    `driver_object_store_memory` is the limit for this program in the object store (bytes). `address="auto"` joins the
    newest session of this user, or that of its head if it is a node of a head on this machine, a session's directory or
    name joins that one, and "HOST:PORT" of a head joins its cluster, through the cluster's node on this machine.
    `address="kernel://HOST:PORT"` joins that cluster from outside, through its head's port, with the token in
    `token_file` (default: KERNEL_TOKEN) and, if it uses TLS, the certificates in the directory `tls` (default:
    KERNEL_TLS). `local_mode=True` runs everything in this process, one call after the other. Plugins are chosen by
    name; `plugin_options` has options for them by name, such as `{"redis": {"url": "redis://host:6379/0"}}`. Modules in
    `preload` are imported once, in the process from which workers are forked, so a module that starts threads must not
    be among them. `show_failures=False` does not show tasks and calls that failed and whose results are not asked for.

    Raises AlreadyInitializedError for a second init (unless `ignore_reinit_error`), OptionError for invalid values,
    PluginError for a chosen plugin that can't be used, and SessionEndedError when no session runs at the address or a
    new one can't be started.
    """
    if sys.is_finalizing():
        check_may_start()
    with _lock:
        if find_runtime() is not None:
            if ignore_reinit_error:
                return _info(get_runtime())
            raise AlreadyInitializedError(
                "kernel.init() was called before in this process; call kernel.shutdown() first, "
                "or pass ignore_reinit_error=True to go on with the running session"
            )
        given = SessionOptions(
            address if address is not None else os.environ.get("KERNEL_ADDRESS") or None,
            num_cpus, num_gpus, resources, memory, memory_limit, memory_threshold, memory_quotas, object_store_memory,
            driver_object_store_memory, object_store_directory, spill_directory, labels, local_mode, namespace,
            environment_of_program(os.environ.get("KERNEL_RUNTIME_ENV", "")) if runtime_env is None else runtime_env,
            log_to_driver, logging_level, temp_dir, object_id_seed,
            {
                "scheduler": scheduler, "object_store": object_store, "serializer": serializer,
                "metadata_store": metadata_store, "spill_target": spill_target,
            },
            tuple(head_services), plugin_options, token_file, tls, preload, show_failures,
        )  # fmt: skip
        check_init(given)
        display_hooks.install()
        if configure_logging:
            configure_later(lambda: configure_for_people(given.logging_level), is_debug(given.logging_level))
        runtime = _open(given)
        atexit.unregister(_shut_down_at_exit)
        atexit.register(_shut_down_at_exit)
        return _info(runtime)


def _shut_down_at_exit() -> None:
    leave_at_exit()
    with contextlib.suppress(KeyboardInterrupt):  # the program has ended: a traceback would have no line of it
        shutdown()


def shutdown() -> None:
    """Leave the session, and end it if this program started it. Does nothing without a session."""
    global _session
    with _lock:
        runtime = find_runtime()
        if runtime is not None:
            runtime.shutdown()
            set_runtime(None)
        session, _session = _session, None
    if session is not None:
        session.end()


def _leave_in_child() -> None:
    """Leave the session in a forked child: the child is in no session, and ends none when it exits."""
    global _session, _lock
    if _session is not None:
        _session.forget()
    leave_in_child()
    _session = None
    _lock = threading.RLock()  # the old one may be held by a thread that does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)


def is_initialized() -> bool:
    """Return whether this process is in a session."""
    return find_runtime() is not None


def ensure_session(*given: object) -> Runtime:
    """Return the runtime; start a session with default options if there is none.

    Without a session it raises SessionEndedError if one of the caller's arguments, `given`, is a reference, which must
    be of an earlier session, and NotInitializedError outside of the main thread.
    """
    runtime = find_runtime()
    if runtime is None:
        check_may_start()
        for one in given:
            if type(one) is ObjectRef:
                raise SessionEndedError(f"{one!r} is gone with its session, which has ended; call what made it again")
        if threading.current_thread() is not threading.main_thread():
            raise NotInitializedError("kernel is not initialized in this process; call kernel.init() first")
        init()
        runtime = get_runtime()
    return runtime


def _open(given: SessionOptions) -> Runtime:
    name = engine_name(given.local_mode, os.environ)
    try:
        return _open_engine(name, given)
    except PluginNotFoundError as error:
        if error.asked_for or name != PROCESSES or given.address is not None or VARIABLE in os.environ:
            raise
        return _fall_back(given, str(error))


def _open_engine(name: str, given: SessionOptions) -> Runtime:
    global _session
    session = find_engine(name)(given)
    runtime = cast("Runtime", session.runtime)
    set_runtime(runtime)
    _session = session
    if given.runtime_env:
        import pickle

        from kernel.api.runtime_env import prepare_environment

        try:
            runtime.query("add_environment", pickle.dumps(prepare_environment(given.runtime_env)))
        except BaseException:
            shutdown()
            raise
    return runtime


def _fall_back(given: SessionOptions, why: str) -> Runtime:
    from kernel.installing import install_command

    Logger("kernel").warning(
        f"everything runs in this process (local mode); for all cores: {install_command('plugins')}", reason=why
    )
    return _open_engine(LOCAL, given)


def _info(runtime: Runtime) -> SessionInfo:
    return SessionInfo(
        node_id=runtime.node.hex(),
        job_id=runtime.job.hex(),
        namespace=runtime.namespace,
        session_dir=runtime.session_directory,
        address=runtime.session_directory,
        local_mode=runtime.local_mode,
    )
