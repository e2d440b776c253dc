"""What Google is asked for when machines are made, and what follows from its answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN
from plugins.provider_gcp.tests.gcp_providers import JOIN, KIND, ZONES, configuration, make_provider
from plugins.provider_gcp.tests.google_stand_in import ACCOUNT, PROJECT, GoogleStandIn, error


def test_a_machine_knows_its_cluster_and_how_to_join_and_no_secret(google: GoogleStandIn) -> None:
    given = configuration(setup_commands=["echo ready"], user="me", labels={"team": "x"}, start_options=["--block"])
    names = make_provider(google, given).create("small", 2, JOIN, token="order-1")
    assert len(names) == 2
    asked = google.asked[0]
    cluster = given["cluster_name"]
    assert asked["labels"].pop("kernel-token")
    assert asked["labels"] == {
        "team": "x", "kernel-cluster": cluster, "kernel-role": "node", "kernel-kind": "small"
    }  # fmt: skip
    assert asked["machineType"] == f"zones/{ZONES[0]}/machineTypes/n2-standard-4" and asked["name"] == names[0]
    assert asked["disks"][0]["initializeParams"] == {"sourceImage": KIND["image"]}
    (item,) = asked["metadata"]["items"]
    assert JOIN["token"] not in item["value"] and JOIN["address"] not in item["value"]
    assert (
        item["key"] == "startup-script"
        and "(set -e\necho ready\n)" in item["value"]
        and '"user": "me"' in item["value"]
    )
    secret = google.secrets[f"kernel-{cluster}-join"]
    (version,) = secret["versions"]
    assert json.loads(base64.b64decode(version["data"])) == JOIN
    (binding,) = secret["policy"]["bindings"]
    assert binding == {"role": "roles/secretmanager.secretAccessor", "members": [f"serviceAccount:{ACCOUNT}"]}
    assert asked["serviceAccounts"][0]["email"] == ACCOUNT and secret["policy"]["etag"] == "QUJD"
    again = make_provider(google, given)
    again.create("small", 1, JOIN)
    again.create("small", 1, {**JOIN, "address": "10.0.0.2:6380"})
    assert len(secret["versions"]) == 3 and len(secret["policy"]["bindings"]) == 1
    again.remove_all()
    again.remove_all()
    assert google.secrets == {}


def test_a_machine_for_a_launcher_starts_nothing(google: GoogleStandIn) -> None:
    provider = make_provider(google, configuration(role="head"))
    provider.create("small", 1, {})
    assert "metadata" not in google.asked[0] and google.secrets == {}
    assert [node.labels["kernel-role"] for node in provider.list()] == ["head"]


def test_clusters_roles_and_sessions_never_meet(google: GoogleStandIn) -> None:
    given = configuration()
    made = make_provider(google, given).create("small", 1, {}, token="kernel-1")
    assert [node.id for node in make_provider(google, given).list()] == list(made)
    assert list(make_provider(google, configuration()).list()) == []
    assert list(make_provider(google, {**given, "role": "head"}).list()) == []
    assert make_provider(google, given).create("small", 1, {}, token="kernel-1") == list(made)
    assert make_provider(google, {**given, "session": "/another"}).create("small", 1, {}, token="kernel-1") != made


def test_zones_are_tried_in_turn(google: GoogleStandIn) -> None:
    google.no_capacity = lambda zone: zone != "us-west1-c"
    provider = make_provider(google, configuration())
    provider.create("small", 2, {})
    assert [zone for zone, _ in google.instances] == ["us-west1-c"] * 2
    google.no_capacity = lambda zone: True
    with pytest.raises(
        NodeProviderError, match="can't make 1 machines of kind 'small': us-west1-a: .*; us-west1-b: "
    ) as e:
        provider.create("small", 1, {})
    assert e.value.code == CAPACITY and len(google.living()) == 2


def test_an_order_whose_answer_got_lost_is_carried_on_in_its_zone(google: GoogleStandIn) -> None:
    given, lost = configuration(), ["lose", ""]
    google.no_capacity = lambda zone: zone == ZONES[0]
    google.fail = lambda method, said: lost.pop() if lost and said.get("zone") == ZONES[1] else ""
    with pytest.raises(NodeProviderError, match="can't make a machine of kind 'small' in us-west1-b: ") as caught:
        make_provider(google, given).create("small", 3, {}, token="order-1")
    assert caught.value.code == UNKNOWN and len(google.living()) == 2
    google.fail = lambda method, said: error(403, "rateLimitExceeded") if method.endswith("insert") else ""
    names = make_provider(google, given).create("small", 3, {}, token="order-1")
    assert sorted(names) == sorted(google.living()), "what is there is not forgotten where no more can be made"
    google.no_capacity, google.fail = (lambda zone: False), (lambda method, said: "")
    names = make_provider(google, given).create("small", 3, {}, token="order-1")
    assert sorted(names) == sorted(google.living()) and {zone for zone, _ in google.instances} == {ZONES[1]}


def test_fewer_machines_than_asked_for_are_better_than_none(google: GoogleStandIn) -> None:
    google.fail = lambda method, said: (
        error(403, "quotaExceeded") if method.endswith("insert") and len(google.instances) == 2 else ""
    )
    provider = make_provider(google, configuration())
    assert len(provider.create("small", 5, {})) == 2
    with pytest.raises(NodeProviderError, match="403 quotaExceeded") as caught:
        provider.create("small", 1, {})
    assert caught.value.code == QUOTA


@pytest.mark.parametrize(
    ("said", "code", "pause"),
    [
        (error(403, "quotaExceeded"), QUOTA, None),
        (error(403, "rateLimitExceeded"), THROTTLED, 5.0),
        (error(429, ""), THROTTLED, 5.0),
        (error(403, "forbidden"), CREDENTIALS, None),
        (error(401, "authError"), CREDENTIALS, None),
        (error(400, "invalid"), INVALID, None),
        (error(404, "notFound"), INVALID, None),
        (error(503, "backendError"), UNKNOWN, None),
        ("drop", UNKNOWN, None),
    ],
)
def test_errors_say_what_helps(google: GoogleStandIn, said: Any, code: str, pause: float | None) -> None:
    google.fail = lambda method, given: said if method.endswith("insert") else ""
    with pytest.raises(
        NodeProviderError, match="^Google: can't make a machine of kind 'small' in us-west1-a: "
    ) as caught:
        make_provider(google, configuration()).create("small", 1, {})
    assert (caught.value.code, caught.value.retry_after) == (code, pause)
    assert google.calls["compute.instances.insert"] == 1, "nothing is repeated"


def test_what_a_zone_needs_is_named_by_the_zone(google: GoogleStandIn) -> None:
    kinds = {
        "gpu": {
            **KIND,
            "resources": {"CPU": 4, "GPU": 1},
            "guestAccelerators": [{"acceleratorType": "nvidia-l4", "acceleratorCount": 1}],
            "scheduling": {"provisioningModel": "SPOT"},
        },
        "old": {**KIND, "scheduling": [{"preemptible": True}]},
    }
    provider = make_provider(google, configuration(kinds=kinds, prices={"gpu": 0.5}))
    provider.create("gpu", 1, {})
    asked = google.asked[0]
    assert asked["guestAccelerators"][0]["acceleratorType"] == f"zones/{ZONES[0]}/acceleratorTypes/nvidia-l4"
    assert asked["scheduling"] == {
        "provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE", "instanceTerminationAction": "DELETE"
    }  # fmt: skip
    assert provider.describe("gpu").spot and provider.describe("old").spot and provider.describe("gpu").price == 0.5


def test_resources_are_asked_for(google: GoogleStandIn) -> None:
    image = {"image": "projects/a/global/images/b"}
    provider = make_provider(google, configuration(kinds=["n2-standard-4", "a2-highgpu-1g"], node_config=image))
    assert provider.kinds() == {
        "n2-standard-4": {"CPU": 4.0, "memory": float(int(2**34 * 0.7))},
        "a2-highgpu-1g": {
            "CPU": 12.0, "GPU": 1.0, "memory": float(int(87040 * 2**20 * 0.7)), "accelerator_type:A100": 1.0
        },
    }  # fmt: skip
    with pytest.raises(NodeProviderError, match="can't learn what machine type none has in us-west1-a: 404") as caught:
        make_provider(google, configuration(kinds=["none"], node_config=image)).kinds()
    assert caught.value.code == INVALID


def test_a_machine_that_is_stopped_or_was_taken_back_has_failed(google: GoogleStandIn) -> None:
    provider = make_provider(google, configuration())
    (name,) = provider.create("small", 1, {})
    google.instances[ZONES[0], name]["status"] = "TERMINATED"
    (node,) = provider.list()
    assert (node.state, node.problem) == ("failed", "the machine is TERMINATED")
    provider.terminate(["no such", name, "kernel-none-0"])
    assert google.living() == []


def test_an_operation_that_does_not_end_is_not_waited_for(google: GoogleStandIn) -> None:
    google.looks_needed, now = 1000, [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    assert len(make_provider(google, configuration(), clock).create("small", 1, {})) == 1
    assert google.calls["compute.zoneOperations.get"] < 20


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cluster_name": "A"}, "cluster_name must be up to 30 small letters, digits and '-', a letter first, not 'A'"),
        (
            {"clustername": "a"},
            "'clustername' is not an option of the node provider 'gcp'; did you mean 'cluster_name'",
        ),
        ({"zones": "us"}, "zones must be a list of texts, not 'us'"),
        ({"zones": []}, "zones must name the zones in which machines may be"),
        ({"project": ""}, "project must be the id of a project"),
        ({"user": 5}, "user must be a text, not 5"),
        ({"kinds": []}, 'kinds must name machine types: kinds = \\["n2-standard-4"\\]'),
        ({"kinds": ["k"]}, "kind 'k' has no image: give the path of one with kernel installed, or disks"),
        ({"kinds": {"K": KIND}}, "the kind 'K' must be small letters"),
        ({"kinds": {"k": {**KIND, "zone": "z"}}}, "kind 'k' has 'zone', which the provider itself gives"),
        ({"kinds": {"k": {**KIND, "price": True}}}, "the price of kind 'k' must be a number, zero or more, not True"),
    ],
)
def test_what_is_wrong_is_named(google: GoogleStandIn, given: dict[str, Any], said: str) -> None:
    with pytest.raises(NodeProviderError, match=f"^node provider 'gcp': {said}") as caught:
        make_provider(google, {**configuration(), "project": PROJECT, **given})
    assert caught.value.code == INVALID
