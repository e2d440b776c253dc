"""The process of the autoscaler: it joins the session as a program, and runs until the service closes its input."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import kernel
from kernel_autoscaler.configuration import kinds_of, read_configuration, settings_of
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.requests import NAMESPACE
from kernel_autoscaler.shell.demand_follower import DemandFollower
from kernel_autoscaler.shell.loop import Loop
from kernel_autoscaler.shell.provider_calls import ProviderCalls
from kernel_spec.errors import OptionError


class Session:
    """The session that this process has joined, as the loop needs it."""

    def __init__(self) -> None:
        self._values = kernel.KeyValue(NAMESPACE)

    def demand(self) -> Mapping[str, Any]:
        """Return what the session needs and has."""
        return kernel.demand()

    def drain(self, node: str, seconds: float | None) -> None:
        """Let a node leave."""
        kernel.drain_node(node, seconds)

    def keep(self, node: str) -> None:
        """Cancel the drain of a node."""
        kernel.drain_node(node, cancel=True)

    def write(self, key: str, value: bytes) -> None:
        """Keep a value in the session's metadata."""
        self._values.put(key, value)

    def read(self, key: str) -> bytes | None:
        """Return a kept value."""
        return self._values.get(key)


def main() -> None:
    """Run the autoscaler that the first line of the input describes, until the input ends."""
    given = json.loads(sys.stdin.readline())
    configuration = read_configuration(given["config"])
    kernel.init(address=given["session"], namespace=NAMESPACE, log_to_driver=False)
    options = {"session": given["session"], **configuration.provider_options}
    provider = kernel.make_node_provider(configuration.provider, options)
    settings = settings_of(configuration, provider)
    # A later session of the same name must not order with tokens that its provider has seen.
    of_session = hashlib.sha256(given["session"].encode()).hexdigest()[:8]
    autoscaler = Autoscaler(kinds_of(configuration, provider), settings, f"{configuration.name}-{of_session}")
    begun = time.time() - time.monotonic()

    def clock() -> float:
        return begun + time.monotonic()

    loop = Loop(autoscaler, Session(), provider.name, clock)
    loop.calls = ProviderCalls(provider, _join(given["session"]), settings.repeats, loop.tell, clock)
    threading.Thread(target=_wait_for_the_end, args=(loop,), daemon=True).start()
    follower = DemandFollower(kernel.wait_for_demand, loop.look)
    follower.start()
    loop.run()
    follower.end()
    kernel.shutdown()


def _wait_for_the_end(loop: Loop) -> None:
    """The service has ended, or its process has died: then nobody else may run beside the next one."""
    sys.stdin.read()
    loop.end()


def _join(session: str) -> dict[str, Any]:
    """Return what a new node is told: where the head is, and the session's token."""
    (head,) = [row for row in kernel.nodes() if row["Alive"] and row["IsHead"]]
    if not head["NodeManagerPort"]:
        raise OptionError("the head has no port that nodes could join at: start it with `kernel start --head`")
    said = subprocess.run(
        [sys.executable, "-m", "kernel.cli.main", "token", session], capture_output=True, text=True, check=True
    )
    return {"address": f"{head['NodeManagerAddress']}:{head['NodeManagerPort']}", "token": said.stdout.strip()}


if __name__ == "__main__":
    main()
