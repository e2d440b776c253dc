"""What EC2 is asked for when machines are made, and what follows from its answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN
from plugins.provider_aws.tests.aws_providers import IMAGE, JOIN, clients, configuration, make_provider
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn


def kind(**more: Any) -> dict[str, Any]:
    """Return a configuration with one kind, with these settings besides."""
    return {"small": {"InstanceType": "m5.large", "resources": {"CPU": 2}, "ImageId": IMAGE, **more}}


def values(asked: dict[str, str], prefix: str) -> dict[str, str]:
    """Return the tags of an order of machines."""
    names = [name for name in asked if name.startswith(prefix) and name.endswith(".Key")]
    return {asked[name]: asked[name.removesuffix("Key") + "Value"] for name in names}


def test_a_machine_knows_its_cluster_and_how_to_join_and_no_secret(ec2: Ec2StandIn) -> None:
    given = configuration(setup_commands=["echo ready"], user="ubuntu", tags={"team": "x"}, start_options=["--block"])
    provider = make_provider(given)
    ids = provider.create("small", 2, JOIN, token="order-1")
    (asked,) = ec2.asked
    name = given["cluster_name"]
    tags = values(asked, "TagSpecification.1.")
    assert tags.pop("kernel-token") and tags.pop("kernel-launch")
    assert tags == {
        "Name": f"kernel-{name}-node",
        "team": "x",
        "kernel-cluster": name,
        "kernel-role": "node",
        "kernel-kind": "small",
    }
    assert asked["MetadataOptions.HttpTokens"] == "required" and asked["MaxCount"] == "2"
    assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert asked["IamInstanceProfile.Name"] == f"kernel-{name}-us-west-2"
    data = base64.b64decode(asked["UserData"]).decode()
    assert JOIN["token"] not in data and JOIN["address"] not in data and f"/kernel/{name}/join" in data
    assert "scripts-user, always" in data and "(set -e\necho ready\n)" in data and '"user": "ubuntu"' in data
    said = clients("")["ssm"].get_parameter(Name=f"/kernel/{name}/join", WithDecryption=True)["Parameter"]
    assert json.loads(said["Value"]) == JOIN and said["Type"] == "SecureString"
    group = clients("")["ec2"].describe_security_groups(GroupIds=[asked["SecurityGroupId.1"]])["SecurityGroups"][0]
    (among,) = group["IpPermissions"]
    assert group["GroupName"] == f"kernel-{name}" and among["IpProtocol"] == "-1" and not among["IpRanges"]
    assert [pair["GroupId"] for pair in among["UserIdGroupPairs"]] == [group["GroupId"]]
    role = clients("")["iam"].get_role_policy(RoleName=f"kernel-{name}-us-west-2", PolicyName="kernel-join")
    (allowed,) = role["PolicyDocument"]["Statement"]
    assert allowed["Action"] == "ssm:GetParameter"
    assert allowed["Resource"] == f"arn:aws:ssm:us-west-2:*:parameter/kernel/{name}/join"
    provider.terminate(ids)
    make_provider(given).create("small", 1, JOIN)  # what is there already is used
    assert ec2.asked[-1]["SecurityGroupId.1"] == group["GroupId"]


def test_what_was_made_beside_machines_can_be_removed(ec2: Ec2StandIn) -> None:
    given = configuration(ssh_from=["192.0.2.0/24"])
    provider = make_provider(given)
    provider.terminate(provider.create("small", 1, JOIN))
    groups = [{"Name": "group-name", "Values": [f"kernel-{given['cluster_name']}"]}]
    (group,) = clients("")["ec2"].describe_security_groups(Filters=groups)["SecurityGroups"]
    ports = {(one.get("FromPort"), *(each["CidrIp"] for each in one["IpRanges"])) for one in group["IpPermissions"]}
    assert (22, "192.0.2.0/24") in ports
    provider.remove_all()
    provider.remove_all()
    assert not clients("")["ec2"].describe_security_groups(Filters=groups)["SecurityGroups"]
    assert not clients("")["ssm"].get_parameters(Names=[f"/kernel/{given['cluster_name']}/join"])["Parameters"]


def test_a_machine_for_a_launcher_starts_nothing(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration(role="head"))
    provider.create("small", 1, {})
    assert "UserData" not in ec2.asked[0] and "IamInstanceProfile.Name" not in ec2.asked[0]
    assert [node.labels["kernel-role"] for node in provider.list()] == ["head"]


def test_clusters_and_roles_of_one_account_never_meet(ec2: Ec2StandIn) -> None:
    given = configuration()
    made = make_provider(given).create("small", 1, {})
    assert [node.id for node in make_provider(given).list()] == list(made)
    assert list(make_provider(configuration()).list()) == []
    assert list(make_provider({**given, "role": "head"}).list()) == []


def test_a_token_of_another_session_is_another_order(ec2: Ec2StandIn) -> None:
    given = configuration()
    first = make_provider(given).create("small", 1, {}, token="kernel-1")
    assert make_provider(given).create("small", 1, {}, token="kernel-1") == list(first)
    assert make_provider({**given, "session": "/another"}).create("small", 1, {}, token="kernel-1") != list(first)


def test_zones_are_tried_in_turn(ec2: Ec2StandIn) -> None:
    answers = ["InsufficientInstanceCapacity", "Unsupported"]
    ec2.fail = lambda action, given: answers.pop() if answers and action == "RunInstances" else ""
    provider = make_provider(configuration(zones=["us-west-2c", "us-west-2a", "us-west-2b"]))
    provider.create("small", 1, {})
    (used,) = {one["Placement"]["AvailabilityZone"] for one in ec2.living()}
    assert used == "us-west-2b" and ec2.calls["RunInstances"] == 3
    ec2.fail = lambda action, given: "InsufficientInstanceCapacity" if action == "RunInstances" else ""
    with pytest.raises(NodeProviderError, match="can't make 1 machines of kind 'small': subnet-.*; subnet-") as caught:
        provider.create("small", 1, {})
    assert caught.value.code == CAPACITY


def test_an_order_whose_answer_got_lost_is_repeated_in_its_zone(ec2: Ec2StandIn) -> None:
    given, answers = configuration(), ["InsufficientInstanceCapacity", "lose"]
    ec2.fail = lambda action, given: answers.pop(0) if answers and action == "RunInstances" else ""
    with pytest.raises(NodeProviderError, match="can't make 2 machines of kind 'small'") as caught:
        make_provider(given).create("small", 2, {}, token="order-1")
    assert caught.value.code == UNKNOWN
    ec2.answers["DescribeInstances"] = "<reservationSet/>"  # EC2 does not list them yet
    again = make_provider(given).create("small", 2, {}, token="order-1")
    del ec2.answers["DescribeInstances"]
    assert sorted(again) == sorted(one["InstanceId"] for one in ec2.living())


def test_an_order_that_changed_meanwhile_makes_nothing_more(ec2: Ec2StandIn) -> None:
    given = configuration()
    made = make_provider(given).create("small", 1, {}, token="order-1")
    changed = {**given, "kinds": kind(EbsOptimized=True)}
    assert make_provider(changed).create("small", 1, {}, token="order-1") == list(made)
    ec2.answers["DescribeInstances"] = "<reservationSet/>"
    with pytest.raises(NodeProviderError, match="AWS knows this order of 'small' with other settings, and lists no"):
        make_provider(changed).create("small", 1, {}, token="order-1")


def test_fewer_machines_than_asked_for_are_better_than_none(ec2: Ec2StandIn) -> None:
    ec2.room = 2
    assert len(make_provider(configuration()).create("small", 5, {})) == 2


@pytest.mark.parametrize(
    ("said", "code", "pause"),
    [
        ("InsufficientInstanceCapacity", CAPACITY, None),
        ("SpotMaxPriceTooLow", CAPACITY, None),
        ("VcpuLimitExceeded", QUOTA, None),
        ("MaxSpotInstanceCountExceeded", QUOTA, None),
        ("UnauthorizedOperation", CREDENTIALS, None),
        ("ExpiredToken", CREDENTIALS, None),
        ("RequestLimitExceeded", THROTTLED, 5.0),
        ("InvalidAMIID.NotFound", INVALID, None),
        ("UnknownParameter", INVALID, None),
        ("InternalError", UNKNOWN, None),
        ("drop", UNKNOWN, None),
    ],
)
def test_errors_say_what_helps(ec2: Ec2StandIn, said: str, code: str, pause: float | None) -> None:
    ec2.fail = lambda action, given: said if action == "RunInstances" else ""
    with pytest.raises(NodeProviderError, match="^AWS: can't make 1 machines of kind 'small': ") as caught:
        make_provider(configuration()).create("small", 1, {})
    assert (caught.value.code, caught.value.retry_after) == (code, pause)
    assert ec2.living() == [] and ec2.calls["RunInstances"] == (4 if code == CAPACITY else 1), "boto3 repeats nothing"


def test_settings_of_a_kind_reach_ec2(ec2: Ec2StandIn) -> None:
    given = kind(
        InstanceMarketOptions={"MarketType": "spot", "SpotOptions": {"MaxPrice": 1.0}},
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100}}],
        IamInstanceProfile={"Name": "mine"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "n"}]}],
    )
    clients("")["iam"].create_instance_profile(InstanceProfileName="mine")
    provider = make_provider(configuration(kinds=given))
    provider.create("small", 1, JOIN)
    (asked,) = ec2.asked
    assert asked["InstanceMarketOptions.SpotOptions.MaxPrice"] == "1.0"
    assert asked["BlockDeviceMapping.1.Ebs.VolumeSize"] == "100" and asked["IamInstanceProfile.Name"] == "mine"
    assert values(asked, "TagSpecification.1.")["Name"] == "n"
    details = provider.describe("small")
    assert details.spot and details.price == 0.00001


def test_resources_and_the_newest_image_are_asked_for(ec2: Ec2StandIn) -> None:
    given = configuration(kinds=["m5.large", "g4dn.xlarge"], node_config={"ImageId": "latest_dlami"})
    provider = make_provider({**given, "prices": {"m5.large": 0.096}})
    assert provider.kinds() == {
        "m5.large": {"CPU": 2.0, "memory": float(int(8 * 2**30 * 0.7))},
        "g4dn.xlarge": {"CPU": 4.0, "GPU": 1.0, "memory": float(int(16 * 2**30 * 0.7)), "accelerator_type:T4": 1.0},
    }
    assert provider.describe("m5.large").price == 0.096 and provider.describe("g4dn.xlarge").price is None
    provider.create("m5.large", 1, {})
    images = clients("")["ec2"].describe_images(ImageIds=[ec2.asked[0]["ImageId"]])["Images"]
    assert images[0]["Name"].startswith("Deep Learning") and "Ubuntu" in images[0]["Name"]
