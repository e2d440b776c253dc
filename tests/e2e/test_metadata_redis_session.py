"""A session that keeps its metadata in Redis, told where by options, and what another head does to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kernel_metadata_redis import plugin
from kernel_metadata_redis.testing import RedisServer

import kernel
from kernel.runtime.current import get_runtime
from kernel.testing.faults import wait_until
from kernel.testing.programs import need
from kernel.testing.session import running_session
from kernel_spec.errors import HeadReplacedError, MetadataError

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
SECONDS = 120.0
PATIENT = {"timeout_seconds": SECONDS, "patience_seconds": SECONDS}


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis that keeps everything."""
    need("redis-server")
    made = RedisServer(*DURABLE)
    yield made
    made.remove()


def command_line(pid: int) -> bytes:
    """Return a process's command line, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def put(key: bytes, value: bytes) -> bool:
    stored: bool = get_runtime().query("kv_put", "space", key, value, True)
    return stored


def test_a_session_keeps_its_table_there_and_takes_it_along(server: RedisServer) -> None:
    server.settings += ["--requirepass", "secret-word"]
    server.kill()
    server.start()
    url = f"unix://:secret-word@{server.socket}"
    admin = redis.Redis.from_url(url)
    with running_session(
        num_cpus=1, metadata_store="redis", plugin_options={"redis": {"url": url, **PATIENT}}
    ) as session:
        name = Path(session.directory).name
        put(b"key", b"value")
        assert get_runtime().query("kv_keys", "space", b"k") == [b"key"]
        assert admin.hgetall(f"kernel:{name}:table:kv:space") == {b"key": b"value"}
        admin.connection_pool.disconnect()
        server.kill()
        server.start()
        assert get_runtime().query("kv_keys", "space", b"k") == [b"key"], "a Redis that is started again is waited for"
        told = [path.read_bytes() for path in Path(session.directory).rglob("*") if path.is_file()]
        told += [command_line(pid) for pid in (session.agent, *session.workers())]
        assert not [text for text in told if b"secret-word" in text]
    assert admin.keys() == []
    admin.close()


def test_a_second_head_replaces_the_first(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_OPTION_REDIS_URL", server.url)
    monkeypatch.setenv("KERNEL_OPTION_REDIS_PREFIX", "production:")
    with running_session(num_cpus=1, metadata_store="redis"):
        put(b"key", b"value")
        other = plugin.open_store("/other", url=server.url, prefix="production:")
        assert other.claim(b"another head") == 2  # type: ignore[attr-defined]
        with pytest.raises(HeadReplacedError, match="was claimed by another head: nothing was changed"):
            put(b"key", b"stale")
        assert other.get("kv:space", b"key") == b"value"
        other.close()


def test_a_session_outlives_its_redis(server: RedisServer) -> None:
    options = {"redis": {"url": server.url, **PATIENT, "patience_seconds": 0.2}}
    with running_session(num_cpus=1, metadata_store="redis", plugin_options=options) as session:
        server.kill()
        with pytest.raises(MetadataError, match="has not answered"):
            put(b"key", b"value")

        @kernel.remote
        def double(number: int) -> int:
            return 2 * number

        assert kernel.get(double.remote(21), timeout=SECONDS) == 42
    wait_until(lambda: not Path(session.directory).exists(), SECONDS, "the end of the session's directory")
    server.start()


def test_no_redis_no_session() -> None:
    with pytest.raises(MetadataError, match="has not answered for"):
        kernel.init(
            metadata_store="redis",
            plugin_options={"redis": {"url": "redis://127.0.0.1:1", "patience_seconds": 0.1}},
        )
    assert not kernel.is_initialized()
