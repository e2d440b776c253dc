"""Pictures of episodes as files that people can play."""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import EnvError, MissingDependencyError
from kernel_runs.errors import RunError

_log = logging.getLogger("kernel.rllib")

INSTALL = 'pip install "imageio[ffmpeg]" (MP4), or pillow (GIF)'
MOST_IN_MEMORY = 3000
"""The most pictures of a GIF, which are in memory until it is written."""


class Video:
    """Takes the frames of one episode; writes MP4 where imageio and imageio-ffmpeg are installed, otherwise GIF."""

    def __init__(self, directory: str, name: str, frames_per_second: float = 30.0) -> None:
        """Begin an episode.

        Args:
            directory: The directory of the file.
            name: Its name, without an ending. It may be changed until the file is closed.
            frames_per_second: The number of frames that it shows in a second.

        Raises:
            MissingDependencyError: If no library is there that writes videos.
        """
        self._directory = os.path.abspath(os.path.expanduser(directory))
        self.name = name
        self._film = writer()(os.path.join(self._directory, f"{name}.unfinished"), frames_per_second)

    def add(self, frame: Any, owner: str) -> None:
        """Take a frame [height, width, 3] of bytes; `owner` drew it. Raises EnvError for anything else."""
        image = np.asarray(frame)
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise EnvError(
                f"{owner}.render() returned {type(frame).__name__} of shape {image.shape} and dtype {image.dtype}, but "
                "a frame is an array of bytes [height, width, 3]"
            )
        with self._naming():
            os.makedirs(self._directory, exist_ok=True)
            self._film.add(image)

    def close(self) -> str:
        """Write the file, and return its path. Raises RunError where the disk does not take it; no half is left."""
        with self._naming():
            self._film.close()
            os.replace(self._film.path, self._path)
        return self._path

    def drop(self) -> None:
        """Leave no file."""
        with contextlib.suppress(OSError):
            self._film.close()
        self._remove()

    @property
    def _path(self) -> str:
        return os.path.join(self._directory, self.name + os.path.splitext(self._film.path)[1])

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._remove()
            raise RunError(f"can't write {self._path}: {error.strerror or error}") from error

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.remove(self._film.path)


class Film(Protocol):
    """Takes frames, and keeps them until there is a file of all: `path`."""

    path: str

    def add(self, frame: Array) -> None:
        """Take a frame."""
        ...

    def close(self) -> None:
        """Let there be the file. Raises OSError if it can't be written."""
        ...


def writer() -> type[Mp4] | type[Gif]:
    """Return what writes frames: a class of the path without its ending, and the rate.

    Raises:
        MissingDependencyError: If there is none.
    """
    if _found("imageio_ffmpeg", "imageio.v2"):
        return Mp4
    if _found("PIL.Image"):
        return Gif
    raise MissingDependencyError(f"videos need a library that writes them. Run: {INSTALL}")


def _found(*modules: str) -> bool:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        return False
    return True


class Mp4:
    """Writes frames as they come."""

    def __init__(self, stem: str, rate: float) -> None:
        """Write to a path, without its ending, with so many frames a second."""
        self.path, self._rate = f"{stem}.mp4", rate
        self._open: Any = None

    def add(self, frame: Array) -> None:
        """Write a frame; players want an even number of rows and columns, so the last ones may be there twice."""
        if self._open is None:
            imageio = importlib.import_module("imageio.v2")
            self._open = imageio.get_writer(self.path, fps=self._rate, macro_block_size=1)
        height, width, _ = frame.shape
        self._open.append_data(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))

    def close(self) -> None:
        """End the file. Raises OSError if it is not whole: ffmpeg, a process of its own, does not say so."""
        if self._open is not None:
            self._open.close()
        if not _is_whole(self.path):
            raise OSError(errno.EIO, "ffmpeg has not written all of it (is the disk full?)")


def _is_whole(path: str) -> bool:
    """Return whether an MP4 has its table of frames, which is written last."""
    try:
        with open(path, "rb") as file:
            while len(head := file.read(8)) == 8:
                if head[4:] == b"moov":
                    return True
                size = int.from_bytes(head[:4], "big")
                file.seek(size - 8 if size >= 8 else int.from_bytes(file.read(8), "big") - 16, os.SEEK_CUR)
    except OSError:
        pass
    return False


class Gif:
    """Keeps frames, and writes all of them at the end."""

    def __init__(self, stem: str, rate: float) -> None:
        """Write to a path, without its ending, with so many frames a second."""
        self.path, self._rate = f"{stem}.gif", rate
        self._frames: list[Array] = []

    def add(self, frame: Array) -> None:
        """Keep a frame, as long as there are not too many."""
        if len(self._frames) < MOST_IN_MEMORY:
            self._frames.append(frame.copy())
            return
        if len(self._frames) == MOST_IN_MEMORY:
            self._frames.append(frame.copy())
            _log.warning(
                "%s ends after %d pictures, as a GIF is kept in memory until it is written; MP4 is not: pip install "
                '"imageio[ffmpeg]"',
                self.path,
                MOST_IN_MEMORY + 1,
            )

    def close(self) -> None:
        """Write the file."""
        image = importlib.import_module("PIL.Image")
        first, *others = [image.fromarray(frame) for frame in self._frames]
        milliseconds = max(round(1000 / self._rate), 20)
        first.save(self.path, save_all=True, append_images=others, duration=milliseconds, loop=0)
