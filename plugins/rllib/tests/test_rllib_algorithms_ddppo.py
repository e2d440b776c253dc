"""DD-PPO: workers end each update with the same bits, as if one had learned from all minibatches; resume; losses."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ddppo import DDPPO, DDPPOConfig
from kernel_rllib.algorithms.ppo import PPO
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.errors import ConfigError, EnvError, RunnersLostError
from kernel_rllib.learners.all_reduce import AllReduce
from kernel_rllib.learners.gradient_mean import GradientMean
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.testing.counting import Counting

import kernel

LSTM = {"fcnet_hiddens": [16], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 8}
SMALL = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_env_runners": 2,
    "num_cpus_per_env_runner": 0,
    "train_batch_size": 32,
    "minibatch_size": 16,
    "num_epochs": 2,
    "lr": 1e-2,
    "model": {"fcnet_hiddens": [16]},
}


def made(**settings: Any) -> DDPPO:
    """Return a small algorithm with two workers of two lanes each."""
    lanes = {} if "num_envs" in settings else {"num_envs_per_env_runner": 2}
    return DDPPO({**SMALL, **lanes, **settings})


def learned_by(runner: EnvRunner) -> tuple[bytes, bytes, int]:
    """Return what the learner of a worker has: parameters and moments, and how many steps it made."""
    state = runner.work.policy.learner.state()  # type: ignore[union-attr]
    moments = b"".join(np.asarray(value).tobytes() for value in state["optimizers"]["ppo"].values())
    return state["weights"].tobytes(), moments, state["version"]


def acting_in(runner: EnvRunner) -> bytes:
    """Return the parameters that a worker acts with."""
    return runner.sampler.weights.tobytes()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("settings", [{}, {"model": LSTM}, {"num_env_runners": 3}, {"num_envs": 5}])
def test_all_workers_have_the_same_bits_after_each_update(settings: dict[str, Any]) -> None:
    algorithm = made(**settings)
    first = algorithm.learner.weights.tobytes()
    for _ in range(2):
        result = algorithm.train()
        states = algorithm.runners.foreach(learned_by)
        assert len(set(states)) == 1
        assert {algorithm.learner.weights.tobytes()} == {states[0][0], *algorithm.runners.foreach(acting_in)} != {first}
    assert algorithm.learner.version == states[0][2] > 0
    assert result["num_env_steps_trained"] > result["timesteps_total"] > 0
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_an_update_is_that_of_one_learner_with_the_mean_of_all_gradients() -> None:
    """With one minibatch for each worker: one learner steps by the mean over the experience of the same lanes."""
    algorithm = made(num_epochs=1, minibatch_size=32)
    alone = PPO(
        {**SMALL, "num_env_runners": 0, "num_envs": 4, "num_epochs": 1, "train_batch_size": 64, "kl_coeff": 0.0}
    )
    fragment, mean = alone.sample(), GradientMean()
    for lanes in (slice(0, 2), slice(2, 4)):
        mean.add(*alone.learner.gradient("ppo", alone.experience([part_of(fragment, lanes)])), 32)
    metrics, gradient = mean.mean()
    alone.learner.apply("ppo", gradient, alone.env_steps_sampled)
    report = algorithm.train()["learners"]["default_policy"]
    assert report["policy_loss"] == pytest.approx(metrics["policy_loss"], abs=1e-5)
    assert report["vf_loss"] == pytest.approx(metrics["vf_loss"], rel=1e-5)
    moments = [made.learner.state()["optimizers"]["ppo"] for made in (algorithm, alone)]
    for name, expected in moments[1].items():
        np.testing.assert_allclose(moments[0][name], expected, rtol=1e-4, atol=1e-6)
    algorithm.stop()


def part_of(fragment: Fragment, lanes: slice) -> Fragment:
    """Return some lanes of a fragment."""
    inside = (fragment.final_at[:, 1] >= lanes.start) & (fragment.final_at[:, 1] < lanes.stop)
    return replace(
        fragment,
        columns={name: column[:, lanes] for name, column in fragment.columns.items()},
        last_obs=fragment.last_obs[lanes],
        final_at=fragment.final_at[inside] - np.array([0, lanes.start]),
        final_obs=fragment.final_obs[inside],
        lanes=fragment.lanes[lanes],
    )


@pytest.mark.usefixtures("session")
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    result = straight.train()
    resumed.restore(path)
    again = resumed.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    assert resumed.runners.foreach(learned_by) == straight.runners.foreach(learned_by)
    assert again["info"]["learner"] == result["info"]["learner"]
    np.testing.assert_equal(again["hist_stats"], result["hist_stats"])
    straight.stop()
    resumed.stop()


@pytest.mark.usefixtures("session")
def test_where_a_worker_is_lost_all_begin_again_with_the_parameters_of_before() -> None:
    algorithm = made()
    algorithm.train()
    version, steps = algorithm.learner.version, algorithm.env_steps_sampled
    kernel.kill(algorithm.runners.actors()[1][1])
    algorithm.train()
    assert algorithm.learner.version == 2 * version
    assert algorithm.env_steps_sampled == 2 * steps
    assert len(set(algorithm.runners.foreach(learned_by))) == 1
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_a_loss_is_an_error_where_the_settings_say_so() -> None:
    algorithm = made(restart_failed_env_runners=False)
    algorithm.train()
    kernel.kill(algorithm.runners.actors()[1][1])
    with pytest.raises(RunnersLostError, match="runner 2 died"):
        algorithm.train()
    algorithm.train()
    algorithm.stop()


class StuckInTheSecondWorker(Counting):
    """Counts, and raises at its tenth step in the second worker."""

    def __init__(self, env_config: Any) -> None:
        super().__init__({"fails_at": 10 if getattr(env_config, "worker_index", 0) == 2 else None})


@pytest.mark.usefixtures("session")
def test_an_error_in_one_worker_is_raised_though_the_other_waits_for_it() -> None:
    algorithm = made(env=StuckInTheSecondWorker)
    for _ in range(2):  # the second time in new workers
        with pytest.raises(EnvError, match="the counter is stuck"):
            algorithm.train()
    assert algorithm.learner.version == 0
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_two_workers_learn_which_action_is_right() -> None:
    algorithm = made(env=GuessTheAction, train_batch_size=64, num_epochs=4)
    best = 0.0
    for _ in range(30):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"
    algorithm.stop()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_means_are_those_of_all_and_have_the_same_bits_everywhere(size: int) -> None:
    draw = np.random.default_rng(0)
    arrays = [[draw.normal(size=7).astype(np.float32) for _ in range(3)] for _ in range(size)]
    sides: list[AllReduce] = []
    for rank in range(size):
        sides.append(AllReduce(rank, size, lambda to, key, array: sides[to].receive(key, array)))
    found: dict[int, Any] = {}

    def take_part(rank: int) -> None:
        found[rank] = [*(sides[rank].mean(array) for array in arrays[rank]), sides[rank].least(10 - rank)]

    threads = [threading.Thread(target=take_part, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for step in range(3):
        expected = np.mean([np.asarray(mine[step], np.float64) for mine in arrays], axis=0)
        np.testing.assert_allclose(found[0][step], expected, rtol=1e-5, atol=1e-6)
        assert len({found[rank][step].tobytes() for rank in range(size)}) == 1
    assert {found[rank][3] for rank in range(size)} == {11 - size}
    assert not any(side._arrived for side in sides)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"torch_distributed_backend": "nccl"}, "gradients are averaged in main memory; leave it at 'gloo'"),
        ({"keep_local_weights_in_sync": False}, "evaluations, checkpoints and actions need the parameters of now"),
        ({"recovery": "ignore"}, "recovery='ignore', but workers learn in step.*set recovery to 'recreate', or"),
        ({"num_env_runners": 0}, "num_env_runners=0 leaves nobody to learn"),
        ({"kl_coeff": 0.2}, "workers can't adapt it together; set it to 0"),
    ],
)
def test_settings_that_can_not_be_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**wrong)


def test_the_train_batch_of_the_first_generation_follows_from_fragments() -> None:
    given = {**SMALL, "train_batch_size": 500}
    with pytest.raises(ConfigError, match="train_batch_size=500 follows from the fragments here; set it to -1"):
        DDPPOConfig.from_dict(given, generation="0.8.5").validate()
