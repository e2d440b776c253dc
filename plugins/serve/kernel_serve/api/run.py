"""Start Serve, run applications, ask for their status, and end them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import kernel
from kernel_serve.api import log_default
from kernel_serve.api.addresses import grpc_addresses, proxy_addresses
from kernel_serve.api.controller_calls import answer_to, ask
from kernel_serve.api.declared import UNSET, Application, Deployment
from kernel_serve.api.graph import flatten, unchanged
from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.api.run_forever import run_forever
from kernel_serve.api.runtime_environments import RuntimeEnvironments, on_the_path
from kernel_serve.api.status_types import Facts, ProxyFacts, facts_of
from kernel_serve.errors import DeployFailedError, DeploymentError, NotServingError
from kernel_serve.local.running import run_here
from kernel_serve.logs import logger
from kernel_serve.names import missing
from kernel_serve.routing.router import controller_handle, forget_controller, hear_here
from kernel_serve.settings import GRPCOptions, HTTPOptions, LoggingConfig, ProxyLocation, checked
from kernel_serve.tracing import setting as trace_setting
from kernel_serve.tracing.setting import Setting
from kernel_serve.value_checks import seconds
from kernel_serve.values import CONTROLLER_NAME, NAMESPACE, ApplicationSpec
from kernel_spec.nearest import nearest

DEFAULT_APPLICATION = "default"
_END_SECONDS = 60.0
_TELL_SECONDS = 4.0
"""Seconds between two log messages of a program that waits for an application, with what it waits for."""
_log = logger()
_ARGUMENTS = ("proxy_location", "http_options", "grpc_options", "tracing", "logging_config")
"""The arguments of `start`."""


def start(
    proxy_location: ProxyLocation | None = None,
    http_options: HTTPOptions | Mapping[str, Any] | None = None,
    grpc_options: GRPCOptions | Mapping[str, Any] | None = None,
    tracing: Setting = None,
    logging_config: LoggingConfig | Mapping[str, Any] | None = None,
    **unknown: Any,
) -> None:
    """Start Serve in the session, with proxies; start a session if there is none. What runs already stays as it is.

    `proxy_location` is "EveryNode" (default), "HeadOnly" or "Disabled". Each of the first three arguments that is given
    replaces what was set before, while requests go on; the others keep what was set. `tracing` has requests traced by
    OpenTelemetry: True with its environment variables, or a function that returns an exporter of spans, or its import
    path. Running processes take a new value over. `logging_config` is for deployments that are deployed from now on,
    where neither they nor their application have one.

    Raises DeploymentError for bad options and for an unknown argument, and ServeError when a proxy can't listen.
    """
    _refuse(unknown)
    location = _location(proxy_location)
    http = _options(HTTPOptions, http_options)
    grpc = _options(GRPCOptions, grpc_options)
    logging = None if logging_config is None else log_default.normal(logging_config, "serve.start()")
    controller = _start_controller()
    if logging is not None:
        log_default.store(logging)
    if tracing is not None and trace_setting.store(tracing):
        _, running = kernel.get(controller.metrics_sources.remote())
        trace_setting.tell(running.values())
        trace_setting.change(tracing, "driver")
    trace_setting.begin(tracing, "driver")
    if not _has_proxies(controller):
        ask("configure_proxies", location or "EveryNode", http or HTTPOptions(), grpc or GRPCOptions())
    elif location is not None or http is not None or grpc is not None:
        ask("configure_proxies", location, http, grpc)


def run(
    target: Application,
    blocking: bool = False,
    name: str = DEFAULT_APPLICATION,
    route_prefix: str | None = UNSET,
    logging_config: LoggingConfig | Mapping[str, Any] | None = None,
    *,
    wait: bool = True,
    timeout_s: float | None = None,
    _local_testing_mode: bool = False,
) -> DeploymentHandle:
    """Deploy an application, wait until it takes requests, and return a handle to its ingress.

    HTTP requests whose path begins with `route_prefix` go to it; the default is the option of its deployment, else "/".
    With None only handles and gRPC reach it. An application of the same name is updated without a failed request: once
    this has returned, requests to proxies and calls in this process are answered by the new version. Replicas run in
    the `runtime_env` of this program, with those of the deployments on top. `blocking` waits until Ctrl-C (or SIGTERM),
    and deletes the application then. `logging_config` is for those of its deployments that have none. It waits for
    `timeout_s` seconds at most (None: no limit), and not at all without `wait`. With `_local_testing_mode` everything
    runs in this process, without a session and HTTP, and only the handle reaches it.

    Raises DeploymentError for an application that can't be deployed, and DeployFailedError with the traceback of the
    user's code when it can't be made to run.
    """
    if not isinstance(target, Application):
        hint = f"; did you mean serve.run({target.name}.bind())?" if isinstance(target, Deployment) else ""
        raise DeploymentError(f"serve.run takes what bind() returns, not a {type(target).__name__}{hint}")
    if seconds("timeout_s", timeout_s) is not None and timeout_s < 0:  # type: ignore[operator]
        raise DeploymentError(f"timeout_s of serve.run is a number of seconds from 0 on, not {timeout_s!r}")
    if _local_testing_mode:
        return run_here(target, name)
    start()
    spec = flatten(
        target,
        name,
        route_of(target, route_prefix),
        RuntimeEnvironments(log_default.with_default(unchanged, logging_config)),
    )
    deploy([spec])
    if wait:
        wait_until_running(name, timeout_s)
    handle = DeploymentHandle(spec.ingress, name)
    if blocking:
        _say_where(name)
        run_forever()
        delete(name)
    return handle


def route_of(target: Application, given: str | None) -> str | None:
    """Return the route of an application: the given one, else its deployment's own, else "/"."""
    route = target.deployment.route_prefix if given is UNSET else given
    return "/" if route is UNSET else route


def deploy(applications: Sequence[ApplicationSpec]) -> None:
    """Have the controller run these applications; return once it has written that down."""
    ask("deploy", [on_the_path(each) for each in applications])


def wait_until_running(name: str, timeout_s: float | None = None) -> None:
    """Wait until an application takes requests, and calls of this process reach its new version.

    Raises DeployFailedError when it does not come to run, within `timeout_s` seconds if they are given.
    """
    final = ["RUNNING", "DEPLOY_FAILED", "NOT_STARTED"]
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = _TELL_SECONDS if deadline is None else deadline - time.monotonic()
        state = ask("wait_until", name, final, max(0.0, min(left, _TELL_SECONDS)))
        if state["status"] in final or (left <= _TELL_SECONDS and deadline is not None):
            break
        _log.warning(f"application {name} is {state['status']}", because=state.get("message"))
    hear_here(state["versions"])
    if state["status"] != "RUNNING":
        raise DeployFailedError(
            f"application {name} is {state['status']}"
            + (f" after {timeout_s:g} s" if state["status"] == "DEPLOYING" and timeout_s else "")
            + f": {state.get('message') or 'no reason is known'}"
        )


def delete(name: str) -> None:
    """Delete an application; return when its replicas have ended. An unknown name is a warning in the log.

    Raises NotServingError when Serve does not run.
    """
    for unknown in ask("delete", [name]):
        _log.warning(f"nothing to delete: {unknown}")
    ask("wait_until", name, ["NOT_STARTED"], _END_SECONDS)


def status() -> Facts:
    """Return what runs: applications and their deployments with status, message and replicas; proxies; endpoints.

    Entries can be read as attributes as well: `serve.status().applications["default"].status`. A proxy is its status, a
    text, with everything else about it as entries and attributes: `address`, `node_id`, ...
    """
    found = ask("status")
    return Facts({**facts_of(found), "proxies": Facts({id: ProxyFacts(each) for id, each in found["proxies"].items()})})


def shutdown() -> None:
    """End Serve in this session: applications, proxies, the controller. Nothing happens when it does not run."""
    forget_controller()
    try:
        controller = controller_handle()
    except (NotServingError, kernel.exceptions.NotInitializedError):
        return
    answer_to(controller.shutdown.remote())
    trace_setting.forget()
    log_default.forget()
    kernel.kill(controller)
    forget_controller()
    deadline = time.monotonic() + _END_SECONDS
    while _runs() and time.monotonic() < deadline:
        time.sleep(0.01)


async def shutdown_async() -> None:
    """Do what `shutdown` does, without blocking the event loop."""
    await asyncio.get_running_loop().run_in_executor(None, shutdown)


def get_app_handle(name: str) -> DeploymentHandle:
    """Return a handle to the ingress of an application. Raises NotServingError for an unknown application."""
    applications = status()["applications"]
    if name not in applications:
        raise NotServingError(missing("application", name, applications))
    return DeploymentHandle(applications[name]["ingress"], name)


def get_deployment_handle(deployment_name: str, app_name: str = DEFAULT_APPLICATION) -> DeploymentHandle:
    """Return a handle to any deployment of an application. Raises NotServingError for an unknown one."""
    applications = status()["applications"]
    deployments = applications.get(app_name, {}).get("deployments", {})
    if deployment_name not in deployments:
        known = ", ".join(f"{app}: {', '.join(each['deployments'])}" for app, each in sorted(applications.items()))
        raise NotServingError(
            f"there is no deployment {deployment_name!r} in application {app_name!r}; there are: {known or 'none'}"
        )
    return DeploymentHandle(deployment_name, app_name)


def _start_controller() -> Any:
    from kernel_serve.control.controller import Controller

    if not kernel.is_initialized():
        kernel.init()
    forget_controller()
    try:
        return controller_handle()
    except NotServingError:
        actor = kernel.remote(
            name=CONTROLLER_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=10_000,
            num_cpus=0,
        )(Controller)
        return actor.remote()


def _runs() -> bool:
    try:
        kernel.get_actor(CONTROLLER_NAME, NAMESPACE)
    except ValueError:
        return False
    return True


def _has_proxies(controller: Any) -> bool:
    return answer_to(controller.status.remote()).get("proxy_location") is not None


def _refuse(unknown: Mapping[str, Any]) -> None:
    """Raise DeploymentError for the first of the arguments of `start` that there are not."""
    for name in unknown:
        close = nearest(name, _ARGUMENTS)
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(_ARGUMENTS)}"
        raise DeploymentError(f"serve.start() has no argument {name!r}; {hint}")


def _options(kind: Any, given: Any) -> Any:
    return given if given is None or isinstance(given, kind) else checked(kind, dict(given))


def _location(given: Any) -> ProxyLocation | None:
    given = getattr(given, "value", given)
    if given is None:
        return None
    for known in get_args(ProxyLocation):
        if str(given).lower() == known.lower():
            return known  # type: ignore[no-any-return]
    raise DeploymentError(f"proxy_location is one of {', '.join(get_args(ProxyLocation))}, not {given!r}")


def _say_where(name: str) -> None:
    known = status()
    prefix = known["applications"][name]["route_prefix"]
    where = ", ".join(f"{address}{prefix}" for address in proxy_addresses(known)) if prefix else ""
    calls = ", ".join(grpc_addresses(known))
    said = [*([f"at {where}"] if where else []), *([f"for gRPC at {calls}"] if calls else [])]
    print(" ".join([f"Application {name!r} runs", *said]) + ". Ctrl-C ends it.", flush=True)
