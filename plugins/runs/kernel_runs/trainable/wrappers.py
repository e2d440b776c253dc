"""Trainables with additional parameters, data sets or resources."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import kernel
from kernel_runs.pickling import put
from kernel_runs.trainable.function import FunctionTrainable, wrap_function
from kernel_runs.trainable.registry import as_trainable, find_trainable, name_of
from kernel_runs.trainable.trainable import Trainable

_HINT = "Give what it is made of, and make it inside of the trainable."
_pinned: dict[bytes, kernel.ObjectRef] = {}


def with_parameters(trainable: Any, **parameters: Any) -> Any:
    """Return a trainable whose function (or `setup`) gets these values as additional keyword arguments.

    Each value is put into the object store once, and every trial reads it from there: for data sets and models. For an
    `ObjectRef` the trials get its value. Raises TypeError if the trainable has no such parameter.
    """
    references = {name: _put(name, value) for name, value in parameters.items()}
    if inspect.isclass(trainable) and issubclass(trainable, FunctionTrainable):
        return _with_function(trainable, _function_with(trainable.function, references))
    if inspect.isclass(trainable) and issubclass(trainable, Trainable):
        return _class_with(trainable, references)
    if not callable(trainable):
        raise TypeError(f"with_parameters() takes a function or a Trainable class, not {trainable!r}")
    return _function_with(trainable, references)


def _function_with(given: Callable[..., Any], references: Mapping[str, kernel.ObjectRef]) -> Callable[..., Any]:
    """Return a function that passes the values of the references, and its own arguments, to the given one.

    Its signature has the remaining parameters only: `config`, and perhaps a reporter.
    """
    signature = inspect.signature(given)
    known = signature.parameters
    variable = any(each.kind is each.VAR_KEYWORD for each in known.values())
    for name in references:
        if name not in known and not variable:
            raise TypeError(f"{getattr(given, '__name__', given)}() has no parameter {name!r} to be given")

    @functools.wraps(given)
    def function(*arguments: Any, **named: Any) -> Any:
        values = {name: kernel.get(reference) for name, reference in references.items()}
        return given(*arguments, **named, **values)

    others = [each for name, each in known.items() if name not in references]
    function.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return function


def _with_function(base: type[FunctionTrainable], function: Callable[..., Any]) -> type[FunctionTrainable]:
    """Return a subclass of `base` that runs another function."""
    return type(base.__name__, (base,), {"function": staticmethod(function), "__module__": base.__module__})


def _put(name: str, value: Any) -> kernel.ObjectRef:
    if isinstance(value, kernel.ObjectRef):  # it is in the store already
        return value
    return put(value, f"parameter {name!r} of with_parameters()", name, _HINT)


def _class_with(trainable: type[Trainable], references: dict[str, kernel.ObjectRef]) -> type[Trainable]:
    class WithParameters(trainable):  # type: ignore[misc, valid-type]
        def setup(self, config: dict[str, Any]) -> None:
            values = {name: kernel.get(reference) for name, reference in references.items()}
            super().setup(config, **values)

    WithParameters.__name__ = trainable.__name__
    WithParameters.__qualname__ = trainable.__qualname__
    return WithParameters


def with_datasets(trainable: Any, datasets: Mapping[str, Any]) -> type[Trainable]:
    """Return a trainable whose function (or `setup`) finds these data sets in its configuration, in
    `config["datasets"]`.

    Each is put into the object store once, and every trial reads it from there. A data set of the same name in the
    configuration takes precedence.
    """
    references = {name: put(value, f"dataset {name!r}", name, _HINT) for name, value in datasets.items()}
    base = find_trainable(trainable) if isinstance(trainable, str) else as_trainable(trainable, name_of(trainable))
    # A registered name keeps its meaning, so the class gets another one.
    name = f"{trainable}_with_datasets" if isinstance(trainable, str) else name_of(trainable)

    def joined(config: dict[str, Any]) -> dict[str, Any]:
        chosen = config.get("datasets") or {}
        read = {name: kernel.get(reference) for name, reference in references.items() if name not in chosen}
        return {**config, "datasets": {**read, **chosen}}

    if issubclass(base, FunctionTrainable):
        inner = base.function

        @functools.wraps(inner)
        def function(config: dict[str, Any], *arguments: Any, **named: Any) -> Any:
            return inner(joined(config), *arguments, **named)

        return type(name, (base,), {"function": staticmethod(function), "__module__": base.__module__})

    class WithDatasets(base):  # type: ignore[misc, valid-type]
        def setup(self, config: dict[str, Any]) -> None:
            super().setup(joined(config))

    WithDatasets.__name__ = WithDatasets.__qualname__ = name
    return WithDatasets


def with_resources(trainable: Any, resources: Any) -> Any:
    """Return a trainable whose trials need these resources.

    `resources` is a dict such as `{"cpu": 2, "gpu": 0.5}`, a `PlacementGroupFactory`, or a function of the
    configuration that returns one of these.
    """
    base = trainable if inspect.isclass(trainable) and issubclass(trainable, Trainable) else wrap_function(trainable)

    class WithResources(base):  # type: ignore[misc, valid-type]
        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> Any:
            return resources(config) if callable(resources) else resources

    WithResources.__name__ = base.__name__
    WithResources.__qualname__ = base.__qualname__
    return WithResources


def pin_in_object_store(value: Any) -> kernel.ObjectRef:
    """Put a value into the object store for as long as the program runs. Return its reference, for closures."""
    reference = kernel.put(value)
    _pinned[reference.binary()] = reference
    return reference


def get_pinned_object(reference: kernel.ObjectRef) -> Any:
    """Return the value that `pin_in_object_store` has stored. Works in any process."""
    return kernel.get(reference)


def validate_save_restore(trainable: type[Trainable], config: dict[str, Any] | None = None,
                          num_gpus: float = 0, use_object_store: bool = False) -> bool:  # fmt: skip
    """Train, save, restore in another process and train on. Return True, or raise the error of the failing step.

    `use_object_store` saves to an object in memory instead of files, as pausing a trial does. `num_gpus` is per
    process. Raises ValueError if the iteration or the experiment id is lost.
    """
    actor = kernel.remote(trainable).options(num_gpus=num_gpus)
    first = actor.remote(config or {})
    before = [kernel.get(first.train.remote()) for _ in range(3)][-1]
    second = actor.remote(config or {})
    if use_object_store:
        kernel.get(second.restore_from_object.remote(first.save_to_object.remote()))
    else:
        kernel.get(second.restore.remote(first.save.remote()))
    after = kernel.get(second.train.remote())
    for key in ("training_iteration", "experiment_id"):
        wanted = before[key] + 1 if key == "training_iteration" else before[key]
        if after[key] != wanted:
            raise ValueError(f"{trainable.__name__} did not keep {key}: {after[key]!r} after a restore, not {wanted!r}")
    kernel.get([first.stop.remote(), second.stop.remote()])
    return True
