"""Files of HDF5, by h5py: those of D4RL, whose episodes stand one after another in flat arrays.

A file has `observations`, `actions`, `rewards`, `terminals` and `timeouts`, one row a step (Fu et al. 2020,
arXiv:2004.07219), and often `next_observations`. A timeout cuts an episode off: what came after it still counts. Files
of Minari have a group for each episode, see `minari_files.py`.
"""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError, MissingDependencyError
from kernel_rllib.offline.files import is_remote, local_path, open_to_read

ENDINGS = (".hdf5", ".h5")
_REQUIRED = ("observations", "actions", "rewards", "terminals")


def hdf5_library() -> Any:
    """Return the module `h5py`. Raises MissingDependencyError if it is not installed."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise MissingDependencyError('files of HDF5 need h5py: pip install "kernel-rllib[offline]"') from error


def open_hdf5(path: str) -> Any:
    """Return an open file of h5py, of this machine or elsewhere.

    Raises:
        DataError: If it can't be read, or is no file of HDF5.
        MissingDependencyError: If h5py is not installed.
    """
    library = hdf5_library()
    opened: Any = open_to_read(path)
    if not is_remote(path):
        opened.close()
        opened = local_path(path)
    try:
        return library.File(opened, "r")
    except OSError as error:
        raise DataError(f"{path} is no file of HDF5: {error}") from error


class FlatEpisodes:
    """The episodes of a file of D4RL."""

    def __init__(self, path: str, file: Any, max_episode_steps: int | None = None) -> None:
        """Find where episodes end; their steps are read when they are asked for.

        Args:
            path: The file's path or address.
            file: The open file.
            max_episode_steps: The number of steps after which an episode was cut off, where the file does not say it.

        Raises:
            DataError: If an array is missing, has another length than others, or nothing says where episodes end.
        """
        self.name, self._file = path, file
        missing = [name for name in _REQUIRED if name not in file]
        if missing:
            raise DataError(
                f"{path} has no {', '.join(missing)}; it has {', '.join(sorted(file)) or 'nothing'}. Expected is a "
                "file of D4RL, with observations, actions, rewards, terminals and timeouts, or one of Minari, with "
                "groups episode_0, episode_1, ..."
            )
        self._names = [*_REQUIRED, *(name for name in ("next_observations", "timeouts") if name in file)]
        lengths = {name: len(file[name]) for name in self._names}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise DataError(f"{path} has arrays of different lengths ({said}): each has one row a step")
        self._timeouts = self._cut_off(max_episode_steps)
        terminals = _flags(file["terminals"])
        ends = np.flatnonzero(terminals | self._timeouts) + 1
        bounds = np.unique([0, *ends.tolist(), lengths["rewards"]]).tolist()
        # The last step of an episode that was cut off is of no use where nothing says what followed.
        least = 1 if "next_observations" in self._names else 2
        self._rows = [
            slice(begin, end) for begin, end in itertools.pairwise(bounds) if terminals[end - 1] or end - begin >= least
        ]

    def __len__(self) -> int:
        """Return the number of episodes; one that breaks off at the end of the file is one too."""
        return len(self._rows)

    def episode(self, number: int) -> Batch:
        """Return the steps of an episode."""
        rows = self._rows[number]
        found = Batch({
            columns.OBS: self._file["observations"][rows],
            columns.ACTIONS: self._file["actions"][rows],
            columns.REWARDS: self._file["rewards"][rows].reshape(-1),
            columns.TERMINATEDS: _flags(self._file["terminals"][rows]),
        })  # fmt: skip
        found[columns.TRUNCATEDS] = self._timeouts[rows] & ~found[columns.TERMINATEDS]
        found[columns.EPS_ID] = np.full(found.count, number)
        if "next_observations" in self._names:
            found[columns.NEXT_OBS] = self._file["next_observations"][rows]
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _cut_off(self, most: int | None) -> Array:
        """Return after which rows episodes were cut off: flags [N]."""
        if "timeouts" in self._names:
            return _flags(self._file["timeouts"])
        terminals = _flags(self._file["terminals"])
        found = np.zeros(len(terminals), bool)
        if most is not None:
            begins = np.unique([0, *(np.flatnonzero(terminals) + 1).tolist(), len(terminals)])
            for begin, end in itertools.pairwise(begins):
                found[begin + most - 1 : end : most] = True
        elif "next_observations" not in self._names:
            raise DataError(
                f"{self.name} has no timeouts, so nothing says where episodes were cut off, and no next_observations: "
                'give input_config={"max_episode_steps": ...} of the environment'
            )
        return found


def _flags(column: Any) -> Array:
    return np.asarray(column[...], bool).reshape(-1)
