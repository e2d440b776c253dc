"""Lanes that search before each step: trees are grown from where their environments are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.exploration.tree_policy import TREE_POLICIES
from kernel_rllib.modules.masked_actor_critic import THRESHOLD, MaskedActorCritic
from kernel_rllib.runners.blueprint import Blueprint, context_of
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.search.searching import SearchSettings, search
from kernel_rllib.search.simulation import EnvSimulator, State, search_env_of, state_of


class SearchingSampler(Sampler):
    """Steps lanes by the policies of trees that are grown before each step."""

    chunk: ClassVar[int] = 4  # A step is dear.
    settings: SearchSettings
    simulator: EnvSimulator

    def begin_searching(self, settings: SearchSettings, env: Any, ranks: bool) -> None:
        """Search so from now on.

        Args:
            settings: The settings of searches.
            env: An environment, which searches step.
            ranks: Whether an episode is worth 1 if its return reaches the threshold among the parameters, else -1.
        """
        self.settings = settings
        rank = self._rank if ranks else None
        space, connectors = self._envs.observation_space, self._env_to_module
        self.simulator = EnvSimulator(search_env_of(env), space, connectors.preprocessor.rows, rank)

    def outputs_for(self, inputs: Mapping[str, Any], noise: Array) -> Mapping[str, Any]:
        """Return `mcts_policies` [L, A], and the values of the network [L]."""
        states = self._envs.foreach(state_of)
        if len(states) != len(self.lanes):
            raise EnvError(
                "a search needs an environment for each lane, and all lanes are in one here: set "
                "gym_env_vectorize_mode to 'sync'"
            )
        totals = self.episodes.totals
        module = self._module
        assert isinstance(module, MaskedActorCritic)
        policies, values = search(
            self.settings,
            [State(state, total) for state, total in zip(states, totals.tolist(), strict=True)],
            self._obs[: len(self.lanes)],
            module.layout.legal,
            self._evaluate,
            self.simulator,
            noise[:, 1:] if noise.shape[1] else None,
        )
        return {TREE_POLICIES: policies.astype(np.float32), columns.VF_PREDS: values}

    def _evaluate(self, rows: Array) -> tuple[Array, Array]:
        outputs = self._module.train(self._nn, self._parameters, {columns.OBS: rows})
        return outputs[columns.ACTION_DIST_INPUTS], outputs[columns.VF_PREDS]

    def _rank(self, total: float) -> float:
        return 1.0 if total >= self._parameters[THRESHOLD][0] else -1.0


@dataclass(frozen=True, kw_only=True)
class SearchingBlueprint(Blueprint):
    """Makes the sampler of a runner whose lanes search.

    Attributes:
        search: The settings of searches.
        ranks: Whether episodes are ranked by their returns.
    """

    search: SearchSettings
    ranks: bool

    @classmethod
    def of(cls, blueprint: Blueprint, search: SearchSettings, ranks: bool) -> SearchingBlueprint:
        """Return the blueprint of the same lanes, which search."""
        parts = {part.name: getattr(blueprint, part.name) for part in fields(blueprint)}
        return cls(**parts, search=search, ranks=ranks)

    def __call__(self, place: RunnerPlace) -> Sampler | ExternalSampler:
        """Return a sampler for a place, with environments of its own, and one more to search in."""
        made = super().__call__(place)
        assert isinstance(made, SearchingSampler)
        made.begin_searching(self.search, self.envs.maker(context_of(self.envs, place)), self.ranks)
        return made

    def sampler(self, envs: VectorEnv, lanes: Sequence[int], **parts: Any) -> Sampler:
        """Return a sampler that searches, of these environments."""
        return SearchingSampler(envs, lanes, **parts)
