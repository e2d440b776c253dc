"""Datasets of Minari: a folder `data` with `metadata.json`, and episodes in HDF5, Arrow or Parquet.

HDF5 has a group for each episode (`episode_0`, ...), Arrow and Parquet a folder for each. An episode has
`observations`, one more than steps, `actions`, `rewards`, `terminations` and `truncations`; in Arrow and Parquet a row
of zeros fills up all but observations. The metadata have the spaces, by which rows are made of what is no array of
numbers.
"""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError, MissingDependencyError
from kernel_rllib.offline.files import found_files, is_remote, local_path, open_to_read
from kernel_rllib.offline.hdf5_files import open_hdf5
from kernel_rllib.offline.parquet_files import pyarrow_libraries
from kernel_rllib.offline.spaces_as_json import space_of
from kernel_rllib.spaces.action_rows import rows_of

SCHEME = "minari://"
METADATA = "metadata.json"
_GROUP = "episode_"
_FLAT_PARTS = ("rewards", "terminations", "truncations")
_LEAST_IMAGE = 32
"""Images that are as high and wide as this, or more, are compressed; smaller ones stay arrays."""


class MinariSpaces:
    """Turns what files of Minari have of observations and actions into rows, by the spaces of the dataset."""

    def __init__(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Take the metadata of a dataset; None: there are none, and all parts are arrays of numbers."""
        self.observations, self.actions = (
            None if metadata is None else space_of(metadata[name]) for name in ("observation_space", "action_space")
        )
        self.packs_images = metadata is not None and bool(metadata.get("jpeg_encoding", True))
        plain = self.observations is None or isinstance(self.observations, spaces.Box)
        self._preprocessor = None if plain else preprocessor_of(self.observations, None, {})  # type: ignore[arg-type]

    def observation_rows(self, found: Any) -> Array:
        """Return observations as rows [N, ...], as preprocessors make them."""
        rows: Array = found if self._preprocessor is None else self._preprocessor.rows(found)
        return rows

    def action_rows(self, found: Any) -> Array:
        """Return actions as rows [N, ...]; boxes and single numbers stay as the environment got them."""
        if isinstance(self.actions, (spaces.Dict, spaces.Tuple, spaces.MultiDiscrete)):
            return rows_of(self.actions, found)
        rows: Array = found
        return rows

    def batch(self, number: int, found: Mapping[str, Any]) -> Batch:
        """Return the parts of an episode as steps: with the observation after each."""
        obs = self.observation_rows(found["observations"])
        terminateds = np.asarray(found["terminations"], bool)
        return Batch({
            columns.OBS: obs[:-1],
            columns.NEXT_OBS: obs[1:],
            columns.ACTIONS: self.action_rows(found["actions"]),
            columns.REWARDS: np.asarray(found["rewards"], np.float32),
            columns.TERMINATEDS: terminateds,
            columns.TRUNCATEDS: np.asarray(found["truncations"], bool) & ~terminateds,
            columns.EPS_ID: np.full(len(terminateds), number),
        })  # fmt: skip


class GroupedEpisodes:
    """The episodes of a file of HDF5 of Minari."""

    def __init__(self, path: str, file: Any, made: MinariSpaces) -> None:
        """Find the episodes in an open file, whose parts `made` turns into rows."""
        self.name, self._file, self._spaces = path, file, made
        self._numbers = sorted(int(name.removeprefix(_GROUP)) for name in file if name.startswith(_GROUP))

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._numbers)

    def episode(self, number: int) -> Batch:
        """Return the steps of an episode. Raises DataError if a part of it is missing."""
        group = self._file[f"{_GROUP}{self._numbers[number]}"]
        missing = [name for name in ("observations", "actions", *_FLAT_PARTS) if name not in group]
        if missing:
            raise DataError(
                f"the group {group.name} of {self.name} has no {', '.join(missing)}; an episode of Minari has "
                f"observations, actions, {', '.join(_FLAT_PARTS)}"
            )
        parts = {
            "observations": self._values(group["observations"], self._spaces.observations),
            "actions": self._values(group["actions"], self._spaces.actions),
        }
        return self._spaces.batch(number, {**parts, **{name: group[name][...] for name in _FLAT_PARTS}})

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _values(self, node: Any, space: Space[Any] | None) -> Any:
        if isinstance(space, spaces.Dict):
            return {name: self._values(node[name], part) for name, part in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self._values(node[f"_index_{index}"], part) for index, part in enumerate(space.spaces))
        if not hasattr(node, "shape"):
            raise DataError(
                f"{node.name} of {self.name} has parts, and nothing says of which space they are: keep {METADATA} "
                "beside the file, as Minari writes it"
            )
        found = node[...]
        return _images(found) if self._spaces.packs_images and _is_image(space) else found


class EpisodeFolders:
    """The episodes of a dataset of Minari in Arrow or Parquet: a folder each."""

    def __init__(self, path: str, form: str, made: MinariSpaces) -> None:
        """Find the episodes.

        Args:
            path: The folder `data` of the dataset.
            form: The format of its files: "arrow" or "parquet".
            made: Turns parts into rows.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        self.name, self._form, self._spaces = path, form, made
        self._arrow, self._parquet = pyarrow_libraries()
        names = [os.path.basename(os.path.dirname(each)) for each in found_files(f"{path}/*/*.{form}", ())]
        self._numbers = sorted({int(name) for name in names if name.isdigit()})

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._numbers)

    def episode(self, number: int) -> Batch:
        """Return the steps of an episode."""
        files = found_files(f"{self.name}/{self._numbers[number]}/*.{self._form}", ())
        table = self._arrow.concat_tables([self._table(path) for path in files]).combine_chunks()
        parts = {name: _column(table.column(name)) for name in ("observations", "actions", *_FLAT_PARTS)}
        parts = {name: part if name == "observations" else part.slice(0, len(part) - 1) for name, part in parts.items()}
        found = {name: parts[name].to_numpy(zero_copy_only=False) for name in _FLAT_PARTS}
        found["observations"] = self._values(parts["observations"], self._spaces.observations)
        found["actions"] = self._values(parts["actions"], self._spaces.actions)
        return self._spaces.batch(number, found)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _table(self, path: str) -> Any:
        with open_to_read(path) as opened:
            content = io.BytesIO(opened.read())
        try:
            if self._form == "parquet":
                return self._parquet.read_table(content)
            return importlib.import_module("pyarrow.ipc").open_file(content).read_all()
        except Exception as error:  # of pyarrow's own tree
            raise DataError(f"{path} is no file of {self._form.capitalize()}: {error}") from error

    def _values(self, column: Any, space: Space[Any] | None) -> Any:
        if isinstance(space, spaces.Dict):
            return {name: self._values(column.field(name), part) for name, part in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self._values(column.field(str(index)), part) for index, part in enumerate(space.spaces))
        if self._spaces.packs_images and _is_image(space):
            return _images([np.frombuffer(each, np.uint8) for each in column.to_pylist()])
        if hasattr(column.type, "list_size"):
            shape = (column.type.list_size,) if space is None else (space.shape or ())
            found: Array = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), *shape)
            return found
        return column.to_numpy(zero_copy_only=False)


def minari_folder(source: Any) -> str | None:
    """Return the folder `data` of the dataset that a source names; None if it names none.

    Args:
        source: A name such as "minari://D4RL/door/human-v2", the folder of a dataset, or its folder `data`.

    Raises:
        DataError: If it begins with "minari://" and there is no such dataset on this machine.
    """
    if not isinstance(source, str) or (is_remote(source) and not source.startswith(SCHEME)):
        return None
    named = source.removeprefix(SCHEME)
    root = os.environ.get("MINARI_DATASETS_PATH", os.path.join("~", ".minari", "datasets"))
    folder = local_path(os.path.join(root, named) if source.startswith(SCHEME) else named)
    for data in (os.path.join(folder, "data"), folder):
        if _describes_dataset(os.path.join(data, METADATA)):
            return data
    if source.startswith(SCHEME):
        raise DataError(
            f"there is no dataset of Minari in {folder}: download it (minari download {named}), or set "
            "MINARI_DATASETS_PATH to the folder where datasets are"
        )
    return None


def minari_episodes(data: str) -> GroupedEpisodes | EpisodeFolders:
    """Return the episodes of a dataset, given its folder `data`.

    Raises:
        DataError: If its files are of another format.
        MissingDependencyError: If what reads them is not installed.
    """
    with open_to_read(os.path.join(data, METADATA)) as file:
        metadata = json.load(file)
    made, form = MinariSpaces(metadata), metadata.get("data_format", "hdf5")
    if form in ("arrow", "parquet"):
        return EpisodeFolders(data, form, made)
    if form != "hdf5":
        raise DataError(f"the dataset in {data} has the format {form!r}: 'hdf5', 'arrow' and 'parquet' are read")
    path = os.path.join(data, "main_data.hdf5")
    return GroupedEpisodes(path, open_hdf5(path), made)


def metadata_beside(path: str) -> Mapping[str, Any] | None:
    """Return the metadata of the dataset that a file of HDF5 is part of; None where there are none beside it."""
    beside = os.path.join(os.path.dirname(local_path(path)), METADATA)
    if is_remote(path) or not _describes_dataset(beside):
        return None
    with open(beside, encoding="utf-8") as file:
        found: Mapping[str, Any] = json.load(file)
    return found


def has_groups(file: Any) -> bool:
    """Return whether an open file of HDF5 has a group for each episode, as Minari writes them."""
    return any(name.startswith(_GROUP) for name in file)


def _describes_dataset(path: str) -> bool:
    if not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError:
            return False
    return isinstance(found, dict) and {"observation_space", "action_space"} <= set(found)


def _column(column: Any) -> Any:
    """Return a column of a table as one array of pyarrow."""
    found = column.combine_chunks()
    return found.chunk(0) if hasattr(found, "num_chunks") else found


def _is_image(space: Space[Any] | None) -> bool:
    return (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) in (2, 3)
        and min(space.shape[:2]) >= _LEAST_IMAGE
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def _images(packed: Any) -> Array:
    """Return images [N, height, width, channels] of bytes of JPEG. Raises MissingDependencyError without pillow."""
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise MissingDependencyError(
            "images of Minari are compressed, which pillow reads: pip install pillow"
        ) from error
    return np.stack([np.asarray(image.open(io.BytesIO(np.asarray(each, np.uint8).tobytes()))) for each in packed])
