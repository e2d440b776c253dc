"""The store in Redis keeps its contract, and says what it can't keep."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pluggy
import pytest
from kernel_metadata_redis import plugin
from kernel_metadata_redis.inspection import ALWAYS, EACH_SECOND, NOTHING, NOW_AND_THEN, SNAPSHOTS, UNKNOWN

from kernel.conformance.metadata_store import MetadataStoreConformance
from kernel_spec import hooks
from kernel_spec.errors import HeadReplacedError, MetadataError

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
Starter = Callable[..., Any]


class TestRedis(MetadataStoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, shared_redis: Any) -> None:
        # A busy machine may take long over a large value; what a store does then is tried by tests of its own.
        patient = {"url": shared_redis.url, "timeout_seconds": 120.0}
        type(self).make_store = staticmethod(lambda directory: plugin.open_store(directory, **patient))


def refusal(url: str, **options: Any) -> str:
    with pytest.raises(MetadataError) as caught:
        plugin.open_store("/session", url=url, **{"patience_seconds": 0.1, **options})
    return str(caught.value)


def test_sessions_are_apart_and_leave_nothing(shared_redis: Any) -> None:
    before = set(shared_redis.admin.keys())
    one, two = (plugin.open_store(f"/sessions/{name}", url=shared_redis.url) for name in ("one", "two"))
    one.put("table", b"key", b"1")
    two.put_many("table", {b"%d" % number: b"x" for number in range(5000)})
    assert (one.get("table", b"key"), one.get("table", b"0")) == (b"1", None)
    assert len(list(two.scan("table"))) == 5000
    assert {key.split(b":")[1] for key in set(shared_redis.admin.keys()) - before} == {b"one", b"two"}
    one.discard()
    two.discard()
    assert set(shared_redis.admin.keys()) == before


def test_a_shared_prefix_is_taken_over_by_the_next_head(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    first = plugin.open_store("/sessions/first", url=server.url, prefix="production:")
    assert first.claim(b"first") == 1
    first.put("table", b"key", b"value")
    second = plugin.open_store("/sessions/second", url=server.url, prefix="production:")
    assert second.claim(b"head 7 on host b") == 2
    with pytest.raises(HeadReplacedError) as caught:
        first.put("table", b"key", b"old")
    assert str(caught.value) == (
        f"the metadata under 'production:' in the Redis at {server.url} was claimed by head 7 on host b: nothing was "
        "changed. A head that starts claims it first, and one that was replaced must stop"
    )
    second.discard()
    third = plugin.open_store("/sessions/third", url=server.url, prefix="production:")
    assert third.get("table", b"key") == b"value", "what heads share does not go with one of them"
    third.close()
    first.close()


def test_a_redis_that_was_emptied_is_told_from_a_replaced_head(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url)
    store.claim(b"head")
    server.admin.flushall()
    with pytest.raises(
        MetadataError, match="is gone, and with it the claim of this head.*Nothing was changed"
    ) as caught:
        store.put("table", b"key", b"value")
    assert not isinstance(caught.value, HeadReplacedError)
    store.close()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (DURABLE, ALWAYS),
        (("--appendonly", "yes", "--appendfsync", "everysec"), EACH_SECOND),
        (("--appendonly", "yes", "--appendfsync", "no"), NOW_AND_THEN),
        (("--save", "60", "1000"), SNAPSHOTS),
        ((), NOTHING),
        (("--user", "default", "on", "nopass", "~kernel:*", "+@all", "-info", "-config"), UNKNOWN),
    ],
)
def test_says_what_its_durability_depends_on(
    start_redis: Starter, caplog: pytest.LogCaptureFixture, settings: tuple[str, ...], expected: str
) -> None:
    server = start_redis(*settings)
    with caplog.at_level(logging.WARNING):
        store: Any = plugin.open_store("/session", url=server.url)
    assert store.durability == expected
    warned = [f"the Redis at {server.url}: {expected}"]
    assert [record.getMessage() for record in caplog.records] == ([] if expected in (ALWAYS, EACH_SECOND) else warned)
    store.close()


def test_a_cache_is_refused(start_redis: Starter) -> None:
    server = start_redis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    assert refusal(server.url) == (
        f"the Redis at {server.url} is a cache: at 104857600 bytes it removes keys by itself (maxmemory-policy "
        "allkeys-lru), and metadata would be lost. Set its maxmemory-policy to noeviction, or use another Redis"
    )


def test_a_replica_is_refused_and_names_its_primary(start_redis: Starter) -> None:
    server = start_redis("--replicaof", "127.0.0.1", "1")
    assert refusal(server.url) == (
        f"the Redis at {server.url} is a read-only replica of 127.0.0.1:1. Name that one in the option url"
    )


def test_a_primary_that_becomes_a_replica_changes_nothing(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url, patience_seconds=0.1)
    store.put("table", b"key", b"value")
    server.admin.config_set("replica-serve-stale-data", "yes")
    server.admin.replicaof("127.0.0.1", "1")
    with pytest.raises(MetadataError, match="is a read-only replica .*Name the primary .*nothing was changed"):
        store.put("table", b"key", b"other")
    server.admin.replicaof("NO", "ONE")
    assert store.get("table", b"key") == b"value"
    store.put("table", b"key", b"other")
    store.close()


def test_a_full_redis_loses_nothing_and_passes(start_redis: Starter) -> None:
    server = start_redis("--maxmemory", "10mb")
    store = plugin.open_store("/session", url=server.url)
    store.put("table", b"old", b"value")
    server.admin.config_set("maxmemory", "1mb")
    for change in (
        lambda: store.put_many("table", {b"%d" % number: b"x" * 4000 for number in range(100)}),
        lambda: store.put("other", b"new", b"value", overwrite=False),
    ):
        with pytest.raises(MetadataError, match="has no memory left .*Raise its maxmemory.*nothing was changed"):
            change()
    assert list(store.scan("table")) == [(b"old", b"value")] and list(store.scan("other")) == []
    assert store.delete("table", b"old") is True, "a full store can be made emptier"
    server.admin.config_set("maxmemory", "100mb")
    store.put("table", b"new", b"value")
    store.close()


def test_keys_of_another_program_are_left_alone(start_redis: Starter) -> None:
    server = start_redis(*DURABLE)
    store = plugin.open_store("/session", url=server.url)
    server.admin.set(b"kernel:session:table:taken", b"theirs")
    for call in (lambda: store.put("taken", b"key", b"value"), lambda: list(store.scan("taken"))):
        with pytest.raises(MetadataError, match="has a key of another kind there .*say another prefix"):
            call()
    assert server.admin.get(b"kernel:session:table:taken") == b"theirs"
    store.close()


def test_offers_itself_by_name_and_imports_no_client() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_metadata_stores() == [{"redis": plugin.open_store}]
    assert manager.hook.kernel_contracts() == [{"metadata_store": 1}]
    assert "redis" not in vars(plugin)


def test_the_password_file_is_named_when_it_is_missing(shared_redis: Any, tmp_path: Path) -> None:
    text = refusal(shared_redis.url, password_file=str(tmp_path / "nowhere"))
    assert text.startswith(f"can't read the password of Redis from {tmp_path}/nowhere: No such file or directory.")
