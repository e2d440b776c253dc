"""Remote functions, which `@kernel.remote` makes of functions."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from kernel.api.generators import ObjectRefGenerator
from kernel.api.group_room import check_room
from kernel.api.options import (
    TASK,
    check_options,
    count_returns,
    retry_exceptions,
    strategy_of,
    wanted_resources,
)
from kernel.api.parameters import UNKNOWN, parameters_of
from kernel.api.runtime_env import prepare_environment
from kernel.api.session import ensure_session
from kernel.runtime import current
from kernel.runtime.definitions import FunctionDefinition, Shape
from kernel.runtime.shown_tracebacks import for_users
from kernel.runtime.streams import ObjectStream
from kernel_spec.errors import OptionError

DEFAULT_RETRIES = 3

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A function that runs in a worker: `f.remote(...)` queues a call and returns at once."""

    def __init__(self, function: Any, options: Mapping[str, Any]) -> None:
        self._function = function
        self._options = check_options(options, TASK)
        self._definition: FunctionDefinition | None = None
        self._session: object = None
        self._parameters = UNKNOWN
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"remote function {self._function.__name__}() can't be called directly; use "
            f"{self._function.__name__}.remote(...), or .local(...) to run it here"
        )

    def local(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in this process, as an ordinary function."""
        return self._function(*args, **kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Queue a call and return its reference at once.

        With `num_returns=n` it returns a list of n references, with `num_returns=0` None, and for a generator an
        `ObjectRefGenerator`. Arguments that are references are replaced by their values before the call runs. Raises
        TypeError for arguments that the function does not take.
        """
        __tracebackhide__ = True
        try:
            runtime = current._runtime
            if runtime is not self._session or runtime is None:
                runtime = ensure_session(*args, *kwargs.values())
                self._definition = self._define()
                self._session = runtime
                self._parameters = parameters_of(self._function)
            if kwargs or not self._parameters.least <= len(args) <= self._parameters.most:
                self._check(args, kwargs)
            result = runtime.submit(self._definition, args, kwargs)  # type: ignore[arg-type]
            return ObjectRefGenerator(result) if type(result) is ObjectStream else result
        except BaseException as error:
            raise for_users(error)

    def options(self, **options: Any) -> RemoteFunction[P, R]:
        """Return a remote function with changed options; None resets an option. Raises OptionError for a bad one."""
        return RemoteFunction(self._function, {**self._options, **check_options(options, TASK), **_resets(options)})

    def _check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        problem = self._parameters.problem(len(args), kwargs)
        if problem:
            raise TypeError(f"{getattr(self._function, '__name__', 'the function')}() {problem}")

    def _define(self) -> FunctionDefinition:
        options = self._options
        function = self._function
        environment = options.get("runtime_env")
        prepared = pickle.dumps(prepare_environment(environment)) if environment else b""
        wanted = wanted_resources(options, 1)
        check_room(f"{options.get('name', getattr(function, '__name__', 'function'))}()", options, wanted)
        shape = Shape(
            wanted,
            strategy_of(options),
            dict(options.get("scheduling_hints", {})),
            prepared,
        )
        generator = inspect.isgeneratorfunction(inspect.unwrap(function))
        if options.get("num_returns") in ("dynamic", "streaming") and not generator:
            raise OptionError(
                f"num_returns={options['num_returns']!r} is for generators, which {function.__name__}() is not: let it "
                "yield its results, or give a count"
            )
        return FunctionDefinition(
            function,
            options.get("name", getattr(function, "__name__", "function")),
            shape,
            count_returns(options, generator),
            options.get("max_calls", 0),
            options.get("max_retries", DEFAULT_RETRIES),
            retry_exceptions(options),
            options.get("stream_ahead", 0),
        )

    def __reduce__(self) -> Any:
        return RemoteFunction, (self._function, self._options)

    def __repr__(self) -> str:
        return f"RemoteFunction({self._function.__module__}.{self._function.__qualname__})"


def _resets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given as None, which resets them to their defaults."""
    return {name: None for name, value in options.items() if value is None}
