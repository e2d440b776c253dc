"""Names that a program gives: its actors find them, and say why where they can't."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import kernel
from kernel_runs.errors import RunError
from kernel_runs.shared_names import SharedNames, publish_names


def found(kind: str, name: str) -> Any:
    """Return what a process finds, and all names that it finds: in an actor, where nobody gave any."""
    here = SharedNames(kind)
    return here.find(name), here.names()


@pytest.fixture(scope="module")
def elsewhere(session: None) -> Any:
    return kernel.remote(found)


@pytest.fixture
def names(request: pytest.FixtureRequest) -> SharedNames:
    return SharedNames(f"thing of {request.node.name}")


def test_a_name_is_known_without_a_session_and_to_all_when_there_is_one(names: SharedNames, elsewhere: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "is_initialized", lambda: False)
        names.register("double", lambda x: 2 * x)
        assert names.find("double")(4) == 8 and names.find("treble") is None and names.names() == ["double"]
    assert kernel.get(elsewhere.remote(names.kind, "double")) == (None, [])
    publish_names()
    function, known = kernel.get(elsewhere.remote(names.kind, "double"))
    assert function(4) == 8 and known == ["double"]


def test_a_name_that_is_given_again_means_the_new_value(names: SharedNames, elsewhere: Any) -> None:
    for value in (1, 2):
        names.register("it", value)
        assert kernel.get(elsewhere.remote(names.kind, "it"))[0] == value


def test_a_name_may_be_for_this_process_alone(names: SharedNames, elsewhere: Any) -> None:
    names.register("it", 1)
    names.know("mine", 2)
    publish_names()
    assert names.find("mine") == 2
    assert kernel.get(elsewhere.remote(names.kind, "mine")) == (None, ["it"])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (threading.Lock(), "it can't be pickled: TypeError: cannot pickle '_thread.lock' object"),
        (bytes(17_000_000), "16 MB"),
    ],
)
def test_what_can_not_be_sent_says_so_where_it_is_asked_for(
    names: SharedNames, elsewhere: Any, value: Any, reason: str
) -> None:
    names.register("it", value)
    assert names.find("it") is value
    with pytest.raises(
        RunError,
        match=rf"the thing of .* 'it' was registered in another process, and can't be loaded in this one: .*{reason}",
    ):
        kernel.get(elsewhere.remote(names.kind, "it"))
