"""Go on where an earlier process of the controller stopped: from its record, and with the actors that it created."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import kernel
from kernel_serve.control import checkpoint
from kernel_serve.control.actor_driver import ActorDriver
from kernel_serve.control.instructions import Instruction
from kernel_serve.control.memory import ControllerMemory, epoch
from kernel_serve.control.proxy_driver import ProxyDriver
from kernel_serve.control.proxy_states import STARTING as PROXY_STARTING
from kernel_serve.control.replica_driver import ReplicaDriver
from kernel_serve.control.replica_state import RUNNING, STARTING
from kernel_serve.control.state import ServeState
from kernel_serve.values import NAMESPACE

_GONE = "its process ended while the controller was away"


async def recover(
    state: ServeState,
    memory: ControllerMemory,
    replicas: ReplicaDriver,
    proxies: ProxyDriver,
    new_id: Callable[[str], str],
) -> list[Instruction]:
    """Fill an empty `state` from the record, if there is one.

    Return instructions for what was begun, and may not have been carried out.

    Living actors that the record names are kept. Others are ended.
    """
    now = time.monotonic()
    data = await replicas.in_thread(memory.read)
    begun: list[Instruction] = []
    if data is not None:
        begun = await replicas.in_thread(checkpoint.restore, state, data, memory.read_spec, new_id, now, epoch())
        await asyncio.gather(_adopt_replicas(state, replicas), _adopt_proxies(state, proxies))
    await _end_strangers(replicas, {id for each in state.deployments.values() for id in each.replicas})
    await _end_strangers(proxies, set(state.proxies.proxies))
    return begun


async def _adopt_replicas(state: ServeState, driver: ReplicaDriver) -> None:
    known = [
        (deployment, replica) for deployment in state.deployments.values() for replica in deployment.replicas.values()
    ]
    for deployment, replica in known:
        if replica.spec.settings.placement_group_bundles:
            driver.bundle(replica.id)
        if replica.spec.settings.max_replicas_per_node and replica.node:
            driver.assign(replica.id, deployment.key, replica.node)
    there = [(deployment, replica) for deployment, replica in known if replica.phase != STARTING]
    found = await asyncio.gather(*[driver.adopt(replica.id) for _, replica in there])
    for (deployment, replica), lives in zip(there, found, strict=True):
        if not lives and replica.phase == RUNNING:
            deployment.failed(replica.id, _GONE, time.monotonic())


async def _adopt_proxies(state: ServeState, driver: ProxyDriver) -> None:
    there = [proxy for proxy in state.proxies.proxies.values() if proxy.phase != PROXY_STARTING]
    found = await asyncio.gather(*[driver.adopt(proxy.id) for proxy in there])
    for proxy, lives in zip(there, found, strict=True):
        if not lives:
            state.proxies.failed(proxy.id, _GONE, True, time.monotonic())


async def _end_strangers(driver: ActorDriver, known: set[str]) -> None:
    rows = await driver.in_thread(kernel.list_named_actors, True)
    prefix = driver.name_of("")
    names = [row["name"] for row in rows if row["namespace"] == NAMESPACE and row["name"].startswith(prefix)]
    await asyncio.gather(*[driver.end(id) for name in names if (id := name.removeprefix(prefix)) not in known])
