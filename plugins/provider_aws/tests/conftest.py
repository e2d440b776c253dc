"""A stand-in for EC2, and providers that talk to it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import boto3
import pytest

from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn


@pytest.fixture(scope="session")
def ec2_server() -> Iterator[Ec2StandIn]:
    """Start a server for all tests."""
    server = Ec2StandIn(time.monotonic)
    yield server
    server.stop()


@pytest.fixture
def ec2(ec2_server: Ec2StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2StandIn]:
    """Say in the environment where the server is; no machine lives before and after the test."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret-word",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_ENDPOINT_URL": ec2_server.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    ec2_server.forget()
    yield ec2_server
    ec2_server.forget()
    ids = [one["InstanceId"] for one in ec2_server.living()]
    if ids:
        client = boto3.client("ec2")
        client.terminate_instances(InstanceIds=ids)
        client.close()
