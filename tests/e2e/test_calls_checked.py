"""Calls that can't work fail where they are written, and an actor class has what its class has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import kernel

pytestmark = pytest.mark.usefixtures("session")


@kernel.remote
def add(a: int, /, b: int, c: int = 3, *, d: int = 4) -> int:
    return a + b + c + d


def passes_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function("given", *args)

    return call


@kernel.remote
class Shelf:
    WIDTH = 80

    def __init__(self, *books: str) -> None:
        self.books = list(books)

    def __len__(self) -> int:
        return len(self.books)

    def __getitem__(self, place: int) -> str:
        return self.books[place]

    def put(self, book: str, *, twice: bool = False) -> None:
        self.books += [book] * (1 + twice)

    @passes_on
    def said(self, *args: Any) -> None:
        """Take what the decorator gives besides."""

    @staticmethod
    def doubled(width: int) -> int:
        return 2 * width

    @classmethod
    def named(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    def know_the_class(self) -> list[Any]:
        return [Shelf.WIDTH, Shelf.doubled(2), Shelf.named("a"), isinstance(self, Shelf), isinstance(1, Shelf)]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, r"add\(\) missing 2 required positional arguments: 'a' and 'b'"),
        ((1,), {}, r"add\(\) missing 1 required positional argument: 'b'"),
        ((1, 2, 3, 4), {}, r"add\(\) takes from 2 to 3 positional arguments but 4 were given"),
        ((1, 2), {"b": 3}, r"add\(\) got multiple values for argument 'b'"),
        ((1, 2), {"a": 3}, r"add\(\) got an unexpected keyword argument 'a'"),
        ((1, 2), {"dd": 3}, r"add\(\) got an unexpected keyword argument 'dd'; did you mean 'd'\?"),
    ],
)
def test_arguments_of_a_task(args: tuple[int, ...], kwargs: dict[str, int], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        add.remote(*args, **kwargs)
    assert kernel.get([add.remote(1, 2), add.remote(1, b=2, d=0)]) == [10, 6]


def test_arguments_of_methods_also_of_a_handle_that_came_from_elsewhere() -> None:
    shelf = Shelf.options(name="shelf").remote("a", "b")
    for handle in (shelf, kernel.get_actor("shelf"), kernel.get(kernel.put([shelf]))[0]):
        with pytest.raises(TypeError, match=r"Shelf\.put\(\) missing 1 required positional argument: 'book'"):
            handle.put.remote()
        with pytest.raises(TypeError, match=r"Shelf\.put\(\) takes 1 positional argument but 2 were given"):
            handle.put.remote("c", True)
        kernel.get([handle.put.remote("c", twice=True), handle.doubled.remote(3), handle.named.remote("x")])
    assert kernel.get(shelf.said.remote(1)) is None


def test_special_methods_are_called_by_a_handle() -> None:
    shelf = Shelf.remote("a", "b")
    assert kernel.get([shelf.__len__.remote(), shelf.__getitem__.remote(1)]) == [2, "b"]
    assert shelf, "a handle has no length itself"


def test_a_class_is_known_by_its_actor_class() -> None:
    assert (Shelf.WIDTH, Shelf.doubled(2), Shelf.named("a")) == (80, 4, "Shelf a")
    assert kernel.get(Shelf.remote().know_the_class.remote()) == [80, 4, "Shelf a", True, False]
    with pytest.raises(AttributeError, match=r"put\(\) is a method of the actors of Shelf: call it by a handle"):
        Shelf.put  # noqa: B018
    with pytest.raises(AttributeError, match="actor class Shelf has no attribute 'HEIGHT'"):
        Shelf.HEIGHT  # noqa: B018


def test_a_plain_function_does_not_stream() -> None:
    with pytest.raises(ValueError, match=r"num_returns='streaming' is for generators, which add\(\) is not"):
        add.options(num_returns="streaming").remote(1, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_cpus": 1e-5}, "can't be finer than 0.0001"),
        ({"resources": {"CPU": 1}}, "must be given as num_cpus=1"),
        ({"resources": {"disk": 1e-6}}, "can't be finer than 0.0001"),
    ],
)
def test_resources_are_refused_where_they_are_written(options: dict[str, Any], said: str) -> None:
    for thing in (add, Shelf):
        with pytest.raises(ValueError, match=said):
            thing.options(**options)


@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        (lambda: kernel.get(3), (TypeError, ValueError)),
        (lambda: kernel.get(Shelf.remote()), (TypeError, ValueError)),
        (lambda: kernel.wait(1), (TypeError, ValueError)),
        (lambda: kernel.cancel(Shelf.remote().put.remote("a"), force=True), (ValueError,)),
        (lambda: kernel.init(), (RuntimeError,)),
        (lambda: kernel.exit_actor(), (TypeError, RuntimeError)),
    ],
    ids=["get a number", "get a handle", "wait for a number", "end a call by force", "init again", "exit outside"],
)
def test_mistakes_are_errors_of_the_kind_that_python_programs_catch(
    call: Callable[[], Any], kinds: tuple[type[Exception], ...]
) -> None:
    for kind in kinds:
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, kernel.exceptions.UsageError)
