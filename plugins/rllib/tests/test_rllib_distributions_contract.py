"""What each distribution says of itself: modules, samplers and learners go by it."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_rllib.distributions import (
    Beta,
    Bounds,
    Categorical,
    Deterministic,
    Dirichlet,
    Distribution,
    Gaussian,
    GumbelSoftmax,
    MultiBinary,
    MultiCategorical,
    Noise,
    Product,
    SquashedGaussian,
)
from kernel_rllib.distributions.distribution import numpy_dtype, open_unit

BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))

TABLE: list[tuple[Distribution, int, int, Noise, bool, bool, int]] = [
    # parameters, numbers of an action, noise, discrete, reparameterised, free parameters
    (Categorical(4, 2), 4, 1, Noise("uniform", 1), True, False, 0),
    (MultiCategorical((3, 2, 2)), 7, 3, Noise("uniform", 3), True, False, 0),
    (MultiBinary(3), 3, 3, Noise("uniform", 3), True, False, 0),
    (Gaussian(3), 6, 3, Noise("normal", 3), False, True, 0),
    (Gaussian(3, free_log_std=True), 6, 3, Noise("normal", 3), False, True, 3),
    (SquashedGaussian(BOUNDS), 4, 2, Noise("normal", 2), False, True, 0),
    (SquashedGaussian(BOUNDS, free_log_std=True), 4, 2, Noise("normal", 2), False, True, 2),
    (Beta(BOUNDS), 4, 2, Noise("uniform", 2), False, False, 0),
    (Dirichlet(3), 3, 3, Noise("uniform", 3), False, False, 0),
    (GumbelSoftmax(3), 3, 3, Noise("uniform", 3), False, True, 0),
    (Deterministic(2), 2, 2, Noise("uniform", 0), False, True, 0),
    (Product((Gaussian(2), SquashedGaussian(BOUNDS))), 8, 4, Noise("normal", 4), False, True, 0),
    (Product((Gaussian(2), MultiBinary(3))), 7, 5, Noise("uniform", 5), False, False, 0),
]


@pytest.mark.parametrize("row", TABLE, ids=[repr(row[0]) for row in TABLE])
def test_a_distribution_says_what_it_takes_and_gives(
    row: tuple[Distribution, int, int, Noise, bool, bool, int],
) -> None:
    distribution, *expected = row
    said = [
        distribution.parameter_size,
        distribution.action_size,
        distribution.noise,
        distribution.discrete,
        distribution.reparameterised,
        distribution.free_size,
    ]
    assert said == expected and [type(one) for one in said] == [type(one) for one in expected]


def test_distributions_with_the_same_numbers_are_equal() -> None:
    assert Gaussian(2) == Gaussian(2) and hash(Gaussian(2)) == hash(Gaussian(2))
    assert Gaussian(2) != Gaussian(2, free_log_std=True)
    assert SquashedGaussian(BOUNDS) != SquashedGaussian(Bounds((-1.0, 0.0), (3.0, 0.6)))
    assert repr(SquashedGaussian(Bounds((0.0,), (1.0,)))) == (
        "SquashedGaussian(bounds=Bounds(low=(0.0,), high=(1.0,)), log_std_bounds=(-20.0, 2.0), free_log_std=False)"
    )


def test_uniform_numbers_are_kept_off_both_ends() -> None:
    found = open_unit(np.array([0.0, 0.25, 1 - 2.0**-24, 1.0], np.float32))
    assert found.dtype == np.float64
    assert found.tolist() == [2.0**-25, 0.25, 1 - 2.0**-24, 1 - 2.0**-25]


def test_the_dtype_of_other_backends_is_known_by_its_name() -> None:
    class Tensor:
        def __init__(self, dtype: str) -> None:
            self.dtype = dtype

    names = {"torch.float64": np.float64, "torch.float32": np.float32, "torch.bfloat16": np.float32}
    for name, expected in names.items():
        assert numpy_dtype(Tensor(name)) == np.dtype(expected)
    assert numpy_dtype(np.zeros(1, np.float64)) == np.float64
