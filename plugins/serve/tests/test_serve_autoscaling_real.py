"""A deployment that really goes from nothing to several replicas, and back."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kernel_serve.api import run as api
from kernel_serve.api.deployment import deployment

import kernel
from kernel.testing.faults import wait_until

SECONDS = 120.0


@deployment(
    max_ongoing_requests=5,
    autoscaling_config={
        "min_replicas": 0,
        "max_replicas": 3,
        "target_ongoing_requests": 2,
        "look_back_period_s": 2,
        "metrics_interval_s": 0.2,
        "upscale_delay_s": 0.5,
        "downscale_delay_s": 1,
        "downscale_to_zero_delay_s": 1,
    },
)
class Sleeper:
    """Answers a request when there is the file that it names."""

    async def __call__(self, request: Any) -> str:
        while not Path(request.query_params["until"]).exists():
            await asyncio.sleep(0.01)
        return "done"


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=4, log_to_driver=False):
        api.start(http_options={"port": 0})
        yield
        api.shutdown()


def target() -> int:
    """Return how many replicas there are to be."""
    view: int = api.status()["applications"]["sleepy"]["deployments"]["Sleeper"]["target_num_replicas"]
    return view


@pytest.mark.usefixtures("session")
def test_it_wakes_grows_and_goes_to_sleep_again(tmp_path: Path) -> None:
    api.run(Sleeper.bind(), name="sleepy")
    (proxy,) = api.status()["proxies"].values()
    url = f"http://{proxy['address']}/"

    def ask(until: Path) -> None:
        with urllib.request.urlopen(f"{url}?until={until}", timeout=SECONDS) as answer:
            assert answer.read() == b"done"

    def routes() -> str:
        with urllib.request.urlopen(f"{url}-/routes", timeout=SECONDS) as answer:
            return str(answer.read())

    wait_until(lambda: "sleepy" in routes(), SECONDS, "the route")
    assert target() == 0
    first, others = tmp_path / "first", tmp_path / "others"
    with ThreadPoolExecutor(9) as threads:
        try:
            asked = [threads.submit(ask, first)]
            wait_until(lambda: target() == 1, SECONDS, "waking")
            asked += [threads.submit(ask, others) for _ in range(8)]
            wait_until(lambda: target() == 3, SECONDS, "growing to three")
        finally:
            first.touch()
            others.touch()
        for each in asked:
            each.result(SECONDS)
    wait_until(lambda: target() == 0, SECONDS, "going to sleep")
    ask(first)
