"""Trainers and policies of the first generation: their defaults, their methods, and policies that users write."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.config.defaults import with_common_config
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.registry import register_env
from kernel_rllib.errors import ConfigError, DataError, ModuleError, RLlibError, UnknownSettingError
from kernel_rllib.first_generation.building import build_trainer
from kernel_rllib.first_generation.frameworks import override, try_import_torch
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.postprocessing import compute_advantages
from kernel_rllib.first_generation.rollout_worker import RolloutWorker, WorkerSet
from kernel_rllib.first_generation.sample_batch_builder import SampleBatchBuilder
from kernel_rllib.first_generation.tf_policy import build_tf_policy
from kernel_rllib.first_generation.trainer import Trainer
from kernel_rllib.first_generation.trainers import default_config, trainer_class
from kernel_rllib.testing.console import Console
from kernel_rllib.training.registry import ALGORITHMS

import kernel

SMALL = {
    "num_workers": 0,
    "train_batch_size": 64,
    "rollout_fragment_length": 32,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 1,
    "model": {"fcnet_hiddens": [8]},
    "seed": 4,
}
COMMON = {"env": "CartPole-v0", "num_workers": 0, "train_batch_size": 40, "rollout_fragment_length": 20, "seed": 4}


def test_every_algorithm_has_a_trainer_with_the_defaults_of_0_8_5() -> None:
    for name in ALGORITHMS:
        trainer = trainer_class(name)
        assert trainer is trainer_class(name) and trainer.__name__ == f"{name}Trainer"
        assert pickle.loads(cloudpickle.dumps(trainer)) is trainer
        assert default_config(name)["num_gpus"] == 0
    assert PPOConfig().generation == "current"
    trainer = trainer_class("PPO")(config=SMALL, env="CartPole-v0")
    assert trainer.config.generation == "0.8.5" and isinstance(trainer, PPO)
    assert trainer.get_config()["num_workers"] == 0 and trainer.config["lr"] == default_config("PPO")["lr"]


def test_a_default_config_can_be_copied_changed_and_given(tmp_path: Any) -> None:
    config = default_config("PPO").copy()
    config |= SMALL
    config["eager"] = False
    trainer = trainer_class("PPO")(config=config, env="CartPole-v0")
    result = trainer.train()
    assert result["training_iteration"] == 1 and result["timesteps_total"] == 64
    path = trainer.save(str(tmp_path / "checkpoint_1"))
    resumed = trainer_class("PPO")(config=config, env="CartPole-v0")
    resumed.restore(f"{path}/checkpoint-1")  # as 0.8.5 had it
    assert resumed.train()["episode_reward_mean"] == trainer.train()["episode_reward_mean"]
    assert resumed.optimizer.stats() == {"num_steps_sampled": 128, "num_steps_trained": trainer.env_steps_trained}


@pytest.mark.parametrize("name", ["A3C", "DQN", "PPO", "SAC"])
def test_a_trainer_of_ones_own_may_have_the_defaults_of_any_algorithm(name: str) -> None:
    made = build_trainer(name="Mine", default_policy=FirstAction, default_config=default_config(name))
    quick = {"train_batch_size": 128, "rollout_fragment_length": 32, "min_iter_time_s": 0, "timesteps_per_iteration": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # what the defaults have is nobody's mistake
        trainer = made(config={**COMMON, **quick})
    assert trainer.train()["timesteps_total"] == 128
    with pytest.raises(ConfigError, match="no algorithm acts on fake_sampler yet"):
        made(config={**COMMON, **quick, "fake_sampler": True})


def test_what_a_trainer_of_ones_own_is_given_beyond_its_defaults_has_to_have_an_effect() -> None:
    made = build_trainer(name="Mine", default_policy=FirstAction)
    with pytest.raises(ConfigError, match=r"Mine does not act on sample_async, as A3C does\. So the result"):
        made(config={**COMMON, "sample_async": True})


class FirstAction(Policy):
    """Takes the first action always."""

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, **further: Any) -> Any:
        """Return 0 for each row."""
        return [0] * len(obs_batch), [], {}


def test_a_wrong_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSettingError, match="PPO has no setting 'num_worker'; did you mean 'num_workers'"):
        trainer_class("PPO")(config={"num_worker": 2}, env="CartPole-v0")


def test_a_trainer_with_updates_calls_what_it_was_given() -> None:
    called: list[str] = []
    made = trainer_class("PPO").with_updates(
        name="MyPPO",
        default_config={**default_config("PPO"), "mine": 3},
        validate_config=lambda config: called.append(f"validate {config['mine']}"),
        before_init=lambda trainer: called.append("before"),
        after_init=lambda trainer: called.append("after"),
        before_train_step=lambda trainer: called.append("step"),
        after_optimizer_step=lambda trainer, fetches: called.append("update"),
        after_train_result=lambda trainer, result: result.update(more=trainer.state["a"]),
        get_initial_state=lambda trainer: {"a": 7},
    )
    result = made(config={**SMALL, "mine": 5}, env="CartPole-v0").train()
    assert made.__name__ == "MyPPO" and result["more"] == 7
    assert called == ["validate 5", "before", "after", "step", "update", "update"]
    with pytest.raises(ConfigError, match="make_policy_optimizer= can't be honoured: trainers take no policy"):
        made.with_updates(make_policy_optimizer=print)
    with pytest.raises(ConfigError, match="a trainer has no after_init_=; did you mean 'after_init'"):
        made.with_updates(after_init_=print)
    with pytest.raises(ConfigError, match="MyPPO learns by its own loss, so it can't be given the policy Counting"):
        made.with_updates(default_policy=Counting)


class RandomAgent(Trainer):
    """Acts at random and never learns, as the guide to contributions has it."""

    _name = "RandomAgent"
    _default_config = with_common_config({"rollouts_per_iteration": 10})

    @override(Trainer)
    def _init(self, config: Any, env_creator: Any) -> None:
        self.env = env_creator(config["env_config"])

    @override(Trainer)
    def _train(self) -> dict[str, Any]:
        rewards, steps = [], 0
        for _ in range(self.config["rollouts_per_iteration"]):
            self.env.reset()
            done, reward = False, 0.0
            while not done:
                _, r, done, _ = self.env.step(self.env.action_space.sample())
                reward += r
                steps += 1
            rewards.append(reward)
        return {"episode_reward_mean": np.mean(rewards), "timesteps_this_iter": steps}


def test_a_trainer_may_prepare_and_train_by_itself() -> None:
    trainer = RandomAgent(config={"rollouts_per_iteration": 2}, env="CartPole-v0")
    result = trainer.train()
    assert result["episode_reward_mean"] == result["timesteps_this_iter"] / 2 > 5
    assert trainer.train()["timesteps_total"] > result["timesteps_total"]
    trainer.stop()
    with pytest.raises(UnknownSettingError, match="RandomAgent has no setting 'rollouts'"):
        RandomAgent(config={"rollouts": 2}, env="CartPole-v0")


class Remembering(RandomAgent):
    """Overrides what is left by its name of then."""

    seen = 0

    def _save(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"seen": self.seen}

    def _restore(self, checkpoint: Any) -> None:
        self.seen = checkpoint["seen"]

    def _log_result(self, result: dict[str, Any]) -> None:
        super()._log_result(result)
        self.seen += 1

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return {name: export_dir for name in export_formats} | super()._export_model(export_formats, export_dir)

    def _stop(self) -> None:
        super()._stop()
        self.seen = -1


def test_methods_of_then_are_called_by_their_names(tmp_path: Path) -> None:
    trainer = Remembering(config={"rollouts_per_iteration": 1}, env="CartPole-v0")
    trainer.train()
    saved = trainer.save(str(tmp_path / "saved"))
    trainer.train()
    assert trainer.seen == 2 and trainer.export_model("h5", "/there") == {"h5": "/there"}
    trainer.restore(saved)
    assert trainer.seen == 1
    trainer.stop()
    assert trainer.seen == -1
    forgetful = RandomAgent(config={"rollouts_per_iteration": 1}, env="CartPole-v0")
    with pytest.raises(NotImplementedError, match=r"RandomAgent has no save_checkpoint\(\) and load_checkpoint\(\)"):
        forgetful.save(str(tmp_path / "other"))
    with pytest.raises(NotImplementedError, match=r"RandomAgent has no load_checkpoint\(\)"):
        forgetful.restore(saved)


class Looking(Trainer):
    """Keeps the environment that it was given a maker of."""

    def _init(self, config: Any, env_creator: Any) -> None:
        self.env = env_creator(config["env_config"])


def test_trainers_and_workers_see_games_of_atari_as_algorithms_do() -> None:
    register_env("ConsoleNoFrameskip-v4", Console)
    for preference, shape in (("deepmind", (84, 84, 4)), ("rllib", (210, 160, 3))):
        trainer = Looking(config={"preprocessor_pref": preference}, env="ConsoleNoFrameskip-v4")
        assert trainer.env.observation_space.shape == trainer.env.reset().shape == shape
    batch = RolloutWorker(lambda config: Console(), Counting, rollout_fragment_length=3, num_envs=1, seed=1).sample()
    assert batch["obs"].shape == (3, 84, 84, 4) and batch["rewards"].tolist() == [1.0, 1.0, 1.0], "signs of rewards"
    worker = RolloutWorker(
        lambda config: Console(),
        Counting,
        rollout_fragment_length=3,
        preprocessor_pref=None,
        policy_config={"clip_rewards": False},
    )
    batch = worker.sample()
    assert batch["obs"].shape == (3, 210, 160, 3) and batch["rewards"].tolist() == [2.0, 2.0, 2.0]


class Counting(Policy):
    """Counts the steps of an episode from 5 on, acts by them, and counts how often it has learned."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any) -> None:
        Policy.__init__(self, observation_space, action_space, config)
        self.learned = 0

    def get_initial_state(self) -> list[Any]:
        return [5]

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, *args: Any, **named: Any) -> Any:
        steps = state_batches[0]
        info = {"some_value": ["foo" for _ in obs_batch], "other_value": [self.learned for _ in obs_batch]}
        return [int(step) % 2 for step in steps], [[step + 1 for step in steps]], info

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        for episode in samples.split_by_episode():
            assert (np.diff(episode["state_in_0"]) == 1).all()
        assert (samples["state_out_0"] == samples["state_in_0"] + 1).all()
        assert (samples["actions"] == samples["state_in_0"] % 2).all()
        assert set(samples["some_value"]) == {"foo"} and set(samples["other_value"]) == {self.learned}
        self.learned += 1
        return {"first": samples["state_in_0"].min()}

    def get_weights(self) -> dict[str, Any]:
        return {"learned": self.learned}

    def set_weights(self, weights: Any) -> None:
        self.learned = weights["learned"]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_policy_of_ones_own_acts_learns_and_is_sent_to_all_workers(workers: int) -> None:
    trainer = build_trainer(name="Mine", default_policy=Counting)(
        config={**COMMON, "num_workers": workers, "num_cpus_per_worker": 0}
    )
    for _ in range(2):
        result = trainer.train()
    assert result["info"]["learner"]["default_policy"]["learner_stats"] == {"first": 5.0}
    assert trainer.workers.foreach_worker(lambda worker: worker.get_policy().learned) == [2] * (workers + 1)
    assert trainer.get_policy().learned == 2
    assert trainer.compute_action(np.zeros(4)) == 1
    assert trainer.compute_action(np.zeros(4), state=[8]) == (0, [9], {"some_value": "foo", "other_value": 2})
    path = trainer.save()
    trainer.train()
    trainer.restore(path)
    assert trainer.workers.foreach_worker(lambda worker: worker.get_policy().learned) == [2] * (workers + 1)
    trainer.stop()


def test_what_a_policy_returns_wrongly_is_said() -> None:
    class Few(Policy):
        def compute_actions(self, obs_batch: Any, *args: Any, **named: Any) -> Any:
            return [0] * (len(obs_batch) + 1), [], {}

    class Texts(Few):
        def get_initial_state(self) -> list[Any]:
            return ["foo"]

    with pytest.raises(ModuleError, match=r"Few.compute_actions\(\) returned 2 actions for 1 observations"):
        build_trainer(name="Mine", default_policy=Few)(config=COMMON).train()
    with pytest.raises(ModuleError, match=r"Texts.get_initial_state\(\) has 'foo' in it"):
        build_trainer(name="Mine", default_policy=Texts)(config=COMMON)
    with pytest.raises(ConfigError, match="Mine was given the policy 'PPO': give a class that is derived from Policy"):
        build_trainer(name="Mine", default_policy="PPO")(config=COMMON)
    with pytest.raises(ConfigError, match="evaluation_num_workers is above 0"):
        build_trainer(name="Mine", default_policy=Counting)(config={**COMMON, "evaluation_num_workers": 1})
    with pytest.raises(RLlibError, match="give it to build_torch_policy"):
        build_tf_policy(name="MyTFPolicy", loss_fn=print)


@pytest.mark.usefixtures("session")
def test_workers_without_an_algorithm_sample_with_a_policy() -> None:
    import gymnasium

    worker = RolloutWorker(env_creator=lambda config: gymnasium.make("CartPole-v1"), policy=Counting, seed=1)
    batch = worker.sample()
    assert batch.count == 100 and batch["state_in_0"].min() == 5 and not batch["eps_id"][0]
    workers = WorkerSet(
        policy=Counting,
        env_creator=lambda config: gymnasium.make("CartPole-v1"),
        num_workers=2,
        trainer_config={"num_cpus_per_worker": 0, "rollout_fragment_length": 10},
    )
    samples = Batch.concat_samples(kernel.get([each.sample.remote() for each in workers.remote_workers()]))
    assert samples.count == 20
    weights = kernel.put({"default_policy": {"learned": 6}})
    for each in workers.remote_workers():
        each.set_weights.remote(weights)
    assert workers.foreach_worker(lambda each: each.get_policy().learned) == [0, 6, 6]
    assert workers.foreach_worker_with_index(lambda each, index: index) == [0, 1, 2]
    workers.stop()
    with pytest.raises(ConfigError, match=r"RolloutWorker\(soft_horizon=\) can't be honoured"):
        RolloutWorker(env_creator=lambda config: gymnasium.make("CartPole-v1"), policy=Counting, soft_horizon=True)


def test_rows_become_a_batch() -> None:
    builder = SampleBatchBuilder()
    builder.add_values(obs=[1.0, 2.0], rewards=1)
    builder.add_batch({"obs": [[3.0, 4.0]], "rewards": [2]})
    with pytest.raises(DataError, match="row 2 has no rewards, but the rows before have the columns"):
        builder.add_values(obs=[1.0, 2.0])
    batch = builder.build_and_reset()
    assert batch["rewards"].tolist() == [1, 2] and batch["unroll_id"].tolist() == [0, 0]
    assert batch["obs"].shape == (2, 2) and builder.build_and_reset().count == 0
    builder.add_values(obs=[0.0])
    assert builder.build_and_reset()["unroll_id"].tolist() == [2]


def test_advantages_of_a_trajectory_are_those_by_hand() -> None:
    rollout = Batch(rewards=[1.0, 2.0], vf_preds=[0.5, 0.25])
    found = compute_advantages(rollout, 4.0, gamma=0.5, lambda_=0.5)
    second = 2.0 + 0.5 * 4.0 - 0.25
    first = 1.0 + 0.5 * 0.25 - 0.5 + 0.25 * second
    np.testing.assert_allclose(found["advantages"], [first, second])
    np.testing.assert_allclose(found["value_targets"], [first + 0.5, second + 0.25])
    plain = compute_advantages(Batch(rewards=[1.0, 2.0]), 4.0, gamma=0.5, use_gae=False, use_critic=False)
    np.testing.assert_allclose(plain["advantages"], [1 + 0.5 * 4, 2 + 0.5 * 4])
    with pytest.raises(DataError, match="needs the column 'vf_preds'"):
        compute_advantages(Batch(rewards=[1.0]), 0.0)


def test_a_library_that_is_not_to_be_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLLIB_TEST_NO_TORCH_IMPORT", "1")
    assert try_import_torch() == (None, None)
    with pytest.raises(NameError, match="overrides nothing: Policy has no act"):
        override(Policy)(_act)


def _act() -> None: ...


_act.__name__ = "act"
