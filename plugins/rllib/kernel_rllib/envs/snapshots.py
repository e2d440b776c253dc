"""Copies of an environment's state that go on bit by bit, in this process or in another.

Most environments are copied by pickling them whole. For those that keep their state outside of Python's reach an
adapter does it: MuJoCo (a pickled environment of gymnasium is one made anew: a wrong copy without an error; nor is
`mj_getState` enough, as rewards of Ant and Humanoid read what was derived from the state before) and the Arcade
Learning Environment. Whether a copy of one's own environment goes on as the original does is tried by `copy_trial`.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import cloudpickle
import numpy as np

from kernel_rllib.envs.contract import Step, VectorEnv
from kernel_rllib.envs.lanes import name_of
from kernel_rllib.errors import EnvError, RLlibError
from kernel_rllib.spaces import nested

_FORMAT = 1
_TRIAL_STEPS = 20
_DO_NOTHING = 0
_FORGETTING_FRAMES = 30
"""After so many frames it is certain that an action is not one from before, at any usual probability of repeats."""
_QUICK = 1
"""The level of compression: most of MuJoCo's state is a model that repeats itself, and time matters more."""


def take(env: Any, extra: Any) -> bytes:
    """Return the state of an environment, with `extra`, which can be pickled.

    Raises EnvError where it can't be pickled; the message names the part.
    """
    keeper = _keeper(env)
    try:
        state = keeper.take(env)
        return zlib.compress(cloudpickle.dumps((_FORMAT, keeper.name, state, extra)), _QUICK)
    except Exception as error:
        raise EnvError(
            f"{name_of(env)} can't be copied: {type(error).__name__}: {error}. Give it __getstate__ and __setstate__ "
            'that leave out what can\'t be pickled, or use recovery="recreate"'
        ) from error


def restored(snapshot: bytes, make: Callable[[], Any]) -> tuple[Any, Any]:
    """Return an environment in the state of a snapshot, and the extra; `make` makes one where pickling can't.

    Snapshots are pickles: they come from runners of the same program, never from strangers.
    """
    version, name, state, extra = pickle.loads(zlib.decompress(snapshot))
    if version != _FORMAT:
        raise EnvError(f"the snapshot of an environment has format {version}, and this release reads {_FORMAT}")
    keeper = next(each for each in _KEEPERS if each.name == name)
    return keeper.restored(state, make), extra


def copy_trial(make_vector: Callable[[], VectorEnv], seed: int = 0, steps: int = _TRIAL_STEPS) -> str:
    """Return "" if a copy of an environment goes on as the original does, else what was different.

    make_vector: makes a vector of the environment with one lane or more; it is called twice. Some steps into an episode
    the first lane is copied; then both do the same actions, with the resets that come.
    """
    original, copy = make_vector(), make_vector()
    try:
        original.action_space.seed(seed)
        original.reset([seed] * original.num_lanes)
        copy.reset([seed + 1] * copy.num_lanes)
        for _ in range(steps // 2):
            original.step(_same_action(original))
        try:
            copy.restore(0, original.snapshot(0))
        except RLlibError as error:
            return str(error)
        for step in range(steps):
            actions = _same_action(original)
            difference = _difference(original.step(actions), copy.step(actions))
            if difference:
                return f"{difference} of a copy differed from the original's {step + 1} steps after it was made"
        original_row, copy_row = original.reset_lane(0), copy.reset_lane(0)
        return (
            "" if _equal(original_row, copy_row) else "the next episode of a copy began as another than the original's"
        )
    finally:
        original.close()
        copy.close()


class _Keeper(Protocol):
    """A way to keep the state of some environments."""

    name: str

    def fits(self, env: Any) -> bool:
        """Return whether it is for this environment."""
        ...

    def take(self, env: Any) -> Any:
        """Return a state that can be pickled."""
        ...

    def restored(self, state: Any, make: Callable[[], Any]) -> Any:
        """Return an environment in this state."""
        ...


class _Pickled:
    """Keeps environments by pickling them whole."""

    name = "pickle"

    def fits(self, env: Any) -> bool:
        return True

    def take(self, env: Any) -> Any:
        return cloudpickle.dumps(env)

    def restored(self, state: Any, make: Callable[[], Any]) -> Any:
        return pickle.loads(state)


class _Mujoco:
    """Keeps environments of MuJoCo: the whole data of the simulation with its model, and what Python knows."""

    name = "mujoco"

    def fits(self, env: Any) -> bool:
        return type(getattr(_innermost(env), "data", None)).__module__.startswith("mujoco")

    def take(self, env: Any) -> Any:
        return pickle.dumps(_innermost(env).data), _attributes(env, {"data", "model", "mujoco_renderer"})

    def restored(self, state: Any, make: Callable[[], Any]) -> Any:
        env = make()
        data = pickle.loads(state[0])
        _set_attributes(env, state[1])
        inner = _innermost(env)
        for owner in (inner, getattr(inner, "mujoco_renderer", None)):
            if owner is not None:
                owner.data, owner.model = data, data.model
        return env


class _Atari:
    """Keeps environments of the Arcade Learning Environment: the console with its random generator.

    With sticky actions a console repeats the action before at times, and does not tell which it was. So both the
    original and the copy forget it, and would repeat "do nothing": an original goes on as its copies, not always as it
    would have without a snapshot.
    """

    name = "atari"

    def fits(self, env: Any) -> bool:
        return hasattr(_innermost(env), "ale") and hasattr(_innermost(env).ale, "cloneSystemState")

    def take(self, env: Any) -> Any:
        ale = _innermost(env).ale
        state = ale.cloneState(include_rng=True)
        self._put(ale, state)
        return pickle.dumps(state), _attributes(env, {"ale"})

    def restored(self, state: Any, make: Callable[[], Any]) -> Any:
        env = make()
        env.reset()
        self._put(_innermost(env).ale, pickle.loads(state[0]))
        _set_attributes(env, state[1])
        return env

    def _put(self, ale: Any, state: Any) -> None:
        """Put a console into a state, without a memory of what was done before."""
        if ale.getFloat("repeat_action_probability") > 0:
            for _ in range(_FORGETTING_FRAMES):
                ale.act(_DO_NOTHING)
        ale.restoreState(state)


_KEEPERS: tuple[_Keeper, ...] = (_Mujoco(), _Atari(), _Pickled())


def _keeper(env: Any) -> _Keeper:
    return next(keeper for keeper in _KEEPERS if keeper.fits(env))


def _innermost(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def _layers(env: Any) -> Iterator[Any]:
    """Yield an environment and those that it wraps, outermost first."""
    while env is not None:
        yield env
        env = vars(env).get("env")


def _attributes(env: Any, left_out: set[str]) -> list[dict[str, bytes]]:
    """Return what each layer of an environment has in its attributes, pickled; what can't be pickled is left out."""
    kept: list[dict[str, bytes]] = []
    for layer in _layers(env):
        kept.append({})
        for name, value in vars(layer).items():
            if name != "env" and name not in left_out:
                try:
                    kept[-1][name] = cloudpickle.dumps(value)
                except Exception:
                    continue  # such as a window: the environment made anew has its own
    return kept


def _set_attributes(env: Any, kept: list[dict[str, bytes]]) -> None:
    for layer, attributes in zip(_layers(env), kept, strict=True):
        vars(layer).update({name: pickle.loads(value) for name, value in attributes.items()})


def _same_action(env: VectorEnv) -> Any:
    """Return one random action in all lanes."""
    struct = nested.empty(env.action_space, env.num_lanes)
    action = env.action_space.sample()
    for lane in range(env.num_lanes):
        nested.write_row(struct, lane, action)
    return struct


def _difference(original: Step, copy: Step) -> str:
    """Return the first part of two steps that differs in the first lane, or ""."""
    for name in ("obs", "rewards", "terminateds", "truncateds"):
        if not _equal(nested.row(getattr(original, name), 0), nested.row(getattr(copy, name), 0)):
            return f"{name}"
    return ""


def _equal(one: Any, other: Any) -> bool:
    pairs = zip(nested.leaves(one), nested.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)
