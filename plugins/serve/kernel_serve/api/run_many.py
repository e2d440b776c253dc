"""Run several applications at once."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_serve.api import run as api
from kernel_serve.api.declared import UNSET, Application
from kernel_serve.api.graph import flatten, unchanged
from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.api.log_default import with_default
from kernel_serve.api.run_forever import run_forever
from kernel_serve.api.runtime_environments import RuntimeEnvironments
from kernel_serve.errors import DeploymentError
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True)
class RunTarget:
    """An application for `run_many`. `route_prefix` is as for `run`."""

    target: Application
    name: str = api.DEFAULT_APPLICATION
    route_prefix: str | None = UNSET


def run_many(
    targets: Sequence[RunTarget], blocking: bool = False, wait_for_applications_running: bool = True
) -> list[DeploymentHandle]:
    """Deploy applications, all or none; wait until they take requests, and return handles to their ingresses.

    `blocking` waits until Ctrl-C (or SIGTERM), and deletes them then. Raises DeploymentError for an application that
    can't be deployed, and DeployFailedError for one that can't be made to run.
    """
    if not targets:
        raise DeploymentError("serve.run_many takes at least one RunTarget(app, name, route_prefix)")
    api.start()
    around = RuntimeEnvironments(with_default(unchanged))
    specs = [flatten(each.target, each.name, api.route_of(each.target, each.route_prefix), around) for each in targets]
    api.deploy(specs)
    if wait_for_applications_running:
        for spec in specs:
            api.wait_until_running(spec.name)
    if blocking:
        run_forever()
        for spec in specs:
            api.delete(spec.name)
    return [DeploymentHandle(spec.ingress, spec.name) for spec in specs]
