"""A serializer with a key, which every process of a session must be told: programs, agents, workers, on all nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kernel
from kernel.testing.cluster import Cluster

FILES = {
    "locks-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: locks\nVersion: 1.0\n",
    "locks-1.0.dist-info/entry_points.txt": "[kernel.plugins]\nlocks = locks_plugin\n",
    "locks_plugin.py": """
from kernel_spec import hookimpl
from kernel_spec.serialization import Payload, SerializerBase

class Locks(SerializerBase):
    "Adds a key to each byte: no encryption, but without the key nothing can be read."

    name = "locks"

    def __init__(self, *, key: int = 0):
        if not key:
            raise ValueError("a process was not told the key")
        self.key = key

    def encode(self, payload):
        return Payload(self._turned(payload.head, self.key), [self._turned(each, self.key) for each in payload.buffers])

    def decode(self, head, buffers):
        return Payload(self._turned(head, -self.key), [self._turned(each, -self.key) for each in buffers])

    def _turned(self, data, by):
        return bytes(data).translate(bytes((byte + by) % 256 for byte in range(256)))

@hookimpl
def kernel_contracts():
    return {"serializer": 1}

@hookimpl
def kernel_serializers():
    return {"locks": Locks}
""",
}


@kernel.remote(num_cpus=0, resources={"there": 1})
def reverse(text: str, more: str) -> str:
    return text[::-1] + more


def test_all_processes_have_the_key_of_the_heads_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = {"plugins": {"serializer": "locks"}, "plugin_options": {"locks": {"key": 7}}}
    with Cluster(num_cpus=1, **options) as cluster:
        cluster.add_node(num_cpus=1, resources={"there": 1})
        cluster.connect()
        cluster.wait_for_nodes(2)
        assert kernel.get(reverse.remote(kernel.put("abc" * 100_000), "d")) == "cba" * 100_000 + "d"
