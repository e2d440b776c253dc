"""Ape-X for algorithms that learn from replay (Horgan et al., 2018, arXiv 1803.00933): many runners, sharded replay.

Runners sample without a pause and say how large the errors of their steps are (algorithm 1); shards of replay keep them
and draw minibatches; the learner takes these, and sends back how large their errors were then (algorithm 2). In which
order all this happens is for the machine to say: with runners, two runs with the same seed end differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.experience import ExperienceWork
from kernel_rllib.algorithms.off_policy import replay_of
from kernel_rllib.algorithms.replaying import ReplayingAlgorithm
from kernel_rllib.config.distributed_replay import DistributedReplayConfig
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.replay.replay import Replay
from kernel_rllib.replay.shard import Experience
from kernel_rllib.replay.shards import ReplayShards
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.results import ResultTree, mean_metrics


class DistributedReplay(ReplayingAlgorithm):
    """Takes samples as runners bring them, and minibatches as shards of replay have drawn them."""

    config: DistributedReplayConfig
    intrinsic_rewards: ClassVar[frozenset[str]] = frozenset()
    shards: ReplayShards | None = None
    """The shards that keep the samples of all policies. None: this process keeps them."""
    _steps_at_broadcast = 0

    # -- building -----------------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Say how shards are to live; they are started with the first sample."""
        settings: Any = self._settings
        settings.validate()
        if settings.num_replay_buffer_shards:
            random = int(np.random.SeedSequence().generate_state(1)[0])
            self.shards = ReplayShards(
                settings.num_replay_buffer_shards,
                random if settings.seed is None else settings.seed,
                most_adds=settings.max_requests_in_flight_per_replay_worker,
                recovery=settings.recovery,
                tolerated_failures=settings.num_consecutive_env_runner_failures_tolerance,
                most_restarts=settings.max_num_env_runner_restarts,
            )
        super().setup(config)

    def begin_beside(self, other: PolicyLearning) -> None:
        """Share the shards."""
        assert isinstance(other, DistributedReplay)
        self.shards = other.shards

    def make_replay(self) -> Replay:
        """Return the rows of this policy in all shards, as one buffer; or a buffer here."""
        settings = self.config.replay_buffer_config
        if self.shards is None:
            return replay_of(settings)
        share = settings.copy(copy_frozen=False)
        share.capacity = max(settings.capacity // self.config.num_replay_buffer_shards, 1)
        replay_of(share)  # Raises for wrong settings here, rather than in a shard.
        return self.shards.open(self.module_id, partial(replay_of, share))

    def group_settings(self) -> GroupSettings:
        """Return those of all algorithms, and let runners make experience of their samples."""
        policies = {policy_id: (policy.config, policy.spaces) for policy_id, policy in self.policies.items()}
        return replace(super().group_settings(), work=ExperienceWork(type(self), policies, self.seed))

    def objective(self, loss: Loss, trainable: tuple[str, ...] | None = None, *, lr: str = "lr") -> Objective:
        """Return an objective whose optimizer is given what is about it of `optimizer`."""
        found = super().objective(loss, trainable, lr=lr)
        return replace(found, optimizer_settings=dict(self.config.optimizer_options))

    def cleanup(self) -> None:
        """End the shards, beside the runners."""
        super().cleanup()
        if self.shards is not None:
            self.shards.close()

    # -- an iteration -------------------------------------------------------------------------------------------------

    @property
    def waits_for_samples(self) -> bool:
        """Whether a training step waits for a sample if there is none. Otherwise it takes the samples there are."""
        begun = self.env_steps_sampled >= self.config.num_steps_sampled_before_learning_starts
        return not begun or self.config.training_intensity is not None or callable(self.config.policies_to_train)

    def sample_for_training(self) -> dict[str, list[Any]]:
        """Keep the samples that runners bring, and return what they are of, by policy."""
        before, requests = self.env_steps_sampled, self.config.max_requests_in_flight_per_env_runner
        waits, taken, self.progress.policy_lags = self.waits_for_samples, 0, []
        most = 1 if waits else max(self.runners.num_healthy_runners, 1) * requests
        found: dict[str, list[Any]] = {} if waits else {policy_id: [] for policy_id in self.policies}
        with self.timed("sample"):
            self.runners.keep_asked(self.config.get_rollout_fragment_length, requests)
            while taken < most and ((waits and not taken) or self.runners.has_sample):
                sample = self.runners.collect_first()
                self.take_in([sample])
                self.keep_sample(sample, found)
                taken += 1
            if self.config.num_env_runners:
                self.runners.keep_asked(self.config.get_rollout_fragment_length, requests)
        self.progress.env_steps_new = self.env_steps_sampled - before
        return found

    def keep_sample(self, sample: Sample, found: dict[str, list[Any]]) -> None:
        """Keep what a runner made of a sample, and add it to `found`, by policy."""
        made: dict[str, Experience] = dict(sample.made)
        here: dict[str, Experience] = made if self.shards is None else {}
        if self.shards is not None:
            self.shards.add(sample)
        for policy_id, fragment in sample.fragments.items():  # of policies that came later, and no runner knows
            policy = self.policies.get(policy_id)
            if isinstance(policy, DistributedReplay):
                here[policy_id] = made[policy_id] = policy.experience_of(fragment)
        for policy_id, kept in here.items():
            policy = self.policies.get(policy_id)
            if isinstance(policy, DistributedReplay) and kept.rows.count:
                policy.replay.add(kept.rows, kept.errors)
        for policy_id, kept in made.items():
            if self.has_several_agents:
                self.progress.module_steps[policy_id] = self.progress.module_steps.get(policy_id, 0) + kept.rows.count
            found.setdefault(policy_id, []).append(kept)
            self.progress.policy_lags.append(self.learners.version - kept.version)

    def learn(self, kept: Sequence[Any]) -> Metrics:
        """Learn from what shards draw: as often as `training_intensity` says, or else once.

        Returns:
            What the last updates report; nothing before the first one.
        """
        if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts or not self.has_rows():
            return {}
        due = 1
        if self.config.training_intensity is not None:
            due = self.pace.updates(self.progress.env_steps_new, self.config.train_batch_size)
        if due:
            self.last_metrics = mean_metrics([self.learn_once() for _ in range(due)])
        return {**self.last_metrics, **self.lags()} if self.last_metrics else {}

    def has_rows(self) -> bool:
        """Return whether there is anything of this policy to draw; shards are waited for, where they have not said."""
        if not len(self.replay) and self.shards is not None:
            self.shards.wait()
        return len(self.replay) > 0

    def lags(self) -> Metrics:
        """Return how many updates the policies that acted were behind those that learn: mean, least and most."""
        found = self.progress.policy_lags or [0]
        return {"policy_lag": sum(found) / len(found), "policy_lag_min": min(found), "policy_lag_max": max(found)}

    def hand_over_update(self) -> None:
        """Let runners act with what was learned, once each of them has made `max_weight_sync_delay` steps."""
        steps = self.config.max_weight_sync_delay * max(self.runners.num_healthy_runners, 1)
        if self.env_steps_sampled - self._steps_at_broadcast >= steps:
            self._steps_at_broadcast = self.env_steps_sampled
            self.broadcast()

    def take_in(self, samples: Sequence[Sample]) -> None:
        """Count steps of all runners, and episodes of those that explore least: the last third of them, as in RLlib."""
        super().take_in([each if self.is_shown(each.runner) else replace(each, episodes=[]) for each in samples])

    def is_shown(self, runner: int) -> bool:
        """Return whether the episodes of a runner are reported."""
        explores = str(self.config.exploration_config.get("type", ""))
        runners = self.config.num_env_runners
        return not explores.startswith("PerWorker") or runner > runners - -(-runners // 3) or not runner

    def _result(self, *arguments: Any) -> ResultTree:
        """Return the result of an iteration, with what there is to say of shards in `info`."""
        result = super()._result(*arguments)
        if self.shards is not None:
            result["info"].update(self.shards.results())
        return result

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned; runners begin with the parameters of now."""
        super().set_own_state(state)
        self._steps_at_broadcast = self.env_steps_sampled
