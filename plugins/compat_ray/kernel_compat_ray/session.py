"""`ray.init` and `ray.shutdown`, with the arguments of all generations."""

from __future__ import annotations

import inspect
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any

import kernel
from kernel.exceptions import AlreadyInitializedError, SessionEndedError
from kernel_compat_ray.deprecation import warn_ignored, warn_renamed
from kernel_compat_ray.environment import NOT_READ, OUR_RAY, kernel_address
from kernel_compat_ray.errors import NoClusterError, NotSupportedError, SecondInitError, UnknownArgumentError
from kernel_compat_ray.labels import to_kernel
from kernel_compat_ray.names import VERSION
from kernel_compat_ray.option_names import (
    INIT_IGNORED,
    INIT_REFUSED,
    INIT_RENAMED,
    INIT_TRANSLATED,
    QUIETLY_IGNORED,
)
from kernel_compat_ray.options import plain_environment

_LOCAL_MODES = (2,)
"""The `driver_mode` of programs that run in one process (`ray.PYTHON_MODE`)."""


class Context(dict[str, Any]):
    """What `ray.init` returns: a mapping about the session, and a context manager that ends it."""

    @property
    def address_info(self) -> dict[str, Any]:
        """Return the mapping itself."""
        return dict(self)

    @property
    def dashboard_url(self) -> str:
        """Return nothing: no dashboard is started with a program."""
        return ""

    ray_version = VERSION
    ray_commit = "kernel"
    python_version = ".".join(map(str, __import__("sys").version_info[:3]))

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *exception: object) -> None:
        shutdown()

    def disconnect(self) -> None:
        """Leave the session."""
        shutdown()


class JobConfig:
    """What a program says about itself: its namespace and its environment."""

    def __init__(
        self,
        runtime_env: Any = None,
        ray_namespace: str | None = None,
        metadata: Mapping[str, str] | None = None,
        **others: Any,
    ) -> None:
        self.runtime_env, self.ray_namespace, self.metadata = runtime_env, ray_namespace, dict(metadata or {})
        for name, value in others.items():
            if value:
                warn_ignored(f"JobConfig({name}=...)", "kernel runs Python only")

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> JobConfig:
        """Return the one that a mapping describes."""
        return cls(description.get("runtime_env"), description.get("ray_namespace"), description.get("metadata"))

    def set_metadata(self, key: str, value: str) -> None:
        """Keep a note in this object; it is not sent to the session."""
        self.metadata[key] = value

    def set_ray_namespace(self, namespace: str) -> None:
        """Set the namespace."""
        self.ray_namespace = namespace

    def set_runtime_env(self, environment: Any) -> None:
        """Set the environment."""
        self.runtime_env = environment


class RuntimeEnv(dict[str, Any]):
    """A runtime_env; `RuntimeEnv(env_vars={...})` is the mapping that was given."""


class RuntimeEnvConfig(dict[str, Any]):
    """Settings of a runtime_env, which have nothing to change here."""

    def __init__(self, setup_timeout_seconds: int = 600, eager_install: bool = True, log_files: Any = None) -> None:
        super().__init__(setup_timeout_seconds=setup_timeout_seconds, eager_install=eager_install, log_files=log_files)


def init(address: str | None = None, **arguments: Any) -> Context:
    """Start a session for this program, or join the one at `address` or RAY_ADDRESS.

    Takes what `ray.init` took in any release: arguments that have nothing to change here are left out, with a warning
    where one could expect something of them. Raises NotSupportedError for what can't be honoured.
    """
    given = init_options(address, arguments, os.environ)
    if not given.get("ignore_reinit_error") and kernel.is_initialized():
        raise SecondInitError(
            "ray.init() was called before in this process; call ray.shutdown() first, or pass ignore_reinit_error=True"
        )
    kept = _without_address_variable(address)
    try:
        info = kernel.init(**given)
    except AlreadyInitializedError as error:
        raise SecondInitError(str(error)) from None
    except SessionEndedError as error:
        raise NoClusterError(str(error)) from None
    finally:
        os.environ.update(kept)
    return _context(info)


def shutdown(_exiting_interpreter: bool = False, **others: Any) -> None:
    """Leave the session, and end it if this program started it. Safe to call twice."""
    kernel.shutdown()


def get_dashboard_url() -> str:
    """Return nothing: no dashboard is started with a program."""
    return ""


def init_options(address: str | None, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `kernel.init` for those of `ray.init`."""
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in INIT_RENAMED:
            warn_renamed(f"ray.init({name}=...)", INIT_RENAMED[name])
            given[INIT_RENAMED[name]] = value
        elif name in INIT_TRANSLATED:
            given[INIT_TRANSLATED[name]] = value
        elif name in INIT_REFUSED:
            if value:
                raise NotSupportedError(f"ray.init({name}=...) is not supported: {INIT_REFUSED[name]}")
        elif name in INIT_IGNORED:
            if value not in (None, False) and name not in QUIETLY_IGNORED:
                warn_ignored(f"ray.init({name}=...)", INIT_IGNORED[name])
        else:
            given[name] = value
    _job(given)
    if "labels" in given:
        given["labels"] = to_kernel(given["labels"])
    if given.pop("driver_mode", None) in _LOCAL_MODES:
        given["local_mode"] = True
    _add_address(given, address, environment)
    if environment.get("RAY_NAMESPACE"):
        given.setdefault("namespace", environment["RAY_NAMESPACE"])
    if environment.get("RAY_LOG_TO_DRIVER") == "0":
        given.setdefault("log_to_driver", False)
    if environment.get("RAY_IGNORE_UNHANDLED_ERRORS") == "1":
        given.setdefault("show_failures", False)
    for name, instead in NOT_READ.items():
        if environment.get(name):
            warn_ignored(f"the environment variable {name}", instead)
    if given.get("runtime_env"):
        given["runtime_env"] = plain_environment(given["runtime_env"])
    _take_ray_along(given)
    _check_known(given)
    return given


def _job(given: dict[str, Any]) -> None:
    job = given.pop("job_config", None)
    if job is not None:
        fields = job if isinstance(job, Mapping) else vars(job)
        for field, name in (("ray_namespace", "namespace"), ("runtime_env", "runtime_env")):
            if fields.get(field):
                given.setdefault(name, fields[field])


def _add_address(given: dict[str, Any], address: str | None, environment: Mapping[str, str]) -> None:
    address = address or given.pop("address", None) or environment.get("RAY_ADDRESS") or None
    given.pop("address", None)
    if given.get("local_mode") or address in (None, "local"):
        return
    address, _, query = str(address).partition("?")
    for name, values in urllib.parse.parse_qs(query).items():
        given.setdefault(name, values[0])
    given["address"] = kernel_address(address)


def _take_ray_along(given: dict[str, Any]) -> None:
    """Let workers of a cluster that is joined from outside import `ray`: paths of this Python mean nothing there."""
    if str(given.get("address", "")).startswith(kernel_address("ray://")):
        environment = dict(given.get("runtime_env") or {})
        environment["py_modules"] = [*environment.get("py_modules", ()), OUR_RAY]
        given["runtime_env"] = environment


def _check_known(given: Mapping[str, Any]) -> None:
    known = inspect.signature(kernel.init).parameters
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UnknownArgumentError(f"ray.init() has no argument {unknown[0]!r} that kernel knows")


def _without_address_variable(address: str | None) -> dict[str, str]:
    """Take KERNEL_ADDRESS away for `address="local"`, which means a session of its own; return it to put it back."""
    if address == "local" and "KERNEL_ADDRESS" in os.environ:
        return {"KERNEL_ADDRESS": os.environ.pop("KERNEL_ADDRESS")}
    return {}


def _context(info: Mapping[str, Any]) -> Context:
    directory = info["session_dir"] or ""
    node: Mapping[str, Any] = next((row for row in kernel.nodes() if row["NodeID"] == info["node_id"]), {})
    place = node.get("NodeManagerAddress") or "127.0.0.1"
    return Context(
        info,
        address=info["address"] or "local",
        gcs_address=info["address"] or "local",
        node_ip_address=place,
        raylet_ip_address=place,
        redis_address=info["address"] or "local",
        object_store_address=directory,
        raylet_socket_name=os.path.join(directory, "agent.sock"),
        webui_url="",
        metrics_export_port=0,
    )
