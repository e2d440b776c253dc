"""The errors of reinforcement learning. Each message says what happened, to what, what was expected, and what to do."""

from __future__ import annotations

from kernel_spec.errors import FaultError, KernelError


class RLlibError(KernelError):
    """Something of reinforcement learning went wrong; the base of all others here."""


class DataError(RLlibError, ValueError):
    """Columns of a batch or fragment do not fit together."""


class ModuleError(RLlibError, ValueError):
    """A module can't be made of what was asked for, or got inputs that it can't take."""


class NumericError(RLlibError, FloatingPointError):
    """A number is not finite where only finite ones make sense."""


class RunnersLostError(RLlibError, RuntimeError):
    """Runners died, and none can take their places."""


class ReplayLostError(RLlibError, RuntimeError):
    """Parts of the replay died, and none can take their places."""


class RunnerHangsError(RLlibError, FaultError):
    """A runner makes no step any more, or is never made; the message says in which method of which class it is."""


class StoppedError(RLlibError, RuntimeError):
    """An algorithm that was stopped is asked to go on."""


class ConfigError(RLlibError, ValueError):
    """A setting of an algorithm, or a schedule in it, is not what was expected."""


class MissingDependencyError(RLlibError, ImportError):
    """A library that a feature needs is not there, or is there and fails to import (the cause is chained)."""


class EnvError(RLlibError, ValueError):
    """An environment can't be made, breaks its contract, or failed; what it raised is chained."""


class EpisodeError(EnvError):
    """An episode of an external environment is not open, or can't be begun, or is asked for two things at a time."""


class PolicyServerError(RLlibError, ConnectionError):
    """A policy server can't be reached, does not answer, or refuses the token."""


class SpaceError(RLlibError, ValueError):
    """A space can't be used, or a value is not of its space."""


class UnknownSettingError(ConfigError, KeyError, TypeError):
    """There is no setting of that name; the message has the nearest one."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NoSuchSettingError(ConfigError, AttributeError):
    """A config has no attribute of that name; the message has the nearest one."""


class FrozenConfigError(ConfigError, AttributeError):
    """A config can't be changed any more."""


class CheckpointError(RLlibError, ValueError):
    """A checkpoint can't be written, or what is in a directory is none."""


class UnknownPolicyError(RLlibError, KeyError):
    """There is no policy of that id; the message has those that are there."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CallbackError(RLlibError, RuntimeError):
    """A callback of the user's raised; what it raised is chained."""


class EvaluationError(RLlibError, RuntimeError):
    """An evaluation could not be made, or a function that makes it returned what is none."""
