"""Pods as the provider composes them, what it says became of them, and what it says when it is refused."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_provider_kubernetes import pod_watch
from kernel_provider_kubernetes.provider import KubernetesProvider

from kernel.testing.faults import wait_until
from kernel_spec.errors import NodeProviderError
from plugins.provider_kubernetes.tests.clusters import JOIN, SMALL, provider_over
from plugins.provider_kubernetes.tests.stand_in_api import StandInApi, condition

SECONDS = 20.0


@pytest.fixture
def api() -> Iterator[StandInApi]:
    server = StandInApi()
    server.runs_pods = False
    yield server
    server.close()
    assert server.broken == []


def made(provider: KubernetesProvider, kind: str = "small") -> str:
    (id,) = provider.create(kind, 1, JOIN, "an-order")
    return id


def waiting(reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    one = {"name": "kernel", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": state}
    return {"phase": "Pending", "containerStatuses": [one]}


def test_a_pod_runs_kernel_start_with_what_the_kind_has(api: StandInApi) -> None:
    gpu = {**SMALL, "gpus": 1, "labels": {"zone": "a"}, "resources": {"special": 2}, "price": 1.5, "spot": True}
    provider = provider_over(api, cluster="training", kinds={"gpu": gpu})
    assert provider.kinds() == {"gpu": {"CPU": 2.0, "GPU": 1.0, "memory": 4 * 2**30 - 1288490188, "special": 2.0}}
    details = provider.describe("gpu")
    assert (details.price, details.spot, details.labels) == (1.5, True, {"zone": "a"})
    id = made(provider, "gpu")
    assert id.startswith("training-gpu-") and id.endswith("-0")
    (pod,) = api.objects("pods")
    (container,) = pod["spec"]["containers"]
    assert container["command"] == [
        "kernel", "start", "--address", "10.0.0.1:6380", "--port", "6380", "--num-cpus", "2", "--num-gpus", "1",
        "--memory", "3006477108", "--object-store-memory", "1288490188", "--memory-limit", "4294967296",
        "--resources", '{"special": 2.0}', "--labels", "zone=a", "--block",
    ]  # fmt: skip
    assert pod["spec"]["restartPolicy"] == "Never" and pod["spec"]["shareProcessNamespace"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/dev/shm"]
    assert pod["metadata"]["labels"]["kernel/kind"] == "gpu"


def test_the_token_is_in_a_secret_and_nowhere_else(api: StandInApi) -> None:
    provider = provider_over(api, cluster="training")
    id = made(provider)
    (pod,) = api.objects("pods")
    assert JOIN["token"] not in str(pod)
    variables = {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}
    assert variables["KERNEL_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "training-join", "key": "token"}}
    assert variables["KERNEL_PROVIDER_ID"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    (secret,) = api.objects("secrets")
    assert base64.b64decode(secret["data"]["token"]).decode() == JOIN["token"]
    provider.create("small", 1, {**JOIN, "token": "another"}, "second")
    (secret,) = api.objects("secrets")
    assert base64.b64decode(secret["data"]["token"]).decode() == "another", "a head of another token has begun"
    provider.terminate([node.id for node in provider.list() if node.id != id])
    assert api.objects("secrets"), "a pod may still need it"
    provider.terminate([id])
    assert not api.objects("secrets"), "the last pod takes it along"


def test_a_template_keeps_what_it_says(api: StandInApi) -> None:
    template = {
        "metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}, "name": "ignored"},
        "spec": {
            "nodeSelector": {"pool": "gpu"},
            "restartPolicy": "Always",
            "containers": [
                {"name": "logs", "image": "logs:1"},
                {
                    "name": "kernel", "image": "kernel:1", "command": ["sh", "-c", "exec $KERNEL_NODE_COMMAND"],
                    "env": [{"name": "MODE", "value": "fast"}, {"name": "KERNEL_TOKEN", "value": "wrong"}],
                    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"amd.com/gpu": 2}},
                    "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}],
                },
            ],
            "volumes": [{"name": "mine", "emptyDir": {"medium": "Memory"}}],
        },
    }  # fmt: skip
    provider = provider_over(api, kinds={"own": {"template": template, "object_store_memory": "256Mi"}})
    assert provider.kinds()["own"] == {"CPU": 0.5, "GPU": 2.0, "memory": 768.0 * 2**20}
    made(provider, "own")
    (pod,) = api.objects("pods")
    assert pod["metadata"]["labels"]["team"] == "blue" and pod["metadata"]["annotations"] == {"note": "x"}
    assert pod["spec"]["nodeSelector"] == {"pool": "gpu"} and len(pod["spec"]["volumes"]) == 1
    container = pod["spec"]["containers"][1]
    assert container["command"][0] == "sh" and container["env"][0] == {"name": "MODE", "value": "fast"}
    command = {one["name"]: one.get("value") for one in container["env"]}
    assert command["KERNEL_NODE_COMMAND"].startswith("kernel start --address 10.0.0.1:6380")
    assert command["KERNEL_TOKEN"] is None, "it is the secret's"
    assert "--memory-limit" not in command["KERNEL_NODE_COMMAND"], "the container has none"


@pytest.mark.parametrize(
    ("status", "state", "problem"),
    [
        ({"phase": "Pending"}, "starting", ""),
        ({"phase": "Running", "podIP": "10.1.2.3"}, "running", ""),
        (waiting("ContainerCreating", ""), "starting", ""),
        (waiting("ErrImagePull", "try again"), "starting", ""),
        (waiting("ImagePullBackOff", "no such image"), "failed", "'kernel': ImagePullBackOff: no such image"),
        (waiting("CrashLoopBackOff", ""), "failed", "'kernel': CrashLoopBackOff: no more is known"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "failed", "Evicted: low on memory"),
        ({"phase": "Succeeded"}, "failed", "the node has ended by itself"),
        (
            {"phase": "Failed", "containerStatuses": [
                {"name": "kernel", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                 "ready": False, "restartCount": 0, "image": "i", "imageID": ""}]},
            "failed", "container 'kernel' ended with 137 (OOMKilled): look at the pod's log",
        ),
    ],
)  # fmt: skip
def test_what_became_of_a_pod_is_said_with_its_reason(
    api: StandInApi, status: dict[str, Any], state: str, problem: str
) -> None:
    provider = provider_over(api)
    api.set_status(made(provider), status)
    wait_until(lambda: provider.list()[0].state == state, SECONDS, f"the pod to be {state}")
    (node,) = provider.list()
    assert node.problem.endswith(problem) and node.address == status.get("podIP", "")


def test_no_room_is_waited_for_and_then_a_lack_of_capacity(api: StandInApi) -> None:
    ahead = [0.0]
    provider = provider_over(api, unschedulable_seconds=60, clock=lambda: time.time() + ahead[0])
    text = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu"
    api.set_status(made(provider), {"conditions": [condition("PodScheduled", "False", "Unschedulable", text)]})
    wait_until(lambda: provider.list()[0].problem == f"no room yet: {text}", SECONDS, "the scheduler's word")
    assert provider.list()[0].state == "starting", "a node for it may be on its way"
    ahead[0] = 61.0
    (node,) = provider.list()
    assert node.state == "failed" and text in node.problem
    with pytest.raises(NodeProviderError) as caught:
        provider.create("small", 1, JOIN, "another")
    assert caught.value.code == "capacity" and text in str(caught.value)
    assert list(provider.create("small", 1, JOIN, "an-order")) == [node.id], "a repeated call is no new one"


def test_a_quota_gives_what_it_allows_and_then_an_error(api: StandInApi) -> None:
    api.quota = 2
    provider = provider_over(api)
    ids = provider.create("small", 3, JOIN, "order")
    assert len(ids) == 2
    with pytest.raises(NodeProviderError, match="exceeded quota: pods.*raise the quota of the namespace") as caught:
        provider.create("small", 1, JOIN, "more")
    assert caught.value.code == "quota"
    assert len(provider.list()) == 2


def test_credentials_and_roles_are_told_apart_from_the_rest(api: StandInApi) -> None:
    api.accounts = {"reads": {("list", "pods"), ("watch", "pods"), ("create", "secrets")}}
    with pytest.raises(NodeProviderError, match=r"refused GET .*/pods with 401 Unauthorized.*log in again") as caught:
        provider_over(api, token="wrong").list()
    assert caught.value.code == "credentials"
    provider = provider_over(api, token="reads")
    assert list(provider.list()) == []
    with pytest.raises(NodeProviderError, match='cannot create resource "pods".*role lacks this') as caught:
        made(provider)
    assert caught.value.code == "credentials"


def test_a_server_that_is_asked_too_often_says_when_to_come_again(api: StandInApi) -> None:
    body = {"apiVersion": "v1", "kind": "Status", "message": "too many requests", "reason": "TooManyRequests"}
    api.refuse.append((429, body, {"Retry-After": "7"}))
    with pytest.raises(NodeProviderError) as caught:
        made(provider_over(api))
    assert (caught.value.code, caught.value.retry_after) == ("throttled", 7.0)


def test_a_server_that_is_away_is_named(api: StandInApi) -> None:
    provider = provider_over(api)
    api.close()
    with pytest.raises(
        NodeProviderError, match=rf"{api.url} did not answer GET /api/v1/namespaces/work/pods"
    ) as caught:
        provider.list()
    assert caught.value.code == "unknown"


def test_pods_of_others_are_never_touched(api: StandInApi) -> None:
    one, other = provider_over(api), provider_over(api)
    id = made(one)
    other.terminate([id])
    assert [node.id for node in one.list()] == [id] and list(other.list()) == []
    api.remove(id)
    wait_until(lambda: not one.list(), SECONDS, "the pod to be gone")
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": id}, "spec": {"containers": [{"name": "x"}]}}
    one._server.create(one._path, foreign)
    with pytest.raises(NodeProviderError, match="that this cluster has not made") as caught:
        made(one)
    assert caught.value.code == "invalid"


def test_an_eviction_is_an_interruption_and_our_own_removal_is_none(api: StandInApi) -> None:
    provider = provider_over(api)
    kept, drained, preempted = provider.create("small", 3, JOIN, "order")
    assert list(provider.list()) and list(provider.events()) == []
    why = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 25))
    api.set_status(drained, {"conditions": [why]}, deletionTimestamp=later, deletionGracePeriodSeconds=30)
    api.set_status(preempted, {"conditions": [condition("DisruptionTarget", "True", "PreemptionByScheduler")]})
    heard = []
    wait_until(lambda: heard.extend(provider.events()) or len(heard) == 2, SECONDS, "both to be announced")
    by_id = {one.id: one for one in heard}
    assert set(by_id) == {drained, preempted}
    assert by_id[drained].reason == "EvictionByEvictionAPI: Eviction API: evicting"
    assert 20.0 < by_id[drained].seconds <= 25.0 and by_id[preempted].seconds == 30.0
    provider.terminate([kept])
    wait_until(lambda: kept not in {node.id for node in provider.list()}, SECONDS, "the ended pod to be gone")
    assert list(provider.events()) == [], "nothing is announced twice, and nothing that we do ourselves"


def test_the_list_is_asked_for_once_and_the_watch_tells_the_rest(api: StandInApi) -> None:
    provider = provider_over(api)
    ids = provider.create("small", 2, JOIN, "order")
    lists = "GET /api/v1/namespaces/work/pods"
    wait_until(lambda: any(one.startswith("WATCH") for one in api.requests), SECONDS, "the watch to begin")
    asked = api.requests.count(lists)
    api.set_status(ids[0], {"phase": "Running"})
    wait_until(lambda: provider.list()[0].state == "running", SECONDS, "the watch to tell")
    assert api.requests.count(lists) == asked


def test_a_version_that_is_too_old_is_followed_by_a_new_list(api: StandInApi) -> None:
    provider = provider_over(api)
    ids = provider.create("small", 2, JOIN, "order")
    wait_until(lambda: any(one.startswith("WATCH") for one in api.requests), SECONDS, "the watch to begin")
    with api.changed:
        api.remove(ids[0])
        api.compact()
    wait_until(lambda: [one.id for one in provider.list()] == [ids[1]], SECONDS, "the list to tell")
    api.set_status(ids[1], {"phase": "Running"})
    wait_until(lambda: provider.list()[0].state == "running", SECONDS, "the new watch to tell")


def test_a_long_list_comes_in_pages(api: StandInApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_watch, "PAGE", "2")
    provider = provider_over(api, cluster="pages")
    ids = provider.create("small", 5, JOIN, "order")
    assert {node.id for node in provider_over(api, cluster="pages").list()} == set(ids)


def test_pods_end_with_their_owner(api: StandInApi) -> None:
    head = provider_over(api)
    made(head)
    (pod,) = api.objects("pods")
    owner = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    made(provider_over(api, owner=owner))
    assert len(api.objects("pods")) == 2
    api.remove(pod["metadata"]["name"])
    assert api.objects("pods") == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"cluster": "Big_One"}, "needs cluster, a name that no other cluster in the namespace has"),
        ({"kinds": {}}, "needs kinds of pods"),
        ({"kindz": {}}, "did you mean 'kinds'?"),
        ({"kinds": {"Big": SMALL}}, "kind 'Big' .* can't be part of the names of pods"),
        ({"kinds": {"a": {"cpu": 1, "memory": "1Gi"}}}, "kind 'a' .* needs an image"),
        ({"kinds": {"a": {"image": "i", "cpu": 1}}}, "says no memory in the requests or limits of container 'kernel'"),
        ({"kinds": {"a": {**SMALL, "memory": "4 gigs"}}}, "'4 gigs' is no quantity of Kubernetes"),
        ({"kinds": {"a": {**SMALL, "object_store_memory": "5Gi"}}}, "has an object store of 5368709120 bytes"),
        ({"kinds": {"a": {**SMALL, "imagine": 1}}}, "did you mean 'image'?"),
        ({"kinds": {"a": {**SMALL, "template": {}}}}, "has a template, which says what image, cpu, memory would"),
        ({"kinds": {"a": {"template": {"spec": {}}}}}, "has no spec.containers"),
        ({"kinds": {"a": {"template": "/no/such.yaml"}}}, "the template /no/such.yaml of kind 'a' .* can't be read"),
        ({"kinds": {"a": {"template": {"kind": "Deployment"}}}}, "is a Deployment, not a Pod"),
        ({"kinds": {"a": {**SMALL, "labels": {"a b": "c"}}}}, "the labels of kind 'a'"),
        ({"unschedulable_seconds": 0}, "unschedulable_seconds .* must be above 0, not 0"),
        ({"port": 70000}, "port .* must be 0 to 65535, not 70000"),
        ({"owner": {"name": "x"}}, "owner .* needs a name and a uid"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(api: StandInApi, more: dict[str, Any], text: str) -> None:
    with pytest.raises(NodeProviderError, match=text) as caught:
        provider_over(api, **more)
    assert caught.value.code == "invalid"
