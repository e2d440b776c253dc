"""Environment variables of Ray, understood as those of kernel. Pure: mappings in, mappings out."""

from __future__ import annotations

from collections.abc import MutableMapping

VARIABLES: dict[str, str] = {
    "RAY_ADDRESS": "KERNEL_ADDRESS",
    "RAY_DEBUG_POST_MORTEM": "KERNEL_POST_MORTEM",
    "RAY_TMPDIR": "KERNEL_TMPDIR",
    "RAY_BACKEND_LOG_LEVEL": "KERNEL_LOG_LEVEL",
    "RAY_SERVE_DEFAULT_HTTP_HOST": "KERNEL_SERVE_HTTP_HOST",
}
"""Ray's variable to kernel's: taken over when the program begins, unless kernel's is set."""

DEFAULTS: dict[str, str] = {"TUNE_RESULT_DIR": "~/ray_results"}
"""Variables that are set when the program begins, unless they are: where Ray's programs look for their results."""

READ_BY_INIT = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_LOG_TO_DRIVER")
"""Variables that `ray.init` asks for again, as a program may set them itself."""

WAIT_MILLISECONDS = "KERNEL_RAY_WAIT_MILLISECONDS"
"""Set to 1 for programs of Ray before 0.7, whose `ray.wait(timeout=...)` is in milliseconds."""


def adopt_environment(environment: MutableMapping[str, str]) -> None:
    """Set kernel's variables from Ray's, and Ray's defaults, those that are not set."""
    for old, new in VARIABLES.items():
        value = environment.get(old)
        if value and new not in environment and value != "local":
            environment[new] = kernel_address(value) if old == "RAY_ADDRESS" else value
    if environment.get("RAY_DEBUG") == "0":
        environment.setdefault("PYTHONBREAKPOINT", "0")
    for name, value in DEFAULTS.items():
        environment.setdefault(name, value)


def kernel_address(address: str) -> str:
    """Return an address of Ray as kernel says it: "ray://HOST:PORT" is joined from outside."""
    return f"kernel://{address.removeprefix('ray://')}" if address.startswith("ray://") else address
