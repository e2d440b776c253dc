"""Programs of RLlib's first generation run by the names of Ray, with fewer iterations; and `import gym` without gym."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_compat_ray.run import environment_of

from kernel.testing.roots import temporary_root

pytest.importorskip("kernel_rllib", reason="it brings ray.rllib")

CORRIDOR = """
import gym
from gym.spaces import Discrete, Box

class SimpleCorridor(gym.Env):
    def __init__(self, config):
        self.end_pos = config["corridor_length"]
        self.cur_pos = 0
        self.action_space = Discrete(2)
        self.observation_space = Box(0.0, self.end_pos, shape=(1,))

    def reset(self):
        self.cur_pos = 0
        return [self.cur_pos]

    def step(self, action):
        if action == 0 and self.cur_pos > 0:
            self.cur_pos -= 1
        elif action == 1:
            self.cur_pos += 1
        done = self.cur_pos >= self.end_pos
        return [self.cur_pos], 1 if done else 0, done, {}
"""


NOT_HERE = """
from ray.rllib.agents.impala.vtrace_policy import VTraceTFPolicy
from ray.rllib.agents.ppo.appo_tf_policy import AsyncPPOTFPolicy
from ray.rllib.agents.marwil.marwil_policy import MARWILPolicy
from ray.rllib.agents.qmix.qmix_policy import QMixTorchPolicy
from ray.rllib.contrib.sumo.utils import SUMOUtils
from ray.rllib.contrib.maddpg.maddpg_policy import MADDPGTFPolicy
from ray.rllib.agents.ppo.ppo_tf_policy import PPOTFPolicy
from ray.rllib.agents.pg.pg_torch_policy import PGTorchPolicy
from ray.rllib.agents.a3c.a3c_torch_policy import A3CTorchPolicy
from ray.rllib.agents.dqn.simple_q_policy import SimpleQPolicy
from ray.rllib.env import BaseEnv; BaseEnv()
from ray.rllib.evaluation import SyncSampler; SyncSampler()
from ray.rllib.evaluation import collect_metrics; collect_metrics()
from ray.rllib.models import Model; Model()
from ray.rllib.models import VisionNetwork; VisionNetwork()
from ray.rllib.models.tf.tf_modelv2 import TFModelV2
from ray.rllib.models.tf.recurrent_tf_modelv2 import RecurrentTFModelV2
from ray.rllib.models.tf.tf_action_dist import Categorical
from ray.rllib.offline.mixed_input import MixedInput
from ray.rllib.optimizers import TorchDistributedDataParallelOptimizer; TorchDistributedDataParallelOptimizer()
from ray.rllib.utils import LinearSchedule; LinearSchedule()
from ray.rllib.utils import deprecation_warning; deprecation_warning("old")
from ray.rllib.utils.filter import MeanStdFilter
from ray.rllib.agent import Agent
"""
"""What the documents name and is not here: each line has to say why."""


def printed(program: str, tmp_path: Path) -> str:
    """Return what a program prints that is run as by `kernel ray-run`."""
    (tmp_path / "program.py").write_text(program)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KERNEL_", "RAY_"))}
    inherited |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HOME": str(tmp_path)}
    with temporary_root() as root:
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**environment_of(inherited, False), "KERNEL_TMPDIR": root},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_trials_of_tune_find_what_the_program_registered(tmp_path: Path) -> None:
    out = printed(
        CORRIDOR
        + """
import ray
from ray import tune
from ray.rllib.models import ModelCatalog
from ray.rllib.models.preprocessors import NoPreprocessor
from ray.tune.registry import register_env

class Shifted(NoPreprocessor):
    def transform(self, observation):
        return observation + 1

register_env("before", lambda config: SimpleCorridor(config))
ray.init(num_cpus=2)
register_env("after", lambda config: SimpleCorridor(config))
ModelCatalog.register_custom_preprocessor("shifted", Shifted)
config = {
    "env_config": {"corridor_length": 3}, "num_workers": 1, "train_batch_size": 20, "sgd_minibatch_size": 10,
    "num_sgd_iter": 1, "rollout_fragment_length": 20, "model": {"custom_preprocessor": "shifted"},
    "env": tune.grid_search(["before", "after"]),
}
done = tune.run("PPO", config=config, stop={"training_iteration": 1}, verbose=0)
print([trial.status for trial in done.trials])
""",
        tmp_path,
    )
    assert "['TERMINATED', 'TERMINATED']" in out


def test_the_basic_python_api_runs(tmp_path: Path) -> None:
    out = printed(
        """
import ray
import ray.rllib.agents.ppo as ppo
from ray.tune.logger import pretty_print

ray.init(num_cpus=2)
config = ppo.DEFAULT_CONFIG.copy()
config["num_gpus"] = 0
config["num_workers"] = 1
config["eager"] = False
config["train_batch_size"] = 200
trainer = ppo.PPOTrainer(config=config, env="CartPole-v0")

for i in range(1):
    result = trainer.train()
    assert "episode_reward_mean" in pretty_print(result)
    if i % 100 == 0:
        checkpoint = trainer.save()

trainer.restore(checkpoint)
weights = trainer.get_policy().get_weights()
same = trainer.workers.local_worker().policy_map["default_policy"].get_weights()
assert all((weights[name] == same[name]).all() for name in weights)
print(len(trainer.workers.foreach_worker(lambda ev: ev.get_policy().get_weights())))
print(len(trainer.workers.foreach_worker_with_index(lambda ev, i: ev.get_policy().get_weights())))
print(trainer.compute_action([0.0, 0.0, 0.0, 0.0]) in (0, 1))
""",
        tmp_path,
    )
    assert out == "2\n2\nTrue\n"


def test_an_environment_of_gym_is_trained_in_by_tune_and_by_trainers(tmp_path: Path) -> None:
    out = printed(
        CORRIDOR
        + """
from ray import tune
analysis = tune.run(
    "PPO",
    config={
        "env": SimpleCorridor,
        "num_workers": 1, "num_cpus_per_worker": 0, "train_batch_size": 200, "sgd_minibatch_size": 100,
        "env_config": {"corridor_length": 5}, "seed": 2},
    stop={"training_iteration": 1}, verbose=0)
print([trial.last_result["episodes_total"] > 3 for trial in analysis.trials])

from ray.rllib.agents.dqn import DQNTrainer
from ray.tune.registry import register_env
register_env("my_env", lambda env_config: SimpleCorridor({"corridor_length": 5}))
trainer = DQNTrainer(env="my_env", config={"num_workers": 0})
print(trainer.compute_single_action([0]) in (0, 1), trainer.get_config()["num_workers"])
print(sorted(trainer.compute_actions({"obs_1": [0], "obs_2": [1]})))
model = trainer.get_policy().model
output, _ = model.from_batch({"obs": [[1.0]]})
print(output.shape, trainer.get_policy().dist_class(output, model).sample().shape)
""",
        tmp_path,
    )
    assert out == "[True]\nTrue 0\n['obs_1', 'obs_2']\n(1, 256) (1,)\n"


BOOK = """
from ray.tune.logger import pretty_print
from ray.rllib.agents.dqn import DQNTrainer

trainer = DQNTrainer(env=Corridor, config={"num_workers": 4})
assert "num_workers" in trainer.get_config() and pretty_print(trainer.get_config())
result = trainer.train()
print(result["training_iteration"], result["num_healthy_workers"], pretty_print(result).count("episodes_total"))
checkpoint = trainer.save()
restored = DQNTrainer(env=Corridor, config={"num_workers": 0})
restored.restore(checkpoint)
here, there = (each.get_policy().get_weights() for each in (trainer, restored))
print(all((here[name] == there[name]).all() for name in here))
print(len(trainer.workers.foreach_worker(lambda each: each.get_policy().get_weights())))
print(sorted(trainer.compute_actions({"obs_1": [0], "obs_2": [1]})), trainer.compute_single_action([0]) in (0, 1))
"""
QUICK_START = """
from ray import tune
analysis = tune.run(
    "PPO", stop={"training_iteration": 1}, verbose=0,
    config={"env": Corridor, "num_workers": 4, "env_config": {"corridor_length": 5}, "train_batch_size": 800})
last = analysis.trials[0].last_result
print(last["num_healthy_workers"], last["episode_reward_mean"])
"""
TODAY = """
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig

config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=3)
algorithm = config.training(train_batch_size=300, minibatch_size=100, num_epochs=1).build()
print(algorithm.train()["env_runners"]["num_env_steps_sampled"], algorithm.train()["num_healthy_workers"])
algorithm.stop()
try:
    AlgorithmConfig().training(gamma=0.9, lr=0.01).build()
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (BOOK, "1 4 1\nTrue\n5\n['obs_1', 'obs_2'] True\n"),
        (QUICK_START, "4 1.0\n"),
        (TODAY, "300 3\nAlgorithmConfig names no algorithm, so nothing can be built of it: take the config of one, "
         "such as PPOConfig()\n"),
    ],
    ids=["book", "quick start of 0.8.5", "quick start of 2.x"],
)  # fmt: skip
def test_quick_starts_run_on_two_cpus(program: str, shown: str, tmp_path: Path) -> None:
    start = "import ray; ray.init(num_cpus=2)\n" + CORRIDOR.replace("SimpleCorridor", "Corridor")
    start = start.replace('config["corridor_length"]', 'config.get("corridor_length", 5)')
    assert printed(start + program, tmp_path) == shown


def test_gym_is_gymnasium_with_the_methods_that_gym_had(tmp_path: Path) -> None:
    out = printed(
        CORRIDOR
        + """
import gymnasium
assert Discrete is gymnasium.spaces.Discrete and gym.spaces is gymnasium.spaces
env = gym.make("CartPole-v0")
env.seed(3)
first = env.reset()
env.seed(3)
print((env.reset() == first).all(), len(env.step(0)), env.action_space, gym.make("Pendulum-v0").observation_space.shape)
gym.envs.registration.register(
    "Corridor-v0", SimpleCorridor, max_episode_steps=3, kwargs={"config": {"corridor_length": 50}})
env = gym.make("Corridor-v0")
env.reset()
print([env.step(1)[2:] for _ in range(3)])

class Half(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 2

class Shifted(gym.ObservationWrapper):
    def observation(self, observation):
        return observation + 10

env = Shifted(Half(gym.make("CartPole-v0")))
print(env.reset()[0] > 9, env.step(0)[1], env.observation_space.shape, env.unwrapped.spec.id)
""",
        tmp_path,
    )
    assert out == (
        "True 4 Discrete(2) (3,)\n"
        "[(False, {}), (False, {}), (True, {'TimeLimit.truncated': True})]\n"
        "True 0.5 (4,) CartPole-v0\n"
    )


def test_names_of_the_documents_are_there(tmp_path: Path) -> None:
    out = printed(
        """
import ray
import ray.rllib.ppo as ppo
import ray.utils
from ray.rllib.agents.pg import PGAgent, PGTrainer
from ray.rllib.env.group_agents_wrapper import _GroupAgentsWrapper
from ray.rllib.evaluation import MultiAgentEpisode
from ray.rllib.models import ActionDistribution, ModelCatalog, Preprocessor
from ray.rllib.utils import deep_update, softmax
from ray.rllib.utils.exploration.epsilon_greedy import EpsilonGreedy
from ray.rllib.utils.typing import AgentID, PolicyID
from ray.rllib.es import ESAgent
from ray.util import named_actors

assert PGAgent is PGTrainer
config = {**ppo.DEFAULT_CONFIG, "num_workers": 0, "train_batch_size": 200, "num_sgd_iter": 1}
print(ppo.PPOAgent("CartPole-v1", config).train()["timesteps_total"])
ray.init(num_cpus=2)

@ray.remote
class Counter:
    def __init__(self):
        self.count = 0
    def inc(self, n):
        self.count += n
    def get(self):
        return self.count

counter = Counter.remote()
named_actors.register_actor("global_counter", counter)
counter = named_actors.get_actor("global_counter")
counter.inc.remote(1)
print(ray.get(counter.get.remote()), len(ray.utils.get_user_temp_dir()) > 1)
for call in (lambda: named_actors.register_actor("global_counter", counter), lambda: named_actors.get_actor("no")):
    try:
        call()
    except ValueError as error:
        print(error)
""",
        tmp_path,
    )
    steps, first, taken, missing = out.splitlines()
    assert (steps, first) == ("200", "1 True")
    assert taken.startswith("an actor is already named 'global_counter'") and "'no'" in missing


def test_without_rllib_it_is_said_what_to_install(tmp_path: Path) -> None:
    out = printed(
        """
import kernel.entry_points as points
real = points.entry_points
points.entry_points = lambda group: [(name, package) for name, package in real(group) if "rllib" not in package]
import ray.tune
print(callable(ray.tune.run))
for line in ("import ray.rllib", "import ray.rllib.agents.ppo", "from ray.rllib.algorithms.ppo import PPOConfig"):
    try:
        exec(line)
    except ImportError as error:
        print(error)
""",
        tmp_path,
    )
    assert out.startswith("True\nthe library kernel.rllib is not installed: pip install ")
    assert out.count("the library kernel.rllib is not installed: pip install ") == len(out.splitlines()) - 1 == 3


def test_impala_and_appo_have_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.impala import DEFAULT_CONFIG, ImpalaTrainer
from ray.rllib.agents.ppo import APPOTrainer
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALA, IMPALAConfig, Impala, ImpalaConfig
print(Impala is IMPALA, ImpalaConfig is IMPALAConfig, DEFAULT_CONFIG["vtrace"], APPOConfig().vtrace)
for trainer in (ImpalaTrainer, APPOTrainer):
    settings = {"num_workers": 0, "train_batch_size": 100, "min_iter_time_s": 0, "seed": 1}
    made = trainer(env="CartPole-v0", config=settings)
    print(trainer._name, made.config["vtrace"], made.train()["timesteps_total"])
    made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True True True True", "IMPALA True 100", "APPO False 100"]


def test_explorations_and_example_environments_have_the_names_of_rllib(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.dqn import DQNTrainer
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.evaluation import MultiAgentSampleBatchBuilder
from ray.rllib.examples.env.correlated_actions_env import CorrelatedActionsEnv
from ray.rllib.examples.env.recommender_system_envs_with_recsim import InterestEvolutionRecSimEnv
from ray.rllib.examples.env.windy_maze_env import HierarchicalWindyMazeEnv, WindyMazeEnv
from ray.rllib.utils.exploration.curiosity import Curiosity
from ray.rllib.utils.exploration.parameter_noise import ParameterNoise

common = {"num_workers": 0, "min_iter_time_s": 0}
curious = {"type": Curiosity, "feature_dim": 8, "sub_exploration": {"type": "StochasticSampling"}}
ppo = {"train_batch_size": 200, "sgd_minibatch_size": 100, "num_sgd_iter": 1, "exploration_config": curious}
told = PPOTrainer(env="CartPole-v0", config={**common, **ppo}).train()["info"]["learner"]["default_policy"]
print(told["learner_stats"]["intrinsic_reward_mean"] > 0)
noisy = {"exploration_config": {"type": ParameterNoise, "initial_stddev": 0.2}}
for noise in ({"parameter_noise": True}, noisy):
    config = {**common, **noise, "batch_mode": "complete_episodes", "timesteps_per_iteration": 100}
    print(type(DQNTrainer(env="CartPole-v0", config=config).get_policy().exploration).__name__)
for made in (CorrelatedActionsEnv, InterestEvolutionRecSimEnv, HierarchicalWindyMazeEnv, WindyMazeEnv):
    made({}).reset()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True", "PolicyExploration", "PolicyExploration"]


def test_tqc_has_the_names_and_settings_of_rllib(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.algorithms.tqc import TQC, TQCConfig
from ray.rllib.algorithms.tqc.tqc import TQCConfig as same
config = TQCConfig().training(n_quantiles=5, n_critics=3, top_quantiles_to_drop_per_net=1, n_step=(2, 5), lr=None)
config.environment("Pendulum-v1").env_runners(num_env_runners=0).debugging(seed=1)
made = config.reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=100).build_algo()
print(same is TQCConfig, isinstance(made, TQC), made.train()["num_env_steps_sampled_lifetime"])
made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True True 100"]


@pytest.mark.parametrize("name", ["CQL", "CRR", "IQL"])
def test_offline_algorithms_have_the_names_of_rllib(name: str, tmp_path: Path) -> None:
    out = printed(
        f"""
from ray.rllib.algorithms.{name.lower()} import {name}, {name}Config
from ray.rllib.algorithms.{name.lower()}.{name.lower()} import {name}Config as same
config = {name}Config().environment("Pendulum-v1").training(train_batch_size=16)
config.offline_data(input_="kernel_rllib.experiments.swing_up_input.SwingUpInput", input_config={{"episodes": 2}})
made = config.env_runners(num_env_runners=0).debugging(seed=1).training(training_intensity=1.0).build()
print(same is {name}Config, isinstance(made, {name}), made.train()["num_env_steps_sampled_lifetime"] >= 200)
made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True True True"]


def test_qmix_has_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.qmix import DEFAULT_CONFIG, QMixTrainer
from ray.rllib.algorithms.qmix import QMix, QMixConfig
from ray.rllib.env.constants import GROUP_REWARDS
from ray.rllib.env.multi_agent_env import ENV_STATE
from ray.rllib.env.wrappers.open_spiel import OpenSpielEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from kernel.rllib import QMIX, QMIXConfig
from kernel.rllib.envs.games.two_step_game import grouped_two_step_game
print(QMix is QMIX, QMixConfig is QMIXConfig, DEFAULT_CONFIG["mixer"], ENV_STATE, GROUP_REWARDS)
settings = {"num_workers": 0, "learning_starts": 50, "min_iter_time_s": 0, "timesteps_per_iteration": 100, "seed": 1}
made = QMixTrainer(env=grouped_two_step_game, config={**settings, "mixer": "vdn"})
print(made._name, made.config["mixer"], made.train()["timesteps_total"])
made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True True qmix state _group_rewards", "QMIX vdn 100"]


def test_maddpg_has_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray import tune
from ray.rllib.agents.maddpg import MADDPGTrainer
from ray.rllib.algorithms.maddpg import MADDPG, MADDPGConfig
from ray.rllib.contrib.maddpg import DEFAULT_CONFIG, maddpg
from ray.rllib.contrib.maddpg.maddpg import MADDPGTrainer as Contributed
from ray.tune.registry import get_trainable_cls
from kernel.rllib.envs.games.two_step_game import TwoStepGame
print(Contributed is MADDPGTrainer is maddpg.MADDPGTrainer, MADDPGConfig().tau, DEFAULT_CONFIG["learning_starts"])
print(get_trainable_cls("contrib/MADDPG") is MADDPG)
policies = {f"of_{agent}": (None, None, None, {"agent_id": agent}) for agent in range(2)}
settings = {"num_workers": 0, "learning_starts": 50, "train_batch_size": 8, "timesteps_per_iteration": 100, "seed": 1}
multiagent = {"policies": policies, "policy_mapping_fn": lambda agent: f"of_{agent}"}
made = MADDPGTrainer(env=TwoStepGame, config={**settings, "multiagent": multiagent})
print(made._name, made.config["use_local_critic"], made.train()["timesteps_total"])
made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True 0.01 25600", "True", "MADDPG False 100"]


def test_what_learns_from_recorded_episodes_alone_has_the_names_of_2_x(tmp_path: Path) -> None:
    out = printed(
        """
import gymnasium
from ray.rllib.algorithms.dt import DT, DTConfig
from ray.rllib.offline.estimators import (
    DirectMethod, DoublyRobust, ImportanceSampling, OffPolicyEstimator, WeightedImportanceSampling
)
from ray.rllib.offline.estimators.fqe_torch_model import FQETorchModel
from ray.rllib.offline.estimators.importance_sampling import ImportanceSampling as Same
config = DTConfig().environment("CartPole-v1").debugging(seed=1)
config.training(target_return=50, horizon=500, embed_dim=8, num_layers=1, num_heads=1, embed_pdrop=0.1)
config.min_train_timesteps_per_iteration = 1
algo = config.build()
print(type(algo) is DT, algo.train()["training_iteration"])
env = gymnasium.make("CartPole-v1")
obs, _ = env.reset(seed=1)
input_dict = algo.get_initial_input_dict(obs)
for _ in range(3):
    action, _, extra = algo.compute_single_action(input_dict=input_dict)
    obs, reward, *_ = env.step(action)
    input_dict = algo.get_next_input_dict(input_dict, action, reward, obs, extra)
print(input_dict["prev_rewards"], Same is ImportanceSampling)
for kind in (DirectMethod, DoublyRobust):
    made = kind(algo.get_policy(), gamma=0.9, q_model_config={"type": FQETorchModel, "n_iters": 2, "tau": 0.5})
    print(isinstance(made, OffPolicyEstimator), type(made.model) is FQETorchModel)
algo.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True 1", "1.0 True", "True True", "True True"]


def test_ape_x_has_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.ddpg.apex import APEX_DDPG_DEFAULT_CONFIG, ApexDDPGTrainer
from ray.rllib.agents.dqn import ApexTrainer
from ray.rllib.agents.dqn.apex import APEX_DEFAULT_CONFIG
from ray.rllib.agents.registry import get_agent_class
from ray.rllib.algorithms.apex_ddpg import ApexDDPG, ApexDDPGConfig
from ray.rllib.algorithms.apex_dqn import ApexDQN, ApexDQNConfig
print(get_agent_class("APEX") is ApexTrainer, get_agent_class("APEX_DDPG") is ApexDDPGTrainer)
print(APEX_DEFAULT_CONFIG["n_step"], APEX_DDPG_DEFAULT_CONFIG["optimizer"]["num_replay_buffer_shards"])
for trainer, env in (ApexTrainer, "CartPole-v0"), (ApexDDPGTrainer, "Pendulum-v0"):
    settings = {
        "num_workers": 0, "learning_starts": 100, "train_batch_size": 32, "min_iter_time_s": 0,
        "timesteps_per_iteration": 200, "optimizer": {"num_replay_buffer_shards": 1}, "seed": 1,
    }
    made = trainer(env=env, config=settings)
    made.train()
    shard = made.train()["info"]["replay_shard_0"]
    print(trainer._name, shard["rows"] + 50 * shard["adds_in_flight"])
    made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True True", "3 4", "ApexDQN 400", "ApexDDPG 400"]


def test_contributed_algorithms_have_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray import tune
from ray.rllib.agents.bandit import BanditLinTSTrainer, BanditLinUCBTrainer
from ray.rllib.agents.registry import get_agent_class
from ray.rllib.algorithms.bandit import BanditConfig, BanditLinTS, BanditLinTSConfig, BanditLinUCB, BanditLinUCBConfig
from ray.rllib.contrib.bandits.agents import LinTSTrainer, LinUCBTrainer
from ray.rllib.contrib.bandits.agents.lin_ts import TS_CONFIG
from ray.rllib.contrib.bandits.agents.lin_ucb import UCB_CONFIG
from ray.rllib.contrib.bandits.envs import LinearDiscreteEnv, ParametricItemRecoEnv, WheelBanditEnv
from ray.rllib.contrib.bandits.examples.simple_context_bandit import SimpleContextualBandit
from ray.rllib.contrib.bandits.exploration import UCB, ThompsonSampling
from ray.rllib.contrib.random_agent.random_agent import RandomAgent
from ray.rllib.examples.env.bandit_envs_discrete import WheelBanditEnv as Wheel
from ray.rllib.utils.exploration import UpperConfidenceBound
from ray.rllib.utils.exploration.upper_confidence_bound import UpperConfidenceBound as Bound
from ray.rllib.agents.slateq import SlateQTrainer
from ray.rllib.algorithms.slateq import SlateQ, SlateQConfig
from ray.rllib.utils.exploration.slate_epsilon_greedy import SlateEpsilonGreedy
from kernel.rllib.envs.games.long_term_satisfaction import LongTermSatisfaction
print(issubclass(SlateQTrainer, SlateQ), SlateQConfig().fcnet_hiddens_per_candidate)
slates = {"num_workers": 0, "timesteps_per_iteration": 40, "min_iter_time_s": 0, "learning_starts": 20}
print(SlateQTrainer(env=LongTermSatisfaction, config=slates).train()["timesteps_total"])
print(LinTSTrainer is BanditLinTSTrainer, LinUCBTrainer is BanditLinUCBTrainer, UCB is UpperConfidenceBound is Bound)
print(get_agent_class("contrib/LinUCB") is LinUCBTrainer, Wheel is WheelBanditEnv, TS_CONFIG["timesteps_per_iteration"])
trainer = LinTSTrainer(config={**TS_CONFIG, "env": WheelBanditEnv, "model": {"alpha": 10.0}})
result = trainer.train()
print(result["timesteps_total"], "cumulative_regret" in result["info"]["learner"]["default_policy"]["learner_stats"])
for name, config in (
    ("contrib/LinUCB", {**UCB_CONFIG, "env": SimpleContextualBandit}),
    ("contrib/RandomAgent", {"env": "CartPole-v0", "rollouts_per_iteration": 3}),
):
    done = tune.run(name, config=config, stop={"training_iteration": 1}, verbose=0)
    print([trial.status for trial in done.trials])
""",
        tmp_path,
    )
    assert "True [256, 32]\n40\nTrue True True\nTrue True 100\n100 True\n" in out
    assert out.count("['TERMINATED']") == 2


def test_alpha_zero_has_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.registry import get_agent_class
from ray.rllib.agents.alpha_zero import AlphaZeroTrainer as Newer
from ray.rllib.algorithms.alpha_star import AlphaStar, AlphaStarConfig
from ray.rllib.algorithms.alpha_zero import AlphaZero, AlphaZeroConfig
from ray.rllib.contrib.alpha_zero.core.alpha_zero_trainer import DEFAULT_CONFIG, AlphaZeroTrainer
from ray.rllib.contrib.alpha_zero.environments.cartpole import CartPole
from ray.rllib.examples.env.cartpole_sparse_rewards import CartPoleSparseRewards
print(Newer is AlphaZeroTrainer is get_agent_class("contrib/AlphaZero"), issubclass(AlphaZeroTrainer, AlphaZero))
print(AlphaStarConfig().league_builder_config["num_learning_main_exploiters"], AlphaStar.__name__)
print(DEFAULT_CONFIG["ranked_rewards"]["percentile"], AlphaZeroConfig().mcts_config["temperature"])
config = {"num_workers": 0, "rollout_fragment_length": 10, "train_batch_size": 20, "sgd_minibatch_size": 10,
          "num_sgd_iter": 1, "mcts_config": {"num_simulations": 2}, "env_config": {"max_episode_steps": 10}}
print(AlphaZeroTrainer(env=CartPole, config=config).train()["timesteps_total"] >= 20, CartPole is CartPoleSparseRewards)
""",
        tmp_path,
    )
    assert out == "True True\n4 AlphaStar\n75.0 1.5\nTrue True\n"


def test_r2d2_has_the_names_of_all_releases(tmp_path: Path) -> None:
    out = printed(
        """
from ray.rllib.agents.dqn import R2D2Trainer
from ray.rllib.agents.dqn.r2d2 import R2D2_DEFAULT_CONFIG
from ray.rllib.algorithms.r2d2 import R2D2, R2D2Config
print(R2D2_DEFAULT_CONFIG["zero_init_states"], R2D2Config().burn_in_len, issubclass(R2D2Trainer, R2D2))
settings = {"num_workers": 0, "learning_starts": 50, "min_iter_time_s": 0, "timesteps_per_iteration": 100, "seed": 1}
made = R2D2Trainer(env="CartPole-v0", config={**settings, "burn_in": 4, "train_batch_size": 100})
print(made._name, made.config["burn_in"], made.train()["timesteps_total"] >= 100)
made.stop()
""",
        tmp_path,
    )
    assert out.splitlines() == ["True 0 True", "R2D2 4 True"]


def test_what_is_not_here_yet_says_so(tmp_path: Path) -> None:
    out = printed(
        f"LINES = {NOT_HERE!r}"
        """
try:
    from ray.rllib.algorithms.leela_chess_zero import LeelaChessZero
except ImportError as error:
    print(error)
from ray.rllib.policy import TFPolicy, build_tf_policy
unexplained = []
for line in LINES.strip().splitlines():
    try:
        exec(line)
    except Exception as error:
        if "not supported" in str(error) and "knows neither" not in str(error):
            continue
    unexplained.append(line)
print(unexplained)
for call in (TFPolicy, lambda: build_tf_policy(name="MyTFPolicy", loss_fn=print)):
    try:
        call()
    except Exception as error:
        print(error)
""",
        tmp_path,
    )
    late = "this algorithm comes in a later release; `rllib algorithms` lists those"
    assert f"ray.rllib.algorithms.leela_chess_zero is not supported on kernel: {late}" in out
    assert "\n[]\n" in out, out
    assert "losses and models in TensorFlow are not here yet; write them in torch, for build_torch_policy" in out
    assert "Write the loss in torch, and give it to build_torch_policy" in out


def test_a_policy_server_is_the_input_of_a_trainer(tmp_path: Path) -> None:
    out = printed(
        """
import threading

import gymnasium as gym
import ray
from ray.rllib.agents.ppo import PPOTrainer
from ray.rllib.env.policy_client import PolicyClient
from ray.rllib.env.policy_server_input import PolicyServerInput

env, inputs = gym.make("CartPole-v1"), []


def policy_input(context):
    inputs.append(PolicyServerInput(context, "localhost", 0))
    return inputs[-1]


def play():
    client = PolicyClient(f"http://localhost:{inputs[-1].server.port}", inference_mode="remote")
    try:
        while True:
            episode_id = client.start_episode(training_enabled=True)
            obs, _ = env.reset()
            done = False
            while not done:
                action = client.get_action(episode_id, obs)
                obs, reward, done, _, info = env.step(action)
                client.log_returns(episode_id, reward, info=info)
            client.end_episode(episode_id, obs)
    except Exception as error:
        print("the client got", type(error).__name__)


trainer = PPOTrainer(
    config={
        "env": None,
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "input": policy_input,
        "num_workers": 0,
        "input_evaluation": [],
        "train_batch_size": 200,
        "sgd_minibatch_size": 100,
    }
)
client = threading.Thread(target=play)
client.start()
for _ in range(2):
    result = trainer.train()
print(result["timesteps_total"], result["episode_len_mean"] > 5)
trainer.save()
trainer.stop()
client.join()
""",
        tmp_path,
    )
    assert "400 True\n" in out
    assert "the client got EnvError\n" in out
