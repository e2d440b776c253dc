"""The node provider `kubernetes`: each node is a pod, and the names and labels of pods are all that it remembers."""

from __future__ import annotations

import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_provider_kubernetes.api_errors import ApiServerError
from kernel_provider_kubernetes.api_server import ApiServer
from kernel_provider_kubernetes.options import WHERE, access_in, options_of
from kernel_provider_kubernetes.pod_states import interruption_of, no_room_of, node_of
from kernel_provider_kubernetes.pod_watch import PodWatch
from kernel_provider_kubernetes.pods import CLUSTER, KIND, ORDER, order_of, pod_names, pod_of, secret_name, secret_of
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, INVALID, QUOTA, Interruption, KindDetails, ProvidedNode


class KubernetesProvider:
    """Makes and removes pods. `configuration` is described in the README of this distribution.

    `clock` returns seconds since the epoch, `monotonic` seconds that never go back. Raises NodeProviderError for what
    is wrong in the configuration, and where no API server is configured; none is called before it is needed.
    """

    name = "kubernetes"

    def __init__(
        self,
        configuration: Mapping[str, Any],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options_of(configuration)
        self._clock = clock
        access = access_in(configuration, clock)
        self._server = ApiServer(access)
        self._namespace = f"/api/v1/namespaces/{access.namespace}"
        self._path = f"{self._namespace}/pods"
        self._watch = PodWatch(access, self._path, f"{CLUSTER}={self._options.cluster}", monotonic)
        self._joined_with = ""
        self._ended: set[str] = set()
        self._told: set[str] = set()
        weakref.finalize(self, self._watch.stop)

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the configured kinds, with the resources that their nodes have."""
        return {name: dict(kind.resources) for name, kind in self._options.kinds.items()}

    def describe(self, kind: str) -> KindDetails:
        """Return what was configured of a kind. Raises NodeProviderError for an unknown one."""
        self._check(kind)
        return self._options.kinds[kind].details

    def list(self) -> Sequence[ProvidedNode]:
        """Return the pods of this cluster, with what is wrong with those that failed. Raises NodeProviderError."""
        now, seconds = self._clock(), self._options.unschedulable_seconds
        return [node_of(pod, now, seconds) for pod in self._watch.pods()]

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Make `count` pods whose nodes join with `join`, and return their names; those of the same `token`, if any.

        Where a quota ends before all are made, those that were made are returned. Raises NodeProviderError for an
        unknown kind, a count below one, a kind for which there is no room, and where the API server refuses.
        """
        self._check(kind)
        if count < 1:
            raise NodeProviderError(f"{count} pods of kind {kind!r} were asked for, not 1 up", code=INVALID)
        token = token or uuid.uuid4().hex
        self._check_room(kind, token)
        self._write_secret(str(join["token"]))
        made: list[str] = []
        for name in pod_names(self._options.cluster, kind, token, count):
            try:
                self._make(kind, name, token, str(join["address"]))
            except NodeProviderError as error:
                if made and error.code == QUOTA:
                    break
                raise
            made.append(name)
        return made

    def terminate(self, ids: Sequence[str]) -> None:
        """Begin to remove pods of this cluster; others are left alone. With the last one its secret is removed.

        Raises NodeProviderError where the API server refuses.
        """
        if not ids:
            return
        pods = {pod["metadata"]["name"]: pod for pod in self._watch.pods()}
        if not set(ids) <= pods.keys():
            self._watch.refresh()
            pods = {pod["metadata"]["name"]: pod for pod in self._watch.known()}
        for id in dict.fromkeys(ids):
            if id in pods:
                self._remove(pods.pop(id))
        if all(pod["metadata"].get("deletionTimestamp") for pod in pods.values()):
            self._remove_secret()

    def events(self) -> Sequence[Interruption]:
        """Return which pods others have begun to take away since the last call, as far as the watch has told."""
        now, found = self._clock(), []
        pods = self._watch.known()
        for pod in pods:
            name, uid = pod["metadata"]["name"], str(pod["metadata"].get("uid"))
            said = interruption_of(pod, now)
            if said is not None and uid not in self._told and name not in self._ended:
                self._told.add(uid)
                found.append(said)
        self._told &= {str(pod["metadata"].get("uid")) for pod in pods}
        self._ended &= {pod["metadata"]["name"] for pod in pods}
        return found

    def close(self) -> None:
        """End the watch. Pods stay."""
        self._watch.stop()

    # -- one step each -----------------------------------------------------------------------------------------------

    def _check(self, kind: str) -> None:
        if kind not in self._options.kinds:
            known = ", ".join(self._options.kinds)
            raise NodeProviderError(f"{WHERE} has no kind {kind!r}; it has {known}", code=INVALID)

    def _check_room(self, kind: str, token: str) -> None:
        """Raise NodeProviderError while a pod of this kind finds no room for too long: another would find none, too."""
        order, limit = order_of(token), self._options.unschedulable_seconds
        for pod in self._watch.pods():
            labels = pod["metadata"].get("labels") or {}
            if labels.get(KIND) != kind or labels.get(ORDER) == order or pod["metadata"].get("deletionTimestamp"):
                continue
            no_room = no_room_of(pod, self._clock())
            if no_room is not None and no_room.seconds >= limit:
                raise NodeProviderError(
                    f"Kubernetes has no room for pods of kind {kind!r}: {no_room.reason}", code=CAPACITY
                )

    def _make(self, kind: str, name: str, token: str, address: str) -> None:
        pod = pod_of(self._options, self._options.kinds[kind], name, token, address)
        try:
            self._watch.take(self._server.create(self._path, pod))
        except ApiServerError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            there = self._server.get(f"{self._path}/{name}")
            if (there["metadata"].get("labels") or {}).get(ORDER) != order_of(token):
                raise NodeProviderError(
                    f"there is a pod {name!r} already that this cluster has not made: choose another cluster name",
                    code=INVALID,
                ) from None
            self._watch.take(there)

    def _remove(self, pod: Mapping[str, Any]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self._ended.add(name)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        try:
            answer = self._server.delete(f"{self._path}/{name}", body)
        except ApiServerError as error:
            if error.status not in (404, 409):  # It is gone, or another one has its name meanwhile.
                raise
            self._watch.refresh()
            return
        if answer.get("kind") == "Pod":
            self._watch.take(answer)

    def _write_secret(self, token: str) -> None:
        if self._joined_with == token:
            return
        secret = secret_of(self._options, token)
        try:
            self._server.create(f"{self._namespace}/secrets", secret)
        except ApiServerError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            self._server.change(f"{self._namespace}/secrets/{secret_name(self._options.cluster)}", secret)
        self._joined_with = token

    def _remove_secret(self) -> None:
        self._joined_with = ""
        try:
            self._server.delete(f"{self._namespace}/secrets/{secret_name(self._options.cluster)}")
        except ApiServerError as error:
            if error.status != 404:
                raise
