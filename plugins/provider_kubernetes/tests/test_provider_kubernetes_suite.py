"""The provider of pods, against the suite of providers, and below a cloud that fails."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_provider_kubernetes.provider import KubernetesProvider

from kernel.conformance.flaky_cloud import FlakyCloud
from kernel.conformance.node_provider import NodeProviderConformance
from kernel.testing.faults import wait_until
from kernel_spec.errors import NodeProviderError
from plugins.provider_kubernetes.tests.clusters import JOIN, provider_over
from plugins.provider_kubernetes.tests.stand_in_api import StandInApi


@pytest.fixture(scope="module", autouse=True)
def api() -> Iterator[StandInApi]:
    """Serve one API server, in which each provider has a cluster of its own."""
    server = StandInApi()
    TestPods.api = server
    yield server
    server.close()
    assert server.broken == [], "every request and answer is as the published OpenAPI document says"


class TestPods(NodeProviderConformance):
    """Pods that run a moment after they were made."""

    api: StandInApi
    running_seconds = 20.0
    gone_seconds = 20.0

    @staticmethod
    def make_provider() -> KubernetesProvider:
        return provider_over(TestPods.api)

    @staticmethod
    def reopen_provider(provider: Any) -> KubernetesProvider:
        return provider_over(TestPods.api, cluster=provider._options.cluster)


@pytest.mark.parametrize("seed", range(4))
def test_a_cloud_that_fails_leaks_no_pod_and_makes_none_twice(api: StandInApi, seed: int) -> None:
    """Orders are repeated with their token until they are answered, and pods ended until the list is empty."""
    provider, now, dice = provider_over(api), [0.0], random.Random(seed)
    cloud = FlakyCloud(provider, random.Random(seed + 1000), lambda: now[0])
    cluster = provider._options.cluster
    ordered: dict[str, set[str]] = {}

    def until_answered(call: Any) -> Any:
        for _ in range(200):
            now[0] += 5.0
            try:
                return call()
            except NodeProviderError:
                continue
        raise AssertionError("no call of 200 has succeeded")

    for number in range(4):
        count, token = dice.randrange(1, 4), f"order-{number}"
        ordered[token] = set(until_answered(lambda n=count, t=token: cloud.create("small", n, JOIN, token=t)))
        assert len(ordered[token]) == count
    wanted = set().union(*ordered.values())

    def there() -> set[str]:
        return {
            pod["metadata"]["name"] for pod in api.objects("pods")
            if pod["metadata"]["labels"]["kernel/cluster"] == cluster
        }  # fmt: skip

    assert there() == wanted and len(wanted) == sum(map(len, ordered.values()))
    while there():
        ids = [node.id for node in until_answered(cloud.list)]
        until_answered(lambda ids=ids: cloud.terminate(ids))
    until_answered(lambda: cloud.terminate(["none"]))
    wait_until(lambda: not provider.list(), 20.0, "the list to be empty")
    assert f"{cluster}-join" not in {one["metadata"]["name"] for one in api.objects("secrets")}
