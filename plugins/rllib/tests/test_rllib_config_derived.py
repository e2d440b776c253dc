"""What follows from settings: fragments, lanes, batches, resources, the config of evaluations."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.config import AlgorithmConfig

pytestmark = pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")


@pytest.mark.parametrize(
    ("batch", "runners", "copies", "lengths"),
    [
        (4000, 2, 1, [2000, 2000]),
        (2000, 2, 2, [500, 500]),
        (2500, 4, 3, [209, 209, 208, 208]),
        (512, 2, 20, [13, 13]),
        (500, 3, 1, [167, 167, 166]),
        (4001, 0, 2, [2001]),
        (4000, 0, 1, [4000]),
        (3, 8, 1, [1, 1, 1, 1, 1, 1, 1, 1]),
        (10, 3, 1, [4, 3, 3]),
    ],
)
def test_auto_fragments_make_up_the_batch(batch: int, runners: int, copies: int, lengths: list[int]) -> None:
    config = PPOConfig().training(train_batch_size=batch, minibatch_size=1)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=copies)
    found = [config.get_rollout_fragment_length(index + (runners > 0)) for index in range(max(runners, 1))]
    assert found == lengths
    total = sum(found) * copies
    assert batch <= total < batch + copies * max(runners, 1)
    if copies == 1 and runners and runners <= batch:
        assert total == batch
    config.validate()


@pytest.mark.parametrize("batch", range(1, 60, 7))
@pytest.mark.parametrize("runners", [1, 2, 3, 5])
def test_auto_fragments_of_single_environments_are_exactly_the_batch(batch: int, runners: int) -> None:
    config = PPOConfig().training(train_batch_size=batch).env_runners(num_env_runners=runners)
    total = sum(config.get_rollout_fragment_length(index) for index in range(1, runners + 1))
    assert total == max(batch, runners)


def test_a_total_of_environments_is_shared_and_does_not_depend_on_runners() -> None:
    config = PPOConfig().env_runners(num_envs=8).training(train_batch_size=1001)
    for runners in (0, 1, 2, 3, 4, 8):
        config.env_runners(num_env_runners=runners)
        lanes = [list(config.lanes_of(index + (runners > 0))) for index in range(max(runners, 1))]
        assert list(itertools.chain(*lanes)) == list(range(8)) and max(map(len, lanes)) - min(map(len, lanes)) <= 1
        assert {config.get_rollout_fragment_length(index) for index in range(runners + 1)} == {126}
        assert config.total_envs == 8
    each = PPOConfig().env_runners(num_env_runners=2, num_envs_per_env_runner=3)
    assert [each.lanes_of(index) for index in (0, 1, 2)] == [range(3), range(3), range(3, 6)]


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (PPOConfig().env_runners(rollout_fragment_length=50), 50),
        (DQNConfig(), 1),
        (DQNConfig().training(n_step=3), 3),
        (DQNConfig().training(n_step=(2, 5)), 5),
        (DQNConfig().env_runners(rollout_fragment_length=4), 4),
        (DQNConfig(generation="0.8.5"), 4),
        (DQNConfig(generation="0.8.5").training(n_step=10), 10),
        (SACConfig().training(n_step=2), 2),
        (A2CConfig().training(microbatch_size=20), 10),
        (A2CConfig().training(train_batch_size=100), 50),
        (DDPPOConfig(), 100),
        (DDPPOConfig(generation="0.8.5"), 100),
        (DDPPOConfig().training(train_batch_size=1), 1),
    ],
)
def test_fragments_are_as_the_algorithm_has_them(config: Any, length: int) -> None:
    assert config.get_rollout_fragment_length() == length


def test_batches_of_learners() -> None:
    config = PPOConfig().training(train_batch_size=4000)
    assert (config.train_batch_size_per_learner, config.total_train_batch_size) == (4000, 4000)
    config.learners(num_learners=4)
    assert (config.train_batch_size_per_learner, config.total_train_batch_size) == (1000, 4000)
    each = PPOConfig().training(train_batch_size_per_learner=500).learners(num_learners=4)
    assert (each.train_batch_size_per_learner, each.total_train_batch_size) == (500, 2000)
    assert each.to_dict()["train_batch_size_per_learner"] == 500
    assert PPOConfig().to_dict()["train_batch_size_per_learner"] is None
    assert DDPPOConfig(generation="0.8.5").total_train_batch_size == 100 * 5 * 2
    assert DDPPOConfig().total_train_batch_size == 500 * 2
    assert AlgorithmConfig().training(train_batch_size=-1).env_runners(num_env_runners=3).total_train_batch_size == 600


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (PPOConfig(), 4000),
        (DQNConfig(), 1000),
        (DQNConfig().env_runners(rollout_fragment_length=300), 1200),
        (AlgorithmConfig().env_runners(num_env_runners=2), 400),
    ],
)
def test_steps_of_an_iteration(config: Any, steps: int) -> None:
    assert config.steps_per_iteration == steps


def test_whether_there_are_several_policies_is_told_by_both_forms() -> None:
    for policies, several in (({"a"}, True), (["default_policy"], False), ({"default_policy", "a"}, True), ({}, False)):
        flag = AlgorithmConfig().multi_agent(policies=policies).is_multi_agent
        assert bool(flag) is flag() is several and repr(flag) == repr(several) and flag == several


@pytest.mark.parametrize(
    ("env", "said", "is_atari"),
    [
        ("ALE/Pong-v5", None, True),
        ("ale_py:ALE/Breakout-v5", None, True),
        ("PongNoFrameskip-v4", None, True),
        ("PongDeterministic-v4", None, True),
        ("CartPole-v1", None, False),
        (dict, None, False),
        ("CartPole-v1", True, True),
        ("ALE/Pong-v5", False, False),
    ],
)
def test_atari_games_are_known_by_their_names(env: Any, said: bool | None, is_atari: bool) -> None:
    assert AlgorithmConfig().environment(env, is_atari=said).uses_atari is is_atari


@pytest.mark.parametrize(
    ("source", "is_offline"),
    [
        ("sampler", False),
        ("/tmp/a", True),
        (["/tmp/a"], True),
        ({"sampler": 0.5, "/tmp/a": 0.5}, False),
        ({"/tmp/a": 1}, True),
        (len, False),
    ],
)
def test_whether_all_experience_is_read(source: Any, is_offline: bool) -> None:
    config = AlgorithmConfig().offline_data(input_=source)
    assert (config.is_offline, config.is_online) == (is_offline, not is_offline)


def test_gradients_are_clipped_by_a_rule() -> None:
    assert PPOConfig().grad_clipping is None
    assert DQNConfig().training(grad_clip_by="value").grad_clipping == (40.0, "value")


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
@pytest.mark.parametrize(
    ("config", "bundles"),
    [
        (AlgorithmConfig(), [{"CPU": 1}]),
        (PPOConfig().learners(num_gpus_per_learner=1), [{"CPU": 1, "GPU": 1}, {"CPU": 1}, {"CPU": 1}]),
        (PPOConfig().learners(num_learners=2, num_gpus_per_learner=1),
         [{"CPU": 1}, {"CPU": 1}, {"CPU": 1}, {"CPU": 0, "GPU": 1}, {"CPU": 0, "GPU": 1}]),
        (AlgorithmConfig().learners(num_learners=1, num_cpus_per_learner=3, num_aggregator_actors_per_learner=1),
         [{"CPU": 1}, {"CPU": 4}]),
        (AlgorithmConfig().learners(num_learners=1), [{"CPU": 1}, {"CPU": 1}]),
        (AlgorithmConfig().evaluation(evaluation_num_env_runners=2), [{"CPU": 1}]),
        (AlgorithmConfig().evaluation(evaluation_num_env_runners=2, evaluation_interval=1), [{"CPU": 1}] * 3),
        (AlgorithmConfig.from_dict({"evaluation_num_workers": 1, "num_workers": 1, "memory_per_worker": 9},
         generation="0.8.5"),
         [{"CPU": 1}, {"CPU": 1, "memory": 9}, {"CPU": 1, "memory": 9}]),
        (AlgorithmConfig().env_runners(num_env_runners=1, num_cpus_per_env_runner=0.5, num_gpus_per_env_runner=0.25,
                                       custom_resources_per_env_runner={"lab": 2}),
         [{"CPU": 1}, {"CPU": 0.5, "GPU": 0.25, "lab": 2}]),
    ],
)  # fmt: skip
def test_what_processes_reserve(config: Any, bundles: list[dict[str, float]]) -> None:
    assert config.resource_bundles() == bundles


def test_a_trial_reserves_what_its_processes_need() -> None:
    request = PPO.default_resource_request({"num_workers": 2, "num_cpus_per_worker": 0.5})
    assert request.bundles() == [{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}]
    spread = PPOConfig().env_runners(num_env_runners=1).resources(placement_strategy="SPREAD")
    request = PPO.default_resource_request(spread)
    assert (request.strategy, request.required_resources) == ("SPREAD", {"CPU": 2})
    # Its trial fails, and says why; the others of the experiment go on.
    assert PPO.default_resource_request({"lr": "fast"}).bundles() == [{"CPU": 1}]
    assert "num_cpus_per_env_runner=0" in PPO.resource_help({})


def test_the_config_of_evaluations_is_this_one_with_what_is_other() -> None:
    config = PPOConfig().environment("A", env_config={"a": 1}).env_runners(num_env_runners=4, num_envs=8)
    config.evaluation(
        evaluation_num_env_runners=2,
        evaluation_config={"explore": False, "env_config": {"b": 2}, "num_envs_per_worker": 3, "model": {"dim": 3}},
    )
    config.freeze()
    made = config.get_evaluation_config_object()
    assert made is not None and not made.is_frozen and type(made) is PPOConfig
    assert (made.in_evaluation, made.evaluation_config, made.explore) == (True, None, False)
    assert (made.env_config, made.model.dim) == ({"a": 1, "b": 2}, 3)
    assert (made.num_env_runners, made.num_envs, made.num_envs_per_env_runner) == (2, None, 3)
    assert (made.batch_mode, made.rollout_fragment_length) == ("complete_episodes", 1)
    assert made.get_evaluation_config_object() is None
    by = made.explain()
    assert (by["explore"].set_by, by["in_evaluation"].set_by) == ("evaluation_config", "evaluation")
    assert by["num_envs_per_env_runner"].set_by == "evaluation_config as num_envs_per_worker"
    made.validate()
    assert config.env_config == {"a": 1} and config.explore


@pytest.mark.parametrize(
    ("duration", "runners", "length"), [(200, 0, 200), (200, 3, 67), ("auto", 2, 100)]
)  # fmt: skip
def test_evaluations_that_count_steps_share_them(duration: Any, runners: int, length: int) -> None:
    config = PPOConfig().evaluation(
        evaluation_duration=duration, evaluation_duration_unit="timesteps", evaluation_num_env_runners=runners
    )
    made = config.get_evaluation_config_object()
    assert made is not None
    assert (made.batch_mode, made.rollout_fragment_length) == ("truncate_episodes", length)


def test_evaluations_may_have_a_config_of_their_own() -> None:
    own = PPOConfig().environment("B").training(gamma=0.5)
    config = PPOConfig().environment("A").evaluation(evaluation_config=own, evaluation_num_env_runners=1)
    made = config.get_evaluation_config_object()
    assert made is not None and (made.env, made.gamma, made.num_env_runners) == ("B", 0.5, 1)
    assert not own.in_evaluation
    assert config.to_dict()["evaluation_config"] is own and PPOConfig.from_dict(config.to_dict()) == config
    assert not config.is_default("evaluation_config") and config.explain()["evaluation_config"].value is own
    config.evaluation(evaluation_config={"explore": False})
    made = config.get_evaluation_config_object()
    assert made is not None and (made.env, made.explore, own.explore) == ("B", False, True)
    other = AlgorithmConfig().training(gamma=0.25)
    made = config.evaluation(evaluation_config=other).get_evaluation_config_object()
    assert made is not None and (made.env, made.gamma) == ("A", 0.25), "of another class: what was set in it"


def test_a_key_of_evaluation_that_there_is_not_is_refused_by_trainers() -> None:
    config = PPOConfig.from_dict({"evaluation_config": {"explor": False}}, generation="0.8.5")
    with pytest.raises(KeyError, match="PPOConfig has no setting 'explor'; did you mean 'explore'?"):
        config.get_evaluation_config_object()
