"""A policy that learns, as users ask it: `PolicyView`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.training.policy_files import PolicyFiles
from kernel_rllib.training.policy_learning import PolicyLearning


def view_of(
    policy: PolicyLearning,
    held: LearnerParameters,
    inference: Inference,
    *,
    learn: Callable[[Any], Any],
    timestep: Callable[[], int],
    files: PolicyFiles,
) -> PolicyView:
    """Return a policy as users ask it.

    Args:
        policy: The policy.
        held: The parameters of the policy.
        inference: The inference that chooses its actions.
        learn: The function that makes a step of learning from a batch.
        timestep: The function that returns how many steps the run has made.
        files: The writer of the policy's files.
    """
    return PolicyView(
        held,
        inference,
        observation_space=policy.spaces.observation,
        action_space=policy.spaces.action,
        distribution=policy.distribution,
        stream=policy.stream("policy"),
        config=policy.config.to_dict(),
        learn=learn,
        timestep=timestep,
        files=files,
    )
