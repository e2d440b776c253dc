"""Games of Atari as DeepMind's agents see them (Mnih et al. 2015, "Human-level control through deep reinforcement
learning", methods and extended data table 1): small gray pictures, the last four together, one life at a time.

`wrap_deepmind(env)` puts all of it around an environment; each part is a wrapper of its own.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import ConfigError
from kernel_rllib.spaces.nested import Array
from kernel_rllib.spaces.pixels import GrayPreprocessor

LIFE_LOST = "life_lost"
"""Is in the info of a step that ended an episode because a life was lost, while the game goes on."""
SCREEN = (210, 160, 3)
NO_OPERATION = 0

Env = gymnasium.Env[Any, Any]
Seen = tuple[Any, dict[str, Any]]
Stepped = tuple[Any, Any, bool, bool, dict[str, Any]]


def is_atari(env: Any) -> bool:
    """Return whether an environment is a game of Atari that shows its screen."""
    space = getattr(env, "observation_space", None)
    return getattr(space, "shape", None) == SCREEN and hasattr(env.unwrapped, "ale")


class NoopResetEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Begins games at different moments: after 1 to `noop_max` steps in which nothing is done."""

    def __init__(self, env: Env, noop_max: int = 30) -> None:
        """Wrap an environment. Raises ConfigError for fewer than one step."""
        super().__init__(env)
        if noop_max < 1:
            raise ConfigError(f"noop_max is {noop_max}; give a number of steps from 1 on, or leave NoopResetEnv out")
        self.noop_max = noop_max

    def reset(self, *, seed: int | None = None, options: Any = None) -> Seen:
        """Begin a game, and let some steps pass; how many, the generator of the environment says."""
        seen = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.env.unwrapped.np_random.integers(1, self.noop_max + 1))):
            obs, _, terminated, truncated, info = self.env.step(NO_OPERATION)
            seen = self.env.reset(options=options) if terminated or truncated else (obs, info)
        return seen


class MaxAndSkipEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Repeats each action, and shows the brighter one of the last two screens: sprites flicker on this console."""

    def __init__(self, env: Env, skip: int = 4) -> None:
        """Repeat each action so often. Raises ConfigError for less than once."""
        super().__init__(env)
        if skip < 1:
            raise ConfigError(f"skip is {skip}; give a number of frames from 1 on, or leave MaxAndSkipEnv out")
        self._skip = skip

    def step(self, action: Any) -> Stepped:
        """Repeat the action to the end of the episode at most; rewards are summed up."""
        total = 0.0
        before: Any = None
        obs: Any = None
        for _ in range(self._skip):
            before = obs
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs if before is None else np.maximum(before, obs), total, terminated, truncated, info


class EpisodicLifeEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Ends an episode with each life, so that losing one is something to learn from; the game itself goes on."""

    def __init__(self, env: Env) -> None:
        """Wrap an environment."""
        super().__init__(env)
        self._lives, self._goes_on = 0, False

    def step(self, action: Any) -> Stepped:
        """Make a step; one that costs a life terminates, and its info has `LIFE_LOST` where the game goes on."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = self._lives_left()
        self._goes_on = 0 < lives < self._lives and not (terminated or truncated)
        self._lives = lives
        if self._goes_on:
            info = {**info, LIFE_LOST: True}
        return obs, reward, terminated or self._goes_on, truncated, info

    def reset(self, *, seed: int | None = None, options: Any = None) -> Seen:
        """Go on with the next life, or begin a game: where the last one is over, or a seed is given."""
        if self._goes_on and seed is None:
            obs, _, terminated, truncated, info = self.env.step(NO_OPERATION)
            seen = self.env.reset(options=options) if terminated or truncated else (obs, info)
        else:
            seen = self.env.reset(seed=seed, options=options)
        self._lives, self._goes_on = self._lives_left(), False
        return seen

    def _lives_left(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]


class FireResetEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses the button that starts a game or a life, for games that wait for it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Seen:
        """Begin, and press it."""
        self.env.reset(seed=seed, options=options)
        obs, _, terminated, truncated, info = self.env.step(1)
        return self.env.reset(options=options) if terminated or truncated else (obs, info)


class WarpFrame(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows gray pictures of bytes, [dim, dim, 1]."""

    def __init__(self, env: Env, dim: int = 84) -> None:
        """Wrap an environment whose observations are pictures of bytes. Raises SpaceError for others."""
        super().__init__(env)
        self._gray = GrayPreprocessor(env.observation_space, dim)
        self.observation_space = self._gray.space

    def observation(self, observation: Any) -> Array:
        """Return the picture small and gray."""
        return self._gray.transform(np.asarray(observation))


class ClipRewardEnv(gymnasium.RewardWrapper[Any, Any]):
    """Gives the sign of each reward, as games have scores of different sizes. `clip_rewards` does so by itself."""

    def reward(self, reward: Any) -> float:
        """Return -1, 0 or 1."""
        return float(np.sign(reward))


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shows the last `k` pictures together, the oldest first, along the axis of channels."""

    def __init__(self, env: Env, k: int = 4) -> None:
        """Wrap an environment of pictures [height, width, channels]. Raises ConfigError for fewer than one."""
        super().__init__(env)
        if k < 1:
            raise ConfigError(f"k is {k}; give a number of pictures from 1 on, or leave FrameStack out")
        space: Any = env.observation_space
        low, high = (np.concatenate([bound] * k, axis=-1) for bound in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, dtype=space.dtype)
        self.k = k
        self._frames = np.zeros(self.observation_space.shape, space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Seen:
        """Begin with the first picture in all places."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._frames = np.concatenate([obs] * self.k, axis=-1)
        return self._frames, info

    def step(self, action: Any) -> Stepped:
        """Make a step, and show its picture as the last one."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._frames = np.concatenate([self._frames[..., obs.shape[-1] :], obs], axis=-1)
        return self._frames, reward, terminated, truncated, info


def wrap_deepmind(env: Any, dim: int = 84, framestack: bool = True, *, lives: bool = True) -> Any:
    """Return a game of Atari as DeepMind's agents see it.

    Games begin after up to 30 steps of nothing; an action lasts four frames, where the environment has not said
    otherwise; an episode is a life; the button that starts a game is pressed. Rewards stay: `clip_rewards` is about
    them.

    Args:
        env: The game.
        dim: Width and height of pictures, in pixels.
        framestack: Whether the last four pictures are shown, and otherwise the last one.
        lives: Whether an episode is a life, and otherwise a game.
    """
    env = NoopResetEnv(env)
    if env.spec is not None and env.spec.kwargs.get("frameskip") == 1:
        env = MaxAndSkipEnv(env)
    if lives:
        env = EpisodicLifeEnv(env)
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    if meanings is not None and "FIRE" in meanings():
        env = FireResetEnv(env)
    env = WarpFrame(env, dim)
    return FrameStack(env, 4) if framestack else env


class DeepMindMaker:
    """Makes games of Atari as DeepMind's agents see them; what shows no screen of such a game stays as it is."""

    def __init__(self, make: Any, dim: int, framestack: bool, lives: bool) -> None:
        """Wrap what `make` makes of its context; see `wrap_deepmind`."""
        self._make, self._dim, self._framestack, self._lives = make, dim, framestack, lives

    def __call__(self, context: Any) -> Any:
        """Return a new environment."""
        env = self._make(context)
        return wrap_deepmind(env, self._dim, self._framestack, lives=self._lives) if is_atari(env) else env
