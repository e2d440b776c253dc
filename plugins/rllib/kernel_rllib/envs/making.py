"""Lanes of whatever environment a user names, stepped in the way that fits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gymnasium import Space

from kernel_rllib.envs.actors import ActorsEnv, MultiAgentActors
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import MultiAgentVectorEnv, VectorEnv
from kernel_rllib.envs.external import ExternalLanes, is_external
from kernel_rllib.envs.foreign_vectors import EnvPoolVector, GymnasiumVector, is_envpool, is_gymnasium_vector
from kernel_rllib.envs.game import Game, SingleEnv
from kernel_rllib.envs.games.acrobot import AcrobotGame
from kernel_rllib.envs.games.cart_pole import CartPoleGame
from kernel_rllib.envs.games.mountain_car import MountainCarGame
from kernel_rllib.envs.games.pendulum import PendulumGame
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.multi_agent import is_multi_agent
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.envs.processes import ProcessesEnv
from kernel_rllib.envs.registry import EnvMaker, env_maker
from kernel_rllib.envs.vector_base import UserVector, VectorEnvBase
from kernel_rllib.errors import EnvError

KINDS = ("auto", "loop", "native", "processes", "actors")

TWINS: Mapping[str, tuple[type[Game], Mapping[str, Any]]] = {
    "CartPole-v0": (CartPoleGame, {"max_episode_steps": 200}),
    "CartPole-v1": (CartPoleGame, {}),
    "Pendulum-v0": (PendulumGame, {}),
    "Pendulum-v1": (PendulumGame, {}),
    "MountainCar-v0": (MountainCarGame, {}),
    "Acrobot-v1": (AcrobotGame, {}),
}
"""Environments of gymnasium that are here in numpy, with the same numbers, and the settings that make them so."""


def make_vector(
    env: Any,
    num_lanes: int = 1,
    context: EnvContext | None = None,
    *,
    kind: str = "auto",
    restart_failed: bool = False,
    max_episode_steps: int | None = None,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
    num_processes: int | None = None,
    num_parts: int = 1,
    batch_wait_ms: float = 0.0,
    actor_options: Mapping[str, Any] | None = None,
    drawn: int | None = None,
) -> VectorEnv | MultiAgentVectorEnv | ExternalLanes:
    """Return lanes of an environment; an external one is not stepped, and has none.

    env: what names it; see `registry.env_maker`. context: settings and numbers of the runner; lanes get a copy with
    their `vector_index`. kind: how lanes are stepped: "loop", in this process; "native", by array operations, where
    the environment is a game of numpy or has a twin that is; "processes", with shared memory; "actors", one each;
    "auto", as the vector environment that the maker returned, natively if it returned a game of numpy, else in a loop.
    restart_failed: whether a lane that
    fails begins anew, alone. max_episode_steps: where episodes are truncated. observation_space, action_space: instead
    of the environment's. num_processes, num_parts: of processes. batch_wait_ms, actor_options: of actors. drawn: which
    lane is told to draw pictures, by 'render_mode' in its settings.

    Raises EnvError for what can't be made or does not go together.
    """
    if kind not in KINDS:
        raise EnvError(f"the kind of lanes is {kind!r}, but must be one of {', '.join(map(repr, KINDS))}")
    if num_lanes < 1:
        raise EnvError(f"a runner needs one lane at least, not {num_lanes}")
    maker = env_maker(env)
    context = EnvContext() if context is None else context  # Compared with None, as an empty context is false.
    if kind == "native":
        return _native(maker, num_lanes, context, max_episode_steps)
    makers: list[Callable[[], Any]] = [
        LaneMaker(maker, _context_of(context, lane, remote=kind == "actors", draws=lane == drawn))
        for lane in range(num_lanes)
    ]
    shared: dict[str, Any] = {"restart_failed": restart_failed, "max_episode_steps": max_episode_steps}
    spaces: dict[str, Any] = {"observation_space": observation_space, "action_space": action_space}
    if kind == "processes":
        return ProcessesEnv(makers, num_processes=num_processes, num_parts=num_parts, **shared, **spaces)
    first = makers[0]()
    if is_external(first):
        return ExternalLanes(first)
    if kind == "actors":
        several = is_multi_agent(first)
        close(first)
        if several:
            return MultiAgentActors(makers, actor_options=actor_options, **shared)
        return ActorsEnv(makers, batch_wait_ms=batch_wait_ms, actor_options=actor_options, **shared, **spaces)
    vector = as_vector(first)
    if vector is not None:
        if vector.num_lanes != num_lanes:
            raise EnvError(
                f"{maker.name} made a vector environment of {vector.num_lanes} lanes, and {num_lanes} are wanted: "
                f"set num_envs (num_envs_per_env_runner) to {vector.num_lanes}, or have it make as many"
            )
        return vector
    if kind == "auto" and is_plain_game(first, observation_space, action_space):
        return NativeEnv(type(first).game_class(context), num_lanes, max_episode_steps=max_episode_steps)
    makers[0] = Once(first, makers[0])
    if is_multi_agent(first):
        return MultiAgentLoop(makers, **shared)
    return LoopEnv(makers, **shared, **spaces)


def _context_of(context: EnvContext, lane: int, *, remote: bool, draws: bool) -> EnvContext:
    made = context.copy_with_overrides(vector_index=lane, remote=remote)
    if draws:
        made.set_defaults({"render_mode": "rgb_array"})
    return made


class LaneMaker:
    """Makes the environment of one lane."""

    def __init__(self, maker: EnvMaker, context: EnvContext) -> None:
        self._maker = maker
        self._context = context

    def __call__(self) -> Any:
        return self._maker(self._context)


class Once:
    """Gives away an environment that was made already, and makes others after it."""

    def __init__(self, env: Any, make: Callable[[], Any]) -> None:
        self._env = env
        self._make = make

    def __call__(self) -> Any:
        env, self._env = self._env, None
        return self._make() if env is None else env


def close(env: Any) -> None:
    """Close an environment that was made to be looked at."""
    if hasattr(env, "close"):
        env.close()


def as_vector(env: Any) -> VectorEnv | None:
    """Return the lanes of an object that is a vector environment, or None."""
    if is_envpool(env):
        return EnvPoolVector(env)
    if is_gymnasium_vector(env):
        return GymnasiumVector(env)
    if isinstance(env, VectorEnvBase):
        return UserVector(env)
    return None


def is_plain_game(env: Any, observation_space: Space[Any] | None, action_space: Space[Any] | None) -> bool:
    """Return whether an environment is a game of numpy as it came, in spaces of its own where any are given."""
    return (
        isinstance(env, SingleEnv)
        and type(env).step is SingleEnv.step
        and type(env).reset is SingleEnv.reset
        and observation_space in (None, env.observation_space)
        and action_space in (None, env.action_space)
    )


def _native(maker: EnvMaker, num_lanes: int, context: EnvContext, max_episode_steps: int | None) -> VectorEnv:
    if maker.of_gymnasium and maker.name in TWINS:
        game_class, settings = TWINS[maker.name]
        return NativeEnv(game_class({**settings, **context}), num_lanes, max_episode_steps=max_episode_steps)
    made = maker(context)
    vector = as_vector(made)
    if vector is not None:
        return vector
    if isinstance(made, SingleEnv):
        return NativeEnv(type(made).game_class(context), num_lanes, max_episode_steps=max_episode_steps)
    close(made)
    raise EnvError(
        f"{maker.name} has no native vector: it is no game of numpy, and its maker returned no vector environment. "
        f'There are {", ".join(TWINS)}; use the kind "loop" or "processes"'
    )
