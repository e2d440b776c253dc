"""`rllib evaluate` and `rllib rollout`: episodes out of a checkpoint alone, their files and their videos."""

from __future__ import annotations

import pickle
import resource
import shelve
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.cli.main import rllib
from kernel_rllib.envs import videos
from kernel_rllib.envs.registry import register_env
from kernel_rllib.envs.videos import Video, writer
from kernel_rllib.errors import EnvError, MissingDependencyError


class Drawn(gymnasium.Env[Any, Any]):
    """Five steps with a reward of the step's number; draws where it is asked for."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(0.0, 10.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.render_mode = None if env_config.get("never_draws") else env_config.get("render_mode")
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.full(2, self.count, np.float32), float(self.count), self.count == 5, False, {"count": self.count}

    def render(self) -> Any:
        return np.full((8, 8, 3), 40 * self.count, np.uint8)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoint of an untrained policy."""
    register_env("drawn", Drawn)
    config = PPOConfig().environment("drawn").env_runners(num_env_runners=0).training(model={"fcnet_hiddens": [8]})
    algorithm = config.training(train_batch_size=20, minibatch_size=10, num_epochs=1).build()
    algorithm.train()
    path: str = algorithm.save(str(tmp_path_factory.mktemp("saved") / "checkpoint_000001"))
    algorithm.stop()
    return path


def called(*arguments: Any) -> Result:
    """Return what a command line did."""
    return CliRunner().invoke(rllib, [str(argument) for argument in arguments])


def episodes(result: Result) -> list[str]:
    """Return the lines about episodes."""
    assert result.exit_code == 0, result.output
    return [line for line in result.output.splitlines() if line.startswith("Episode")]


def test_a_checkpoint_says_itself_what_it_is_of(checkpoint: str) -> None:
    result = called("evaluate", checkpoint, "--episodes", 2)
    assert episodes(result) == ["Episode #1: reward: 15.0", "Episode #2: reward: 15.0"]
    assert "2 episodes, mean reward 15, from 15 to 15" in result.output
    assert len(episodes(called("evaluate", checkpoint))) == 10


def test_the_episode_of_the_last_step_is_played_to_its_end(checkpoint: str) -> None:
    assert len(episodes(called("evaluate", checkpoint, "--steps", 11))) == 3
    assert len(episodes(called("evaluate", checkpoint, "--steps", 10))) == 2
    assert len(episodes(called("evaluate", checkpoint, "--steps", 11, "--episodes", 1))) == 1


def test_the_older_spelling_writes_the_older_file(checkpoint: str, tmp_path: Path) -> None:
    out = tmp_path / "rollouts.pkl"
    result = called("rollout", checkpoint, "--run", "PPO", "--env", "drawn", "--steps", 8, "--out", out, "--no-render")
    assert len(episodes(result)) == 2 and f"rollouts: {out}" in result.output
    rollouts = pickle.loads(out.read_bytes())
    assert [len(rollout) for rollout in rollouts] == [5, 5]
    observation, action, following, reward, done = rollouts[0][4]
    assert observation.tolist() == [4, 4] and following.tolist() == [5, 5] and action in (0, 1)
    assert (reward, done, rollouts[0][3][4]) == (5.0, True, False)


def test_infos_and_shelves(checkpoint: str, tmp_path: Path) -> None:
    out = tmp_path / "shelf"
    episodes(
        called("rollout", checkpoint, "--episodes", 2, "--out", out, "--save-info", "--use-shelve", "--track-progress")
    )
    with shelve.open(str(out)) as shelf:
        assert shelf["num_rollouts"] == 2 and shelf["1"][2][5] == {"count": 3}
    assert not (tmp_path / "__progress_shelf").exists()


def test_each_episode_is_a_video(checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    result = called("evaluate", checkpoint, "--episodes", 2, "--video-dir", tmp_path / "videos")
    assert len(episodes(result)) == 2 and f"video: {tmp_path / 'videos' / 'episode-0002.gif'}" in result.output
    with image.open(tmp_path / "videos" / "episode-0001.gif") as video:
        assert (video.n_frames, video.size, video.info["duration"]) == (6, (8, 8), 100)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("/nowhere",), 1, "there is no checkpoint /nowhere: give the directory that training named"),
        (("/tmp",), 1, "/tmp is no checkpoint of an algorithm"),
        (("CHECKPOINT", "--run", "DQN"), 1, "is a checkpoint of PPO, not of DQN"),
        (("CHECKPOINT", "--run", "DQNN"), 1, "there is no algorithm 'DQNN'; did you mean 'DQN'"),
        (("CHECKPOINT", "--env", "CartPol-v1"), 1, "no environment is named 'CartPol-v1'"),
        (("CHECKPOINT", "--config", "{"), 2, "this is not JSON"),
        (("CHECKPOINT", "--save-info"), 2, "are about a file: name it, --out FILE"),
        (("CHECKPOINT", "--render", "--video-dir", "x"), 2, "give one of them"),
        (("CHECKPOINT", "--render"), 1, "'drawn' does not draw in the mode 'human'"),
        (("CHECKPOINT", "--video-dir", "x", "--config", '{"env_config": {"never_draws": true}}'), 1, "does not draw"),
    ],
)
def test_what_is_wrong_is_told(checkpoint: str, arguments: tuple[str, ...], code: int, message: str) -> None:
    given = [checkpoint if argument == "CHECKPOINT" else argument for argument in arguments]
    if message.startswith("'drawn' does not draw in the mode 'human'"):
        given += ["--config", '{"env_config": {"never_draws": true}}']
    result = called("evaluate", *given)
    assert (result.exit_code, message in result.output) == (code, True), result.output


def test_a_missing_library_for_videos_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match=r"videos need a library that writes them. Run: pip install"):
        writer()


def test_what_is_no_frame_is_told(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    with pytest.raises(EnvError, match=r"Mine.render\(\) returned NoneType of shape \(\) .* array of bytes"):
        Video(str(tmp_path), "x").add(None, "Mine")


def test_files_that_can_not_be_written_are_named_and_no_half_is_left(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videos, "writer", lambda: videos.Gif)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for option, file, more in (
        ("--video-dir", "episode-0001.gif", ()),
        ("--out", "rollouts", ("--track-progress",)),
        ("--out", "rollouts", ("--use-shelve",)),
    ):
        given = tmp_path / file if option == "--out" else tmp_path
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        try:
            result = called("evaluate", checkpoint, "--episodes", 1, option, given, *more)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert result.exit_code == 1 and f"can't write {tmp_path}/" in result.output, result.output
        assert "too large" in result.output and "unexpected" not in result.output
        assert not list(tmp_path.glob("rollouts")) and not list(tmp_path.glob("*.gif"))
