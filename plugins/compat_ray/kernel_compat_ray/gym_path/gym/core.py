"""Environments and wrappers with the methods that gym had."""

from __future__ import annotations

from typing import Any

import gymnasium

TRUNCATED_KEY = "TimeLimit.truncated"


class Env(gymnasium.Env[Any, Any]):
    """Derive from it: `reset()` returns an observation, `step(action)` (observation, reward, done, info)."""

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Let the random numbers of this environment be those of a seed, and return it."""
        if seed is not None:
            self.np_random = gymnasium.utils.seeding.np_random(seed)[0]
        return [seed]


class Wrapper(Env):
    """Wraps an environment: attributes that are not defined here are the inner one's."""

    def __init__(self, env: Any) -> None:
        """Wrap an environment."""
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return self.env.unwrapped

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode."""
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        """Do one action."""
        return self.env.step(action)

    def seed(self, seed: int | None = None) -> Any:
        """Seed the inner environment."""
        return self.env.seed(seed)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Draw the inner environment."""
        return self.env.render(mode, **kwargs)

    def close(self) -> None:
        """Let go of the inner environment."""
        self.env.close()


for _name in ("action_space", "observation_space", "metadata", "spec", "reward_range"):
    # Gymnasium's class has some of these. If they stayed, `__getattr__` would not be called.
    setattr(
        Wrapper,
        _name,
        property(
            lambda self, _name=_name: vars(self).get(f"_own_{_name}", getattr(self.env, _name, None)),
            lambda self, value, _name=_name: vars(self).__setitem__(f"_own_{_name}", value),
        ),
    )


class ObservationWrapper(Wrapper):
    """Changes observations: define `observation(observation)`."""

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode."""
        return self.observation(self.env.reset(**kwargs))

    def step(self, action: Any) -> Any:
        """Do one action."""
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info

    def observation(self, observation: Any) -> Any:
        """Return what is observed in place of what the inner environment shows."""
        raise NotImplementedError(f"{type(self).__name__} has no observation(observation): define it")


class RewardWrapper(Wrapper):
    """Changes rewards: define `reward(reward)`."""

    def step(self, action: Any) -> Any:
        """Do one action."""
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info

    def reward(self, reward: Any) -> Any:
        """Return the reward in place of the inner environment's."""
        raise NotImplementedError(f"{type(self).__name__} has no reward(reward): define it")


class ActionWrapper(Wrapper):
    """Changes actions: define `action(action)`."""

    def step(self, action: Any) -> Any:
        """Do one action."""
        return self.env.step(self.action(action))

    def action(self, action: Any) -> Any:
        """Return the action that the inner environment is to do."""
        raise NotImplementedError(f"{type(self).__name__} has no action(action): define it")


class TimeLimit(Wrapper):
    """Cuts episodes off after a number of steps."""

    def __init__(self, env: Any, max_episode_steps: int) -> None:
        """Wrap an environment."""
        super().__init__(env)
        self._most, self._made = max_episode_steps, 0

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode."""
        self._made = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        """Do one action."""
        observation, reward, done, info = self.env.step(action)
        self._made += 1
        if self._made >= self._most:
            info, done = {**info, TRUNCATED_KEY: not done}, True
        return observation, reward, done, info


class FromGymnasium(Wrapper):
    """Wraps an environment of gymnasium with the methods that gym had."""

    _seed: int | None = None

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode, and return the first observation."""
        seed, self._seed = self._seed, None
        observation, _ = self.env.reset(**({"seed": seed} if seed is not None else {}), **kwargs)
        return observation

    def step(self, action: Any) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Do one action; return the observation, the reward, whether the episode is over, and what else is told."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if truncated:
            info = {**info, TRUNCATED_KEY: not terminated}
        return observation, reward, bool(terminated or truncated), info

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Let the next episode begin with this seed."""
        self._seed = seed
        return [seed]

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Return what `render_mode` draws; environments are told it when they are made."""
        return self.env.render()
