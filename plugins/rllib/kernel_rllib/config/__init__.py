"""The settings of algorithms: what they are, what they were called, their defaults, and how users set them."""

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Default, Generation
from kernel_rllib.config.model_config import DefaultModelConfig, ModelConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID, PolicySpec
from kernel_rllib.config.replay_config import ReplayBufferConfig
from kernel_rllib.config.sentinels import DEPRECATED_VALUE, NOT_PROVIDED

__all__ = [
    "DEFAULT_POLICY_ID",
    "DEPRECATED_VALUE",
    "NOT_PROVIDED",
    "AlgorithmConfig",
    "Default",
    "DefaultModelConfig",
    "Field",
    "Generation",
    "ModelConfig",
    "PolicySpec",
    "ReplayBufferConfig",
]
