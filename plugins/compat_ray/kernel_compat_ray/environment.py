"""Translate environment variables of Ray into those of kernel."""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping

VARIABLES: dict[str, str] = {
    "RAY_ADDRESS": "KERNEL_ADDRESS",
    "RAY_DEBUG_POST_MORTEM": "KERNEL_POST_MORTEM",
    "RAY_TMPDIR": "KERNEL_TMPDIR",
    "RAY_BACKEND_LOG_LEVEL": "KERNEL_LOG_LEVEL",
    "RAY_SERVE_DEFAULT_HTTP_HOST": "KERNEL_SERVE_HTTP_HOST",
    "RAY_memory_usage_threshold": "KERNEL_MEMORY_THRESHOLD",
}
"""Maps Ray's variable to kernel's, which is set from it when the program begins, unless it is set already."""

DEFAULTS: dict[str, str] = {"TUNE_RESULT_DIR": "~/ray_results"}
"""Variables that are set when the program begins, unless they are set: Ray's programs look for results there."""

READ_BY_INIT = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_LOG_TO_DRIVER", "RAY_IGNORE_UNHANDLED_ERRORS")
"""Variables that `ray.init` reads again, because a program may set them itself."""

OTHERS: dict[str, str] = {
    "RAY_RUNTIME_ENV_IGNORE_GITIGNORE": "`1`: a `.gitignore` leaves nothing out of a `working_dir`; `excludes` do",
    "RAY_memory_monitor_refresh_ms": "`0`: no worker is ended because memory runs out",
}
"""Variables with other effects here, mapped to these effects."""

_STORE = "init(object_store_memory=...), or `kernel start --object-store-memory`"

NOT_READ: dict[str, str] = {
    "RAY_AUTH_MODE": "a token is always needed",
    "RAY_AUTH_TOKEN": "set KERNEL_TOKEN; see docs/security.md",
    "RAY_COLOR_PREFIX": "NO_COLOR=1 turns colours off",
    "RAY_DEDUP_LOGS": "init(log_to_driver=...) says whether output is shown",
    "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": _STORE,
    "RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION": _STORE,
    "RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING": "`kernel logs` names the call of every line",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "a task sees the devices that it was given",
    "RAY_LOGGING_CONFIG_ENCODING": "log lines have one format",
    "RAY_OVERRIDE_LABELS": "init(labels=...), or `kernel start --labels`",
    "RAY_OVERRIDE_RESOURCES": "init(resources=...), or `kernel start --resources`",
    "RAY_RUNTIME_ENV_HOOK": "give the runtime_env to init()",
    "RAY_TASK_MAX_RETRIES": "say max_retries= of the task",
    "RAY_TLS_CA_CERT": "`kernel certificates create`, and KERNEL_TLS",
    "RAY_TLS_SERVER_CERT": "`kernel certificates create`, and KERNEL_TLS",
    "RAY_TLS_SERVER_KEY": "`kernel certificates create`, and KERNEL_TLS",
    "RAY_USE_TLS": "`kernel certificates create`, and KERNEL_TLS",
}
"""Variables that users set and kernel does not read, mapped to advice. `ray.init` warns of them."""

NOT_NEEDED: dict[str, str] = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "workers run the program's own Python",
    "RAY_PICKLE_VERBOSE_DEBUG": "errors always say which part can't be pickled",
    "RAY_PROFILING": "every call is in the timeline",
    "RAY_USAGE_STATS_ENABLED": "nothing is reported anywhere",
    "RAY_record_ref_creation_sites": "`kernel memory` always shows where a reference was made",
}
"""Variables that kernel does not read, because it behaves so anyway, or has no such feature."""

OUR_RAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "path", "ray")
"""A package `ray` that makes room for kernel's. Workers of a cluster that is joined from outside are sent it."""

WAIT_MILLISECONDS = "KERNEL_RAY_WAIT_MILLISECONDS"
"""Set to 1 for programs of Ray before 0.7, whose `ray.wait(timeout=...)` is in milliseconds."""


def adopt_environment(environment: MutableMapping[str, str]) -> None:
    """Set kernel's variables from Ray's, and Ray's defaults, those that are not set."""
    for old, new in VARIABLES.items():
        value = environment.get(old)
        if value and new not in environment and value != "local":
            environment[new] = kernel_address(value) if old == "RAY_ADDRESS" else value
    if environment.get("RAY_memory_monitor_refresh_ms") == "0":
        environment.setdefault("KERNEL_MEMORY_THRESHOLD", "0")
    if environment.get("RAY_DEBUG") == "0":
        environment.setdefault("PYTHONBREAKPOINT", "0")
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)
    if environment.get("KERNEL_ADDRESS", "").startswith(kernel_address("ray://")):
        environment.setdefault("KERNEL_RUNTIME_ENV", json.dumps({"py_modules": [OUR_RAY]}))


def kernel_address(address: str) -> str:
    """Return an address of Ray as kernel says it: "ray://HOST:PORT" is joined from outside."""
    return f"kernel://{address.removeprefix('ray://')}" if address.startswith("ray://") else address
