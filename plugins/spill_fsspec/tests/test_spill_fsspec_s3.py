"""The target on a server that speaks S3, which stops, hangs, refuses and comes back."""

from __future__ import annotations

import gc
import hashlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_spill_fsspec import plugin
from kernel_spill_fsspec.target import STEP_BYTES

import kernel
from kernel.conformance.spill_target import OBJECT, SpillTargetConformance
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session
from kernel_spec.errors import FaultError, ObjectLostError, ObjectStoreError, SpillError

MB = 1 << 20
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


class TestS3(SpillTargetConformance):
    @pytest.fixture(autouse=True)
    def _server(self, s3: Any) -> None:
        type(self).make_target = staticmethod(lambda directory: plugin.open_target(f"{s3.url}{directory}"))


def read(target: Any, uri: str, size: int) -> bytes:
    memory = bytearray(size)
    target.read_into(uri, memoryview(memory))
    return bytes(memory)


def test_large_objects_go_in_parts_and_nothing_is_left(s3: Any) -> None:
    target: Any = plugin.open_target(s3.url)
    data = np.random.default_rng(1).bytes(2 * STEP_BYTES + 12345)
    uri = target.write(OBJECT, memoryview(data))
    assert uri.startswith(f"{s3.url}/kernel-spill-")
    assert read(target, uri, len(data)) == data
    others = [target.write(OBJECT, memoryview(b"x" * size)) for size in range(1, 33)]
    target.delete_many([uri, *others[:30]])
    assert len(s3.names()) == 2
    target.close()
    assert s3.names() == [] and s3.uploads() == []


def test_a_write_that_is_cut_leaves_no_upload(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target: Any = plugin.open_target(s3.url, patience_seconds=0.1)
    write_all, pieces = target._write_all, []

    def break_off(file: Any, piece: Any) -> None:
        pieces.append(len(piece))
        if len(pieces) == 3:
            raise PermissionError("no longer")
        write_all(file, piece)

    monkeypatch.setattr(target, "_write_all", break_off)
    with pytest.raises(SpillError, match="no longer"):
        target.write(OBJECT, memoryview(bytes(3 * STEP_BYTES)))
    gc.collect()
    assert s3.names() == [] and s3.uploads() == []
    target.close()


def test_what_is_wrong_at_the_start_is_said(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpillError, match=r"can't spill to s3://no-such-bucket/x: .*bucket does not exist"):
        plugin.open_target("s3://no-such-bucket/x")
    s3.stop()
    with pytest.raises(SpillError, match=r"can't spill to s3://spilled/some/place: .*(connect|Connect)"):
        plugin.open_target(s3.url, patience_seconds=0.2)
    s3.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonesuch")
    with pytest.raises(SpillError, match="Unable to locate credentials"):
        plugin.open_target(s3.url)
    monkeypatch.undo()


def test_a_server_that_accepts_and_says_nothing_does_not_hold_up(s3: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(SpillError, match="did not answer within 0.5 s"):
            plugin.open_target(
                s3.url,
                step_seconds=0.5,
                patience_seconds=0.1,
                storage_options={"endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}"},
            )


def test_a_server_that_stops_for_a_moment_is_waited_for(s3: Any) -> None:
    target: Any = plugin.open_target(s3.url, patience_seconds=SECONDS)
    uri = target.write(OBJECT, memoryview(b"abc"))
    s3.stop()
    back = threading.Timer(1.0, s3.start)
    back.start()
    assert read(target, uri, 3) == b"abc"
    back.join()
    target.close()


# -- sessions --------------------------------------------------------------------------------------------------------


def block(seed: int, size: int = 4 * MB) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def digest(array: Any) -> str:
    return hashlib.blake2b(array, digest_size=16).hexdigest()


def test_a_program_whose_objects_exceed_the_store(s3: Any) -> None:
    with running_session(
        num_cpus=2, object_store_memory=32 * MB, spill_target="fsspec", spill_directory=s3.url
    ) as session:

        @kernel.remote
        def make(seed: int) -> np.ndarray:
            return block(seed)

        @kernel.remote
        def check(array: np.ndarray) -> str:
            return digest(array)

        refs = [kernel.put(block(n)) if n % 2 else make.remote(n) for n in range(30)]
        wanted = [digest(block(n)) for n in range(30)]
        assert kernel.get([check.remote(ref) for ref in refs], timeout=SECONDS) == wanted
        assert [digest(kernel.get(ref, timeout=SECONDS)) for ref in reversed(refs)] == wanted[::-1]
        assert len(s3.names()) >= 30 - 32 // 4
        assert not list(Path(session.directory).rglob("kernel-spill-*")), "nothing is spilled to this machine's disk"
        del refs
        wait_until(lambda: not s3.names(), SECONDS, "the end of copies that nobody needs")
        kept = [kernel.put(block(n)) for n in range(12)]
        assert kept and s3.names()
    assert s3.names() == [], "the end of a session removes what it has spilled"


def test_what_is_gone_or_damaged_there_is_made_again_or_named(s3: Any) -> None:
    with running_session(num_cpus=2, object_store_memory=32 * MB, spill_target="fsspec", spill_directory=s3.url):

        @kernel.remote
        def make(seed: int) -> np.ndarray:
            return block(seed)

        refs = [make.remote(0), make.remote(1), kernel.put(block(2)), kernel.put(block(3))]
        kernel.wait(refs, num_returns=4, timeout=SECONDS)
        filler = [kernel.put(block(n)) for n in range(10)]

        def spilled(ref: kernel.ObjectRef) -> list[str]:
            return [each for each in s3.names() if ref.hex() in each]

        wait_until(lambda: all(map(spilled, refs)), SECONDS, "four copies there")
        client = s3.client()
        for ref in refs[::2]:
            client.delete_object(Bucket="spilled", Key=spilled(ref)[0])
        for ref in refs[1::2]:
            size = int(spilled(ref)[0].rpartition("-")[2])
            client.put_object(Bucket="spilled", Key=spilled(ref)[0], Body=bytes(size))
        client.close()
        assert [digest(kernel.get(ref, timeout=SECONDS)) for ref in refs[:2]] == [digest(block(n)) for n in range(2)]
        for ref, why in zip(refs[2:], ["can't read the spilled copy", "is damaged"], strict=True):
            with pytest.raises(ObjectLostError, match=rf"s3://.*{ref.hex()}.*{why}"):
                kernel.get(ref, timeout=SECONDS)
        del filler


def test_a_server_that_dies_in_the_middle_is_named_and_the_session_goes_on(s3: Any) -> None:
    # Not a `running_session`, which would take the server that is started again for something left behind.
    with kernel.init(
        num_cpus=1,
        object_store_memory=32 * MB,
        spill_target="fsspec",
        spill_directory=s3.url,
        plugin_options={"fsspec": {"patience_seconds": 1.0, "step_seconds": SECONDS}},
    ):
        refs = [kernel.put(block(n)) for n in range(12)]
        s3.stop()
        with pytest.raises(ObjectStoreError) as caught:
            for number in range(12, 40):
                kernel.put(block(number))
        message = str(caught.value)
        assert "spilling failed" in message and "s3://spilled/some/place" in message and "onnect" in message
        with pytest.raises(FaultError, match="s3://spilled/some/place"):
            for ref in refs:
                kernel.get(ref, timeout=SECONDS)
        assert digest(kernel.get(refs[-1], timeout=SECONDS)) == digest(block(11)), "what is in memory stays of use"
        s3.start()
        refs += [kernel.put(block(n)) for n in range(12, 20)]
        assert [digest(kernel.get(ref, timeout=SECONDS)) for ref in refs] == [digest(block(n)) for n in range(20)]
    wait_until(lambda: s3.names() == [], SECONDS, "the end of what was spilled")
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in message
