"""Handles and other programs when Serve is shut down, and when it is started again."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import pytest

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


@serve.deployment
def twice(number: int) -> int:
    return number * 2


class Other:
    """Another process that calls handles and asks for the status."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def ask(self, number: int) -> int | str:
        try:
            return int(self.handle.remote(number).result(timeout_s=SECONDS))
        except serve.NotServingError as error:
            return str(error)

    def applications(self) -> list[str] | str:
        try:
            return list(serve.status()["applications"])
        except serve.NotServingError as error:
            return str(error)


@pytest.mark.usefixtures("address")
def test_calls_say_that_serve_has_ended_and_go_on_when_it_begins_again() -> None:
    handle = serve.run(twice.bind(), name="twice", route_prefix=None)
    other = kernel.remote(num_cpus=0)(Other).remote(handle)
    assert handle.remote(2).result() == 4
    assert kernel.get(other.ask.remote(3)) == 6 and kernel.get(other.applications.remote()) == ["twice"]

    serve.shutdown()
    with pytest.raises(serve.NotServingError, match="Serve does not run in this session"):
        handle.remote(2).result(timeout_s=SECONDS)
    assert "Serve does not run in this session" in kernel.get(other.ask.remote(3))
    assert "Serve does not run in this session" in kernel.get(other.applications.remote())

    serve.start(proxy_location="Disabled")
    serve.run(twice.bind(), name="twice", route_prefix=None)
    wait_until(lambda: kernel.get(other.ask.remote(3)) == 6, SECONDS, "the other process calls the new one")
    assert handle.remote(4).result() == 8
    assert kernel.get(other.applications.remote()) == ["twice"]


@pytest.mark.usefixtures("address")
def test_an_application_may_be_deleted_twice_and_a_warning_says_what_was_meant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    serve.run(twice.bind(), name="twice", route_prefix=None)
    serve.delete("twise")
    assert caplog.messages == ["nothing to delete: there is no application 'twise'; did you mean 'twice'?"]
    assert list(serve.status()["applications"]) == ["twice"]
    for _ in range(2):
        serve.delete("twice")
    assert caplog.messages[1:] == ["nothing to delete: there is no application 'twice'; there is none"]
    serve.shutdown()
    with pytest.raises(serve.NotServingError, match="Serve does not run in this session"):
        serve.delete("twice")
    serve.start(proxy_location="Disabled")
