"""Compute actions outside of training, for given observations, by the current parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import EnvToModule, Previous
from kernel_rllib.connectors.module_to_env import ModuleToEnv
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.connectors.previous_steps import PreviousSteps
from kernel_rllib.data import columns
from kernel_rllib.errors import SpaceError
from kernel_rllib.exploration.exploration import Exploration, NoExploration, NoiseProcess
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.policy.parameters import HeldParameters
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.action_rows import row_width, rows_of
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.squash import ActionScaler


class Inference:
    """Chooses actions as runners do, one call at a time."""

    def __init__(
        self,
        held: HeldParameters,
        exploration: Exploration,
        observation_space: Space[Any],
        action_space: Space[Any],
        env_to_module: EnvToModule,
        module_to_env: ModuleToEnv,
        stream: np.random.Generator,
        statistics: Callable[[], Statistics] = dict,
        *,
        unsquashes: bool = True,
    ) -> None:
        """Act with the parameters that are held when it is asked.

        Args:
            held: The parameters, and their module.
            exploration: The exploration, which chooses actions where it explores.
            observation_space: The observation space of one environment.
            action_space: The action space of one environment.
            env_to_module: The connectors from observations to inputs of the module.
            module_to_env: The connectors from chosen actions to those of the environment.
            stream: The generator of random numbers that noise is drawn from.
            statistics: Returns what connectors have learned; nothing is learned here.
            unsquashes: Whether choices are stretched to the bounds of the space; last actions are taken back by that.
        """
        self._held, self._exploring, self._stream = held, exploration, stream
        self._process = exploration if isinstance(exploration, NoiseProcess) else None
        self._encoder = Encoder(observation_space, "policy", verb="got")
        self._env_to_module, self._module_to_env = env_to_module, module_to_env
        self._action_space, self._statistics = action_space, statistics
        self._action_encoder = Encoder(action_space, "policy", "action", "action_space", "got")
        scaler = ActionScaler(action_space)
        self._normalised = scaler.normalise if unsquashes else scaler.clip

    @classmethod
    def of_blueprint(
        cls,
        blueprint: PolicyBlueprint,
        held: HeldParameters,
        stream: np.random.Generator,
        statistics: Callable[[], Statistics] = dict,
    ) -> Inference:
        """Return the inference that acts as the runners of a blueprint do."""
        return cls(
            held,
            blueprint.exploration,
            blueprint.observation_space,
            blueprint.action_space,
            blueprint.make_env_to_module(learns=False),
            blueprint.make_module_to_env(),
            stream,
            statistics,
            unsquashes=blueprint.actions.unsquash,
        )

    @property
    def exploration(self) -> Exploration:
        """The exploration by which it chooses actions when it explores."""
        return self._exploring

    def actions(
        self,
        observations: Sequence[Any],
        *,
        explore: bool,
        timestep: int = 0,
        state: Mapping[str, Array] | None = None,
        previous: tuple[Sequence[Any], Sequence[float]] | None = None,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return an action for each observation, and what else the module gave.

        Args:
            observations: The observations of environments; where frames are stacked, each is a list of the last ones
                of its
                episode, the oldest first.
            explore: Whether actions are drawn as while training.
            timestep: The number of steps that the run has made; explorations go by it.
            state: The state of a recurrent module, arrays [N, ...] by name; None for the initial one.
            previous: The last actions and rewards of each, for policies that look at them; None where episodes begin.

        Raises:
            SpaceError: If an observation is not of the space.
        """
        chosen, outputs = self.choose(
            self.rows(observations, previous), explore=explore, timestep=timestep, state=state
        )
        return nested.unstack(self._action_space, self._module_to_env(chosen)), outputs

    def rows(self, observations: Sequence[Any], previous: tuple[Sequence[Any], Sequence[float]] | None = None) -> Array:
        """Return inputs of the module [N, ...] for observations, and the steps before them; see `actions`."""
        self._env_to_module.set_statistics(self._statistics())
        if not any(isinstance(connector, PreviousSteps) for connector in self._env_to_module.connectors):
            previous = None
        histories = [_history(one, self._env_to_module.frames) for one in observations]
        length = max([1 if previous is None else 2, *map(len, histories)])
        filled = [[history[0]] * (length - len(history)) + history for history in histories]
        steps = [self._encoder.batch(list(step), "compute_actions") for step in zip(*filled, strict=True)]
        rows = self._env_to_module(steps[0])
        for step in steps[1:]:
            rows = self._env_to_module(step, self._previous(len(observations), previous))
        return rows

    def choose(
        self, rows: Array, *, explore: bool, timestep: int = 0, state: Mapping[str, Array] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Return what is chosen for inputs of the module, as rows of numbers [N, ...], and what else the module gave.

        The arguments are those of `actions`, but for the rows [N, ...].
        """
        inputs: dict[str, Any] = {columns.OBS: rows}
        module = self._held.module
        if module.state():
            inputs[columns.STATE_IN] = state or self.initial_state(len(rows))
        exploration = self._exploring if explore else NoExploration(self._exploring)
        noise = self._noise(exploration.noise.kind, len(rows), exploration.noise.width)
        if explore and self._process is not None:  # as in the first step of an episode
            memory = self._process.memory()
            begins = {name: np.zeros((len(rows), *shape), np.float32) for name, shape in memory.items()}
            noise = self._process.advance(begins, noise, timestep)
        if explore and module.noise_width:
            inputs[columns.NOISE] = self._noise("normal", len(rows), module.noise_width)
        forward = module.explore if explore else module.infer

        def act(nn: Ops, parameters: Parameters) -> tuple[Array, dict[str, Any]]:
            outputs = forward(nn, parameters, inputs)
            return exploration.choose(nn, outputs, noise, timestep), outputs

        chosen, outputs = self._held.evaluate(act)
        return chosen, outputs

    def initial_state(self, count: int = 1) -> dict[str, Array]:
        """Return what a recurrent module remembers at first, arrays [count, ...]."""
        begins = self._held.module.initial_state().items()
        return {name: np.repeat(first[None], count, axis=0) for name, first in begins}

    def _previous(self, count: int, given: tuple[Sequence[Any], Sequence[float]] | None) -> Previous:
        """Return the step before of rows that are no first ones of episodes."""
        if given is not None:
            self._require_one_step()
            encoded = self._action_encoder.batch(list(given[0]), "compute_actions")
            actions = rows_of(self._action_space, self._normalised(encoded))
            return Previous(actions, np.asarray(given[1], np.float32), np.zeros(count, bool))
        if any(isinstance(connector, PreviousSteps) for connector in self._env_to_module.connectors):
            raise SpaceError(
                "the last observations of an episode were given without what was done between them, and this policy "
                "looks at that as well: give prev_action and prev_reward, or the first observation alone."
            )
        nothing = np.zeros((count, row_width(self._action_space)), np.float32)
        return Previous(nothing, np.zeros(count, np.float32), np.zeros(count, bool))

    def _require_one_step(self) -> None:
        """Raise SpaceError if the policy looks at more steps than the one before, which alone can be given."""
        for connector in self._env_to_module.connectors:
            if isinstance(connector, PreviousSteps) and connector.most > 1:
                raise SpaceError(
                    f"prev_action and prev_reward are of one step, and this policy looks at the last {connector.most}; "
                    "use evaluate(), which keeps them, or set attention_use_n_prev_actions and "
                    "attention_use_n_prev_rewards to 1 at most"
                )

    def _noise(self, kind: str, count: int, width: int) -> Array:
        if kind == "normal":
            return self._stream.standard_normal((count, width), np.float32)
        return self._stream.random((count, width), np.float32)


def _history(observation: Any, frames: int) -> list[Any]:
    """Return the last observations of an episode, the oldest first: this one alone where one is all that is looked at.

    Raises:
        SpaceError: If there should be a list of them and is none.
    """
    if frames == 1:
        return [observation]
    if not isinstance(observation, list) or not observation:
        raise SpaceError(
            f"an observation was given where a list of the last ones is expected: this policy acts on the last {frames}"
            " observations of an episode. Give a list of them, the oldest first; of fewer where the episode has fewer."
        )
    return observation[-frames:]
