"""The node provider `gcp`: machines of Compute Engine."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_provider_gcp.credentials import SCOPE
from kernel_provider_gcp.join_secret import JoinSecret
from kernel_provider_gcp.launches import MachineLauncher
from kernel_provider_gcp.machine_types import resources_of
from kernel_provider_gcp.machines import CLUSTER, KIND, ROLE, TOKEN, MachineListing, node_of, zone_of
from kernel_provider_gcp.rest import GoogleRest
from kernel_provider_gcp.settings import GcpKind, GcpSettings, wrong
from kernel_provider_gcp.startup_script import startup_script
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import UNKNOWN, KindDetails, ProvidedNode

_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


class GcpProvider:
    """Makes and ends machines as `settings` say. `clock` returns seconds, `sleep` waits for some."""

    name = "gcp"

    def __init__(
        self,
        settings: GcpSettings,
        rest: GoogleRest,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._settings = settings
        self._rest = rest
        self._resources: dict[str, Mapping[str, float]] = {}
        self._machines = MachineListing(rest, settings)
        self._launcher = MachineLauncher(rest, settings, clock, sleep)
        self._secret = JoinSecret(rest, settings.project, settings.cluster)
        self._account = settings.service_account

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the kinds and their resources: those that were given, else what Google says of the machine type.

        Raises NodeProviderError.
        """
        for kind in self._settings.kinds.values():
            if kind.name not in self._resources:
                given = kind.resources
                self._resources[kind.name] = resources_of(self._rest, self._settings, kind) if given is None else given
        return {name: dict(self._resources[name]) for name in self._settings.kinds}

    def describe(self, kind: str) -> KindDetails:
        """Return what a kind costs, as configured. Raises NodeProviderError for an unknown one."""
        known = self._known(kind)
        zone = self._settings.zones[0] if len(self._settings.zones) == 1 else ""
        return KindDetails(known.price, known.is_spot, zone, known.node_labels, known.boot_seconds)

    def list(self) -> Sequence[ProvidedNode]:
        """Return the machines of the cluster and the role. Raises NodeProviderError."""
        return [node_of(said) for said in self._machines.found({})]

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Make up to `count` machines, and return their names; those of the same `token`, if any.

        With an empty `join` they start nothing, and are for a launcher to set up. Raises NodeProviderError.
        """
        known = self._known(kind)
        if count < 1:
            raise wrong(f"{count} machines of kind {kind!r} were asked for, not 1 up")
        own = self._own_token(token)
        names = [f"kernel-{self._settings.cluster}-{own}-{number}" for number in range(count)]
        there = {said["name"]: zone_of(said) for said in self._machines.found({TOKEN: own})} if token else {}
        missing = [name for name in names if name not in there]
        if missing:
            # What an earlier call has begun is carried on where that was.
            zones = list(there.values())[:1] or list(self._settings.zones)
            try:
                there |= dict.fromkeys(self._launcher.launch(known, missing, self._body(known, own, join), zones), "")
            except NodeProviderError as error:
                if not there or error.code == UNKNOWN:
                    raise
        return sorted(there)

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines. Unknown ids are ignored. Raises NodeProviderError."""
        wanted = [id for id in dict.fromkeys(ids) if _ID.fullmatch(id)]
        if wanted:
            zones = {said["name"]: zone_of(said) for said in self._machines.found({})}
            for id in wanted:
                if id in zones:
                    self._launcher.end(id, zones[id])

    def remove_all(self) -> None:
        """Remove what was made beside machines: the secret. Raises NodeProviderError."""
        self._secret.remove()

    def _body(self, kind: GcpKind, token: str, join: Mapping[str, Any]) -> dict[str, Any]:
        """Return what Google is told of a machine, its name and zone left out."""
        own = {CLUSTER: self._settings.cluster, ROLE: self._settings.role, KIND: kind.name, TOKEN: token}
        body = {**kind.body, "labels": {**self._settings.labels, **kind.body.get("labels", {}), **own}}
        if join:
            account = self._service_account()
            self._secret.write(join, account)
            body.setdefault("serviceAccounts", [{"email": account, "scopes": [SCOPE]}])
            script = startup_script(self._settings, self.kinds()[kind.name], kind.node_labels, self._secret.url)
            given = body.get("metadata", {}).get("items", [])
            if any(item["key"] == "startup-script" for item in given):
                raise wrong(f"kind {kind.name!r} has a startup-script, which the provider itself gives")
            body["metadata"] = {"items": [*given, {"key": "startup-script", "value": script}]}
        return body

    def _service_account(self) -> str:
        """Return the service account of machines: the one that was given, else the project's."""
        if not self._account:
            url = f"{self._rest.compute}/projects/{self._settings.project}"
            said = self._rest.call("learn the project's service account", "GET", url)
            self._account = said.get("defaultServiceAccount", "")
            if not self._account:
                raise wrong("the project has no default service account: give service_account")
        return self._account

    def _own_token(self, token: str) -> str:
        """Return a token of this session alone: another one of the same cluster counts its orders anew."""
        text = f"{self._settings.session or ''}/{self._settings.role}/{token or uuid.uuid4().hex}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _known(self, kind: str) -> GcpKind:
        if kind not in self._settings.kinds:
            raise wrong(f"there is no kind {kind!r}; the kinds are {', '.join(self._settings.kinds)}")
        return self._settings.kinds[kind]
