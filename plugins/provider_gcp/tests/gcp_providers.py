"""Providers for tests."""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from kernel_provider_gcp.provider import GcpProvider
from kernel_provider_gcp.rest import GoogleRest
from kernel_provider_gcp.settings import read_settings

from kernel.conformance.provider_adversity import adversity
from plugins.provider_gcp.tests.google_stand_in import PROJECT, GoogleStandIn, error

ZONES = ["us-west1-a", "us-west1-b", "us-west1-c"]
JOIN = {"address": "10.0.0.1:6380", "token": "a-word-that-nobody-may-read"}
KIND = {"machineType": "n2-standard-4", "image": "projects/a/global/images/b", "resources": {"CPU": 4}}
_numbers = itertools.count()


class GivenToken:
    """Credentials that need nobody."""

    def token(self) -> str:
        """Return the token that the stand-in wants."""
        return "a-token"


def configuration(**more: Any) -> dict[str, Any]:
    """Return a configuration of a cluster that no other test has."""
    return {
        "cluster_name": f"test-{next(_numbers)}",
        "project": PROJECT,
        "zones": ZONES,
        "session": tempfile.mkdtemp(),
        "kinds": {"small": KIND},
        **more,
    }


def make_provider(
    google: GoogleStandIn, given: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
) -> GcpProvider:
    """Return a provider that talks to the stand-in, and does not wait between its looks."""
    rest = GoogleRest(GivenToken(), f"http://{google.address}/compute/v1", f"http://{google.address}/v1")
    return GcpProvider(read_settings(given), rest, clock, lambda seconds: None)


def run(google: GoogleStandIn, seed: int) -> list[str]:
    """Run the provider over a cloud that fails in each call, and return what is wrong."""
    google.forget()
    dice = random.Random(seed)
    dead: set[str] = set()

    def fail(method: str, given: dict[str, str]) -> Any:
        if method == "compute.instances.insert" and dice.random() < 0.2:
            dead.symmetric_difference_update([given["zone"]])
        if method.startswith("compute.instances"):
            listing = method.endswith("List")
            what = dice.choices(["lose", "drop", "slow", ""], [2, 1, 1, 60 if listing else 12])[0]
            return error(403, "rateLimitExceeded") if what == "slow" else what
        return ""

    google.fail, google.no_capacity = fail, dead.__contains__
    google.boot_seconds, google.looks_needed, google.page_size = 30.0, 2, 2
    kinds = {"small": KIND, "spot": {**KIND, "scheduling": {"provisioningModel": "SPOT"}}}
    given = configuration(kinds=kinds)

    def make(clock: Callable[[], float]) -> GcpProvider:
        google.clock = clock
        return make_provider(google, given, clock)

    try:
        return [*adversity(make, google.living, seed), *google.problems]
    finally:
        google.clock = time.monotonic
        google.forget()
