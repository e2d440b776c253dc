"""Routes that are methods of classes: each class has its own, also where several share one application."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import httpx
import pytest
from fastapi import APIRouter, FastAPI

from kernel import serve

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0

app = FastAPI()
more = APIRouter(prefix="/more")
app.include_router(more)


@app.get("/outside")
def outside() -> str:
    return "outside"


class Common:
    @app.get("/common")
    def common(self, number: int) -> str:
        return f"{type(self).__name__} {number}"


@serve.deployment
@serve.ingress(app)
class First(Common):
    @app.get("/who")
    def who(self) -> str:
        return f"first, by {type(self).__name__}"

    @app.get("/first")
    @app.get("/first/again")
    def first(self) -> str:
        return "first"

    @more.get("/first")
    def included(self) -> str:
        return type(self).__name__

    @app.get("/item")
    def item(self) -> str:
        return "GET"

    @app.post("/item")
    def item(self) -> str:  # noqa: F811
        return "POST"


@serve.deployment
@serve.ingress(app)
class Second(Common):
    @app.get("/who")
    def who(self) -> str:
        return f"second, by {type(self).__name__}"

    @app.get("/second")
    def second(self) -> str:
        return "second"


def again(word: str) -> Any:
    """Define a class of the same name in the same application, as running a notebook's cell again does."""

    @serve.deployment(name="Again")
    @serve.ingress(app)
    class Again:
        @app.get("/again")
        def again(self) -> str:
            return word

    return Again


old, new = again("old"), again("new")
outsiders = serve.deployment(serve.ingress(app)(), name="Outsiders")


@app.get("/late")
def late() -> str:
    return "late"


@pytest.fixture(scope="module")
def client(address: tuple[str, int]) -> Any:
    for name, deployment in (
        ("first", First), ("second", Second), ("old", old), ("new", new), ("outsiders", outsiders)
    ):  # fmt: skip
        serve.run(deployment.bind(), name=name, route_prefix=f"/{name}")
    with httpx.Client(base_url="http://{}:{}".format(*address), timeout=SECONDS) as client:
        yield client


def get(client: httpx.Client, path: str) -> Any:
    answer = client.get(path)
    return answer.json() if answer.status_code == 200 else answer.status_code


def test_each_class_serves_its_own_routes_and_those_of_no_class(client: httpx.Client) -> None:
    paths = ("who", "first", "first/again", "second", "again", "outside", "late")
    served = {name: [get(client, f"/{name}/{path}") for path in paths] for name in ("first", "second", "outsiders")}
    assert served == {
        "first": ["first, by First", "first", "first", 404, 404, "outside", "late"],
        "second": ["second, by Second", 404, 404, "second", 404, "outside", "late"],
        "outsiders": [404, 404, 404, 404, 404, "outside", "late"],
    }


def test_routes_of_a_base_are_those_of_all_that_derive_from_it(client: httpx.Client) -> None:
    paths = ("/first/common?number=1", "/second/common?number=2", "/outsiders/common?number=3")
    assert [get(client, path) for path in paths] == ["First 1", "Second 2", 404]
    assert client.get("/second/common?number=many").json()["detail"][0]["loc"] == ["query", "number"]


def test_routes_of_an_included_router_are_of_their_class_alone(client: httpx.Client) -> None:
    assert [get(client, f"/{name}/more/first") for name in ("first", "second")] == ["First", 404]


def test_two_methods_of_one_name_are_two_routes(client: httpx.Client) -> None:
    assert (client.get("/first/item").json(), client.post("/first/item").json()) == ("GET", "POST")


def test_a_class_that_is_defined_anew_has_no_routes_of_the_one_before(client: httpx.Client) -> None:
    assert [get(client, f"/{name}/again") for name in ("old", "new")] == ["old", "new"]


def test_the_openapi_page_has_the_routes_that_there_are(client: httpx.Client) -> None:
    assert list(client.get("/second/openapi.json").json()["paths"]) == [
        "/outside", "/common", "/who", "/second", "/late"
    ]  # fmt: skip
