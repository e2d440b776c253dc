"""Connectors: what they make of rows, at the ends of episodes too, and statistics that nobody's company changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib import FrameStackingEnvToModule, MeanStdFilter, ObservationConnector, PrevActionsPrevRewards
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.clip_rewards import is_atari_name, reward_clipper
from kernel_rllib.connectors.env_to_module import Previous
from kernel_rllib.connectors.frame_stack import FrameStack
from kernel_rllib.connectors.moments import moments_of, no_rows, with_learned
from kernel_rllib.connectors.pipeline import observation_connectors
from kernel_rllib.connectors.previous_steps import PreviousSteps
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.experiments.playing import make_env, played
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.replay.transitions import Transitions
from kernel_rllib.testing.counting import Counting, counting_blueprint, counting_sampler

FILTERED = {"observation_filter": "MeanStdFilter"}


# -- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_moments_are_those_of_all_rows_together(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).normal(1000, 2, (20, 4, *shape))
    kept = np.array([20, 1, 7, 12])
    whole = with_learned(
        {}, [{"filter": moments_of(rows[:, :1], kept[:1])}, {"filter": moments_of(rows[:, 1:], kept[1:])}]
    )
    together = np.concatenate([rows[: kept[lane], lane] for lane in range(4)])
    assert whole["filter"].count == 40
    np.testing.assert_allclose(whole["filter"].mean, together.mean(0), rtol=1e-13)
    np.testing.assert_allclose(whole["filter"].deviation(), together.std(0, ddof=1), rtol=1e-10)


@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_the_moments_of_a_lane_are_the_same_bits_in_any_company(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).normal(5, 2, (300, 8, *shape)).astype(np.float32)
    together = moments_of(rows)
    for lane in range(8):
        alone = moments_of(rows[:, lane : lane + 1]).lane(0)
        for one, other in zip(alone.arrays().values(), together.lane(lane).arrays().values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_moments_of_nothing_change_nothing() -> None:
    some = moments_of(np.arange(6.0).reshape(6, 1)).lane(0)
    for joined in (some.joined(no_rows(())), no_rows(()).joined(some)):
        for one, other in zip(joined.arrays().values(), some.arrays().values(), strict=True):
            np.testing.assert_array_equal(one, other)


# -- single connectors -----------------------------------------------------------------------------------------------


def previous(actions: Sequence[int], rewards: Sequence[float], resets: Sequence[bool]) -> Previous:
    """Return a step of discrete actions."""
    return Previous(np.array(actions), np.array(rewards, np.float32), np.array(resets))


def test_frames_are_those_of_one_episode() -> None:
    stack = FrameStack(3)
    assert stack.shape((2,)) == (6,) and stack.shape((84, 84, 1)) == (84, 84, 3)
    frames = np.arange(10, dtype=np.float32).reshape(5, 2, 1)
    step = previous([0, 0], [0, 0], [False, False])
    assert stack(frames[0], None).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert stack(frames[1], step).tolist() == [[0, 0, 2], [1, 1, 3]]
    assert stack.final(frames[2, 1], 1, step).tolist() == [1, 3, 5]
    assert stack(frames[3], previous([0, 0], [0, 0], [False, True])).tolist() == [[0, 2, 6], [7, 7, 7]]
    kept = stack.lane_state(0)
    other = FrameStack(3)
    other(frames[0], None)
    other.set_lane_state(1, kept)
    assert other(frames[4], step).tolist() == [[0, 0, 8], [2, 6, 9]]


def test_previous_actions_and_rewards_are_those_of_one_episode() -> None:
    connector = PreviousSteps(spaces.Discrete(2, start=5), actions=2, rewards=1)
    assert connector.shape((1,)) == (6,)
    rows = np.zeros((2, 1), np.float32)
    assert connector(rows, None).tolist() == [[0] * 6] * 2
    assert connector(rows, previous([0, 1], [2, 3], [False, False])).tolist() == [
        [0, 0, 0, 1, 0, 2],
        [0, 0, 0, 0, 1, 3],
    ]
    then = previous([1, 1], [4, 5], [False, True])
    assert connector.final(rows[1], 1, then).tolist() == [0, 0, 1, 0, 1, 5]
    assert connector(rows, then).tolist() == [[0, 1, 0, 0, 1, 4], [0] * 6]


@pytest.mark.parametrize(("counts", "shape"), [({"actions": 0, "rewards": 2}, 3), ({"actions": 1, "rewards": 0}, 4)])
def test_one_of_both_alone(counts: dict[str, int], shape: int) -> None:
    connector = PreviousSteps(spaces.Box(-1, 1, (3,)), **counts)
    assert connector.shape((1,)) == (shape,)
    step = Previous(np.array([[0.5, 1, -1]]), np.array([2.0]), np.array([False]))
    connector(np.ones((1, 1)), None)
    connector(np.ones((1, 1)), step)
    expected = [1, 0.5, 1, -1] if counts["actions"] else [1, 2, 2]
    assert connector(np.ones((1, 1)), step)[0].tolist() == expected


def test_what_cannot_be_appended_to_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"can't be appended to observations of shape \(84, 84, 3\)"):
        PreviousSteps(spaces.Discrete(2)).shape((84, 84, 3))
    with pytest.raises(ConfigError, match="the last -1 actions can't be appended"):
        PreviousSteps(spaces.Discrete(2), actions=-1)
    with pytest.raises(ConfigError, match="0 frames can't be stacked"):
        FrameStack(0)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [(True, [-1, 0, 1, 1]), (2.0, [-2, 0, 0.5, 2]), ((0, 4), [0, 0, 0.5, 4]), (False, None), (None, None)],
)
def test_rewards_are_clipped_as_the_setting_says(clip: Any, expected: Any) -> None:
    clipper = reward_clipper(clip)
    found = None if clipper is None else clipper(np.array([-3, 0, 0.5, 7], np.float32)).tolist()
    assert found == expected


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "PongNoFrameskip-v4", "BreakoutDeterministic-v4"])
def test_rewards_of_atari_games_are_signs_unless_told_otherwise(name: str) -> None:
    assert is_atari_name(name) and not is_atari_name("CartPole-v1") and not is_atari_name(Counting)
    clipper = reward_clipper(None, is_atari=True)
    assert clipper is not None and clipper(np.array([5.0])).tolist() == [1]


# -- in a sampler ----------------------------------------------------------------------------------------------------


def blueprint(width: int, *makers: Any, length: int = 3, **more: Any) -> Any:
    """Return what samples with connectors, whose rows are so wide."""
    plain = counting_blueprint({"length": length})
    config = AlgorithmConfig().env_runners(env_to_module_connector=lambda env: list(makers))
    module = ActorCritic(width, 3, options=ActorCriticOptions(hidden=(8,)))
    space = spaces.Discrete(3)
    return replace(
        plain,
        module=module,
        observation_connectors=lambda learns: observation_connectors(config, space, learns),
        **more,
    )


def test_the_last_row_of_an_episode_has_its_own_frames_and_steps() -> None:
    made = counting_sampler(blueprint(8, FrameStackingEnvToModule(2), PrevActionsPrevRewards(1, 1))).sample(7)
    counts = made.columns["obs"][:, 0, [0, 2]]
    assert counts.tolist() == [[0, 0], [0, 1], [1, 2], [0, 0], [0, 1], [1, 2], [0, 0]]
    assert made.final_obs[:, [0, 2]].tolist() == [[2, 3]] * 8
    actions = np.eye(3)[made.columns["actions"]]
    after = made.next_obs()
    np.testing.assert_array_equal(after[..., 4:7], actions)
    np.testing.assert_array_equal(after[..., 7], made.columns["rewards"])
    begins = made.columns["obs"][[0, 3, 6]]
    assert not begins[..., 4:].any()
    batch = Transitions(n=1, gamma=0.9).of(made)
    np.testing.assert_array_equal(batch["new_obs"], after.reshape(28, 8))


def test_what_is_learned_from_is_clipped_and_what_is_reported_is_not() -> None:
    acting = counting_sampler(blueprint(2, clip_rewards=reward_clipper(0.25)))
    assert (acting.sample(6).columns["rewards"] == 0.25).all()
    assert {episode.total_reward for episode in acting.take_episodes()} == {3.0}


@pytest.mark.parametrize("complete", [False, True])
def test_statistics_are_of_the_observations_that_were_acted_on_or_are_next(complete: bool) -> None:
    acting = counting_sampler(blueprint(2, MeanStdFilter(clip_by_value=None), complete_episodes=complete))
    made = acting.sample_episodes(4) if complete else acting.sample(5)
    (learned,) = acting.take_learned().values()
    raw = [0, 1, 2, 0, 1, 2]
    assert learned.count.tolist() == [6] * 4
    assert learned.mean[:, 0].tolist() == [np.mean(raw)] * 4
    assert made.columns["obs"][:3, 0, 0].tolist() == [0, 1, 2], "nothing is filtered before statistics are there"
    acting.set_statistics(with_learned({}, [{"0_MeanStdFilter": learned}]))
    begun = acting.sample(1).columns["obs"][0, 0, 0]
    assert begun == 2, "what was observed before is as it was"
    deviation = np.std(raw * 4, ddof=1)
    expected = (np.array([0, 1, 2]) - 1) / deviation
    np.testing.assert_allclose(acting.sample(3).columns["obs"][:, 0, 0], expected, rtol=1e-6)


def test_lanes_that_share_nothing_have_statistics_of_their_own() -> None:
    config = AlgorithmConfig().env_runners(observation_filter="MeanStdFilter", update_worker_filter_stats=False)
    made = blueprint(2)
    made = replace(
        made, observation_connectors=lambda learns: observation_connectors(config, spaces.Discrete(3), learns)
    )
    acting, alone = counting_sampler(made), counting_sampler(made, (2,))
    for sampler in (acting, alone):
        sampler.sample(5)
        sampler.take_learned()
        sampler.set_statistics(with_learned({}, [{"0_MeanStdFilter": moments_of(np.full((2, 1, 2), 1e6))}]))
    state = acting.state()
    second, single = acting.sample(5), alone.sample(5)
    np.testing.assert_array_equal(second.columns["obs"][:, 2], single.columns["obs"][:, 0])
    assert abs(second.columns["obs"][2:]).max() < 3
    elsewhere = counting_sampler(made, (3, 1))
    elsewhere.set_state(state)
    np.testing.assert_array_equal(elsewhere.sample(5).columns["obs"], second.columns["obs"][:, [3, 1]])


# -- in a run --------------------------------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "filter": FILTERED,
    "filter of episodes": {**FILTERED, "batch_mode": "complete_episodes"},
    "a filter of each lane": {**FILTERED, "update_worker_filter_stats": False},
    "frames": {"env_to_module_connector": lambda env: FrameStackingEnvToModule(num_frames=2)},
    "all": {**FILTERED, "env_to_module_connector": lambda: [FrameStackingEnvToModule(3), PrevActionsPrevRewards(2, 1)]},
    "before": {},
    "plain": {},
}
BEFORE = {
    "use_lstm": True,
    "lstm_cell_size": 8,
    "max_seq_len": 8,
    "lstm_use_prev_action": True,
    "lstm_use_prev_reward": True,
}


def config(kind: str, **more: Any) -> PPOConfig:
    """Return small settings with four lanes in all."""
    sampling = {"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **RUNS[kind], **more}
    model = {"fcnet_hiddens": [8], **(BEFORE if kind == "before" else {})}
    return (
        PPOConfig()
        .environment("CartPole-v1", clip_rewards=0.5)
        .env_runners(**sampling)
        .training(train_batch_size=64, minibatch_size=32, num_epochs=2, lr=1e-3, model=model)
        .evaluation(evaluation_duration=2)
        .debugging(seed=3)
    )


def trained(algorithm: PPO, iterations: int) -> bytes:
    """Return all parameters after some iterations."""
    for _ in range(iterations):
        algorithm.train()
    return algorithm.learner.weights.tobytes()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("kind", "runners"), [("filter", 1), ("filter", 4), *((kind, 2) for kind in RUNS)])
def test_any_number_of_runners_ends_with_the_same_bits(kind: str, runners: int) -> None:
    alone, many = PPO(config(kind)), PPO(config(kind, num_env_runners=runners))
    assert trained(alone, 3) == trained(many, 3)
    assert alone.evaluate()["hist_stats"] == many.evaluate()["hist_stats"]
    many.stop()


@pytest.mark.parametrize("kind", RUNS)
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    straight = PPO(config(kind))
    trained(straight, 2)
    path = straight.save(str(tmp_path))
    evaluated = straight.evaluate()["hist_stats"]
    expected = trained(straight, 2)
    resumed = PPO(config(kind))
    resumed.restore(path)
    assert resumed.evaluate()["hist_stats"] == evaluated
    assert trained(resumed, 2) == expected


@pytest.mark.usefixtures("session")
def test_a_checkpoint_of_two_runners_goes_on_in_none(tmp_path: Path) -> None:
    many = PPO(config("all", num_env_runners=2))
    trained(many, 2)
    path = many.save(str(tmp_path))
    expected = trained(many, 2)
    resumed = PPO(config("all"))
    resumed.restore(path)
    assert trained(resumed, 2) == expected
    many.stop()


def test_evaluations_and_single_actions_use_statistics_and_change_none() -> None:
    untouched, asked = PPO(config("filter")), PPO(config("filter"))
    trained(untouched, 1)
    trained(asked, 1)
    before = {name: found.arrays() for name, found in asked.runners.statistics.items()}
    assert before["0_MeanStdFilter"]["count"] == 68  # 64 steps, and what was observed first
    asked.evaluate()
    far = asked.runners.statistics["0_MeanStdFilter"].mean + 3 * asked.runners.statistics["0_MeanStdFilter"].deviation()
    rows = asked.inference.rows([far.astype(np.float32)])
    np.testing.assert_allclose(rows, [[3, 3, 3, 3]], rtol=1e-5)
    asked.compute_single_action(far.astype(np.float32), explore=False)
    for name, value in asked.runners.statistics["0_MeanStdFilter"].arrays().items():
        np.testing.assert_array_equal(value, before["0_MeanStdFilter"][name])
    assert trained(untouched, 1) == trained(asked, 1)


def test_replay_learns_with_connectors() -> None:
    settings = {**RUNS["all"], "num_envs": 2, "num_env_runners": 0}
    algorithm = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(**settings)
        .training(
            num_steps_sampled_before_learning_starts=8, train_batch_size=8, n_step=3, model={"fcnet_hiddens": [8]}
        )
        .debugging(seed=0)
        .build()
    )
    result = algorithm.train()
    assert np.isfinite(result["info"]["learner"]["default_policy"]["learner_stats"]["mean_q"])


# -- acting outside --------------------------------------------------------------------------------------------------


def test_a_single_action_of_stacked_frames_takes_the_last_observations() -> None:
    algorithm = PPO(config("frames"))
    one, two = np.zeros(4, np.float32), np.ones(4, np.float32)
    assert algorithm.inference.rows([[one, two], [two]]).tolist() == [[0] * 4 + [1] * 4, [1] * 8]
    assert algorithm.compute_single_action([one, two]) in (0, 1)
    with pytest.raises(SpaceError, match="this policy acts on the last 2 observations of an episode"):
        algorithm.compute_single_action(one)


def test_a_single_action_takes_the_action_and_the_reward_before() -> None:
    algorithm = PPO(config("before"))
    one = np.ones(4, np.float32)
    assert algorithm.inference.rows([one], ([1], [0.25])).tolist() == [[1, 1, 1, 1, 0, 1, 0.25]]
    assert algorithm.compute_single_action(one, prev_action=1, prev_reward=0.25, explore=False) in (0, 1)
    assert algorithm.inference.rows([one]).tolist() == [[1, 1, 1, 1, 0, 0, 0]]
    both = PPO(config("all"))
    with pytest.raises(SpaceError, match="give prev_action and prev_reward"):
        both.compute_single_action([one, one])


def test_an_episode_that_is_played_has_the_action_and_the_reward_before(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = PPO(config("before"))
    rows: list[list[float]] = []
    choose = algorithm.inference.choose

    def noted(inputs: Any, **more: Any) -> Any:
        rows.append(inputs[0].tolist())
        return choose(inputs, **more)

    monkeypatch.setattr(algorithm.inference, "choose", noted)
    (episode,) = played(algorithm, make_env(algorithm), steps=None, episodes=1, seed=0)
    done = [(0, 0, 0), *((step[1] == 0, step[1] == 1, step[3]) for step in episode.steps[:-1])]
    np.testing.assert_allclose([row[4:] for row in rows], np.array(done, np.float32))


# -- of the user's own -----------------------------------------------------------------------------------------------


class Doubled(ObservationConnector):
    """Doubles."""

    def __call__(self, rows: np.ndarray, previous: Previous | None) -> np.ndarray:
        """Return twice the rows."""
        return 2 * rows


class Halved:
    """A filter for a shape, as RLlib's first generation has them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, row: np.ndarray, update: bool = True) -> np.ndarray:
        """Return half the row; fail if it is to be learned from."""
        assert not update and row.shape == self.shape
        return row / 2


class OfEpisodes:
    """A connector of RLlib's own contract."""

    def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, explore: bool, shared_data: Any) -> Any:
        """Return the batch."""
        return batch


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"env_to_module_connector": lambda env, spaces, device: Doubled()}, [2.0] * 4),
        ({"env_to_module_connector": lambda: lambda rows: rows[:, :3] + 1}, [2.0] * 3),
        ({"observation_filter": Halved}, [0.5] * 4),
        ({"observation_filter": lambda shape: lambda row: row - 1}, [0.0] * 4),
        ({"env_to_module_connector": lambda env: []}, [1.0] * 4),
    ],
)
def test_connectors_of_the_users_own_are_taken(settings: dict[str, Any], expected: list[float]) -> None:
    algorithm = PPO(config("plain", **settings))
    assert algorithm.inference.rows([np.ones(4, np.float32)]).tolist() == [expected]
    algorithm.train()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_to_module_connector": lambda env: OfEpisodes()}, "OfEpisodes .* which can't be taken"),
        ({"env_to_module_connector": lambda env: Doubled}, "Doubled.*which can't be taken"),
        ({"env_to_module_connector": lambda env: "MeanStdFilter"}, "'MeanStdFilter', which can't be taken"),
        (
            {"env_to_module_connector": lambda: lambda rows: rows[:, 0].sum()},
            r"an array of shape \(\) for rows of shape",
        ),
        ({"observation_filter": lambda shape: 3}, "returned 3 for the shape"),
        ({"observation_filter": lambda shape: lambda row: row[:2]}, "a filter must keep the shape"),
    ],
)
def test_what_is_no_connector_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PPO(config("filter").env_runners(**settings))


def test_what_only_an_lstm_sees_is_refused_without_one() -> None:
    with pytest.raises(ConfigError, match=r"model\['lstm_use_prev_action'\] without use_lstm"):
        PPO(config("filter").training(model={"lstm_use_prev_action": True}))
    with pytest.raises(ConfigError, match="it does both"):
        MeanStdFilter(de_mean_to_zero=False)
