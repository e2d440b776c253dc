"""Settings of backends, and the requests that they get, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_compat_ray.serve.first_generation.accept_batch import accept_batch, accepts_batches
from kernel_compat_ray.serve.first_generation.config import (
    BackendConfig,
    accepts_batches_in,
    config_in,
    config_of,
    settings_of,
)
from kernel_compat_ray.serve.first_generation.requests import environ_of
from werkzeug.wrappers import Request

from kernel.serve.errors import DeploymentError


class TestConfig:
    def test_it_becomes_settings_and_is_found_in_them(self) -> None:
        config = BackendConfig(3, max_batch_size=20, num_cpus=2, resources={"custom": 1}, user_config={"a": 1})
        made = settings_of(config, True, {"num_cpus": 1, "max_restarts": 0})
        assert (made.num_replicas, made.max_ongoing_requests) == (3, 40)
        assert made.actor_options == {"num_cpus": 2, "max_restarts": 0, "resources": {"custom": 1}}
        assert config_in(made) == config and accepts_batches_in(made)
        assert settings_of(BackendConfig(), False).actor_options == {"num_cpus": 0}

    def test_a_dict_changes_what_it_names(self) -> None:
        before = BackendConfig(num_replicas=2, max_batch_size=3)
        assert config_of({"num_replicas": 4}, before) == BackendConfig(num_replicas=4, max_batch_size=3)
        assert config_of({"max_concurrent_requests": 7}) == BackendConfig(max_concurrent_queries=7)
        assert config_of(None, before) == before and config_of(before) == before

    @pytest.mark.parametrize("wrong", [{"max_batch_size": 0}, {"num_replicas": True}, {"batch_wait_timeout": "1"}])
    def test_what_can_not_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(DeploymentError, match=f"{next(iter(wrong))} of a backend is a"):
            config_of(wrong)

    def test_a_handler_says_whether_it_takes_lists(self) -> None:
        class Handler:
            @accept_batch
            def __call__(self, requests: list[Any]) -> list[Any]:
                return requests

        class Plain(Handler):
            def __call__(self, requests: list[Any]) -> list[Any]:
                return requests

        assert accepts_batches(Handler) and not accepts_batches(Plain)
        assert accepts_batches(accept_batch(lambda requests: requests)) and not accepts_batches(len)
        with pytest.raises(DeploymentError, match="@serve.accept_batch is for a function or a method"):
            accept_batch(Handler)  # type: ignore[type-var]


def test_a_request_keeps_what_http_said() -> None:
    scope = {
        "method": "POST",
        "path": "/a b/é",
        "raw_path": b"/a%20b/%C3%A9",
        "query_string": b"q=%C3%BC&q=2",
        "headers": [(b"host", b"here:8000"), (b"x-two", b"1"), (b"x-two", b"2"), (b"content-type", b"text/x; a=b")],
        "http_version": "1.1",
        "scheme": "https",
        "server": ("127.0.0.1", 8000),
        "client": ("10.0.0.1", 99),
    }  # fmt: skip
    request = Request(environ_of(scope, b"body"))
    assert (request.path, request.args.getlist("q")) == ("/a b/é", ["ü", "2"])
    assert (request.url, request.remote_addr) == ("https://here:8000/a%20b/é?q=ü&q=2", "10.0.0.1")
    assert (request.headers["X-Two"], request.mimetype, request.data) == ("1,2", "text/x", b"body")
