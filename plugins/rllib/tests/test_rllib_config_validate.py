"""Settings that contradict each other: each error names them with their values, and says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.alpha_star import AlphaStarConfig
from kernel_rllib.algorithms.alpha_zero import AlphaZeroConfig
from kernel_rllib.algorithms.apex_ddpg import ApexDDPGConfig
from kernel_rllib.algorithms.apex_dqn import ApexDQNConfig
from kernel_rllib.algorithms.apex_qmix import ApexQMIXConfig
from kernel_rllib.algorithms.appo import APPOConfig
from kernel_rllib.algorithms.ars import ARSConfig
from kernel_rllib.algorithms.bandit import BanditConfig, BanditLinTSConfig, BanditLinUCBConfig
from kernel_rllib.algorithms.bc import BCConfig
from kernel_rllib.algorithms.cql import CQLConfig
from kernel_rllib.algorithms.crr import CRRConfig
from kernel_rllib.algorithms.ddpg import DDPGConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.dreamer import DreamerConfig
from kernel_rllib.algorithms.dreamerv3 import DreamerV3Config
from kernel_rllib.algorithms.dt import DTConfig
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.impala import IMPALAConfig
from kernel_rllib.algorithms.iql import IQLConfig
from kernel_rllib.algorithms.iqn import IQNConfig
from kernel_rllib.algorithms.maddpg import MADDPGConfig
from kernel_rllib.algorithms.maml import MAMLConfig
from kernel_rllib.algorithms.marwil import MARWILConfig
from kernel_rllib.algorithms.mbmpo import MBMPOConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.algorithms.qmix import QMIXConfig
from kernel_rllib.algorithms.qrdqn import QRDQNConfig
from kernel_rllib.algorithms.r2d2 import R2D2Config
from kernel_rllib.algorithms.random_agent import RandomAgentConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.algorithms.simple_q import SimpleQConfig
from kernel_rllib.algorithms.slateq import SlateQConfig
from kernel_rllib.algorithms.td3 import TD3Config
from kernel_rllib.algorithms.tqc import TQCConfig
from kernel_rllib.config import AlgorithmConfig
from kernel_rllib.config.generations import GENERATIONS
from kernel_rllib.errors import ConfigError

ALL = (
    AlgorithmConfig, PGConfig, A2CConfig, A3CConfig, PPOConfig, DDPPOConfig, SimpleQConfig, DQNConfig, SACConfig,
    DDPGConfig, TD3Config, ESConfig, ARSConfig, IMPALAConfig, APPOConfig, QMIXConfig, QRDQNConfig,
    IQNConfig, MADDPGConfig, TQCConfig, ApexDQNConfig, ApexDDPGConfig, ApexQMIXConfig, MARWILConfig, BCConfig,
    BanditConfig, BanditLinUCBConfig, BanditLinTSConfig, RandomAgentConfig,
    R2D2Config, SlateQConfig, AlphaZeroConfig, AlphaStarConfig,
    MAMLConfig, MBMPOConfig, CQLConfig, DreamerV3Config, DreamerConfig, CRRConfig, DTConfig,
    IQLConfig,
)  # fmt: skip

OPE = {"is": {"type": "is"}}

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (PPOConfig, {"rollout_fragment_length": 1300},
     "rollout_fragment_length=1300 with num_env_runners=2 and num_envs_per_env_runner=1 gives 5200 steps, more than a "
     "tenth off train_batch_size=4000; set rollout_fragment_length to 'auto' or to 2000"),
    (PPOConfig, {"rollout_fragment_length": 1300, "num_learners": 2},
     "a tenth off train_batch_size=4000 (2000 x 2 learners); set rollout_fragment_length to 'auto' or to 2000"),
    (PPOConfig, {"rollout_fragment_length": 10_000, "num_env_runners": 0}, "gives 10000 steps, more than a tenth off"),
    (PGConfig, {"rollout_fragment_length": 10, "num_env_runners": 4, "train_batch_size": 1}, "to 'auto' or to 1"),
    (PGConfig, {"rollout_fragment_length": 150}, "gives 300 steps, more than a tenth off train_batch_size=200"),
    (A2CConfig, {"rollout_fragment_length": 20}, "gives 40 steps, more than a tenth off train_batch_size=32"),
    (PPOConfig, {"minibatch_size": 5000},
     "minibatch_size=5000 is more than the 4000 steps of a batch (train_batch_size_per_learner); make it smaller, or "
     "the batch larger"),
    (PPOConfig, {"minibatch_size": 3000, "num_learners": 2},
     "minibatch_size=3000 is more than the 2000 steps of a batch"),
    (PPOConfig, {"train_batch_size": 3000, "train_batch_size_per_learner": 500, "num_learners": 2},
     "train_batch_size=3000 and train_batch_size_per_learner=500 (x 2 learners = 1000) disagree; give one of them"),
    (PPOConfig, {"use_gae": False},
     "use_gae=False sums rewards to the ends of episodes, but batch_mode='truncate_episodes' cuts them; set batch_mode "
     "to 'complete_episodes'"),
    (PPOConfig, {"use_critic": False},
     "use_gae=True needs the value function that use_critic=False leaves out; set one of them otherwise"),
    (A3CConfig, {"use_critic": False}, "use_gae=True needs the value function that use_critic=False leaves out"),
    (A3CConfig, {"num_env_runners": 0}, "sample_async=True needs runners, but num_env_runners=0; set that to 1, or"),
    (A2CConfig, {"microbatch_size": 100, "train_batch_size": 50},
     "microbatch_size=100 is more than train_batch_size=50; make it smaller, or None"),
    (A2CConfig, {"microbatch_size": 8, "num_learners": 2},
     "microbatch_size=8 is for one learner; set num_learners to 0"),
    (DDPPOConfig, {"num_env_runners": 0},
     "num_env_runners=0 leaves nobody to learn, as workers do it themselves; set it"),
    (DDPPOConfig, {"batch_mode": "complete_episodes"},
     "batch_mode='complete_episodes' makes batches of different sizes, whose gradients can't be averaged; set it to"),
    (DDPPOConfig, {"num_gpus_per_learner": 1}, "num_gpus=1 is for a learner, and there is none; set it to 0 and"),
    (DDPPOConfig, {"kl_coeff": 0.2}, "kl_coeff=0.2: workers can't adapt it together; set it to 0"),
    (DQNConfig, {"n_step": 3, "rollout_fragment_length": 2},
     "rollout_fragment_length=2 is shorter than n_step=3; set it to 'auto' or to 3"),
    (SACConfig, {"n_step": (1, 5), "rollout_fragment_length": 4},
     "is shorter than n_step=(1, 5); set it to 'auto' or to 5"),
    (DQNConfig, {"v_min": 1.0, "v_max": 1.0, "num_atoms": 51},
     "v_min=1.0 is not below v_max=1.0; returns of atoms lie"),
    (DQNConfig, {"noisy": True, "exploration_config": {"type": "ParameterNoise"}, "batch_mode": "complete_episodes"},
     "noisy=True and exploration_config type='ParameterNoise' both change weights; give one of them"),
    (DQNConfig, {"exploration_config": {"type": "ParameterNoise"}},
     "exploration_config type='ParameterNoise' changes parameters once an episode, but batch_mode='truncate_episodes'"),
    (DQNConfig, {"epsilon": 0.5, "exploration_config": {"final_epsilon": 0.1}}, "disagree; give one of them"),
    (DQNConfig, {"burn_in_len": 20, "model": {"use_lstm": True}},
     "burn_in_len=20 leaves nothing of model max_seq_len=20 to learn from; make it smaller"),
    (ARSConfig, {"rollouts_used": 33},
     "rollouts_used=33 of num_rollouts=32 can't be used; make the one smaller or the"),
    (AlgorithmConfig, {"evaluation_duration": "auto"},
     "evaluation_duration='auto' is as long as the training beside it, but evaluation_parallel_to_training=False; set "
     "that to True, or the duration to a number"),
    (AlgorithmConfig, {"evaluation_parallel_to_training": True},
     "evaluation_parallel_to_training=True needs runners of its own, but evaluation_num_env_runners=0; set that to"),
    (AlgorithmConfig, {"evaluation_auto_duration_min_env_steps_per_sample": 3000},
     "evaluation_auto_duration_min_env_steps_per_sample=3000 is more than "
     "evaluation_auto_duration_max_env_steps_per_sample=2000; exchange them"),
    (AlgorithmConfig, {"off_policy_estimation_methods": OPE},
     "off_policy_estimation_methods=['is'] need recorded data, but input_='sampler'; set input_ by offline_data(), or"),
    (AlgorithmConfig, {"policies": ["left", "right"], "policies_to_train": ["lefd"]},
     "policies_to_train has 'lefd', which is not one of policies; did you mean 'left'?"),
    (AlgorithmConfig, {"policies": ["left", "right"], "policies_to_train": ["up"]},
     "policies_to_train has 'up', which is not one of policies; there are left, right"),
    (AlgorithmConfig, {"num_envs": 2, "num_env_runners": 3},
     "num_envs=2 copies don't suffice for num_env_runners=3; each needs one at least"),
    (AlgorithmConfig, {"num_envs": 8, "num_env_runners": 2, "num_envs_per_env_runner": 3},
     "num_envs=8 and num_envs_per_env_runner=3 (x 2 runners) disagree; give one of them"),
    (AlgorithmConfig, {"create_local_env_runner": False},
     "create_local_env_runner=False and num_env_runners=0 leave nobody to sample; set num_env_runners to 1"),
    (AlgorithmConfig, {"soft_horizon": True},
     "soft_horizon=True has no effect with horizon=None; set horizon to a number"),
    (AlgorithmConfig, {"recovery": "exact", "ignore_env_runner_failures": True},
     "recovery='exact' and ignore_env_runner_failures=True disagree; give one of them"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")
@pytest.mark.parametrize(("kind", "given", "said"), WRONG)
def test_settings_that_contradict_each_other_are_refused(kind: Any, given: dict[str, Any], said: str) -> None:
    config = kind.from_dict(given)
    with pytest.raises(ConfigError) as raised:
        config.validate()
    assert str(raised.value).startswith(f"{kind.__name__}: ") and said in str(raised.value)
    assert "contradictions" not in str(raised.value), "there is one"


def test_recovery_and_an_older_switch_that_disagree_are_refused() -> None:
    config = AlgorithmConfig().fault_tolerance(recovery="ignore", restart_failed_env_runners=True)
    with pytest.raises(ConfigError, match="recovery='ignore' and restart_failed_env_runners=True disagree; give one"):
        config.validate()


RIGHT: list[tuple[Any, dict[str, Any]]] = [
    (PPOConfig, {"rollout_fragment_length": 200}),
    (PPOConfig, {"rollout_fragment_length": 2200}),
    (PPOConfig, {"rollout_fragment_length": 2000}),
    (PPOConfig, {"rollout_fragment_length": 1300, "train_batch_size": -1}),
    (PPOConfig, {"rollout_fragment_length": 1300, "in_evaluation": True}),
    (PPOConfig, {"use_gae": False, "batch_mode": "complete_episodes"}),
    (PPOConfig, {"use_gae": False, "use_critic": False, "batch_mode": "complete_episodes"}),
    (PPOConfig, {"train_batch_size": 1000, "train_batch_size_per_learner": 500, "num_learners": 2}),
    (PPOConfig, {"lr": [[0, 1e-3], [10, 0.0]]}),
    (PPOConfig, {"train_batch_size": 500, "train_batch_size_per_learner": 500}),
    (A3CConfig, {"num_env_runners": 0, "sample_async": False}),
    (DQNConfig, {"epsilon": 0.5}),
    (DQNConfig, {"exploration_config": {"type": "SoftQ"}}),
    (DQNConfig, {"n_step": 3}),
    (DQNConfig, {"exploration_config": {"type": "ParameterNoise"}, "batch_mode": "complete_episodes"}),
    (AlgorithmConfig, {"evaluation_duration": "auto", "evaluation_parallel_to_training": True,
                       "evaluation_num_env_runners": 1}),
    (AlgorithmConfig, {"evaluation_parallel_to_training": True, "num_offline_eval_runners": 1}),
    (AlgorithmConfig, {"off_policy_estimation_methods": OPE, "input_": "/tmp/a"}),
    (AlgorithmConfig, {"num_envs": 8, "num_env_runners": 2, "num_envs_per_env_runner": 4}),
    (AlgorithmConfig, {"create_local_env_runner": False, "num_env_runners": 1}),
    (AlgorithmConfig, {"create_local_env_runner": False, "input_": "/tmp/a"}),
    (AlgorithmConfig, {"recovery": "exact"}),
    (AlgorithmConfig, {"recovery": "ignore", "ignore_env_runner_failures": True}),
    (AlgorithmConfig, {"soft_horizon": True, "horizon": 10}),
    (AlgorithmConfig, {"policies": ["a"], "policies_to_train": lambda policy, batch: True}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), RIGHT)
def test_settings_that_go_together_are_not(kind: Any, given: dict[str, Any]) -> None:
    config = kind.from_dict(given)
    config.validate()
    assert list(config.problems()) == []


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_all_defaults_go_together(kind: Any, generation: Any) -> None:
    config = kind(generation=generation)
    config.validate()
    kind.from_dict(kind.default_dict(generation), generation=generation).validate()
    evaluation = config.get_evaluation_config_object()
    assert evaluation is not None
    evaluation.validate()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (PPOConfig, {"rollout_fragment_length": 1300}),
        (DQNConfig, {"n_step": 10, "exploration_config": {"type": "ParameterNoise"}}),
        (AlgorithmConfig, {"evaluation_parallel_to_training": True, "input_evaluation": ["is"]}),
        (A3CConfig, {"num_env_runners": 0}),
    ],
)
def test_trainers_of_0_8_5_have_their_own_customs(kind: Any, given: dict[str, Any]) -> None:
    assert list(kind.from_dict(given, generation="0.8.5").problems()) == []
    assert list(kind.from_dict(given).problems()) != []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"evaluation_config": {"explor": False}},
         "evaluation_config sets 'explor', which is no setting; did you mean 'explore'?"),
        ({"multiagent": {"policies": {"a": (None, None, None, {"gama": 1})}}},
         "policies['a'] sets 'gama', which is no setting; did you mean 'gamma'?"),
        ({"train_batch_size": 77},
         "train_batch_size=77 follows from the fragments here; set it to -1, and rollout_fragment_length"),
    ],
)  # fmt: skip
def test_trainers_of_0_8_5_refuse_what_they_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        DDPPOConfig.from_dict(given, generation="0.8.5").validate()
    assert said in str(raised.value)


def test_all_contradictions_are_told_at_once() -> None:
    config = PPOConfig().training(minibatch_size=9000).evaluation(evaluation_duration="auto")
    with pytest.raises(ConfigError) as raised:
        config.validate()
    first, *lines = str(raised.value).splitlines()
    assert first == "PPOConfig: 2 contradictions:"
    assert [line[:20] for line in lines] == ["- minibatch_size=900", "- evaluation_duratio"]


def test_contradictions_are_logged_where_they_are_not_to_be_errors(caplog: pytest.LogCaptureFixture) -> None:
    config = PPOConfig().training(minibatch_size=9000).experimental(_validate_config=False)
    config.validate()
    (record,) = caplog.records
    assert record.name == "kernel.rllib"
    assert record.getMessage().startswith("settings of PPOConfig contradict each other: minibatch_size=9000")


def test_the_rule_of_a_tenth_can_be_asked_alone() -> None:
    config = AlgorithmConfig().env_runners(rollout_fragment_length=70)
    with pytest.raises(ConfigError, match="gives 70 steps, more than a tenth off train_batch_size=32"):
        config.validate_train_batch_size_vs_rollout_fragment_length()
    config.validate()
    AlgorithmConfig().training(train_batch_size=200).validate_train_batch_size_vs_rollout_fragment_length()


def test_a_users_class_has_rules_of_its_own() -> None:
    class Mine(PPOConfig):
        def validate(self) -> None:
            super().validate()
            if self.gamma == 1:
                self._value_error("`gamma` must not be 1!")

    with pytest.raises(ValueError, match="Mine: `gamma` must not be 1!"):
        Mine().training(gamma=1).validate()


def test_exploration_by_a_schedule_or_by_a_class() -> None:
    greedy = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_timesteps": 10_000}
    assert DQNConfig().exploration_settings == {"type": "EpsilonGreedy", "epsilon": [[0, 1.0], [10_000, 0.05]]}
    assert DQNConfig(generation="0.8.5").exploration_settings == greedy == SimpleQConfig().exploration_settings
    soft = DQNConfig().exploration(exploration_config={"type": "SoftQ"})
    assert soft.exploration_settings == {"type": "SoftQ"}
    assert DQNConfig().training(epsilon=0.5).exploration_settings == {"type": "EpsilonGreedy", "epsilon": 0.5}


@pytest.mark.parametrize(
    ("generation", "given", "recovery"),
    [
        ("current", {}, "recreate"),
        ("2.x", {}, None),
        ("0.8.5", {"ignore_worker_failures": True}, "ignore"),
        ("2.x", {"recreate_failed_workers": True, "ignore_worker_failures": True}, "recreate"),
        ("current", {"restart_failed_env_runners": False}, None),
        ("current", {"recovery": "exact"}, "exact"),
    ],
)
def test_what_becomes_of_lost_runners(generation: Any, given: dict[str, Any], recovery: str | None) -> None:
    assert AlgorithmConfig.from_dict(given, generation=generation).recovery == recovery
