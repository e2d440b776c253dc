"""Policies that are a loss in torch: gradients, what they are made of, and trainers of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import kernel

torch = pytest.importorskip("torch")

from kernel_rllib.config.defaults import with_common_config  # noqa: E402
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors  # noqa: E402
from kernel_rllib.errors import ConfigError, NumericError  # noqa: E402
from kernel_rllib.first_generation.async_samples_optimizer import AsyncSamplesOptimizer  # noqa: E402
from kernel_rllib.first_generation.building import build_trainer  # noqa: E402
from kernel_rllib.first_generation.micro_batches import MicrobatchOptimizer  # noqa: E402
from kernel_rllib.first_generation.policy_optimizers import AsyncGradientsOptimizer  # noqa: E402
from kernel_rllib.first_generation.postprocessing import compute_advantages  # noqa: E402
from kernel_rllib.first_generation.replay_optimizers import SyncReplayOptimizer  # noqa: E402
from kernel_rllib.first_generation.rollout_worker import RolloutWorker, WorkerSet  # noqa: E402
from kernel_rllib.first_generation.torch_policy import build_torch_policy  # noqa: E402

CONFIG = {
    "env": "CartPole-v0",
    "num_workers": 0,
    "train_batch_size": 200,
    "model": {"fcnet_hiddens": [16]},
    "lr": 0.01,
    "seed": 5,
}


def policy_gradient_loss(policy: Any, model: Any, dist_class: Any, train_batch: Any) -> Any:
    """Return the loss of the documentation."""
    logits, _ = model.from_batch(train_batch)
    action_dist = dist_class(logits)
    log_probs = action_dist.logp(train_batch["actions"])
    return -train_batch["rewards"].dot(log_probs)


def actor_critic_loss(policy: Any, model: Any, dist_class: Any, train_batch: Any) -> Any:
    """Return that of A2C."""
    logits, _ = model.from_batch(train_batch)
    dist = dist_class(logits, model)
    error = train_batch["value_targets"] - model.value_function()
    policy.entropy = dist.entropy().mean()
    log_probs = dist.logp(train_batch["actions"])
    return -(log_probs * train_batch["advantages"]).mean() + 0.5 * error.pow(2).mean() - 0.01 * policy.entropy


class ValueNetworkMixin:
    """The value of one observation."""

    def _value(self, obs: Any) -> Any:
        with self.lock, torch.no_grad():  # type: ignore[attr-defined]
            self.model({"obs": torch.from_numpy(obs).float().unsqueeze(0)}, [])  # type: ignore[attr-defined]
            return self.model.value_function().numpy()[0]  # type: ignore[attr-defined]


def add_advantages(policy: Any, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
    """Add them to a piece of an episode."""
    last = 0.0 if sample_batch["dones"][-1] else policy._value(sample_batch["new_obs"][-1])
    return compute_advantages(sample_batch, last, policy.config["gamma"], policy.config["lambda"])


def clip(policy: Any, optimizer: Any, loss: Any) -> dict[str, Any]:
    """Clip gradients by their norm."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    return {"grad_gnorm": torch.nn.utils.clip_grad_norm_(parameters, 40.0)}


def actor_critic_policy(**more: Any) -> Any:
    """Return a policy as that of A3C is composed."""
    return build_torch_policy(
        name="ActorCriticPolicy",
        loss_fn=actor_critic_loss,
        stats_fn=lambda policy, train_batch: {"policy_entropy": policy.entropy.item()},
        postprocess_fn=add_advantages,
        extra_action_out_fn=lambda policy, inputs, state, model: {"vf_preds": model.value_function().cpu().numpy()},
        extra_grad_process_fn=clip,
        optimizer_fn=lambda policy, config: torch.optim.Adam(policy.model.parameters(), lr=config["lr"]),
        mixins=[ValueNetworkMixin],
        **more,
    )


def test_a_gradient_is_that_of_the_loss() -> None:
    made = build_torch_policy(name="MyTorchPolicy", loss_fn=policy_gradient_loss)
    trainer = build_trainer(name="MyTrainer", default_policy=made)(config=CONFIG)
    policy, batch = trainer.get_policy(), trainer.workers.local_worker().sample()
    assert made.__name__ == "MyTorchPolicy" and isinstance(policy, made)
    before = policy.get_weights()
    logits, _ = policy.model.from_batch(batch)
    log_probs = policy.dist_class(logits).logp(batch["actions"]).detach()
    np.testing.assert_allclose(log_probs, batch["action_logp"], atol=1e-5)
    policy.learn_on_batch(batch)
    bias = next(name for name in before if name.endswith("policy/head/bias"))
    probabilities = torch.softmax(logits, 1).detach().numpy()
    by_hand = (probabilities - np.eye(2)[batch["actions"]]).sum(0)  # of -sum log p(a), by the bias of the logits
    gradient = dict(policy.model.named_parameters())[bias].grad.numpy()
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(policy.get_weights()[bias], before[bias] - 0.01 * np.sign(by_hand), atol=1e-4)  # Adam


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """One session of two CPUs for all tests of the module."""
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_composed_policy_learns_and_goes_on_after_a_checkpoint(workers: int) -> None:
    trainer_class = build_trainer(
        name="MyTrainer", default_policy=actor_critic_policy(), default_config=with_common_config({"lambda": 0.9})
    )
    config = {**CONFIG, "num_workers": workers, "num_cpus_per_worker": 0, "rollout_fragment_length": 50}
    trainer = trainer_class(config=config)
    stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert 0.5 < stats["policy_entropy"] <= np.log(2) + 1e-6 and stats["grad_gnorm"] > 0
    path = trainer.save()
    other = trainer_class(config=config)
    other.restore(path)
    for each in (trainer, other):
        each.train()
    for name, value in trainer.get_weights()["default_policy"].items():
        np.testing.assert_array_equal(other.get_weights()["default_policy"][name], value)
    found = trainer.workers.foreach_worker(lambda worker: worker.get_policy().get_weights())
    assert len(found) == (1 if workers == 0 else 3)
    for weights in found[1:]:
        for name, value in found[0].items():
            np.testing.assert_array_equal(weights[name], value)
    trainer.stop()
    other.stop()


class Wanted(gymnasium.Env[Any, Any]):
    """Pays for the action that is shown."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env_config: Any) -> None:
        self.wanted, self.steps = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        reward = 1.0 if action == self.wanted else 0.0
        self.steps += 1
        return self._shown(), reward, self.steps == 10, False, {}

    def _shown(self) -> Any:
        self.wanted = int(self.np_random.integers(2))
        return np.array([self.wanted], np.float32)


def test_a_composed_policy_finds_out_what_pays() -> None:
    trainer = build_trainer(
        name="MyTrainer", default_policy=actor_critic_policy(), default_config=with_common_config({"lambda": 0.9})
    )(config={**CONFIG, "env": Wanted, "gamma": 0.0})
    for _ in range(40):
        result = trainer.train()
    assert np.mean(result["hist_stats"]["episode_reward"][-20:]) > 9
    assert [trainer.compute_action([wanted], explore=False) for wanted in (0, 1)] == [0, 1]


def test_a_policy_with_updates_is_another_class() -> None:
    made = actor_critic_policy()
    other = made.with_updates(name="Other", loss_fn=policy_gradient_loss)
    assert other.__name__ == "Other" and other._functions.loss_fn is policy_gradient_loss
    assert made._functions.loss_fn is actor_critic_loss and other._functions.stats_fn is made._functions.stats_fn


def test_what_has_no_place_is_refused_and_what_is_not_finite_is_said() -> None:
    with pytest.raises(ConfigError, match=r"build_torch_policy\(make_model=\) can't be honoured: the model is"):
        build_torch_policy(name="P", loss_fn=policy_gradient_loss, make_model=print)
    with pytest.raises(ConfigError, match="has no argument 'los_fn'"):
        build_torch_policy(name="P", loss_fn=policy_gradient_loss, los_fn=print)
    infinite = build_torch_policy(name="P", loss_fn=lambda *arguments: policy_gradient_loss(*arguments) * float("inf"))
    trainer = build_trainer(name="T", default_policy=infinite)(config=CONFIG)
    with pytest.raises(NumericError, match="the loss of P is"):
        trainer.train()
    assert all(np.isfinite(value).all() for value in trainer.get_policy().get_weights().values())


def test_a_model_of_the_users_own_is_refused_where_it_would_be_left_out() -> None:
    made = build_torch_policy(name="MyTorchPolicy", loss_fn=policy_gradient_loss)
    observations = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(ConfigError, match=r"model\['custom_model'\] is 'mine', .* PPOTrainer for a model of your own"):
        made(observations, gymnasium.spaces.Discrete(2), with_common_config({"model": {"custom_model": "mine"}}))


def test_a_worker_acts_and_learns_by_several_policies_in_torch() -> None:
    made = build_torch_policy(name="MyTorchPolicy", loss_fn=policy_gradient_loss)
    worker = RolloutWorker(
        lambda config: RockPaperScissors(),
        {name: (made, None, None, {"lr": lr}) for name, lr in (("left", 0.01), ("right", 0.0))},
        lambda agent: {"player_0": "left", "player_1": "right"}[agent],
        rollout_fragment_length=10,
        model_config={"fcnet_hiddens": [8]},
        seed=3,
    )
    before = worker.get_weights()
    name = next(iter(before["left"]))
    assert (before["left"][name] != before["right"][name]).any(), "policies begin with parameters of their own"
    worker.learn_on_batch(worker.sample())
    after = worker.get_weights()
    assert (after["left"][name] != before["left"][name]).any() and (after["right"][name] == before["right"][name]).all()
    runner = worker.apply(lambda each: each._runner)
    worker.sample()
    acting = [lanes.vector.tobytes() for lanes in runner.sampler.modules.values()]
    assert acting == [worker.get_policy(each).vector.tobytes() for each in ("left", "right")]


def test_gradients_are_computed_and_applied_apart_as_learning_does_both() -> None:
    made = build_torch_policy(
        "Apart", loss_fn=policy_gradient_loss, stats_fn=lambda policy, batch: {"rows": batch.count}
    )
    env = gymnasium.make("CartPole-v1")
    one, other = (made(env.observation_space, env.action_space, CONFIG) for _ in range(2))
    worker = RolloutWorker(lambda config: gymnasium.make("CartPole-v1"), made, policy_config=CONFIG, seed=3)
    batch = worker.sample()
    for _ in range(2):
        before = other.get_weights()
        gradients, told = other.compute_gradients(batch)
        for name, weight in other.get_weights().items():
            np.testing.assert_array_equal(weight, before[name])
        assert told == one.learn_on_batch(batch) and told["learner_stats"]["rows"] == 100
        other.apply_gradients(gradients)
        for name, weight in one.get_weights().items():
            np.testing.assert_array_equal(other.get_weights()[name], weight)
    assert any(gradient is None for gradient in gradients), "the loss does not read values"
    with pytest.raises(ConfigError, match="Apart was given 1 gradients, but its model has 6 parameters"):
        other.apply_gradients(gradients[:1])


def test_optimizers_over_workers_learn_in_torch(session: None) -> None:
    made = build_torch_policy("Composed", loss_fn=policy_gradient_loss)
    settings = {**CONFIG, "num_cpus_per_worker": 0, "rollout_fragment_length": 20}
    workers = WorkerSet(lambda config: gymnasium.make("CartPole-v1"), made, settings, 1)
    for kind, options in (
        (MicrobatchOptimizer, {"train_batch_size": 60, "microbatch_size": 20}),
        (AsyncGradientsOptimizer, {"grads_per_step": 2}),
        (AsyncSamplesOptimizer, {"train_batch_size": 20}),
        (SyncReplayOptimizer, {"learning_starts": 0, "prioritized_replay": False}),
    ):
        before = workers.local_worker().get_policy().get_weights()
        optimizer = kind(workers, **options)  # type: ignore[arg-type]
        optimizer.step()
        optimizer.stop()
        after = workers.local_worker().get_policy().get_weights()
        assert any((after[name] != before[name]).any() for name in after), kind
    workers.stop()
