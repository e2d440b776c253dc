"""Videos of training: which episodes, where, of what, and that nothing else changes by them."""

from __future__ import annotations

import glob
import json
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs import filming, videos
from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.errors import ConfigError, EnvError, MissingDependencyError
from kernel_rllib.testing.environments import Counter

from kernel_runs.errors import RunError

image = pytest.importorskip("PIL.Image")


class Drawn(Counter):
    """Counts to four, and draws how far it is where it is told to."""

    def __init__(self, env_config: Any = None) -> None:
        super().__init__()
        self.render_mode = env_config.get("render_mode")
        self.returns = env_config.get("returns")

    def step(self, action: Any) -> Any:
        """Count on, for a reward of 1."""
        observation, _, *rest = super().step(action)
        return observation, 1.0, *rest

    def render(self) -> Any:
        """Return a gray picture, as bright as the count."""
        assert self.render_mode == "rgb_array", "other environments are not asked to draw"
        return np.full((5, 7, 3), 40 * self.count, np.uint8) if self.returns is None else self.returns


class DrawnMatch(RockPaperScissors):
    """Draws the round."""

    def render(self) -> Any:
        """Return a picture."""
        return np.full((4, 4, 3), 20 * self._played, np.uint8)


@pytest.fixture(autouse=True)
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be GIFs, whatever is installed."""
    monkeypatch.setattr(videos, "writer", lambda: videos.Gif)


def config(runners: int = 0, env: Any = Drawn, **changed: Any) -> Any:
    return (
        PPOConfig()
        .environment(env, **changed)
        .env_runners(num_env_runners=runners, num_envs=2, num_cpus_per_env_runner=0)
        .training(train_batch_size=96, minibatch_size=48, num_epochs=1, model={"fcnet_hiddens": [4]})
        .debugging(seed=3)
    )


def trained(made: Any, iterations: int = 1) -> bytes:
    algorithm = made.build()
    for _ in range(iterations):
        algorithm.train()
    weights = bytes(algorithm.learner.weights.tobytes())
    algorithm.stop()
    return weights


def brightness(path: str) -> list[int]:
    with image.open(path) as video:
        found = []
        for at in range(video.n_frames):
            video.seek(at)
            found.append(round(int(np.asarray(video.convert("RGB")).mean()) / 40))
    return found


def numbers(directory: Any) -> list[int]:
    files = [path for path in glob.glob(f"{directory}/openaigym.video.*") if not path.endswith(".json")]
    return sorted(int(path[-10:-4]) for path in files)


def test_some_episodes_of_the_first_environment_are_filmed(tmp_path: Path) -> None:
    trained(config(render_env=str(tmp_path / "videos")))
    assert numbers(tmp_path / "videos") == [0, 1, 8]
    stem = str(tmp_path / "videos" / f"openaigym.video.0.{os.getpid()}.video000001")
    assert brightness(f"{stem}.gif") == [0, 1, 2, 3]
    told = json.loads(Path(f"{stem}.meta.json").read_text())
    assert told["episode_id"] == 1 and told["frames"] == 4 and told["episode_reward"] == 4.0
    assert len(os.listdir(tmp_path / "videos")) == 6, "nothing unfinished stays"
    assert [each for each in range(3001) if filming.is_filmed(each)] == [
        *(each**3 for each in range(10)), 1000, 2000, 3000,
    ]  # fmt: skip


@pytest.mark.usefixtures("session")
def test_bits_stay_and_one_runner_films(tmp_path: Path) -> None:
    still = trained(config())
    for runners in (0, 2):
        assert trained(config(runners, render_env=str(tmp_path / str(runners)))) == still
        assert numbers(tmp_path / str(runners)) == [0, 1, 8]
    assert glob.glob(f"{tmp_path}/2/openaigym.video.1.*") and not glob.glob(f"{tmp_path}/2/openaigym.video.2.*")


def test_they_are_with_the_results_and_under_the_names_of_all_generations(tmp_path: Path) -> None:
    algorithm = config(render_env=True).build()
    algorithm.train()
    assert numbers(algorithm.logdir) == [0, 1, 8]
    for name in ("monitor", "record_env"):
        made = config().update_from_dict({name: str(tmp_path / name)})
        trained(made)
        assert numbers(tmp_path / name) == [0, 1, 8]


def test_evaluations_are_filmed_where_they_are_to_be(tmp_path: Path) -> None:
    made = config().evaluation(evaluation_duration=4, evaluation_config={"render_env": str(tmp_path)})
    algorithm = made.build()
    algorithm.evaluate()
    algorithm.stop()
    assert numbers(tmp_path) == [] and numbers(tmp_path / "evaluation")[:2] == [0, 1]


@pytest.mark.parametrize(
    ("env", "options"),
    [
        (DrawnMatch, {}),
        (DrawnMatch, {"batch_mode": "complete_episodes"}),
        (Drawn, {"batch_mode": "complete_episodes"}),
        (Drawn, {"gym_env_vectorize_mode": "async"}),
    ],
)
def test_environments_of_all_kinds_are_filmed(env: Any, options: Any, tmp_path: Path, session: None) -> None:
    trained(config(env=env, render_env=str(tmp_path)).env_runners(**options))
    assert numbers(tmp_path)[:2] == [0, 1]
    with image.open(glob.glob(f"{tmp_path}/*video000000.gif")[0]) as video:
        assert video.n_frames == (10 if env is DrawnMatch else 4)


def test_environments_of_gymnasium_are_filmed(tmp_path: Path) -> None:
    gymnasium.register("Drawn-v0", entry_point=lambda render_mode=None: Drawn({"render_mode": render_mode}))
    try:
        trained(config(env="Drawn-v0", render_env=str(tmp_path)))
    finally:
        del gymnasium.registry["Drawn-v0"]
    assert numbers(tmp_path) == [0, 1, 8], "its layers have not heard of a reset"


def test_what_shows_itself_is_not_filmed(tmp_path: Path) -> None:
    trained(config(render_env=str(tmp_path), env_config={"returns": True}))
    trained(config(render_env=str(tmp_path), env_config={"render_mode": "human"}))
    assert os.listdir(tmp_path) == []


def test_what_can_not_be_filmed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvError, match=r"Nothing.render\(\) returned None: it gets 'render_mode': 'rgb_array'"):
        config(env=type("Nothing", (Drawn,), {"render": lambda self: None}), render_env=str(tmp_path)).build()
    with pytest.raises(EnvError, match=r"Drawn.render\(\) returned str of shape"):
        config(render_env=str(tmp_path), env_config={"returns": "text"}).build()
    with pytest.raises(EnvError, match="draws nothing"):
        config(env=CartPole, render_env=str(tmp_path)).build()
    with pytest.raises(ConfigError, match="ES plays its trials in any order, so render_env would film no course"):
        ESConfig().environment(Drawn, render_env=True).build()

    def none() -> Any:
        raise MissingDependencyError("no writer")

    monkeypatch.setattr(filming, "writer", none)
    with pytest.raises(MissingDependencyError, match="no writer"):
        config(render_env=str(tmp_path)).build()


def test_a_gif_that_is_too_long_ends_early_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(videos, "MOST_IN_MEMORY", 3)
    video = videos.Video(str(tmp_path), "long")
    for count in range(9):
        video.add(np.full((4, 4, 3), 20 * count, np.uint8), "Env")
    with image.open(video.close()) as made:
        assert made.n_frames == 4
    assert [record.message for record in caplog.records if "ends after 4 pictures" in record.message] != []


def test_mp4_is_written_as_frames_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    table = b"\0\0\0\x08moov"

    class Imageio:
        """Writes down what it is told."""

        def get_writer(self, path: str, **options: Any) -> Any:
            calls.append((os.path.basename(path), options))
            Path(path).write_bytes(b"\0\0\0\x0cftypisom" + table)
            return self

        def append_data(self, frame: Any) -> None:
            calls.append(frame.shape)

        def close(self) -> None:
            calls.append("closed")

    monkeypatch.setattr(videos, "writer", lambda: videos.Mp4)
    monkeypatch.setattr(videos.importlib, "import_module", lambda name: Imageio())
    video = videos.Video(str(tmp_path), "one", 12.0)
    video.add(np.zeros((5, 8, 3), np.uint8), "Env")
    assert calls == [("one.unfinished.mp4", {"fps": 12.0, "macro_block_size": 1}), (6, 8, 3)], "rows are even"
    assert video.close() == str(tmp_path / "one.mp4") and os.listdir(tmp_path) == ["one.mp4"]
    table = b"\0\0\0\x28mdat"
    video = videos.Video(str(tmp_path), "two")
    video.add(np.zeros((4, 4, 3), np.uint8), "Env")
    with pytest.raises(RunError, match=r"can't write .*/two\.mp4: ffmpeg has not written all of it"):
        video.close()
    assert os.listdir(tmp_path) == ["one.mp4"], "no half is left"
