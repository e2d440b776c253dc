"""Explorations of older programs: classes with `get_exploration_action`, which are given distributions of actions.

What they draw from these is the noise of lanes, so that runs stay the same for any number of runners. What they draw by
themselves is theirs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data import columns
from kernel_rllib.distributions.distribution import Distribution, Noise
from kernel_rllib.errors import ConfigError, RLlibError
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.policy.action_distribution import distribution_class

METHOD = "get_exploration_action"
_NEVER_CALLED = ("on_episode_start", "on_episode_end", "postprocess_trajectory", "get_exploration_optimizer")


def chooses_by_distribution(kind: type[Any]) -> bool:
    """Return whether a class is an exploration of an older program."""
    return callable(getattr(kind, METHOD, None))


class ExplorationByClass:
    """Explores by an object of the user's class. It is an `Exploration` once it has its policy."""

    _distribution: Distribution

    def __init__(self, kind: type[Any], options: Mapping[str, Any], *, records: bool = False) -> None:
        """Take the class, and what stands beside `type` in `exploration_config`.

        Args:
            kind: The class.
            options: Further arguments of its constructor beside those about the policy.
            records: True if the algorithm learns from the log-likelihoods that it returns.

        Raises:
            ConfigError: If it has methods that nothing calls.
        """
        ignored = [name for name in _NEVER_CALLED if hasattr(kind, name)]
        if ignored:
            raise ConfigError(
                f"exploration_config has the type {kind.__name__}, which has {', '.join(ignored)}, and nothing calls "
                f"that: leave it out, and write callbacks. Called are {METHOD}() and before_compute_actions()"
            )
        self.kind, self.options = kind, dict(options)
        self.noise = Noise("uniform", 0)
        self.keeps: tuple[str, ...] = (columns.ACTION_DIST_INPUTS, columns.ACTION_LOGP) if records else ()
        self._place = {"worker_index": 0, "num_workers": 0}
        self._told: dict[str, Any] = {}
        self._tensors = False
        self._object: Any = None
        self._timestep = 0

    def for_policy(self, distribution: Distribution, action_space: Any, config: AlgorithmConfig) -> ExplorationByClass:
        """Return the exploration of a policy.

        Args:
            distribution: The distribution that its actions are drawn from.
            action_space: The space of its actions.
            config: The settings of the policy.

        Raises:
            ConfigError: If the class can't be made with its options.
        """
        made = copy.copy(self)
        made.noise, made._distribution = distribution.noise, distribution
        made._tensors = config.framework_str == "torch"
        framework = "torch" if made._tensors else "numpy"
        made._told = {"action_space": action_space, "policy_config": config.to_dict(), "framework": framework}
        made._told["model"] = None
        made.made()
        return made

    def of_runner(self, index: int, runners: int) -> ExplorationByClass:
        """Return the exploration of one runner, whose object is told which one it is."""
        made = copy.copy(self)
        made._place, made._object = {"worker_index": index, "num_workers": runners}, None
        return made

    def made(self) -> Any:
        """Return the object, which is made when it is first asked for.

        Raises:
            ConfigError: If it can't be made with its options.
        """
        if self._object is None:
            takes = inspect.signature(self.kind).parameters
            takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values())
            known = {**self._told, **self._place}
            told = {name: value for name, value in known.items() if takes_all or name in takes}
            try:
                self._object = self.kind(**{**told, **self.options})
            except TypeError as error:
                raise ConfigError(
                    f"exploration_config has the type {self.kind.__name__}, which can't be made with the options "
                    f"{self.options} and with {', '.join(told) or 'nothing else'}: {error}. Its constructor gets what "
                    f"stands beside `type`, and of {', '.join(known)} what it has arguments for"
                ) from error
        return self._object

    # -- an exploration -----------------------------------------------------------------------------------------------

    def choose(self, nn: Ops, outputs: Mapping[str, Any], noise: Array, timestep: int) -> Array:
        """Return the actions that the object chooses; where that is learned from, `outputs` get its log-likelihoods."""
        self._timestep = timestep
        actions, logp = self._asked(nn, outputs, LaneDraws(noise), explore=True)
        if self.keeps:
            outputs[columns.ACTION_LOGP] = logp  # type: ignore[index]
        return actions

    def best(self, nn: Ops, outputs: Mapping[str, Any]) -> Array:
        """Return the actions that the object chooses where it is not to explore."""
        return self._asked(nn, outputs, LaneDraws(None), explore=False)[0]

    def recorded(self, nn: Ops, chosen: Mapping[str, Array]) -> dict[str, Array]:
        """Return no further columns: log-likelihoods are recorded as the object said them."""
        return {}

    def info(self, timestep: int) -> dict[str, Any]:
        """Return what the object says of itself."""
        says = getattr(self.made(), "get_info", None) or getattr(self.made(), "get_state", None)
        return dict(says() or {}) if callable(says) else {}

    def _asked(self, nn: Ops, outputs: Mapping[str, Any], draws: LaneDraws, *, explore: bool) -> tuple[Array, Array]:
        inputs = nn.to_numpy(
            outputs[columns.ACTION_DIST_INPUTS if columns.ACTION_DIST_INPUTS in outputs else columns.Q_VALUES]
        )
        drawn_from = distribution_class(self._distribution, draws)  # type: ignore[arg-type]
        given = _as_tensor(inputs) if self._tensors else inputs
        chosen, logp = _ask(self.made(), given, drawn_from, explore=explore, timestep=self._timestep)
        expected = self._distribution.mode(NumpyOps(), inputs)
        actions = _as_array(chosen)
        own = self.kind.__name__
        if actions.shape != expected.shape:
            raise RLlibError(
                f"{own}.{METHOD}() returned actions of shape {actions.shape}, but {len(inputs)} rows of inputs need "
                f"{expected.shape}, as sample() of the distribution returns them"
            )
        likely = np.zeros(len(inputs)) if logp is None else _as_array(logp)
        return actions.astype(expected.dtype), np.broadcast_to(likely, (len(inputs),)).astype(np.float32)


class LaneDraws:
    """Gives out the noise of lanes, in the place of a generator of random numbers.

    Who draws once gets that noise. Further draws in the same step come from it as well, lane by lane.
    """

    def __init__(self, noise: Array | None) -> None:
        """Give out this noise [L, width]; None: nothing may be drawn."""
        self._noise, self._draws = noise, 0

    def standard_normal(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return normal numbers [L, width]."""
        return self._next(lambda stream, width: stream.standard_normal(width, dtype))

    def random(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return uniform numbers [L, width]."""
        return self._next(lambda stream, width: stream.random(width, dtype))

    def _next(self, draw: Any) -> Array:
        if self._noise is None:
            raise RLlibError(
                f"{METHOD}() drew from a distribution with explore=False: return its deterministic_sample() then"
            )
        self._draws += 1
        if self._draws == 1:
            return self._noise
        seeds = np.ascontiguousarray(self._noise, np.float32).view(np.uint32)
        streams = [np.random.default_rng([self._draws, *row.tolist()]) for row in seeds]
        return np.stack([draw(stream, self._noise.shape[1]) for stream in streams])


def _ask(made: Any, inputs: Any, drawn_from: Any, *, explore: bool, timestep: int) -> tuple[Any, Any]:
    """Ask an object for actions, as its method is written: since 2.0 it is given the distribution itself."""
    before = getattr(made, "before_compute_actions", None)
    if callable(before):
        before(timestep=timestep, explore=explore)
    method = getattr(made, METHOD)
    if "action_distribution" in inspect.signature(method).parameters:
        returned = method(action_distribution=drawn_from(inputs), timestep=timestep, explore=explore)
    else:
        returned = method(
            distribution_inputs=inputs, action_dist_class=drawn_from, model=None, explore=explore, timestep=timestep
        )
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RLlibError(
            f"{type(made).__name__}.{METHOD}() returned {type(returned).__name__}, but must return a pair: "
            "the actions, and their log-likelihoods"
        )
    return returned


def _as_array(value: Any) -> Array:
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def _as_tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(value))
