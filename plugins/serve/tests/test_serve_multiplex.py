"""`@serve.multiplexed` on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import cloudpickle
import pytest
from kernel_serve.batching.decorator import batch
from kernel_serve.context import RequestContext, end_request, enter_request
from kernel_serve.errors import DeploymentError
from kernel_serve.multiplex import loaded
from kernel_serve.multiplex.decorator import multiplexed
from kernel_serve.testing.programs import run, until


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "_by_cache", {})


async def apart(call: Coroutine[Any, Any, Any]) -> Any:
    """Await `call` in a task of its own, as a request would, and let callbacks of its end run."""
    result = await asyncio.create_task(call)
    await asyncio.sleep(0)
    return result


class Model:
    def __init__(self, model_id: str, events: list[Any]) -> None:
        self.id = model_id
        self.events = events
        events.append(f"load {model_id}")

    def unload(self) -> None:
        self.events.append((f"unload {self.id}", threading.current_thread() is threading.main_thread()))


class Server:
    def __init__(self) -> None:
        self.events: list[Any] = []

    @multiplexed(max_num_models_per_replica=2)
    async def get_model(self, model_id: str) -> Model:
        await asyncio.sleep(0.001)
        return Model(model_id, self.events)


def test_those_used_last_are_kept_and_others_are_unloaded_in_a_thread() -> None:
    async def program() -> None:
        server = Server()
        for model_id in "abab":
            assert (await apart(server.get_model(model_id))).id == model_id
        assert server.events == ["load a", "load b"]
        await apart(server.get_model("c"))
        assert server.events[2:] == [("unload a", False), "load c"], "first there must be room"
        await server.get_model.clear()
        assert sorted(server.events[4:]) == [("unload b", False), ("unload c", False)]

    run(program)


def test_it_is_loaded_once_for_all_who_ask_at_the_same_time() -> None:
    async def program() -> None:
        server = Server()
        models = await asyncio.gather(*[apart(server.get_model("a")) for _ in range(5)])
        assert len(set(map(id, models))) == 1 and server.events == ["load a"]

    run(program)


def test_a_model_in_use_by_a_task_stays_until_it_has_ended() -> None:
    async def program() -> None:
        server, go = Server(), asyncio.Event()

        async def use(model_id: str) -> None:
            model = await server.get_model(model_id)
            await go.wait()
            assert (f"unload {model_id}", False) not in model.events

        users = [asyncio.create_task(use(model_id)) for model_id in "ab"]
        await until(lambda: len(server.events) == 2)
        third = asyncio.create_task(server.get_model("c"))
        await asyncio.sleep(0.01)
        assert server.events == ["load a", "load b"]
        go.set()
        assert (await third).id == "c"
        await asyncio.gather(*users)

    run(program)


def test_a_model_is_lent_to_the_request_where_its_end_will_be_told() -> None:
    async def program() -> None:
        server = Server()

        async def ask(request: RequestContext, model_id: str) -> Any:
            enter_request(request)
            return await asyncio.create_task(server.get_model(model_id))

        first, second = RequestContext(at_end=[]), RequestContext(at_end=[])
        await apart(ask(first, "a"))
        await apart(ask(second, "b"))
        third = asyncio.create_task(server.get_model("c"))
        await asyncio.sleep(0.01)
        assert not third.done(), "the tasks have ended, but the requests have not"
        end_request(second)
        assert (await third).id == "c"
        assert ("unload b", False) in server.events and ("unload a", False) not in server.events
        end_request(first)
        end_request(first)

    run(program)


def test_the_request_says_which_model() -> None:
    async def program() -> None:
        server = Server()
        enter_request(RequestContext(multiplexed_model_id="m7"))
        assert (await server.get_model()).id == "m7"
        enter_request(RequestContext())
        with pytest.raises(DeploymentError, match=r"Server.get_model needs the id of a model, not '': give one, or"):
            await server.get_model()

    run(program)


def test_what_the_loader_raises_reaches_all_who_ask_and_the_next_tries_again() -> None:
    async def program() -> None:
        tries = []

        @multiplexed
        async def loader(model_id: str) -> str:
            tries.append(model_id)
            await asyncio.sleep(0)
            if len(tries) == 1:
                raise OSError("no such file")
            return model_id

        errors = await asyncio.gather(apart(loader("a")), apart(loader("a")), return_exceptions=True)
        assert [type(error) for error in errors] == [OSError, OSError] and tries == ["a"]
        assert await loader("a") == "a"

    run(program)


def test_who_is_cancelled_does_not_stop_the_loading_for_others() -> None:
    async def program() -> None:
        server = Server()
        one, two = (asyncio.create_task(server.get_model("a")) for _ in range(2))
        await until(lambda: not one.done())
        one.cancel()
        assert (await two).id == "a"
        assert server.events == ["load a"]

    run(program)


def test_a_plain_loader_runs_in_a_thread_and_del_runs_once_in_one_too() -> None:
    async def program() -> None:
        events = []

        class Plain:
            def __del__(self) -> None:
                events.append(("del", threading.current_thread() is threading.main_thread()))

        @multiplexed(max_num_models_per_replica=1)
        def loader(model_id: str) -> Plain:
            events.append(("load", threading.current_thread() is threading.main_thread()))
            return Plain()

        async def use(model_id: str) -> None:
            assert isinstance(await loader(model_id), Plain)

        await apart(use("a"))
        await apart(use("b"))
        assert events == [("load", False), ("del", False), ("load", False)]

    run(program)


def test_unload_may_be_async_and_may_fail() -> None:
    async def program() -> None:
        events = []

        class Bad:
            async def unload(self) -> None:
                events.append("unload")
                raise ValueError("stuck")

        @multiplexed(max_num_models_per_replica=1)
        async def loader(model_id: str) -> Bad:
            return Bad()

        await apart(loader("a"))
        assert isinstance(await apart(loader("b")), Bad) and events == ["unload"]

    run(program)


def test_listeners_hear_which_models_there_are() -> None:
    async def program() -> None:
        heard: list[tuple[str, ...]] = []
        end = loaded.listen(heard.append)
        server = Server()
        for model_id in "abac":
            await apart(server.get_model(model_id))
        assert heard == [("a",), ("a", "b"), ("a",), ("a", "c")] and loaded.models() == ("a", "c")
        await server.get_model.clear()
        assert heard[-1] == () == loaded.models()
        end()
        await apart(server.get_model("z"))
        assert heard[-1] == ()
        await server.get_model.clear()

    run(program)


def test_a_batch_has_its_model_until_it_is_done_though_its_first_request_has_left() -> None:
    async def program() -> None:
        events: list[str] = []
        go = asyncio.Event()

        class Batched:
            @multiplexed(max_num_models_per_replica=1)
            async def get_model(self, model_id: str) -> Model:
                return Model(model_id, events)

            @batch(max_batch_size=2, max_concurrent_batches=2)
            async def __call__(self, items: list[int]) -> list[str]:
                model = await self.get_model()
                await go.wait()
                assert (f"unload {model.id}", False) not in events
                return [f"{model.id}{item}" for item in items]

        server = Batched()

        async def ask(item: int, model_id: str) -> str:
            request = RequestContext(multiplexed_model_id=model_id, at_end=[])
            enter_request(request)
            try:
                return await server(item)
            finally:
                end_request(request)

        tasks = [asyncio.create_task(ask(item, "a")) for item in (1, 2)]
        await until(lambda: events == ["load a"])
        other = asyncio.create_task(ask(3, "b"))
        tasks[0].cancel()
        await asyncio.sleep(0.02)
        go.set()
        assert await asyncio.gather(tasks[1], other) == ["a2", "b3"]

    run(program)


def test_each_instance_has_its_own_models_and_it_travels_by_pickle() -> None:
    async def program() -> None:
        one, two = Server(), Server()
        assert await one.get_model("a") is not await two.get_model("a")
        there = cloudpickle.loads(cloudpickle.dumps(Server()))
        assert (await there.get_model("a")).id == "a"

    run(program)
    assert inspect.iscoroutinefunction(Server.get_model) and inspect.iscoroutinefunction(Server().get_model)


def test_what_cannot_be_a_loader_is_refused() -> None:
    with pytest.raises(DeploymentError, match="max_num_models_per_replica is a whole number from 1 on, or -1 for any"):
        multiplexed(max_num_models_per_replica=0)
    with pytest.raises(DeploymentError, match="takes the id of one and returns it, but it takes 2 arguments"):
        multiplexed(lambda one, two: None)
    with pytest.raises(DeploymentError, match="@serve.multiplexed takes a function or a method, not 3: put it closest"):
        multiplexed(3)  # type: ignore[arg-type]
