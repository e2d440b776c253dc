"""Convolutions over images, as layers of data: which there are by default, what is left of an image after each.

Images are [height, width, channels]. Those of bytes stay bytes until they are here: a buffer of them is a quarter as
large as one of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.layers import Stack, stack
from kernel_rllib.modules.module import Initializer, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

Pair = tuple[int, int]

DEFAULT_FILTERS: dict[Pair, list[Any]] = {
    (480, 640): [[16, [24, 32], [14, 18]], [32, [6, 6], 4], [256, [9, 9], 1]],
    (240, 320): [[16, [12, 16], [7, 9]], [32, [6, 6], 4], [256, [9, 9], 1]],
    (96, 96): [[16, [8, 8], 4], [32, [4, 4], 2], [256, [11, 11], 2]],
    (84, 84): [[16, [8, 8], 4], [32, [4, 4], 2], [256, [11, 11], 1]],
    (64, 64): [[32, [4, 4], 2], [64, [4, 4], 2], [128, [4, 4], 2], [256, [4, 4], 2]],
    (42, 42): [[16, [4, 4], 2], [32, [4, 4], 2], [256, [11, 11], 1]],
    (10, 10): [[16, [5, 5], 2], [32, [5, 5], 2]],
}
"""The convolutions of images of these heights and widths, [channels, kernel, stride] each, as RLlib has them."""
SMALL = 4
"""Images of other sizes are halved until no side is longer than this."""
MOST_CHANNELS = 256


@dataclass(frozen=True)
class ConvolutionOptions:
    """The options of the convolutions of a network.

    Attributes:
        filters: [channels, kernel, stride] of each, perhaps with a padding, `"same"` or `"valid"`, as a fourth. Without
            it all are padded but the last one. None: by the size of images.
        activation: The name of what follows each.
        zero_mean: Whether bytes become numbers from -1 to 1, and otherwise from 0 to 1.
    """

    filters: Sequence[Any] | None = None
    activation: str = "relu"
    zero_mean: bool = True


@dataclass(frozen=True)
class Convolution:
    """One convolution with an activation.

    Attributes:
        name: The prefix of its parameters' names.
        inputs: The number of input channels.
        outputs: The number of output channels.
        kernel: The size of the kernel, in rows and columns.
        stride: The stride.
        padding: `"same"` or `"valid"`; see `Ops.conv2d`.
        activation: The name of an activation.
        initializer: The initializer of its weight; its bias is 0 at first.
    """

    name: str
    inputs: int
    outputs: int
    kernel: Pair
    stride: Pair
    padding: str
    activation: str
    initializer: Initializer

    def parameters(self) -> list[Parameter]:
        """Return its weight and its bias."""
        shape = (*self.kernel, self.inputs, self.outputs)
        return [
            Parameter(f"{self.name}/weight", shape, self.initializer),
            Parameter(f"{self.name}/bias", (self.outputs,), initializers.zeros()),
        ]

    def size(self, height: int, width: int) -> Pair:
        """Return the height and width of what it gives for images of this size: not above 0 where it does not fit."""
        sides = zip((height, width), self.kernel, self.stride, strict=True)
        if self.padding == "same":
            rows, columns = (-(-length // step) for length, _, step in sides)
        else:
            rows, columns = ((length - kernel) // step + 1 for length, kernel, step in sides)
        return rows, columns

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return [N, rows, columns, outputs] for x [N, height, width, inputs]."""
        weight, bias = parameters[f"{self.name}/weight"], parameters[f"{self.name}/bias"]
        return nn.conv2d(x, weight, bias, self.stride, self.padding, self.activation)


@dataclass(frozen=True)
class ImageEncoder:
    """Convolutions over images, and dense layers after them.

    Attributes:
        shape: Height, width and channels of an image.
        convolutions: The convolutions, the first one first.
        dense: The dense layers.
        zero_mean: Whether bytes become numbers from -1 to 1, and otherwise from 0 to 1.
    """

    shape: tuple[int, int, int]
    convolutions: tuple[Convolution, ...]
    dense: Stack
    zero_mean: bool

    @property
    def outputs(self) -> int:
        """Return the width of what it gives."""
        return self.dense.outputs

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all layers."""
        found = [parameter for convolution in self.convolutions for parameter in convolution.parameters()]
        return [*found, *self.dense.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, x: Any) -> Any:
        """Return features [..., outputs] for images x [..., height, width, channels]."""
        before = x.shape[:-3]
        x = nn.constant(numbers_of(x, self.zero_mean))
        x = nn.reshape(x, (-1, *self.shape))
        for convolution in self.convolutions:
            x = convolution(nn, parameters, x)
        features = self.dense(nn, parameters, nn.reshape(x, (x.shape[0], self.dense.inputs)))
        return features if len(before) == 1 else nn.reshape(features, (*before, self.outputs))


def image_encoder(
    name: str,
    shape: Sequence[int],
    options: ConvolutionOptions,
    initializer: Initializer,
    *,
    widths: Sequence[int] = (),
    activation: str | None = None,
) -> ImageEncoder:
    """Return the convolutions that options describe, and dense layers after them.

    Args:
        name: The prefix of the names of parameters.
        shape: Height, width and channels of images.
        options: The options by which the convolutions are built.
        initializer: The initializer of weights.
        widths: The widths of the dense layers.
        activation: The name of their activation.

    Raises:
        ConfigError: If the filters don't fit the images.
    """
    height, width, channels = shape
    filters = filters_for(height, width) if options.filters is None else list(options.filters)
    layers: list[Convolution] = []
    left = (height, width)
    for index, (outputs, kernel, stride, padding) in enumerate(map(_spelt_out, filters)):
        layer = Convolution(
            f"{name}/convolution_{index}", channels, outputs, kernel, stride,
            padding or ("valid" if index == len(filters) - 1 else "same"),
            options.activation, initializer,
        )  # fmt: skip
        after = layer.size(*left)
        if min(after) < 1:
            raise ConfigError(
                f"model conv_filters[{index}] is {list(filters[index])}, but of images of {height} x {width} pixels "
                f"only {left[0]} x {left[1]} are left before it, fewer than its kernel has; make kernels or strides "
                "smaller, or give it the padding 'same' as a fourth"
            )
        layers.append(layer)
        channels, left = outputs, after
    dense = stack(f"{name}/dense", left[0] * left[1] * channels, widths, activation, initializer)
    return ImageEncoder((height, width, shape[2]), tuple(layers), dense, options.zero_mean)


def filters_for(height: int, width: int) -> list[Any]:
    """Return the filters for images of a size: RLlib's where it has some, else ones that halve them until small."""
    known = DEFAULT_FILTERS.get((height, width))
    if known is not None:
        return known
    filters: list[Any] = []
    longest = max(height, width)
    while longest > SMALL or not filters:
        filters.append([min(16 * 2 ** len(filters), MOST_CHANNELS), [3, 3], 2, "same"])
        longest = -(-longest // 2)
    return filters


def numbers_of(images: Any, zero_mean: bool) -> Any:
    """Return images of bytes as float32, from -1 to 1 or from 0 to 1; others as they are.

    The numbers are (x - 128) / 128, or x / 255.
    """
    if isinstance(images, np.ndarray):
        return _NUMBERS[zero_mean].take(images) if images.dtype == np.uint8 else images
    if str(images.dtype) != "torch.uint8":
        return images
    return (images.float() - 128) / 128 if zero_mean else images.float() / 255


def _spelt_out(layer: Any) -> tuple[int, Pair, Pair, str | None]:
    outputs, kernel, stride, *padding = layer
    return int(outputs), _pair(kernel), _pair(stride), padding[0] if padding else None


def _pair(value: Any) -> Pair:
    rows, columns = (value, value) if isinstance(value, int) else value
    return int(rows), int(columns)


_BYTES = np.arange(256, dtype=np.float32)
_NUMBERS: dict[bool, Array] = {True: (_BYTES - 128) / 128, False: _BYTES / 255}
"""The number for each byte of a picture."""
