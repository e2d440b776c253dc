"""AlphaStar's league (Vinyals et al. 2019, doi:10.1038/s41586-019-1724-z), whose players learn by APPO.

A main player learns against itself and what was kept of all; exploiters look for its weaknesses, and for those of the
league. The rules are `league.league`; here matches are told to it, and what it says is done.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_rllib.algorithms.appo import APPO, APPOConfig
from kernel_rllib.algorithms.impala import Optimizer
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.league_config import LEAGUE_BUILDER, LeagueConfig
from kernel_rllib.config.parts import Part
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.multi_agent import is_multi_agent, known_agents
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.random_policy import RandomPolicy
from kernel_rllib.league.league import MAIN, League, Match, Snapshot
from kernel_rllib.league.matchmaking import Matchmaking
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.training.parts import env_maker_of
from kernel_rllib.training.results import ResultTree, merged

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


MAIN_PLAYER = f"{MAIN}_0"
"""The policy of the main player."""


class AlphaStarConfig(APPOConfig):
    """The settings of AlphaStar."""

    algorithm = "AlphaStar"

    defaults = values(min_time_s_per_iteration=2)

    league_builder_config = Part(LeagueConfig, "The players, and who plays against whom.", since="2.x")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        league_builder_config: dict[str, Any] | LeagueConfig = NOT_PROVIDED,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        clip_param: float = NOT_PROVIDED,
        use_kl_loss: bool = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        kl_target: float = NOT_PROVIDED,
        vtrace: bool = NOT_PROVIDED,
        vtrace_clip_rho_threshold: float = NOT_PROVIDED,
        vtrace_clip_pg_rho_threshold: float = NOT_PROVIDED,
        replay_proportion: float = NOT_PROVIDED,
        replay_buffer_num_slots: int = NOT_PROVIDED,
        broadcast_interval: int = NOT_PROVIDED,
        opt_type: Optimizer = NOT_PROVIDED,
        decay: float = NOT_PROVIDED,
        momentum: float = NOT_PROVIDED,
        epsilon: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        learner_queue_size: int = NOT_PROVIDED,
        learner_queue_timeout: int = NOT_PROVIDED,
        num_data_loader_buffers: int = NOT_PROVIDED,
        minibatch_buffer_size: int = NOT_PROVIDED,
        num_aggregation_workers: int = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how players learn, and how they meet; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        given = self.league_builder_config
        if str(getattr(given.type, "__name__", given.type)).rpartition(".")[2] != LEAGUE_BUILDER:
            yield (
                f"league_builder_config type is {given.type!r}, and there is one league, {LEAGUE_BUILDER!r}: leave "
                "type out, and change policies by add_policy() in on_train_result for another one"
            )
        if given.num_random_policies % 2:
            yield f"num_random_policies={given.num_random_policies} is odd: exploiters of each kind get half of them"
        if given.prob_league_exploiter_match + given.prob_main_exploiter_match > 1:
            yield (
                f"prob_league_exploiter_match={given.prob_league_exploiter_match} and prob_main_exploiter_match="
                f"{given.prob_main_exploiter_match} are more than 1 together; the rest is of the main player"
            )


class AlphaStar(APPO):
    """Trains a league of players, of which `main_0` is the one that is wanted."""

    config: AlphaStarConfig
    config_class = AlphaStarConfig
    league: League
    """The players and their matches."""

    def setup(self, config: dict[str, Any]) -> None:
        """Make the players of the league, and the runners in which they meet.

        Raises:
            ConfigError: If policies are given, or the environment is not one of two agents.
        """
        settings = self._settings
        assert isinstance(settings, AlphaStarConfig)
        self.league = League.begin(settings.league_builder_config.rules())
        self._agents = two_agents(settings)
        self._matches: list[Match] = []
        given = settings.copy(copy_frozen=False)
        given.multi_agent(
            policies={
                name: PolicySpec(None if player.learns else RandomPolicy)
                for name, player in self.league.players.items()
            },
            policies_to_train=self.league.learning(),
            policy_mapping_fn=self._matchmaking(settings.seed or 0),
        )
        self._settings = given
        super().setup(config)
        self._firsts = {name: copy.deepcopy(policy.learner.state()) for name, policy in self.policies.items()}
        self._origins = {name: name for name in self.policies}

    def take_in(self, samples: Sequence[Sample]) -> None:
        """Note matches that ended, beside all else."""
        super().take_in(samples)
        for sample in samples:
            for episode in sample.episodes:
                if len(episode.agents) == 2:
                    (_, one, earned), (_, other, others) = episode.agents
                    self._matches.append(Match(one, other, 0.5 if earned == others else float(earned > others)))

    def hand_over_update(self) -> None:
        """Tell the league of matches, do what it says, and let runners act with what was learned."""
        ended, self._matches = self._matches, []
        stream = self.stream("league", self.env_steps_sampled)
        for instruction in self.league.take_in(sorted(ended), stream):
            if isinstance(instruction, Snapshot):
                original = self.get_policy(instruction.player)
                self.add_policy(instruction.copy, policy=original, policies_to_train=self._learning_now())
                self._origins[instruction.copy] = self._origins[instruction.player]
            else:
                learner = self.policies[instruction.player].learner
                version = learner.version
                learner.set_state(copy.deepcopy(self._firsts[self._origins[instruction.player]]))
                learner.version = version + 1
        if ended:
            self._meet()
        super().hand_over_update()

    def shared_state(self) -> dict[str, Any]:
        """Return the league, and what its players were at first."""
        return {"league": self.league.state(), "firsts": self._firsts, "origins": self._origins}

    def set_shared_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `shared_state` returned."""
        self.league.set_state(state["league"])
        self._firsts, self._origins = dict(state["firsts"]), dict(state["origins"])
        self._meet()

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        """Return the result, with what is known of the league."""
        league = self.league
        others = [name for name in league.players if name != MAIN_PLAYER]
        return merged(
            super()._result(metrics, began, sampled_before),
            {
                "league": {
                    "num_players": len(league.players),
                    "num_kept": len(league.kept()),
                    "main_win_rates": {name: league.win_rate(MAIN_PLAYER, name) for name in others},
                }
            },
        )

    def _meet(self) -> None:
        """Let runners draw matches by what is known now."""
        changed = self._settings.copy(copy_frozen=False)
        self._set_who(changed, self._matchmaking(self.seed), self._learning_now(), in_evaluations=True)
        self.take_policies_of(changed)

    def _learning_now(self) -> list[str]:
        """Return the players that learn, of those that there are already: copies are made one after the other."""
        return [name for name in self.league.learning() if name in self.policies]

    def _matchmaking(self, seed: int) -> Matchmaking:
        return Matchmaking(seed, self._agents, self.league.settings, self.league.state())


def two_agents(config: AlgorithmConfig) -> list[Any]:
    """Return the two agents of the environment of a config.

    Raises:
        ConfigError: If it has others, or none are named, or policies are given: the league makes them.
    """
    if set(config.policies) - {DEFAULT_POLICY_ID}:
        raise ConfigError(
            f"{config.title}: policies are the players of the league, and {', '.join(map(str, config.policies))} were "
            "given: leave out policies, and say by league_builder_config how many there are"
        )
    env = env_maker_of(config)(EnvContext(config.env_config))
    agents = known_agents(env) if is_multi_agent(env) else []
    if hasattr(env, "close"):
        env.close()
    if len(agents) != 2:
        raise ConfigError(
            f"{config.title}: players meet two by two, and the environment has "
            f"{f'the agents {agents}' if agents else 'no agents that it names'}: give one with two, as possible_agents"
        )
    return agents
