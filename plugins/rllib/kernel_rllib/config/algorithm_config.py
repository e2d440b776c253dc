"""The config of an algorithm: what users make, change by chained calls or by dicts, and build an algorithm from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_rllib.config.building import built, resolved
from kernel_rllib.config.dict_generation import generation_of_whole
from kernel_rllib.config.explain import Explanation, explained
from kernel_rllib.config.generations import GENERATIONS, Generation
from kernel_rllib.config.multi_agent_setup import MultiAgentSetup
from kernel_rllib.config.serializing import is_marker, serialized
from kernel_rllib.config.settings import Origin
from kernel_rllib.config.validate import common_problems, fragment_problem, undecided_settings
from kernel_rllib.errors import ConfigError, UnknownSettingError
from kernel_rllib.nearest import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self


class AlgorithmConfig(MultiAgentSetup):
    """The settings of an algorithm.

        config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2).training(lr=3e-4)
        algorithm = config.build_algo()

    A subclass for an algorithm declares its own settings as fields, the defaults that it has others of as `defaults`,
    and what contradicts itself by `problems()`.
    """

    algorithm: ClassVar[str] = ""
    """The name that the algorithm is registered under."""
    sees_previous_step: ClassVar[bool] = False
    """Whether its policies always see the last action and the last reward beside observations."""

    def __init__(self, algo_class: Any = None, *, generation: Generation = "current") -> None:
        """Make a config whose settings all have their defaults.

        Args:
            algo_class: The class of algorithms that is built, or its registered name; None for the config's own.
            generation: The generation of the defaults and of the customs: "0.8.5", "1.x", "2.x", "current".

        Raises:
            ConfigError: There is no such generation.
        """
        super().__init__()
        self.__dict__["_algo_class"] = algo_class
        self._set_generation(generation)

    def _set_generation(self, generation: Generation) -> None:
        if generation not in GENERATIONS:
            raise ConfigError(
                f"{self.title}: generation is {generation!r}, but there are {', '.join(GENERATIONS)}"
                f"{did_you_mean(str(generation), GENERATIONS)}"
            )
        self.__dict__["_generation"] = generation

    @property
    def algo_class(self) -> Any:
        """The class of algorithms that is built, or its name as long as no algorithms are loaded; None: any."""
        return resolved(self.__dict__["_algo_class"] or self.algorithm or None)

    @algo_class.setter
    def algo_class(self, algo_class: Any) -> None:
        self._check_not_frozen("algo_class")
        self.__dict__["_algo_class"] = algo_class

    # -- dicts -------------------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], *, generation: Generation | None = None) -> Self:
        """Return a config of a dict, whose keys may be of any generation.

        Args:
            config_dict: Settings; those that are missing have their defaults.
            generation: The generation of defaults and customs: until 1.x an unknown key is refused, later kept. None:
                today's, or those of the generation of whose settings the dict has every one, as a `DEFAULT_CONFIG` has.

        Raises:
            ConfigError: A value can't be, or two names of one setting disagree.
            UnknownSettingError: A key isn't known, and unknown ones are refused.
        """
        made = cls()
        made._set_generation(generation or generation_of_whole(cls, config_dict))
        return made.update_from_dict(config_dict)

    def update_from_dict(
        self, config_dict: Mapping[str, Any], *, source: str = "dict", keep_unknown: bool | None = None
    ) -> Self:
        """Set what a dict says, under names of any generation; dicts inside are merged. Returns this config.

        Args:
            config_dict: Settings.
            source: The source of the settings, for `explain()`: "dict", "tune".
            keep_unknown: Whether keys that aren't known become attributes of this config, for code of the user's to
                read, or are refused; None: as is the custom of the generation.

        Raises:
            ConfigError: A value can't be, or two names of one setting disagree.
            UnknownSettingError: A key isn't known, and unknown ones are refused.
        """
        if not isinstance(config_dict, Mapping):
            raise ConfigError(
                f"{self.title}: settings are {config_dict!r} ({type(config_dict).__name__}): give a dict of names and "
                "values, such as {'lr': 0.001}"
            )
        given = {key: value for key, value in config_dict.items() if not is_marker(value)}
        keep = self._keeps_unknown if keep_unknown is None else keep_unknown
        self._change(given, Origin(source), keep_unknown=keep)
        return self

    @property
    def _keeps_unknown(self) -> bool:
        return self.generation in ("2.x", "current")

    @classmethod
    def overrides(cls, **settings: Any) -> dict[str, Any]:
        """Return settings as a dict, for `evaluation_config` and for policies of their own.

        Raises:
            UnknownSettingError: A name isn't known; also a `KeyError`.
        """
        for name in settings:
            if cls.names.find(name) is None:
                raise UnknownSettingError(
                    f"{cls.__name__} has no setting {name!r}{did_you_mean(name, cls.names.by_key)}"
                )
        cls()._change(settings, None)
        return settings

    def serialize(self) -> dict[str, Any]:
        """Return all settings as JSON could have them: classes and functions by their paths, others as a mark."""
        found: dict[str, Any] = serialized(self.to_dict())
        return found

    def get_state(self) -> dict[str, Any]:
        """Return all that makes this config, to be pickled."""
        return {"class": type(self), "generation": self.generation, "settings": self.set_values()}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Any:
        """Return the config that a state is of."""
        made = state["class"]()
        made._set_generation(state["generation"])
        return made.update_from_dict(state["settings"], source="state", keep_unknown=True)

    # -- building ----------------------------------------------------------------------------------------------------

    def build_algo(self, env: Any = None, use_copy: bool = True) -> Any:
        """Build the algorithm.

        Args:
            env: The environment, instead of the one that is set.
            use_copy: Whether the algorithm gets a copy, so that this config can be used again; otherwise it is frozen.

        Raises:
            ConfigError: Settings contradict each other.
        """
        return self._built(env, None, use_copy)

    def build(self, env: Any = None, logger_creator: Callable[..., Any] | None = None, use_copy: bool = True) -> Any:
        """Build the algorithm, as `build_algo` does.

        Args:
            env: The environment, instead of the one that is set.
            logger_creator: Called with the config, returns the logger of results; None for the usual one.
            use_copy: Whether the algorithm gets a copy.
        """
        return self._built(env, logger_creator, use_copy)

    def _built(self, env: Any, logger_creator: Any, use_copy: bool) -> Any:
        config = self.copy(copy_frozen=False) if use_copy else self
        if env is not None:
            config._change({"env": env}, Origin(".build()"))
        return built(config, logger_creator or config.logger_creator)

    # -- checking ----------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check settings against each other. Raises `ConfigError` that names all contradictions."""
        undecided = list(undecided_settings(self))
        problems = undecided or list(self.problems())
        if problems:
            listed = f"{len(problems)} contradictions:\n- " + "\n- ".join(problems)
            self._value_error(problems[0] if len(problems) == 1 else listed)

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself, each in a sentence that says what to do. Algorithms add theirs."""
        yield from common_problems(self)

    def _value_error(self, message: str) -> None:
        """Raise an error, or log it where `_validate_config` says so."""
        if self._validate_config:
            raise ConfigError(f"{self.title}: {message}")
        import logging  # Imported here, so that settings load quickly.

        logging.getLogger("kernel.rllib").warning("settings of %s contradict each other: %s", self.title, message)

    def validate_train_batch_size_vs_rollout_fragment_length(self) -> None:
        """Check that fragments make up the train batch, give or take a tenth. Raises `ConfigError` where they can't."""
        problem = fragment_problem(self)
        if problem:
            self._value_error(problem)

    def explain(self) -> Explanation:
        """Return each value with who has set it, and what an iteration costs; print it to read it."""
        return explained(self)
