"""Find an environment by its name: a registered name, a name of gymnasium, a dotted path, a class, or a function.

All of them become an `EnvMaker`, once, in the program that names it; runners in other processes get the maker.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from kernel_rllib.envs import gymnasium_names
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.errors import EnvError, RLlibError
from kernel_runs.errors import RunError
from kernel_runs.trainable import registry

EnvCreator = Callable[[EnvContext], Any]


def register_env(name: str, env_creator: EnvCreator) -> None:
    """Give a function that makes an environment of its `EnvContext`, or a class, a name."""
    if not callable(env_creator):
        raise EnvError(
            f"environment {name!r} was registered as {env_creator!r}: give a function that takes the env_config and "
            "returns an environment"
        )
    registry.register_env(name, env_creator)


def registered(name: str) -> EnvCreator | None:
    """Return what was registered under a name, here, by Tune, or by the program that this process works for, or None.

    Raises EnvError where it was registered elsewhere, and can't be sent here.
    """
    try:
        return registry.find_environment(name)
    except RunError as error:
        raise EnvError(str(error)) from error


def registered_names() -> Iterable[str]:
    """Return the names that were registered."""
    return registry.environment_names()


class EnvMaker:
    """Makes environments of one kind, each of the context that it is called with.

    name: for messages and results. of_gymnasium: whether it is the environment that gymnasium has under this name.
    Pickles wherever its function does (with cloudpickle).
    """

    def __init__(self, name: str, function: EnvCreator, *, of_gymnasium: bool = False) -> None:
        self.name = name
        self.of_gymnasium = of_gymnasium
        self._function = function

    def __call__(self, context: EnvContext) -> Any:
        """Return a new environment. Raises EnvError that names it, with what its maker raised chained."""
        try:
            env = self._function(context)
        except RLlibError:
            raise
        except Exception as error:
            raise EnvError(
                f"environment {self.name!r} can't be made: {type(error).__name__}: {error} "
                f"(env_config: {dict(context)!r}, worker_index {context.worker_index}, "
                f"vector_index {context.vector_index})"
            ) from error
        if env is None:
            raise EnvError(f"the maker of environment {self.name!r} returned None: does it end with `return env`?")
        return env

    def __repr__(self) -> str:
        return f"EnvMaker({self.name!r})"


def env_maker(env: Any) -> EnvMaker:
    """Return the function that makes the environment of a name.

    env: a registered name, a name of gymnasium ("CartPole-v1"; an older one where the same rules have a new name), a
    dotted path ("my_module.MyEnv"), a class whose only argument is the `env_config`, or a function of it.
    Raises EnvError, which tells the nearest names for one that is not known; MissingDependencyError.
    """
    if isinstance(env, EnvMaker):
        return env
    if env is None or env == "":
        raise EnvError('no environment is named: pass env="CartPole-v1", a class, or a name given to register_env')
    if isinstance(env, str):
        return _named(env)
    if inspect.isclass(env):
        return EnvMaker(env.__name__, _calling_class(env))
    if hasattr(env, "step") and hasattr(env, "reset"):
        raise EnvError(
            f"env is the environment {env!r} itself, but each runner needs copies of its own: pass its class, "
            f"or a function that makes one (lambda config: {type(env).__name__}(...))"
        )
    if callable(env):
        return EnvMaker(getattr(env, "__name__", type(env).__name__), _calling_function(env))
    raise EnvError(f"env is {env!r}, a {type(env).__name__}: pass a name, a class, or a function that makes one")


def _named(name: str) -> EnvMaker:
    creator = registered(name)
    if creator is not None:
        function = _calling_class(creator) if inspect.isclass(creator) else _calling_function(creator)
        return EnvMaker(name, function)
    if gymnasium_names.is_known(name):
        return EnvMaker(name, _Gymnasium(name), of_gymnasium=True)
    found = _imported(name)
    if found is None:
        raise EnvError(f"no environment is named {name!r}.{_nearest(name)} Give own ones a name with register_env")
    return EnvMaker(name, _calling_class(found) if inspect.isclass(found) else _calling_function(found))


class _Gymnasium:
    """Makes an environment of gymnasium, whose settings are keyword arguments."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, context: EnvContext) -> Any:
        return gymnasium_names.make(self._name, context)


class _WithKeywords:
    """Calls a class whose arguments are the settings by name."""

    def __init__(self, made: Callable[..., Any]) -> None:
        self._made = made

    def __call__(self, context: EnvContext) -> Any:
        return self._made(**context)


class _WithNothing:
    """Calls what takes no argument."""

    def __init__(self, made: Callable[..., Any]) -> None:
        self._made = made

    def __call__(self, context: EnvContext) -> Any:
        return self._made()


def _calling_class(given: type) -> EnvCreator:
    """Return a function of the context that makes an object of a class, whatever its arguments are."""
    if given.__module__.startswith("gymnasium.envs."):
        return _WithKeywords(given)
    return _calling_function(given)


def _calling_function(given: Callable[..., Any]) -> EnvCreator:
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # It is written in C, without a signature.
        return given
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(each.kind in (*positional, inspect.Parameter.VAR_POSITIONAL) for each in parameters):
        return given
    return _WithKeywords(given) if parameters else _WithNothing(given)


def _imported(name: str) -> Any:
    """Return what a dotted path names, or None where it is none. Raises EnvError where its module fails to import."""
    module, _, attribute = name.rpartition(".")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise EnvError(f"environment {name!r}: its module can't be imported ({error})") from error
        raise EnvError(
            f"environment {name!r} was taken for a dotted path, but there is no module {error.name!r}"
        ) from None
    except AttributeError:
        raise EnvError(f"environment {name!r}: module {module!r} has no {attribute!r}") from None


def _nearest(name: str) -> str:
    known = [*registered_names(), *gymnasium_names.names()]
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(lower[each]) for each in near)}?" if near else ""
