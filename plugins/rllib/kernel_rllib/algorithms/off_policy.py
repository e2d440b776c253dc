"""Learning from replay, as algorithms share it: the buffer, explorations by values, and the number of updates."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from gymnasium.spaces import Discrete

from kernel_rllib.algorithms.exploration_by_noise import noise_settings
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.epsilon_greedy import EpsilonGreedy, PerWorkerEpsilonGreedy, Random, SoftQ
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.parameter_noise import ParameterNoiseOfValues
from kernel_rllib.nn.schedules import ConstantSchedule, PiecewiseSchedule, Schedule, schedule
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.replay.replay import Replay, UniformReplay
from kernel_rllib.training.exploration_of_users import exploration_name, own_exploration
from kernel_rllib.training.spaces import Spaces

UNIFORM = "EpisodeReplayBuffer"
METHODS = ("__len__", "add", "sample", "update_priorities", "state", "set_state")
"""The methods that a replay buffer of the user's own needs: `Replay` documents each."""


def replay_of(settings: Any) -> Replay:
    """Return the buffer that `replay_buffer_config` describes.

    Raises:
        ConfigError: If there is none of this type.
    """
    if settings.is_prioritized:
        return PrioritizedReplay(
            settings.capacity, alpha=settings.alpha, beta=beta_schedule(settings), epsilon=settings.eps
        )
    if settings.type == UNIFORM:
        return UniformReplay(settings.capacity)
    made = _buffer_class(settings.type)
    options = {name: value for name, value in settings.to_dict().items() if name not in type(settings).fields}
    missing = [method for method in METHODS if not hasattr(made, method)]
    if missing:
        raise ConfigError(
            f"replay_buffer_config has the type {made.__name__}, which lacks {', '.join(missing)}: a buffer needs all "
            "methods of kernel_rllib.replay.replay.Replay"
        )
    buffer: Replay = made(capacity=settings.capacity, **options)
    return buffer


def beta_schedule(settings: Any) -> Schedule:
    """Return how much weights correct for priorities, by env steps: from `beta` on a line to `final_beta`."""
    if settings.final_beta is None:
        return schedule(settings.beta, "beta")
    return PiecewiseSchedule([(0, settings.beta), (settings.beta_annealing_timesteps, settings.final_beta)])


def exploration_by_values(
    settings: Mapping[str, Any], actions: int, temperature: float = 1.0, *, perturbs: bool = False
) -> Exploration:
    """Return the exploration of discrete actions that a config describes.

    Args:
        settings: The `type` of the exploration and its options, under the names of RLlib.
        actions: The number of actions.
        temperature: The temperature of `StochasticSampling` and `SoftQ`.
        perturbs: True if the exploration may perturb parameters.

    Raises:
        ConfigError: If there is none of this type, or it takes other options.
    """
    own = own_exploration(settings, actions=actions)
    if own is not None:
        return own
    name = exploration_name(settings, "EpsilonGreedy")
    if name == "ParameterNoise" and perturbs:
        return _noise_on_parameters(settings, actions)
    if name not in _OPTIONS:
        raise ConfigError(
            f"exploration_config has the type {name!r}, which does not explore discrete actions by their values: take "
            f"one of {', '.join(_OPTIONS)}"
        )
    unknown = sorted(set(settings) - {"type", *_OPTIONS[name]})
    if unknown:
        raise ConfigError(
            f"exploration_config has {', '.join(unknown)}, which {name} does not take: it takes "
            f"{', '.join(_OPTIONS[name]) or 'no options'}"
        )
    if name == "EpsilonGreedy":
        return EpsilonGreedy(epsilon_of(settings))
    if name == "PerWorkerEpsilonGreedy":
        return PerWorkerEpsilonGreedy(epsilon_of(settings))
    if name == "Random":
        return EpsilonGreedy(ConstantSchedule(1.0))
    soft = SoftQ(float(settings.get("temperature", temperature)))
    steps = int(settings.get("random_timesteps", 0))
    return Random(actions, soft, steps) if steps else soft


def _noise_on_parameters(settings: Mapping[str, Any], actions: int) -> Exploration:
    """Return the exploration that perturbs networks of values; within, actions are random for some steps, then rarely.

    Raises:
        ConfigError: If it takes other options, or the exploration inside is not epsilon-greedy.
    """
    stddev, steps = noise_settings(settings)
    usual = {"type": "EpsilonGreedy", "epsilon_schedule": [[steps, 1.0], [steps + 1, 0.01]]}
    then = exploration_by_values(settings.get("sub_exploration") or usual, actions)
    if not isinstance(then, EpsilonGreedy):
        raise ConfigError(
            f"exploration_config of ParameterNoise has the sub_exploration {settings['sub_exploration']}, by which it "
            "can't tell how far choices should move: for discrete actions take EpsilonGreedy or PerWorkerEpsilonGreedy"
        )
    return ParameterNoiseOfValues(then, stddev, actions)


def refuse_what_is_missing(config: Any, *, perturbs: bool = False) -> None:
    """Raise ConfigError if settings ask for what an algorithm does not have that learns values of discrete actions."""
    exploration_by_values(config.exploration_settings, 2, perturbs=perturbs)
    model, sequence = config.model, config.replay_buffer_config.replay_sequence_length
    reasons = {
        "model use_lstm=True needs sequences, and this replays single steps; leave it out, and stack frames": (
            model.use_lstm
        ),
        "model use_attention=True needs sequences, and this replays single steps; leave it out": model.use_attention,
        "layers of Q-networks are not normalised; set fcnet_use_layernorm and head_fcnet_use_layernorm to False": (
            model.fcnet_use_layernorm or model.head_fcnet_use_layernorm
        ),
        "sequences are for recurrent models, and this replays single steps; set replay_sequence_length to None": (
            sequence not in (None, 1)
        ),
        "burn_in_len is for recurrent models, and this replays single steps; set it to 0": (
            getattr(config, "burn_in_len", 0)
        ),
    }
    for reason, is_asked_for in reasons.items():
        if is_asked_for:
            raise ConfigError(f"{config.title}: {reason}")


def require_discrete(spaces: Spaces, title: str) -> None:
    """Raise ConfigError unless actions are those of a Discrete space."""
    if not isinstance(spaces.action, Discrete):
        raise ConfigError(
            f"{title} learns a value for each action of a Discrete space, but the environment takes {spaces.action}; "
            "take PPO or SAC for it"
        )


EPSILON_OPTIONS = (
    "initial_epsilon",
    "final_epsilon",
    "warmup_timesteps",
    "epsilon_timesteps",
    "epsilon_schedule",
    "epsilon",
)
"""The options of explorations that are random now and then."""
_OPTIONS: dict[str, tuple[str, ...]] = {
    "EpsilonGreedy": EPSILON_OPTIONS,
    "PerWorkerEpsilonGreedy": EPSILON_OPTIONS,
    "SoftQ": ("temperature", "random_timesteps"),
    "StochasticSampling": ("random_timesteps",),
    "Random": (),
}
"""The explorations of discrete actions by their values, and the options of each."""


def epsilon_of(settings: Mapping[str, Any]) -> Schedule:
    """Return how often actions are random, as `exploration_config` says, over how many steps all lanes have made."""
    given = settings.get("epsilon_schedule") or settings.get("epsilon")
    if given is not None:
        return schedule(given, "epsilon")
    begin = settings.get("warmup_timesteps", 0)
    end = begin + settings.get("epsilon_timesteps", 100_000)
    return PiecewiseSchedule([
        (begin, settings.get("initial_epsilon", 1.0)), (end, settings.get("final_epsilon", 0.05))
    ])  # fmt: skip


def _buffer_class(kind: Any) -> Any:
    if not isinstance(kind, str):
        return kind
    module, _, name = kind.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(
            f"there is no replay buffer {kind!r}: take 'EpisodeReplayBuffer', 'PrioritizedEpisodeReplayBuffer', or a "
            "class of your own or the dotted path of one"
        ) from None


class Pace:
    """Says how many updates are due, so that over time so many steps are learned from for each one sampled."""

    def __init__(self, intensity: float) -> None:
        """Learn from this many steps for each step that is sampled."""
        self._intensity = intensity
        self.owed = 0.0
        """The number of steps that are still to be learned from; after each call, less than a batch."""

    def updates(self, sampled: int, batch: int) -> int:
        """Return how many updates of `batch` steps are due after `sampled` more steps."""
        self.owed += sampled * self._intensity
        count = int(self.owed // batch)
        self.owed -= count * batch
        return count
