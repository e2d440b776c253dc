"""The operations that losses and networks are written against, once for every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Array: TypeAlias = Any
"""A value of a backend: a numpy array, a tensor of the tape, a torch tensor.

All of them have `+ - * / ** @`, unary minus, comparisons, `.shape`, `.ndim`, and `[...]` with slices (forwards only:
torch has no others), None, Ellipsis, integers, integer arrays and masks. A comparison carries no gradient.
"""

Axis: TypeAlias = int | Sequence[int] | None
"""One axis, several, or all of them (None). Negative ones count from the end."""

Network: TypeAlias = Callable[..., Array]
"""Returns one array, of `(nn, params, *inputs)`."""


class Ops(Protocol):
    """The operations of a backend. A loss is `loss(nn, params)` with `nn: Ops`.

    Operations keep the type of their inputs: float32 in, float32 out; float64 in, float64 out (before numpy 2, a single
    number may become float64; what it meets keeps its type). Where a function has a
    kink, the gradient is torch's: zero for `abs`, `relu` and `sign` at zero, halves for `maximum` and `minimum` of
    equal values, equal shares among equal greatest values of `max` and `min`, and one for `clip` at its bounds.
    """

    # -- into the backend, and out of it -------------------------------------------------------------------------

    def constant(self, array: Any) -> Array:
        """Return `array` (numbers, numpy) as a value without gradient; floats take the backend's own type."""

    def stop_gradient(self, x: Array) -> Array:
        """Return the values of `x`, as a constant."""

    def to_numpy(self, x: Array) -> Any:
        """Return the values of `x` as a numpy array, which the caller must not write to."""

    # -- element by element --------------------------------------------------------------------------------------

    def exp(self, x: Array) -> Array:
        """Return e to the power of x."""

    def log(self, x: Array) -> Array:
        """Return the natural logarithm."""

    def log1p(self, x: Array) -> Array:
        """Return log(1 + x), exact for small x."""

    def sqrt(self, x: Array) -> Array:
        """Return the square root."""

    def square(self, x: Array) -> Array:
        """Return x * x."""

    def abs(self, x: Array) -> Array:
        """Return the absolute value."""

    def sign(self, x: Array) -> Array:
        """Return -1, 0 or 1, without gradient."""

    def sin(self, x: Array) -> Array:
        """Return the sine."""

    def cos(self, x: Array) -> Array:
        """Return the cosine."""

    def tanh(self, x: Array) -> Array:
        """Return the hyperbolic tangent."""

    def atanh(self, x: Array) -> Array:
        """Return the inverse of tanh; x in (-1, 1)."""

    def sigmoid(self, x: Array) -> Array:
        """Return 1 / (1 + exp(-x))."""

    def relu(self, x: Array) -> Array:
        """Return max(x, 0)."""

    def leaky_relu(self, x: Array, slope: float = 0.01) -> Array:
        """Return x where it is positive, `slope * x` elsewhere; slope in [0, 1)."""

    def elu(self, x: Array, alpha: float = 1.0) -> Array:
        """Return x where it is positive, `alpha * (exp(x) - 1)` elsewhere."""

    def silu(self, x: Array) -> Array:
        """Return x * sigmoid(x), also called swish."""

    def gelu(self, x: Array) -> Array:
        """Return x times the normal distribution's cumulative density at x (exact, by erf)."""

    def softplus(self, x: Array) -> Array:
        """Return log(1 + exp(x))."""

    def erf(self, x: Array) -> Array:
        """Return the error function."""

    def lgamma(self, x: Array) -> Array:
        """Return the logarithm of the absolute value of the gamma function."""

    def digamma(self, x: Array) -> Array:
        """Return the derivative of `lgamma`."""

    def huber(self, x: Array, delta: float = 1.0) -> Array:
        """Return x * x / 2 where |x| <= delta, `delta * (|x| - delta / 2)` elsewhere (Huber 1964)."""

    def clip(self, x: Array, low: Any, high: Any) -> Array:
        """Return x, at least `low` and at most `high`: numbers or constants, None for no bound."""

    def maximum(self, x: Array, y: Array) -> Array:
        """Return the greater one of each pair."""

    def minimum(self, x: Array, y: Array) -> Array:
        """Return the lesser one of each pair."""

    def where(self, mask: Array, x: Array, y: Array) -> Array:
        """Return x where `mask` (bool) is true, y elsewhere."""

    # -- along axes ----------------------------------------------------------------------------------------------

    def sum(self, x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the sum over `axis`."""

    def mean(self, x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the mean over `axis`; of a mask, the share that is true."""

    def max(self, x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the greatest value over `axis`."""

    def min(self, x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
        """Return the least value over `axis`."""

    def logsumexp(self, x: Array, axis: int = -1, keepdims: bool = False) -> Array:
        """Return log(sum(exp(x))) over `axis`, without overflow; -inf where all values are."""

    def softmax(self, x: Array, axis: int = -1) -> Array:
        """Return exp(x) divided by its sum over `axis`."""

    def log_softmax(self, x: Array, axis: int = -1) -> Array:
        """Return the logarithm of `softmax`, without overflow."""

    def log_softmax_at(self, x: Array, index: Array) -> Array:
        """Return one entry of `log_softmax(x)` for each row of x [..., A]: the one that `index` [...] (int64) names."""

    def softmax_entropy(self, x: Array) -> Array:
        """Return the entropy of the softmax of each row of x [..., A], in nats; a probability of 0 adds nothing."""

    def log_softmax_at_and_entropy(self, x: Array, index: Array) -> tuple[Array, Array]:
        """Return `log_softmax_at(x, index)` and `softmax_entropy(x)`; together they cost less."""

    def clipped_surrogate(self, log_probs: Array, before: Array, advantages: Array, low: float, high: float) -> Array:
        """Return min(r A, clip(r, low, high) A) with r = exp(log_probs - before) (Schulman et al. 2017, equation 7).

        A stands for `advantages`; all three are of one shape. `before` and `advantages` are constants.
        """

    def cumsum(self, x: Array, axis: int) -> Array:
        """Return the running sum along `axis`."""

    def argmax(self, x: Array, axis: int = -1) -> Array:
        """Return the index (int64) of the first greatest value along `axis`; no gradient."""

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, x: Array, shape: Sequence[int]) -> Array:
        """Return x in another shape; -1 stands for what remains."""

    def transpose(self, x: Array, axes: Sequence[int] | None = None) -> Array:
        """Return x with its axes in the order `axes`, reversed where none is given."""

    def squeeze(self, x: Array, axis: int) -> Array:
        """Return x without `axis`, which must have length 1."""

    def expand_dims(self, x: Array, axis: int) -> Array:
        """Return x with a new axis of length 1 at `axis`."""

    def broadcast_to(self, x: Array, shape: Sequence[int]) -> Array:
        """Return x repeated to `shape`, by numpy's rules."""

    def flip(self, x: Array, axis: int) -> Array:
        """Return x in reverse order along `axis`."""

    def concat(self, values: Sequence[Array], axis: int = -1) -> Array:
        """Return the values joined along an axis that they have."""

    def stack(self, values: Sequence[Array], axis: int = 0) -> Array:
        """Return the values, of one shape, joined along a new axis."""

    def split(self, x: Array, sections: int | Sequence[int], axis: int = -1) -> list[Array]:
        """Return x cut along `axis`: into so many equal parts, or into parts of these sizes."""

    # -- by index ------------------------------------------------------------------------------------------------

    def take_along(self, x: Array, index: Array, axis: int = -1) -> Array:
        """Return the values of x at `index` along `axis`, as numpy's take_along_axis does.

        `index` (int64) has as many axes as x; axes of length 1 other than `axis` are repeated.
        """

    def rows(self, x: Array, index: Array) -> Array:
        """Return `x[index]`: for each integer of `index` [...] a row of x [K, ...] (an embedding)."""

    def one_hot(self, index: Array, depth: int) -> Array:
        """Return zeros [..., depth] with a one at each integer of `index` [...]; no gradient."""

    # -- layers --------------------------------------------------------------------------------------------------

    def matmul(self, x: Array, y: Array) -> Array:
        """Return the matrix product; leading axes are repeated by numpy's rules."""

    def linear(self, x: Array, weight: Array, bias: Array | None = None, activation: str | None = None) -> Array:
        """Return `activation(x @ weight + bias)`, in one step.

        `x` is [..., in], `weight` [in, out], `bias` [out]. For an ensemble of E layers `weight` is [E, in, out], `bias`
        [E, out], `x` [N, in] or [E, N, in], and the result [E, N, out].

        `activation` is one of `ACTIVATIONS`.
        """

    def side_by_side(self, networks: Mapping[str, Network], params: Mapping[str, Array], *inputs: Array) -> list[Array]:
        """Return `network(nn, params, *inputs)` of each of several networks, which may be computed at the same time.

        Each is given operations of its own, and those of `params` that are below its name ("policy" stands for
        "policy/0/weight" and all others that begin with "policy/"); no parameter may be below two names. A network must
        compute with what it is given, and return one array. The first input has a row for each result.
        """

    def layer_norm(
        self, x: Array, scale: Array | None = None, bias: Array | None = None, epsilon: float = 1e-5
    ) -> Array:
        """Return x with mean 0 and variance 1 along its last axis, times `scale`, plus `bias` (Ba et al. 2016)."""

    def lstm(
        self, projected: Array, hidden: Array, cell: Array, weight: Array, starts: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Run an LSTM over T steps (Hochreiter and Schmidhuber 1997; no peepholes).

        `projected` [T, N, 4H] is `linear(x, input_weight, bias)` of all steps at once, its gates in torch's order:
        input, forget, candidate, output. `hidden` and `cell` [N, H] are the state before the first step, `weight`
        [H, 4H] multiplies the hidden state. Where `starts` [T, N] is true, an episode begins: the state before that
        step is zero. Returns the hidden states [T, N, H], and the last hidden and cell state [N, H].
        """

    def lstm_cell(self, projected: Array, hidden: Array, cell: Array, weight: Array) -> tuple[Array, Array]:
        """Run one step of `lstm`: `projected` [N, 4H]; return the hidden and the cell state [N, H]."""

    def gru(
        self, projected: Array, hidden: Array, weight: Array, bias: Array, starts: Array | None = None
    ) -> tuple[Array, Array]:
        """Run a GRU over T steps (Cho et al. 2014, with the reset after the product, as torch does).

        `projected` [T, N, 3H] is `linear(x, input_weight, input_bias)`, its gates in torch's order: reset, update,
        candidate. `hidden` [N, H] is the state before the first step, `weight` [H, 3H] and `bias` [3H] belong to the
        hidden state, `starts` is as in `lstm`. Returns the hidden states [T, N, H] and the last one [N, H].
        """

    def gru_cell(self, projected: Array, hidden: Array, weight: Array, bias: Array) -> Array:
        """Run one step of `gru`: `projected` [N, 3H]; return the hidden state [N, H]."""

    def conv2d(
        self,
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = "valid",
        activation: str | None = None,
    ) -> Array:
        """Return a convolution of images `x` [N, height, width, in] by `weight` [rows, columns, in, out].

        `padding` is "valid" (none), "same" (the result has height and width divided by the stride, rounded up), or the
        number of zeros on each side. Gradients of it are in torch only.
        """

    def attention(self, query: Array, key: Array, value: Array, mask: Array | None = None) -> Array:
        """Return softmax(query key' / sqrt(D)) value for [..., T, D] (Vaswani et al. 2017); torch only.

        `mask` (bool, [..., T of query, T of key]) is true where a query may look.
        """


ACTIVATIONS = ("linear", "tanh", "relu", "sigmoid", "silu", "swish", "elu", "gelu", "leaky_relu", "softplus")
"""The activations of a layer. None is "linear", and "swish" is another name of "silu"."""

OPERATIONS = tuple(name for name in vars(Ops) if not name.startswith("_"))
"""The names of all operations."""
