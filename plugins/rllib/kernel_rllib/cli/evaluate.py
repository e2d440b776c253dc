"""`rllib evaluate` and `rllib rollout`: episodes with what a checkpoint holds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import click

from kernel.commands import Refusal
from kernel_rllib.cli.parameters import JsonObject, complete_algorithm, complete_env
from kernel_rllib.envs.videos import Video, writer
from kernel_rllib.errors import CheckpointError
from kernel_rllib.experiments.playing import make_env, played
from kernel_rllib.experiments.rollouts import RolloutFile
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.registry import algorithm_class


def _options(function: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.argument("checkpoint"),
        click.option(
            "--run", "--algo", "-a", "algorithm", metavar="NAME", shell_complete=complete_algorithm,
            help="The algorithm, if it is to be checked: the checkpoint knows it.",
        ),
        click.option(
            "--env", "-e", metavar="NAME", shell_complete=complete_env, help="Another environment than in training."
        ),
        click.option("--config", type=JsonObject(), metavar="JSON", help="Settings in place of those that it has."),
        click.option("--steps", type=click.IntRange(0), metavar="N", help="Begin no episode after N steps; 0: always."),
        click.option("--episodes", type=click.IntRange(0), metavar="N", help="Play N episodes; 0: no limit."),
        click.option("--explore/--no-explore", default=False, help="Draw actions, or take the best known."),
        click.option("--seed", type=int, metavar="N", help="The seed of the first episode."),
        click.option("--render/--no-render", default=False, help="Show the environment in a window."),
        click.option("--video-dir", metavar="DIR", help="Write a video of each episode to DIR."),
        click.option("--out", metavar="FILE", help="Write the steps of all episodes to FILE, a pickle."),
        click.option("--save-info", is_flag=True, help="Write the infos of steps to it too."),
        click.option("--use-shelve", is_flag=True, help="Make it a shelf, written episode by episode."),
        click.option("--track-progress", is_flag=True, help="Keep a file beside it that says how far it is."),
        click.option("--trust", is_flag=True, help="Read pickles in the checkpoint, which can run any program."),
        click.option("--local-mode", is_flag=True, hidden=True, expose_value=False, help="It runs here in any case."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@_options
def evaluate(**given: Any) -> None:
    """Play episodes with what CHECKPOINT holds: ten, unless --episodes or --steps says otherwise.

    The algorithm, its settings and its environment are in the checkpoint. Actions are the best known ones.

    \b
    Examples:
      rllib evaluate checkpoint_000010
      rllib evaluate checkpoint_000010 --episodes 3 --video-dir videos
    """
    _play(default_episodes=10, default_steps=None, **given)


@click.command()
@_options
def rollout(**given: Any) -> None:
    """Play 10,000 steps with what CHECKPOINT holds; --steps and --episodes say otherwise.

    The same as evaluate, by its older name.

    \b
    Example:
      rllib rollout checkpoint_000010 --run DQN --env CartPole-v0 --steps 10000 --out rollouts.pkl
    """
    _play(default_episodes=None, default_steps=10_000, **given)


def _play(
    *,
    checkpoint: str,
    algorithm: str | None,
    env: str | None,
    config: dict[str, Any] | None,
    steps: int | None,
    episodes: int | None,
    default_steps: int | None,
    default_episodes: int | None,
    explore: bool,
    seed: int | None,
    render: bool,
    video_dir: str | None,
    out: str | None,
    save_info: bool,
    use_shelve: bool,
    track_progress: bool,
    trust: bool,
) -> None:
    if render and video_dir:
        raise Refusal("--render shows a window and --video-dir draws into files: give one of them")
    if out is None and (save_info or use_shelve or track_progress):
        raise Refusal("--save-info, --use-shelve and --track-progress are about a file: name it, --out FILE")
    if steps is None and episodes is None:
        steps, episodes = default_steps, default_episodes
    steps, episodes = steps or None, episodes or None
    if video_dir:
        writer()  # A missing library is reported before any episode is played.
    goal = f"{episodes} episodes" if episodes else f"{steps} steps" if steps else "no limit"
    rewards: list[float] = []
    with contextlib.ExitStack() as ending:
        built = _built(checkpoint, algorithm, env, config, trust)
        ending.callback(built.stop)
        made = make_env(built, "human" if render else "rgb_array" if video_dir else None)
        ending.callback(made.close)
        file = None
        if out:
            file = RolloutFile(out, save_info=save_info, use_shelve=use_shelve, goal=goal, track=track_progress)
            ending.callback(file.close)
        camera = _Camera(video_dir, made) if video_dir else None
        look = camera.look if camera else (lambda env: env.render()) if render else None
        for episode in played(built, made, steps=steps, episodes=episodes, explore=explore, seed=seed, after_step=look):
            click.echo(f"Episode #{episode.number}: reward: {episode.total_reward}")
            rewards.append(episode.total_reward)
            if file is not None:
                file.add(episode)
            if camera is not None:
                click.echo(f"video: {camera.cut(episode.number)}")
    if rewards:
        mean = sum(rewards) / len(rewards)
        click.echo(f"{len(rewards)} episodes, mean reward {mean:.6g}, from {min(rewards):.6g} to {max(rewards):.6g}")
    if out:
        click.echo(f"rollouts: {out}")


def _built(checkpoint: str, algorithm: str | None, env: str | None, config: dict[str, Any] | None, trust: bool) -> Any:
    """Return the algorithm that a checkpoint is of, with no runners of its own."""
    path = os.path.expanduser(checkpoint)
    if not os.path.exists(path):
        raise CheckpointError(f"there is no checkpoint {checkpoint}: give the directory that training named")
    cls: Any = algorithm_class(algorithm) if algorithm else Algorithm
    changes = {**(config or {}), "num_env_runners": 0, "evaluation_num_env_runners": 0}
    if env is not None:
        changes["env"] = env
    return cls.from_checkpoint(path, config=changes, trust=trust)


class _Camera:
    """Films episodes, a file each."""

    def __init__(self, directory: str, env: Any) -> None:
        self._directory = directory
        self._rate = float((getattr(env, "metadata", None) or {}).get("render_fps") or 30.0)
        self._video: Video | None = None

    def look(self, env: Any) -> None:
        if self._video is None:
            self._video = Video(self._directory, "unfinished", self._rate)
        self._video.add(env.render(), type(env).__name__)

    def cut(self, number: int) -> str:
        """End the video of an episode, and return its path."""
        assert self._video is not None
        self._video.name = f"episode-{number:04d}"
        path, self._video = self._video.close(), None
        return path
