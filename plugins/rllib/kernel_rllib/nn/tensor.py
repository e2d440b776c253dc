"""Values on a tape, and the way back along it: reverse-mode differentiation of first order over numpy arrays.

An operation on tensors appends to the tape what it made, and how a gradient passes back through it. `run_backward`
takes the tape apart from its end; afterwards nothing of it is left. (Griewank and Walther: Evaluating Derivatives,
2008, section 3.2.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_rllib.nn.elementwise import NEGATIVE, SQUARE, Elementwise
from kernel_rllib.nn.memory import LARGE, Memory

Numbers = NDArray[Any]
Backward = Callable[[Any], None]
"""Passes the gradient of what an operation made on to its inputs."""
Operation = Callable[[Any, Any], "Tensor"]
Side = Callable[[Any, Any, Any, Any, "Numbers | None"], Any]
"""Returns the gradient of one input: of (gradient, x, y, result, an array to write to or None)."""


class Tape(list[tuple["Tensor", Backward]]):
    """Records the operations in order, with the memory of their results."""

    __slots__ = ("dtype", "memory")

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = np.dtype(dtype)
        self.memory = Memory(self.dtype)


def binary(
    small: Callable[[Any, Any], Any], forward: Callable[..., Any], left: Side | None, right: Side | None
) -> Operation:
    """Return the operation `forward` (a ufunc) of x and y, of which one at least is a tensor.

    `small` is the same as an operator, which is quicker for single numbers. `left` and `right` give the gradients of x
    and y; None stands for the gradient of the result as it is.
    """

    def operation(first: Any, second: Any) -> Tensor:
        if isinstance(first, Tensor):
            tape, x = first.tape, first.value
            y = second.value if isinstance(second, Tensor) else constant_like(second, x.dtype)
            large = x.size >= LARGE
        else:
            tape, y = second.tape, second.value
            x = constant_like(first, y.dtype)
            large = y.size >= LARGE
        out = Tensor(forward(x, y, room_for(tape, x, y)) if large else small(x, y), tape)

        def backward(gradient: Any) -> None:
            room = tape.memory.room if gradient.size >= LARGE else no_room
            if isinstance(first, Tensor):
                own = gradient if left is None else left(gradient, x, y, out.value, room(gradient.shape))
                pass_to(first, own)
            if isinstance(second, Tensor):
                own = gradient if right is None else right(gradient, x, y, out.value, room(gradient.shape))
                pass_to(second, own)

        tape.append((out, backward))
        return out

    return operation


def swapped(operation: Operation) -> Operation:
    """Return the operation with its arguments the other way round."""
    return lambda second, first: operation(first, second)


def _times(x: Any, y: Any, out: Numbers | None) -> Any:
    return x * y if out is None else np.multiply(x, y, out)


def _divided(x: Any, y: Any, out: Numbers | None) -> Any:
    return x / y if out is None else np.divide(x, y, out)


def _negative(x: Any, out: Numbers | None) -> Any:
    return -x if out is None else np.negative(x, out)


add = binary(operator.add, np.add, None, None)
subtract = binary(operator.sub, np.subtract, None, lambda g, x, y, result, out: _negative(g, out))
multiply = binary(
    operator.mul,
    np.multiply,
    lambda g, x, y, result, out: _times(g, y, out),
    lambda g, x, y, result, out: _times(g, x, out),
)
divide = binary(
    operator.truediv,
    np.divide,
    lambda g, x, y, result, out: _divided(g, y, out),
    lambda g, x, y, result, out: _negative(_divided(_times(g, result, out), y, out), out),
)
power = binary(
    operator.pow,
    np.power,
    lambda g, x, y, result, out: _times(np.power(x, y - 1), g * y, out),
    lambda g, x, y, result, out: _times(np.log(x), g * result, out),
)


def matmul(first: Any, second: Any) -> Tensor:
    """Return the matrix product of x and y, of which one at least is a tensor."""
    if first.ndim == 1:
        return matmul(first[None], second)[..., 0, :]
    if second.ndim == 1:
        return matmul(first, second[:, None])[..., 0]
    tape = first.tape if isinstance(first, Tensor) else second.tape
    x, y = constant_like(value_of(first), tape.dtype), constant_like(value_of(second), tape.dtype)
    out = Tensor(np.matmul(x, y), tape)

    def backward(gradient: Any) -> None:
        if isinstance(first, Tensor):
            pass_to(first, gradient @ y.swapaxes(-1, -2))
        if isinstance(second, Tensor):
            pass_to(second, x.swapaxes(-1, -2) @ gradient)

    tape.append((out, backward))
    return out


def compare(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the comparison `function` (a ufunc) of values; its result is no tensor."""
    return lambda first, second: function(first.value, value_of(second))


class Tensor:
    """Holds an array, its place on a tape, and in the backward pass its gradient."""

    __slots__ = ("gradient", "tape", "value")
    __array_ufunc__ = None  # so that numpy leaves `array * tensor` to the tensor
    slot: Numbers | None = None

    def __init__(self, value: Any, tape: Tape) -> None:
        self.value = value
        self.tape = tape
        self.gradient: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.value.shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.value.ndim  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return self.value.dtype

    __add__, __radd__ = add, swapped(add)
    __sub__, __rsub__ = subtract, swapped(subtract)
    __mul__, __rmul__ = multiply, swapped(multiply)
    __truediv__, __rtruediv__ = divide, swapped(divide)
    __matmul__, __rmatmul__ = matmul, swapped(matmul)
    __rpow__ = swapped(power)
    __lt__, __le__ = compare(np.less), compare(np.less_equal)
    __gt__, __ge__ = compare(np.greater), compare(np.greater_equal)
    __eq__, __ne__ = compare(np.equal), compare(np.not_equal)  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __pow__(self, other: Any) -> Tensor:
        return apply(SQUARE, self) if isinstance(other, (int, float)) and other == 2 else power(self, other)

    def __neg__(self) -> Tensor:
        return apply(NEGATIVE, self)

    def __getitem__(self, index: Any) -> Tensor:
        out = Tensor(self.value[index], self.tape)

        def backward(gradient: Any) -> None:
            if gradient.size == self.value.size and keeps_order(index):
                accumulate(self, gradient.reshape(self.value.shape))
            else:
                accumulate_at(self, index, gradient)

        self.tape.append((out, backward))
        return out

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Tensor({self.value!r})"

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError("numpy was given a tensor, of which it would lose the gradient: take nn.to_numpy(tensor)")


class ParameterTensor(Tensor):
    """A tensor whose gradient is asked for. The gradient goes to `slot`, a view of the vector of all gradients."""

    __slots__ = ("slot",)

    def __init__(self, value: Any, tape: Tape, slot: Numbers) -> None:
        super().__init__(value, tape)
        self.slot: Numbers = slot


def run_backward(tape: Tape, result: Tensor, gradient: Any) -> None:
    """Pass the gradient of a result back to the parameters, and empty the tape."""
    give_back = tape.memory.give_back
    accumulate(result, gradient)
    while tape:
        out, backward = tape.pop()
        gradient = out.gradient
        if gradient is not None:
            backward(gradient)
            out.gradient = None
            if gradient.size >= LARGE:
                give_back(gradient)
        if out.value is not None and out.value.size >= LARGE:
            give_back(out.value)


def accumulate(tensor: Tensor, gradient: Any) -> None:
    """Add to the gradient of `tensor`. The array may be kept: the caller doesn't write to it afterwards."""
    slot = tensor.slot
    if tensor.gradient is None:
        if slot is None:
            tensor.gradient = gradient
        else:
            slot[...] = gradient
            tensor.gradient = slot
        return
    if slot is not None:
        slot += gradient
    elif owns_gradient(tensor):
        tensor.gradient += gradient
    else:
        tensor.gradient = tensor.gradient + gradient
    tensor.tape.memory.give_back(gradient)


def accumulate_at(tensor: Tensor, index: Any, gradient: Any, once: bool = False) -> None:
    """Add to the gradient of `tensor` at `index`. What is named several times gets several shares; `once` says that
    nothing is."""
    once = once or is_basic(index)
    if tensor.gradient is None:
        tensor.gradient = zeros_for(tensor)
        if once:
            tensor.gradient[index] = gradient
            return
    elif tensor.slot is None and not owns_gradient(tensor):
        tensor.gradient = tensor.gradient.copy()
    if once:
        tensor.gradient[index] += gradient
    elif isinstance(index, np.ndarray) and index.dtype.kind in "iu" and tensor.gradient.flags.c_contiguous:
        add_rows(tensor.gradient, index, gradient)
    else:
        np.add.at(tensor.gradient, index, gradient)


def add_rows(target: Numbers, index: Numbers, rows: Numbers) -> None:
    """Add each of `rows` to the row of `target` that `index` names; a row may be named several times."""
    length = target[0].size
    places = index.reshape(-1, 1) % len(target) * length + np.arange(length)
    np.add.at(target.reshape(-1), places.reshape(-1), rows.reshape(-1))  # along one axis it is several times as quick


def zeros_for(tensor: Tensor) -> Numbers:
    """Return an array of zeros to collect a gradient in: the tensor's slot, where it has one."""
    value = tensor.value
    zeros = tensor.slot
    if zeros is None and value.size < LARGE:
        return np.zeros(value.shape, value.dtype)
    if zeros is None:
        zeros = tensor.tape.memory.room(value.shape)
    zeros.fill(0)
    return zeros


def is_basic(index: Any) -> bool:
    """Return whether `index` consists of slices, whole numbers, None and Ellipsis, and so names no place twice."""
    for part in index if type(index) is tuple else (index,):
        if not (part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer))):
            return False
    return True


def keeps_order(index: Any) -> bool:
    """Return whether what `index` takes is in the order that it was in."""
    for part in index if type(index) is tuple else (index,):
        if isinstance(part, slice) and part.step is not None and part.step < 0:
            return False
    return is_basic(index)


def pass_to(tensor: Tensor, gradient: Any) -> None:
    """Add to the gradient of `tensor`, summed over the axes along which its values were repeated."""
    shape = tensor.value.shape
    if gradient.shape != shape:
        fitted = fit(gradient, shape)
        tensor.tape.memory.give_back(gradient)
        gradient = fitted
    accumulate(tensor, gradient)


def fit(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Return `gradient` summed over the axes along which an array of `shape` was repeated."""
    more = gradient.ndim - len(shape)
    axes = [*range(more)]
    axes += [more + k for k, length in enumerate(shape) if length == 1 and gradient.shape[more + k] != 1]
    return np.add.reduce(gradient, axis=tuple(axes), keepdims=True).reshape(shape)


# -- operations of one array ---------------------------------------------------------------------------------------


def apply(function: Elementwise, x: Tensor) -> Tensor:
    """Return `function` of each number."""
    tape, value = x.tape, x.value
    out = Tensor(function.forward(value, tape.memory.room(value.shape) if value.size >= LARGE else None), tape)
    saved = None if function.from_output else value
    tape.append((out, lambda gradient: accumulate(x, pass_through(function, gradient, saved, out))))
    return out


def pass_through(function: Elementwise, gradient: Any, saved: Any, out: Tensor) -> Any:
    """Return the gradient of the input of `function`, whose result `out` is overwritten if no one else holds it."""
    if out.value.size < LARGE:
        return function.backward(gradient, saved, out.value, None)
    if function.in_place and owns_value(out):
        y, out.value = out.value, None
        return function.backward(gradient, saved, y, y)
    y = out.value
    return function.backward(gradient, saved, y, out.tape.memory.room(y.shape))


def room_for(tape: Tape, x: Any, y: Any) -> Numbers:
    """Return an array for the result of an operation of two, one of which is an array."""
    if not isinstance(y, np.ndarray):
        return tape.memory.room(x.shape)
    if not isinstance(x, np.ndarray) or x.shape == y.shape:
        return tape.memory.room(y.shape)
    return tape.memory.room(np.broadcast(x, y).shape)


def no_room(shape: tuple[int, ...]) -> None:
    """Return None: let numpy find memory, which for a small array is as quick."""


def value_of(operand: Any) -> Any:
    """Return the array of a tensor, and anything else as it is."""
    return operand.value if isinstance(operand, Tensor) else operand


def constant_like(operand: Any, dtype: Any) -> Any:
    """Return what meets a tensor of `dtype` in an operation, such that the result keeps that type."""
    if type(operand) is float or type(operand) is int:
        return operand
    if isinstance(operand, np.ndarray):
        return operand if operand.dtype == dtype else operand.astype(dtype)
    return np.asarray(operand, dtype)


# -- who holds an array: its reference count says whether somebody else does, or holds a view of it ----------------


def owns_gradient(tensor: Tensor) -> bool:
    """Return whether only `tensor` holds its gradient."""
    return getrefcount(tensor.gradient) == _HELD_ONCE and _is_no_view(tensor.gradient)


def owns_value(tensor: Tensor) -> bool:
    """Return whether only `tensor` holds its value."""
    return getrefcount(tensor.value) == _HELD_ONCE and _is_no_view(tensor.value)


def _is_no_view(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.base is None


def _held_once() -> int:
    tensor = Tensor(np.empty(1), Tape(float))
    return getrefcount(tensor.value)


_HELD_ONCE = _held_once()  # it depends on the version of Python
