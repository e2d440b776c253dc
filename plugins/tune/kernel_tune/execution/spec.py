"""The specification of an experiment: all arguments of `tune.run` and `Tuner` that concern trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernel_runs.arguments import check_whole
from kernel_runs.resources import Request, make_request
from kernel_runs.settings.run import CheckpointConfig
from kernel_runs.trainable.function import FunctionTrainable
from kernel_runs.trainable.trainable import Trainable
from kernel_tune.trial import Trial


@dataclass
class CheckpointPolicy:
    """When trials save their state, and which checkpoints are kept."""

    every: int = 0
    """Iterations between two checkpoints of a class trainable; 0 for no checkpoints."""
    at_end: bool | None = False
    """Whether trials save at the end. None: if they are of a class that can save."""
    keep: int | None = None
    score_attribute: str | None = None
    lowest: bool = False

    def __post_init__(self) -> None:
        check_whole("tune", "checkpoint_freq", self.every, least=0)
        if self.keep is not None:
            check_whole("tune", "keep_checkpoints_num", self.keep, least=1)

    def made_for(self, trainable: type[Trainable], name: str) -> CheckpointPolicy:
        """Return the policy for a trainable. Raises ValueError if a function, which saves itself, is to be saved."""
        if not issubclass(trainable, FunctionTrainable):
            return self if self.at_end is not None else replace(self, at_end=trainable.can_save())
        if self.every:
            raise ValueError(
                f"checkpoint_freq is {self.every}, but {name} is a function: it saves itself, by "
                "report(metrics, checkpoint=...); the frequency is for Trainable classes"
            )
        if self.at_end:
            raise ValueError(
                f"checkpoint_at_end is for Trainable classes, but {name} is a function: it saves itself, by a last "
                "report(metrics, checkpoint=...)"
            )
        return replace(self, at_end=False)


def policy_of(config: CheckpointConfig, at_end: bool | None = False) -> CheckpointPolicy:
    """Return the policy of a `CheckpointConfig`. `at_end` is used if the config leaves it open."""
    return CheckpointPolicy(
        config.checkpoint_frequency,
        at_end if config.checkpoint_at_end is None else config.checkpoint_at_end,
        config.num_to_keep,
        config.checkpoint_score_attribute,
        config.checkpoint_score_order == "min",
    )


class _Spec(dict[str, Any]):
    """A configuration as functions in resources get it: `spec.config.alpha` is the value of `alpha`."""

    @property
    def config(self) -> _Spec:
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the trial's config has no {name!r}; it has {', '.join(map(str, self))}") from None


def _depends_on_config(resources: Any) -> bool:
    """Return whether resources, or amounts in a dict of them, are functions."""
    return callable(resources) or (isinstance(resources, Mapping) and any(map(callable, resources.values())))


@dataclass
class ExperimentSpec:
    """Describes one experiment: a trainable, a search space, and how its trials run."""

    name: str
    trainable_name: str
    local_dir: str
    """The experiment's directory."""
    trainable: Any = None
    """The class. It is not saved with the state of an experiment."""
    space: dict[str, Any] = field(default_factory=dict)
    num_samples: int = 1
    """The number of trials, or of repetitions of a grid; -1 for no end."""
    stop: dict[str, float] = field(default_factory=dict)
    """Thresholds that the process of a trial checks itself."""
    resources: Any = None
    """A request, or a function of the configuration that returns one. Amounts in a dict may be functions of `spec`."""
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    max_failures: int = 0
    """How often a trial runs again after a failure; -1 for always."""
    fail_fast: bool = False
    raises: bool = False
    """Whether the exception of a trial is raised from the run at once."""
    export_formats: list[str] = field(default_factory=list)
    restore_path: str = ""
    upload_dir: str = ""
    """The address that the experiment is copied to, for trainables that copy their checkpoints themselves."""
    metric: str | None = None
    mode: str | None = None
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    is_function: bool = True

    def request_for(self, config: dict[str, Any]) -> Request:
        """Return the resources of a trial with this configuration."""
        given = self.resources
        if callable(given) and not isinstance(given, type):
            given = given(config)
        elif isinstance(given, Mapping) and _depends_on_config(given):
            given = {key: amount(_Spec(config)) if callable(amount) else amount for key, amount in given.items()}
        if given is None and self.trainable is not None:
            given = self.trainable.default_resource_request(config)
        return make_request(given)

    @property
    def fixed_request(self) -> Request | None:
        """The resources of every trial, or None if they depend on the configuration."""
        if _depends_on_config(self.resources):
            return None
        if self.resources is None and self.trainable is not None and not self.is_function:
            return None
        return make_request(self.resources)

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "trainable": None,
            "resources": None if _depends_on_config(self.resources) else self.resources,
        }
