"""`ray.serve.start` with the arguments of all releases, and what it hands on to `kernel.serve.start`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from kernel.serve import HTTPOptions
from kernel.serve.errors import DeploymentError

Call = tuple[tuple[Any, ...], dict[str, Any]]


@pytest.fixture
def serve(fresh_ray: None) -> ModuleType:
    return importlib.import_module("ray.serve")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The arguments of each call of `kernel.serve.start`, which does nothing else."""
    calls: list[Call] = []
    target = "kernel_compat_ray.serve.start.start_serve"
    monkeypatch.setattr(target, lambda *arguments, **named: calls.append((arguments, named)))
    return calls


@pytest.mark.parametrize(
    ("arguments", "named", "expected"),
    [
        ((), {}, ((None, None), {})),
        ((), {"detached": True, "http_host": None}, ((None, None), {})),
        ((), {"http_host": "0.0.0.0", "http_port": 1}, ((None, {"host": "0.0.0.0", "port": 1}), {})),
        ((), {"http_options": {"port": 1, "host": "a"}, "http_port": 2}, ((None, {"port": 2, "host": "a"}), {})),
        ((), {"http_options": HTTPOptions(port=1), "http_port": 2}, ((None, HTTPOptions(port=2)), {})),
        (("HeadOnly", {}, {"port": 3}), {"tracing": True}, (("HeadOnly", {}, {"port": 3}), {"tracing": True})),
    ],
)  # fmt: skip
def test_host_and_port_are_those_of_http_options(
    serve: ModuleType, started: list[Call], arguments: tuple[Any, ...], named: dict[str, Any], expected: Call
) -> None:
    serve.start(*arguments, **named)
    assert started == [expected]


def test_what_there_is_not_is_refused(serve: ModuleType, started: list[Call]) -> None:
    assert importlib.import_module("ray.serve.api").start is serve.start
    with pytest.raises(DeploymentError, match="takes no argument 'dedicated_cpu': see http_options"):
        serve.start(detached=True, dedicated_cpu=True)
    with pytest.raises(DeploymentError, match="takes no argument 'tracing_config': see tracing"):
        serve.start(tracing_config={})
    assert not started
