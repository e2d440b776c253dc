"""A space of lists: up to `max_len` values of one space, such as the objects that are in view just now."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space


class Repeated(Space[list[Any]]):
    """Lists of at most `max_len` values of `child_space`.

    Lanes of it are kept as their lengths and as values that are padded to `max_len`; see `nested.empty`.
    """

    def __init__(self, child_space: Space[Any], max_len: int) -> None:
        super().__init__()
        self.child_space = child_space
        self.max_len = max_len

    @property
    def is_np_flattenable(self) -> bool:
        """True: it has a greatest length."""
        return True

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        """Return a list of random length."""
        count = int(self.np_random.integers(0, self.max_len + 1))
        return [self.child_space.sample() for _ in range(count)]

    def seed(self, seed: Any = None) -> Any:
        """Seed the lengths and the values of later samples."""
        self.child_space.seed(seed)
        return super().seed(seed)

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a list of at most `max_len` values of the child space."""
        return isinstance(x, (list, tuple)) and len(x) <= self.max_len and all(map(self.child_space.contains, x))

    def __repr__(self) -> str:
        return f"Repeated({self.child_space}, {self.max_len})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Repeated) and other.child_space == self.child_space and other.max_len == self.max_len
