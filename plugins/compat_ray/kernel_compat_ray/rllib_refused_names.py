"""Names of RLlib that kernel can't honour: each with the reason, and with what to use instead. Data only."""

from __future__ import annotations

_LISTED = "`rllib algorithms` lists those that there are"
_LATER_ALGORITHM = f"this algorithm comes in a later release; {_LISTED}"
_GRAPHS = (
    "losses and models in TensorFlow are not here yet; write them in torch, for build_torch_policy and TorchModelV2"
)
_OWN_STEP = "derive a class from the trainer, and override its training_step()"
_DISTRIBUTED_OPTIMIZER = f"DDPPO averages gradients between workers; otherwise {_OWN_STEP}"
_BASE_ENV = (
    "environments are adapted inside; derive from MultiAgentEnv, or from ExternalMultiAgentEnv for agents and episodes "
    "that go on by themselves"
)
_BUILT_IN = (
    "built-in algorithms learn by losses of their own, which are no classes of policies; for another loss use "
    "build_torch_policy and build_trainer, or derive a class from ray.rllib.policy.Policy"
)
_FIRST_MODELS = "models are classes derived from ray.rllib.models.torch.torch_modelv2.TorchModelV2"
_OF_NUMPY = "write it in numpy, or in the library that your loss is in"
_FILTERS = "set observation_filter, or give connectors of your own by env_to_module_connector (docs/rllib.md of kernel)"
_SCHEDULES = "settings that change over time take a list of [timestep, value] pairs"
_RENAMING = "use warnings.warn of Python"
_SAMPLERS = "RolloutWorker(...).sample() returns a batch"

RLLIB_REFUSED: dict[str, str] = {
    **{f"{module}.BaseEnv": _BASE_ENV for module in ("ray.rllib", "ray.rllib.env")},
    "ray.rllib.TFPolicy": _GRAPHS,
    "ray.rllib.policy.DynamicTFPolicy": _GRAPHS,
    "ray.rllib.policy.TFPolicy": _GRAPHS,
    "ray.rllib.evaluation.AsyncSampler": _SAMPLERS,
    "ray.rllib.evaluation.SyncSampler": _SAMPLERS,
    "ray.rllib.evaluation.collect_metrics": "what train() and evaluate() return has the metrics of episodes",
    **{
        f"ray.rllib.models.{name}": _FIRST_MODELS
        for name in ("ConvolutionalNetwork", "FullyConnectedNetwork", "LSTM", "Model", "VisionNetwork")
    },
    **{
        f"ray.rllib.models.{name}": "policy.dist_class is the distribution of a policy's actions"
        for name in ("Categorical", "Deterministic", "DiagGaussian")
    },
    **{
        f"ray.rllib.utils.{name}": reason
        for names, reason in (
            (("FilterManager", "Filter"), _FILTERS),
            (("deprecation_warning", "renamed_agent", "renamed_class", "renamed_function"), _RENAMING),
            (("framework_iterator",), 'write a loop that sets config["framework"]'),
        )
        for name in names
    },
    **{
        f"ray.rllib.utils.{kind}Schedule": _SCHEDULES
        for kind in ("Constant", "Exponential", "Linear", "Piecewise", "Polynomial")
    },
}

_LATER_ALGORITHMS = {"agents": (), "algorithms": ("leela_chess_zero",)}
_POLICIES = {
    "a3c": ("a3c_tf_policy", "a3c_torch_policy"),
    "ddpg": ("ddpg_policy", "ddpg_tf_policy", "ddpg_torch_policy"),
    "dqn": (
        "dqn_policy", "dqn_tf_policy", "dqn_torch_policy", "simple_q_policy", "simple_q_tf_policy",
        "simple_q_torch_policy",
    ),
    "impala": ("vtrace", "vtrace_policy", "vtrace_tf_policy", "vtrace_torch_policy"),
    "marwil": ("marwil_policy", "marwil_tf_policy", "marwil_torch_policy"),
    "pg": ("pg_policy", "pg_tf_policy", "pg_torch_policy"),
    "ppo": (
        "appo_policy", "appo_tf_policy", "appo_torch_policy", "ppo_policy", "ppo_tf_policy", "ppo_torch_policy",
    ),
    "qmix": ("mixers", "model", "qmix_policy"),
    "sac": ("sac_policy", "sac_tf_policy", "sac_torch_policy"),
}  # fmt: skip

RLLIB_MODULES_REFUSED: dict[str, str] = {
    **{
        f"ray.rllib.{package}.{name}": _LATER_ALGORITHM
        for package, names in _LATER_ALGORITHMS.items()
        for name in names
    },
    **{f"ray.rllib.agents.{package}.{name}": _BUILT_IN for package, names in _POLICIES.items() for name in names},
    "ray.rllib.env.base_env": _BASE_ENV,
    "ray.rllib.agent": "derive a class from ray.rllib.agents.trainer.Trainer",
    **{f"ray.rllib.contrib.{name}": _LATER_ALGORITHM for name in ("registry", "sumo")},
    "ray.rllib.contrib.maddpg.maddpg_policy": _BUILT_IN,
    "ray.rllib.evaluation.metrics": "what train() and evaluate() return has the metrics of episodes",
    "ray.rllib.evaluation.sampler": _SAMPLERS,
    "ray.rllib.examples.envs": "of its environments there are those of kernel.rllib.envs.games",
    "ray.rllib.examples.models": "write a TorchModelV2, or a TorchRLModule; docs/rllib-models.md of kernel shows how",
    "ray.rllib.execution": f"there are no execution plans; {_OWN_STEP}",
    "ray.rllib.models.tf": _GRAPHS,
    **{
        f"ray.rllib.offline.{module}": f"{what} are made by the setting input_ (docs/rllib-offline.md of kernel)"
        for module, what in (("mixed_input", "mixtures of sources"), ("shuffled_input", "windows of batches"))
    },
    "ray.rllib.optimizers.TorchDistributedDataParallelOptimizer": _DISTRIBUTED_OPTIMIZER,
    "ray.rllib.optimizers.torch_distributed_data_parallel_optimizer": _DISTRIBUTED_OPTIMIZER,
    "ray.rllib.policy.dynamic_tf_policy": _GRAPHS,
    "ray.rllib.policy.tf_policy": _GRAPHS,
    "ray.rllib.utils.filter": _FILTERS,
    "ray.rllib.utils.schedules": _SCHEDULES,
    "ray.rllib.utils.test_utils": "its checks were for RLlib's own tests; use numpy.testing.assert_allclose",
    "ray.rllib.utils.torch_ops": _OF_NUMPY,
    "ray.rllib.utils.explained_variance": _OF_NUMPY,
    "ray.rllib.utils.actors": "use kernel.parallel's ActorPool",
    "ray.rllib.utils.memory": "objects go with their references; use ray.get",
}
