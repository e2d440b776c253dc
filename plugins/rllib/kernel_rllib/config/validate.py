"""Settings that contradict each other. Each sentence names them with their values, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernel_rllib.config.multi_agent_setup import MultiAgentSetup
from kernel_rllib.config.search_spaces import has_search_space
from kernel_rllib.config.settings import Settings
from kernel_rllib.nearest import did_you_mean

TOLERANCE = 0.1
"""The most by which all fragments together may exceed the train batch, as a share of it."""


def undecided_settings(config: MultiAgentSetup) -> Iterator[str]:
    """Yield settings that a search still has to choose."""
    for name, value in config.set_values().items():
        field = type(config).fields.get(name)
        inside = field.plain(value) if field is not None and field.plain is not None else value
        inside = inside.set_values() if isinstance(inside, Settings) else inside
        if has_search_space(inside):
            yield f"{name} is still a search space; give the config to a Tuner, which chooses, or set a value"


def common_problems(config: MultiAgentSetup) -> Iterator[str]:
    """Yield what contradicts itself in any algorithm."""
    yield from _batches(config)
    yield from _runners(config)
    yield from _policies(config)
    yield from _evaluation(config)
    if config.soft_horizon and config.horizon is None:
        yield "soft_horizon=True has no effect with horizon=None; set horizon to a number of steps"
    if config.input_ != "sampler" and config.env_task_fn is not None:
        yield "env_task_fn sets tasks of environments, and experience is recorded (input_ is set); leave one out"
    is_explicit = config.generation == "current" and config.is_set("off_policy_estimation_methods")
    if config.input_ == "sampler" and config.off_policy_estimation_methods and is_explicit:
        yield (
            f"off_policy_estimation_methods={sorted(config.off_policy_estimation_methods)} need recorded data, but "
            "input_='sampler'; set input_ by offline_data(), or leave them out"
        )


def _batches(config: MultiAgentSetup) -> Iterator[str]:
    each, total, learners = config.train_batch_size_per_learner, config.train_batch_size, max(config.num_learners, 1)
    both = config.is_set("train_batch_size") and config.is_set("train_batch_size_per_learner")
    if both and each is not None and each * learners != total:
        yield (
            f"train_batch_size={total} and train_batch_size_per_learner={each} (x {learners} learners = "
            f"{each * learners}) disagree; give one of them"
        )
    if config.minibatch_size is not None and each is not None and config.minibatch_size > each:
        yield (
            f"minibatch_size={config.minibatch_size} is more than the {each} steps of a batch "
            f"(train_batch_size_per_learner); make it smaller, or the batch larger"
        )


def _runners(config: MultiAgentSetup) -> Iterator[str]:
    runners, copies = config.num_env_runners, config.num_envs
    if copies is not None and copies < runners:
        yield f"num_envs={copies} copies don't suffice for num_env_runners={runners}; each needs one at least"
    both = config.is_set("num_envs") and config.is_set("num_envs_per_env_runner")
    if both and copies is not None and copies != config.num_envs_per_env_runner * max(runners, 1):
        yield (
            f"num_envs={copies} and num_envs_per_env_runner={config.num_envs_per_env_runner} (x {max(runners, 1)} "
            "runners) disagree; give one of them"
        )
    if not config.create_local_env_runner and runners == 0 and config.is_online:
        yield ("create_local_env_runner=False and num_env_runners=0 leave nobody to sample; set num_env_runners to 1")
    if (
        config.recovery == "ignore"
        and config.is_set("restart_failed_env_runners")
        and config.restart_failed_env_runners
    ):
        yield "recovery='ignore' and restart_failed_env_runners=True disagree; give one of them"
    is_ignored = config.is_set("ignore_env_runner_failures") and config.ignore_env_runner_failures
    if config.is_set("recovery") and config.recovery in ("recreate", "exact") and is_ignored:
        yield f"recovery={config.recovery!r} and ignore_env_runner_failures=True disagree; give one of them"


def _policies(config: MultiAgentSetup) -> Iterator[str]:
    chosen = config.policies_to_train
    if isinstance(chosen, (list, tuple)):
        for policy in chosen:
            if policy not in config.policies:
                hint = did_you_mean(str(policy), config.policies, f"; there are {', '.join(config.policies)}")
                yield f"policies_to_train has {policy!r}, which is not one of policies{hint}"
    for policy, spec in config.policies.items():
        given = getattr(spec, "config", None)
        if isinstance(given, Mapping) and spec.policy_class is None:  # a class of the user's own may read any key
            yield from _unknown_keys(config, f"policies[{policy!r}]", given)
    for policy, given in config.algorithm_config_overrides_per_module.items():
        if policy not in config.policies:
            hint = did_you_mean(str(policy), config.policies, f"; there are {', '.join(config.policies)}")
            yield f"algorithm_config_overrides_per_module has {policy!r}, which is not one of policies{hint}"
        elif isinstance(given, Mapping):
            yield from _unknown_keys(config, f"algorithm_config_overrides_per_module[{policy!r}]", given)


def _unknown_keys(config: MultiAgentSetup, where: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that are neither settings, nor of the user's own in the whole config."""
    names, own = type(config).names, config.own_names()
    for key in given:
        if names.find(key) is None and key not in own:
            yield f"{where} sets {key!r}, which is no setting{did_you_mean(key, names.by_key)}"


def _evaluation(config: MultiAgentSetup) -> Iterator[str]:
    parallel, runners = config.evaluation_parallel_to_training, config.evaluation_num_env_runners
    if config.evaluation_duration == "auto" and not parallel:
        yield (
            "evaluation_duration='auto' is as long as the training beside it, but evaluation_parallel_to_training="
            "False; set that to True, or the duration to a number"
        )
    if parallel and not runners and not config.num_offline_eval_runners and config.generation == "current":
        yield (
            "evaluation_parallel_to_training=True needs runners of its own, but evaluation_num_env_runners=0; set that "
            "to 1 or more"
        )
    least = config.evaluation_auto_duration_min_env_steps_per_sample
    most = config.evaluation_auto_duration_max_env_steps_per_sample
    if least > most:
        yield (
            f"evaluation_auto_duration_min_env_steps_per_sample={least} is more than "
            f"evaluation_auto_duration_max_env_steps_per_sample={most}; exchange them"
        )
    changed = config.evaluation_config
    names = type(config).names
    for key in changed if isinstance(changed, Mapping) and not config._keeps_unknown else ():
        if names.find(key) is None:
            yield f"evaluation_config sets {key!r}, which is no setting{did_you_mean(key, names.by_key)}"


def fragment_problem(config: MultiAgentSetup) -> str | None:
    """Return what is wrong where fragments can't make up a train batch, give or take a tenth of it; or None.

    Algorithms that learn from each sample once ask this. What they sample in rounds of all runners, until there is
    enough, may exceed the batch by a tenth.
    """
    fragment, total = config.rollout_fragment_length, config.total_train_batch_size
    if fragment == "auto" or config.in_evaluation or config.train_batch_size <= 0 or config.generation == "0.8.5":
        return None
    round_ = int(fragment) * config.total_envs
    sampled = -(-total // round_) * round_
    if sampled - total <= TOLERANCE * total:
        return None
    each = max(round(total / config.total_envs), 1)
    learners = (
        f" ({config.train_batch_size_per_learner} x {config.num_learners} learners)" if config.num_learners > 1 else ""
    )
    return (
        f"rollout_fragment_length={fragment} with num_env_runners={config.num_env_runners} and num_envs_per_env_runner="
        f"{config.num_envs_per_env_runner} gives {sampled} steps, more than a tenth off "
        f"train_batch_size={total}{learners}; set rollout_fragment_length to 'auto' or to {each}"
    )
