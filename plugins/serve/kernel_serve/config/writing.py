"""Write the configuration file of applications as they are in the code, with comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from kernel_serve.api.declared import Application
from kernel_serve.api.graph import flatten
from kernel_serve.config.values import plain, unlike_default
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AUTOMATIC, DeploymentSettings
from kernel_spec.dataclass import dataclass

_HEAD = """\
# What Serve is to run. Deploy it with `kernel serve deploy FILE`, again after each change.
# Whatever is not written here is as the code says, or as it is by default.

# Where requests come in: "EveryNode", "HeadOnly" or "Disabled".
proxy_location: EveryNode

http_options:
  host: 127.0.0.1  # 0.0.0.0 for requests from other machines
  port: 8000

# grpc_options:
#   port: 9000
#   grpc_servicer_functions: []  # import paths of add_..._to_server

# logging_config:
#   log_level: INFO

applications:
"""

_APPLICATION_NOTE = """\
    # args: {}  # for a function that builds the application
    # runtime_env: {}  # working_dir, py_modules, env_vars
"""


@dataclass(frozen=True, slots=True)
class Written:
    """Holds an application to write."""

    import_path: str
    application: Application
    name: str = "default"
    route_prefix: str | None = "/"
    args: Mapping[str, Any] | None = None


def write(applications: Sequence[Written]) -> str:
    """Return the text of a configuration file. Raises DeploymentError for values that YAML can't have."""
    return _HEAD + "\n".join(_application(each) for each in applications)


def _application(written: Written) -> str:
    spec = flatten(written.application, written.name, written.route_prefix)
    lines = [
        f"  - name: {_scalar(written.name)}",
        f"    route_prefix: {_scalar(spec.route_prefix)}  # null: HTTP does not reach it",
        f"    import_path: {_scalar(written.import_path)}",
    ]
    if written.args:
        lines.append(_indented({"args": plain(dict(written.args))}, 4).rstrip())
        lines.append(_APPLICATION_NOTE.splitlines()[1])
    else:
        lines += _APPLICATION_NOTE.splitlines()
    lines.append("    deployments:")
    for deployment in spec.deployments:
        if deployment.name == spec.ingress:
            lines.append("      # This one takes the requests from outside.")
        lines.append(f"      - name: {_scalar(deployment.name)}")
        settings = options_of(deployment.settings, deployment.name)
        lines.append(_indented(settings, 8).rstrip())
    return "\n".join(lines) + "\n"


def options_of(settings: DeploymentSettings, name: str) -> dict[str, Any]:
    """Return settings as a configuration file has them: the number of replicas, and what does not have its default."""
    found = unlike_default(settings)
    scaling = settings.autoscaling
    found.pop("autoscaling", None)
    found.pop("num_replicas", None)
    options: dict[str, Any] = {}
    if scaling is None:
        options["num_replicas"] = settings.num_replicas
    elif scaling == AUTOMATIC:
        options["num_replicas"] = "auto"
    else:
        options["autoscaling_config"] = {
            "min_replicas": scaling.min_replicas,
            "max_replicas": scaling.max_replicas,
            **unlike_default(scaling),
        }
        if callable(scaling.policy):
            options["autoscaling_config"]["policy"] = _import_path(scaling.policy, name)
    options["max_ongoing_requests"] = settings.max_ongoing_requests
    return {**options, **found}


def _import_path(policy: Any, name: str) -> str:
    qualified = getattr(policy, "__qualname__", "")
    module = getattr(policy, "__module__", "")
    if not qualified or "<" in qualified or module == "__main__":
        raise DeploymentError(
            f"deployment {name}: the autoscaling policy {policy!r} has no import path; move it to the top of a module"
        )
    return f"{module}:{qualified}"


def _indented(value: Mapping[str, Any], spaces: int) -> str:
    try:
        text = yaml.safe_dump(dict(value), sort_keys=False, default_flow_style=False, allow_unicode=True)
    except yaml.representer.RepresenterError as error:
        kind = type(error.args[1]).__name__ if len(error.args) > 1 else "value"
        raise DeploymentError(
            f"a configuration file can't hold a {kind} ({error.args[-1]!r}): keep it in the code"
        ) from None
    return "".join(" " * spaces + line + "\n" for line in text.splitlines())


def _scalar(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True).splitlines()[0]  # type: ignore[no-any-return]
