"""Networks that share no parameters, each on a tape of its own, so that two threads can compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kernel_rllib.nn.ops import Network
from kernel_rllib.nn.side_by_side import parts_of, products
from kernel_rllib.nn.tensor import Tape, Tensor, accumulate, run_backward
from kernel_rllib.nn.threads import are_worthwhile, call_all


class _Branch:
    """One network on a tape of its own."""

    def __init__(self, ops: Callable[[Tape], Any], dtype: Any, params: dict[str, Any]) -> None:
        self.params = params
        self.tape = Tape(dtype)
        self._nn = ops(self.tape)
        self._own = [value for value in params.values() if isinstance(value, Tensor)]
        self._given: list[Any] = []
        self.result: Any = None

    def forward(self, network: Network, inputs: Sequence[Any]) -> None:
        """Compute the network. The gradients of its inputs are kept until `finish`."""
        self._given = [Tensor(x.value, self.tape) if isinstance(x, Tensor) else x for x in inputs]
        with self._parameters_here():
            self.result = network(self._nn, self.params, *self._given)

    def backward(self, gradient: Any) -> None:
        """Pass the gradient of the result back to the parameters, and to the inputs."""
        with self._parameters_here():
            run_backward(self.tape, self.result, gradient)

    def finish(self, inputs: Sequence[Any]) -> None:
        """Pass the gradients of the inputs on."""
        for x, given in zip(inputs, self._given, strict=True):
            if isinstance(x, Tensor) and given.gradient is not None:
                accumulate(x, given.gradient)
        self.clear()

    def clear(self) -> None:
        """Forget all but the memory that is used again."""
        self._given, self.result = [], None
        self.tape.clear()
        self.tape.memory.end_round()

    @contextmanager
    def _parameters_here(self) -> Iterator[None]:
        """Let what is made of the parameters go to this tape."""
        tapes = [parameter.tape for parameter in self._own]
        for parameter in self._own:
            parameter.tape = self.tape
        try:
            yield
        finally:
            for parameter, tape in zip(self._own, tapes, strict=True):
                parameter.tape = tape


class _SideBySide:
    """The networks of one call of `Ops.side_by_side`."""

    def __init__(self, nn: Any, networks: Mapping[str, Network], params: Mapping[str, Any]) -> None:
        self._nn, self._names, self._params = nn, tuple(networks), params
        parts = parts_of(self._names, params)
        self._branches = [_Branch(type(nn), nn.tape.dtype, part) for part in parts]
        self._products = products(parts)

    def fit(self, networks: Mapping[str, Network], params: Mapping[str, Any]) -> bool:
        """Return whether these are the networks and the parameters that they were made for."""
        return self._params is params and self._names == tuple(networks)

    def __call__(self, networks: Mapping[str, Network], inputs: Sequence[Any]) -> list[Any]:
        """Return the result of each network; see `Ops.side_by_side`."""
        size = self._products * len(inputs[0])
        branches, tape = self._branches, self._nn.tape
        calls = list(zip(branches, networks.values(), strict=True))
        if not are_worthwhile(size):
            return [network(self._nn, branch.params, *inputs) for branch, network in calls]
        call_all([lambda b=b, n=n: b.forward(n, inputs) for b, n in calls], size)  # type: ignore[misc]
        results = [branch.result for branch in branches]
        if not any(isinstance(result, Tensor) for result in results):
            self.clear()
            return results
        gradients: dict[int, Any] = {}
        all_of_them = Tensor(None, tape)

        def backward(_: Any) -> None:
            back = [lambda k=k, g=g: branches[k].backward(g) for k, g in gradients.items()]  # type: ignore[misc]
            call_all(back, size)
            for branch in reversed(branches):
                branch.finish(inputs)

        def note(k: int, gradient: Any) -> None:
            gradients[k] = all_of_them.gradient = gradient

        tape.append((all_of_them, backward))
        for k, result in enumerate(results):
            if isinstance(result, Tensor):
                results[k] = Tensor(result.value, tape)
                tape.append((results[k], lambda gradient, k=k: note(k, gradient)))  # type: ignore[misc]
        return results

    def clear(self) -> None:
        """Forget all but the memory that is used again."""
        for branch in self._branches:
            branch.clear()


class Branches:
    """All networks that a loss computes side by side. Each time it does so, they have the memory of the time before."""

    def __init__(self, nn: Any) -> None:
        """Take the operations that the loss is computed with."""
        self._nn = nn
        self._calls: list[_SideBySide] = []
        self._count = 0

    def next(self, networks: Mapping[str, Network], params: Mapping[str, Any]) -> _SideBySide:
        """Return what computes the networks of the next call."""
        k, self._count = self._count, self._count + 1
        if k == len(self._calls) or not self._calls[k].fit(networks, params):
            self._calls[k : k + 1] = [_SideBySide(self._nn, networks, params)]
        return self._calls[k]

    def clear(self) -> None:
        """Forget all but memory: the next call is the first one again."""
        for call in self._calls[: self._count]:
            call.clear()
        self._count = 0
