"""Files of rollouts, as RLlib 0.8.5 wrote them: a pickle with a list of episodes, or a shelf."""

from __future__ import annotations

import contextlib
import dbm
import os
import pickle
import shelve
from collections.abc import Iterator
from typing import Any

from kernel_rllib.experiments.playing import PlayedEpisode
from kernel_runs.errors import RunError
from kernel_runs.loggers.files import write_whole


class RolloutFile:
    """Keeps episodes, each a list of [observation, action, next observation, reward, done] and perhaps the info."""

    def __init__(
        self, path: str, *, save_info: bool = False, use_shelve: bool = False, goal: str = "", track: bool = False
    ) -> None:
        """Begin a file.

        Args:
            path: The path of the file.
            save_info: Whether steps have the info as their sixth item.
            use_shelve: Whether each episode is written as it ends, into a shelf under its number, from "0"; it has
                "num_rollouts". Otherwise all are in one pickle, which is written at the end.
            goal: The amount that there will be, in words, for the file of progress.
            track: Whether a file beside it says how far it is, `__progress_NAME`.
        """
        self._path = os.path.abspath(os.path.expanduser(path))
        self._save_info = save_info
        self._goal, self._track = goal, track
        with self._said():
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._shelf: Any = shelve.open(self._path, "n") if use_shelve else None  # noqa: SIM115 - close() closes it
        self._episodes: list[list[list[Any]]] = []
        self._count = self._steps = 0

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        """Say which file can't be written, of errors of the disk and of databases, which say no file."""
        try:
            yield
        except (OSError, *dbm.error) as error:
            said = getattr(error, "strerror", None) or error
            raise RunError(f"can't write {self._path}: {said}") from error

    def add(self, episode: PlayedEpisode) -> None:
        """Keep an episode. Raises RunError where a file can't be written."""
        kept = [list(step if self._save_info else step[:5]) for step in episode.steps]
        if self._shelf is not None:
            with self._said():
                self._shelf[str(self._count)] = kept
        else:
            self._episodes.append(kept)
        self._count += 1
        self._steps += len(kept)
        if self._track:
            write_whole(self.progress_path, f"{self._count} episodes, {self._steps} steps of {self._goal}\n".encode())

    def close(self) -> None:
        """Write what is not written yet. The file of progress is removed. Raises RunError as `add`."""
        if self._shelf is not None:
            with self._said():
                self._shelf["num_rollouts"] = self._count
                self._shelf.close()
        else:
            write_whole(self._path, pickle.dumps(self._episodes))
        if self._track and os.path.exists(self.progress_path):
            os.remove(self.progress_path)

    @property
    def progress_path(self) -> str:
        """The file that says how far it is."""
        folder, name = os.path.split(self._path)
        return os.path.join(folder, f"__progress_{name}")
