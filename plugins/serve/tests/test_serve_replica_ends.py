"""The end of replicas: what is run then, and what is left."""

from __future__ import annotations

import asyncio
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from kernel_serve.routing.router import Router, dispatchers_of_process

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


class Weights:
    """A model that writes down its end."""

    def __init__(self, told: str, model: str) -> None:
        self.told, self.model = told, model

    def __del__(self) -> None:
        tell(self.told, f"model {self.model}")


@serve.deployment
class Telling:
    def __init__(self, told: str, word: str = "") -> None:
        self.told, self.word = told, word

    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model: str) -> Weights:
        return Weights(self.told, model)

    async def __call__(self, request: Any = None) -> int:
        import os

        await self.load("one")
        return os.getpid()

    def __del__(self) -> None:
        tell(self.told, f"object {self.word}".strip())


@serve.deployment
class TellingLater:
    def __init__(self, told: str) -> None:
        self.told = told

    def __call__(self) -> None: ...

    async def __del__(self) -> None:
        tell(self.told, "later")
        raise ValueError("nobody hears of this")


@serve.deployment(graceful_shutdown_timeout_s=0, graceful_shutdown_wait_loop_s=0)
class Stuck:
    def __call__(self) -> int:
        import os

        return os.getpid()

    def __del__(self) -> None:
        time.sleep(10 * SECONDS)


def tell(told: str, word: str) -> None:
    with Path(told).open("a") as file:
        file.write(f"{word}\n")


@pytest.fixture
def told(tmp_path: Path) -> Path:
    found = tmp_path / "told"
    found.touch()
    return found


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def words(told: Path) -> list[str]:
    return told.read_text().splitlines()


def test_deleting_ends_process_and_route_and_runs_del(address: tuple[str, int], told: Path) -> None:
    handle = serve.run(Telling.bind(str(told)), name="telling", route_prefix="/telling")
    pid = handle.remote().result(SECONDS)
    assert not words(told)
    serve.delete("telling")
    assert words(told) == ["model one", "object"]
    wait_until(lambda: not is_alive(pid), SECONDS, "the end of the process")
    connection = HTTPConnection(*address, timeout=SECONDS)
    connection.request("GET", "/telling")
    assert connection.getresponse().status == 404
    with pytest.raises(serve.NotServingError):
        handle.remote().result(SECONDS)


@pytest.mark.usefixtures("address")
def test_a_replica_that_is_replaced_or_not_needed_any_more_runs_del(told: Path) -> None:
    serve.run(Telling.options(num_replicas=2).bind(str(told), "1"), name="telling", route_prefix=None)
    serve.run(Telling.options(num_replicas=1).bind(str(told), "1"), name="telling", route_prefix=None)
    wait_until(lambda: words(told) == ["object 1"], SECONDS, "the end of the one that is too many")
    serve.run(Telling.options(num_replicas=1).bind(str(told), "2"), name="telling", route_prefix=None)
    wait_until(lambda: words(told) == ["object 1", "object 1"], SECONDS, "the end of the old one")
    serve.delete("telling")
    assert words(told) == ["object 1", "object 1", "object 2"]


@pytest.mark.usefixtures("address")
def test_replicas_of_unchanged_code_are_replaced_when_another_version_asks_for_it(told: Path) -> None:
    def pid(**options: Any) -> int:
        handle = serve.run(Telling.options(**options).bind(str(told)), name="telling", route_prefix=None)
        return int(handle.remote().result(SECONDS))

    def wait_for_ends(number: int) -> None:  # two replicas that end at once tell their words in any order
        end = ["model one", "object"]
        wait_until(lambda: words(told) == end * number, SECONDS, "the end of a replica that was replaced")

    first = pid()
    assert pid() == first
    second = pid(version="2")
    wait_for_ends(1)
    assert second != first and pid(version="2") == second
    assert pid(version="3") not in (first, second)
    wait_for_ends(2)
    serve.delete("telling")
    assert words(told) == ["model one", "object"] * 3


@pytest.mark.usefixtures("address")
def test_after_an_update_nothing_that_is_called_here_is_answered_by_the_version_before(
    told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = serve.run(Telling.bind(str(told)), name="telling", route_prefix=None)
    first = handle.remote().result(SECONDS)
    learn, late = Router._learn, []

    def learn_late(router: Router, news: Any) -> None:  # it goes on with what it knows, and asks again meanwhile
        if news and not late:
            late.append(asyncio.get_running_loop().call_later(1.0, lambda: (late.clear(), learn(router, news))))

    monkeypatch.setattr(Router, "_learn", learn_late)
    handle = serve.run(Telling.options(version="2").bind(str(told)), name="telling", route_prefix=None)
    known = dispatchers_of_process()["telling#Telling"].chooser.candidates.keys()
    replicas = serve.status()["applications"]["telling"]["deployments"]["Telling"]["replicas"]
    assert known == {each["replica_id"] for each in replicas if each["state"] == "RUNNING"}
    assert handle.remote().result(SECONDS) != first
    serve.delete("telling")


@pytest.mark.usefixtures("address")
def test_a_del_that_is_a_coroutine_is_awaited_and_may_raise(told: Path) -> None:
    serve.run(TellingLater.bind(str(told)), name="later", route_prefix=None)
    serve.delete("later")
    assert words(told) == ["later"]


@pytest.mark.usefixtures("address")
def test_a_del_that_is_stuck_does_not_keep_the_process() -> None:
    pid = serve.run(Stuck.bind(), name="stuck", route_prefix=None).remote().result(SECONDS)
    serve.delete("stuck")
    wait_until(lambda: not is_alive(pid), SECONDS, "the end of the process")


def test_the_end_of_serve_runs_del(told: Path) -> None:
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        serve.start(http_options={"port": 0})
        serve.run(Telling.bind(str(told)), route_prefix=None)
        serve.shutdown()
        assert words(told) == ["object"]
