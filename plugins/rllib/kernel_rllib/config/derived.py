"""Values that follow from settings: sizes of batches and fragments, lanes, resources."""

from __future__ import annotations

import math
from typing import Any, Literal

from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.config.sections.all_sections import AllSections


class CallableFlag(int):
    """True or False, as a property (of today's API) and as a method (of 2.x): `is_multi_agent`, `is_multi_agent()`."""

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


class Derived(AllSections):
    """The common settings, with the values that follow from them."""

    @property
    def total_train_batch_size(self) -> int:
        """Env steps of one update in all learners together."""
        if self.train_batch_size == -1 and not self.is_set("train_batch_size_per_learner"):
            fragment = self.rollout_fragment_length
            return (fragment if isinstance(fragment, int) else 1) * self.total_envs
        return (self.train_batch_size_per_learner or 1) * (self.num_learners or 1)

    @property
    def total_envs(self) -> int:
        """The number of copies of the environment in all runners together."""
        return self.num_envs or self.num_envs_per_env_runner * max(self.num_env_runners, 1)

    def lanes_of(self, worker_index: int) -> range:
        """Return which of all copies of the environment a runner has.

        Args:
            worker_index: 1 for the first of the remote runners; 0 for the one that the learner has itself.
        """
        runners, runner = max(self.num_env_runners, 1), max(worker_index - 1, 0)
        if self.num_envs is None:
            each = self.num_envs_per_env_runner
            return range(runner * each, (runner + 1) * each)
        return range(runner * self.num_envs // runners, (runner + 1) * self.num_envs // runners)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a runner makes for one fragment.

        "auto" is total_train_batch_size / all environments. Where that leaves a rest, the first runners make one step
        more, as many of them as it takes for the rest: with one environment each, all fragments together are exactly
        the batch, otherwise the least that is not below it. With `num_envs` every runner makes the same number, so that
        it doesn't depend on how many there are.

        Args:
            worker_index: 1 for the first of the remote runners; 0 for the one that the learner has itself.
        """
        if self.rollout_fragment_length != "auto":
            return int(self.rollout_fragment_length)
        steps, rest = divmod(self.total_train_batch_size, self.total_envs)
        if not rest:
            return steps
        if self.num_envs is not None:
            return steps + 1
        first_lane = (worker_index - 1) * self.num_envs_per_env_runner
        return max(steps + (first_lane < rest), 1)

    @property
    def rounds_ahead(self) -> int:
        """The number of rounds of samples that are requested before earlier ones are learned from.

        With pipelined sampling they are as many as a train batch is sure to take: where episodes are whole, or agents
        are counted, one round may be enough. What is missing then is sampled when it is needed.
        """
        if not self.pipelined_sampling:
            return 0
        if self.batch_mode == "complete_episodes" or self.count_steps_by == "agent_steps":
            return 1
        return math.ceil(self.total_train_batch_size / (self.get_rollout_fragment_length() * self.total_envs))

    @property
    def steps_per_iteration(self) -> int:
        """The least number of env steps that one iteration samples."""
        sampled = self.get_rollout_fragment_length() * self.total_envs
        rounds = max(math.ceil((self.min_sample_timesteps_per_iteration or 0) / sampled), 1)
        return rounds * sampled

    @property
    def is_multi_agent(self) -> CallableFlag:
        """Whether there are several policies, or one that isn't the default one."""
        return CallableFlag(len(self.policies) > 1 or DEFAULT_POLICY_ID not in self.policies)

    @property
    def is_offline(self) -> bool:
        """Whether all experience is read, and none made."""
        if isinstance(self.input_, dict):
            return "sampler" not in self.input_
        return self.input_ != "sampler" and not callable(self.input_)

    @property
    def is_online(self) -> bool:
        """Whether an environment is stepped for experience."""
        return not self.is_offline

    @property
    def uses_atari(self) -> bool:
        """Whether the environment is an Atari game, as it is said or as its name says."""
        if self.is_atari is not None:
            return self.is_atari
        name = self.env if isinstance(self.env, str) else ""
        return name.startswith(("ALE/", "ale_py:")) or any(
            mark in name for mark in ("NoFrameskip-v", "Deterministic-v")
        )

    @property
    def model_config(self) -> Any:
        """The networks, by the name that today's API has for them."""
        return self.model

    @property
    def grad_clipping(self) -> tuple[float, Literal["global_norm", "norm", "value"]] | None:
        """The limit of gradients, and the rule by which they are clipped; None if they aren't."""
        return None if self.grad_clip is None else (self.grad_clip, self.grad_clip_by)

    @property
    def reserves_for_evaluation(self) -> bool:
        """Whether trials of Tune reserve CPUs for runners that evaluate: evaluations are planned, or may be."""
        return bool(self.evaluation_interval) or self.generation != "current"

    def resource_bundles(self) -> list[dict[str, float]]:
        """Return what each process reserves: the algorithm's first, then runners, those that evaluate, learners.

        Tune reserves these as a placement group, by `placement_strategy`.
        """
        local_gpus = self.num_gpus_per_learner if self.num_learners == 0 else 0
        main = _bundle(self.num_cpus_for_main_process, local_gpus, self.custom_resources_for_main_process, self.memory)
        runner = _bundle(
            self.num_cpus_per_env_runner,
            self.num_gpus_per_env_runner,
            self.custom_resources_per_env_runner,
            self.memory_per_worker,
        )
        runners = self.num_env_runners + (self.evaluation_num_env_runners if self.reserves_for_evaluation else 0)
        cpus = self.num_cpus_per_learner
        if not isinstance(cpus, (int, float)):
            cpus = 0 if self.num_gpus_per_learner else 1
        learner = _bundle(
            cpus + self.num_aggregator_actors_per_learner, self.num_gpus_per_learner, self.custom_resources_per_learner
        )
        return [main, *(dict(runner) for _ in range(runners)), *(dict(learner) for _ in range(self.num_learners))]


def _bundle(cpus: float, gpus: float, others: dict[str, Any], memory: float = 0) -> dict[str, float]:
    found = {"CPU": cpus, "GPU": gpus, "memory": memory, **others}
    return {name: amount for name, amount in found.items() if amount or name == "CPU"}
