"""The loop of one agent's lanes: observe, choose, step, and write all of it into one fragment.

What is constant for a fragment is done once for it: noise is drawn, arrays are made, log-probabilities are computed for
all rows at once. A step is a forward pass over all lanes, a draw, and a call of the environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.observer import RunnerCallbacks
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.connectors.env_to_module import EnvToModule, Previous
from kernel_rllib.connectors.module_to_env import ModuleToEnv
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data import columns
from kernel_rllib.data.fragment import Fragment, followed_by
from kernel_rllib.distributions.distribution import Noise
from kernel_rllib.envs.atari import LIFE_LOST
from kernel_rllib.envs.contract import Step, VectorEnv
from kernel_rllib.exploration.exploration import Exploration, NoExploration, NoiseProcess
from kernel_rllib.exploration.parameter_noise import ParameterNoise
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.products import ROW_BLOCK
from kernel_rllib.runners.contract import Collected
from kernel_rllib.runners.episodes import EpisodeCounts, EpisodeSummary
from kernel_rllib.runners.noise import NoiseAhead
from kernel_rllib.runners.perturbed_lanes import PerturbedLanes
from kernel_rllib.runners.record import Record


class Sampler:
    """Steps lanes of one agent each with a module's choices; returns fragments."""

    chunk: ClassVar[int] = 32
    """The steps of the lanes between two checks whether all of them have ended their last episodes."""

    def __init__(
        self,
        envs: VectorEnv,
        lanes: Sequence[int],
        *,
        module: Module,
        exploration: Exploration,
        env_to_module: EnvToModule,
        module_to_env: ModuleToEnv,
        seed: int,
        all_lanes: int | None = None,
        incarnation: int = 0,
        steps_before: int = 0,
        complete_episodes: bool = False,
        observer: RunnerCallbacks | None = None,
        clip_rewards: Callable[[Array], Array] | None = None,
        told: Sequence[str] = (),
    ) -> None:
        """Take the environments and the modules that act in them, and reset the environments.

        Args:
            envs: The environments, as many as `lanes` has numbers.
            lanes: The number of each lane among all lanes of the run.
            module: The module that acts. Its parameters come by `set_weights`.
            exploration: The exploration, which chooses actions from the module's outputs.
            env_to_module: The connectors from observations to inputs of the module.
            module_to_env: The connectors from chosen actions to those of the environment.
            seed: The seed of the run.
            all_lanes: The number of lanes of the run; None if these are all. Explorations count the steps of all.
            incarnation: The number of runners that died in this place before; environments get other seeds then.
            steps_before: The number of steps that these lanes have made before.
            complete_episodes: Whether samples are to be of whole episodes; see `sample_episodes`.
            observer: The object that calls the user's callbacks; None without callbacks.
            clip_rewards: Gives the rewards [L] that are learned from for those of the environment; None: the same.
            told: The numbers that environments tell in their infos which become columns; nan where they tell none.
        """
        self.lanes = np.asarray(lanes, np.int64)
        self.exploration = exploration
        self.episodes = EpisodeCounts(self.lanes)
        self.complete_episodes = complete_episodes
        self.observer = observer
        self.weights_version = -1
        self._envs, self._module = envs, module
        self._env_to_module, self._module_to_env = env_to_module, module_to_env
        self._seed = seed
        self._clip_rewards, self._told = clip_rewards, tuple(told)
        self._kept: Array | None = None
        self._all_lanes = all_lanes or len(self.lanes)
        self._steps_before = np.full(len(self.lanes), steps_before, np.int64)
        self._nn = NumpyOps(row_block=ROW_BLOCK)
        self._vector = np.zeros(module.table.size, np.float32)
        self._parameters = module.table.views(self._vector)
        count = len(self.lanes)
        rows = -(-count // module.row_block) * module.row_block
        self._obs = np.zeros((rows, *env_to_module.shape), env_to_module.dtype)
        self._initial_state = module.initial_state()
        self._state = {name: np.repeat(first[None], rows, axis=0) for name, first in self._initial_state.items()}
        self._process = exploration if isinstance(exploration, NoiseProcess) else None
        remembered = self._process.memory() if self._process is not None else {}
        self._noise_memory = {name: np.zeros((count, *shape), np.float32) for name, shape in remembered.items()}
        self._resets = np.ones(count, bool)
        explores = not isinstance(exploration, NoExploration)
        self._forward = module.explore if explores else module.infer
        self._perturbed: PerturbedLanes | None = None
        if isinstance(exploration, ParameterNoise):
            self._perturbed = PerturbedLanes(exploration, module, self._nn, seed, self.lanes)
        self._noise = NoiseAhead(exploration.noise, "explore", seed, self.lanes)
        width = module.noise_width if explores else 0
        self._module_noise = NoiseAhead(Noise("normal", width), "module", seed, self.lanes)
        self._noise_rows = np.zeros((rows, width), np.float32)
        self._incarnation = incarnation
        self._is_torn = False
        self.begin(incarnation)

    def begin(self, *occasion: int) -> None:
        """Begin new episodes in all lanes; for the same occasion they are the same ones each time."""
        self._begin([(*occasion,)] * len(self.lanes))

    def _begin(self, occasions: Sequence[tuple[int, ...]]) -> None:
        """Begin new episodes in all lanes, each for an occasion of its own."""
        places = zip(self.lanes.tolist(), occasions, strict=True)
        seeds = [np.random.SeedSequence((self._seed, lane, *occasion)) for lane, occasion in places]
        observed = self._envs.reset([int(seed.generate_state(1)[0]) for seed in seeds])
        self._is_torn = False
        self._obs[: len(self.lanes)] = self._env_to_module(observed)
        if self.observer is not None:
            self.observer.begin(observed, self._envs.reset_infos)
        self._resets[:] = True
        for position in range(len(self.lanes)):
            self.episodes.drop(position)
        self._forget(slice(None))

    def _forget(self, positions: Any) -> None:
        """Let lanes remember what they do when an episode begins."""
        for name, memory in self._state.items():
            memory[positions] = self._initial_state[name]
        for memory in self._noise_memory.values():
            memory[positions] = 0
        if self._perturbed is not None:
            self._perturbed.begin(positions)

    def attach(self, runner: Any) -> None:
        """Show callbacks the runner that they are in."""
        if self.observer is not None:
            self.observer.attach(runner, self._envs, self._module, self._vector)

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters [size] from now on; they are copied."""
        self._vector[...] = vector
        self.weights_version = version
        if self._perturbed is not None:
            self._perturbed.weights_changed()

    @property
    def module(self) -> Module:
        """The module that acts."""
        return self._module

    @property
    def envs(self) -> VectorEnv:
        """The environments of all lanes."""
        return self._envs

    @property
    def weights(self) -> Array:
        """The parameters that it acts with, [size]; they change with the next `set_weights`."""
        return self._vector

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)` with the parameters that it acts with."""
        return function(self._nn, self._parameters)

    def collect(self, steps: int) -> Collected:
        """Step all lanes this many times; to the ends of episodes, where samples are to be of whole ones.

        After an error in a sample, which left some lanes a step ahead, all begin anew; it is as if it had not begun.
        """
        if self._is_torn:
            self.episodes.forget_after(self._steps_before)
            if self.observer is not None:
                self.observer.forget_after(self._steps_before)
            self._begin([(self._incarnation, made) for made in self._steps_before.tolist()])
        self._is_torn = True
        fragment = self.sample_episodes(steps) if self.complete_episodes else self.sample(steps)
        self._is_torn = False
        made, report = fragment.steps, None
        if self.observer is not None:
            self.observer.sampled(fragment)
            report = self.observer.take()
        return Collected({DEFAULT_POLICY_ID: fragment}, env_steps=made, agent_steps=made, report=report)

    @property
    def timestep(self) -> int:
        """The number of steps of all lanes of the run, if the others made as many as these."""
        return int(self._steps_before.mean() * self._all_lanes)

    def sample(self, steps: int) -> Fragment:
        """Step all lanes this many times, and return what happened."""
        noise = self._noise.rows(self._steps_before, steps)
        module_noise = self._module_noise.rows(self._steps_before, steps)
        record = Record(steps, self._obs[: len(self.lanes)], self.exploration.keeps, self._state, self._told)
        made = self.timestep  # explorations count the steps of all lanes
        for t in range(steps):
            self._step(record, t, noise[t], module_noise[t], made + t * self._all_lanes)
        self._steps_before += steps
        return self._fragment(record)

    def sample_episodes(self, least: int) -> Fragment:
        """Begin anew in all lanes, and return whole episodes only: of each lane as many as have `least` steps.

        Lanes go on together until the last one is done. What the others did meanwhile is left out: `valid` says where,
        and it counts neither as steps nor as episodes. So a lane's episodes are the same ones in any company.
        """
        before = self._steps_before.copy()
        self._begin([(self._incarnation, steps) for steps in before.tolist()])
        if self._perturbed is not None:
            self._perturbed.remember()
        made = self.sample(max(least, self.chunk))
        ends = _ends_after(made, least)
        while (ends < 0).any():
            made = followed_by(made, self.sample(self.chunk))
            ends = _ends_after(made, least)
        for position in range(len(self.lanes)):
            self.episodes.drop(position)
        self._steps_before = before + ends
        self._kept = ends
        if self._perturbed is not None:
            self._perturbed.forget_after(ends)
        self.episodes.forget_after(self._steps_before)
        if self.observer is not None:
            self.observer.forget_after(self._steps_before)
        return made.up_to(ends)

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        return self.episodes.take()

    def take_learned(self) -> dict[str, Moments]:
        """Return what connectors learned of each lane since this was last asked, by their names.

        What lanes observed after their last whole episode does not count, where samples are of whole ones.
        """
        return self._env_to_module.take_learned(self._kept)

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let connectors work with what those of all lanes have learned together, by their names."""
        self._env_to_module.set_statistics(statistics)

    def state(self) -> dict[str, Any]:
        """Return all that these lanes need to go on elsewhere, bit for bit, where environments can be copied.

        Returns:
            `lanes`, a state for each by its number.

        Raises:
            EnvError: If an environment can't be copied.
        """
        return {
            "lanes": {str(lane): self._state_of(position) for position, lane in enumerate(self.lanes.tolist())},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of these lanes and perhaps of others.

        Lanes without a state, or whose state has no environment, begin new episodes, as many steps later.
        """
        kept = [state["lanes"].get(str(lane), {}) for lane in self.lanes.tolist()]
        if not all("env" in found for found in kept):
            most = max((int(found["steps_before"]) for found in state["lanes"].values()), default=0)
            self._steps_before[:] = [found.get("steps_before", most) for found in kept]
            self.episodes.forget_after(self._steps_before)
            self._begin([(self._incarnation, steps) for steps in self._steps_before.tolist()])
        for position, found in enumerate(kept):
            if "env" in found:
                self._set_state_of(position, found)
        self._env_to_module.forget_observed()

    def _state_of(self, position: int) -> dict[str, Any]:
        kept: dict[str, Any] = {} if self.observer is None else {"callbacks": self.observer.state(position)}
        if self._perturbed is not None:
            kept["parameter_noise"] = self._perturbed.state(position)
        return {
            **kept,
            "env": self._envs.snapshot(position),
            "obs": self._obs[position].copy(),
            "memory": {name: value[position].copy() for name, value in self._state.items()},
            "noise": {name: value[position].copy() for name, value in self._noise_memory.items()},
            "connectors": self._env_to_module.lane_state(position),
            "reset": bool(self._resets[position]),
            "episode": self.episodes.state(position),
            "steps_before": int(self._steps_before[position]),
        }

    def _set_state_of(self, position: int, state: Mapping[str, Any]) -> None:
        self._envs.restore(position, state["env"])
        self._obs[position] = state["obs"]
        for name, value in state["memory"].items():
            self._state[name][position] = value
        for name, value in state["noise"].items():
            self._noise_memory[name][position] = value
        self._env_to_module.set_lane_state(position, state.get("connectors", {}))
        if self._perturbed is not None and "parameter_noise" in state:
            self._perturbed.set_state(position, state["parameter_noise"])
        self._resets[position] = state["reset"]
        self.episodes.set_state(position, state["episode"])
        self._steps_before[position] = int(state["steps_before"])
        if self.observer is not None:
            self.observer.set_state(position, state.get("callbacks"), self._obs[position].copy())

    def close(self) -> None:
        """Let go of the environments."""
        self._envs.close()

    def _step(self, record: Record, t: int, noise: Array, module_noise: Array, timestep: int) -> None:
        count = len(self.lanes)
        inputs: dict[str, Any] = {columns.OBS: self._obs}
        if self._state:
            inputs[columns.STATE_IN] = self._state
        if module_noise.size:
            self._noise_rows[:count] = module_noise
            inputs[columns.NOISE] = self._noise_rows
        if self._perturbed is None:
            outputs = self.outputs_for(inputs, noise)
        else:
            own = self._vector, self._parameters
            outputs = self._perturbed.outputs(self._forward, own, inputs, self._steps_before + t)
        kept = {name: value[:count] for name, value in outputs.items() if name != columns.STATE_OUT}
        if self._process is not None:
            noise = self._process.advance(self._noise_memory, noise, timestep)
        actions = self.exploration.choose(self._nn, kept, noise, timestep)
        record.before(t, self._obs[:count], actions, kept, self._state, self._resets)
        env_actions = self._module_to_env(actions)
        step = self._envs.step(env_actions)
        rewards = step.rewards if self._clip_rewards is None else self._clip_rewards(step.rewards)
        record.after(t, step, rewards)
        if self._perturbed is not None and step.final_obs:
            self._perturbed.end(sorted(step.final_obs), timestep)
        self._advance(record, t, step, outputs, Previous(actions, rewards, self._resets))
        if self.observer is not None:
            self.observer.step(env_actions, step, self._steps_before + (t + 1))

    def outputs_for(self, inputs: Mapping[str, Any], noise: Array) -> Mapping[str, Any]:
        """Return what actions are chosen by, for all rows of `inputs`; by default what the module gives.

        Args:
            inputs: The inputs of the module, arrays [L, ...] by name.
            noise: The noise of exploring in this step [L, width].
        """
        return self._forward(self._nn, self._parameters, inputs)

    def _advance(self, record: Record, t: int, step: Step, outputs: Mapping[str, Any], previous: Previous) -> None:
        """Prepare the state for the next step from the results of this one."""
        count = len(self.lanes)
        self._resets[:] = False
        for name, value in outputs.get(columns.STATE_OUT, {}).items():
            self._state[name][...] = value
        self.episodes.step(step.rewards)
        if step.final_obs:
            ended = sorted(step.final_obs)
            for position in ended:
                record.end(t, position, self._env_to_module.final(step.final_obs[position], position, previous))
                if position in step.faults:
                    self.episodes.drop(position)
            self.episodes.end(p for p in ended if p not in step.faults and LIFE_LOST not in step.infos.get(p, {}))
            self._resets[ended] = True
            self._forget(ended)
        self._obs[:count] = self._env_to_module(step.obs, previous)

    def _fragment(self, record: Record) -> Fragment:
        count = len(self.lanes)
        steps = record.steps
        chosen = {name: array.reshape(steps * count, *array.shape[2:]) for name, array in record.columns.items()}
        for name, column in self.exploration.recorded(self._nn, chosen).items():
            record.columns[name] = column.reshape(steps, count, *column.shape[1:])
        final_at = np.array(record.final_at, np.int64).reshape(-1, 2)
        final_obs = np.array(record.final_obs, self._obs.dtype).reshape(-1, *self._obs.shape[1:])
        return Fragment(
            columns=record.columns,
            last_obs=self._obs[:count].copy(),
            final_at=final_at,
            final_obs=final_obs,
            lanes=self.lanes,
            weights_version=self.weights_version,
            valid=record.valid,
            state_in=record.state_in,
        )


def _ends_after(made: Fragment, least: int) -> Array:
    """Return after how many steps of each lane [L] the first episode ends with which it has `least`; -1 for none."""
    ended = made.columns[columns.TERMINATEDS] | made.columns[columns.TRUNCATEDS]
    if made.valid is not None:
        ended &= made.valid
    ended[: least - 1] = False
    found: Array = np.where(ended.any(axis=0), ended.argmax(axis=0) + 1, -1)
    return found
