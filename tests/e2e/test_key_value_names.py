"""`kernel.KeyValue`: what programs share by name, and what outlives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel_spec.errors import OptionError

SECONDS = 120.0


@pytest.fixture(scope="class", params=[False, True], ids=["session", "local mode"])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=1, local_mode=request.param, log_to_driver=False):
        yield


@pytest.mark.usefixtures("session")
class TestVerbs:
    def test_what_was_put_is_found_until_it_is_deleted(self) -> None:
        store = kernel.KeyValue("verbs")
        assert store.get("a") is None
        assert store.put("a", b"1") is True
        assert store.put("a", bytearray(b"2")) is True
        assert store.get("a") == b"2"
        assert store.delete("a") is True
        assert store.delete("a") is False
        assert store.get("a") is None

    def test_what_is_too_large_is_refused_before_it_is_sent(self) -> None:
        store = kernel.KeyValue("large")
        limit = 16 << 20
        assert store.put("model", bytes(limit - 5)) is True
        text = (
            r"the value of 'model' can't be stored in a KeyValue: 16777217 bytes are more than 16777216 \(16 MB\); "
            r"keep it in an object \(kernel.put\) or a file, and store what names that"
        )
        with pytest.raises(OptionError, match=text):
            store.put("model", bytes(limit - 4))
        with pytest.raises(OptionError, match="a key of 16777217 bytes can't be stored"):
            store.put("x" * (limit + 1), b"")
        assert len(store.get("model") or b"") == limit - 5

    def test_of_many_one_is_the_first(self) -> None:
        store = kernel.KeyValue("first")
        assert [store.put("leader", name, overwrite=False) for name in (b"a", b"b")] == [True, False]
        assert store.get("leader") == b"a"

    def test_keys_are_in_order_and_of_their_namespace_alone(self) -> None:
        store, other = kernel.KeyValue("keys"), kernel.KeyValue("other keys")
        for key in ("b/2", "ä", "b/1", "a"):
            store.put(key, b"")
        other.put("b/3", b"")
        assert store.keys() == ["a", "b/1", "b/2", "ä"]
        assert store.keys("b/") == ["b/1", "b/2"]
        assert other.keys() == ["b/3"]
        assert store.get("a") == b""

    def test_tasks_see_the_same(self) -> None:
        @kernel.remote
        def swap(key: str) -> bytes | None:
            mine = kernel.KeyValue("shared")
            before = mine.get(key)
            mine.put(key, b"theirs")
            return before

        store = kernel.KeyValue("shared")
        store.put("x", b"mine")
        assert kernel.get(swap.remote("x"), timeout=SECONDS) == b"mine"
        assert store.get("x") == b"theirs"

    def test_what_is_of_another_type_is_refused_by_name(self) -> None:
        store = kernel.KeyValue("types")
        with pytest.raises(OptionError, match=r"the value of 'a' must be bytes, not a str; pickle.dumps\(\) makes"):
            store.put("a", "text")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="a key of a KeyValue must be a string, not b'a'"):
            store.get(b"a")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match="the namespace of a KeyValue must be a non-empty string, not ''"):
            kernel.KeyValue("")

    def test_one_node_is_the_one_of_the_head(self) -> None:
        assert [row["IsHead"] for row in kernel.nodes()] == [True]


_PROGRAM = """
import sys, kernel
kernel.init(address=sys.argv[1], log_to_driver=False)
kernel.KeyValue("lasting").put("word", b"kept")
"""


def test_it_outlives_the_program_and_the_head() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, head_apart=True, plugins={"metadata_store": "sqlite"}) as cluster:
        cluster.connect()
        subprocess.run([sys.executable, "-c", _PROGRAM, cluster.head.directory], check=True, timeout=SECONDS)
        store = kernel.KeyValue("lasting")
        assert store.get("word") == b"kept"
        cluster.kill_head()
        assert store.get("word") == b"kept"
