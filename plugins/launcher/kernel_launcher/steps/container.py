"""The container of a machine: begun once, begun anew when its image or options change."""

from __future__ import annotations

import shlex

from kernel_launcher.plan import HEAD, ClusterPlan
from kernel_launcher.steps.step import digest


def container_name(plan: ClusterPlan) -> str:
    """Return the name of this cluster's container on a machine: clusters on one machine never have one of them."""
    assert plan.container is not None
    return f"{plan.container.name}-{plan.key}"


def has_container(plan: ClusterPlan, role: str) -> bool:
    """Return whether commands of such a machine run in a container."""
    if plan.container is None:
        return False
    return bool(plan.container.head_image if role == HEAD else plan.container.worker_image)


def begin_container(plan: ClusterPlan, role: str, directory: str) -> str:
    """Return the command that sees to it that the container runs, with this image and these options.

    The machine's network and shared memory are the container's, so nodes are reached and objects are shared as without
    it. `directory`, with the token and the steps, is mounted at its own path. A container that is begun anew has
    nothing of what was set up in the one before, so these steps are forgotten.
    """
    assert plan.container is not None
    program, name = plan.container.program, shlex.quote(container_name(plan))
    image = plan.container.head_image if role == HEAD else plan.container.worker_image
    options = plan.container.head_options if role == HEAD else plan.container.worker_options
    where = shlex.quote(directory)
    label = f"kernel.cluster={digest(image, options)}"
    given = " ".join(options)  # as written: one entry may have several words
    run = (
        f"{program} run --detach --name {name} --label {label} --network host --ipc host "
        f"--volume {where}:{where} {given} --entrypoint sleep {shlex.quote(image)} infinity"
    )
    pull = f"{program} pull {shlex.quote(image)} && " if plan.container.pull else ""
    same = (
        f'{program} inspect --format "{{{{.State.Running}}}} {{{{index .Config.Labels \\"kernel.cluster\\"}}}}" {name}'
    )
    return (
        f"command -v {program} >/dev/null || {{ echo '{program} is not installed on this machine' >&2; exit 127; }}; "
        f'if [ "$({same} 2>/dev/null)" != "true {label.partition("=")[2]}" ]; then '
        f"rm -f {where}/steps/files-* {where}/steps/setup-* && {{ {program} rm --force {name} >/dev/null 2>&1; "
        f"{pull}{run} >/dev/null; }}; fi"
    )


def end_container(plan: ClusterPlan) -> str:
    """Return the command that removes the container of this cluster."""
    assert plan.container is not None
    return f"{plan.container.program} rm --force {shlex.quote(container_name(plan))} >/dev/null 2>&1 || true"
