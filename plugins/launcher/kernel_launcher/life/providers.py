"""Make the node provider of a plan, and its head machine."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel.installing import install_command
from kernel.plugins import PluginManager
from kernel_launcher.errors import MachineError
from kernel_launcher.plan import HEAD, ClusterPlan
from kernel_launcher.steps.autoscaler_file import provider_options
from kernel_spec.errors import NodeProviderError, OptionError, PluginNotFoundError
from kernel_spec.providers import NodeProvider, ProvidedNode, takes_token

HEAD_SECONDS = 600.0
"""Seconds within which a provider's head machine must be reachable."""
_POLL_SECONDS = 2.0
MakeProvider = Callable[[str, dict[str, Any]], NodeProvider]


def make_provider(name: str, options: dict[str, Any]) -> NodeProvider:
    """Return the node provider called `name`. Raises PluginNotFoundError, with what installs it, where it is not."""
    try:
        manager = PluginManager.discover({"node_provider": name})
        provider: NodeProvider = manager.make("node_provider", options)
    except PluginNotFoundError:
        command = install_command(f"provider_{name}") or "no distribution of kernel brings it"
        raise PluginNotFoundError(f"there is no node provider {name!r} on this machine: {command}") from None
    return provider


def provider_for(plan: ClusterPlan, role: str, state: Path, make: MakeProvider) -> NodeProvider:
    """Return the plan's provider, for its head or for its workers. Raises OptionError for machines without SSH."""
    if plan.provider == "kubernetes":
        raise OptionError(
            "pods have no sshd, so `kernel up` can't make them a cluster; start the head in Kubernetes, with the node "
            "provider 'kubernetes', as docs/kubernetes.md says"
        )
    options = provider_options(plan, role)
    if plan.provider == "aws" and role == HEAD:
        options.setdefault("key_file", head_key(plan, state))
    return make(plan.provider, {"session": str(state), **options})


def head_key(plan: ClusterPlan, state: Path) -> str:
    """Return the private key for the head: the file's, or one that the provider makes, kept with the local state."""
    return plan.ssh.key or (str(state / "key.pem") if plan.provider == "aws" else "")


def head_machine(provider: NodeProvider) -> ProvidedNode | None:
    """Return the head's machine, if there is one. Raises NodeProviderError."""
    found = [one for one in provider.list() if one.kind == HEAD and one.state in ("starting", "running")]
    return found[0] if found else None


def await_head(provider: NodeProvider, state: Path, on_line: Callable[[str], None]) -> ProvidedNode:
    """Return the head's machine once it has an address: the one there is, or a new one.

    Raises NodeProviderError, or MachineError if it has none in time.
    """
    if head_machine(provider) is None:
        on_line(f"ask the provider {provider.name} for the head's machine")
        if takes_token(provider):
            provider.create(HEAD, 1, {}, token=_order_token(state))  # type: ignore[call-arg]
        else:
            provider.create(HEAD, 1, {})
    end = time.monotonic() + HEAD_SECONDS
    while time.monotonic() < end:
        for one in provider.list():
            if one.kind == HEAD and one.state == "failed":
                raise MachineError(f"the head's machine {one.id} has failed: {one.problem or 'no reason is given'}")
        machine = head_machine(provider)
        if machine is not None and machine.state == "running" and machine.address:
            return machine
        time.sleep(_POLL_SECONDS)
    raise MachineError(
        f"the head's machine had no address after {HEAD_SECONDS:g} s; `kernel up` goes on waiting for it"
    )


def _order_token(state: Path) -> str:
    """Return the token of the order of a head: the same until `forget_order`, so that no call is lost by a cut."""
    file = state / "head_order"
    if not file.exists():
        file.write_text(uuid.uuid4().hex)
    return file.read_text()


def forget_order(state: Path) -> None:
    """Let the next head be another machine."""
    (state / "head_order").unlink(missing_ok=True)


def end_all(provider: NodeProvider, on_line: Callable[[str], None], seconds: float = HEAD_SECONDS) -> int:
    """End all machines that a provider lists for a cluster, and wait until it lists none. Return how many it were.

    Raises MachineError, which names those that are left.
    """
    ended: set[str] = set()
    end = time.monotonic() + seconds
    while True:
        try:
            left = list(provider.list())
            running = [one.id for one in left if one.state != "stopping"]
            if running:
                on_line(f"end {', '.join(running)}")
                provider.terminate(running)
                ended.update(running)
        except NodeProviderError as error:
            if error.code in ("credentials", "invalid") or time.monotonic() >= end:
                raise
            left = []
            time.sleep(error.retry_after or _POLL_SECONDS)
            continue
        if not left:
            return len(ended)
        if time.monotonic() >= end:
            raise MachineError(
                f"after {seconds:g} s the provider {provider.name} still lists {', '.join(one.id for one in left)}; "
                "`kernel down` tries again"
            )
        time.sleep(_POLL_SECONDS)
