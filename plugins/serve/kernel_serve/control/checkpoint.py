"""The record of the controller's state, from which a restarted controller goes on: writing and reading it. Pure.

Specs hold the users' code and change rarely: each is kept by itself, under its digest. All else is one small record.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from kernel_serve.control.application_state import ApplicationState
from kernel_serve.control.attempts import SETTLED_SECONDS
from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.control.instructions import (
    DrainProxy,
    DrainReplica,
    Instruction,
    KillReplica,
    StartProxy,
    StartReplica,
)
from kernel_serve.control.proxy_states import DRAIN_SECONDS, DRAINING, IDLE_SECONDS, STARTING, ProxyState
from kernel_serve.control.replica_state import RUNNING, STOPPING, ReplicaState
from kernel_serve.control.replica_state import STARTING as REPLICA_STARTING
from kernel_serve.control.state import ServeState
from kernel_serve.values import ApplicationSpec, DeploymentSpec

FORMAT = 1


class Specs:
    """Specs by digest. The digest of each is computed once."""

    def __init__(self) -> None:
        self._digests: dict[int, tuple[DeploymentSpec, str]] = {}
        self.bytes: dict[str, bytes] = {}
        """The specs to write, pickled, by digest."""
        self.used: set[str] = set()

    def digest(self, spec: DeploymentSpec) -> str:
        """Return the digest of a spec, and mark it as used."""
        known = self._digests.get(id(spec))
        if known is None:
            data = cloudpickle.dumps(spec)
            known = (spec, hashlib.sha256(data).hexdigest()[:32])
            self._digests[id(spec)] = known  # It holds the spec, so no other object gets its id.
            self.bytes[known[1]] = data
        self.used.add(known[1])
        return known[1]

    def know(self, digest: str, data: bytes) -> DeploymentSpec:
        """Add a spec that was read as `data`; return it."""
        spec: DeploymentSpec = pickle.loads(data)
        self._digests[id(spec)] = (spec, digest)
        self.bytes[digest] = data
        return spec

    def begin(self) -> None:
        """Mark all specs as unused."""
        self.used = set()

    def drop_unused(self) -> None:
        """Forget the specs that were not used since `begin`."""
        self._digests = {key: known for key, known in self._digests.items() if known[1] in self.used}
        self.bytes = {digest: data for digest, data in self.bytes.items() if digest in self.used}


def record(state: ServeState, specs: Specs, epoch: float) -> bytes:
    """Return everything but the specs as bytes, and mark in `specs` those that belong to it.

    `epoch` is the time at which the clock of `state` was at 0, in seconds of a clock that a restarted controller
    shares.
    """
    specs.begin()
    kept = {
        "format": FORMAT,
        "applications": [_application(each, specs) for each in state.applications.values()],
        "deployments": [_deployment(each, specs) for each in state.deployments.values()],
        "scaling": {key: kept for key in state.deployments if (kept := state.scaling.saved(key, epoch))},
        "endpoints": dict(state.endpoints.by_hand),
        "wish": state.proxies.wish,
        "proxies": [
            (each.id, each.node, each.index, each.wish, each.phase, each.address, each.grpc_address)
            for each in state.proxies.proxies.values()
        ],
    }
    specs.drop_unused()
    return cloudpickle.dumps(kept)  # type: ignore[no-any-return]


def restore(
    state: ServeState,
    data: bytes,
    read: Callable[[str], DeploymentSpec],
    new_id: Callable[[str], str],
    now: float,
    epoch: float,
) -> list[Instruction]:
    """Fill an empty `state` from a `record`. Return instructions for what was begun, and may not have been carried out.

    `read` returns the spec of a digest; `epoch` is as for `record`. Replicas and proxies are taken to run still: checks
    of their health show whether they do.
    """
    kept = pickle.loads(data)
    for given in kept["applications"]:
        application = _restored_application(given, read)
        state.applications[application.name] = application
    out: list[Instruction] = []
    for given in kept["deployments"]:
        deployment = _restored_deployment(given, read, new_id, now)
        state.scaling.restore(deployment.spec, kept["scaling"].get(deployment.key, {}), now, epoch)
        state.deployments[deployment.key] = deployment
        out += _unfinished(deployment)
    state.endpoints.by_hand = kept["endpoints"]
    state.proxies.wish = kept["wish"]
    for id, node, index, wish, phase, address, grpc_address in kept["proxies"]:
        state.proxies.restore(ProxyState(id, node, index, wish, 1, phase, address, grpc_address, now, next_check=now))
        if phase == STARTING:
            out.append(StartProxy(id, node, index, wish.http, wish.grpc, resume=True))
        elif phase == DRAINING:
            out.append(DrainProxy(id, DRAIN_SECONDS, IDLE_SECONDS))
    return out


def _application(state: ApplicationState, specs: Specs) -> dict[str, Any]:
    return {
        "goal": _spec(state.goal, specs),
        "good": None if state.good is None else "goal" if state.good is state.goal else _spec(state.good, specs),
        "deployed": state.deployed,
        "deleting": state.deleting,
        "failure": state.failure,
    }


def _restored_application(kept: dict[str, Any], read: Callable[[str], DeploymentSpec]) -> ApplicationState:
    state = ApplicationState(_restored_spec(kept["goal"], read), kept["deployed"])
    if kept["good"] is not None:
        state.good = state.goal if kept["good"] == "goal" else _restored_spec(kept["good"], read)
    state.deleting, state.failure = kept["deleting"], kept["failure"]
    return state


def _spec(spec: ApplicationSpec, specs: Specs) -> tuple[Any, ...]:
    digests = tuple(specs.digest(each) for each in spec.deployments)
    return spec.name, spec.ingress, digests, spec.route_prefix, spec.is_backend


def _restored_spec(kept: tuple[Any, ...], read: Callable[[str], DeploymentSpec]) -> ApplicationSpec:
    name, ingress, digests, prefix, is_backend = kept
    return ApplicationSpec(name, ingress, tuple(read(digest) for digest in digests), prefix, is_backend)


def _deployment(state: DeploymentState, specs: Specs) -> dict[str, Any]:
    return {
        "spec": specs.digest(state.spec),
        "target": state.target,
        "prefix": state.route_prefix,
        "converged": state.converged,
        "converges_at": state.converges_at,
        "updating": state.updating,
        "deleting": state.deleting,
        "rolled_back": state.rolled_back,
        "replicas": [
            (each.id, specs.digest(each.spec), each.settings is state.spec.settings, each.number, each.phase,
             each.node, each.socket, each.rank, each.standing)
            for each in state.replicas.values()
        ],
    }  # fmt: skip


def _restored_deployment(
    kept: dict[str, Any], read: Callable[[str], DeploymentSpec], new_id: Callable[[str], str], now: float
) -> DeploymentState:
    state = DeploymentState(read(kept["spec"]), kept["target"], kept["prefix"], new_id)
    replicas = []
    for id, digest, of_now, number, phase, node, socket, rank, standing in kept["replicas"]:
        spec = read(digest)
        settings = state.spec.settings if of_now else spec.settings
        replica = ReplicaState(id, spec, settings, number, 1, now, rank, standing, phase, node, socket)
        replica.next_check, replica.ready_at = now, now - SETTLED_SECONDS
        replica.stop_by = now + settings.graceful_shutdown_timeout_s
        replicas.append(replica)
    state.restore(replicas, kept["converged"], now)
    state.converges_at, state.updating = kept["converges_at"], kept["updating"]
    state.deleting, state.rolled_back = kept["deleting"], kept["rolled_back"]
    return state


def _unfinished(state: DeploymentState) -> Iterator[Instruction]:
    settings = state.spec.settings
    for replica in state.replicas.values():
        if replica.phase == REPLICA_STARTING:
            yield StartReplica(replica.id, replica.spec, state.route_prefix, replica.standing, resume=True)
        elif replica.phase == STOPPING and replica.socket:
            yield DrainReplica(replica.id, settings.graceful_shutdown_wait_loop_s, settings.graceful_shutdown_timeout_s)
        elif replica.phase == STOPPING:
            yield KillReplica(replica.id)
        else:
            assert replica.phase == RUNNING
