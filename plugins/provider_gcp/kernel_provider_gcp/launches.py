"""Make machines: one Instance for each, zone after zone, named by the order's token so that none is made twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_provider_gcp.errors import GoogleError, failed
from kernel_provider_gcp.rest import GoogleRest
from kernel_provider_gcp.settings import GcpKind, GcpSettings
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY

WAIT_SECONDS, PAUSE_SECONDS = 20.0, 1.0
"""Seconds for which operations are watched: whether a zone has capacity, they say only after a while."""
_NETWORK = {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]}
_SPACE = uuid.UUID("5c7b6c9e-61f4-4c0b-9d4a-3b8b2f6e7a10")


class MachineLauncher:
    """Makes machines of a cluster. `clock` returns seconds, `sleep` waits for some."""

    def __init__(
        self,
        rest: GoogleRest,
        settings: GcpSettings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._rest = rest
        self._settings = settings
        self._clock = clock
        self._sleep = sleep

    def launch(self, kind: GcpKind, names: list[str], body: Mapping[str, Any], zones: Iterable[str]) -> list[str]:
        """Make the machines in the first of `zones` that has any; return the names of those that are being made.

        A machine that is there already is not made again. Raises NodeProviderError.
        """
        problems: list[str] = []
        for zone in zones:
            made, errors = self._in_zone(kind, names, body, zone)
            if made:
                return made
            if errors[0].code != CAPACITY:
                raise errors[0]
            problems.append(f"{zone}: {errors[0]}")
        raise NodeProviderError(
            f"Google: can't make {len(names)} machines of kind {kind.name!r}: {'; '.join(problems)}", code=CAPACITY
        )

    def end(self, name: str, zone: str) -> None:
        """End a machine; one that is not there is ended. Raises GoogleError."""
        try:
            self._rest.call(f"end the machine {name}", "DELETE", f"{self._zone(zone)}/instances/{name}")
        except GoogleError as error:
            if error.status != 404:
                raise

    def _in_zone(
        self, kind: GcpKind, names: list[str], body: Mapping[str, Any], zone: str
    ) -> tuple[list[str], list[GoogleError]]:
        """Return the machines that are being made in a zone, and why others are not."""
        operations: dict[str, dict[str, Any]] = {}
        errors: list[GoogleError] = []
        for name in names:
            try:
                operations[name] = self._insert(kind, name, body, zone)
            except GoogleError as error:
                if error.status == 0 or error.status >= 500:
                    raise  # it may have been made: the next call finds it
                errors.append(error)
                break
        self._watch(operations, zone)
        for name, operation in list(operations.items()):
            error_of = failed(f"make a machine of kind {kind.name!r} in {zone}", operation)
            if error_of is not None:
                errors.append(error_of)
                del operations[name]
        return list(operations), errors

    def _insert(self, kind: GcpKind, name: str, body: Mapping[str, Any], zone: str) -> dict[str, Any]:
        """Begin to make a machine; return the operation, {} if the machine is there."""
        request = str(uuid.uuid5(_SPACE, f"{self._settings.project}/{zone}/{name}"))
        what = f"make a machine of kind {kind.name!r} in {zone}"
        try:
            return self._rest.call(
                what, "POST", f"{self._zone(zone)}/instances", self._instance(name, body, zone), requestId=request
            )
        except GoogleError as error:
            if error.status == 409:
                return {}
            raise

    def _instance(self, name: str, body: Mapping[str, Any], zone: str) -> dict[str, Any]:
        found = {"networkInterfaces": [_NETWORK], **body, "name": name}
        if "/" not in found["machineType"]:
            found["machineType"] = f"zones/{zone}/machineTypes/{found['machineType']}"
        scheduling = dict(found.get("scheduling", {}))
        if found.get("guestAccelerators"):
            found["guestAccelerators"] = [_in(one, zone) for one in found["guestAccelerators"]]
            scheduling.setdefault("onHostMaintenance", "TERMINATE")
        if scheduling.get("provisioningModel") == "SPOT":
            scheduling.setdefault("instanceTerminationAction", "DELETE")
        return {**found, **({"scheduling": scheduling} if scheduling else {})}

    def _watch(self, operations: dict[str, dict[str, Any]], zone: str) -> None:
        """Wait until all operations have ended, `WAIT_SECONDS` at most; a failed look changes nothing."""
        deadline = self._clock() + WAIT_SECONDS
        while self._clock() < deadline:
            going = [name for name, one in operations.items() if one and one.get("status") != "DONE"]
            if not going:
                return
            self._sleep(PAUSE_SECONDS)
            for name in going:
                url = f"{self._zone(zone)}/operations/{operations[name]['name']}"
                try:
                    operations[name] = self._rest.call("learn whether machines are made", "GET", url)
                except GoogleError:
                    continue

    def _zone(self, zone: str) -> str:
        return f"{self._rest.compute}/projects/{self._settings.project}/zones/{zone}"


def _in(accelerator: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """Return an accelerator with the path of its type in a zone."""
    name = str(accelerator["acceleratorType"])
    return {**accelerator, "acceleratorType": name if "/" in name else f"zones/{zone}/acceleratorTypes/{name}"}
