"""Filming the first environment of a run while it is trained in (`render_env`)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from kernel_rllib.envs.multi_agent import ALL
from kernel_rllib.envs.videos import Video, writer
from kernel_rllib.errors import EnvError, MissingDependencyError
from kernel_runs.loggers.files import written_whole

_EACH = 1000
DRAWS_ITSELF = "human"
"""The mode of environments that show a window of their own."""


def is_filmed(episode: int) -> bool:
    """Return whether an episode is filmed, by its number from 0 on: 0, 1, 8, 27, ... 729, 1000, 2000, 3000, ..."""
    if episode >= _EACH:
        return episode % _EACH == 0
    return bool(round(episode ** (1 / 3)) ** 3 == episode)


class Camera:
    """Films episodes of one environment, a video and a file about it for each."""

    def __init__(self, directory: str, owner: str, worker_index: int, rate: float) -> None:
        """Begin before the first episode.

        Args:
            directory: The directory of the files.
            owner: The name of the environment.
            worker_index: The number of the runner, which is in the names of files, as that of its process is.
            rate: The number of frames a second of videos.

        Raises:
            MissingDependencyError: If no library is there that writes videos.
        """
        writer()
        self._directory = os.path.abspath(os.path.expanduser(directory))
        self._owner, self._rate, self._worker_index = owner, rate, worker_index
        self._episode, self._looked, self._frames, self._return = -1, 0, 0, 0.0
        self._video: Video | None = None

    def begin(self) -> None:
        """Hear that an episode begins; one that was open is given up."""
        self.drop()
        if self._looked != 1:  # otherwise the one before had no step
            self._episode += 1
        self._looked = 0
        self._frames, self._return = 0, 0.0
        if is_filmed(self._episode):
            name = f"openaigym.video.{self._worker_index}.{os.getpid()}.video{self._episode:06d}"
            self._video = Video(self._directory, name, self._rate)

    def look(self, draw: Callable[[], Any], reward: float) -> None:
        """Film what `draw` draws, where the episode is filmed; `reward` is that of the step before."""
        self._return += reward
        self._looked += 1
        if self._video is None:
            return
        try:
            frame = draw()
        except Exception as error:
            if type(error).__name__ == "DependencyNotInstalled":
                raise MissingDependencyError(f"render_env: {self._owner} can't draw: {error}") from error
            raise
        if frame is True:  # it has shown it itself
            return
        if frame is None:
            raise EnvError(
                f"render_env is set, and {self._owner}.render() returned None: it gets 'render_mode': 'rgb_array' in "
                "its env_config, and is to return an array of bytes [height, width, 3], or True where it shows a "
                "window itself"
            )
        self._video.add(frame, self._owner)
        self._frames += 1

    def end(self, reward: float) -> None:
        """Hear that the episode has ended with a last reward; the files of one that was filmed are there then."""
        self._return += reward
        self._looked += 1
        video, self._video = self._video, None
        if video is None or not self._frames:
            return
        path = video.close()
        told = {
            "episode_id": self._episode,
            "content_type": "video/mp4" if path.endswith(".mp4") else "image/gif",
            "env": self._owner,
            "frames": self._frames,
            "frames_per_second": self._rate,
            "episode_reward": self._return,
        }
        with (
            written_whole(f"{os.path.splitext(path)[0]}.meta.json") as unfinished,
            open(unfinished, "w", encoding="utf-8") as file,
        ):
            json.dump(told, file, indent=1)

    def drop(self) -> None:
        """Leave no file of the open episode."""
        if self._video is not None and self._frames:
            self._video.drop()
        self._video = None


class FilmedEnvs:
    """Steps other lanes, or copies of an environment with several agents, and films one of them.

    Where an episode ends, the next one has begun already: the last picture is that before the last step.
    """

    def __init__(self, vector: Any, position: int, camera: Camera) -> None:
        """Film the lane at a position of these."""
        self._vector, self._position, self._camera = vector, position, camera
        self._several = not hasattr(vector, "num_lanes")

    def reset(self, seeds: Any) -> Any:
        """Begin new episodes everywhere."""
        found = self._vector.reset(seeds)
        self._begin()
        return found

    def step(self, actions: Any) -> Any:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        step, at = self._vector.step(actions), self._position
        if self._several and actions[at] is None:  # The agent waits for the others.
            return step
        ends = (step.terminateds[at], step.truncateds[at])
        reward = float(sum(step.rewards[at].values()) if self._several else step.rewards[at])
        if at in step.faults:
            self._begin()
        elif any(end[ALL] if self._several else end for end in ends):
            self._camera.end(reward)
            self._begin()
        else:
            self._camera.look(self._draw, reward)
        return step

    def reset_lane(self, lane: int, seed: int | None = None) -> Any:
        """Give up the episode of one lane, and begin the next."""
        return self._begun_in(lane, self._vector.reset_lane(lane, seed))

    def reset_env(self, index: int, seed: int | None = None) -> Any:
        """Give up the episode of one copy, and begin the next."""
        return self._begun_in(index, self._vector.reset_env(index, seed))

    def restore(self, lane: int, snapshot: Any) -> None:
        """Put a lane where it was when a snapshot was taken; the episode that goes on there is not filmed."""
        self._vector.restore(lane, snapshot)
        if lane == self._position:
            self._camera.drop()

    def close(self) -> None:
        """Close the environments; nothing is left of an open episode."""
        self._camera.drop()
        self._vector.close()

    def _begun_in(self, lane: int, found: Any) -> Any:
        if lane == self._position:
            self._begin()
        return found

    def _begin(self) -> None:
        self._camera.begin()
        self._camera.look(self._draw, 0.0)

    def _draw(self) -> Any:
        return self._vector.render(self._position)

    def __getattr__(self, name: str) -> Any:
        if name == "_vector":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._vector, name)


def filmed(vector: Any, position: int, directory: str, worker_index: int) -> Any:
    """Return lanes of which one is filmed; the same, if that shows a window of its own.

    Raises:
        MissingDependencyError: If no library is there that writes videos.
    """
    told = vector.foreach(_told)
    mode, rate, name = told[position] if position < len(told) else told[0]
    if mode == DRAWS_ITSELF:
        return vector
    return FilmedEnvs(vector, position, Camera(directory, name, worker_index, rate))


def _told(env: Any) -> tuple[Any, float, str]:
    """Return what has to be known of an environment to film it."""
    rate = float((getattr(env, "metadata", None) or {}).get("render_fps") or 30.0)
    return getattr(env, "render_mode", None), rate, type(getattr(env, "unwrapped", env)).__name__
