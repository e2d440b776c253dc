"""Sequences cut where episodes begin, for networks that can't clear what they remember within a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernel_rllib.arrays import Array


@dataclass(frozen=True)
class EpisodePieces:
    """B pieces of N sequences of T steps, lane after lane; each is of one episode, and none is longer than S steps.

    Attributes:
        rows: The row of each step of each piece among the T * N rows, step after step and sequence after sequence in
            each, int64 [B, S]. A shorter piece is filled up with its own last row.
        lengths: The number of steps of each piece, int64 [B].
        places: The place of each of the T * N rows among the B * S, int64 [T * N].
        lanes: The sequence that each piece is cut from, int64 [B].
        begins: Whether an episode begins with the piece, bool [B]. Others go on with what came before the sequence.
    """

    rows: Array
    lengths: Array
    places: Array
    lanes: Array
    begins: Array


def episode_pieces(resets: Array) -> EpisodePieces:
    """Return the pieces of sequences. `resets` is true where a step is the first of its episode, bool [T, N]."""
    steps, lanes = resets.shape
    cuts = resets.T.copy()
    cuts[:, 0] = True
    first = np.flatnonzero(cuts)  # in the order of lanes, and of steps in each
    lengths = np.diff(np.append(first, steps * lanes))
    piece = np.repeat(np.arange(len(first)), lengths)
    within = np.arange(steps * lanes) - first[piece]
    longest = int(lengths.max())
    inside = np.minimum(np.arange(longest), lengths[:, None] - 1) + first[:, None]
    places = (piece * longest + within).reshape(lanes, steps).T.reshape(-1)
    return EpisodePieces(
        rows=inside % steps * lanes + inside // steps,
        lengths=lengths,
        places=places,
        lanes=first // steps,
        begins=resets.T.reshape(-1)[first],
    )
