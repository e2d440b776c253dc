"""Which distribution an action space gets, how wide its parameters are, and what is refused."""

from __future__ import annotations

import pickle
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
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
    Product,
    SquashedGaussian,
    for_space,
)
from kernel_rllib.errors import SpaceError
from kernel_rllib.nn.numpy_ops import NumpyOps

BOX = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))
BOUNDS = Bounds((-1.0, 0.0), (3.0, 0.5))
UNBOUNDED = spaces.Box(-np.inf, np.inf, (2,))


class Simplex(gymnasium.Space):
    """As RLlib's: positive numbers that sum to 1."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape, np.float32)


class MyDiscrete(spaces.Discrete):
    """A class of a user's own."""


CASES: dict[str, tuple[Any, dict[str, Any], Distribution, int]] = {
    # what: (space, choices, distribution, width of its parameters)
    "discrete": (spaces.Discrete(3), {}, Categorical(3), 3),
    "discrete from 5": (spaces.Discrete(3, start=5), {}, Categorical(3, 5), 3),
    "a class of one's own": (MyDiscrete(2, start=-1), {}, Categorical(2, -1), 2),
    "relaxed": (
        spaces.Discrete(3), {"discrete": "gumbel_softmax", "temperature": 0.5}, GumbelSoftmax(3, 0.5), 3,
    ),
    "one-hot": (
        spaces.Discrete(3), {"discrete": "gumbel_softmax", "straight_through": True},
        GumbelSoftmax(3, 1.0, straight_through=True), 3,
    ),
    "multi discrete": (spaces.MultiDiscrete([2, 3]), {}, MultiCategorical((2, 3)), 5),
    "multi discrete from other numbers": (
        spaces.MultiDiscrete([2, 3], start=[4, 0]), {}, MultiCategorical((2, 3), (4, 0)), 5,
    ),
    "a matrix of choices": (spaces.MultiDiscrete([[2, 3], [4, 5]]), {}, MultiCategorical((2, 3, 4, 5)), 14),
    "multi binary": (spaces.MultiBinary(4), {}, MultiBinary(4), 4),
    "a matrix of bits": (spaces.MultiBinary([2, 3]), {}, MultiBinary(6), 6),
    "box": (BOX, {}, Gaussian(2), 4),
    "box without bounds": (UNBOUNDED, {}, Gaussian(2), 4),
    "a matrix": (spaces.Box(-1, 1, (2, 3)), {}, Gaussian(6), 12),
    "a number": (spaces.Box(-1, 1, ()), {}, Gaussian(1), 2),
    "free deviations": (
        BOX, {"free_log_std": True, "log_std_bounds": (-5, 1)}, Gaussian(2, (-5, 1), free_log_std=True), 4,
    ),
    "squashed": (
        BOX, {"box": "squashed_gaussian", "free_log_std": True}, SquashedGaussian(BOUNDS, free_log_std=True), 4,
    ),
    "beta": (BOX, {"box": "beta"}, Beta(BOUNDS), 4),
    "deterministic": (BOX, {"box": "deterministic"}, Deterministic(2, BOUNDS), 2),
    "deterministic without bounds": (UNBOUNDED, {"box": "deterministic"}, Deterministic(2), 2),
    "whole numbers": (
        spaces.Box(np.array([-1, 0]), np.array([1, 4]), dtype=np.int32), {}, MultiCategorical((3, 5), (-1, 0)), 8,
    ),
    "bytes": (spaces.Box(0, 255, (2,), np.uint8), {}, MultiCategorical((256, 256)), 512),
    "simplex": (Simplex((3,)), {}, Dirichlet(3), 3),
    "dict": (
        spaces.Dict({"b": spaces.Discrete(2), "a": BOX}), {}, Product((Gaussian(2), Categorical(2))), 6,
    ),
    "nested": (
        spaces.Tuple([spaces.Dict(x=BOX, y=spaces.Tuple([spaces.MultiBinary(2)])), spaces.Discrete(3, start=1)]),
        {"box": "squashed_gaussian"},
        Product((SquashedGaussian(BOUNDS), MultiBinary(2), Categorical(3, 1))), 9,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_a_space_gets_its_distribution(what: str) -> None:
    space, choices, expected, width = CASES[what]
    found = for_space(space, **choices)
    assert found == expected and hash(found) == hash(expected)
    assert found.parameter_size == width
    assert found.free_size == (2 if choices.get("free_log_std") else 0)
    again = pickle.loads(pickle.dumps(found))
    assert again == found


def as_space_has_it(space: Any, action: np.ndarray) -> Any:
    """Return one row of actions in the shape that the space wants."""
    if isinstance(space, spaces.Discrete):
        return np.int64(action)
    return np.asarray(action, space.dtype).reshape(space.shape)


@pytest.mark.parametrize("what", [w for w, (space, *_) in CASES.items() if not isinstance(space, Simplex)])
def test_samples_and_modes_are_in_the_space(what: str) -> None:
    space, choices, _, _ = CASES[what]
    distribution, nn = for_space(space, **choices), NumpyOps(np.float32)
    if isinstance(distribution, Gaussian | GumbelSoftmax):
        return  # which do not keep to bounds, and which give parts
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(20, distribution.parameter_size)).astype(np.float32)
    shape = 20, distribution.noise.width
    noise = generator.random(shape, np.float32)
    if distribution.noise.kind == "normal":
        noise = generator.standard_normal(shape, np.float32)
    leaves = list(_leaves(space))
    for actions in (distribution.sample(nn, inputs, noise), distribution.mode(nn, inputs)):
        parts = distribution.split(actions) if isinstance(distribution, Product) else [actions]
        for leaf, part, kind in zip(leaves, parts, getattr(distribution, "parts", (distribution,)), strict=True):
            if not isinstance(kind, Gaussian):
                assert all(leaf.contains(as_space_has_it(leaf, row)) for row in part)


def _leaves(space: Any) -> Any:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from _leaves(part)
    else:
        yield space


def test_what_comes_from_another_library_is_known_by_its_names() -> None:
    """As the spaces of old gym are, which is not installed."""

    class Discrete:
        n = 4

    class Box:
        low, high, shape, dtype = np.zeros(3), np.ones(3), (3,), np.dtype("float64")

    class Dict:
        spaces = {"one": Discrete(), "two": Box()}

    assert for_space(Dict()) == Product((Categorical(4), Gaussian(3)))


KNOWN = (
    "for: Discrete, MultiDiscrete, MultiBinary, Box, Simplex, Dict and Tuple were expected. Change the environment's"
)
MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "text": (
        spaces.Text(3, charset="ab"), {},
        "action_space is Text(1, 3, charset=ab), of the class Text, which no distribution of actions is known "
        f"{KNOWN} space by a wrapper, or give the module a distribution of your own",
    ),
    "a part that is unknown": (
        spaces.Dict(hand=spaces.Tuple([BOX, spaces.Sequence(BOX)])), {}, "action_space['hand'][1] is Sequence(...",
    ),
    "no space at all": (3, {}, "action_space is 3, of the class int, which no distribution of actions is known..."),
    "nothing in it": (
        spaces.Dict(), {}, "action_space is an empty Dict: give it at least one space, or leave it out",
    ),
    "no components": (
        spaces.Box(-1, 1, (0,)), {},
        "action_space is Box([], [], (0,), float32): it has no components: one or more were expected",
    ),
    "no choices": (
        spaces.Box(0, 1, (0,), np.int64), {},
        "action_space is Box([], [], (0,), int64): it has no components: one or more were expected",
    ),
    "bounds that are missing": (
        spaces.Dict(arm=UNBOUNDED), {"box": "squashed_gaussian"},
        "action_space['arm'] is Box(-inf, inf, (2,), float32): component 0 is bounded by -inf and inf: finite bounds, "
        "the lower one first, were expected. Give the Box such bounds, or use the distribution 'gaussian', which needs "
        "none",
    ),
    "a bound that only looks like one": (
        spaces.Box(-1, np.finfo(np.float32).max, (1,)), {"box": "beta"}, "...finite bounds, the lower one first,...",
    ),
    "a bound on one side": (
        spaces.Box(0, np.inf, (2,)), {"box": "deterministic"},
        "...component 0 is bounded by 0.0 and inf: finite bounds,...",
    ),
    "a component that can't move": (
        spaces.Box(1, 1, (1,)), {"box": "beta"}, "...component 0 is bounded by 1.0 and 1.0: finite bounds,...",
    ),
    "too many numbers": (
        spaces.Box(0, 2**40, (1,), np.int64), {},
        "action_space is Box(0, 1099511627776, (1,), int64): an integer of this Box has 1099511627777 values, each of "
        "which would get a logit, and 65536 are the most. Give it narrower bounds, or make it a Box of floats and "
        "round in the environment",
    ),
    "a matrix of simplices": (
        Simplex((2, 3)), {}, "...: a simplex of one dimension was expected: make a Tuple of several",
    ),
    "an unknown choice for boxes": (
        BOX, {"box": "gausian"},
        "box='gausian' is no distribution for such a space: give one of ['beta', 'deterministic', 'gaussian', "
        "'squashed_gaussian']",
    ),
    "an unknown choice for numbers": (
        BOX, {"discrete": "beta"},
        "discrete='beta' is no distribution for such a space: give one of ['categorical', 'gumbel_softmax']",
    ),
    "deviations that are not there": (
        BOX, {"box": "beta", "free_log_std": True},
        "free_log_std is set, but 'beta' has no standard deviation: leave it out, or choose 'gaussian' or "
        "'squashed_gaussian'",
    ),
    "deviations of numbers": (
        spaces.Discrete(2), {"free_log_std": True},
        "free_log_std is set, but the action space is Discrete(2): it is for a Box alone. Leave it out",
    ),
    "bounds the wrong way round": (
        BOX, {"log_std_bounds": (2, -20)}, "log_std_bounds are (2, -20): give two numbers, the lower one first",
    ),
    "a temperature of zero": (BOX, {"temperature": 0.0}, "temperature is 0.0: give a number above 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_named(what: str) -> None:
    space, choices, message = MISTAKES[what]
    with pytest.raises(SpaceError) as caught:
        for_space(space, **choices)
    pattern = ".*".join(re.escape(part) for part in message.split("..."))
    assert re.fullmatch(pattern, str(caught.value)) and isinstance(caught.value, ValueError)


def test_bounds_come_in_pairs() -> None:
    with pytest.raises(SpaceError) as caught:
        Bounds((0.0,), (1.0, 2.0))
    assert str(caught.value) == "1 low bounds and 2 high ones: give as many of each"


def test_neither_gymnasium_nor_scipy_is_imported_before_it_is_needed() -> None:
    import subprocess
    import sys

    names = "'gymnasium' in sys.modules, 'scipy' in sys.modules"
    program = f"import sys, kernel_rllib.distributions, kernel_rllib.returns; print({names})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
