"""Some of the last fragments again, beside new ones: the replay of IMPALA (Espeholt et al., 2018, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.data.fragment import Fragment


class FragmentReplay:
    """Keeps the last fragments, and gives as many of them again as it is told for each new one."""

    def __init__(self, slots: int, proportion: float, stream: np.random.Generator) -> None:
        """Keep nothing yet.

        Args:
            slots: The number of fragments that are kept; then the oldest go.
            proportion: The number that are given again for each new one; the fraction is the chance of one more.
            stream: The generator of random numbers that fragments are drawn by.
        """
        self._slots, self._proportion, self._stream = slots, proportion, stream
        self._kept: list[Fragment] = []

    def with_older(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """Return these fragments, each followed by kept ones, drawn with equal chances; keep them, too."""
        if not self._slots or not self._proportion:
            return list(fragments)
        found = []
        for fragment in fragments:
            found.append(fragment)
            found += [self._kept[index] for index in self._drawn()]
            self._kept = [*self._kept, fragment][-self._slots :]
        return found

    def state(self) -> dict[str, Any]:
        """Return what is kept, and where the draws are, as arrays and plain values."""
        kept = {str(index): fragment.arrays() for index, fragment in enumerate(self._kept)}
        return {"fragments": kept, "stream": self._stream.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        kept = state["fragments"]
        self._kept = [Fragment.of_arrays(kept[str(index)]) for index in range(len(kept))]
        self._stream.bit_generator.state = state["stream"]

    def _drawn(self) -> np.ndarray[Any, Any]:
        number = int(self._proportion) + int(self._stream.random() < self._proportion % 1)
        return self._stream.integers(len(self._kept), size=number if self._kept else 0)
