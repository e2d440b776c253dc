"""The part of the table that is about RLlib, of all its generations.

Modules of `ray.rllib` that have the same name in `kernel.rllib` are not here: they are found by it.
"""

from __future__ import annotations

_FIRST = "kernel.rllib.first_generation"
_AGENTS = {
    "a3c": ("A3C", "A2C"),
    "a3c.a2c": ("A2C",),
    "a3c.a3c": ("A3C",),
    "ars": ("ARS",),
    "ars.ars": ("ARS",),
    "ddpg": ("DDPG", "TD3", "ApexDDPG"),
    "ddpg.apex": ("ApexDDPG",),
    "ddpg.ddpg": ("DDPG",),
    "ddpg.td3": ("TD3",),
    "dqn": ("DQN", "SimpleQ", "ApexDQN", "R2D2"),
    "dqn.apex": ("ApexDQN",),
    "dqn.dqn": ("DQN",),
    "dqn.r2d2": ("R2D2",),
    "dqn.simple_q": ("SimpleQ",),
    "dreamer": ("Dreamer",),
    "dreamer.dreamer": ("Dreamer",),
    "es": ("ES",),
    "es.es": ("ES",),
    "impala": ("IMPALA",),
    "impala.impala": ("IMPALA",),
    "maddpg": ("MADDPG",),
    "maddpg.maddpg": ("MADDPG",),
    "maml": ("MAML",),
    "maml.maml": ("MAML",),
    "alpha_zero": ("AlphaZero",),
    "alpha_zero.alpha_zero": ("AlphaZero",),
    "marwil": ("MARWIL", "BC"),
    "marwil.bc": ("BC",),
    "marwil.marwil": ("MARWIL",),
    "mbmpo": ("MBMPO",),
    "mbmpo.mbmpo": ("MBMPO",),
    "pg": ("PG",),
    "pg.pg": ("PG",),
    "ppo": ("PPO", "DDPPO", "APPO"),
    "ppo.appo": ("APPO",),
    "ppo.ddppo": ("DDPPO",),
    "ppo.ppo": ("PPO",),
    "qmix": ("QMIX", "ApexQMIX"),
    "qmix.apex": ("ApexQMIX",),
    "qmix.qmix": ("QMIX",),
    "sac": ("SAC",),
    "sac.sac": ("SAC",),
    "cql": ("CQL",),
    "cql.cql": ("CQL",),
    "slateq": ("SlateQ",),
    "slateq.slateq": ("SlateQ",),
}
"""Modules of `ray.rllib.agents`, and their trainers; `DEFAULT_CONFIG` is that of the first."""
_CONTRIBUTED = {"maddpg": ("MADDPG",), "maddpg.maddpg": ("MADDPG",)}
"""The same of `ray.rllib.contrib`."""
ALGORITHMS = {
    "a2c": "A2C",
    "a3c": "A3C",
    "alpha_star": "AlphaStar",
    "alpha_zero": "AlphaZero",
    "apex_ddpg": "ApexDDPG",
    "apex_dqn": "ApexDQN",
    "appo": "APPO",
    "ars": "ARS",
    "bc": "BC",
    "cql": "CQL",
    "crr": "CRR",
    "ddpg": "DDPG",
    "ddppo": "DDPPO",
    "dqn": "DQN",
    "dreamer": "Dreamer",
    "dreamerv3": "DreamerV3",
    "dt": "DT",
    "es": "ES",
    "impala": "IMPALA",
    "iql": "IQL",
    "maddpg": "MADDPG",
    "maml": "MAML",
    "marwil": "MARWIL",
    "mbmpo": "MBMPO",
    "pg": "PG",
    "ppo": "PPO",
    "qmix": "QMIX",
    "r2d2": "R2D2",
    "sac": "SAC",
    "simple_q": "SimpleQ",
    "slateq": "SlateQ",
    "td3": "TD3",
    "tqc": "TQC",
}
"""Modules of `ray.rllib.algorithms`."""
_AGENTS_OF_2017 = {"a3c": "A3C", "dqn": "DQN", "es": "ES", "ppo": "PPO"}
"""Modules of 0.2, where trainers were agents."""


_SPELLED = {"IMPALA": "Impala", "QMIX": "QMix"}
"""Spellings of names in releases before 2.7."""
_OF_TRAINERS = {**_SPELLED, "ApexDQN": "Apex", "ApexQMIX": "ApexQMix"}
"""First words of trainers' names, where they differ."""
_DICTS = {
    "ApexDDPG": "APEX_DDPG_DEFAULT_CONFIG",
    "ApexDQN": "APEX_DEFAULT_CONFIG",
    "ApexQMIX": "APEX_QMIX_DEFAULT_CONFIG",
    "R2D2": "R2D2_DEFAULT_CONFIG",
}
"""The names of dicts of defaults beside `DEFAULT_CONFIG`."""


def _trainers(*names: str) -> dict[str, str]:
    return {f"{_OF_TRAINERS.get(name, name)}Trainer": f"{_FIRST}.trainers:{name}Trainer" for name in names}


def _agent(names: tuple[str, ...]) -> dict[str, str]:
    older = {f"{_OF_TRAINERS.get(name, name)}Agent": f"{_FIRST}.trainers:{name}Trainer" for name in names}
    dicts = {_DICTS[name]: f"{_FIRST}.default_configs:{name}" for name in names if name in _DICTS}
    return {**_trainers(*names), **older, **dicts, "DEFAULT_CONFIG": f"{_FIRST}.default_configs:{names[0]}"}


def _algorithm(module: str, name: str) -> dict[str, str]:
    found = {
        f"{spelled}{end}": f"kernel.rllib.algorithms.{module}:{name}{end}"
        for spelled in dict.fromkeys((name, _SPELLED.get(name, name)))
        for end in ("", "Config")
    }
    return {**found, "DEFAULT_CONFIG": f"kernel.rllib.training.default_configs:{name}"}


_BANDITS = {
    **{
        f"Bandit{name}{end}": f"kernel.rllib.algorithms.bandit:Bandit{name}{end}"
        for name in ("LinUCB", "LinTS")
        for end in ("", "Config")
    },
    "BanditConfig": "kernel.rllib.algorithms.bandit:BanditConfig",
    "DEFAULT_CONFIG": "kernel.rllib.training.default_configs:BanditLinUCB",
}
_BANDIT_TRAINERS = {
    **_trainers("BanditLinUCB", "BanditLinTS"),
    "DEFAULT_CONFIG": f"{_FIRST}.default_configs:BanditLinUCB",
}
_CONTRIB_TRAINERS = {
    "lin_ts": {
        "LinTSTrainer": f"{_FIRST}.trainers:BanditLinTSTrainer",
        "TS_CONFIG": f"{_FIRST}.default_configs:BanditLinTS",
    },
    "lin_ucb": {
        "LinUCBTrainer": f"{_FIRST}.trainers:BanditLinUCBTrainer",
        "UCB_CONFIG": f"{_FIRST}.default_configs:BanditLinUCB",
    },
}
"""Modules of `ray.rllib.contrib.bandits.agents`."""
_SPARSE_CART_POLE = {"CartPoleSparseRewards": "kernel.rllib.envs.games.cart_pole_sparse_rewards:CartPoleSparseRewards"}
_CONTEXTUAL = {
    name: f"kernel.rllib.envs.games.contextual_bandits:{name}"
    for name in ("LinearDiscreteEnv", "SimpleContextualBandit", "WheelBanditEnv")
}
_ITEMS = {"ParametricItemRecoEnv": "kernel.rllib.envs.games.item_recommendation:ParametricItemRecoEnv"}
_RANDOM_AGENT = {
    "RandomAgent": f"{_FIRST}.trainers:RandomAgentTrainer",
    "DEFAULT_CONFIG": f"{_FIRST}.default_configs:RandomAgent",
}
_CONTRIB: dict[str, dict[str, str]] = {
    "ray.rllib.contrib.bandits": {},
    "ray.rllib.contrib.bandits.agents": {
        name: target
        for found in _CONTRIB_TRAINERS.values()
        for name, target in found.items()
        if name.endswith("Trainer")
    },
    **{f"ray.rllib.contrib.bandits.agents.{module}": found for module, found in _CONTRIB_TRAINERS.items()},
    "ray.rllib.contrib.bandits.envs": {**_CONTEXTUAL, **_ITEMS},
    "ray.rllib.contrib.bandits.envs.discrete": {
        name: _CONTEXTUAL[name] for name in ("LinearDiscreteEnv", "WheelBanditEnv")
    },
    "ray.rllib.contrib.bandits.envs.parametric": _ITEMS,
    "ray.rllib.contrib.bandits.examples": {},
    "ray.rllib.contrib.bandits.examples.simple_context_bandit": {
        "SimpleContextualBandit": _CONTEXTUAL["SimpleContextualBandit"]
    },
    "ray.rllib.contrib.bandits.exploration": {
        "ThompsonSampling": "kernel.rllib.exploration.linear:ThompsonSampling",
        "UCB": "kernel.rllib.exploration.linear:UpperConfidenceBound",
    },
    "ray.rllib.contrib.random_agent": {},
    "ray.rllib.contrib.random_agent.random_agent": _RANDOM_AGENT,
}
"""Modules that others had contributed."""
_CONFIG = {"AlgorithmConfig": "kernel.rllib:AlgorithmConfig"}
_TRAINER = {
    "COMMON_CONFIG": "kernel.rllib.config.defaults:COMMON_CONFIG",
    "Trainer": f"{_FIRST}.trainer:Trainer",
    "with_base_config": "kernel.rllib.config.defaults:with_base_config",
    "with_common_config": "kernel.rllib.config.defaults:with_common_config",
}
_POLICY = {"Policy": f"{_FIRST}.policy:Policy"}
_SPEC = {"PolicySpec": "kernel.rllib.config:PolicySpec"}
_TORCH = {"TorchPolicy": f"{_FIRST}.torch_policy:TorchPolicy"}
_BUILDERS = {
    "build_tf_policy": f"{_FIRST}.tf_policy:build_tf_policy",
    "build_torch_policy": f"{_FIRST}.torch_policy:build_torch_policy",
}
_BATCHES = {
    "MultiAgentBatch": "kernel.rllib.data.batch:MultiAgentBatch",
    "SampleBatch": "kernel.rllib.data.batch:Batch",
}
_BUILDER = {
    "SampleBatchBuilder": f"{_FIRST}.sample_batch_builder:SampleBatchBuilder",
    "MultiAgentSampleBatchBuilder": f"{_FIRST}.multi_agent_sample_batch_builder:MultiAgentSampleBatchBuilder",
}
_OFFLINE = "kernel.rllib.offline"
_READER = {"JsonReader": f"{_OFFLINE}.json_reader:JsonReader"}
_WRITER = {"JsonWriter": f"{_OFFLINE}.json_writer:JsonWriter"}
_INPUT = {"InputReader": f"{_OFFLINE}.input_reader:InputReader"}
_OUTPUT = {"OutputWriter": f"{_OFFLINE}.input_reader:OutputWriter"}
_ESTIMATOR = {name: f"{_OFFLINE}.estimators.estimator:{name}" for name in ("OffPolicyEstimate", "OffPolicyEstimator")}
_IMPORTANCE = {
    name: f"{_OFFLINE}.estimators.importance_sampling:{name}"
    for name in ("ImportanceSamplingEstimator", "WeightedImportanceSamplingEstimator")
}
_BATCH_ESTIMATORS = {
    "OffPolicyEstimator": f"{_OFFLINE}.estimators.batch_estimator:BatchEstimator",
    **{
        name: f"{_OFFLINE}.estimators.batch_importance_sampling:{name}"
        for name in ("ImportanceSampling", "WeightedImportanceSampling")
    },
    "DirectMethod": f"{_OFFLINE}.estimators.direct_method:DirectMethod",
    "DoublyRobust": f"{_OFFLINE}.estimators.doubly_robust:DoublyRobust",
}
_FITTED_Q = {"FQETorchModel": f"{_OFFLINE}.estimators.fitted_q:FittedQEvaluation"}
_CONTEXT = {"IOContext": f"{_OFFLINE}.io_context:IOContext"}
_WORKER = {"RolloutWorker": f"{_FIRST}.rollout_worker:RolloutWorker"}
_OPTIMIZERS = {
    "AsyncGradientsOptimizer": f"{_FIRST}.policy_optimizers:AsyncGradientsOptimizer",
    "AsyncReplayOptimizer": f"{_FIRST}.async_replay_optimizer:AsyncReplayOptimizer",
    "AsyncSamplesOptimizer": f"{_FIRST}.async_samples_optimizer:AsyncSamplesOptimizer",
    "LocalMultiGPUOptimizer": f"{_FIRST}.policy_optimizers:LocalMultiGPUOptimizer",
    "MicrobatchOptimizer": f"{_FIRST}.micro_batches:MicrobatchOptimizer",
    "PolicyOptimizer": f"{_FIRST}.policy_optimizers:PolicyOptimizer",
    "SyncBatchReplayOptimizer": f"{_FIRST}.replay_optimizers:SyncBatchReplayOptimizer",
    "SyncReplayOptimizer": f"{_FIRST}.replay_optimizers:SyncReplayOptimizer",
    "SyncSamplesOptimizer": f"{_FIRST}.policy_optimizers:SyncSamplesOptimizer",
}
_OPTIMIZER_MODULES = {
    "async_gradients_optimizer": "AsyncGradientsOptimizer",
    "async_samples_optimizer": "AsyncSamplesOptimizer",
    "microbatch_optimizer": "MicrobatchOptimizer",
    "multi_gpu_optimizer": "LocalMultiGPUOptimizer",
    "policy_optimizer": "PolicyOptimizer",
    "sync_batch_replay_optimizer": "SyncBatchReplayOptimizer",
    "sync_replay_optimizer": "SyncReplayOptimizer",
    "sync_samples_optimizer": "SyncSamplesOptimizer",
}
"""Modules of `ray.rllib.optimizers`, each with its class."""
_LOCAL_REPLAY = {"LocalReplayBuffer": f"{_FIRST}.local_replay_buffer:LocalReplayBuffer"}
_WORKER_SET = {"WorkerSet": f"{_FIRST}.rollout_worker:WorkerSet"}
_ADVANTAGES = {name: f"{_FIRST}.postprocessing:{name}" for name in ("Postprocessing", "compute_advantages")}
_CALLBACKS = {
    name: f"kernel.rllib:{name}"
    for name in ("DefaultCallbacks", "MemoryTrackingCallbacks", "MultiCallbacks", "RLlibCallback")
}
_EPISODE = {name: "kernel.rllib.callbacks.episode:EpisodeView" for name in ("Episode", "MultiAgentEpisode")}
_SINGLE_EPISODE = {"SingleAgentEpisode": "kernel.rllib.callbacks.episode:EpisodeView"}
_MULTI_AGENT = {name: f"kernel.rllib.envs.multi_agent:{name}" for name in ("MultiAgentEnv", "make_multi_agent")}
_PETTING_ZOO = {name: f"kernel.rllib.envs.pettingzoo:{name}" for name in ("ParallelPettingZooEnv", "PettingZooEnv")}
_ENV_STATE = {"ENV_STATE": "kernel.rllib.envs.groups:ENV_STATE"}
_OF_GROUPS = {name: f"kernel.rllib.envs.groups:{name}" for name in ("GROUP_INFO", "GROUP_REWARDS")}
_VECTOR = {"VectorEnv": "kernel.rllib.envs.vector_base:VectorEnvBase"}
_CONTEXT = {"EnvContext": "kernel.rllib.envs.context:EnvContext"}
_TASKS = {"TaskSettableEnv": "kernel.rllib.envs.task:TaskSettableEnv"}
_PREPROCESSORS = {
    name: f"kernel.rllib.spaces.preprocessors:{name}"
    for name in (
        "AtariRamPreprocessor", "DictFlatteningPreprocessor", "GenericPixelPreprocessor", "NoPreprocessor",
        "OneHotPreprocessor", "Preprocessor", "RepeatedValuesPreprocessor", "TupleFlatteningPreprocessor",
        "get_preprocessor",
    )
}  # fmt: skip
_PREPROCESSOR = {"Preprocessor": _PREPROCESSORS["Preprocessor"]}
_ATARI = {
    name: f"kernel.rllib.envs.atari:{name}"
    for name in (
        "ClipRewardEnv", "EpisodicLifeEnv", "FireResetEnv", "FrameStack", "MaxAndSkipEnv", "NoopResetEnv", "WarpFrame",
        "is_atari", "wrap_deepmind",
    )
}  # fmt: skip
_MODEL_DEFAULTS = {"MODEL_DEFAULTS": f"{_FIRST}.default_configs:MODEL_DEFAULTS"}
_CATALOG = {"ModelCatalog": f"{_FIRST}.catalog:ModelCatalog"}
_ACTION_DIST = {"ActionDistribution": f"{_FIRST}.action_dist:ActionDistribution"}
_TUPLE_ACTIONS = {"TupleActions": f"{_FIRST}.action_dist:TupleActions"}
_TORCH_ACTION_DISTS = {
    name: f"{_FIRST}.torch_action_dist:{name}"
    for name in ("TorchCategorical", "TorchDiagGaussian", "TorchDistributionWrapper", "TorchMultiCategorical")
}
_TORCH_MODEL = {"TorchModelV2": "kernel.rllib.modules.model_v2:TorchModelV2"}
_MODEL = {"ModelV2": "kernel.rllib.modules.model_v2:TorchModelV2"}
_ADD_TIME = {"add_time_dimension": "kernel.rllib.modules.model_v2:add_time_dimension"}
_TORCH_RECURRENT = {"RecurrentNetwork": "kernel.rllib.modules.model_v2:RecurrentNetwork", **_ADD_TIME}
_OLD_RECURRENT = {"RecurrentTorchModel": "kernel.rllib.modules.model_v2:RecurrentTorchModel"}
_COLUMNS = {"Columns": "kernel.rllib.data.columns:Columns"}
_VALUES_API = {"ValueFunctionAPI": "kernel.rllib.modules.rl_module:ValueFunctionAPI"}
_TORCH_NETWORK = {"FullyConnectedNetwork": "kernel.rllib.modules.model_v2:FullyConnectedNetwork"}
_SPECS = {"RLModuleSpec": "kernel.rllib.modules.rl_module_spec:RLModuleSpec"}
_RL_MODULE = {**_SPECS, "RLModule": "kernel.rllib.checkpoints.modules:SavedModule"}
_TORCH_RL_MODULE = {"TorchRLModule": "kernel.rllib.modules.rl_module:TorchRLModule"}
_CONNECTORS = {
    name: f"kernel.rllib.connectors.named:{name}"
    for name in ("FlattenObservations", "FrameStackingEnvToModule", "MeanStdFilter", "PrevActionsPrevRewards")
}
_MODEL_CONFIG = {"DefaultModelConfig": "kernel.rllib.config:DefaultModelConfig"}
_FRAMEWORKS = {
    "try_import_tf": f"{_FIRST}.frameworks:try_import_tf",
    "try_import_tfp": f"{_FIRST}.frameworks:try_import_tfp",
    "try_import_torch": f"{_FIRST}.frameworks:try_import_torch",
}
_EXPLORATIONS = {
    "epsilon_greedy": ("EpsilonGreedy", "epsilon_greedy"),
    "gaussian_noise": ("GaussianNoise", "action_noise"),
    "ornstein_uhlenbeck_noise": ("OrnsteinUhlenbeckNoise", "action_noise"),
    "parameter_noise": ("ParameterNoise", "parameter_noise"),
    "per_worker_epsilon_greedy": ("PerWorkerEpsilonGreedy", "epsilon_greedy"),
    "per_worker_gaussian_noise": ("PerWorkerGaussianNoise", "action_noise"),
    "per_worker_ornstein_uhlenbeck_noise": ("PerWorkerOrnsteinUhlenbeckNoise", "action_noise"),
    "random": ("Random", "epsilon_greedy"),
    "slate_epsilon_greedy": ("SlateEpsilonGreedy", "slates"),
    "soft_q": ("SoftQ", "epsilon_greedy"),
    "stochastic_sampling": ("StochasticSampling", "exploration"),
    "thompson_sampling": ("ThompsonSampling", "linear"),
    "upper_confidence_bound": ("UpperConfidenceBound", "linear"),
}
"""Modules of `ray.rllib.utils.exploration`: the class of each, and its module of `kernel.rllib.exploration`."""
_EXPLORATION = {"Exploration": "kernel.rllib.first_generation.exploration:Exploration"}
_EXPLORATION_MODULES = {
    **{module: {name: f"kernel.rllib.exploration.{home}:{name}"} for module, (name, home) in _EXPLORATIONS.items()},
    "curiosity": {"Curiosity": "kernel.rllib.training.curiosity:Curiosity"},
}
_NUMPY_FUNCTIONS = {
    name: f"{_FIRST}.numpy_functions:{name}" for name in ("fc", "lstm", "one_hot", "relu", "sigmoid", "softmax")
}
_HELPERS = {
    name: f"{_FIRST}.helpers:{name}" for name in ("add_mixins", "check", "check_framework", "force_list", "force_tuple")
}
_MERGING = {"merge_dicts": "kernel.rllib.config.defaults:merge_dicts"}
_OVERRIDE = {"override": f"{_FIRST}.frameworks:override"}
_TYPES = {
    name: "typing:Any"
    for name in (
        "AgentID", "AlgorithmConfigDict", "EnvConfigDict", "EnvID", "EnvInfoDict", "EnvObsType", "EnvType", "EpisodeID",
        "FileType", "ModelConfigDict", "ModelGradients", "ModelWeights", "ModuleID", "MultiAgentDict",
        "MultiAgentPolicyConfigDict", "MultiEnvDict", "PartialAlgorithmConfigDict", "PartialTrainerConfigDict",
        "PolicyID", "ResultDict", "SampleBatchType", "TensorStructType", "TensorType", "TrainerConfigDict",
    )
}  # fmt: skip
"""Names that are only used in annotations."""
_MARKS = {name: ".annotations:unchanged" for name in ("DeveloperAPI", "ExperimentalAPI", "OldAPIStack", "PublicAPI")}
_SPACES = {"Repeated": "repeated", "Simplex": "simplex"}

_EXTERNAL = {name: f"kernel.rllib.envs.external:{name}" for name in ("ExternalEnv", "ExternalMultiAgentEnv")}
_CLIENT = {"PolicyClient": "kernel.rllib.serving.client:PolicyClient"}
_SERVER = {"PolicyServer": "kernel.rllib.serving.server:PolicyServer"}
_SERVER_INPUT = {"PolicyServerInput": "kernel.rllib.serving.server_input:PolicyServerInput"}

RLLIB_NAMES: dict[str, dict[str, str]] = {
    "ray.rllib": {
        "*": "kernel.rllib",
        **_POLICY,
        **_TORCH,
        **_WORKER,
        **_BATCHES,
        "MultiAgentEnv": _MULTI_AGENT["MultiAgentEnv"],
        **_VECTOR,
        **_EXTERNAL,
    },
    "ray.rllib.agents": {
        **_trainers(*ALGORITHMS.values(), "BanditLinUCB", "BanditLinTS"),
        **_TRAINER,
        **_CALLBACKS,
    },
    **{f"ray.rllib.agents.{module}": _agent(names) for module, names in _AGENTS.items()},
    "ray.rllib.agents.bandit": _BANDIT_TRAINERS,
    "ray.rllib.agents.bandit.bandit": _BANDIT_TRAINERS,
    "ray.rllib.agents.callbacks": _CALLBACKS,
    "ray.rllib.agents.registry": {
        name: f"{_FIRST}.trainers:trainer_class" for name in ("get_agent_class", "get_trainer_class")
    },
    "ray.rllib.agents.trainer": _TRAINER,
    "ray.rllib.agents.trainer_config": {"TrainerConfig": "kernel.rllib:AlgorithmConfig"},
    "ray.rllib.agents.trainer_template": {"build_trainer": f"{_FIRST}.building:build_trainer"},
    "ray.rllib.algorithms": {"Algorithm": "kernel.rllib:Algorithm", **_CONFIG},
    **{f"ray.rllib.algorithms.{module}": _algorithm(module, name) for module, name in ALGORITHMS.items()},
    **{f"ray.rllib.algorithms.{module}.{module}": _algorithm(module, name) for module, name in ALGORITHMS.items()},
    "ray.rllib.algorithms.bandit": _BANDITS,
    "ray.rllib.algorithms.bandit.bandit": _BANDITS,
    "ray.rllib.algorithms.random_agent": {
        name: f"kernel.rllib.algorithms.random_agent:{name}" for name in ("RandomAgent", "RandomAgentConfig")
    },
    "ray.rllib.algorithms.algorithm_config": {**_CONFIG, "NotProvided": "kernel.rllib.config:NOT_PROVIDED"},
    "ray.rllib.algorithms.callbacks": _CALLBACKS,
    "ray.rllib.algorithms.registry": {
        "get_algorithm_class": "kernel.rllib.training.registry:algorithm_class",
    },
    **_CONTRIB,
    "ray.rllib.connectors": {},
    "ray.rllib.connectors.env_to_module": _CONNECTORS,
    "ray.rllib.contrib": {},
    **{f"ray.rllib.contrib.{module}": _agent(names) for module, names in _CONTRIBUTED.items()},
    "ray.rllib.contrib.alpha_zero": {},
    "ray.rllib.contrib.alpha_zero.core": {},
    "ray.rllib.contrib.alpha_zero.core.alpha_zero_trainer": _agent(("AlphaZero",)),
    "ray.rllib.contrib.alpha_zero.environments": {},
    "ray.rllib.contrib.alpha_zero.environments.cartpole": {
        "CartPole": _SPARSE_CART_POLE["CartPoleSparseRewards"],
    },
    "ray.rllib.core": _COLUMNS,
    "ray.rllib.core.columns": _COLUMNS,
    "ray.rllib.core.rl_module": _RL_MODULE,
    "ray.rllib.core.rl_module.apis": _VALUES_API,
    "ray.rllib.core.rl_module.apis.value_function_api": _VALUES_API,
    "ray.rllib.core.rl_module.default_model_config": _MODEL_CONFIG,
    "ray.rllib.core.rl_module.rl_module": _RL_MODULE,
    "ray.rllib.core.rl_module.torch": _TORCH_RL_MODULE,
    "ray.rllib.core.rl_module.torch.torch_rl_module": _TORCH_RL_MODULE,
    "ray.rllib.env": {**_MULTI_AGENT, **_VECTOR, **_CONTEXT, **_EXTERNAL, **_CLIENT, **_SERVER_INPUT},
    "ray.rllib.env.external_env": _EXTERNAL,
    "ray.rllib.env.external_multi_agent_env": _EXTERNAL,
    "ray.rllib.env.policy_client": _CLIENT,
    "ray.rllib.env.policy_server_input": _SERVER_INPUT,
    "ray.rllib.env.single_agent_episode": _SINGLE_EPISODE,
    "ray.rllib.env.apis": {},
    "ray.rllib.env.apis.task_settable_env": _TASKS,
    "ray.rllib.env.group_agents_wrapper": dict.fromkeys(
        ("GroupAgentsWrapper", "_GroupAgentsWrapper"), "kernel.rllib.envs.multi_agent:GroupAgentsWrapper"
    ),
    "ray.rllib.env.env_context": _CONTEXT,
    "ray.rllib.env.constants": _OF_GROUPS,
    "ray.rllib.env.multi_agent_env": {**_MULTI_AGENT, **_ENV_STATE},
    "ray.rllib.env.vector_env": _VECTOR,
    "ray.rllib.evaluation": {
        **_WORKER,
        **_WORKER_SET,
        **_BATCHES,
        **_BUILDER,
        **_ADVANTAGES,
        "MultiAgentEpisode": _EPISODE["MultiAgentEpisode"],
    },
    "ray.rllib.evaluation.episode": _EPISODE,
    "ray.rllib.env.atari_wrappers": _ATARI,
    "ray.rllib.env.wrappers": {},
    "ray.rllib.env.pettingzoo_env": _PETTING_ZOO,
    "ray.rllib.env.wrappers.atari_wrappers": _ATARI,
    "ray.rllib.env.wrappers.open_spiel": {"OpenSpielEnv": "kernel.rllib.envs.open_spiel:OpenSpielEnv"},
    "ray.rllib.env.wrappers.pettingzoo_env": _PETTING_ZOO,
    "ray.rllib.evaluation.postprocessing": _ADVANTAGES,
    "ray.rllib.evaluation.rollout_worker": {
        **_WORKER,
        "get_global_worker": f"{_FIRST}.rollout_worker:get_global_worker",
    },
    "ray.rllib.evaluation.sample_batch_builder": _BUILDER,
    "ray.rllib.evaluation.worker_set": _WORKER_SET,
    "ray.rllib.examples": {},
    "ray.rllib.examples.env": {},
    "ray.rllib.examples.env.bandit_envs_discrete": _CONTEXTUAL,
    "ray.rllib.examples.env.cartpole_sparse_rewards": _SPARSE_CART_POLE,
    "ray.rllib.examples.env.bandit_envs_recommender_system": _ITEMS,
    "ray.rllib.examples.env.correlated_actions_env": {
        "CorrelatedActionsEnv": "kernel.rllib.envs.games.correlated_actions:CorrelatedActionsEnv",
    },
    "ray.rllib.examples.env.mbmpo_env": {
        "CartPoleWrapper": "kernel.rllib.envs.games.known_rewards:CartPoleWithReward",
        "PendulumWrapper": "kernel.rllib.envs.games.known_rewards:PendulumWithReward",
    },
    "ray.rllib.examples.env.pendulum_mass": {
        "PendulumMassEnv": "kernel.rllib.envs.games.pendulum_mass:PendulumMassEnv",
    },
    "ray.rllib.examples.env.recommender_system_envs_with_recsim": {
        name: f"kernel.rllib.envs.games.recommender_systems:{name}"
        for name in ("InterestEvolutionRecSimEnv", "LongTermSatisfactionRecSimEnv")
    },
    "ray.rllib.examples.env.windy_maze_env": {
        name: f"kernel.rllib.envs.games.windy_maze:{name}" for name in ("HierarchicalWindyMazeEnv", "WindyMazeEnv")
    },
    "ray.rllib.examples.policy": {},
    "ray.rllib.examples.policy.random_policy": {"RandomPolicy": f"{_FIRST}.random_policy:RandomPolicy"},
    "ray.rllib.examples.policy.rock_paper_scissors_dummies": {
        name: f"{_FIRST}.rock_paper_scissors_policies:{name}" for name in ("AlwaysSameHeuristic", "BeatLastHeuristic")
    },
    "ray.rllib.models": {**_MODEL_DEFAULTS, **_CATALOG, **_PREPROCESSOR, **_ACTION_DIST},
    "ray.rllib.models.action_dist": _ACTION_DIST,
    "ray.rllib.models.catalog": {**_MODEL_DEFAULTS, **_CATALOG},
    "ray.rllib.models.modelv2": _MODEL,
    "ray.rllib.models.preprocessors": _PREPROCESSORS,
    "ray.rllib.models.torch": {},
    "ray.rllib.models.torch.fcnet": _TORCH_NETWORK,
    "ray.rllib.models.torch.recurrent_net": _TORCH_RECURRENT,
    "ray.rllib.models.torch.torch_action_dist": _TORCH_ACTION_DISTS,
    "ray.rllib.models.torch.recurrent_torch_model": _OLD_RECURRENT,
    "ray.rllib.models.torch.torch_modelv2": _TORCH_MODEL,
    "ray.rllib.offline": {**_READER, **_WRITER, **_INPUT, **_OUTPUT, **_CONTEXT, **_ESTIMATOR, **_IMPORTANCE},
    "ray.rllib.offline.estimators": _BATCH_ESTIMATORS,
    **{
        f"ray.rllib.offline.estimators.{module}": {name: _BATCH_ESTIMATORS[name]}
        for module, name in (
            ("direct_method", "DirectMethod"),
            ("doubly_robust", "DoublyRobust"),
            ("importance_sampling", "ImportanceSampling"),
            ("off_policy_estimator", "OffPolicyEstimator"),
            ("weighted_importance_sampling", "WeightedImportanceSampling"),
        )
    },
    "ray.rllib.offline.estimators.fqe_torch_model": _FITTED_Q,
    "ray.rllib.offline.input_reader": _INPUT,
    "ray.rllib.offline.io_context": _CONTEXT,
    "ray.rllib.offline.json_reader": _READER,
    "ray.rllib.offline.json_writer": _WRITER,
    "ray.rllib.offline.is_estimator": {"ImportanceSamplingEstimator": _IMPORTANCE["ImportanceSamplingEstimator"]},
    "ray.rllib.offline.off_policy_estimator": _ESTIMATOR,
    "ray.rllib.offline.output_writer": _OUTPUT,
    "ray.rllib.offline.wis_estimator": {
        "WeightedImportanceSamplingEstimator": _IMPORTANCE["WeightedImportanceSamplingEstimator"]
    },
    "ray.rllib.optimizers": _OPTIMIZERS,
    **{f"ray.rllib.optimizers.{module}": {name: _OPTIMIZERS[name]} for module, name in _OPTIMIZER_MODULES.items()},
    "ray.rllib.optimizers.async_replay_optimizer": {
        "AsyncReplayOptimizer": _OPTIMIZERS["AsyncReplayOptimizer"],
        **_LOCAL_REPLAY,
    },
    "ray.rllib.policy": {**_POLICY, **_TORCH, **_BUILDERS},
    "ray.rllib.policy.policy": {**_POLICY, **_SPEC},
    "ray.rllib.policy.rnn_sequencing": _ADD_TIME,
    "ray.rllib.policy.sample_batch": _BATCHES,
    "ray.rllib.policy.tf_policy_template": {"build_tf_policy": _BUILDERS["build_tf_policy"]},
    "ray.rllib.policy.torch_policy": _TORCH,
    "ray.rllib.policy.torch_policy_template": {"build_torch_policy": _BUILDERS["build_torch_policy"]},
    **{
        f"ray.rllib.{module}": {
            **_trainers(name),
            f"{name}Agent": f"{_FIRST}.agents:{name}Agent",
            "DEFAULT_CONFIG": f"{_FIRST}.default_configs:{name}",
        }
        for module, name in _AGENTS_OF_2017.items()
    },
    "ray.rllib.utils": {
        **_FRAMEWORKS,
        **_MERGING,
        **_OVERRIDE,
        **_CLIENT,
        **_SERVER,
        **_NUMPY_FUNCTIONS,
        **_HELPERS,
        "deep_update": ".tune.helpers:deep_update",
    },
    "ray.rllib.utils.annotations": {**_OVERRIDE, **_MARKS},
    "ray.rllib.utils.deprecation": {"DEPRECATED_VALUE": "kernel.rllib.config:DEPRECATED_VALUE"},
    "ray.rllib.utils.exploration": {
        **{name: target for found in _EXPLORATION_MODULES.values() for name, target in found.items()},
        **_EXPLORATION,
    },
    "ray.rllib.utils.exploration.exploration": _EXPLORATION,
    **{f"ray.rllib.utils.exploration.{module}": found for module, found in _EXPLORATION_MODULES.items()},
    "ray.rllib.utils.framework": {
        **_FRAMEWORKS,
        "check_framework": _HELPERS["check_framework"],
        "try_import_tf1_tf2": f"{_FIRST}.frameworks:try_import_tf1_tf2",
    },
    "ray.rllib.utils.metrics": {},
    "ray.rllib.utils.numpy": _NUMPY_FUNCTIONS,
    "ray.rllib.utils.policy_client": _CLIENT,
    "ray.rllib.utils.policy_server": _SERVER,
    "ray.rllib.utils.types": _TYPES,
    "ray.rllib.utils.typing": _TYPES,
    "ray.rllib.utils.spaces": {},
    "ray.rllib.utils.tuple_actions": _TUPLE_ACTIONS,
    **{
        f"ray.rllib.utils.spaces.{module}": {name: f"kernel.rllib.spaces.{module}:{name}"}
        for name, module in _SPACES.items()
    },
}

RLLIB_CONSTANTS: dict[str, object] = {
    "ray.rllib.core.DEFAULT_MODULE_ID": "default_policy",
    "ray.rllib.policy.sample_batch.DEFAULT_POLICY_ID": "default_policy",
    **{
        f"ray.rllib.utils.metrics.{name}": value
        for name, value in {
            "ENV_RUNNER_RESULTS": "env_runners",
            "EPISODE_LEN_MAX": "episode_len_max",
            "EPISODE_LEN_MEAN": "episode_len_mean",
            "EPISODE_LEN_MIN": "episode_len_min",
            "EPISODE_RETURN_MAX": "episode_return_max",
            "EPISODE_RETURN_MEAN": "episode_return_mean",
            "EPISODE_RETURN_MIN": "episode_return_min",
            "EVALUATION_RESULTS": "evaluation",
            "LEARNER_RESULTS": "learners",
            "NUM_ENV_STEPS_SAMPLED": "num_env_steps_sampled",
            "NUM_ENV_STEPS_SAMPLED_LIFETIME": "num_env_steps_sampled_lifetime",
            "NUM_EPISODES": "num_episodes",
            "NUM_EPISODES_LIFETIME": "num_episodes_lifetime",
        }.items()
    },
}

RLLIB_RENAMED: dict[str, str] = {
    "ray.rllib.PolicyEvaluator": "ray.rllib.RolloutWorker",
    "ray.rllib.PolicyGraph": "ray.rllib.Policy",
    "ray.rllib.TorchPolicyGraph": "ray.rllib.TorchPolicy",
    "ray.rllib.evaluation.PolicyEvaluator": "ray.rllib.evaluation.RolloutWorker",
    "ray.rllib.evaluation.PolicyGraph": "ray.rllib.policy.Policy",
}
