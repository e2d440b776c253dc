"""Pictures made small and gray."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces.pixels import (
    AreaResize,
    GrayPreprocessor,
    MemoryPreprocessor,
    PixelPreprocessor,
    pixel_preprocessor,
)

ATARI = spaces.Box(0, 255, (210, 160, 3), np.uint8)


def pattern(height: int, width: int, channels: int) -> np.ndarray:
    index = np.arange(height * width * channels, dtype=np.uint64)
    return ((index * 2654435761) >> np.uint64(7)).astype(np.uint8).reshape(height, width, channels)


def slow_area_mean(picture: np.ndarray, new_height: int, new_width: int) -> np.ndarray:
    """Return each new pixel as the mean of what it covers, pixel by pixel."""
    height, width = picture.shape
    out = np.zeros((new_height, new_width))
    for row in range(new_height):
        for column in range(new_width):
            top, bottom = row * height / new_height, (row + 1) * height / new_height
            left, right = column * width / new_width, (column + 1) * width / new_width
            area = 0.0
            for y in range(int(top), int(np.ceil(bottom - 1e-9))):
                for x in range(int(left), int(np.ceil(right - 1e-9))):
                    share = (min(y + 1, bottom) - max(y, top)) * (min(x + 1, right) - max(x, left))
                    out[row, column] += share * picture[y, x]
                    area += share
            out[row, column] /= area
    return out


@pytest.mark.parametrize(("height", "width", "to"), [(21, 16, (8, 5)), (8, 8, (4, 2)), (5, 7, (5, 7)), (3, 2, (6, 5))])
def test_each_new_pixel_is_the_mean_of_what_it_covers(height: int, width: int, to: tuple[int, int]) -> None:
    picture = pattern(height, width, 2).astype(np.float32)
    small = AreaResize(height, width, *to).resized(picture)
    for channel in range(2):
        np.testing.assert_allclose(small[..., channel], slow_area_mean(picture[..., channel], *to), rtol=1e-4)


def test_pictures_of_atari_are_gray_and_84_by_84() -> None:
    gray = GrayPreprocessor(ATARI)
    colours = [np.full((210, 160, 3), colour, np.uint8) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    pictures = np.stack([pattern(210, 160, 3), *colours])
    small = gray.transform(pictures)
    assert small.shape == (4, 84, 84, 1) and small.dtype == np.uint8 and gray.space.contains(small[0])
    assert [np.unique(picture).tolist() for picture in small[1:]] == [[76], [150], [29]]
    mean = GrayPreprocessor(spaces.Box(0, 255, (4, 4, 1), np.uint8), dim=2).transform(pattern(4, 4, 1))
    np.testing.assert_allclose(mean[..., 0], slow_area_mean(pattern(4, 4, 1)[..., 0], 2, 2), atol=0.5)
    np.testing.assert_array_equal(gray.transform(pictures[0]), small[0])


def test_the_generic_preprocessor_crops_and_centres() -> None:
    pictures = np.zeros((210, 160, 3), np.uint8)
    pictures[25:-25] = 192
    small = PixelPreprocessor(ATARI).transform(pictures)
    assert small.shape == (84, 84, 3)
    np.testing.assert_allclose(small, 0.5, atol=1e-6)  # (192 - 128) / 128; the black borders are cut off
    small = PixelPreprocessor(ATARI, {"dim": 42, "grayscale": True, "zero_mean": False}).transform(pictures[None])
    assert small.shape == (1, 42, 42, 1)
    np.testing.assert_allclose(small, 192 / 255, rtol=1e-5)


def test_which_spaces_have_pixels() -> None:
    assert isinstance(pixel_preprocessor(ATARI), GrayPreprocessor)
    smaller = pixel_preprocessor(ATARI, options={"dim": 42})
    assert isinstance(smaller, GrayPreprocessor) and smaller.shape == (42, 42, 1)
    rllib = pixel_preprocessor(ATARI, "rllib")
    assert isinstance(rllib, PixelPreprocessor) and rllib.space.shape == (84, 84, 3)
    memory = pixel_preprocessor(spaces.Box(0, 255, (128,), np.uint8))
    assert isinstance(memory, MemoryPreprocessor)
    assert memory.transform(np.array([0, 128, 255], np.uint8)).tolist() == [-1.0, 0.0, 127 / 128]
    for other in (spaces.Box(0, 1, (84, 84, 3)), spaces.Box(0, 255, (4,), np.uint8), spaces.Discrete(3),
                  spaces.Box(0, 255, (8, 8, 5), np.uint8)):  # fmt: skip
        assert pixel_preprocessor(other) is None


def test_errors() -> None:
    with pytest.raises(SpaceError, match="^preprocessor_pref is 'gray', but must be one of 'deepmind', 'rllib'"):
        pixel_preprocessor(ATARI, "gray")
    with pytest.raises(SpaceError, match="is no space of pictures"):
        GrayPreprocessor(spaces.Box(0, 255, (4,), np.uint8))
