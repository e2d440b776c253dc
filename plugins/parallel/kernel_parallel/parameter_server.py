"""A parameter server: weights as numpy arrays, kept by several actors, which workers pull and push gradients to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import kernel
from kernel.exceptions import FaultError, OptionError, UsageError

Array = np.ndarray[Any, Any]
Rule = Callable[[str, Array, Array], None]
DEFAULT_TIMEOUT_SECONDS = 60.0
_MARGIN_SECONDS = 10.0


class StepTimeoutError(FaultError, TimeoutError):
    """A step did not get the gradients of all workers in time."""


class ParameterServer:
    """Weights that workers share. Pass it to tasks and actors; it lives as long as anybody has it.

    weights: name to numpy array. num_shards: actors that keep them, each a share of the bytes. update: how a gradient
    changes a weight: `"sgd"`, `"momentum"`, `"adam"`, or a function `(name, weight, gradient)` that changes the weight
    in place. options: those of the rule, such as `learning_rate`. workers: None applies every push as it comes; a
    number makes steps of so many pushes, whose mean is applied as one, and each push waits for its step. timeout:
    seconds that a push waits for the others of its step. In steps, all workers push gradients of the same weights.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        *,
        num_shards: int = 2,
        update: str | Rule = "sgd",
        workers: int | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        **options: float,
    ) -> None:
        if num_shards < 1 or (workers is not None and workers < 1):
            raise OptionError(f"num_shards and workers are at least 1, not {num_shards!r} and {workers!r}")
        rule = make_rule(update, options)
        arrays = {name: np.array(weight) for name, weight in weights.items()}
        self._homes = spread({name: array.nbytes for name, array in arrays.items()}, num_shards)
        self._timeout = timeout
        shard = kernel.remote(ParameterShard)
        self._shards = [
            shard.options(max_concurrency=10_000).remote(
                {name: arrays[name] for name, home in self._homes.items() if home == index}, rule, workers, timeout
            )
            for index in range(num_shards)
        ]

    def pull(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Return the weights, or those of these names, as they are now. The arrays are read-only."""
        wanted = self._split({name: None for name in (self._homes if names is None else names)})
        parts = kernel.get([self._shards[home].pull.remote(list(part)) for home, part in wanted.items()])
        found = {name: weight for part in parts for name, weight in part.items()}
        return {name: found[name] for part in wanted.values() for name in part}

    def push(self, gradients: Mapping[str, Array], worker: int | None = None) -> int:
        """Apply gradients, of all weights or some; return how many updates the slowest shard has made.

        worker: the number of the one who pushes, so that an error can say who is missing. With `workers`, it waits for
        the others of the step, and raises StepTimeoutError when they do not come.
        """
        counts: list[int] = kernel.get(self.push_refs(gradients, worker), timeout=self._timeout + _MARGIN_SECONDS)
        return min(counts)

    def push_refs(self, gradients: Mapping[str, Array], worker: int | None = None) -> list[Any]:
        """Do what `push` does without waiting: return references, one of each shard that is concerned."""
        parts = self._split({name: np.asarray(gradient) for name, gradient in gradients.items()})
        return [self._shards[home].push.remote(part, worker) for home, part in parts.items()]

    def set(self, weights: Mapping[str, Array]) -> None:
        """Replace weights, such as those of a checkpoint that `pull` returned."""
        parts = self._split({name: np.asarray(weight) for name, weight in weights.items()})
        kernel.get([self._shards[home].set.remote(part) for home, part in parts.items()])

    @property
    def names(self) -> list[str]:
        """The names of the weights."""
        return list(self._homes)

    @property
    def num_shards(self) -> int:
        """How many actors keep the weights."""
        return len(self._shards)

    def _split(self, values: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the values by the shard that keeps them."""
        parts: dict[int, dict[str, Any]] = {}
        for name, value in values.items():
            if name not in self._homes:
                raise UsageError(f"there is no weight {name!r}; there are {', '.join(map(repr, self._homes))}")
            parts.setdefault(self._homes[name], {})[name] = value
        return parts


def spread(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return which of `count` shards keeps what: the largest first, each to the shard with least."""
    loads, homes = [0] * count, {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        home = loads.index(min(loads))
        loads[home] += sizes[name]
        homes[name] = home
    return {name: homes[name] for name in sizes}


class ParameterShard:
    """The actor that keeps some of the weights."""

    def __init__(self, weights: dict[str, Array], rule: Rule, workers: int | None, timeout: float) -> None:
        self._weights = {name: weight.copy() for name, weight in weights.items()}
        self._rule = rule
        self._workers = workers
        self._timeout = timeout
        self._updates = 0
        self._step: GradientStep | None = None

    async def pull(self, names: list[str]) -> dict[str, Array]:
        """Return weights."""
        return {name: self._weights[name].copy() for name in names}

    async def set(self, weights: dict[str, Array]) -> None:
        """Replace weights."""
        for name, weight in weights.items():
            self._check(name, weight)
            self._weights[name][...] = weight

    async def push(self, gradients: dict[str, Array], worker: int | None) -> int:
        """Apply gradients, now or with those of the other workers; return the number of updates."""
        for name, gradient in gradients.items():
            self._check(name, gradient)
        if self._workers is None:
            self._apply(gradients)
            return self._updates
        step = self._step = self._step or GradientStep(self._workers)
        if step.add(gradients, worker):
            self._step = None
            self._apply(step.mean())
            step.done.set_result(self._updates)
        try:
            return await asyncio.wait_for(asyncio.shield(step.done), self._timeout)
        except asyncio.TimeoutError:
            if self._step is step:
                self._step = None
            raise StepTimeoutError(
                f"step {self._updates + 1} got the gradients of {len(step.came)} of {self._workers} workers within "
                f"{self._timeout:g} s: {step.who_came()}; its gradients are dropped, push them again when all are there"
            ) from None

    def _apply(self, gradients: Mapping[str, Array]) -> None:
        for name, gradient in gradients.items():
            self._rule(name, self._weights[name], gradient)
        self._updates += 1

    def _check(self, name: str, value: Array) -> None:
        shape = self._weights[name].shape
        if shape != value.shape:
            raise UsageError(f"weight {name!r} has the shape {shape}, and was given one of {value.shape}")


class GradientStep:
    """The gradients of one step, while they come."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._sums: dict[str, Array] = {}
        self.came: list[int | None] = []
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def add(self, gradients: Mapping[str, Array], worker: int | None) -> bool:
        """Add those of a worker; return whether all have come. Raises UsageError when one comes twice."""
        if worker is not None and worker in self.came:
            raise UsageError(f"worker {worker} pushed twice in one step; each pushes once, then pulls")
        self.came.append(worker)
        for name, gradient in gradients.items():
            self._sums[name] = self._sums[name] + gradient if name in self._sums else np.array(gradient)
        return len(self.came) == self._workers

    def mean(self) -> dict[str, Array]:
        """Return the mean over the workers."""
        return {name: total / self._workers for name, total in self._sums.items()}

    def who_came(self) -> str:
        """Return in words who came, or who is missing where workers have numbers."""
        if None in self.came:
            return "give push(..., worker=number) to know whose are missing"
        missing = [number for number in range(self._workers) if number not in self.came]
        return f"workers {missing} did not push"


# -- how gradients change weights ------------------------------------------------------------------------------------


class Sgd:
    """weight -= learning_rate * gradient"""

    def __init__(self, learning_rate: float = 0.01) -> None:
        self.learning_rate = learning_rate

    def __call__(self, name: str, weight: Array, gradient: Array) -> None:
        weight -= (self.learning_rate * gradient).astype(weight.dtype, copy=False)


class Momentum:
    """velocity = momentum * velocity + gradient; weight -= learning_rate * velocity"""

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9) -> None:
        self.learning_rate = learning_rate
        self.momentum = momentum
        self._velocity: dict[str, Array] = {}

    def __call__(self, name: str, weight: Array, gradient: Array) -> None:
        velocity = self._velocity.setdefault(name, np.zeros_like(weight))
        velocity *= self.momentum
        velocity += gradient
        weight -= self.learning_rate * velocity


class Adam:
    """D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1"""

    def __init__(
        self, learning_rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
    ) -> None:
        self.learning_rate = learning_rate
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self._moments: dict[str, tuple[Array, Array]] = {}
        self._times: dict[str, int] = {}

    def __call__(self, name: str, weight: Array, gradient: Array) -> None:
        first, second = self._moments.setdefault(name, (np.zeros_like(weight), np.zeros_like(weight)))
        time = self._times[name] = self._times.get(name, 0) + 1
        first *= self.beta1
        first += (1 - self.beta1) * gradient
        second *= self.beta2
        second += (1 - self.beta2) * gradient**2
        corrected = first / (1 - self.beta1**time), second / (1 - self.beta2**time)
        weight -= self.learning_rate * corrected[0] / (np.sqrt(corrected[1]) + self.epsilon)


_RULES: dict[str, Callable[..., Rule]] = {"sgd": Sgd, "momentum": Momentum, "adam": Adam}


def make_rule(update: str | Rule, options: Mapping[str, float]) -> Rule:
    """Return a rule by its name and options. Raises OptionError for what is not known."""
    if callable(update):
        if options:
            raise OptionError(f"options are for rules with a name; a function takes none, not {sorted(options)}")
        return update
    if update not in _RULES:
        raise OptionError(
            f"there is no update rule {update!r}; known are {', '.join(map(repr, _RULES))}, or a function"
        )
    try:
        return _RULES[update](**options)
    except TypeError as error:
        raise OptionError(f"the update rule {update!r} can't be made with {dict(options)}: {error}") from None
