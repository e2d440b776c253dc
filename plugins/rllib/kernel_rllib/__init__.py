"""Reinforcement learning on kernel.

Each name is in a file of its own, and is loaded when it is first used.
"""

from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "algorithms.a2c": ("A2C", "A2CConfig"),
    "algorithms.a3c": ("A3C", "A3CConfig"),
    "training.algorithm": ("Algorithm",),
    "algorithms.alpha_star": ("AlphaStar", "AlphaStarConfig"),
    "algorithms.alpha_zero": ("AlphaZero", "AlphaZeroConfig"),
    "algorithms.apex_ddpg": ("ApexDDPG", "ApexDDPGConfig"),
    "algorithms.apex_dqn": ("ApexDQN", "ApexDQNConfig"),
    "algorithms.apex_qmix": ("ApexQMIX", "ApexQMIXConfig"),
    "algorithms.appo": ("APPO", "APPOConfig"),
    "algorithms.ars": ("ARS", "ARSConfig"),
    "algorithms.bandit": (
        "BanditConfig",
        "BanditLinTS",
        "BanditLinTSConfig",
        "BanditLinUCB",
        "BanditLinUCBConfig",
    ),
    "algorithms.bc": ("BC", "BCConfig"),
    "algorithms.cql": ("CQL", "CQLConfig"),
    "algorithms.crr": ("CRR", "CRRConfig"),
    "algorithms.ddpg": ("DDPG", "DDPGConfig"),
    "algorithms.ddppo": ("DDPPO", "DDPPOConfig"),
    "algorithms.dqn": ("DQN", "DQNConfig"),
    "algorithms.dreamer": ("Dreamer", "DreamerConfig"),
    "algorithms.dreamerv3": ("DreamerV3", "DreamerV3Config"),
    "algorithms.dt": ("DT", "DTConfig"),
    "algorithms.es": ("ES", "ESConfig"),
    "algorithms.impala": ("IMPALA", "IMPALAConfig"),
    "algorithms.iql": ("IQL", "IQLConfig"),
    "algorithms.iqn": ("IQN", "IQNConfig"),
    "algorithms.maddpg": ("MADDPG", "MADDPGConfig"),
    "algorithms.maml": ("MAML", "MAMLConfig"),
    "algorithms.marwil": ("MARWIL", "MARWILConfig"),
    "algorithms.mbmpo": ("MBMPO", "MBMPOConfig"),
    "algorithms.pg": ("PG", "PGConfig"),
    "algorithms.ppo": ("PPO", "PPOConfig"),
    "algorithms.qmix": ("QMIX", "QMIXConfig"),
    "algorithms.qrdqn": ("QRDQN", "QRDQNConfig"),
    "algorithms.random_agent": ("RandomAgent", "RandomAgentConfig"),
    "algorithms.r2d2": ("R2D2", "R2D2Config"),
    "algorithms.sac": ("SAC", "SACConfig"),
    "algorithms.simple_q": ("SimpleQ", "SimpleQConfig"),
    "algorithms.slateq": ("SlateQ", "SlateQConfig"),
    "algorithms.td3": ("TD3", "TD3Config"),
    "algorithms.tqc": ("TQC", "TQCConfig"),
    "callbacks.callbacks": ("DefaultCallbacks", "RLlibCallback"),
    "callbacks.memory": ("MemoryTrackingCallbacks",),
    "callbacks.multi": ("MultiCallbacks", "make_multi_callbacks"),
    "checkpoints.modules": ("SavedModule",),
    "config.algorithm_config": ("AlgorithmConfig",),
    "connectors.env_to_module": ("ObservationConnector",),
    "connectors.named": (
        "FlattenObservations",
        "FrameStackingEnvToModule",
        "MeanStdFilter",
        "PrevActionsPrevRewards",
    ),
    "data.batch": ("Batch", "MultiAgentBatch"),
    "envs.context": ("EnvContext",),
    "envs.external": ("ExternalEnv", "ExternalMultiAgentEnv"),
    "envs.registry": ("register_env",),
    "errors": ("RLlibError",),
    "first_generation.building": ("build_trainer",),
    "first_generation.policy": ("Policy",),
    "first_generation.rollout_worker": ("RolloutWorker", "WorkerSet"),
    "first_generation.torch_policy": ("build_torch_policy",),
    "modules.module": ("Module",),
    "serving.client": ("PolicyClient",),
    "serving.server": ("PolicyServer",),
    "serving.server_input": ("PolicyServerInput",),
}
_HOMES = {name: f"kernel_rllib.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import what is exported here when it is first used."""
    import importlib

    if name.endswith("Trainer") and name[:1] != "_":
        return getattr(importlib.import_module("kernel_rllib.first_generation.trainers"), name)
    if name not in _HOMES:
        from kernel_rllib.training.registry import why_missing

        reason = why_missing(name.removesuffix("Config")) or f"module 'kernel_rllib' has no attribute {name!r}"
        raise AttributeError(reason)
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
