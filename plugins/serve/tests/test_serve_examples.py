"""The examples run, and answer as they say."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
import websockets
from kernel_serve.examples import (
    ab_test,
    autoscaling,
    chat,
    ensemble,
    grpc_words,
    images,
    iris,
    text_stream,
)
from PIL import Image

import kernel
from kernel import serve
from kernel.testing.ports import free_port

GRPC_PORT = free_port()
SECONDS = 120.0


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A client of the proxy of a session."""
    kernel.shutdown()
    with kernel.init(num_cpus=4, log_to_driver=False):
        services = {"port": GRPC_PORT, "grpc_servicer_functions": [grpc_words.SERVICE]}
        serve.start(http_options={"port": 0}, grpc_options=services)
        with httpx.Client(base_url=f"http://{proxy()['address']}", timeout=SECONDS) as client:
            yield client
        serve.shutdown()


def proxy() -> Any:
    (found,) = serve.status()["proxies"].values()
    return found


def test_text_is_streamed_and_streams_share_batches(client: httpx.Client) -> None:
    serve.run(text_stream.app, name="write", route_prefix="/write")
    with client.stream("GET", "/write", params={"prompt": "The file", "characters": 5}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert len(events) == 6 and events[-1] == "[DONE]" and all(len(json.loads(each)) == 1 for each in events[:-1])

    def ask(number: int) -> Any:
        asked = {"prompt": f"Number {number}", "characters": 1000, "stream": "no"}  # so long that they overlap
        return client.get("/write", params=asked).json()

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(4)))
    assert all(each["text"].startswith(f"Number {number}") for number, each in enumerate(answers))
    assert {len(each["text"]) for each in answers} == {1008} and max(each["batch"] for each in answers) > 1
    serve.delete("write")


def test_a_model_behind_fastapi(client: httpx.Client) -> None:
    serve.run(iris.app, name="iris", route_prefix="/iris")
    answer = client.post("/iris/predict", json={"petal_length": 4.7, "petal_width": 1.4}).json()
    assert answer == {"species": "versicolor", "probability": 0.78}
    refused = client.post("/iris/predict", json={"petal_length": -1, "petal_width": 1})
    assert refused.status_code == 422 and "greater than 0" in refused.text
    assert client.get("/iris/species").json()[0] == "setosa"
    assert "Flower" in client.get("/iris/openapi.json").json()["components"]["schemas"]
    serve.delete("iris")


def test_an_ensemble_votes(client: httpx.Client) -> None:
    serve.run(ensemble.build(), name="digits", route_prefix="/digits")
    answer = client.get("/digits", params={"number": 17}).json()
    assert answer["digit"] == 7 and set(answer["votes"]) == {"bayes", "forest", "neighbours"} and answer["right"]
    serve.delete("digits")


def test_pictures(client: httpx.Client) -> None:
    serve.run(images.app, name="images", route_prefix="/images")
    ramp = np.zeros((60, 80, 3), np.uint8)
    ramp[:, 40:] = 255
    picture = io.BytesIO()
    Image.fromarray(ramp).save(picture, "bmp")
    sizes, brightest = set(), {}
    for name in images.FILTERS:
        answer = client.post("/images", params={"width": 40, "filter": name}, content=picture.getvalue())
        made = Image.open(io.BytesIO(answer.content))
        assert answer.headers["content-type"] == "image/png" and made.format == "PNG"
        sizes.add(made.size)
        brightest[name] = int(np.asarray(made)[:, :10].max())
    assert sizes == {(40, 30)} and brightest == {"blur": 0, "edges": 0, "grey": 0, "none": 0}
    assert client.post("/images", params={"filter": "rainbow"}, content=b"x").status_code == 400
    assert "no picture" in client.post("/images", content=b"nothing").text
    serve.delete("images")


def test_a_chat(client: httpx.Client) -> None:
    serve.run(chat.app, name="chat", route_prefix="/chat")
    assert "WebSocket" in client.get("/chat/").text

    room = f"ws://{proxy()['address']}/chat/rooms/tea?name="

    async def talk() -> list[Any]:
        async with websockets.connect(room + "Ada", open_timeout=SECONDS) as ada:
            heard = [json.loads(await ada.recv())]
            async with websockets.connect(room + "Bob", open_timeout=SECONDS) as bob:
                heard.append(json.loads(await ada.recv()))
                await bob.send("hello")
                heard.append(json.loads(await ada.recv()))
            return [*heard, json.loads(await ada.recv())]

    heard = asyncio.run(asyncio.wait_for(talk(), SECONDS))
    assert [line["text"] for line in heard] == ["Ada is here", "Bob is here", "hello", "Bob is gone"]
    assert heard[2] == {"from": "Bob", "text": "hello", "people": ["Ada", "Bob"]} and heard[3]["people"] == ["Ada"]

    async def talk_and_vanish() -> list[str]:
        async with websockets.connect(room + "Ada", open_timeout=SECONDS) as ada:
            bob = await websockets.connect(room + "Bob", open_timeout=SECONDS)
            for number in range(100):
                await bob.send(str(number))
            bob.transport.abort()  # while lines are on their way to him
            texts = []
            while "Bob is gone" not in texts:
                texts.append(json.loads(await ada.recv())["text"])
            return texts

    texts = asyncio.run(asyncio.wait_for(talk_and_vanish(), SECONDS))
    assert texts[:2] == ["Ada is here", "Bob is here"] and texts[-1] == "Bob is gone"
    serve.delete("chat")


def test_a_canary_step_by_step(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ab_test, "USERS", 60)
    said: list[str] = []
    url = ab_test.main(say=said.append)
    assert len(said) == 5 and said[-1] == "the canary is the stable version now"
    assert {ab_test.ask(url, user) for user in ("ada", "bob")} == {"canary"}
    said.clear()
    ab_test.main(broken=True, say=said.append)
    assert len(said) < 5 and said[-1].startswith("it fails") and ab_test.ask(url, "user7") == "stable"
    serve.delete("price")
    serve.delete("price-canary")


def test_grpc(client: httpx.Client) -> None:
    serve.run(grpc_words.app, name="words", route_prefix="/words")
    assert grpc_words.ask(f"127.0.0.1:{GRPC_PORT}") == [
        "Count: 3 words, 13 letters",
        "Split: the, quick, fox",
        "Join: the quick fox",
        "Shout: THE, QUICK, FOX",
        "no text: INVALID_ARGUMENT, there is nothing to count",
    ]
    serve.delete("words")


def test_autoscaling(client: httpx.Client) -> None:
    seen = autoscaling.main(32, SECONDS, say=lambda line: None)
    assert seen[0] == seen[-1] == 0 and max(seen) == 4
    serve.delete("scaled")
