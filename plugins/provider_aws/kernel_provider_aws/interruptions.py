"""What EC2 announces: spot machines that it takes back, and maintenance that ends machines."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import Interruption

NOTICE_SECONDS = 120.0
"""How long before it takes a spot machine back EC2 says so."""
SOON_SECONDS = 3600.0
"""Maintenance later than in so many seconds is not told yet: it is announced weeks ahead."""
_MAINTENANCE = ("instance-retirement", "instance-stop", "instance-reboot", "system-reboot", "system-maintenance")
_OVER = ("[Completed]", "[Canceled]")
_log = structlog.get_logger("kernel.provider_aws")


class InterruptionWatch:
    """Tells each interruption once. `wall` returns seconds since the epoch, by which EC2 dates what it says."""

    def __init__(self, clients: Clients, has_spot: bool, wall: Callable[[], float]) -> None:
        self._clients = clients
        self._has_spot = has_spot
        self._wall = wall
        self._told: set[str] = set()
        self._failed = False

    def new(self, known: frozenset[str]) -> list[Interruption]:
        """Return what was announced for these machines since the last call.

        Where EC2 refuses to say it, nothing; a warning is logged once. Machines then end without a notice.
        """
        if not known:
            return []
        try:
            with translating("learn which machines will be taken away"):
                found = [*self._spot(), *self._maintenance()]
        except NodeProviderError as error:
            if not self._failed:
                _log.warning("interruptions are not known", problem=str(error))
            self._failed = True
            return []
        self._failed = False
        told = [one for one in found if one.id in known and one.id not in self._told]
        self._told = (self._told & known) | {one.id for one in told}
        return told

    def _spot(self) -> Iterator[Interruption]:
        if not self._has_spot:
            return
        filters = [{"Name": "status-code", "Values": ["marked-for-termination", "marked-for-stop"]}]
        pages = self._clients["ec2"].get_paginator("describe_spot_instance_requests").paginate(Filters=filters)
        for said in (request for page in pages for request in page["SpotInstanceRequests"]):
            left = NOTICE_SECONDS - (self._wall() - _seconds(said["Status"]["UpdateTime"]))
            yield Interruption(
                said.get("InstanceId", ""), max(0.0, left), said["Status"].get("Message") or "spot machine taken back"
            )

    def _maintenance(self) -> Iterator[Interruption]:
        filters = [{"Name": "event.code", "Values": list(_MAINTENANCE)}]
        pages = self._clients["ec2"].get_paginator("describe_instance_status").paginate(Filters=filters)
        for said in (status for page in pages for status in page["InstanceStatuses"]):
            for event in said.get("Events", ()):
                left = _seconds(event["NotBefore"]) - self._wall()
                if left <= SOON_SECONDS and not event.get("Description", "").startswith(_OVER):
                    yield Interruption(said["InstanceId"], max(0.0, left), f"{event['Code']}: {event['Description']}")


def _seconds(said: Any) -> float:
    moment: datetime.datetime = said
    return moment.timestamp()
