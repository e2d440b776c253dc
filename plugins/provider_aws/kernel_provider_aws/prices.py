"""What spot machines cost now."""

from __future__ import annotations

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating


def spot_price(clients: Clients, instance_type: str, zones: tuple[str, ...]) -> float | None:
    """Return the least price per hour of a type in `zones` (all, if there are none) in US dollars; None: none is known.

    Raises NodeProviderError.
    """
    with translating(f"learn the spot price of {instance_type}"):
        pages = (
            clients["ec2"]
            .get_paginator("describe_spot_price_history")
            .paginate(
                InstanceTypes=[instance_type],
                ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
                PaginationConfig={"MaxItems": 1000},
            )
        )
        history = [said for page in pages for said in page["SpotPriceHistory"]]
    newest: dict[str, float] = {}
    for said in sorted(history, key=lambda said: said["Timestamp"]):
        if not zones or said["AvailabilityZone"] in zones:
            newest[said["AvailabilityZone"]] = float(said["SpotPrice"])
    return min(newest.values(), default=None)
