"""Providers for tests, which share their clients: to make those takes a second."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.provider import AwsProvider
from kernel_provider_aws.settings import read_settings

_numbers = itertools.count()
IMAGE = "ami-12c6146b"
JOIN = {"address": "10.0.0.1:6380", "token": "a-word-that-nobody-may-read"}


@cache
def clients(endpoint: str) -> Clients:
    """Return the clients that are used in all tests; `endpoint` is that of the server, for each has its own."""
    return Clients("us-west-2", None)


def configuration(**more: Any) -> dict[str, Any]:
    """Return a configuration of a cluster that no other test has."""
    return {
        "cluster_name": f"test-{next(_numbers)}",
        "session": tempfile.mkdtemp(),
        "kinds": {"small": {"InstanceType": "m5.large", "resources": {"CPU": 2}, "ImageId": IMAGE}},
        **more,
    }


def make_provider(given: Mapping[str, Any], endpoint: str = "") -> AwsProvider:
    """Return a provider with this configuration."""
    return AwsProvider(read_settings(given), clients(endpoint), time.monotonic, time.time)
