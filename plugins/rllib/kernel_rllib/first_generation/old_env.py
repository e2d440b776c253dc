"""An environment of today behind the interface of old gym: `reset()` gives the observation, `step()` four values."""

from __future__ import annotations

from typing import Any

from kernel_rllib.envs.old_gym import TRUNCATED_KEY, Generations, five_values


class FourValues:
    """Calls an environment of either generation, and returns what old gym did."""

    def __init__(self, env: Any) -> None:
        """Take the environment."""
        self.env = env
        self._reset = Generations().reset_of(env)
        self._seed: int | None = None

    @classmethod
    def around(cls, env: Any) -> Any:
        """Return the environment as old gym had it; what has no `step` of one agent is returned as it is."""
        return cls(env) if hasattr(env, "step") and hasattr(env, "action_space") else env

    def reset(self) -> Any:
        """Begin an episode, and return the first observation."""
        observation, _ = self._reset(self._seed)
        self._seed = None
        return observation

    def step(self, action: Any) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Do one action; return the observation, the reward, whether the episode is over, and what else is told."""
        obs, reward, terminated, truncated, info = five_values(self.env.step(action), type(self.env).__name__)
        if truncated and not terminated:
            info = {**info, TRUNCATED_KEY: True}
        return obs, reward, bool(terminated or truncated), info

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Let the next episode begin with this seed."""
        self._seed = seed
        return [seed]

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.env, name)
