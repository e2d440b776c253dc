"""A look at an environment before anything is trained in it: what is wrong is said with the method that returned it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.external import ExternalLanes, is_external
from kernel_rllib.envs.lane import without_layers
from kernel_rllib.envs.lanes import name_of
from kernel_rllib.envs.making import as_vector, close
from kernel_rllib.envs.multi_agent import is_multi_agent
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.old_gym import Generations, five_values
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.envs.spaces_of import space_of
from kernel_rllib.errors import EnvError, SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.action_rows import row_width
from kernel_rllib.spaces.bounds import outside
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.flatten import Flattener
from kernel_rllib.spaces.nested import Struct

_STEPS = 20
_FLAGS = (bool, np.bool_, int, np.integer)


def check_env(
    env: Any,
    *,
    steps: int = _STEPS,
    seed: int = 0,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
) -> list[str]:
    """Play some random steps, and return warnings; raise EnvError or SpaceError for what breaks the contract.

    env: an environment of one agent or several, a vector environment, or what names one (see `registry.env_maker`).
    steps: how many; episodes that end are begun anew. seed: of the environment and of the actions.
    observation_space, action_space: instead of the environment's own.

    An environment that was passed as an object is left open, in the middle of an episode.
    """
    if is_external(env):
        raise EnvError(
            f"{name_of(env)} is an external environment: its program makes the steps, so nothing can be tried from here"
        )
    is_object = hasattr(env, "step") and not isinstance(env, (str, type))
    is_object = is_object or as_vector(env) is not None
    made = env if is_object else env_maker(env)(EnvContext())
    try:
        vector = as_vector(made)
        if vector is not None:
            return _check_vector(vector, steps, seed)
        if is_multi_agent(made):
            return _check_multi_agent(made, steps, seed)
        return _Single(made, observation_space, action_space).check(steps, seed)
    finally:
        if not is_object:
            close(made)


def check_first_step(
    env: Any,
    *,
    seed: int = 0,
    observation_space: Space[Any] | None = None,
    action_space: Space[Any] | None = None,
) -> None:
    """Begin one episode, and do one random action; raise EnvError or SpaceError for what breaks the contract.

    env: an environment of one agent or several, or a vector environment; it is left open, after that step. Of an
    external one, whose program makes the steps, only the construction is looked at. seed: of
    the environment and of the action. observation_space, action_space: instead of the environment's own.
    """
    vector = as_vector(env)
    if is_external(env):
        ExternalLanes(env)
    elif vector is not None:
        _check_vector(vector, 1, seed)
    elif is_multi_agent(env):
        _check_multi_agent(env, 1, seed)
    else:
        _Single(env, observation_space, action_space).check_first_step(seed)


class _Single:
    """The check of an environment of one agent."""

    def __init__(self, env: Any, observation_space: Space[Any] | None, action_space: Space[Any] | None) -> None:
        self._name = name_of(env)
        for method in ("reset", "step"):
            if not callable(getattr(env, method, None)):
                raise EnvError(f"{self._name} has no method {method}(): an environment needs reset() and step(action)")
        self._env, self._time_limit = without_layers(env)
        self._observation_space = observation_space or space_of(env, "observation_space")
        # A copy, as the environment may draw from its own, whose seed stays what it is.
        self._action_space = copy.deepcopy(action_space or space_of(env, "action_space"))
        for name, space in (("observation_space", self._observation_space), ("action_space", self._action_space)):
            _check_bounds(space, f"{self._name}.{name}")
        try:
            row_width(self._action_space)
        except SpaceError as error:
            raise SpaceError(f"{self._name}.action_space: {error}") from None
        Flattener(self._observation_space)  # Raises for a space without a fixed size.
        self._encoder = Encoder(self._observation_space, self._name)
        self._reset = Generations().reset_of(self._env)

    def check(self, steps: int, seed: int) -> list[str]:
        """Play, and return warnings."""
        first = self._begin(seed)
        warnings = []
        if not _equal(first, self._begin(seed)):
            warnings.append(
                f"{self._name}: reset(seed={seed}) gave another observation the second time: call "
                "super().reset(seed=seed) and draw from self.np_random, or no two runs will be alike"
            )
        self._action_space.seed(seed)
        ends = 0
        for _ in range(steps):
            if self._step(self._action()):
                ends += 1
                self._begin(None)
        limit = self._time_limit is not None or getattr(getattr(self._env, "spec", None), "max_episode_steps", None)
        if not ends and not limit:
            warnings.append(
                f"{self._name}: no episode ended within {steps} steps, and there is no time limit: have it return "
                "terminated, or set max_episode_steps (horizon), as returns are only known of episodes that end"
            )
        return warnings

    def check_first_step(self, seed: int) -> None:
        """Begin an episode, and do one action."""
        self._begin(seed)
        self._action_space.seed(seed)
        self._step(self._action())

    def _action(self) -> Any:
        return _drawn(self._action_space, self._seen)

    def _begin(self, seed: int | None) -> Struct:
        try:
            obs, info = self._reset(seed)
        except (EnvError, SpaceError):
            raise
        except Exception as error:
            raise EnvError(
                f"{self._name}.reset({'' if seed is None else f'seed={seed}'}) raised {type(error).__name__}: {error}"
            ) from error
        if obs is None:
            raise EnvError(
                f"{self._name}.reset() returned None: return (observation, info), or the observation as in old gym"
            )
        self._check_info(info, "reset")
        self._seen = obs
        return self._checked(obs, "reset")

    def _step(self, action: Any) -> bool:
        """Do one action; return whether the episode ended."""
        try:
            returned = self._env.step(action)
        except Exception as error:
            raise EnvError(f"{self._name}.step({action!r}) raised {type(error).__name__}: {error}") from error
        obs, reward, terminated, truncated, info = five_values(returned, self._name)
        self._seen = obs
        self._checked(obs, "step")
        self._check_reward(reward)
        for what, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, _FLAGS) and np.shape(flag) != (1,):
                raise EnvError(
                    f"{self._name}.step() returned {flag!r} ({type(flag).__name__}) as {what}: return True or False"
                )
        self._check_info(info, "step")
        return bool(terminated) or bool(truncated)

    def _checked(self, obs: Any, method: str) -> Struct:
        row = self._encoder.one(obs, method)
        wrong = outside(self._observation_space, row)
        if wrong:
            raise SpaceError(
                f"{self._name}.{method}() returned an observation outside of observation_space "
                f"{self._observation_space}: {wrong}. Widen the space, or clip what you return"
            )
        return row

    def _check_reward(self, reward: Any) -> None:
        number = np.asarray(reward)
        if number.size != 1 or number.dtype.kind not in "biuf":
            raise EnvError(
                f"{self._name}.step() returned {reward!r} ({type(reward).__name__}) as reward: return one number"
            )
        if not np.isfinite(number).all():
            raise EnvError(f"{self._name}.step() returned {reward!r} as reward: return a finite number")

    def _check_info(self, info: Any, method: str) -> None:
        if not isinstance(info, dict):
            raise EnvError(
                f"{self._name}.{method}() returned {info!r} ({type(info).__name__}) as info: return a dict, which may "
                "be empty"
            )


def _drawn(space: Space[Any], seen: Any) -> Any:
    """Return an action of a space: one of those that `action_mask` of what is seen allows, where there is that."""
    mask: Any = seen.get("action_mask") if isinstance(seen, Mapping) else None
    if isinstance(space, spaces.Discrete) and np.shape(mask) == (space.n,) and np.any(mask):
        return space.sample(np.asarray(mask, bool).astype(np.int8))
    return space.sample()


def _check_multi_agent(env: Any, steps: int, seed: int) -> list[str]:
    """Play with an environment of several agents; the loop that steps it raises what is wrong."""
    name = name_of(env)
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise EnvError(f"{name} has no method {method}(): an environment needs reset() and step(action_dict)")
    loop = MultiAgentLoop([lambda: env])
    (obs,) = loop.reset([seed])
    ends = 0
    for _ in range(steps):
        actions: dict[Any, Any] = {}
        for agent, row in obs.items():
            wrong = outside(loop.observation_space_of(agent), row)
            if wrong:
                raise SpaceError(
                    f"{name}: the observation of agent {agent!r} is outside of its space "
                    f"{loop.observation_space_of(agent)}: {wrong}. Widen the space, or clip what you return"
                )
            space = copy.deepcopy(loop.action_space_of(agent))
            space.seed(seed + len(actions))
            row_width(space)
            actions[agent] = _drawn(space, row)
        step = loop.step([actions])
        ends += len(step.final_obs)
        (obs,) = step.obs
    if ends:
        return []
    return [
        f'{name}: no episode of any agent ended within {steps} steps: have it return terminateds["__all__"], or set '
        "max_episode_steps (horizon)"
    ]


def _check_vector(vector: VectorEnv, steps: int, seed: int) -> list[str]:
    """Play with a vector environment; its lanes raise what is wrong."""
    name = getattr(vector, "name", type(vector).__name__)
    seen = vector.reset([seed + lane for lane in range(vector.num_lanes)])
    _check_lanes(name, "reset", seen, vector)
    action_space = copy.deepcopy(vector.action_space)
    action_space.seed(seed)
    actions = nested.empty(vector.action_space, vector.num_lanes)
    for _ in range(steps):
        for lane in range(vector.num_lanes):
            nested.write_row(actions, lane, _drawn(action_space, nested.row(seen, lane)))
        step = vector.step(actions)
        seen = step.obs
        _check_lanes(name, "step", step.obs, vector)
        for what, values in (("rewards", step.rewards), ("terminateds", step.terminateds)):
            if np.shape(values) != (vector.num_lanes,):
                raise EnvError(
                    f"{name}.step() returned {what} of shape {np.shape(values)} for {vector.num_lanes} lanes: return "
                    "one for each"
                )
    return []


def _check_lanes(name: str, method: str, obs: Struct, vector: VectorEnv) -> None:
    forms = nested.empty(vector.observation_space, vector.num_lanes)
    for form, found in zip(nested.leaves(forms), nested.leaves(obs), strict=True):
        if form.shape != found.shape:
            raise SpaceError(
                f"{name}.{method}() returned observations of shape {found.shape} for {vector.num_lanes} lanes of "
                f"{vector.observation_space}: return an array of shape {form.shape}"
            )
    for lane in range(vector.num_lanes):
        wrong = outside(vector.observation_space, nested.row(obs, lane))
        if wrong:
            raise SpaceError(
                f"{name}.{method}() returned an observation outside of {vector.observation_space} in lane {lane}: "
                f"{wrong}. Widen the space, or clip what you return"
            )


def _check_bounds(space: Space[Any], name: str) -> None:
    """Raise SpaceError for a Box whose bounds are the wrong way round, or no numbers."""
    children: Sequence[tuple[str, Space[Any]]] = ()
    if isinstance(space, spaces.Dict):
        children = [(f"{name}[{key!r}]", child) for key, child in space.spaces.items()]
    elif isinstance(space, spaces.Tuple):
        children = [(f"{name}[{place}]", child) for place, child in enumerate(space.spaces)]
    for child_name, child in children:
        _check_bounds(child, child_name)
    if isinstance(space, spaces.Box) and not np.all(space.low <= space.high):
        raise SpaceError(f"{name} is {space}, whose low is above its high, or is no number: exchange the bounds")


def _equal(one: Struct, other: Struct) -> bool:
    pairs = zip(nested.leaves(one), nested.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)
