"""The lanes of one module in one runner, for agents that come and go: what they see, remember and do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import ObservationConnector
from kernel_rllib.connectors.moments import Moments, Statistics
from kernel_rllib.connectors.policy_statistics import ObservedRows, named_for, of_policies, of_policy
from kernel_rllib.connectors.running_normalizer import RunningNormalizer
from kernel_rllib.connectors.user_functions import RowFilter, RowFunction
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import NoExploration, NoiseProcess
from kernel_rllib.exploration.parameter_noise import ParameterNoise
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.products import ROW_BLOCK
from kernel_rllib.runners.agent_slots import AgentSlots
from kernel_rllib.runners.agent_steps import DONE, AgentSteps
from kernel_rllib.runners.lane_noise import LaneNoise
from kernel_rllib.runners.logged_steps import Done, LoggedStep, LoggedSteps, outputs_of, stacked
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Struct


class AgentLanes(AgentSlots):
    """Acts for all agents of a module that have seen something, in one forward pass."""

    def __init__(self, module_id: str, policy: PolicyBlueprint, place: RunnerPlace, seed: int) -> None:
        """Make the module, the connectors and the exploration of the lanes.

        Args:
            module_id: The id of the module; the noise of modules differs.
            policy: The blueprint of the policy, from which the module and its connectors are made.
            place: The place of the runner: its number, its lanes, and its incarnation.
            seed: The seed of the run.

        Raises:
            ConfigError: If observations pass through connectors that keep something of each lane.
        """
        super().__init__()
        self.module_id, self.policy = module_id, policy
        self.module: Module = policy.module
        self.exploration = policy.exploration_of(place)
        if isinstance(self.exploration, ParameterNoise):
            raise ConfigError(
                f"the policy {module_id!r} explores by ParameterNoise, which perturbs parameters for the episodes of "
                "an environment with one agent, stepped here: take another exploration_config where there are several "
                "agents, or where the environment makes the steps"
            )
        self.steps = AgentSteps()
        self._env_to_module = policy.make_env_to_module(learns=False)
        self._module_to_env = policy.make_module_to_env()
        _require_no_memory(module_id, self._env_to_module.connectors)
        filters = any(isinstance(each, RunningNormalizer) for each in self._env_to_module.connectors)
        self._observed = ObservedRows() if filters and policy.learns else None
        explores = not isinstance(self.exploration, NoExploration)
        self._nn = NumpyOps(row_block=ROW_BLOCK)
        self.vector = np.zeros(self.module.table.size, np.float32)
        """The parameters that it acts with."""
        self.statistics: Statistics = {}
        """The statistics of the filter, under its name among the connectors of all modules."""
        self._parameters = self.module.table.views(self.vector)
        self._forward = self.module.explore if explores else self.module.infer
        self._noise = LaneNoise(self.exploration.noise, f"explore {module_id}", seed)
        width = self.module.noise_width if explores else 0
        self._module_noise = LaneNoise(Noise("normal", width), f"module {module_id}", seed)
        self._process = self.exploration if isinstance(self.exploration, NoiseProcess) else None
        remembered = self._process.memory() if self._process is not None else {}
        self._made = np.zeros(0, np.int64)
        self._resets = np.zeros(0, bool)
        self._initial_state = self.module.initial_state()
        self._state = {name: np.zeros((0, *first.shape), np.float32) for name, first in self._initial_state.items()}
        self._noise_memory = {name: np.zeros((0, *shape), np.float32) for name, shape in remembered.items()}
        self._seen: dict[int, Struct] = {}
        self._done: dict[int, Done] = {}
        self._early: dict[int, float] = {}
        self._logged = LoggedSteps()
        self._logs_at_once = not self._state and self._process is None
        """Whether steps that were made elsewhere change nothing that the module or its noise remembers."""
        self.records_owners = False
        """Whether steps have the numbers of their episodes and agents, as callbacks need them."""
        self._owners = np.zeros((0, 2), np.int64)

    # -- lanes --------------------------------------------------------------------------------------------------------

    def take(self, copy: int, place: int, agent: Any, slot: int | None = None) -> int:
        """Return the position of a lane whose agent begins an episode, and remembers nothing of any other."""
        position = super().take(copy, place, agent, slot)
        self._resets[position] = True
        for name, memory in self._state.items():
            memory[position] = self._initial_state[name]
        for memory in self._noise_memory.values():
            memory[position] = 0
        return position

    def added(self, position: int) -> None:
        """Make room for what is kept of a lane."""
        self._made = _longer(self._made)
        self._resets = _longer(self._resets)
        self._owners = _longer(self._owners)
        self._state = {name: _longer(memory) for name, memory in self._state.items()}
        self._noise_memory = {name: _longer(memory) for name, memory in self._noise_memory.items()}

    def forget(self) -> None:
        """Take all lanes back, and drop what they have begun."""
        super().forget()
        self.steps.drop_all()
        self._seen.clear()
        self._done.clear()
        self._early.clear()
        self._logged.take()
        if self._observed is not None:
            self._observed.forget()

    def own(self, position: int, episode_id: int, agent_index: int) -> None:
        """Let the steps of a lane be those of an episode and of an agent, by their numbers."""
        self._owners[position] = episode_id, agent_index

    # -- steps --------------------------------------------------------------------------------------------------------

    def observe(self, position: int, seen: Struct, done: Done | None = None) -> None:
        """Let the agent of a lane act next, on what it sees.

        Args:
            position: The position of the lane.
            seen: The observation of the agent.
            done: The action that the agent has taken itself; None if the module chooses.
        """
        if done is not None and self._logs_at_once and (done.outputs is not None or not self.exploration.keeps):
            self._log(position, seen, done)
            return
        self._seen[position] = seen
        if done is not None:
            self._done[position] = done

    def reward(self, position: int, reward: float) -> None:
        """Add to what the agent's step has brought."""
        self.steps.reward(position, reward)

    def early(self, position: int, reward: float) -> None:
        """Let the first step of the agent have brought this already."""
        if reward:
            self._early[position] = reward

    def end(self, position: int, fate: int, final: Struct | None) -> None:
        """Write that the agent's step is over; see `AgentSteps.end`."""
        if fate != DONE and final is None:
            self._write_logged()
        self.steps.end(position, fate, None if final is None else self._rows([final])[0])

    def act(self, timestep: int) -> list[tuple[tuple[int, Any], Any]]:
        """Choose for all agents that see something; return the owner of each lane, and its action.

        Args:
            timestep: The number of steps that all copies of the environment have made; explorations go by it.
        """
        if not self._seen:
            return []
        self._write_logged()
        places = list(self._seen)
        positions, count = np.array(places), len(places)
        seen = stacked(list(self._seen.values()))
        block = self.module.row_block
        obs = _padded(self._env_to_module(seen), block)
        self._seen = {}
        numbers, made = np.array(self.numbers)[positions], self._made[positions]
        if self._observed is not None:
            self._observed.add(numbers, self._env_to_module.preprocessor.rows(seen))
        state = {name: memory[positions] for name, memory in self._state.items()}
        inputs: dict[str, Any] = {columns.OBS: obs}
        if state:
            inputs[columns.STATE_IN] = {name: _padded(memory, block) for name, memory in state.items()}
        if self._module_noise.width:
            inputs[columns.NOISE] = _padded(self._module_noise.rows(positions, numbers, made), block)
        outputs = self._forward(self._nn, self._parameters, inputs)
        kept = {name: value[:count] for name, value in outputs.items() if name != columns.STATE_OUT}
        noise = self._noise.rows(positions, numbers, made)
        if self._process is not None:
            memory = {name: value[positions] for name, value in self._noise_memory.items()}
            noise = self._process.advance(memory, noise, timestep)
            for name, value in memory.items():
                self._noise_memory[name][positions] = value
        actions = self.exploration.choose(self._nn, kept, noise, timestep)
        if self._done:
            kept = {name: np.array(value) if name in self.exploration.keeps else value for name, value in kept.items()}
            actions = self._as_done(places, np.array(actions), kept)
        chosen = {columns.OBS: obs[:count], columns.ACTIONS: np.asarray(actions)}
        chosen |= {name: kept[name] for name in self.exploration.keeps}
        if self.records_owners:
            chosen[columns.EPS_ID], chosen[columns.AGENT_INDEX] = self._owners[positions].T
        if state:
            chosen[columns.RESETS] = self._resets[positions]
            for name, value in outputs[columns.STATE_OUT].items():
                self._state[name][positions] = value[:count]
        self.steps.begin(places, chosen, state)
        for position in [each for each in places if each in self._early]:
            self.steps.reward(position, self._early.pop(position))
        self._made[positions] += 1
        self._resets[positions] = False
        done = nested.unstack(self.policy.action_space, self._module_to_env(actions))
        return [(self.owners[position], action) for position, action in zip(places, done, strict=True)]

    def _log(self, position: int, seen: Struct, done: Done) -> None:
        """Let the agent of a lane have made a step elsewhere. No forward pass is made for it."""
        owner = int(self._owners[position, 0]), int(self._owners[position, 1])
        self._logged.add(LoggedStep(self.numbers[position], seen, done, owner))
        self.steps.open(position)
        if position in self._early:
            self.steps.reward(position, self._early.pop(position))
        self._made[position] += 1
        self._resets[position] = False

    def _write_logged(self) -> None:
        """Write what was seen and done in the steps that were made elsewhere."""
        steps = self._logged.take()
        if not steps:
            return
        seen = stacked([step.seen for step in steps])
        if self._observed is not None:
            self._observed.add(np.array([step.number for step in steps]), self._env_to_module.preprocessor.rows(seen))
        chosen = {
            columns.OBS: self._env_to_module(seen),
            columns.ACTIONS: self.policy.choices_of(stacked([step.done.action for step in steps])),
        }
        chosen |= {name: outputs_of(steps, name) for name in self.exploration.keeps}
        if self.records_owners:
            chosen[columns.EPS_ID], chosen[columns.AGENT_INDEX] = np.array([step.owner for step in steps], np.int64).T
        self.steps.write(chosen, {})

    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes, for one row, of the outputs of the module that steps keep, by their names."""
        block = self.module.row_block
        inputs: dict[str, Any] = {
            columns.OBS: np.zeros((block, *self._env_to_module.shape), self._env_to_module.dtype),
            columns.STATE_IN: {name: np.stack([first] * block) for name, first in self._initial_state.items()},
            columns.NOISE: np.zeros((block, self._module_noise.width), np.float32),
        }
        outputs = self._forward(self._nn, self._parameters, inputs)
        return {name: outputs[name].shape[1:] for name in self.exploration.keeps}

    def _as_done(self, places: Sequence[int], actions: Array, outputs: dict[str, Array]) -> Array:
        """Return the choices [N, ...] of the lanes at these positions, with what was done in place of some.

        What a module put out elsewhere is written into `outputs`, arrays [N, ...] by name.
        """
        for row, position in enumerate(places):
            done = self._done.pop(position, None)
            if done is None:
                continue
            actions[row] = self.policy.choices_of(nested.mapped(lambda value: value[None], done.action))[0]
            for name in self.exploration.keeps if done.outputs is not None else ():
                outputs[name][row] = done.outputs[name]  # type: ignore[index]
        return actions

    def fragment(self, version: int) -> Fragment | None:
        """Return the steps that are over since this was last asked, as a fragment; None if there are none."""
        self._write_logged()
        last_obs = np.zeros((len(self.numbers), *self._env_to_module.shape), self._env_to_module.dtype)
        if self._seen:
            last_obs[list(self._seen)] = self._rows(list(self._seen.values()))
        return self.steps.take(
            np.array(self.numbers, np.int64),
            last_obs,
            recorded=lambda chosen: self.exploration.recorded(self._nn, chosen),
            clip_rewards=self.policy.clip_rewards,
            version=version,
        )

    def take_learned(self) -> Statistics:
        """Return what the filter learned of each lane since this was last asked; nothing where it does not learn."""
        self._write_logged()
        learned = None if self._observed is None else self._observed.take()
        return {} if learned is None else named_for(self.module_id, learned)

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let the filter work with what it has learned of all lanes, among the statistics of all modules."""
        self._write_logged()
        self.statistics = of_policies(statistics, [self.module_id])
        self._env_to_module.set_statistics(of_policy(statistics, self.module_id))

    def evaluate(self, function: Any) -> Any:
        """Return `function(nn, parameters)` with the parameters that it acts with."""
        return function(self._nn, self._parameters)

    @property
    def parameters(self) -> Parameters:
        """The parameters that it acts with, by their names."""
        return self._parameters

    # -- keeping ------------------------------------------------------------------------------------------------------

    def lane_state(self, position: int) -> dict[str, Any]:
        """Return all that the lane at this position needs to go on elsewhere."""
        self._write_logged()
        return {
            "made": int(self._made[position]),
            "reset": bool(self._resets[position]),
            "memory": {name: value[position].copy() for name, value in self._state.items()},
            "noise": {name: value[position].copy() for name, value in self._noise_memory.items()},
            "step": self.steps.open_of(position),
            "early": self._early.get(position, 0.0),
        }

    def set_lane_state(self, position: int, state: Mapping[str, Any]) -> None:
        """Go on with what `lane_state` returned."""
        self._write_logged()
        self._made[position], self._resets[position] = int(state["made"]), bool(state["reset"])
        for name, value in state.get("memory", {}).items():
            self._state[name][position] = value
        for name, value in state.get("noise", {}).items():
            self._noise_memory[name][position] = value
        self.steps.set_open(position, self._with_owner(position, state.get("step", {})))
        self.early(position, float(state["early"]))

    def _with_owner(self, position: int, step: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state of an open step with the columns that steps have here, from any runner."""
        if not step:
            return step
        numbers = dict(zip((columns.EPS_ID, columns.AGENT_INDEX), self._owners[position], strict=True))
        kept = {name: value for name, value in step["columns"].items() if name not in numbers}
        return {**step, "columns": {**kept, **(numbers if self.records_owners else {})}}

    @staticmethod
    def counts_of(state: Mapping[str, Any]) -> dict[str, Any]:
        """Return of the state of a lane what stays true of it where its episode does not go on."""
        return {"made": state["made"], "reset": True, "early": 0.0}

    def seen_by(self, position: int) -> Struct | None:
        """Return what the agent of a lane is to act on next; None if it waits."""
        return self._seen.get(position)

    def _rows(self, seen: list[Struct]) -> Array:
        return self._env_to_module(stacked(seen))


def _require_no_memory(module_id: str, connectors: Sequence[ObservationConnector]) -> None:
    """Raise ConfigError for connectors that keep something of each lane, as agents share lanes."""
    wrong = [
        connector.title()
        for place, connector in enumerate(connectors)
        if not isinstance(connector, (RowFunction, RowFilter))
        and not (isinstance(connector, RunningNormalizer) and place == 0 and connector.is_synchronised)
    ]
    if wrong:
        raise ConfigError(
            f"the policy {module_id!r} has observations pass through {', '.join(wrong)}, which keeps something of each "
            "lane, and agents of an environment with several share lanes: do that in the environment. What can be had "
            "are functions of rows, and observation_filter='MeanStdFilter' with update_worker_filter_stats=True"
        )


def _longer(memory: Array) -> Array:
    return np.concatenate([memory, np.zeros((1, *memory.shape[1:]), memory.dtype)])


def _padded(rows: Array, block: int) -> Array:
    """Return rows filled up to a multiple of the block, so that each is computed alike in any company."""
    missing = -len(rows) % block
    return np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)]) if missing else rows
