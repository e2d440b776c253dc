"""The policies of a worker without an algorithm: one for its only agent, or several, of which each agent has one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.atari import is_atari
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.external import is_external
from kernel_rllib.envs.multi_agent import is_multi_agent
from kernel_rllib.envs.spaces_of import space_of
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.first_generation.policy_trainer import exploration_of, policy_and_module, require_policy_class
from kernel_rllib.first_generation.torch_policy import TorchPolicy
from kernel_rllib.policy.worker import batch_of
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.multi_agent_episode import MultiAgentEpisode
from kernel_rllib.runners.multi_agent_sampler import MultiAgentSampler
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.training.multi_agent import multi_agent_blueprint_of, spaces_of_policy
from kernel_rllib.training.parts import blueprint_of, env_maker_of, policy_blueprint_of

_EPISODE, _AGENT = "_episode", "_agent"
"""The names of the columns of owners, while steps are put into pieces."""


@dataclass(frozen=True)
class _Piece:
    """The steps of one agent in one episode of a sample."""

    policy_id: str
    episode: MultiAgentEpisode
    agent: Any
    batch: Batch


class WorkerPolicies:
    """Policies by their ids, and the blueprint of the sampler in which they act.

    Attributes:
        policies: The policies.
        blueprint: Makes the sampler.
    """

    def __init__(
        self, policies: Mapping[str, Any], blueprint: Blueprint | MultiAgentBlueprint, episodes: Episodes | None = None
    ) -> None:
        """Take them; `episodes` are those that agents are in, where there are several."""
        self.policies, self.blueprint, self._episodes = dict(policies), blueprint, episodes

    def acts_in(self, runner: EnvRunner) -> None:
        """Let a runner that was just made tell whose steps it samples, where there are several agents."""
        if self._episodes is not None:
            cast(MultiAgentSampler, runner.sampler).keep_owners()

    @property
    def vector(self) -> Array:
        """The parameters of all policies in torch, one after another; others act by themselves."""
        found = [policy.vector for policy in self.policies.values() if isinstance(policy, TorchPolicy)]
        return np.concatenate(found) if found else np.zeros(0, np.float32)

    def postprocessed(self, sample: Sample, runner: EnvRunner) -> Batch | MultiAgentBatch:
        """Return a sample of a runner as policies have postprocessed it, one piece of an episode after another."""
        if self._episodes is None:
            policy, batch = self.policies[DEFAULT_POLICY_ID], batch_of(sample.fragments[DEFAULT_POLICY_ID])
            return _joined([policy.postprocess_trajectory(piece, {}, None) for piece in batch.split_by_episode()])
        found = [piece for name, fragment in sample.fragments.items() for piece in self._pieces(name, fragment)]
        together: dict[int, dict[Any, tuple[Any, Batch]]] = {}
        for piece in found:
            pair = (self.policies[piece.policy_id], piece.batch.copy())
            together.setdefault(piece.episode.episode_id, {})[piece.agent] = pair
        done: dict[str, list[Batch]] = {}
        for piece in found:
            others = {who: pair for who, pair in together[piece.episode.episode_id].items() if who != piece.agent}
            policy = self.policies[piece.policy_id]
            done.setdefault(piece.policy_id, []).append(
                policy.postprocess_trajectory(piece.batch, others, piece.episode)
            )
        self._episodes.keep_only(cast(MultiAgentSampler, runner.sampler).episodes)
        batches = {policy_id: _joined(pieces) for policy_id, pieces in done.items()}
        return MultiAgentBatch.wrap_as_needed(batches, sample.env_steps)

    def _pieces(self, policy_id: str, fragment: Fragment) -> Iterator[_Piece]:
        assert self._episodes is not None
        owners = {_EPISODE: fragment.columns.pop(columns.EPS_ID), _AGENT: fragment.columns.pop(columns.AGENT_INDEX)}
        for batch in batch_of(replace(fragment, columns={**fragment.columns, **owners})).split_by_episode():
            episode, index = self._episodes[int(batch.pop(_EPISODE)[0])], int(batch.pop(_AGENT)[0])
            batch[columns.AGENT_INDEX] = np.full(batch.count, index, np.int64)
            yield _Piece(policy_id, episode, episode.agent_ids[index], batch)


class Episodes:
    """Asks a function for the policies of agents, and keeps the episodes that these are in."""

    def __init__(self, policy_of: Callable[[Any, Any, Any], Any]) -> None:
        """Ask this function."""
        self._policy_of = policy_of
        self._known: dict[int, MultiAgentEpisode] = {}

    def __call__(self, agent: Any, episode: MultiAgentEpisode | None, worker: Any) -> Any:
        """Return the policy of an agent."""
        if episode is not None:
            self._known[episode.episode_id] = episode
        return self._policy_of(agent, episode, worker)

    def __getitem__(self, number: int) -> MultiAgentEpisode:
        return self._known[number]

    def keep_only(self, going: Collection[MultiAgentEpisode]) -> None:
        """Forget all episodes but these."""
        self._known = {episode.episode_id: episode for episode in going}


def worker_policies(config: AlgorithmConfig, specs: Mapping[str, PolicySpec], seed: int) -> WorkerPolicies:
    """Return the policies of a worker.

    Args:
        config: The settings. `is_atari` is set, where nothing says it: a function that makes an environment has no name
            that tells so, what it makes does.
        specs: The policies by their ids; only the default one for an environment of one agent.
        seed: The seed of all random numbers.

    Raises:
        ConfigError: If a class is no policy, nothing says the spaces of one, or there is no default policy for the only
            agent.
        EnvError: If the environment can't be made.
    """
    said = config.is_atari
    config.is_atari = True if said is None else said  # Without the screen of such a game, it is made as it is.
    env = env_maker_of(config)(EnvContext(config.env_config))
    try:
        if said is None:
            config.is_atari = is_atari(getattr(env, "unwrapped", env))
        if is_external(env):
            raise EnvError(
                f"{type(env).__name__} is an external environment, and a RolloutWorker steps its own: train with an "
                "algorithm, whose runners answer it"
            )
        if is_multi_agent(env):
            return _of_several_agents(config, specs, env, seed)
        return _of_one_agent(config, specs, env, seed)
    finally:
        close = getattr(env, "close", None)
        if close is not None:
            close()


def _of_one_agent(config: AlgorithmConfig, specs: Mapping[str, PolicySpec], env: Any, seed: int) -> WorkerPolicies:
    if list(specs) != [DEFAULT_POLICY_ID]:
        raise ConfigError(
            f"RolloutWorker was given the policies {', '.join(map(repr, specs))} for an environment of one agent, "
            f"{type(env).__name__}: give one class of policies, or an environment derived from MultiAgentEnv"
        )
    spec = specs[DEFAULT_POLICY_ID]
    whole = PolicySpec(
        spec.policy_class,
        spec.observation_space or config.observation_space or space_of(env, "observation_space"),
        spec.action_space or config.action_space or space_of(env, "action_space"),
        spec.config,
    )
    policy, acting = _policy(config, DEFAULT_POLICY_ID, whole, seed)
    return WorkerPolicies({DEFAULT_POLICY_ID: policy}, blueprint_of(config, acting, seed))


def _of_several_agents(config: AlgorithmConfig, specs: Mapping[str, PolicySpec], env: Any, seed: int) -> WorkerPolicies:
    config.multi_agent(policies=dict(specs))
    policies: dict[str, Any] = {}
    acting: dict[str, PolicyBlueprint] = {}
    for number, (policy_id, spec) in enumerate(config.get_multi_agent_setup(env=env)[0].items()):
        own = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
        policies[policy_id], acting[policy_id] = _policy(config, policy_id, spec, own)
    blueprint = multi_agent_blueprint_of(config, acting, seed)
    episodes = Episodes(blueprint.policy_of)
    return WorkerPolicies(policies, replace(blueprint, policy_of=episodes), episodes)


def _policy(config: AlgorithmConfig, policy_id: str, spec: PolicySpec, seed: int) -> tuple[Any, PolicyBlueprint]:
    """Return a policy, and what it is made by where it acts."""
    owner = "RolloutWorker" if policy_id == DEFAULT_POLICY_ID else f"RolloutWorker, for {policy_id!r},"
    chosen = require_policy_class(spec.policy_class, owner)
    settings = {**config.to_dict("0.8.5"), "seed": seed, **(spec.config or {})}
    policy, module = policy_and_module(chosen, spec.observation_space, spec.action_space, settings)
    return policy, policy_blueprint_of(config, spaces_of_policy(spec), module, exploration_of(policy))


def _joined(pieces: list[Batch]) -> Batch:
    joined = concatenated(pieces)
    assert isinstance(joined, Batch)
    return joined
