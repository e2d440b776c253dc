"""Spilled copies that are gone or damaged: another copy, or the object is made again, or the error names the file."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.exceptions import ObjectLostError
from kernel.runtime.current import get_runtime
from kernel.testing import Cluster
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session
from kernel_processes.runtime.lineage import CALL_BYTES

SECONDS = 120.0
MB = 1 << 20
SIZE = 4 * MB


class Runs:
    """How often things ran, in a directory that all processes see."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def note(self, name: object) -> None:
        (self.directory / f"{name}-{os.urandom(8).hex()}").touch()

    def count(self, name: object) -> int:
        return len(list(self.directory.glob(f"{name}-*")))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@kernel.remote
def make(runs: Runs, value: int, *arguments: Any) -> np.ndarray:
    runs.note(value)
    return np.full(SIZE, value + sum(int(each[0]) for each in arguments), np.uint8)


@kernel.remote
def total(array: np.ndarray) -> int:
    return int(array.sum())


@kernel.remote
def read(refs: list[kernel.ObjectRef]) -> int:
    return int(kernel.get(refs[0]).sum())


@kernel.remote
class Source:
    def make(self) -> np.ndarray:
        return np.ones(SIZE, np.uint8)


class Spills:
    """A session with a small store, whose objects can be had on disk and damaged there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def files(self, ref: kernel.ObjectRef) -> list[Path]:
        return [path for path in self.directory.rglob(f"{ref.hex()}-*") if not path.name.endswith(".unfinished")]

    def spill(self, *refs: kernel.ObjectRef) -> list[Path]:
        """Have objects spilled, and nothing of them be in memory; return their files."""
        kernel.wait(list(refs), num_returns=len(refs), timeout=SECONDS)
        fillers = [kernel.put(np.zeros(5 * MB, np.uint8)) for _ in range(6)]
        names = {ref.hex() for ref in refs}

        def spilled() -> bool:
            rows = get_runtime().query("memory")["stored"]
            if names == {row[0].hex() for row in rows if row[0].hex() in names and "spilled" in row}:
                return True
            # What a worker was still looking at a moment ago has stayed, and a filler went in its place.
            fillers[:] = [*fillers[1:], kernel.put(np.zeros(5 * MB, np.uint8))]
            return False

        wait_until(spilled, SECONDS, "spilled objects")
        del fillers[:]
        return [file for ref in refs for file in self.files(ref)]


@pytest.fixture(scope="module")
def spills() -> Iterator[Spills]:
    with running_session(object_store_memory=32 * MB, num_cpus=2) as session:
        yield Spills(Path(session.directory, "spill"))


@pytest.fixture
def nothing_stays(spills: Spills) -> Iterator[None]:
    yield
    empty = lambda: not get_runtime().query("memory")["stored"]
    wait_until(empty, SECONDS, "an empty store")
    wait_until(lambda: not [path for path in spills.directory.rglob("*") if path.is_file()], SECONDS, "no files")


def flip(file: Path, offset: int) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 4]))


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "deleted": (Path.unlink, "No such file"),
    "truncated": (lambda file: os.truncate(file, SIZE // 2), "were expected"),
    "empty": (lambda file: os.truncate(file, 0), "were expected"),
    "longer": (lambda file: os.truncate(file, 2 * SIZE), "were expected"),
    "a bit in the middle": (lambda file: flip(file, SIZE // 2), "is damaged: .* CRC-32"),
    "the first byte": (lambda file: flip(file, 0), "is damaged: .* CRC-32"),
    "a byte of the head": (lambda file: flip(file, 40), "is damaged: .* CRC-32"),
    "the last byte": (lambda file: flip(file, file.stat().st_size - 1), "is damaged: .* CRC-32"),
    "unreadable": (replace_by_directory, "Is a directory"),
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[Path], Any], str]]:
    damaged: list[Path] = []

    def do(file: Path) -> None:
        damaged.append(file)
        DAMAGES[request.param][0](file)

    yield do, DAMAGES[request.param][1]
    for file in damaged:
        if file.is_dir():
            file.rmdir()


@pytest.mark.usefixtures("nothing_stays")
def test_a_result_is_made_again(spills: Spills, damage: Any, runs: Runs) -> None:
    ref = make.remote(runs, 7)
    (file,) = spills.spill(ref)
    damage[0](file)
    array = kernel.get(ref, timeout=SECONDS)
    assert (array == 7).all() and len(array) == SIZE
    assert runs.count(7) == 2


@pytest.mark.usefixtures("nothing_stays")
def test_what_was_put_is_lost_and_the_error_names_the_file(spills: Spills, damage: Any) -> None:
    ref = kernel.put(np.ones(SIZE, np.uint8))
    (file,) = spills.spill(ref)
    damage[0](file)
    for _ in range(2):
        with pytest.raises(ObjectLostError, match=damage[1]) as caught:
            kernel.get(ref, timeout=SECONDS)
        assert str(file) in str(caught.value) and "it was put" in str(caught.value)
    with pytest.raises(ObjectLostError, match=damage[1]):
        kernel.get(total.remote(ref), timeout=SECONDS)
    with pytest.raises(kernel.exceptions.TaskError, match=damage[1]):
        kernel.get(read.remote([ref]), timeout=SECONDS)


@pytest.mark.usefixtures("nothing_stays")
def test_what_an_actor_made_is_lost_and_the_error_names_the_file(spills: Spills) -> None:
    source = Source.remote()
    ref = source.make.remote()
    (file,) = spills.spill(ref)
    file.unlink()
    with pytest.raises(ObjectLostError, match=r"No such file.* came from an actor") as caught:
        kernel.get(ref, timeout=SECONDS)
    assert str(file) in str(caught.value)


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize("reader", [total, read], ids=["an argument", "a borrower"])
def test_a_task_gets_it_made_again(spills: Spills, runs: Runs, reader: Any) -> None:
    ref = make.remote(runs, 1)
    (file,) = spills.spill(ref)
    flip(file, SIZE // 2)
    asked = [reader.remote(ref if reader is total else [ref]) for _ in range(4)]
    assert kernel.get(asked, timeout=SECONDS) == [SIZE] * 4
    assert 2 <= runs.count(1) <= 4


@pytest.mark.usefixtures("nothing_stays")
def test_what_a_lost_result_was_made_of_is_made_again_before_it(spills: Spills, runs: Runs) -> None:
    """Also what nobody has a reference to any more."""
    first = make.remote(runs, 1)
    second = make.remote(runs, 2, first)
    third = make.remote(runs, 4, first, second)
    kernel.wait([third], timeout=SECONDS)
    del first
    for file in spills.spill(second, third):
        file.unlink()
    assert int(kernel.get(third, timeout=SECONDS)[0]) == 8
    assert [runs.count(value) for value in (1, 2, 4)] == [2, 2, 2]


@pytest.mark.usefixtures("nothing_stays")
def test_of_a_chain_without_end_the_last_recipes_are_kept(
    spills: Spills, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_processes.runtime.lineage.MOST_BYTES", 10 * CALL_BYTES)

    def chain(length: int) -> kernel.ObjectRef:
        ref = make.remote(runs, 1)
        for _ in range(length - 1):
            ref = make.remote(runs, 0, ref)
        spills.spill(ref)[0].unlink()
        return ref

    gc.collect()  # errors that other tests have caught hold references, in cycles
    assert int(kernel.get(chain(8), timeout=SECONDS)[0]) == 1
    assert (runs.count(1), runs.count(0)) == (2, 14)
    long = chain(30)
    known = get_runtime().ownership.objects  # type: ignore[attr-defined]
    wait_until(lambda: len(known) <= 13, SECONDS, "few objects that are known")
    with pytest.raises(ObjectLostError, match="it is freed, and how it was made is forgotten"):
        kernel.get(long, timeout=SECONDS)


@pytest.mark.usefixtures("nothing_stays")
def test_no_more_often_than_its_task_may_run(spills: Spills, runs: Runs) -> None:
    ref = make.options(max_retries=1).remote(runs, 1)
    for _ in range(2):
        (file,) = spills.spill(ref)
        file.unlink()
        if runs.count(1) == 1:
            assert kernel.get(total.remote(ref), timeout=SECONDS) == SIZE
    with pytest.raises(ObjectLostError, match="may not run again") as caught:
        kernel.get(ref, timeout=SECONDS)
    assert runs.count(1) == 2 and str(file) in str(caught.value)


@pytest.mark.usefixtures("nothing_stays")
def test_wait_says_that_it_is_ready_and_get_has_it_made_again(spills: Spills, runs: Runs) -> None:
    refs = [make.remote(runs, value) for value in (1, 2, 3)]
    for file in spills.spill(*refs):
        file.unlink()
    ready, others = kernel.wait(refs, num_returns=3, timeout=SECONDS)
    assert not others
    assert [int(array[0]) for array in kernel.get(ready, timeout=SECONDS)] == [1, 2, 3]
    assert [runs.count(value) for value in (1, 2, 3)] == [2, 2, 2]


@pytest.mark.usefixtures("nothing_stays")
@pytest.mark.parametrize("number", [4, "dynamic", "streaming"])
def test_several_results_of_a_task(spills: Spills, runs: Runs, number: Any) -> None:
    @kernel.remote
    def several(runs: Runs) -> Any:
        runs.note("several")
        for value in range(4):
            yield np.full(SIZE, value, np.uint8)

    made = several.options(num_returns=number).remote(runs)
    refs = list(kernel.get(made, timeout=SECONDS)) if number == "dynamic" else list(made)
    spills.spill(*refs)[2].unlink()
    assert [int(array[-1]) for array in kernel.get(refs, timeout=SECONDS)] == [0, 1, 2, 3]
    assert runs.count("several") == 2


@pytest.mark.usefixtures("nothing_stays")
def test_the_directory_is_gone(spills: Spills, runs: Runs) -> None:
    made, put = make.remote(runs, 1), kernel.put(np.ones(SIZE, np.uint8))
    directory = spills.spill(made, put)[0].parent
    while directory.exists():
        with contextlib.suppress(FileNotFoundError):  # the session removes a file of its own just now
            shutil.rmtree(directory)
    try:
        assert kernel.get(total.remote(made), timeout=SECONDS) == SIZE
        with pytest.raises(ObjectLostError, match="No such file"):
            kernel.get(put, timeout=SECONDS)
    finally:
        directory.mkdir(exist_ok=True)


@pytest.mark.usefixtures("nothing_stays")
def test_the_directory_is_gone_and_there_is_no_room_in_memory(spills: Spills, runs: Runs) -> None:
    made, put = make.remote(runs, 1), kernel.put(np.ones(SIZE, np.uint8))
    directory = spills.spill(made, put)[0].parent
    held = [kernel.put(np.full(5 * MB, number, np.uint8)) for number in range(6)]  # has to be spilled for the others
    while directory.exists():
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(directory)
    for _ in range(2):
        assert kernel.get(total.remote(made), timeout=SECONDS) == SIZE
        with pytest.raises(ObjectLostError, match="No such file"):
            kernel.get(put, timeout=SECONDS)
    for number, ref in enumerate(held):
        with contextlib.suppress(ObjectLostError):  # it had been spilled before
            assert kernel.get(total.remote(ref), timeout=SECONDS) == 5 * MB * number


# -- several nodes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> Iterator[Spills]:
    """Two nodes: this program's, with a small store, and "b". They take the place of the session above."""
    kernel.shutdown()
    with Cluster(num_cpus=2, resources={"a": 100}, object_store_memory=32 * MB) as cluster:
        cluster.add_node(num_cpus=2, resources={"b": 100})
        cluster.connect()
        yield Spills(Path(cluster.head.directory, "spill"))


HERE, THERE = {"resources": {"a": 1}}, {"resources": {"b": 1}}


@pytest.mark.parametrize("where", [HERE, THERE], ids=["here", "there"])
def test_another_nodes_copy_is_used(nodes: Spills, runs: Runs, where: Any) -> None:
    """Also of what was put, which nothing could make again."""
    refs = [kernel.put(np.ones(SIZE, np.uint8)), make.options(**HERE).remote(runs, 1)]
    assert kernel.get([total.options(**THERE).remote(ref) for ref in refs], timeout=SECONDS) == [SIZE] * 2
    for file in nodes.spill(*refs):
        flip(file, SIZE // 2)
    assert kernel.get([total.options(**where).remote(ref) for ref in refs], timeout=SECONDS) == [SIZE] * 2
    assert [int(array.sum()) for array in kernel.get(refs, timeout=SECONDS)] == [SIZE] * 2
    assert runs.count(1) == 1


@pytest.mark.parametrize("reader", [total, read], ids=["an argument", "a borrower"])
def test_a_reader_on_another_node_gets_it_made_again(nodes: Spills, runs: Runs, reader: Any) -> None:
    ref, put = make.options(**HERE).remote(runs, 1), kernel.put(np.ones(SIZE, np.uint8))
    for file in nodes.spill(ref, put):
        flip(file, SIZE // 2)
    argument = lambda ref: ref if reader is total else [ref]
    assert kernel.get(reader.options(**THERE).remote(argument(ref)), timeout=SECONDS) == SIZE
    assert runs.count(1) == 2
    with pytest.raises(kernel.exceptions.KernelError, match=r"file://.* is damaged"):
        kernel.get(reader.options(**THERE).remote(argument(put)), timeout=SECONDS)
