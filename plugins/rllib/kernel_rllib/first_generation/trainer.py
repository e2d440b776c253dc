"""Trainers: algorithms with the defaults and the manners of the first generation.

A trainer is made of a dict whose keys are those of 0.8.5 (any later ones are understood), and derived from by the names
of then: `_name`, `_default_config`, `_init`, `_train`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.claims import same
from kernel_rllib.config.defaults import merge_trainer_configs
from kernel_rllib.config.generations import Generation
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.errors import ConfigError, UnknownSettingError
from kernel_rllib.first_generation.hooks import TrainerHooks
from kernel_rllib.first_generation.old_env import FourValues
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.parts import env_maker_of
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.results import ResultTree
from kernel_runs.trainable.trainable import Trainable

if TYPE_CHECKING:
    from typing_extensions import Self

GENERATION: Generation = "0.8.5"


class Trainer(Algorithm):
    """An algorithm as the first generation had it. Derive from one that learns, or override `_init` and `_train`."""

    _name: ClassVar[str] = ""
    _default_config: ClassVar[Mapping[str, Any] | None] = None
    _hooks: ClassVar[TrainerHooks] = TrainerHooks()

    # -- what a trainer of one's own overrides -----------------------------------------------------------------------

    def _init(self, config: AlgorithmConfig, env_creator: Callable[[Mapping[str, Any]], Any]) -> None:
        """Prepare, in place of all that trainers prepare otherwise.

        Args:
            config: The settings; read them as a dict.
            env_creator: Makes an environment of an `env_config`, which resets and steps as old gym has it.
        """

    @classmethod
    def with_updates(cls, **overrides: Any) -> type[Self]:
        """Return a class that is like this one but for a name, defaults, a policy, or functions that are called.

        Args:
            overrides: `name`, `default_config`, `default_policy`, `get_policy_class`, `mixins`, and those of
                `TrainerHooks`.

        Raises:
            ConfigError: If something else is given.
        """
        given = dict(overrides)
        name = given.pop("name", None) or cls.__name__
        mixins = tuple(given.pop("mixins", None) or ())
        config = given.pop("default_config", cls._default_config)
        policy, choose = given.pop("default_policy", None), given.pop("get_policy_class", None)
        body: dict[str, Any] = {"__doc__": cls.__doc__, "_name": name, "_default_config": config}
        hooks = cls._hooks.updated(given)
        if policy is not None or choose is not None:
            body |= cls._with_policy(policy, choose)
        return type(name, (*mixins, cls), {**body, "_hooks": hooks})

    @classmethod
    def _with_policy(cls, policy: Any, choose: Callable[[Any], Any] | None) -> dict[str, Any]:
        """Return the attributes of a class that is like this one, but for its policy, or what chooses that.

        Raises:
            ConfigError: If trainers of this class learn without a policy of the user's.
        """
        raise ConfigError(
            f"{cls.__name__} learns by its own loss, so it can't be given the policy "
            f"{getattr(policy or choose, '__name__', policy)}: make a trainer for that with "
            "build_trainer(name=..., default_policy=...), which takes the same settings"
        )

    # -- how it differs from an algorithm ----------------------------------------------------------------------------

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        env: Any = None,
        logger_creator: Callable[..., Any] | None = None,
    ) -> None:
        """Build the trainer.

        Args:
            config: Its settings, as a dict of any generation; None for the defaults.
            env: The environment, in place of the config's.
            logger_creator: Makes what logs results, given the config.
        """
        self.state: dict[str, Any] = {}
        """The state of the functions that are called around training. It is part of checkpoints."""
        super().__init__(config, env, logger_creator)

    def setup(self, config: dict[str, Any]) -> None:
        """Make environments, module, learner and runners; or call `_init`, where that is overridden."""
        self._hooks.call("validate_config", self._settings)
        self._hooks.call("before_init", self)
        if self._prepares_itself():
            self.config = self._settings
            self.reports = Reports(self.config)
            self._init(self.config, self._env_creator())
        else:
            super().setup(config)
        self.state = dict(self._hooks.call("get_initial_state", self) or self.state)
        self._hooks.call("after_init", self)

    def step(self) -> ResultTree:
        """Do one iteration, and return its result."""
        self._hooks.call("before_train_step", self)
        result = self._train()
        self._hooks.call("after_train_result", self, result)
        return result

    def update(self, batch: Any, only: Any = None) -> Metrics:
        """Let the learner make a step."""
        metrics = super().update(batch, only)
        self._hooks.call("after_optimizer_step", self, metrics)
        return metrics

    def own_state(self) -> dict[str, Any]:
        """Return what this trainer has to keep beside what all have."""
        return {**super().own_state(), **({"state": self.state} if self.state else {})}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.state = dict(state.get("state", {}))
        super().set_own_state(state)

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Write all that training needs to go on; of one that prepares itself, what its own `_save` does."""
        if self._prepares_itself():
            return self._save(checkpoint_dir)
        return super().save_checkpoint(checkpoint_dir)  # type: ignore[func-returns-value]

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint; one that prepares itself, by its own `_restore`."""
        if self._prepares_itself():
            self._restore(checkpoint)
        else:
            super().load_checkpoint(checkpoint)

    def cleanup(self) -> None:
        """End the runners; of one that prepares itself, what its own `_stop` does."""
        if self._prepares_itself():
            self._stop()
        else:
            super().cleanup()

    def log_result(self, result: dict[str, Any]) -> None:
        """Let callbacks see the result of an iteration, and log it, by `_log_result`."""
        self._log_result(result)

    def export(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write the model in these formats, by `_export_model`. Return a path for each."""
        return self._export_model(export_formats, export_dir)

    def import_model(self, import_file: str) -> None:
        """Refuse: no built-in model reads files of Keras.

        Raises:
            UnknownSettingError: Always; it says what to use instead.
        """
        raise UnknownSettingError(
            f"import_model({import_file!r}) can't be done: this model has no import_from_h5(). Read the file by h5py, "
            "and give the arrays to trainer.get_policy().set_weights(), whose names get_weights() shows"
        )

    @property
    def optimizer(self) -> _OptimizerView:
        """The numbers of sampled and trained steps, as policy optimizers had them."""
        return _OptimizerView(self)

    # -- names of then, which subclasses override and call -------------------------------------------------------------

    def _train(self) -> ResultTree:
        return super().step()

    def _save(self, checkpoint_dir: str) -> Any:
        return Trainable.save_checkpoint(self, checkpoint_dir)  # It says what is missing.

    def _restore(self, checkpoint: Any) -> None:
        Trainable.load_checkpoint(self, checkpoint)

    def _stop(self) -> None:
        """Do nothing: what the trainer has prepared by itself, it ends by itself."""

    def _log_result(self, result: dict[str, Any]) -> None:
        super().log_result(result)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return super().export(export_formats, export_dir)

    # -- inside -------------------------------------------------------------------------------------------------------

    @classmethod
    def _config_of(cls, config: AlgorithmConfig | Mapping[str, Any] | None, env: Any) -> AlgorithmConfig:
        if isinstance(config, AlgorithmConfig):
            return super()._config_of(config, env)
        defaults = cls._default_config or {}
        given = merge_trainer_configs(defaults, config or {}, allow_unknown=True)
        names = cls.config_class.names
        own = {key: value for key, value in given.items() if names.find(key) is None}
        unknown = [key for key in own if key not in defaults]
        if unknown:
            raise UnknownSettingError(
                f"{cls._name or cls.__name__} has no setting {unknown[0]!r}"
                f"{did_you_mean(str(unknown[0]), [*names.by_key, *defaults])}"
            )
        found = cls.config_class.from_dict(
            {key: value for key, value in given.items() if key not in own}, generation=GENERATION
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # such as the names of other algorithms, in `defaults`
            found.update_from_dict(own, keep_unknown=True)
        found.algo_class = cls
        return found if env is None else found.environment(env)

    def settings_acted_on(self) -> frozenset[str]:
        """Return those of the algorithm, and those that are as the trainer's `default_config` has them."""
        if not self._default_config:
            return super().settings_acted_on()
        usual, given = self._config_of({}, None), self._settings
        fields, options = AlgorithmConfig.fields, type(given.model).fields
        as_usual = {name for name in fields if same(getattr(usual, name), getattr(given, name))}
        as_usual |= {
            f"model/{name}" for name in options if same(getattr(usual.model, name), getattr(given.model, name))
        }
        return super().settings_acted_on() | (as_usual - {"model"})

    @classmethod
    def _prepares_itself(cls) -> bool:
        return cls._init is not Trainer._init

    def _env_creator(self) -> Callable[[Mapping[str, Any]], Any]:
        if not self.config.env:
            return lambda env_config: None
        maker = env_maker_of(self.config)
        return lambda env_config: FourValues.around(maker(EnvContext(env_config)))


def _alike(one: Any, other: Any, names: Iterable[str]) -> set[str]:
    return {name for name in names if same(getattr(one, name), getattr(other, name))}


class _OptimizerView:
    """The counts that programs read from a trainer's optimizer."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    @property
    def num_steps_sampled(self) -> int:
        """The number of sampled steps."""
        return self._trainer.env_steps_sampled

    @property
    def num_steps_trained(self) -> int:
        """The number of trained steps."""
        return self._trainer.env_steps_trained

    def stats(self) -> dict[str, int]:
        """Return both."""
        return {"num_steps_sampled": self.num_steps_sampled, "num_steps_trained": self.num_steps_trained}
