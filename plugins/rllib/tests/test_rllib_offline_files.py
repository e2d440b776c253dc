"""Files of recorded experience: what is written is read, old and packed files too, and hostile ones do nothing."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import tracemalloc
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import ConfigError, DataError, MissingDependencyError
from kernel_rllib.offline.array_pickles import of_pickle, to_pickle
from kernel_rllib.offline.files import found_files, open_to_write
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.inputs import MixedInput, ShuffledInput
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.json_lines import of_line, pack, to_line, unpack
from kernel_rllib.offline.json_reader import JsonReader
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.offline.lz4_frames import of_frame, to_frame

STEPS = Batch(
    obs=np.arange(12, dtype=np.float32).reshape(4, 3), actions=np.array([0, 1, 1, 0]),
    rewards=np.ones(4, np.float32), dones=np.array([False, False, False, True]), eps_id=np.full(4, 7),
)  # fmt: skip
LINKED = (
    "BCJNGEBAwAoCAAD/8QABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9"
    "Pj9AQUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVpbXF1eX2BhYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ent8fX5/gIGCg4SFhoeI"
    "iYqLjI2Oj5CRkpOUlZaXmJmam5ydnp+goaKjpKWmp6ipqqusra6vsLGys7S1tre4ubq7vL2+v8DBwsPExcbHyMnKy8zNzs/Q0dLT"
    "1NXW19jZ2tvc3d7f4OHi4+Tl5ufo6err7O3u7/Dx8vP09fb3+Pn6+/z9/v8AAf"
    + "/" * 339
    + "+dQ+/z9/v82AAAADwD"
    + "/" * 59
    + "8UUPv8/f7/AAAAAA=="
)
"""A frame whose blocks refer to one another, as the library lz4 writes it with `block_linked`."""


def assert_equal(found: Any, expected: Any) -> None:
    assert sorted(found) == sorted(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("packed", [(), ("obs", "new_obs"), ("obs", "actions", "rewards", "dones", "eps_id")])
def test_what_is_written_is_read(packed: tuple[str, ...]) -> None:
    found = of_line(to_line(STEPS, packed))
    assert isinstance(found, Batch) and found["obs"].dtype == np.float32 and found["actions"].dtype == np.int64
    assert_equal(found, STEPS)
    many = of_line(to_line(MultiAgentBatch({"a": STEPS, "b": STEPS.slice(0, 2)}, 5), packed))
    assert isinstance(many, MultiAgentBatch) and many.count == 5 and many.policy_batches["b"].count == 2
    assert_equal(many.policy_batches["a"], STEPS)


def test_lines_have_the_keys_and_forms_of_the_first_generation() -> None:
    line = json.loads(to_line(STEPS, ["obs"]))
    assert line["type"] == "SampleBatch" and line["actions"] == [0, 1, 1, 0] and line["dones"][-1] is True
    inside = of_frame(base64.b64decode(line["obs"]))
    assert b"cnumpy.core.multiarray\n_reconstruct" in inside and inside[:2] == b"\x80\x03"
    np.testing.assert_array_equal(pickle.loads(inside), STEPS["obs"])
    many = json.loads(to_line(MultiAgentBatch({"a": STEPS}, 4)))
    assert (many["type"], many["count"], sorted(many["policy_batches"]["a"])) == ("MultiAgentBatch", 4, sorted(STEPS))


def test_infos_are_objects_in_files_and_stay_so() -> None:
    infos = np.array([{"a": np.float32(1)}, {}, {"b": [1, 2]}, {}], object)
    found = of_line(to_line(Batch(STEPS, infos=infos), ["infos"]))
    assert isinstance(found, Batch) and found["infos"].tolist() == [{"a": 1.0}, {}, {"b": [1, 2]}, {}]
    with pytest.raises(DataError, match="the column 'infos' holds what JSON has no form for"):
        to_line(Batch(infos=np.array([object()], object)))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3), np.array([True, False]), np.arange(3, dtype=">i8"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 2), np.uint8), np.array(["a", "bc"]),
        np.array([{"a": 1}, None, [2.0]], object), np.float64(2.5),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)  # fmt: skip
def test_pickles_of_arrays_are_read_whatever_wrote_them(array: Any, protocol: int) -> None:
    data = pickle.dumps(array, protocol)
    for old in (data, data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray") if protocol < 4 else data):
        found = of_pickle(old)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype.newbyteorder("=")


def test_arrays_that_were_read_may_be_changed() -> None:
    found = of_pickle(to_pickle(STEPS["obs"]))
    found[0] = 5
    assert found[0, 0] == 5


class Harmful:
    """A pickle of it makes a folder when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def hostile(path: str) -> Iterator[tuple[bytes, str]]:
    """Yield pickles that are no arrays, and what is said of each."""
    yield pickle.dumps(Harmful(path), 2), r"asks for posix\.mkdir, and only arrays of numpy are read from files"
    yield pickle.dumps(np.array([Harmful(path)], object)), r"asks for posix\.mkdir"
    yield b"cbuiltins\neval\n(S'1'\ntR.", r"asks for builtins\.eval"
    yield b"cnumpy\nload\n(S'x'\ntR.", r"asks for numpy\.load"
    yield b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy.core.multiarray\n_reconstruct\n(I0\ntS'b'\ntR.", "of its own"
    yield b"cnumpy\nndarray\n(I3\ntR.", "can't be read"
    yield b"cnumpy\ndtype\n(S'V8'\ntR.", "the dtype 'V8'; those of numbers, flags and texts are read"
    yield b"cnumpy\ndtype\n(S'f8'\ntR.", "holds a _DType: only arrays"
    yield b"Pelsewhere\n.", "refers to what is outside"
    yield b"c_codecs\nencode\n(Vx\nS'rot13'\ntR.", "in an encoding that"
    yield pickle.dumps(np.zeros(10**6, np.int8))[:100], "can't be read"
    yield b"", "can't be read"
    yield b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'f8'\ntRS'abc'\ntR.", "can't be read"


def test_hostile_pickles_run_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "made")
    for data, said in hostile(path):
        with pytest.raises(DataError, match=said):
            of_pickle(data)
        with pytest.raises(DataError, match=said):
            unpack(base64.b64encode(to_frame(data)).decode())
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("BCJNGGhAYAAAAAAAAADnDQAAAD9hYmMDAEVQYmNhYmMAAAAA", b"abc" * 32),  # with the size of what it holds
        (
            "BCJNGHRAvQ0AAAA/YWJjAwBFUGJjYWJjCq5N5wAAAACL2mad",
            b"abc" * 32,
        ),  # with checksums, without the size
        (LINKED, bytes(range(256)) * 300),  # two blocks, the second of which repeats what is in the first
        ("BCJNGGBAggIAAIBhYgAAAAA=", b"ab"),  # a block that is stored as it is
    ],
)
def test_frames_of_the_library_lz4_are_read(frame: str, expected: bytes) -> None:
    assert of_frame(base64.b64decode(frame)) == expected


def test_frames_are_written_and_read() -> None:
    random = np.random.default_rng(0).bytes(100_000)
    for data in (b"", b"ab", random, b"x" * 9_000_000):
        written = to_frame(data)
        assert written[:4] == b"\x04\x22\x4d\x18" and of_frame(written) == data
    assert len(to_frame(b"x" * 9_000_000)) < 100_000


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"nothing", "no whole frame of LZ4"),
        (to_frame(b"ab" * 100)[:-1], "no whole frame of LZ4 .*: the file is damaged there"),
        (to_frame(b"ab" * 100)[:9], "no whole frame of LZ4"),
        (to_frame(b"ab" * 100)[:7] + b"\x04\0\0\0\x10a\x05\0" + bytes(4), "no whole frame of LZ4"),
        (to_frame(b"x" * 10_001), "stands for more than 10,000 bytes: write batches of fewer steps"),
    ],
)
def test_frames_that_are_none_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        of_frame(data, most=10_000)


def test_a_frame_that_stands_for_much_is_refused_before_it_is_unpacked() -> None:
    frame = to_frame(bytes(200_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="stands for more than 1,000 bytes"):
            of_frame(frame, most=1000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_without_pyarrow_columns_are_lists_and_packed_ones_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packed = to_line(STEPS, ["obs"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    line = to_line(STEPS, ["obs"])
    assert json.loads(line)["obs"] == STEPS["obs"].tolist()
    assert_equal(of_line(line), STEPS)
    with pytest.raises(MissingDependencyError, match="packed columns are read .* by pyarrow: pip install pyarrow"):
        of_line(packed)
    (tmp_path / "out.json").write_text(packed + "\n")
    with pytest.raises(MissingDependencyError, match="pip install pyarrow"):  # no line is left out for that
        JsonReader(str(tmp_path)).next()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", 'its "type" is None'),
        ('{"type": "Other"}', "its \"type\" is 'Other', and neither"),
        ('{"type": "MultiAgentBatch", "policy_batches": [1]}', 'has no "policy_batches"'),
        ('{"type": "SampleBatch", "obs": "no"}', "no whole frame|not packed"),
        ('{"type": "SampleBatch", "obs": 3}', "the column 'obs' is 3, and neither a list nor"),
        ('{"type": "SampleBatch", "obs": [1, 2], "actions": [1]}', "different numbers of rows"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_lines_that_are_none_say_why(line: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        of_line(line)


def test_writers_begin_a_new_file_where_one_is_large_enough(tmp_path: Path) -> None:
    def clock() -> datetime:
        return datetime(2019, 1, 1, 15, 58, 57)

    writer = JsonWriter(str(tmp_path / "out"), IOContext(worker_index=2), 300, (), clock=clock)
    assert not (tmp_path / "out").exists()
    for _ in range(3):
        writer.write(STEPS)
    writer.close()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"output-2019-01-01_15-58-57_worker-2_{index}.json" for index in range(2)]
    lines = [len((tmp_path / "out" / name).read_text().splitlines()) for name in names]
    assert lines == [2, 1]


def test_a_batch_is_in_its_file_at_once(tmp_path: Path) -> None:
    writer = JsonWriter(str(tmp_path))
    writer.write(STEPS)
    assert_equal(JsonReader(str(tmp_path)).next(), STEPS)
    writer.close()


def written(path: Path, *numbers: int) -> None:
    """Write a file with one batch of one step for each number, which is its reward."""
    path.write_text("".join(to_line(Batch(rewards=np.array([number]))) + "\n" for number in numbers))


def rewards(reader: InputReader, count: int) -> list[int]:
    """Return the rewards of so many batches."""
    return [int(reader.next()["rewards"][0]) for _ in range(count)]


def test_files_are_read_in_any_order_each_from_its_beginning_and_again(tmp_path: Path) -> None:
    for file in range(3):
        written(tmp_path / f"{file}.json", 10 * file, 10 * file + 1)
    orders = set()
    for seed in range(8):
        found = rewards(JsonReader(str(tmp_path / "*.json"), IOContext(seed=seed)), 12)
        assert sorted(found[:6]) == sorted(found[6:]) == [0, 1, 10, 11, 20, 21]
        assert all(later == earlier + 1 for earlier, later in zip(found[::2], found[1::2], strict=True))
        assert found == rewards(JsonReader(str(tmp_path), IOContext(seed=seed)), 12)
        orders.add(tuple(found))
    assert len(orders) > 1


def test_files_that_grow_are_read_on(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    written(file, 1)
    with file.open("a") as growing:
        half = to_line(Batch(rewards=np.array([2]))) + "\n"
        growing.write(half[:20])
        growing.flush()
        reader = JsonReader([str(file)])
        assert rewards(reader, 3) == [1, 1, 1]
        growing.write(half[20:])
        growing.flush()
        assert 2 in rewards(reader, 3)
    written(tmp_path / "b.json", 5)
    assert 5 in rewards(JsonReader(str(tmp_path)), 4)


def test_a_reader_goes_on_where_another_one_was(tmp_path: Path) -> None:
    for file in range(3):
        written(tmp_path / f"{file}.json", *range(10 * file, 10 * file + 4))
    reader = JsonReader(str(tmp_path), IOContext(seed=1))
    rewards(reader, 6)
    other = JsonReader(str(tmp_path), IOContext(seed=2))
    other.set_state(reader.state())
    assert rewards(other, 20) == rewards(reader, 20)
    reader.close()


def test_damaged_lines_are_left_out_unless_there_is_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_text("{nothing\n\n" + to_line(STEPS) + "\n")
    assert JsonReader(str(tmp_path)).next().count == 4
    assert "a.json is left out: it is not JSON" in caplog.text
    (tmp_path / "a.json").write_text("{nothing\n" * 200)
    with pytest.raises(DataError, match="101 lines in a row hold no batch; the last one is in .*a.json: it is not"):
        JsonReader(str(tmp_path)).next()
    (tmp_path / "a.json").write_text("")
    with pytest.raises(DataError, match="hold no batch: wait until there is one"):
        JsonReader(str(tmp_path)).next()
    with pytest.raises(DataError, match=r"there is no file of recorded experience in .*none.*: name a folder"):
        JsonReader(str(tmp_path / "none"))


def test_addresses_are_reached_by_fsspec() -> None:
    pytest.importorskip("fsspec")
    writer = JsonWriter("memory://bucket/out/", compress_columns=["obs"])
    writer.write(STEPS)
    writer.close()
    (name,) = found_files("memory://bucket/out", (".json",))
    assert name.startswith("memory://bucket/out/output-")
    for source in (name, "memory://bucket/out", "memory://bucket/out/*.json"):
        assert_equal(JsonReader(source).next(), STEPS)


def test_files_that_can_not_be_opened_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="experience can't be written to .*file/out/x.json"):
        open_to_write(str(tmp_path / "file" / "out" / "x.json"))
    with pytest.raises(DataError, match="recorded experience can't be read from .*gone.json"):
        reader = JsonReader(str(tmp_path / "file"))
        reader.set_state({"path": str(tmp_path / "gone.json"), "offset": 0, "waiting": [], **draws()})


def draws() -> dict[str, str]:
    """Return the draws of a state."""
    import random

    return {"draws": json.dumps(random.Random(1).getstate())}


class Counting(InputReader):
    """Returns batches whose reward counts up."""

    def __init__(self, first: int) -> None:
        self.count = first

    def next(self) -> Batch:
        self.count += 1
        return Batch(rewards=np.array([self.count]))

    def state(self) -> dict[str, int]:
        return {"count": self.count}

    def set_state(self, state: Any) -> None:
        self.count = state["count"]


def test_readers_are_mixed_by_their_shares() -> None:
    mixed = MixedInput([Counting(0), Counting(100_000)], [3, 1], np.random.default_rng(1))
    found = np.array(rewards(mixed, 4000)) < 50_000
    assert abs(found.mean() - 0.75) < 3 * np.sqrt(0.75 * 0.25 / 4000)
    other = MixedInput([Counting(0), Counting(0)], [3, 1], np.random.default_rng(2))
    other.set_state(mixed.state())
    assert rewards(other, 50) == rewards(mixed, 50)


def test_a_window_shuffles_batches_and_loses_none() -> None:
    reader = Counting(0)
    shuffled = ShuffledInput(reader, 10, np.random.default_rng(1))
    first = shuffled.next()["rewards"][0]
    assert reader.count == 11 and 1 <= first <= 10
    found = [int(first), *rewards(shuffled, 989)]
    assert len(set(found)) == 990 and found != sorted(found)
    assert set(range(1, 900)) <= set(found)


def test_what_needs_a_place_or_tensorflow_says_so() -> None:
    with pytest.raises(ConfigError, match="default_sampler_input.. steps the environment of a runner, and this"):
        IOContext().default_sampler_input()
    with pytest.raises(ConfigError, match="Counting.tf_input_ops.. would be a queue of TensorFlow's graphs"):
        Counting(0).tf_input_ops()
    assert pack(np.zeros(2)) == pack(np.zeros(2))
