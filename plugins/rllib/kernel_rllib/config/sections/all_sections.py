"""All common settings together."""

from __future__ import annotations

from typing import ClassVar

from kernel_rllib.config.generations import values
from kernel_rllib.config.name_table import Conversion, Name
from kernel_rllib.config.names import CONVERSIONS, GONE, NAMES
from kernel_rllib.config.sections.api_stack import ApiStack
from kernel_rllib.config.sections.callbacks import Callbacks
from kernel_rllib.config.sections.checkpointing import Checkpointing
from kernel_rllib.config.sections.debugging import Debugging
from kernel_rllib.config.sections.env_runners import EnvRunners
from kernel_rllib.config.sections.environment import Environment
from kernel_rllib.config.sections.evaluation import Evaluation
from kernel_rllib.config.sections.experimental import Experimental
from kernel_rllib.config.sections.exploration import Exploration
from kernel_rllib.config.sections.fault_tolerance import FaultTolerance
from kernel_rllib.config.sections.framework import Framework
from kernel_rllib.config.sections.learners import Learners
from kernel_rllib.config.sections.multi_agent import MultiAgent
from kernel_rllib.config.sections.offline_data import OfflineData
from kernel_rllib.config.sections.python_environment import PythonEnvironment
from kernel_rllib.config.sections.reporting import Reporting
from kernel_rllib.config.sections.resources import Resources
from kernel_rllib.config.sections.rl_module import RLModule
from kernel_rllib.config.sections.training import Training
from kernel_rllib.config.sentinels import DEPRECATED_VALUE


class AllSections(
    Environment,
    EnvRunners,
    Exploration,
    Training,
    Learners,
    RLModule,
    MultiAgent,
    Evaluation,
    OfflineData,
    Callbacks,
    Reporting,
    Checkpointing,
    Debugging,
    FaultTolerance,
    Resources,
    Framework,
    ApiStack,
    PythonEnvironment,
    Experimental,
):
    """All common settings, under all their names."""

    rows: ClassVar[tuple[Name | Conversion, ...]] = (*NAMES, *CONVERSIONS)
    gone = GONE
    more_in_0_8_5 = values(sample_batch_size=DEPRECATED_VALUE)
