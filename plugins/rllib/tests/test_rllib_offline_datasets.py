"""Datasets of others: files of D4RL, and folders of Minari in HDF5, Arrow and Parquet, as inputs of runs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError, MissingDependencyError
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.minari_files import minari_episodes
from kernel_rllib.offline.sources import ReaderMaker
from kernel_rllib.offline.spaces_as_json import space_of
from kernel_rllib.testing.training import weights_after
from kernel_rllib.training.registry import algorithm_class

h5py = pytest.importorskip("h5py")
arrow = pytest.importorskip("pyarrow")

BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, -1.0], "high": [1.0, 1.0]}
COUNTED = {"type": "Discrete", "dtype": "int64", "start": 2, "n": 3}
PARTS = {"type": "Dict", "subspaces": {"a": BOX, "b": COUNTED}}
BOTH = {"type": "Tuple", "subspaces": [COUNTED, BOX]}
LENGTHS = (3, 1, 4)
"""The steps of three episodes: the first ends by itself, the others are cut off."""


def flat(path: Path, **changes: Any) -> str:
    """Write a file of D4RL of these episodes, and return its path; None leaves an array out."""
    count = sum(LENGTHS)
    terminals, timeouts = np.zeros(count, bool), np.zeros(count, bool)
    terminals[2] = timeouts[3] = timeouts[7] = True
    arrays = {
        "observations": np.arange(2 * count, dtype=np.float32).reshape(count, 2),
        "actions": np.linspace(-0.5, 0.5, count, dtype=np.float32)[:, None], "rewards": np.arange(count) * 1.0,
        "terminals": terminals, "timeouts": timeouts, **changes,
    }  # fmt: skip
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            if array is not None:
                file[name] = array
        file["infos/qpos"] = np.zeros(count)
    return str(path)


def sampled(space: spaces.Space[Any], count: int, seed: int) -> list[Any]:
    """Return so many values of a space."""
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def columns_of(space: spaces.Space[Any], values: list[Any]) -> Any:
    """Return values part by part, as arrays."""
    if isinstance(space, spaces.Dict):
        return {name: columns_of(part, [value[name] for value in values]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(columns_of(part, [each[index] for each in values]) for index, part in enumerate(space.spaces))
    return np.asarray(values, space.dtype)


def in_group(group: Any, name: str, values: Any) -> None:
    """Write the parts of a struct as Minari does into HDF5."""
    if isinstance(values, dict | tuple):
        named = values if isinstance(values, dict) else {f"_index_{index}": each for index, each in enumerate(values)}
        for key, part in named.items():
            in_group(group.require_group(name), key, part)
    else:
        group[name] = values


def in_arrow(values: Any, pad: int) -> Any:
    """Return the parts of a struct as Minari writes them with pyarrow, with rows of zeros after them."""
    if isinstance(values, dict | tuple):
        named = values if isinstance(values, dict) else {str(index): each for index, each in enumerate(values)}
        return arrow.StructArray.from_arrays([in_arrow(part, pad) for part in named.values()], names=list(named))
    values = np.pad(values, [(0, pad), *[(0, 0)] * (values.ndim - 1)])
    if values.ndim == 1:
        return arrow.array(values)
    return arrow.FixedSizeListArray.from_arrays(values.reshape(-1), int(np.prod(values.shape[1:])))


def dataset(folder: Path, form: str, observations: Any = BOX, actions: Any = BOX) -> list[dict[str, Any]]:
    """Write a dataset as Minari does, and return its episodes."""
    data = folder / "data"
    data.mkdir(parents=True)
    described = {"observation_space": json.dumps(observations), "action_space": json.dumps(actions)}
    (data / "metadata.json").write_text(json.dumps({"data_format": form, "jpeg_encoding": True, **described}))
    found = []
    for number, length in enumerate(LENGTHS):
        ends = np.arange(length) == length - 1
        found.append({
            "observations": columns_of(space_of(observations), sampled(space_of(observations), length + 1, number)),
            "actions": columns_of(space_of(actions), sampled(space_of(actions), length, 10 + number)),
            "rewards": np.arange(length) + 10.0 * number, "terminations": ends & (number == 0),
            "truncations": ends & (number > 0),
        })  # fmt: skip
        if form == "hdf5":
            with h5py.File(data / "main_data.hdf5", "a") as file:
                for name, values in found[-1].items():
                    in_group(file.require_group(f"episode_{number}"), name, values)
            continue
        columns = {name: in_arrow(values, int(name != "observations")) for name, values in found[-1].items()}
        (data / str(number)).mkdir()
        (data / str(number) / "metadata.json").write_text("{}")
        table = arrow.table(columns)
        if form == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(table, data / str(number) / "part-0.parquet")
        else:
            with arrow.ipc.new_file(data / str(number) / "part-0.arrow", table.schema) as file:
                file.write_table(table)
    return found


def read(source: Any, count: int = 3, **config: Any) -> list[Batch]:
    """Return so many batches of a source in the order of their episodes."""
    reader = ReaderMaker(source)(IOContext(config=config, seed=1))
    found = [reader.next() for _ in range(count)]
    reader.close()
    return sorted(found, key=lambda batch: int(batch["eps_id"][0]))


def assert_columns(found: Batch, **expected: Any) -> None:
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


def test_episodes_of_d4rl_end_where_they_terminate_or_time_out(tmp_path: Path) -> None:
    first, second, third = read(flat(tmp_path / "a.hdf5", next_observations=np.ones((8, 2))))
    assert_columns(
        first, obs=[[0, 1], [2, 3], [4, 5]], rewards=[0, 1, 2], terminateds=[False, False, True],
        truncateds=[False] * 3,
    )  # fmt: skip
    assert_columns(second, rewards=[3], terminateds=[False], truncateds=[True])
    assert_columns(third, rewards=[4, 5, 6, 7], terminateds=[False] * 4, truncateds=[False, False, False, True])
    first, third = read(flat(tmp_path / "b.hdf5"), 2)  # of the second one, a single step, nothing says what followed
    assert "new_obs" not in first and third["eps_id"].tolist() == [1] * 4


def test_what_follows_is_read_where_d4rl_has_it(tmp_path: Path) -> None:
    following = np.arange(16, dtype=np.float32).reshape(8, 2) + 100
    both = np.eye(1, 8, 2, dtype=bool)[0]
    path = flat(tmp_path / "a.h5", next_observations=following, timeouts=both, rewards=np.ones((8, 1)))
    first, last = read(str(tmp_path), 2)
    assert_columns(first, new_obs=following[:3], rewards=[1, 1, 1], truncateds=[False] * 3)
    assert_columns(last, new_obs=following[3:], terminateds=[False] * 5, truncateds=[False] * 5)
    assert len(read([path, path], 4)) == 4


def test_without_timeouts_the_limit_of_the_environment_says_where_episodes_were_cut(tmp_path: Path) -> None:
    path = flat(tmp_path / "a.hdf5", timeouts=None)
    found = read(path, 4, input_config={"max_episode_steps": 2})
    assert [batch["rewards"].tolist() for batch in found] == [[0, 1], [2], [3, 4], [5, 6]]
    assert [bool(batch["truncateds"][-1]) for batch in found] == [True, False, True, True]
    with pytest.raises(DataError, match=r"a.hdf5 has no timeouts, so nothing says where episodes were cut off, and no"):
        read(path)
    assert len(read(flat(tmp_path / "b.hdf5", timeouts=None, next_observations=np.ones((8, 2))), 2)) == 2


@pytest.mark.parametrize("form", ["hdf5", "arrow", "parquet"])
def test_episodes_of_minari_have_the_observation_after_each_step(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes = dataset(tmp_path / "arm" / "expert-v0", form, actions=COUNTED)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    found = read("minari://arm/expert-v0")
    for batch, expected in zip(found, episodes, strict=True):
        assert_columns(
            batch, obs=expected["observations"][:-1], new_obs=expected["observations"][1:], actions=expected["actions"],
            rewards=expected["rewards"], terminateds=expected["terminations"], truncateds=expected["truncations"],
        )  # fmt: skip
    for source in (str(tmp_path / "arm" / "expert-v0"), [str(tmp_path / "arm" / "expert-v0" / "data")]):
        again = read(source)
        assert_columns(again[2], **found[2])


@pytest.mark.parametrize("form", ["hdf5", "arrow"])
def test_parts_of_observations_and_actions_become_rows(form: str, tmp_path: Path) -> None:
    episodes = dataset(tmp_path, form, observations=PARTS, actions=BOTH)
    found = read(str(tmp_path))[0]
    given = episodes[0]["observations"]
    one_hot = np.eye(3, dtype=np.float32)[given["b"] - 2]
    assert_columns(found, obs=np.concatenate([given["a"], one_hot], axis=1)[:-1])
    counted, box = episodes[0]["actions"]
    assert_columns(found, actions=np.concatenate([counted[:, None] - 2, box], axis=1, dtype=np.float32))


@pytest.mark.parametrize("form", ["hdf5", "arrow"])
def test_images_of_minari_are_compressed(form: str, tmp_path: Path) -> None:
    picture = pytest.importorskip("PIL.Image")
    zeros, most = np.zeros((40, 32, 3), int).tolist(), np.full((40, 32, 3), 255).tolist()
    space = {"type": "Box", "dtype": "uint8", "shape": [40, 32, 3], "low": zeros, "high": most}
    dataset(tmp_path, form, observations=space)
    packed, frames = [], []
    for level in range(4):
        buffer = io.BytesIO()
        picture.fromarray(np.full((40, 32, 3), 60 * level, np.uint8)).save(buffer, format="JPEG")
        packed.append(buffer.getvalue())
        frames.append(np.asarray(picture.open(buffer)))
    if form == "hdf5":
        with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
            del file["episode_0/observations"]
            made = file.create_dataset("episode_0/observations", 4, h5py.vlen_dtype(np.uint8))
            for index, each in enumerate(packed):
                made[index] = np.frombuffer(each, np.uint8)
    else:
        path = tmp_path / "data" / "0" / "part-0.arrow"
        table = arrow.ipc.open_file(path).read_all()
        table = table.set_column(0, "observations", arrow.array(packed, arrow.binary()))
        with arrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    found = minari_episodes(str(tmp_path / "data")).episode(0)
    assert_columns(found, obs=frames[:-1], new_obs=frames[1:])


def test_spaces_are_those_of_gymnasium() -> None:
    assert space_of(json.dumps(PARTS)) == spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3, start=2)})
    assert space_of({"type": "MultiDiscrete", "nvec": [2, 3], "start": [0, 1]}) == spaces.MultiDiscrete(
        [2, 3], start=[0, 1]
    )
    assert space_of({"type": "MultiBinary", "n": 4}) == spaces.MultiBinary(4)
    for wrong in ('{"type": "Text"}', "[", '{"type": "Box"}'):
        with pytest.raises(DataError, match="describes a space as .*, and there is none of this kind here: Box, Disc"):
            space_of(wrong)


def test_a_file_alone_is_of_arrays_of_numbers(tmp_path: Path) -> None:
    episodes = dataset(tmp_path / "plain", "hdf5")
    (tmp_path / "plain" / "data" / "metadata.json").unlink()
    found = read(str(tmp_path / "plain" / "data" / "*.hdf5"))
    assert_columns(found[0], obs=episodes[0]["observations"][:-1])
    dataset(tmp_path / "parts", "hdf5", observations=PARTS)
    beside = str(tmp_path / "parts" / "data" / "main_data.hdf5")
    assert read(beside)[0]["obs"].shape == (3, 5)
    (tmp_path / "parts" / "data" / "metadata.json").write_text("[]")
    with pytest.raises(DataError, match=r"/episode_\d/observations of .*main_data.hdf5 has parts, and nothing says of"):
        read(beside)


def test_a_reader_goes_on_where_another_was(tmp_path: Path) -> None:
    maker = ReaderMaker(flat(tmp_path / "a.hdf5"))
    reader, other = maker(IOContext(seed=1)), maker(IOContext(seed=2))
    seen = [int(reader.next()["eps_id"][0]) for _ in range(4)]
    assert sorted(seen[:2]) == sorted(seen[2:]) == [0, 1]
    other.set_state(reader.state())  # type: ignore[attr-defined]
    assert [other.next()["eps_id"][0] for _ in range(7)] == [reader.next()["eps_id"][0] for _ in range(7)]


def test_files_that_are_none_of_these_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.hdf5").write_text("nothing")
    with pytest.raises(DataError, match=r"a.hdf5 is no file of HDF5"):
        read(str(tmp_path))
    with pytest.raises(DataError, match=r"a.hdf5 has no actions, terminals; it has infos, observations, rewards, time"):
        read(flat(tmp_path / "a.hdf5", actions=None, terminals=None))
    with pytest.raises(DataError, match=r"arrays of different lengths \(observations 8, actions 8, rewards 7, term"):
        read(flat(tmp_path / "a.hdf5", rewards=np.ones(7)))
    empty = {"observations": np.ones((0, 2)), "actions": np.ones((0, 1)), "rewards": np.ones(0)}
    with pytest.raises(DataError, match=r"there is no episode in .*a.hdf5: record some steps"):
        read(flat(tmp_path / "a.hdf5", **empty, terminals=np.ones(0), timeouts=np.ones(0)))
    with pytest.raises(DataError, match=r"there is no dataset of Minari in .*none: download it \(minari download none"):
        read("minari://none")
    dataset(tmp_path / "b", "hdf5")
    with h5py.File(tmp_path / "b" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
    with pytest.raises(DataError, match=r"the group /episode_1 of .*.hdf5 has no rewards; an episode of Minari"):
        read(str(tmp_path / "b"))
    dataset(tmp_path / "c", "arrow")
    (tmp_path / "c" / "data" / "1" / "part-0.arrow").write_text("nothing")
    with pytest.raises(DataError, match=r"part-0.arrow is no file of Arrow"):
        read(str(tmp_path / "c"))
    (tmp_path / "c" / "data" / "metadata.json").write_text(
        json.dumps({"data_format": "zarr", "observation_space": BOX, "action_space": BOX})
    )
    with pytest.raises(DataError, match=r"has the format 'zarr': 'hdf5', 'arrow' and 'parquet' are read"):
        read(str(tmp_path / "c"))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingDependencyError, match=r'need h5py: pip install "kernel-rllib\[offline\]"'):
        read(str(tmp_path / "a.hdf5"))


@pytest.mark.parametrize("name", ["BC", "SAC"])
def test_any_trainer_learns_from_them_and_goes_on_after_a_checkpoint(name: str, tmp_path: Path) -> None:
    dataset(tmp_path / "data-v0", "hdf5")
    settings: dict[str, Any] = {
        "env": None, "observation_space": space_of(BOX), "action_space": space_of(BOX), "num_env_runners": 0, "seed": 3,
        "input_": {str(tmp_path / "data-v0"): 0.5, flat(tmp_path / "a.hdf5", actions=np.zeros((8, 2))): 0.5},
        "model": {"fcnet_hiddens": [8]}, "train_batch_size": 8, "min_sample_timesteps_per_iteration": 20,
        "store_buffer_in_checkpoints": True, "min_time_s_per_iteration": 0,
    }  # fmt: skip
    if name == "SAC":
        settings["num_steps_sampled_before_learning_starts"] = 0
    cls = algorithm_class(name)
    straight, resumed = cls(settings), cls(settings)
    weights_after(1, straight)
    path = straight.save(str(tmp_path / "kept"))
    resumed.restore(path)
    assert weights_after(2, resumed) == weights_after(2, straight)
    for algorithm in (straight, resumed):
        algorithm.stop()
