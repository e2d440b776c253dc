"""Lanes whose steps are read, where others step environments. Each lane has a reader of its own.

So the same lanes read the same steps, whether one process reads for all of them or several do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.envs.external import ExternalLanes, ExternalMultiAgentEnv, is_external
from kernel_rllib.errors import DataError
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops
from kernel_rllib.offline.action_rows import RecordedActions
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.inputs import close_reader, set_state_of, state_of
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.rows import fragment_of
from kernel_rllib.offline.sampler_input import Recorder, SamplerInput
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.contract import Collected, LaneSampler
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint


class NoEnvs:
    """The environments of who only reads."""

    num_lanes = 0

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return nothing: there are none."""
        return []

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class RecordedPolicy:
    """Holds the requirements on recorded steps of one policy.

    Attributes:
        shape: The shape of one observation, as modules take it.
        dtype: The dtype of observations.
        actions: Turns recorded actions into those of the policy.
        needed: Further columns that are learned from.
        states: The state of a recurrent module where an episode begins.
        clip_rewards: Computes the rewards of learning from the recorded ones; None: the same.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    actions: RecordedActions
    needed: tuple[str, ...] = ()
    states: Mapping[str, Array] = field(default_factory=dict)
    clip_rewards: Callable[[Array], Array] | None = None

    @classmethod
    def of_blueprint(cls, policy: PolicyBlueprint, needed: Sequence[str]) -> RecordedPolicy:
        """Return what the steps of a policy have to be like that is made by a blueprint."""
        made = policy.make_env_to_module(learns=False)
        actions = RecordedActions(policy.action_space, unsquashes=policy.actions.unsquash)
        states = policy.module.initial_state()
        return cls(made.shape, np.dtype(made.dtype), actions, tuple(needed), states, policy.clip_rewards)

    def fragment(self, batch: Batch, lane: int, *, is_normalised: bool) -> Fragment:
        """Return rows as what one lane did. Raises DataError where they are other than the policy's."""
        given = Batch(batch)
        given[columns.ACTIONS] = self.actions.of_file(batch[columns.ACTIONS], is_normalised=is_normalised)
        for name in (columns.OBS, columns.NEXT_OBS):
            if name in given:
                given[name] = self._observations(name, given[name])
        if self.clip_rewards is not None:
            given[columns.REWARDS] = self.clip_rewards(given[columns.REWARDS])
        return fragment_of(given, lane, needed=self.needed, states=self.states)

    def _observations(self, name: str, rows: Array) -> Array:
        count = len(rows)
        if rows.dtype.hasobject or rows.size != count * int(np.prod(self.shape)):
            raise DataError(
                f"the recorded column {name!r} has rows of shape {list(rows.shape[1:])}, and the policy takes "
                f"{list(self.shape)}: write observations as a preprocessor makes them, "
                "get_preprocessor(space)(space).transform(observation), of the same environment"
            )
        return np.asarray(rows.reshape(count, *self.shape), self.dtype)


@dataclass(frozen=True)
class RecordedBlueprint:
    """Makes the lanes of a runner that reads. It is sent to where that runs.

    Attributes:
        acting: Makes what steps environments, for sources that ask for it.
        policies: The requirements on the steps of each policy, by its id.
        make_reader: Makes the reader of a lane, given where it is.
        config: The settings, for readers of the user's own.
        is_normalised: Whether recorded actions of boxes are from -1 to 1.
        log_dir: The directory of the run's results.
        fragment_length: The number of steps of a batch that is made in an environment.
    """

    acting: Blueprint | MultiAgentBlueprint
    policies: Mapping[str, RecordedPolicy]
    make_reader: Callable[[IOContext], InputReader]
    config: Any
    is_normalised: bool
    log_dir: str
    fragment_length: int

    def __call__(self, place: RunnerPlace) -> RecordedLanes | ExternalSampler:
        """Return the lanes of a place, each with a reader; or the sampler of episodes that a policy server brings."""
        lanes = RecordedLanes(self, place)
        for served in lanes.served:
            return self.acting.make_external(ExternalLanes(served), place)
        return lanes


class RecordedLanes:
    """Reads the steps of some lanes."""

    observer: Any = None
    """No callbacks of environments are called."""

    def __init__(self, blueprint: RecordedBlueprint, place: RunnerPlace) -> None:
        """Make the readers.

        Args:
            blueprint: The blueprint of the lanes that they read for.
            place: The place of the runner: its number and its lanes.
        """
        self._blueprint, self.place = blueprint, place
        self.lanes = np.asarray(place.lanes, np.int64)
        self.weights_version = -1
        self._weights: tuple[Array, int] | None = None
        self._samplers: list[LaneSampler] = []
        self._readers = [self._reader(lane) for lane in place.lanes]

    @property
    def envs(self) -> NoEnvs:
        """The environments: none that others may step."""
        return NoEnvs()

    @property
    def served(self) -> list[ExternalMultiAgentEnv]:
        """The readers that read nothing, as they serve a policy to those who play episodes."""
        return [reader for reader in self._readers if isinstance(reader, ExternalMultiAgentEnv)]

    @property
    def exploration(self) -> Any:
        """The exploration of the policy."""
        return self._policy.exploration

    @property
    def module(self) -> Any:
        """The module of the policy."""
        return self._policy.module

    @property
    def weights(self) -> Array:
        """The parameters that it was given last [size]."""
        return np.zeros(self.module.table.size, np.float32) if self._weights is None else self._weights[0]

    def evaluate(self, function: Callable[[Ops, Any], Any]) -> Any:
        """Return `function(nn, parameters)` with the parameters that it was given last."""
        return function(NumpyOps(), self.module.table.views(self.weights))

    @property
    def _policy(self) -> PolicyBlueprint:
        assert isinstance(self._blueprint.acting, PolicyBlueprint)
        return self._blueprint.acting

    def attach(self, runner: Any) -> None:
        """Show readers that step environments the runner that they are in."""
        for sampler in self._samplers:
            sampler.attach(runner)

    def collect(self, steps: int) -> Collected:
        """Read batches for each lane until it has so many steps of its environment, or more."""
        by_policy: dict[str, list[Fragment]] = {}
        env_steps = agent_steps = 0
        for lane, reader in zip(self.place.lanes, self._readers, strict=True):
            batches: dict[str, list[Batch]] = {}
            read = 0
            while read < steps:
                found = reader.next()
                read += found.count if isinstance(found, MultiAgentBatch) else Batch(found).count
                for policy_id, batch in self._by_policy(found).items():
                    batches.setdefault(policy_id, []).append(batch)
            env_steps += read
            for policy_id, parts in batches.items():
                fragment = self._fragment(policy_id, parts, lane)
                agent_steps += fragment.steps
                by_policy.setdefault(policy_id, []).append(fragment)
        fragments = {policy_id: joined(parts) for policy_id, parts in by_policy.items()}
        return Collected(fragments, env_steps=env_steps, agent_steps=agent_steps)

    def sample(self, steps: int) -> Any:
        """Return what is read as one fragment, of the only policy."""
        (found,) = self.collect(steps).fragments.values()
        return found

    def begin(self, *occasion: int) -> None:
        """Let readers that step environments begin new episodes."""
        for sampler in self._samplers:
            sampler.begin(*occasion)

    def set_weights(self, vector: Array, version: int) -> None:
        """Let those act with these parameters [size] that step environments."""
        self._weights, self.weights_version = (vector.copy(), version), version
        for sampler in self._samplers:
            sampler.set_weights(vector, version)

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended in environments since this was last asked; recorded ones are not counted."""
        found = [episode for sampler in self._samplers for episode in sampler.take_episodes()]
        for reader in self._readers:
            if hasattr(reader, "take_episodes"):
                found += reader.take_episodes()
        return found

    def take_learned(self) -> dict[str, Moments]:
        """Return what connectors learned: nothing, as recorded observations have passed through some before."""
        return {}

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let connectors work with what was learned."""
        for sampler in self._samplers:
            sampler.set_statistics(statistics)

    def state(self) -> dict[str, Any]:
        """Return where the readers are, of those that tell it, by lane."""
        lanes = zip(self.place.lanes, self._readers, strict=True)
        return {"lanes": {str(lane): {"reader": state_of(reader)} for lane, reader in lanes}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        for lane, reader in zip(self.place.lanes, self._readers, strict=True):
            set_state_of(reader, state["lanes"].get(str(lane), {}).get("reader", {}))

    def close(self) -> None:
        """Let files and environments go."""
        for reader in self._readers:
            close_reader(reader)

    def _reader(self, lane: int) -> InputReader:
        blueprint = self._blueprint
        seed = _seed(blueprint.acting.seed, lane, self.place.incarnation)

        def sampler_input() -> InputReader:
            alone = RunnerPlace(
                self.place.index, (lane,), self.place.runners, self.place.all_lanes,
                self.place.incarnation, self.place.steps_before,
            )  # fmt: skip
            sampler: LaneSampler = blueprint.acting(alone)
            if self._weights is not None:
                sampler.set_weights(*self._weights)
            self._samplers.append(sampler)
            actions = {policy_id: policy.actions for policy_id, policy in blueprint.policies.items()}
            return SamplerInput(sampler, Recorder(actions, seed), blueprint.fragment_length)

        context = IOContext(
            blueprint.log_dir,
            blueprint.config,
            self.place.index,
            seed=seed,
            make_sampler_input=sampler_input,
        )
        reader = blueprint.make_reader(context)
        if not callable(getattr(reader, "next", None)) and not is_external(reader):
            raise DataError(
                f"the function that input_ names returned {reader!r:.80}, and not an InputReader: an object with next()"
            )
        return reader

    def _by_policy(self, found: Any) -> dict[str, Batch]:
        """Return a batch by policies. Raises DataError if it has others than there are."""
        known = self._blueprint.policies
        if not isinstance(found, MultiAgentBatch):
            if len(known) > 1 and DEFAULT_POLICY_ID not in known:
                raise DataError(
                    f"a recorded batch is of one policy, and there are {', '.join(known)}: read batches of type "
                    "MultiAgentBatch, with one batch for each"
                )
            return {DEFAULT_POLICY_ID if DEFAULT_POLICY_ID in known else next(iter(known)): Batch(found)}
        unknown = [policy_id for policy_id in found.policy_batches if policy_id not in known]
        if unknown:
            raise DataError(
                f"a recorded batch has steps of {', '.join(unknown)}, and the policies are {', '.join(known)}: name "
                "them alike in multi_agent(policies=...)"
            )
        return {policy_id: batch for policy_id, batch in found.policy_batches.items() if batch.count}

    def _fragment(self, policy_id: str, parts: Sequence[Batch], lane: int) -> Fragment:
        policy, is_normalised = self._blueprint.policies[policy_id], self._blueprint.is_normalised
        made = [policy.fragment(part, lane, is_normalised=is_normalised) for part in parts]
        fragment = made[0] if len(made) == 1 else _one_after_another(made)
        fragment.weights_version = self.weights_version
        return fragment


def _one_after_another(parts: Sequence[Fragment]) -> Fragment:
    """Return fragments of one lane, each of which ends with an end or a cut, as one."""
    offsets = np.cumsum([0, *(part.shape[0] for part in parts[:-1])])
    ends = [part.final_at + np.array([offset, 0]) for part, offset in zip(parts, offsets, strict=True)]
    return Fragment(
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
        last_obs=parts[-1].last_obs,
        final_at=np.concatenate(ends),
        final_obs=np.concatenate([part.final_obs for part in parts]),
        lanes=parts[0].lanes,
        state_in={name: np.concatenate([part.state_in[name] for part in parts]) for name in parts[0].state_in},
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
