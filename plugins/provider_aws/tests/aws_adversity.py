"""Runs of the provider over a cloud that fails in each call, and whose answers get lost on their way."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from typing import Any

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.provider import AwsProvider
from kernel_provider_aws.settings import read_settings

from kernel.conformance.provider_adversity import adversity
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn

IMAGE = "ami-12c6146b"
_LAUNCH = {"ImageId": IMAGE, "IamInstanceProfile": {"Name": "given"}, "SecurityGroupIds": ["sg-1"]}
KINDS = {
    "small": {"InstanceType": "m5.large", "resources": {"CPU": 2}, **_LAUNCH},
    "spot": {
        "InstanceType": "m5.xlarge", "resources": {"CPU": 4}, "InstanceMarketOptions": {"MarketType": "spot"}, **_LAUNCH
    },
}  # fmt: skip


def run(ec2: Ec2StandIn, clients: Clients, seed: int) -> list[str]:
    """Run one seed, and return what is wrong."""
    ec2.forget()
    dice = random.Random(seed)
    dead_zones: set[str] = set()

    def fail(action: str, given: dict[str, str]) -> str:
        if action == "RunInstances":
            subnet = given.get("SubnetId", "")
            if dice.random() < 0.2:
                dead_zones.symmetric_difference_update([subnet])
            if subnet in dead_zones:
                return "InsufficientInstanceCapacity"
            return str(dice.choices(["lose", "drop", "RequestLimitExceeded", ""], [2, 1, 1, 8])[0])
        if action in ("TerminateInstances", "StopInstances", "StartInstances"):
            return str(dice.choices(["lose", "drop", "RequestLimitExceeded", ""], [1, 1, 1, 9])[0])
        return "RequestLimitExceeded" if dice.random() < 0.03 else ""

    ec2.fail = fail
    ec2.lag_seconds, ec2.pending_seconds, ec2.page_size = 20.0, 30.0, 2
    given: dict[str, Any] = {
        "cluster_name": f"adversity-{seed}",
        "session": tempfile.mkdtemp(),
        "kinds": KINDS,
    }

    def make(clock: Callable[[], float]) -> AwsProvider:
        ec2.clock = clock
        return AwsProvider(read_settings(given), clients, clock, time.time)

    try:
        return adversity(make, lambda: [one["InstanceId"] for one in ec2.living()], seed)
    finally:
        ec2.clock = time.monotonic
        ec2.forget()
