"""The module of Q-learning over discrete actions: one value an action, or a distribution of it (Rainbow, 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.cnn import ConvolutionOptions, ImageEncoder, image_encoder
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.layers import Body, Dense, torch_dense, torch_stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.modules.noisy import NoisyDense, scaled_noise
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.categorical_projection import categorical_support

Q_LOGITS = "q_logits"


@dataclass(frozen=True)
class QNetworkOptions:
    """The options of a Q-network.

    Attributes:
        hidden: The widths of its hidden layers before the heads.
        heads: The widths of the hidden layers within each head.
        activation: The name of the hidden layers' activation.
        head_activation: The same, within the heads.
        dueling: Whether a value and advantages are added up (Wang et al., 2015, equation 9).
        atoms: Into how many atoms a return's distribution is cut (Bellemare et al., 2017); 1 for its mean alone.
        v_min: The lowest atom.
        v_max: The highest atom.
        noisy: Whether the heads' layers carry learned noise.
        sigma: The initial size of that noise.
        convolutions: The options of the convolutions that images pass in place of hidden layers.
    """

    hidden: tuple[int, ...] = (256, 256)
    heads: tuple[int, ...] = ()
    activation: str = "relu"
    head_activation: str = "relu"
    dueling: bool = True
    atoms: int = 1
    v_min: float = -10.0
    v_max: float = 10.0
    noisy: bool = False
    sigma: float = 0.5
    convolutions: ConvolutionOptions = field(default_factory=ConvolutionOptions)


class QNetwork(QModule):
    """Values of all actions of a discrete space."""

    distributions: ClassVar[str] = Q_LOGITS
    """The output of `train` that has the distributions of several atoms."""

    def __init__(self, observations: int | Sequence[int], actions: int, options: QNetworkOptions | None = None) -> None:
        """Build it for observations of this width or shape, and this many actions; three axes are an image."""
        self.options = options = options or QNetworkOptions()
        self.actions = actions
        self.body = self._body((observations,) if isinstance(observations, int) else tuple(observations))
        self._noise_width = 0
        width = self.body.outputs
        self.advantage = self._head("advantage", width, actions * options.atoms)
        self.value = self._head("value", width, options.atoms) if options.dueling else ()
        self._support = categorical_support(options.v_min, options.v_max, options.atoms) if options.atoms > 1 else None

    @property
    def noise_width(self) -> int:
        """Return how many numbers of noise a row has for all noisy layers."""
        return self._noise_width

    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters."""
        heads = [parameter for layer in (*self.advantage, *self.value) for parameter in layer.parameters()]
        return [*self.body.parameters(), *heads]

    @property
    def learns_in(self) -> str | None:
        """Return `"torch"` where there are convolutions."""
        return "torch" if isinstance(self.body, ImageEncoder) else None

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, A]; of several atoms `q_logits` [N, A, atoms], of which `values` makes the former.

        Noisy layers have the noise of the input `noise`, [N, width] or [1, width], and none without it.
        """
        drawn = inputs.get(columns.NOISE)
        noise = None if drawn is None or not self._noise_width else scaled_noise(drawn)
        features = self.body(nn, parameters, nn.constant(inputs[columns.OBS]))
        scores = self.scores(nn, parameters, features, noise)
        return {self.distributions: scores} if self.options.atoms > 1 else {columns.Q_VALUES: scores}

    def scores(self, nn: Ops, parameters: Parameters, features: Any, noise: Array | None = None) -> Any:
        """Return what the heads make of features [..., F]: [..., A], of several atoms [N, A, atoms] of [N, F].

        Args:
            nn: The operations.
            parameters: All parameters.
            features: The outputs [..., F] of the hidden layers before the heads.
            noise: `scaled_noise` of all noisy layers, which goes with features; None for none.
        """
        atoms = self.options.atoms
        scores = through(nn, parameters, self.advantage, features, noise)
        if atoms > 1:
            scores = nn.reshape(scores, (scores.shape[0], self.actions, atoms))
        if self.value:
            value = through(nn, parameters, self.value, features, noise)
            if atoms > 1:
                value = nn.reshape(value, (value.shape[0], 1, atoms))
            scores = value + (scores - nn.mean(scores, axis=1 if atoms > 1 else -1, keepdims=True))
        return scores

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, A], however many atoms there are."""
        return {columns.Q_VALUES: self.values(nn, self.train(nn, parameters, inputs))}

    def infer(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, A] without noise."""
        return self.explore(nn, parameters, {name: value for name, value in inputs.items() if name != columns.NOISE})

    def values(self, nn: Ops, outputs: Outputs) -> Any:
        """Return the values of actions [N, A]: of several atoms the means of their distributions."""
        return self.means(nn, outputs[self.distributions]) if self.options.atoms > 1 else outputs[columns.Q_VALUES]

    def means(self, nn: Ops, distributions: Any) -> Any:
        """Return the means [...] of distributions of several atoms [..., atoms], which are logits."""
        return nn.sum(nn.softmax(distributions) * nn.constant(self._support), axis=-1)

    def advantages(self, nn: Ops, parameters: Parameters, features: Any) -> tuple[Any, Any]:
        """Return what each action is worth beside the others [N, A], and the logits of its atoms [N, A, atoms].

        Args:
            nn: The operations.
            parameters: All parameters.
            features: The outputs [N, F] of the hidden layers before the heads. No noise is added.
        """
        scores = through(nn, parameters, self.advantage, features, None)
        logits = nn.reshape(scores, (scores.shape[0], self.actions, self.options.atoms))
        return (self.means(nn, logits) if self.options.atoms > 1 else scores), logits

    def state_values(self, nn: Ops, parameters: Parameters, features: Any) -> Any:
        """Return the values of states [N, atoms] for features [N, F], without noise.

        Raises:
            ModuleError: If values of states are not told from those of actions.
        """
        if not self.value:
            raise ModuleError("this Q-network has no values of states: they are there with dueling=True only")
        return through(nn, parameters, self.value, features, None)

    def _body(self, shape: tuple[int, ...]) -> Body:
        options = self.options
        if len(shape) == 3:
            return image_encoder("body", shape, options.convolutions, initializers.torch_linear())
        return torch_stack("body", shape[0], options.hidden, options.activation)

    def _head(self, name: str, inputs: int, outputs: int) -> tuple[Dense | NoisyDense, ...]:
        options = self.options
        widths = [inputs, *options.heads, outputs]
        activations = [options.head_activation] * len(options.heads) + [None]
        layers: list[Dense | NoisyDense] = []
        for index, (before, after, activation) in enumerate(zip(widths[:-1], widths[1:], activations, strict=True)):
            if options.noisy:
                layer = NoisyDense(f"{name}/{index}", before, after, activation, options.sigma, self._noise_width)
                self._noise_width += layer.noise_width
                layers.append(layer)
            else:
                layers.append(torch_dense(f"{name}/{index}", before, after, activation))
        return tuple(layers)


def through(nn: Ops, parameters: Parameters, layers: Sequence[Dense | NoisyDense], x: Any, noise: Array | None) -> Any:
    """Return what layers, one after another, make of x [..., F]; `noise` is that of the noisy ones, or None."""
    for layer in layers:
        x = layer(nn, parameters, x, noise) if isinstance(layer, NoisyDense) else layer(nn, parameters, x)
    return x
