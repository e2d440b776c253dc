"""Pictures of episodes as files that people can play."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernel_rllib.errors import EnvError, MissingDependencyError
from kernel_runs.loggers.files import written_whole

_INSTALL = 'pip install pillow (GIF), or "imageio[ffmpeg]" (MP4)'


class Video:
    """Collects the frames of one episode, and writes them as MP4 where imageio is installed, otherwise as GIF."""

    def __init__(self, directory: str, name: str, frames_per_second: float = 30.0) -> None:
        """Begin an episode.

        Args:
            directory: Where the file goes.
            name: Its name, without an ending.
            frames_per_second: How quickly it plays.

        Raises:
            MissingDependencyError: If no library is there that writes videos.
        """
        self._directory = os.path.abspath(os.path.expanduser(directory))
        self.name, self._rate = name, frames_per_second
        self._frames: list[Any] = []
        self._writer = writer()

    def add(self, frame: Any, owner: str) -> None:
        """Take a frame [height, width, 3] of bytes; `owner` drew it. Raises EnvError for anything else."""
        image = np.asarray(frame)
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise EnvError(
                f"{owner}.render() returned {type(frame).__name__} of shape {image.shape} and dtype {image.dtype}, but "
                "a frame is an array of bytes [height, width, 3]"
            )
        self._frames.append(image)

    def close(self) -> str:
        """Write the file, and return its path. Raises RunError where the disk does not take it."""
        path = os.path.join(self._directory, f"{self.name}{self._writer.ending}")
        with written_whole(path) as unfinished:
            self._writer.write(unfinished, self._frames, self._rate)
        return path


class Writer(NamedTuple):
    """What writes frames: the ending of its files, and a function of the path, the frames and their rate."""

    ending: str
    write: Callable[[str, list[Any], float], None]


def writer() -> Writer:
    """Return what writes frames.

    Raises:
        MissingDependencyError: If there is none.
    """
    try:
        importlib.import_module("imageio_ffmpeg")
        imageio = importlib.import_module("imageio.v2")
    except ImportError:
        pass
    else:
        return Writer(".mp4", lambda path, frames, rate: imageio.mimwrite(path, frames, fps=rate))
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise MissingDependencyError(f"videos need a library that writes them. Run: {_INSTALL}") from error
    return Writer(".gif", lambda path, frames, rate: _gif(image, path, frames, rate))


def _gif(image: Any, path: str, frames: list[Any], rate: float) -> None:
    first, *others = [image.fromarray(frame) for frame in frames]
    first.save(path, save_all=True, append_images=others, duration=max(round(1000 / rate), 20), loop=0)
