"""Redis servers for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kernel_metadata_redis.testing import RedisServer

from kernel.testing.programs import need


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """A Redis that keeps everything, for tests that leave it as it is."""
    need("redis-server")
    server = RedisServer("--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.remove()


@pytest.fixture
def start_redis() -> Iterator[Callable[..., RedisServer]]:
    """Start a Redis with the settings given; it is gone after the test."""
    need("redis-server")
    servers: list[RedisServer] = []

    def start(*settings: str) -> RedisServer:
        servers.append(RedisServer(*settings))
        return servers[-1]

    yield start
    for server in servers:
        server.remove()
