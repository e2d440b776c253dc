"""AlphaZero: what it learns from is what searches found, its loss is the paper's, and it repeats bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.alpha_zero import AlphaZero, AlphaZeroConfig, alpha_zero_loss
from kernel_rllib.algorithms.ranked_rewards import RankedRewards, random_returns
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.cart_pole_sparse_rewards import CartPoleSparseRewards
from kernel_rllib.envs.games.connect_four import ConnectFour
from kernel_rllib.envs.games.tic_tac_toe import TicTacToe, TwoPlayerTicTacToe
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.tree_policy import TREE_POLICIES, TreePolicySampling
from kernel_rllib.modules.actor_critic import ActorCriticOptions
from kernel_rllib.modules.masked_actor_critic import MASKED, THRESHOLD, MaskedActorCritic, MaskedLayout
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.returns.game_outcomes import episode_numbers, rewards_to_go
from kernel_rllib.testing.losses import in_float64, loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference import alpha_zero
from kernel_rllib.testing.training import weights_after

SMALL = {
    "env": TicTacToe,
    "seed": 1,
    "num_env_runners": 0,
    "num_envs": 4,
    "rollout_fragment_length": 4,
    "train_batch_size": 32,
    "minibatch_size": 16,
    "num_epochs": 1,
    "mcts_config": {"num_simulations": 5},
    "num_steps_sampled_before_learning_starts": 16,
    "model": {"fcnet_hiddens": [8]},
    "store_buffer_in_checkpoints": True,
}
ALONE = {
    "env": CartPoleSparseRewards,
    "env_config": {"max_episode_steps": 12},
    "ranked_rewards": {"num_init_rewards": 5},
}


@pytest.fixture
def made() -> Iterator[Any]:
    algorithms = []

    def make(**settings: Any) -> AlphaZero:
        algorithms.append(AlphaZero({**SMALL, **settings}))
        return algorithms[-1]

    yield make
    for algorithm in algorithms:
        algorithm.stop()


# -- what is learned --------------------------------------------------------------------------------------------------


def batch_of(generator: np.random.Generator, rows: int = 6) -> Batch:
    legal = generator.random((rows, 3)) < 0.6
    legal[:, 0] = True
    policies = generator.random((rows, 3)) * legal
    return Batch({
        columns.OBS: np.concatenate([legal, generator.normal(size=(rows, 4))], axis=1).astype(np.float32),
        TREE_POLICIES: (policies / policies.sum(axis=1, keepdims=True)).astype(np.float32),
        columns.VALUE_TARGETS: generator.choice([-1.0, 0.0, 1.0], rows).astype(np.float32),
    })  # fmt: skip


@pytest.mark.parametrize("shared", [False, True])
def test_the_loss_and_its_gradient_are_those_of_the_paper(shared: bool) -> None:
    options = ActorCriticOptions(hidden=(5,), share_layers=shared)
    module, generator = MaskedActorCritic(MaskedLayout((3, 7), (0, 3), (4,)), options), np.random.default_rng(3)
    vector, batch = module.initial(generator).astype(np.float64), in_float64(batch_of(generator))

    def twin(**outputs: Any) -> float:
        return alpha_zero.loss(
            outputs["action_dist_inputs"], outputs["vf_preds"], batch[TREE_POLICIES], batch[columns.VALUE_TARGETS]
        )

    metrics, gradient = loss_and_gradient(alpha_zero_loss, module, vector, batch)
    value, expected = twin_and_gradient(twin, ("action_dist_inputs", "vf_preds"), module, vector, batch)
    assert metrics["total_loss"] == pytest.approx(value, rel=1e-9)
    assert metrics["total_loss"] == pytest.approx((metrics["policy_loss"] + metrics["vf_loss"]) / 2)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-8)
    assert not module.table.views(gradient)[THRESHOLD].any()


def test_actions_that_may_not_be_taken_have_no_probability() -> None:
    module, nn = MaskedActorCritic(MaskedLayout((2, 3), (0, 2), (1,)), ActorCriticOptions(hidden=(4,))), NumpyOps()
    parameters = module.table.views(module.initial(np.random.default_rng(0)))
    logits = module.train(nn, parameters, {columns.OBS: np.array([[1, 0, 5], [1, 1, 5]], np.float32)})
    found = logits[columns.ACTION_DIST_INPUTS]
    assert found[0, 1] == MASKED and found[0, 0] == found[1, 0] and (found[1] != MASKED).all()


def test_what_steps_were_worth_is_told_from_the_view_of_who_acted() -> None:
    rewards = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, -2.0], [0.0, 0.0]])
    ends = np.array([[False, True], [False, False], [True, True], [False, True]])
    np.testing.assert_array_equal(rewards_to_go(rewards, ends)[:3], [[1, 1], [1, -2], [1, -2]])
    np.testing.assert_array_equal(rewards_to_go(rewards, ends, players=2)[:3], [[1, 1], [-1, 2], [1, -2]])
    assert episode_numbers(ends, None).T.tolist() == [[0, 0, 0, -1], [1, 2, 2, 3]]
    valid = np.array([[True, True], [True, True], [True, False], [True, True]])
    assert episode_numbers(ends, valid).T.tolist() == [[0, 0, 0, -1], [1, -1, -1, 2]]


def test_returns_are_ranked_among_the_last_ones() -> None:
    ranked = RankedRewards(75, 4)
    assert ranked.threshold == -np.inf and ranked.rank(3.0) == 1.0
    ranked.keep([1.0, 2.0, 4.0])
    assert ranked.threshold == 3.25
    assert ranked.rank(5.0) == 1.0 and ranked.threshold == 4.25, "the first one is forgotten"
    assert ranked.rank(4.0) == -1.0
    other = RankedRewards(75, 4)
    other.set_state(ranked.state())
    assert other.threshold == ranked.threshold == 4.25


def test_the_first_returns_are_those_of_random_actions(made: Any) -> None:
    env = CartPoleSparseRewards()
    found = random_returns(env, 200, np.random.default_rng(0))
    assert len(found) == 200 and 20 < np.mean(found) < 25
    assert random_returns(env, 200, np.random.default_rng(0)) == found
    assert np.isfinite(made(**ALONE).ranked.threshold)
    given = {**ALONE, "ranked_rewards": {"initialize_buffer": False}}
    assert made(**given).ranked.threshold == -np.inf


@pytest.mark.parametrize("env", [TicTacToe, ConnectFour])
def test_steps_are_kept_with_the_policies_of_their_trees(made: Any, env: Any) -> None:
    algorithm = made(env=env, num_steps_sampled_before_learning_starts=10_000)
    algorithm.train()
    kept = algorithm.replay.ring.take(np.arange(len(algorithm.replay)))
    assert len(algorithm.replay) == algorithm.env_steps_sampled
    policies, mask = kept[TREE_POLICIES], kept[columns.OBS][:, slice(*algorithm.layout.mask)]
    np.testing.assert_allclose(policies.sum(axis=1), 1, rtol=1e-6)
    assert not policies[mask < 0.5].any()
    assert set(kept[columns.VALUE_TARGETS].tolist()) <= {-1.0, 0.0, 1.0}
    assert kept[columns.VALUE_TARGETS].any()


def test_episodes_of_one_who_plays_alone_are_worth_1_or_minus_1(made: Any) -> None:
    algorithm = made(**ALONE)
    metrics = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]
    threshold = algorithm.learner.module.table.views(algorithm.learner.weights)[THRESHOLD][0]
    assert metrics["ranked_rewards_threshold"] == pytest.approx(threshold) == algorithm.ranked.threshold
    kept = algorithm.replay.ring.take(np.arange(len(algorithm.replay)))
    assert set(kept[columns.VALUE_TARGETS].tolist()) <= {-1.0, 1.0}
    plain = made(**{**ALONE, "ranked_rewards": {"enable": False}})
    assert "ranked_rewards_threshold" not in plain.train()["info"]["learner"]["default_policy"]["learner_stats"]
    worth = plain.replay.ring.take(np.arange(len(plain.replay)))[columns.VALUE_TARGETS]
    assert worth.max() == 12 and (worth >= 1).all()


def test_trees_choose_actions_by_their_visits() -> None:
    nn, policies = NumpyOps(), np.array([[0.25, 0.0, 0.75]] * 4)
    noise = np.zeros((4, 7), np.float32)
    noise[:, 0] = [0.0, 0.24, 0.26, 0.9999999]
    sampling = TreePolicySampling(3)
    assert sampling.choose(nn, {TREE_POLICIES: policies}, noise, 0).tolist() == [0, 0, 2, 2]
    assert sampling.best(nn, {TREE_POLICIES: policies}).tolist() == [2] * 4
    assert TreePolicySampling(3, greedy=True).choose(nn, {TREE_POLICIES: policies}, noise, 0).tolist() == [2] * 4


def test_it_soon_beats_one_who_plays_anything(made: Any) -> None:
    algorithm = made(
        num_envs=16, rollout_fragment_length=16, train_batch_size=512, minibatch_size=64, num_epochs=4, lr=5e-3,
        mcts_config={"num_simulations": 16, "puct_coefficient": 1.5, "dirichlet_noise": 0.5},
        model={"fcnet_hiddens": [32], "vf_share_layers": True},
        evaluation_duration=40, evaluation_config={"env_config": {"opponent": "random"}},
    )  # fmt: skip
    for _ in range(3):
        algorithm.train()
    searching = algorithm.evaluate()["evaluation"]["episode_reward_mean"]
    assert searching > 0.4
    seen = {"action_mask": np.array([0, 0, 1, 0, 0, 1, 1, 1, 1], np.float32), "obs": np.zeros(18, np.float32)}
    seen["obs"][[0, 1, 9 + 3, 9 + 4]] = 1
    assert algorithm.compute_single_action(seen, explore=False) in (2, 5, 6, 7, 8), "one that may be taken"


# -- it repeats ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("settings", [{}, ALONE], ids=["two", "one"])
def test_runners_change_no_bit(made: Any, settings: dict[str, Any]) -> None:
    expected = weights_after(2, made(**settings))
    for runners in (1, 2):
        given = {**settings, "num_env_runners": runners}
        algorithm = made(**given)
        assert weights_after(2, algorithm) == expected
        algorithm.stop()  # the next one needs the CPUs


@pytest.mark.parametrize("settings", [{}, ALONE, {"simple_optimizer": True}], ids=["two", "one", "no replay"])
def test_it_goes_on_from_a_checkpoint_bit_by_bit(made: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    whole = made(**settings)
    first = made(**settings)
    weights_after(2, first)
    other = made(**settings)
    other.restore(first.save(str(tmp_path)))
    assert weights_after(1, other) == weights_after(3, whole)


# -- settings ---------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_rllib() -> None:
    config = AlphaZeroConfig()
    assert config.mcts_config.to_dict() == {
        "puct_coefficient": 1.0, "num_simulations": 30, "temperature": 1.5, "dirichlet_epsilon": 0.25,
        "dirichlet_noise": 0.03, "argmax_tree_policy": False, "add_dirichlet_noise": True,
    }  # fmt: skip
    assert config.ranked_rewards.to_dict() == {
        "enable": True,
        "percentile": 75,
        "buffer_max_length": 1000,
        "initialize_buffer": True,
        "num_init_rewards": 100,
    }
    assert (config.lr, config.num_env_runners, config.rollout_fragment_length) == (5e-5, 2, 200)
    assert (config.train_batch_size, config.minibatch_size, config.num_epochs) == (4000, 128, 30)
    assert config.training(mcts_config={"num_simulations": 7}).mcts_config.puct_coefficient == 1.0
    evaluation = config.get_evaluation_config_object()
    assert evaluation is not None and evaluation.mcts_config.argmax_tree_policy
    assert (evaluation.mcts_config.add_dirichlet_noise, evaluation.mcts_config.num_simulations) == (False, 7)


class NoMask(CartPoleSparseRewards):
    """Observes no mask."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.observation_space = spaces.Dict({"obs": self.observation_space["obs"]})


class ShortMask(CartPoleSparseRewards):
    """Has an action more than its mask."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.action_space = spaces.Discrete(3)


class Continuous(CartPoleSparseRewards):
    """Takes numbers."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.action_space = spaces.Box(-1.0, 1.0, (1,))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": "CartPole-v1"}, r"AlphaZero.*the environment has to observe a Dict of 'obs' and 'action_mask', with"),
        ({"env": NoMask}, "the environment has to observe a Dict of 'obs' and 'action_mask'"),
        ({"env": ShortMask}, "'action_mask' has 2 flags, but there are 3 actions: give one for each"),
        ({"env": Continuous}, "a tree has an edge for each action of a Discrete space, but the environment takes Box"),
        ({"env": TwoPlayerTicTacToe}, "let the environment have one agent, who is the player that acts, and"),
        ({"batch_mode": "truncate_episodes"}, "cuts episodes, and steps are worth what their episode ends with"),
        ({"model": {"use_lstm": True}}, "use_lstm"),
        ({"gamma": 0.9}, "gamma has no effect on AlphaZero: what is learned is how episodes end, and"),
        ({"observation_filter": "MeanStdFilter"}, "observation_filter has no effect on AlphaZero: a search sees what"),
        ({"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}}, "no errors that priorities could be"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AlphaZero({**SMALL, "disable_env_checking": True, **settings})
