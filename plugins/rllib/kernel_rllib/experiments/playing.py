"""Playing episodes with a trained policy, step by step, where people can look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.external import is_external
from kernel_rllib.envs.lanes import name_of
from kernel_rllib.envs.multi_agent import is_multi_agent
from kernel_rllib.envs.old_gym import Generations, five_values
from kernel_rllib.errors import EnvError, MissingDependencyError
from kernel_rllib.training.parts import env_maker_of


@dataclass
class PlayedEpisode:
    """One episode.

    Attributes:
        number: The number of the episode, from 1.
        total_reward: The sum of its rewards.
        steps: Its steps: observation, action, next observation, reward, whether it ended, info.
    """

    number: int
    total_reward: float = 0.0
    steps: list[tuple[Any, Any, Any, float, bool, Any]] = field(default_factory=list)


def make_env(algorithm: Any, render_mode: str | None = None) -> Any:
    """Return the environment of an algorithm, to be played in by hand.

    Args:
        algorithm: The algorithm whose config names it.
        render_mode: The mode of drawing: "human", "rgb_array", or None for none.

    Raises:
        EnvError: If it can't draw in that way, or has several agents.
        MissingDependencyError: If it needs a library for it.
    """
    config = algorithm.config
    settings = dict(config.env_config)
    if render_mode is not None:
        settings["render_mode"] = render_mode
    maker = env_maker_of(config, lives=False)
    env = maker(EnvContext(settings))
    if is_external(env):
        raise EnvError(
            f"environment {maker.name!r} is external: its program makes the steps. Let it ask a policy for actions, by "
            "Algorithm.compute_single_action()"
        )
    if is_multi_agent(env):
        raise EnvError(
            f"environment {maker.name!r} has several agents, and single episodes are played with one: call "
            "Algorithm.evaluate()"
        )
    if render_mode is not None and getattr(env, "render_mode", None) != render_mode:
        raise EnvError(
            f"environment {maker.name!r} does not draw in the mode {render_mode!r}: its class gets it as "
            "env_config['render_mode'], and has to keep it as its attribute render_mode"
        )
    return env


def played(
    algorithm: Any,
    env: Any,
    *,
    steps: int | None,
    episodes: int | None,
    explore: bool = False,
    seed: int | None = None,
    after_step: Callable[[Any], None] | None = None,
) -> Iterator[PlayedEpisode]:
    """Yield episodes; the one in which the last step is made is played to its end.

    Args:
        algorithm: The algorithm that acts.
        env: The environment, as `make_env` returns it.
        steps: The number of steps after which no episode begins any more; None for no limit.
        episodes: The largest number of episodes; None for no limit.
        explore: Whether actions are drawn, as while training.
        seed: The seed of the first episode.
        after_step: Called with the environment at the beginning of each episode, and after each step.
    """
    reset = Generations().reset_of(env)
    made, number = 0, 0
    look = after_step or (lambda env: None)
    while (steps is None or made < steps) and (episodes is None or number < episodes):
        number += 1
        episode = PlayedEpisode(number)
        state = algorithm.get_policy().get_initial_state()
        observation, _ = reset(seed if number == 1 else None)
        _drawn(look, env)
        is_over = False
        before: dict[str, Any] = {}
        while not is_over:
            if state:
                action, state, _ = algorithm.compute_single_action(observation, state, explore=explore, **before)
            else:
                action = algorithm.compute_single_action(observation, explore=explore)
            following, reward, terminated, truncated, info = five_values(env.step(action), type(env).__name__)
            is_over = bool(terminated or truncated)
            episode.steps.append((observation, action, following, float(reward), is_over, info))
            episode.total_reward += float(reward)
            before = {"prev_action": action, "prev_reward": float(reward)}
            observation, made = following, made + 1
            _drawn(look, env)
        yield episode


def _drawn(look: Callable[[Any], None], env: Any) -> None:
    try:
        look(env)
    except Exception as error:
        if type(error).__name__ == "DependencyNotInstalled":
            raise MissingDependencyError(f"{name_of(env)} can't draw: {error}") from error
        raise
