"""Several policies: who learns, by which settings, with which bits; results, weights, actions and checkpoints by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.connectors.named import FrameStackingEnvToModule
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.envs.games.multi_agent_cart_pole import MultiAgentCartPole
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.envs.games.two_step_game import TwoStepGame, grouped_two_step_game
from kernel_rllib.envs.multi_agent import MultiAgentEnv
from kernel_rllib.errors import ConfigError, EnvError, UnknownPolicyError
from kernel_rllib.testing.multi_agent import TakingTurns
from kernel_rllib.training.policy_learning import PolicyLearning

TWO = {"p0", "p1"}


def by_number(agent: Any, episode: Any, **further: Any) -> str:
    """Return a policy for each agent."""
    return f"p{agent}"


def config(made: Any = None, env: Any = MultiAgentCartPole, **env_runners: Any) -> Any:
    """Return small settings of two agents with a policy each."""
    made = made or PPOConfig().training(train_batch_size=64, minibatch_size=32, num_epochs=2, lr=1e-3)
    return (
        made.environment(env, env_config={"num_agents": 2})
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .multi_agent(policies=TWO, policy_mapping_fn=by_number)
        .training(model={"fcnet_hiddens": [16]})
        .debugging(seed=3)
    )


def small(algorithm: str) -> Any:
    """Return small settings of an algorithm, for two agents."""
    on_policy = {"train_batch_size": 64}
    replaying = {
        "train_batch_size": 16,
        "num_steps_sampled_before_learning_starts": 32,
        "training_intensity": 1,
        "store_buffer_in_checkpoints": True,
    }
    made: dict[str, Any] = {
        "PPO": lambda: PPOConfig().training(minibatch_size=32, num_epochs=2, **on_policy),
        "LSTM": lambda: PPOConfig().training(minibatch_size=32, num_epochs=2, **on_policy),
        "PG": lambda: PGConfig().training(**on_policy),
        "DQN": lambda: DQNConfig().training(hiddens=[8], **replaying),
        "DQN of 3 steps": lambda: DQNConfig().training(hiddens=[8], n_step=3, **replaying),
        "SAC": lambda: SACConfig().training(**replaying),
    }
    found = config(made[algorithm]())
    if algorithm == "LSTM":
        found.training(model={"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 10})
    return found.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)


KINDS = ("PPO", "LSTM", "PG", "DQN", "DQN of 3 steps", "SAC")


def weights_of(algorithm: Any) -> dict[str, bytes]:
    """Return all parameters by policy."""
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("kind", "runners"), [(kind, 2) for kind in KINDS] + [("PPO", 4)])
@pytest.mark.parametrize("env", [MultiAgentCartPole, TakingTurns])
def test_any_number_of_runners_ends_with_the_same_bits(kind: str, runners: int, env: Any) -> None:
    settings = small(kind).environment(env)
    alone = settings.copy(copy_frozen=False).build()
    many = settings.env_runners(num_env_runners=runners).build()
    results = [[algorithm.train() for _ in range(2)][-1] for algorithm in (alone, many)]
    assert weights_of(alone) == weights_of(many)
    for key in ("policy_reward_mean", "timesteps_total", "num_agent_steps_sampled", "hist_stats"):
        np.testing.assert_equal(results[1][key], results[0][key])
    many.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    settings = small(kind).environment(TakingTurns)
    straight = settings.build()
    for _ in range(2):
        straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed = settings.copy(copy_frozen=False).build()
    resumed.restore(path)
    result, again = straight.train(), resumed.train()
    assert weights_of(resumed) == weights_of(straight)
    for key in ("policy_reward_mean", "timesteps_total", "num_agent_steps_sampled", "hist_stats"):
        np.testing.assert_equal(again[key], result[key])
    assert again["info"]["learner"] == result["info"]["learner"]


def test_only_policies_that_are_to_be_trained_learn() -> None:
    algorithm = config().multi_agent(policies_to_train=["p1"]).build()
    before = weights_of(algorithm)
    result = algorithm.train()
    after = weights_of(algorithm)
    assert (after["p0"] == before["p0"], after["p1"] == before["p1"]) == (True, False)
    assert list(result["learners"]) == ["p1"]


def test_a_function_decides_by_what_was_sampled_which_policies_learn() -> None:
    seen: list[Any] = []

    def wanted(policy_id: str, batch: Any) -> bool:
        seen.append(batch)
        return policy_id == "p0"

    algorithm = config().multi_agent(policies_to_train=wanted).build()
    assert list(algorithm.train()["learners"]) == ["p0"]
    assert isinstance(seen[0], MultiAgentBatch)
    assert (seen[0].count, set(seen[0].policy_batches)) == (64, TWO)


def test_a_policy_has_settings_of_its_own() -> None:
    own = {"p0": PolicySpec(config={"lr": 0.0, "gamma": 0.5}), "p1": (None, None, None, {"gamma": 0.9})}
    algorithm = config().multi_agent(policies=own).build()
    assert [algorithm.policies[name].config.gamma for name in ("p0", "p1")] == [0.5, 0.9]
    before = weights_of(algorithm)
    algorithm.train()
    after = weights_of(algorithm)
    assert (after["p0"] == before["p0"], after["p1"] == before["p1"]) == (True, False)
    overridden = config().multi_agent(algorithm_config_overrides_per_module={"p0": {"lr": 0.0}}).build()
    before = weights_of(overridden)
    overridden.train()
    assert weights_of(overridden)["p0"] == before["p0"]


def test_batches_are_counted_in_steps_of_agents_where_that_is_wanted() -> None:
    settings = config(rollout_fragment_length=4)
    by_env = settings.copy(copy_frozen=False).build().train()
    by_agent = settings.multi_agent(count_steps_by="agent_steps").build().train()
    assert by_env["timesteps_total"] == 64
    assert by_agent["timesteps_total"] < 64 <= by_agent["num_agent_steps_sampled"]


def test_results_are_by_policy_and_by_agent() -> None:
    algorithm = config().training(train_batch_size=512).build()
    result = algorithm.train()
    for key in ("policy_reward_mean", "policy_reward_min", "policy_reward_max"):
        assert set(result[key]) == TWO
    runners = result["env_runners"]
    assert set(runners["module_episode_returns_mean"]) == TWO
    assert set(runners["agent_episode_returns_mean"]) == {"0", "1"}
    assert sum(result["policy_reward_mean"].values()) == pytest.approx(result["episode_reward_mean"])
    both = [result["hist_stats"][f"policy_{name}_reward"] for name in ("p0", "p1")]
    assert [sum(pair) for pair in zip(*both, strict=True)] == result["hist_stats"]["episode_reward"]
    assert set(runners["num_module_steps_sampled_lifetime"]) == TWO
    assert {"learner_stats"} == set(result["info"]["learner"]["p0"])


def test_policies_are_asked_for_by_their_ids() -> None:
    algorithm = config().build()
    seen = [0.1, 0.0, 0.1, 0.0]
    actions = algorithm.compute_actions({0: seen, 1: seen}, explore=False)
    alone = {agent: algorithm.compute_single_action(seen, policy_id=f"p{agent}", explore=False) for agent in (0, 1)}
    assert actions == alone
    weights = algorithm.get_weights(["p1"])
    assert list(weights) == ["p1"]
    assert algorithm.get_policy("p0").get_weights().keys() == weights["p1"].keys()
    algorithm.set_weights({"p0": weights["p1"]})
    found = weights_of(algorithm)
    assert found["p0"] == found["p1"]
    with pytest.raises(UnknownPolicyError, match="there is no policy 'p2'; there are p0, p1"):
        algorithm.get_policy("p2")
    with pytest.raises(ConfigError, match=r"PPOConfig has several policies: ask for learners\[...\] of one of 'p0'"):
        _ = algorithm.learner


def test_agents_may_share_the_only_policy() -> None:
    algorithm = PPO(config().multi_agent(policies=None, policy_mapping_fn=None))
    result = algorithm.train()
    assert list(result["learners"]) == ["default_policy"]
    assert result["num_agent_steps_sampled"] > result["timesteps_total"] == 64
    assert algorithm.learner is algorithm.learners["default_policy"]
    assert algorithm.compute_single_action([0.0] * 4, explore=False) in (0, 1)


def test_evaluations_play_with_all_policies() -> None:
    algorithm = config().evaluation(evaluation_duration=3, evaluation_config={"explore": False}).build()
    found = algorithm.evaluate()
    assert found["episodes_this_iter"] == 3
    assert set(found["policy_reward_mean"]) == TWO


class Paper:
    """Always throws paper."""

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        self.answer = config.get("answer", 1)

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, **further: Any) -> Any:
        """Return the same action for each observation."""
        return [self.answer] * len(obs_batch), state_batches, {}


class Random:
    """Throws anything, by numbers that it is given."""

    stream: ClassVar[Any] = None

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        self.count = action_space.n

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, **further: Any) -> Any:
        """Return random actions."""
        return self.stream.integers(self.count, size=len(obs_batch)), state_batches, {}


def against(opponent: Any, **settings: Any) -> Any:
    """Return settings in which one player learns to play against a class."""
    return (
        PPOConfig()
        .environment(RockPaperScissors)
        .env_runners(num_envs=8, num_env_runners=0, num_cpus_per_env_runner=0)
        .training(train_batch_size=160, minibatch_size=80, num_epochs=8, lr=5e-3, model={"fcnet_hiddens": [16]})
        .multi_agent(
            policies={"learned": PolicySpec(), "opponent": PolicySpec(opponent, config=settings)},
            policy_mapping_fn=lambda agent, *further, **more: "learned" if agent == "player_0" else "opponent",
            policies_to_train=["learned"],
        )
        .debugging(seed=1)
    )


def test_a_policy_learns_to_beat_one_of_the_users_own() -> None:
    algorithm = against(Paper).build()
    for _ in range(20):
        result = algorithm.train()
    assert result["policy_reward_mean"]["learned"] > 8
    assert result["policy_reward_mean"]["opponent"] < -8
    assert list(result["learners"]) == ["learned"]
    assert algorithm.compute_single_action(1, policy_id="learned", explore=False) == 2
    assert algorithm.compute_actions({"player_0": 1, "player_1": 1}, explore=False) == {"player_0": 2, "player_1": 1}


@pytest.mark.usefixtures("session")
def test_what_the_users_own_draw_is_the_same_in_any_runner() -> None:
    settings = against(Random)
    alone = settings.copy(copy_frozen=False).build()
    two = settings.env_runners(num_env_runners=2).build()
    results = [algorithm.train()["hist_stats"] for algorithm in (alone, two)]
    assert results[0] == results[1]
    assert len(set(results[0]["episode_lengths"])) == 1 < len(set(results[0]["policy_learned_reward"]))
    two.stop()


@pytest.mark.parametrize("shared", [True, False])
def test_two_carts_learn_to_balance_their_poles(shared: bool) -> None:
    settings = config(PPOConfig().training(
        train_batch_size=256, minibatch_size=256, num_epochs=10, lr=2e-3, gamma=0.98, lambda_=0.8
    ), num_envs=8).training(model={"fcnet_hiddens": [32, 32]})  # fmt: skip
    if shared:
        settings.multi_agent(policies=None, policy_mapping_fn=None)
    algorithm = settings.build()
    returns = (algorithm.train()["episode_reward_mean"] for _ in range(40))
    assert any(value > 80 for value in returns)  # at random it is 44 for both


def test_two_agents_learn_to_take_the_safe_matrix_at_least() -> None:
    settings = config(PPOConfig().training(
        train_batch_size=128, minibatch_size=128, num_epochs=8, lr=5e-3, entropy_coeff=0.01
    ), env=TwoStepGame)  # fmt: skip
    algorithm = settings.build()
    returns = (algorithm.train()["episode_reward_mean"] for _ in range(25))
    assert any(value > 6.8 for value in returns)  # a matrix where all joint actions are worth 7; at random it is 4.75


def test_a_group_of_agents_is_one_that_acts_for_all_of_them() -> None:
    made = PPOConfig().training(train_batch_size=64, minibatch_size=32, num_epochs=4, lr=5e-3)
    settings = config(made, env=grouped_two_step_game).multi_agent(policies=None, policy_mapping_fn=None)
    result = settings.build().train()
    assert set(result["env_runners"]["agent_episode_returns_mean"]) == {"group_1"}
    assert result["num_agent_steps_sampled"] == result["timesteps_total"] == 64


class Alone(PPO):
    """Learns one policy, as an algorithm that writes its own training step."""

    learn = PolicyLearning.learn


def test_an_algorithm_of_one_policy_says_so() -> None:
    with pytest.raises(ConfigError, match="PPOConfig learns one policy, and p0, p1 are named: take PPO, DQN or SAC"):
        Alone(config())


LEARNING_PAPER = {"policies": {"p0": PolicySpec(Paper), "p1": PolicySpec()}, "policies_to_train": ["p0"]}
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    (LEARNING_PAPER, ConfigError, "policies_to_train has 'p0', which is of a class of its own, Paper"),
    ({"policies_to_train": ["p3"]}, ConfigError, "policies_to_train has 'p3', which is not one of policies"),
    ({"policies": {"p0": PolicySpec(Paper)}}, ConfigError, "all policies have a class of their own, and none is left"),
    ({"policies": {"p0": PolicySpec(object), "p1": PolicySpec()}}, ConfigError, "'p0' has the class 'object', which"),
    ({"policy_mapping_fn": lambda agent, **further: "p"}, UnknownPolicyError, "returned 'p' for agent 0, and there is"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "error", "message"), WRONG)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        config().multi_agent(**settings).build()


def test_connectors_that_keep_something_of_lanes_are_refused() -> None:
    stacking = config(env_to_module_connector=lambda *_: FrameStackingEnvToModule(num_frames=2))
    with pytest.raises(ConfigError, match="the policy 'p.' has observations pass through FrameStack"):
        stacking.build()
    alone = config(observation_filter="MeanStdFilter", update_worker_filter_stats=False)
    with pytest.raises(ConfigError, match="the policy 'p.' has observations pass through MeanStdFilter"):
        alone.build()


def test_policies_for_an_environment_of_one_agent_are_refused() -> None:
    with pytest.raises(EnvError, match="CartPole-v1 has one agent, but multi_agent"):
        PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).multi_agent(policies={"p0"}).build()


def test_spaces_are_not_given_as_those_of_one_agent() -> None:
    env: MultiAgentEnv = MultiAgentCartPole({"num_agents": 2})
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    settings = config().environment(MultiAgentCartPole, **spaces).multi_agent(policies=None, policy_mapping_fn=None)
    with pytest.raises(EnvError, match="MultiAgentCartPole has several agents, but its spaces were given"):
        settings.build()
