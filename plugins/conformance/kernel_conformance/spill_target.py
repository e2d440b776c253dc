"""The conformance suite for spill targets: what every target promises, tried through the contract alone.

    class TestMyTarget(SpillTargetConformance):
        make_target = staticmethod(lambda directory: MyTarget(directory))

`make_target` is given a fresh directory; a target that is not on disk may ignore it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from kernel_spec.errors import SpillError
from kernel_spec.ids import ObjectId, TaskId, object_id
from kernel_spec.spill import SpillTarget

OBJECT = object_id(TaskId(b"conformance-task"), 0)


class SpillTargetConformance:
    """Subclass it, name your target, run pytest."""

    make_target: Callable[[str], SpillTarget]
    """Makes the target under test, given a directory of its own."""

    def test_what_was_written_is_read(self) -> None:
        with self.target() as target:
            for size in (1, 4095, 1_000_003):
                data = os.urandom(size)
                uri = target.write(OBJECT, memoryview(data))
                assert isinstance(uri, str)
                assert self.read(target, uri, size) == data

    def test_two_copies_of_one_object_live_side_by_side(self) -> None:
        with self.target() as target:
            old, new = target.write(OBJECT, memoryview(b"old")), target.write(OBJECT, memoryview(b"newer"))
            assert (self.read(target, old, 3), self.read(target, new, 5)) == (b"old", b"newer")
            target.delete(old)
            assert self.read(target, new, 5) == b"newer"

    def test_writing_leaves_the_memory_alone(self) -> None:
        with self.target() as target:
            memory = bytearray(b"abc")
            uri = target.write(OBJECT, memoryview(memory))
            memory[:] = b"xyz"
            assert self.read(target, uri, 3) == b"abc"

    def test_a_deleted_copy_is_missing(self) -> None:
        with self.target() as target:
            uri = target.write(OBJECT, memoryview(b"abc"))
            target.delete(uri)
            target.delete(uri)
            self.read_fails(target, uri, 3)

    def test_a_copy_of_another_length_is_refused(self) -> None:
        with self.target() as target:
            uri = target.write(OBJECT, memoryview(b"abc"))
            self.read_fails(target, uri, 4)
            assert self.read(target, uri, 3) == b"abc"

    def test_an_unknown_uri_is_refused(self) -> None:
        with self.target() as target:
            self.read_fails(target, "nowhere:1", 3)

    def test_threads_do_not_disturb_each_other(self) -> None:
        with self.target() as target, ThreadPoolExecutor(4) as pool:
            values = [bytes([i]) * (1000 + i) for i in range(40)]
            names = [ObjectId(object_id(TaskId(b"conformance-task"), i)) for i in range(40)]
            uris = list(pool.map(lambda name, value: target.write(name, memoryview(value)), names, values))
            assert len(set(uris)) == 40
            assert list(pool.map(lambda uri, value: self.read(target, uri, len(value)), uris, values)) == values

    def test_closing_removes_everything(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            target = type(self).make_target(directory)
            target.write(OBJECT, memoryview(b"abc"))
            target.close()
            assert os.listdir(directory) == []

    @contextmanager
    def target(self) -> Iterator[SpillTarget]:
        """Make a target in a fresh directory, and close it again."""
        with tempfile.TemporaryDirectory() as directory:
            target = type(self).make_target(directory)
            try:
                yield target
            finally:
                target.close()

    @staticmethod
    def read(target: SpillTarget, uri: str, size: int) -> bytes:
        """Return the `size` bytes at `uri`."""
        memory = bytearray(size)
        target.read_into(uri, memoryview(memory))
        return bytes(memory)

    @staticmethod
    def read_fails(target: SpillTarget, uri: str, size: int) -> None:
        """Check that reading `size` bytes at `uri` raises `SpillError`."""
        try:
            SpillTargetConformance.read(target, uri, size)
        except SpillError:
            return
        raise AssertionError(f"reading {size} bytes at {uri} should have raised SpillError")
