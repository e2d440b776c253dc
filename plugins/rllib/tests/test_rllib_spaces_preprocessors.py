"""Preprocessors of the first generation: which class for which space, and what becomes of an observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces.preprocessors import Preprocessor, get_preprocessor
from kernel_rllib.spaces.repeated import Repeated

PARTS = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (2,))})


@pytest.mark.parametrize(
    ("space", "name", "observation", "expected"),
    [
        (spaces.Discrete(25), "OneHotPreprocessor", 3, np.eye(25)[3]),
        (spaces.MultiDiscrete([2, 2]), "OneHotPreprocessor", [1, 0], [0, 1, 1, 0]),
        (spaces.Box(-9, 9, (4,)), "NoPreprocessor", [1, 2, 3, 4], [1, 2, 3, 4]),
        (PARTS, "DictFlatteningPreprocessor", {"b": [0.5, -1], "a": 1}, [0, 1, 0.5, -1]),
        (spaces.Tuple([PARTS, spaces.Discrete(2)]), "TupleFlatteningPreprocessor", ({"b": [0, 1], "a": 0}, 1),
         [1, 0, 0, 1, 0, 1]),
        (Repeated(spaces.Discrete(2), 2), "RepeatedValuesPreprocessor", [1], [1, 0, 1, 0, 0]),
        (spaces.Box(0, 255, (128,), np.uint8), "AtariRamPreprocessor", np.full(128, 192), np.full(128, 0.5)),
        (spaces.MultiBinary(2), "NoPreprocessor", [1, 0], [1, 0]),
    ],
)  # fmt: skip
def test_observations_become_rows(space: spaces.Space[Any], name: str, observation: Any, expected: Any) -> None:
    cls = get_preprocessor(space)
    assert cls.__name__ == name
    preprocessor = cls(space)
    found = preprocessor.transform(observation)
    np.testing.assert_allclose(found, expected)
    assert found.shape == preprocessor.shape and preprocessor.size == found.size
    row = np.full(preprocessor.size + 3, 7.0)
    preprocessor.write(observation, row, 2)
    np.testing.assert_allclose(row, [7, 7, *np.ravel(expected), 7])
    preprocessor.check_shape(observation)
    assert preprocessor.observation_space.shape == preprocessor.shape
    flattened = getattr(preprocessor.observation_space, "original_space", None)
    assert (flattened == space) == ("Flattening" in name or "OneHot" in name or "Repeated" in name)


def test_screens_become_small() -> None:
    space = spaces.Box(0, 255, (210, 160, 3), np.uint8)
    preprocessor = get_preprocessor(space)(space)
    assert type(preprocessor).__name__ == "GenericPixelPreprocessor"
    assert preprocessor.transform(np.zeros((210, 160, 3), np.uint8)).shape == (84, 84, 3)
    assert get_preprocessor(space)(space, {"dim": 42, "grayscale": True}).shape == (42, 42, 1)


def test_what_does_not_fit_is_named() -> None:
    preprocessor = get_preprocessor(PARTS)(PARTS)
    with pytest.raises(SpaceError, match=r"^DictFlatteningPreprocessor.transform\(\) got a dict without"):
        preprocessor.check_shape({"a": 1})
    with pytest.raises(SpaceError, match="^there is no preprocessor for Sequence"):
        get_preprocessor(spaces.Sequence(spaces.Discrete(2)))
    with pytest.raises(SpaceError, match="has no fixed size"):
        get_preprocessor(spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]))


def test_own_preprocessors() -> None:
    class Half(Preprocessor):
        def _init_shape(self, obs_space: Any, options: dict[str, Any]) -> tuple[int, ...]:
            return (options["size"],)

        def transform(self, observation: Any) -> Any:
            return np.asarray(observation)[: self.shape[0]]

    half = Half(spaces.Box(-9, 9, (4,)), {"size": 2})
    assert half.shape == (2,) and half.transform([1, 2, 3, 4]).tolist() == [1, 2]

    class Nothing(Half):
        transform = Preprocessor.transform

    with pytest.raises(NotImplementedError, match="^Nothing has no transform"):
        Nothing(spaces.Box(-9, 9, (4,)), {"size": 2}).transform([1])
    with pytest.raises(NotImplementedError, match="^Preprocessor has no _init_shape"):
        Preprocessor(spaces.Discrete(2))
