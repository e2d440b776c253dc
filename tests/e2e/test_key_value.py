"""The key-value store of a session: what was stored comes back as it is, and nobody unpickles it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel.runtime.current import get_runtime


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.mark),)


@pytest.fixture(params=[False, True], ids=["session", "local mode"])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=1, local_mode=request.param):
        yield


@pytest.mark.usefixtures("session")
def test_bytes_that_are_a_pickle_come_back_as_bytes(tmp_path: Path) -> None:
    query = get_runtime().query
    mark = tmp_path / "unpickled"
    stored = pickle.dumps(Trap(str(mark)))
    assert query("kv_put", "space", b"key", stored, True) is True
    assert query("kv_get", "space", b"key") == stored
    assert not mark.exists()
    assert query("kv_get", "space", b"other") is None
    assert query("kv_keys", "space", b"") == [b"key"]


@pytest.mark.usefixtures("session")
def test_any_bytes_may_be_stored() -> None:
    query = get_runtime().query
    for stored in (b"", b"\x80", b"\x80\x04.", bytes(range(256))):
        query("kv_put", "space", b"key", stored, True)
        assert query("kv_get", "space", b"key") == stored


@pytest.mark.usefixtures("session")
def test_answers_of_more_than_plain_values_are_values() -> None:
    assert kernel.nodes()[0]["Alive"] is True
    assert [row["pid"] for row in get_runtime().query("jobs")] == [os.getpid()]
