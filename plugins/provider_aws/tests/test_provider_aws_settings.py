"""What may be configured, and what is said of what may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kernel_provider_aws.settings import read_settings
from kernel_provider_aws.user_data import start_arguments, user_data

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import INVALID
from plugins.provider_aws.tests.aws_providers import make_provider

KINDS = {"m5.large": {"ImageId": "ami-1", "resources": {"CPU": 2}}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "cluster_name must be up to 40 letters, digits, '-' and '_', not '': machines are found again by it"),
        ({"cluster_name": "a b"}, "cluster_name must be up to 40 letters"),
        ({"cluster_name": "a", "role": "/"}, "role must be up to 40 letters"),
        (
            {"clustername": "a"},
            "'clustername' is not an option of the node provider 'aws'; did you mean 'cluster_name'",
        ),
        ({"cluster_name": "a", "zones": "us-west-2a"}, "zones must be a list of texts, not 'us-west-2a'"),
        ({"cluster_name": "a", "user": 5}, "user must be a text, not 5"),
        ({"cluster_name": "a", "cache_stopped_nodes": 1}, "cache_stopped_nodes must be true or false, not 1"),
        ({"cluster_name": "a"}, 'kinds must name instance types: kinds = \\["m5.large"\\]'),
        ({"cluster_name": "a", "kinds": {"k": {}}}, "kind 'k' has no ImageId: give an AMI with kernel installed, or"),
        ({"cluster_name": "a", "kinds": {"k": {"MaxCount": 2}}}, "kind 'k' has MaxCount, which the provider itself"),
        ({"cluster_name": "a", "kinds": {"k": {"labls": {}}}}, "'labls' is not a setting of kind 'k' .*mean 'labels'"),
        (
            {"cluster_name": "a", "kinds": {"k": {"ImageId": "ami-1", "price": "1"}}},
            "the price of kind 'k' must be a number, zero or more, not '1'",
        ),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(NodeProviderError, match=f"^node provider 'aws': {said}") as caught:
        read_settings(given)
    assert caught.value.code == INVALID


def test_settings_that_ec2_does_not_have_are_named() -> None:
    given = {
        "cluster_name": "a",
        "region": "us-west-2",
        "kinds": {"k": {"ImageId": "i", "Keyname": "x", "resources": {}}},
    }
    with pytest.raises(NodeProviderError, match="'Keyname' in kind 'k' is no setting of RunInstances; .* 'KeyName'?"):
        make_provider(given, "none").kinds()


def test_a_kind_has_what_is_common_and_its_own() -> None:
    given = {
        "cluster_name": "a",
        "node_config": {"ImageId": "ami-1", "SubnetIds": ["s-1", "s-2"]},
        "kinds": {"k": {"InstanceType": "m5.large", "ImageId": "ami-2", "labels": {"a": "b"}, "boot_seconds": 30}},
        "key_file": "~/key",
        "session": "/tmp/x",
    }
    settings = read_settings(given)
    kind = settings.kinds["k"]
    assert (kind.launch, kind.subnets) == ({"InstanceType": "m5.large", "ImageId": "ami-2"}, ("s-1", "s-2"))
    assert (kind.labels, kind.boot_seconds, kind.is_spot) == ({"a": "b"}, 30.0, False)
    assert settings.key_file == Path.home() / "key" and settings.session == Path("/tmp/x/provider_aws")


def test_a_node_has_the_resources_that_its_kind_promises() -> None:
    assert start_arguments({"CPU": 2.0, "memory": 1e9, "disk": 3}, {"a": "b", "c": "d"}) == [
        "--num-cpus", "2", "--num-gpus", "0", "--memory", "1000000000", "--resources", '{"disk": 3}',
        "--labels", "a=b,c=d",
    ]  # fmt: skip


def test_too_much_user_data_is_refused() -> None:
    start = read_settings({"cluster_name": "a", "kinds": KINDS, "setup_commands": ["echo " + "x" * 16384]}).start
    with pytest.raises(NodeProviderError, match="the user data of a machine is .* put setup_commands into the image"):
        user_data(start, {"CPU": 2}, {}, "/kernel/a/join", "us-west-2")
